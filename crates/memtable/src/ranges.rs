//! Range tombstones of a memtable, kept beside the entries.
//!
//! Among the entries they would be found by their start only; a reader has to find those that cover its key.
//! So they are kept as sets of fragments ([`RangeTombstones`]), which readers search while the inserter adds
//! to them.
//!
//! # Publication
//! * Sets are immutable. For each range tombstone the inserter makes a new list of sets, puts it into the
//!   next of a fixed number of slots, which are filled once and never emptied, and then raises the count
//!   (release). A reader loads the count (acquire) and takes the slot before it: no lock, no retry, and what
//!   it borrows lives as long as the memtable (MT1).
//! * MT2 holds as for entries: the engine publishes the sequence number after the insertion, so a reader that
//!   may see a range tombstone finds the list with it, or a later one. Later ones are excluded by their
//!   sequence numbers.
//!
//! # Cost
//! A range tombstone is a set of its own. Two sets of about the same size are merged into one, as in a binary
//! counter, so that there are at most log n sets, and each range tombstone is fragmented again log n times.
//! All lists and sets stay until the memtable is freed: together they hold each range tombstone log n times.
//! n is at most [`MAX_RANGE_DELETES`].
//!
//! Rejected: one set that is rebuilt each time, which costs n at each write under the commit lock; and
//! swapping pointers, which needs readers to announce themselves.

use esker_base::SeqNo;
use esker_iter::{RangeTombstone, RangeTombstones};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Most range tombstones in one memtable. That many nested ones make two million sequence numbers, 16 MiB,
/// the worst case; side by side they take a tenth of a megabyte. A flush for so many costs as much as a few
/// thousand puts.
pub const MAX_RANGE_DELETES: u64 = 1024;

/// Bytes that a range tombstone counts for beside its keys: about the size of its fragments.
pub const RANGE_DELETE_OVERHEAD_BYTES: u64 = 256;

type Sets = Arc<[Arc<RangeTombstones>]>;

#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// Allocated with the first range tombstone: for most memtables this is one word.
    slots: OnceLock<Box<[OnceLock<Sets>]>>,
    published: AtomicUsize,
    memory_bytes: AtomicU64,
}

impl Ranges {
    /// The sets, oldest first.
    #[inline]
    pub(crate) fn sets(&self) -> &[Arc<RangeTombstones>] {
        match self.slots.get() {
            None => &[],
            Some(slots) => self.newest(slots),
        }
    }

    fn newest<'a>(&'a self, slots: &'a [OnceLock<Sets>]) -> &'a [Arc<RangeTombstones>] {
        let published = self.published.load(Ordering::Acquire);
        let slot = published.checked_sub(1).and_then(|at| slots.get(at)).and_then(OnceLock::get);
        slot.map_or(&[], |sets| &**sets)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.get().is_none()
    }

    pub(crate) fn len(&self) -> u64 {
        self.published.load(Ordering::Relaxed) as u64
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn cover(&self, key: &[u8], seqno: SeqNo) -> SeqNo {
        self.sets().iter().map(|set| set.newest_over(key, seqno)).max().unwrap_or(SeqNo::ZERO)
    }
}

/// The inserter's side: the sets with the number of range tombstones in each.
#[derive(Debug, Default)]
pub(crate) struct RangesWriter {
    sets: Vec<(usize, Arc<RangeTombstones>)>,
}

impl RangesWriter {
    /// Adds a range tombstone and publishes it.
    ///
    /// # Panics
    /// If there are [`MAX_RANGE_DELETES`] already.
    pub(crate) fn insert(&mut self, ranges: &Ranges, delete: RangeTombstone<'_>) {
        let mut newest = (1, Arc::new(RangeTombstones::new([delete])));
        while let Some((_, set)) = self.sets.pop_if(|(count, _)| *count <= newest.0) {
            let joined = RangeTombstones::new(set.deletes().chain(newest.1.deletes()));
            newest = (2 * newest.0, Arc::new(joined));
        }
        ranges.memory_bytes.fetch_add(newest.1.memory_bytes() as u64, Ordering::Relaxed);
        self.sets.push(newest);
        let slots = ranges.slots.get_or_init(|| (0..MAX_RANGE_DELETES).map(|_| OnceLock::new()).collect());
        let at = ranges.published.load(Ordering::Relaxed);
        let list: Sets = self.sets.iter().map(|(_, set)| Arc::clone(set)).collect();
        assert!(slots[at].set(list).is_ok(), "the slot was filled already");
        ranges.published.store(at + 1, Ordering::Release);
    }
}
