//! The structure of a memtable, whichever it is: what readers ask of it, and what its writer does.
//!
//! Each call dispatches on a closed set. The default kind comes first and is meant to be inlined.

use crate::arena::Allocator;
use crate::art::{Art, ArtWriter};
use crate::entry::{Entry, Operation};
use crate::kind::MemtableKind;
use crate::memory::Memory;
use crate::skiplist::{Skiplist, SkiplistWriter};
use crate::{LOCKSTEP_KEYS, MULTI_GET_KEYS};

/// A structure as its readers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Structure {
    Art(Art),
    Skiplist(Skiplist),
}

/// The one writer of a structure.
#[derive(Debug)]
pub(crate) enum Writer {
    Art(ArtWriter),
    Skiplist(SkiplistWriter),
}

impl Structure {
    pub(crate) fn create(
        kind: MemtableKind,
        memory: &Memory,
        allocator: &mut Allocator,
    ) -> (Structure, Writer) {
        match kind {
            MemtableKind::Art => {
                let (tree, writer) = ArtWriter::create(memory, allocator);
                (Structure::Art(tree), Writer::Art(writer))
            }
            MemtableKind::Skiplist => {
                let (list, writer) = SkiplistWriter::create(memory, allocator);
                (Structure::Skiplist(list), Writer::Skiplist(writer))
            }
        }
    }

    /// The newest version of `key`, or no entry.
    #[inline(always)]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        match self {
            Structure::Art(tree) => tree.find(memory, key),
            Structure::Skiplist(list) => list.find(memory, key),
        }
    }

    /// [`Structure::find`] for those keys whose bit is set in `wanted`.
    #[inline(always)]
    pub(crate) fn find_many(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        match self {
            Structure::Art(tree) => tree.find_many(memory, keys, wanted, found),
            Structure::Skiplist(list) => list.find_many(memory, keys, wanted, found),
        }
    }
}

impl Writer {
    /// Inserts one operation; returns whether its key is new.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        match self {
            Writer::Art(writer) => writer.insert(memory, allocator, operation),
            Writer::Skiplist(writer) => writer.insert(memory, allocator, operation),
        }
    }

    /// Inserts at most [`LOCKSTEP_KEYS`] operations in order; returns how many keys are new.
    #[inline(always)]
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        debug_assert!(chunk.len() <= LOCKSTEP_KEYS);
        if let Writer::Art(writer) = self {
            return writer.insert_chunk(memory, allocator, chunk);
        }
        chunk.iter().map(|operation| usize::from(self.insert(memory, allocator, operation))).sum()
    }
}
