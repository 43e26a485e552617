//! Hash table as a memtable, sorted by the first ordered read.
//!
//! One probe for an insertion, one for a lookup, whatever the keys, and no order until an ordered read
//! ([`crate::order`]): that sorts each key's first version once, mostly on the flush thread, and finds the
//! newest by a probe at each step. For bulk loads and for keyspaces that are read by key alone.
//!
//! The table grows from nothing, so that a memtable that stays small clears little. Lookups and insertions
//! are wait-free ([`crate::table`]), moves of cursors are not.

use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;

use crate::entry::{Entry, Operation};
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::order::{EntryLog, Order};
use crate::table::{Table, TableWriter};
use crate::vector::OrderedPosition;
use esker_base::Tag;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Hash {
    pub(crate) table: Table,
    pub(crate) order: Arc<Order>,
}

/// The right to insert into a table.
#[derive(Debug)]
pub(crate) struct HashWriter {
    log: EntryLog,
    table: TableWriter,
}

impl HashWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator, seed: u64) -> (Hash, HashWriter) {
        let log = EntryLog::create(memory, allocator);
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

/// The hashes of a chunk's keys, whose slots are prefetched.
pub(crate) fn hashes(table: &TableWriter, memory: &Memory, chunk: &[Operation<'_>]) -> [u32; LOCKSTEP_KEYS] {
    let mut hashes = [0; LOCKSTEP_KEYS];
    for (operation, hash) in chunk.iter().zip(&mut hashes) {
        *hash = table.hash(operation.key);
        table.prefetch(memory, *hash);
    }
    hashes
}

/// A position among the keys: in the order of their first versions.
#[derive(Debug)]
pub(crate) struct HashPosition {
    table: Table,
    ordered: OrderedPosition,
}

impl HashPosition {
    pub(crate) fn new(memtable: &Arc<Memtable>, hash: &Hash) -> HashPosition {
        HashPosition { table: hash.table.clone(), ordered: OrderedPosition::new(memtable, &hash.order) }
    }

    /// The newest version of the key whose first version this is.
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
