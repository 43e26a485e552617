//! Which sequence numbers somebody may still read.
//!
//! A snapshot is a registered sequence number. Registering takes `visible` under the same mutex under which a
//! flush or compaction samples the list, hence (RV5) a snapshot registered after a sample is at least as new
//! as the sample's own `visible`, and the sample can treat that number as one more snapshot: whatever an
//! unregistered reader can see is protected by it. Versions are dropped only within a stripe between two
//! neighbouring boundaries (RV4).

use esker_base::SeqNo;
use esker_iter::Boundaries;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The registered snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// How many snapshots stand at each sequence number.
    registered: Mutex<BTreeMap<SeqNo, usize>>,
}

impl Snapshots {
    /// Registers a snapshot of the present.
    pub(crate) fn register(&self, visible: &AtomicU64) -> SeqNo {
        let mut registered = self.registered.lock();
        let seqno = SeqNo::new(visible.load(Ordering::Acquire));
        *registered.entry(seqno).or_insert(0) += 1;
        seqno
    }

    /// Registers one more holder of a snapshot that is still registered.
    pub(crate) fn register_again(&self, seqno: SeqNo) {
        *self.registered.lock().entry(seqno).or_insert(0) += 1;
    }

    /// Takes one holder back.
    pub(crate) fn release(&self, seqno: SeqNo) {
        let mut registered = self.registered.lock();
        if let Some(count) = registered.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                registered.remove(&seqno);
            }
        }
    }

    /// The boundaries a job must respect: every snapshot, and `visible` itself.
    pub(crate) fn sample(&self, visible: &AtomicU64) -> Boundaries {
        let registered = self.registered.lock();
        let visible = SeqNo::new(visible.load(Ordering::Acquire));
        Boundaries::new(registered.keys().copied(), visible)
    }

    /// Number of snapshots and the oldest of them.
    pub(crate) fn summary(&self) -> (usize, Option<SeqNo>) {
        let registered = self.registered.lock();
        (registered.values().sum(), registered.keys().next().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_holds_every_snapshot_and_the_present() {
        let visible = AtomicU64::new(5);
        let snapshots = Snapshots::default();
        assert_eq!(snapshots.register(&visible), SeqNo::new(5));
        snapshots.register_again(SeqNo::new(5));
        visible.store(9, Ordering::Release);
        let sample = snapshots.sample(&visible);
        assert_eq!((sample.oldest(), sample.visible()), (SeqNo::new(5), SeqNo::new(9)));
        assert!(
            !sample.are_in_same_stripe(SeqNo::new(5), SeqNo::new(9)),
            "the snapshot reads between the two"
        );
        snapshots.release(SeqNo::new(5));
        assert_eq!(snapshots.summary(), (1, Some(SeqNo::new(5))));
        snapshots.release(SeqNo::new(5));
        assert_eq!(snapshots.sample(&visible).oldest(), SeqNo::new(9));
    }
}
