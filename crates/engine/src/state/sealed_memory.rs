//! Sealed memtables before the flush: how many bytes they have, and since when none of them was flushed.
//!
//! Invariant SQ1: `bytes` is the payload of the sealed memtables of all keyspaces that are not dropped. A
//! seal adds to it under the commit lock; an install of a flush, or a drop, takes away what it had added.

use esker_base::sync::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See the file's head.
#[derive(Debug, Default)]
pub struct SealedMemory {
    bytes: CachePadded<AtomicU64>,
    /// When a flush was installed last, or the first memtable was sealed behind it; of the monotonic clock.
    progress_ns: AtomicU64,
}

impl SealedMemory {
    /// Payload bytes in sealed memtables.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records that a memtable was sealed.
    pub(crate) fn note_seal(&self, bytes: u64, now_ns: u64) {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.progress_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Records that memtables were flushed, or dropped with their keyspace.
    pub(crate) fn note_release(&self, bytes: u64, now_ns: u64) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.progress_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// How long none was flushed although some were there.
    pub(crate) fn unfinished_for(&self, now_ns: u64) -> Duration {
        match self.bytes() {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(now_ns.saturating_sub(self.progress_ns.load(Ordering::Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_progress_begins_with_the_first_seal_and_at_each_flush() {
        let sealed = SealedMemory::default();
        assert_eq!(sealed.unfinished_for(100), Duration::ZERO);
        sealed.note_seal(8, 100);
        sealed.note_seal(4, 150);
        assert_eq!((sealed.bytes(), sealed.unfinished_for(160)), (12, Duration::from_nanos(60)));
        sealed.note_release(0, 200);
        assert_eq!(sealed.unfinished_for(210), Duration::from_nanos(110), "a compaction flushes nothing");
        sealed.note_release(8, 200);
        assert_eq!((sealed.bytes(), sealed.unfinished_for(210)), (4, Duration::from_nanos(10)));
        sealed.note_release(4, 300);
        assert_eq!(sealed.unfinished_for(900), Duration::ZERO);
    }
}
