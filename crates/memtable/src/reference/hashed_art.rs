//! Radix tree with a hash table in front, for comparison: the tree has order, the table answers lookups.
//!
//! An insertion does the work of both, and takes 21 to 43 bytes more. The tree alone inserts faster and, from
//! some 100,000 entries on, looks up as fast (`docs/experiments/memtables.md`). Lookups, insertions and moves
//! of cursors are wait-free.

use crate::arena::Allocator;
use crate::art::{Art, ArtWriter};
use crate::entry::{Entry, Operation};
use crate::hash::hashes;
use crate::memory::Memory;
use crate::table::{Table, TableWriter};

#[derive(Clone, Debug)]
pub(crate) struct HashedArt {
    pub(crate) tree: Art,
    pub(crate) table: Table,
}

/// The right to insert into a tree with a table in front.
///
/// A reader may find a version in one of the two before it is in the other. What it must see is in both: the
/// engine publishes the sequence number after the insertion (MT2).
#[derive(Debug)]
pub(crate) struct HashedArtWriter {
    tree: ArtWriter,
    table: TableWriter,
}

impl HashedArtWriter {
    pub(crate) fn create(
        memory: &Memory,
        allocator: &mut Allocator,
        seed: u64,
    ) -> (HashedArt, HashedArtWriter) {
        let (tree, tree_writer) = ArtWriter::create(memory, allocator);
        let (table, table_writer) = TableWriter::create(memory, allocator, seed);
        (HashedArt { tree, table }, HashedArtWriter { tree: tree_writer, table: table_writer })
    }

    /// Inserts at most `LOCKSTEP_KEYS` operations in order; returns how many keys are new.
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        let hashes = hashes(&self.table, memory, chunk);
        // The tree writes entries contiguously.
        let mut entry = Entry(allocator.next_entry());
        let new_keys = self.tree.insert_chunk(memory, allocator, chunk);
        for (operation, hash) in chunk.iter().zip(hashes) {
            debug_assert_eq!(entry.tag(memory), operation.tag, "the tree wrote another entry here");
            let place = self.table.place(memory, allocator, hash, operation.key);
            self.table.put(memory, place, entry);
            entry = entry.following(memory);
        }
        new_keys
    }
}
