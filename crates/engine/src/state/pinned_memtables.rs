//! Pinned memtables: those that were flushed, and that cursors, ranges or other readers still hold.
//!
//! They have left every view, so nothing else would find them. They count as memory of memtables, and beyond
//! a limit they are moved to files ([`crate::background::spill_memtables`]).

use esker_memtable::Memtable;
use esker_view::MemtableView;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The pinned memtables of a database.
#[derive(Debug, Default)]
pub struct PinnedMemtables {
    /// In the order in which they were flushed. Weak: only readers keep them.
    list: Mutex<Vec<Weak<Memtable>>>,
    /// The last attempt to move one to a file failed.
    pub has_failed: AtomicBool,
    /// Moving memtables to files is impossible here.
    pub cannot_spill: AtomicBool,
}

/// Bytes of pinned memtables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedBytes {
    /// In memory.
    pub memory_bytes: u64,
    /// In files.
    pub spilled_bytes: u64,
}

impl PinnedMemtables {
    /// Adds memtables that have left the view of their keyspace. Those that no reader holds are forgotten by
    /// the next call of [`PinnedMemtables::held`].
    pub fn add(&self, released: &[Arc<MemtableView>]) {
        let filled = released.iter().rev().filter(|view| view.ingested.is_none());
        self.list.lock().extend(filled.map(|view| Arc::downgrade(&view.memtable)));
    }

    /// Those that some reader holds, oldest first. The caller keeps them alive meanwhile.
    pub fn held(&self) -> Vec<Arc<Memtable>> {
        let mut list = self.list.lock();
        list.retain(|memtable| memtable.strong_count() > 0);
        list.iter().filter_map(Weak::upgrade).collect()
    }

    /// What they take.
    pub fn bytes(&self) -> PinnedBytes {
        let mut sum = PinnedBytes::default();
        for memtable in self.held() {
            sum.memory_bytes += memtable.allocated_bytes();
            sum.spilled_bytes += memtable.spilled_bytes();
        }
        sum
    }

    /// Records the outcome of an attempt; returns whether it is the first failure in a row.
    pub(crate) fn note_attempt(&self, is_failure: bool) -> bool {
        !self.has_failed.swap(is_failure, Ordering::Relaxed) && is_failure
    }
}
