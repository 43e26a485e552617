//! Hash tables as memtables: alone, or in front of the radix tree.
//!
//! * **Alone** (`hash`): one probe for an insertion, one for a lookup, whatever the keys look like, and no
//!   order until somebody asks ([`crate::order`]): then each key's first version is sorted, once, on the
//!   flush thread as a rule, and the newest is found by a probe at each step. The mode for bulk loads and for
//!   keyspaces that are read by key alone.
//! * **In front of the radix tree** (`hashed-art`): the tree has order, the table answers lookups. A put pays
//!   for both, and 21 to 43 bytes more. It pays where memtables are read by key more often than written. Off
//!   unless chosen.
//!
//! Measured with `memtable_bench`, 50,000 keys, decimal and random ones, while the machine was busy with
//! other work (ns):
//!
//! | | insertion | in batches | lookup | 32 lookups together | step |
//! |---|---|---|---|---|---|
//! | radix tree | 133, 119 | 128, 68 | 200, 175 | 81, 51 | 57, 107 |
//! | `hash` | 85, 117 | 65, 87 | 148, 266 | 50, 66 | 348, 250 |
//! | `hashed-art` | 230, 192 | 223, 160 | 179, 153 | 55, 67 | 57, 81 |
//!
//! A prototype whose table had its final size from the start had 31 ns an insertion and 55 a lookup, on a
//! quieter machine; here the table grows from nothing, so that a memtable that stays small clears little.
//!
//! Lookups and insertions are wait-free in both ([`crate::table`]), moves of cursors only in the latter.

use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;
use crate::art::{Art, ArtWriter};
use crate::entry::{Entry, Operation};
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::order::{Log, Order};
use crate::table::{Table, TableWriter};
use crate::vector::OrderedPosition;
use esker_base::Tag;
use std::sync::Arc;

/// The table alone, as readers know it.
#[derive(Clone, Debug)]
pub(crate) struct Hash {
    pub(crate) table: Table,
    pub(crate) order: Arc<Order>,
}

/// The right to insert into a table alone.
#[derive(Debug)]
pub(crate) struct HashWriter {
    log: Log,
    table: TableWriter,
}

impl HashWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator, seed: u64) -> (Hash, HashWriter) {
        let log = Log::create(memory, allocator);
        let (table, writer) = TableWriter::create(memory, allocator, seed);
        (Hash { table, order: Arc::new(Order::new(log)) }, HashWriter { log, table: writer })
    }

    /// Inserts at most [`LOCKSTEP_KEYS`] operations in order; returns how many keys are new.
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        let mut new_keys = 0;
        for (operation, hash) in chunk.iter().zip(hashes(&self.table, memory, chunk)) {
            let place = self.table.place(memory, allocator, hash, operation.key);
            let entry = Entry::write(memory, allocator, operation, place.entry);
            new_keys += usize::from(self.table.put(memory, place, entry));
        }
        self.log.publish(memory, allocator);
        new_keys
    }
}

/// The hashes of a chunk's keys, whose places are asked for.
fn hashes(table: &TableWriter, memory: &Memory, chunk: &[Operation<'_>]) -> [u32; LOCKSTEP_KEYS] {
    let mut hashes = [0; LOCKSTEP_KEYS];
    for (operation, hash) in chunk.iter().zip(&mut hashes) {
        *hash = table.hash(operation.key);
        table.prefetch(memory, *hash);
    }
    hashes
}

/// A position among the keys of a table alone: in the order of their first versions.
#[derive(Debug)]
pub(crate) struct HashPosition {
    table: Table,
    ordered: OrderedPosition,
}

impl HashPosition {
    pub(crate) fn new(memtable: &Arc<Memtable>, hash: &Hash) -> HashPosition {
        HashPosition { table: hash.table.clone(), ordered: OrderedPosition::new(memtable, &hash.order) }
    }

    /// The newest version of the key of which this is the first.
    fn newest(&self, memory: &Memory, first: Entry) -> Entry {
        if first.is_none() { first } else { self.table.find(memory, first.key(memory)) }
    }

    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        let first = self.ordered.seek_to_first();
        self.newest(memory, first)
    }

    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        let first = self.ordered.seek_to_last();
        self.newest(memory, first)
    }

    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let first = self.ordered.seek(key, Tag::NEWEST);
        self.newest(memory, first)
    }

    pub(crate) fn seek_before(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let first = self.ordered.seek_before(key);
        self.newest(memory, first)
    }

    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        let first = self.ordered.next();
        self.newest(memory, first)
    }

    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        let first = self.ordered.prev();
        self.newest(memory, first)
    }
}

/// The radix tree with a table in front, as readers know it.
#[derive(Clone, Debug)]
pub(crate) struct HashedArt {
    pub(crate) tree: Art,
    pub(crate) table: Table,
}

/// The right to insert into a tree with a table in front.
///
/// A reader may meet a version in one of the two before it is in the other. What it must see is in both: the
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

    /// Inserts at most [`LOCKSTEP_KEYS`] operations in order; returns how many keys are new.
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        let hashes = hashes(&self.table, memory, chunk);
        // The tree writes each entry behind the one before.
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
