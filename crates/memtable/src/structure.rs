//! The structure of a memtable, whichever it is: what readers ask of it, and what its writer does.
//!
//! Each call dispatches on a closed set. The default kind comes first and is meant to be inlined.

use crate::arena::Allocator;
use crate::art::{Art, ArtPosition, ArtWriter};
use crate::entry::{Entry, Operation};
use crate::kind::MemtableKind;
use crate::locked::{LockedPosition, LockedTree, LockedTreeWriter};
use crate::memory::Memory;
use crate::sharded::{Sharded, ShardedWriter};
use crate::skiplist::{Skiplist, SkiplistPosition, SkiplistWriter};
use crate::{LOCKSTEP_KEYS, MULTI_GET_KEYS};

/// A structure as its readers know it.
#[derive(Clone, Debug)]
pub(crate) enum Structure {
    Art(Art),
    Skiplist(Skiplist),
    Sharded(Sharded),
    LockedTree(LockedTree),
}

/// The one writer of a structure.
#[derive(Debug)]
pub(crate) enum Writer {
    Art(ArtWriter),
    Skiplist(SkiplistWriter),
    Sharded(ShardedWriter),
    LockedTree(LockedTreeWriter),
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
            MemtableKind::Sharded(plan) => {
                let (sharded, writer) = ShardedWriter::create(plan, memory, allocator);
                (Structure::Sharded(sharded), Writer::Sharded(writer))
            }
            MemtableKind::LockedTree => {
                let (tree, writer) = LockedTreeWriter::create();
                (Structure::LockedTree(tree), Writer::LockedTree(writer))
            }
        }
    }

    /// The newest version of `key`, or no entry.
    #[inline(always)]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        match self {
            Structure::Art(tree) => tree.find(memory, key),
            other => other.find_otherwise(memory, key),
        }
    }

    #[inline(never)]
    fn find_otherwise(&self, memory: &Memory, key: &[u8]) -> Entry {
        match self {
            Structure::Art(tree) => tree.find(memory, key),
            Structure::Skiplist(list) => list.find(memory, key),
            Structure::Sharded(sharded) => sharded.find(memory, key),
            Structure::LockedTree(tree) => tree.find(memory, key),
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
            other => other.find_many_otherwise(memory, keys, wanted, found),
        }
    }

    #[inline(never)]
    fn find_many_otherwise(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        for (index, key) in keys.iter().enumerate() {
            if wanted >> index & 1 != 0 {
                found[index] = self.find_otherwise(memory, key);
            }
        }
    }

    /// The newest version of the least key, or no entry.
    pub(crate) fn first(&self, memory: &Memory) -> Entry {
        match self {
            Structure::Art(tree) => ArtPosition::new(*tree).seek_to_first(memory),
            Structure::Skiplist(list) => SkiplistPosition::new(*list).seek_to_first(memory),
            Structure::Sharded(sharded) => sharded.first(memory),
            Structure::LockedTree(tree) => LockedPosition::new(tree.clone()).seek_to_first(memory),
        }
    }

    /// The newest version of the greatest key, or no entry.
    pub(crate) fn last(&self, memory: &Memory) -> Entry {
        match self {
            Structure::Art(tree) => ArtPosition::new(*tree).seek_to_last(memory),
            Structure::Skiplist(list) => SkiplistPosition::new(*list).seek_to_last(memory),
            Structure::Sharded(sharded) => sharded.last(memory),
            Structure::LockedTree(tree) => LockedPosition::new(tree.clone()).seek_to_last(memory),
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
            other => other.insert_otherwise(memory, allocator, operation),
        }
    }

    #[inline(never)]
    fn insert_otherwise(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        match self {
            Writer::Art(writer) => writer.insert(memory, allocator, operation),
            Writer::Skiplist(writer) => writer.insert(memory, allocator, operation),
            Writer::Sharded(writer) => writer.insert(memory, allocator, operation),
            Writer::LockedTree(writer) => writer.insert(memory, allocator, operation),
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
        match self {
            Writer::Art(writer) => writer.insert_chunk(memory, allocator, chunk),
            other => chunk
                .iter()
                .map(|operation| usize::from(other.insert_otherwise(memory, allocator, operation)))
                .sum(),
        }
    }
}
