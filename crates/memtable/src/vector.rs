//! Vector: entries in the order of their insertion, sorted by the first ordered read. Inserts fastest, for
//! bulk loads.
//!
//! A vector that takes writes and is sorted when it is flushed, while another one takes its place, is the
//! simplest memtable (RocksDB's `VectorRepFactory`; byron's double-buffered vector). Here the vector is the
//! arena itself: entries are contiguous in it, and the engine's pair of active and sealed memtables is the
//! double buffer. An insertion writes the entry and publishes the end: no search, no index, 8 bytes beside
//! all entries.
//!
//! Insertion does not look up older versions, so versions are not chained: each is an entry of its own in the
//! order of [`Order`], and a lookup finds the newest at or below a tag. It scans at most 64 unsorted entries,
//! or sorts them, and then searches at most log n runs: reads are slower than in any other kind, but never
//! quadratic.
//!
//! For bulk loads and for logs that are written and flushed, seldom read. Reads are not wait-free; insertion
//! is.

use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::merged::Merged;
use crate::order::{EntryLog, Order, RunPosition};
use esker_base::Tag;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct VectorWriter {
    log: EntryLog,
}

impl VectorWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Arc<Order>, VectorWriter) {
        let log = EntryLog::create(memory, allocator);
        (Arc::new(Order::new(log)), VectorWriter { log })
    }

    /// Appends operations; returns the number of entries.
    pub(crate) fn insert_all(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operations: &[Operation<'_>],
    ) -> usize {
        for operation in operations {
            Entry::write(memory, allocator, operation, Entry::NONE);
        }
        self.log.publish(memory, allocator);
        operations.len()
    }
}

/// A position among all versions. Each seek includes what was appended since the last.
#[derive(Debug)]
pub(crate) struct OrderedPosition {
    memtable: Arc<Memtable>,
    order: Arc<Order>,
    /// The end of the merged runs.
    upto: u32,
    merged: Merged<RunPosition>,
}

impl OrderedPosition {
    pub(crate) fn new(memtable: &Arc<Memtable>, order: &Arc<Order>) -> OrderedPosition {
        OrderedPosition {
            memtable: Arc::clone(memtable),
            order: Arc::clone(order),
            upto: 0,
            merged: Merged::new(memtable, std::iter::empty()),
        }
    }

    /// The runs with all that was inserted before.
    fn renewed(&mut self) -> &mut Merged<RunPosition> {
        if let Some((positions, upto)) = self.order.positions(self.memtable.memory(), self.upto) {
            self.merged = Merged::new(&self.memtable, positions.into_iter());
            self.upto = upto;
        }
        &mut self.merged
    }

    pub(crate) fn seek_to_first(&mut self) -> Entry {
        self.renewed().seek_to_first()
    }

    pub(crate) fn seek_to_last(&mut self) -> Entry {
        self.renewed().seek_to_last()
    }

    pub(crate) fn seek(&mut self, key: &[u8], limit: Tag) -> Entry {
        self.renewed().seek(key, limit)
    }

    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Entry {
        self.renewed().seek_before(key)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Entry {
        self.merged.next()
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Entry {
        self.merged.prev()
    }
}
