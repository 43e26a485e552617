//! The vector: entries as they came, sorted for whoever wants order.
//!
//! A vector that takes writes and is sorted when it is flushed, while another one takes its place, is the
//! simplest memtable of all (RocksDB's `VectorRepFactory`; byron's double-buffered vector). Here the vector
//! is the arena itself: entries lie in it one behind the other, and the engine's pair of active and sealed
//! memtables is the double buffer. An insertion writes the entry and publishes where the entries end: no
//! search, no index, 8 bytes beside all entries.
//!
//! Older versions of a key are not looked for, so versions are not chained: each is an entry of its own in
//! the order that [`Order`] makes, and a lookup asks for the newest at or below a tag. It goes over at most
//! 64 unsorted entries, or sorts them, and then searches at most log n runs: reads are slower than in any
//! other kind, but never quadratic.
//!
//! For bulk loads and for logs that are written and flushed, seldom read. Reads are not wait-free; insertion
//! is.

use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::merged::Merged;
use crate::order::{Log, Order, RunPosition};
use esker_base::Tag;
use std::sync::Arc;

/// The right to append.
#[derive(Debug)]
pub(crate) struct VectorWriter {
    log: Log,
}

impl VectorWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Arc<Order>, VectorWriter) {
        let log = Log::create(memory, allocator);
        (Arc::new(Order::new(log)), VectorWriter { log })
    }

    /// Appends operations; returns how many entries these are.
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

/// A position among all versions. Each seek takes in what was appended since the last.
#[derive(Debug)]
pub(crate) struct OrderedPosition {
    memtable: Arc<Memtable>,
    order: Arc<Order>,
    /// How far the runs go that are merged.
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
