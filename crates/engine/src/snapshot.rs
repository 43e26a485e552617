//! Which sequence numbers somebody may still read.
//!
//! A snapshot is a registered sequence number. Registering takes `visible` under the same mutex under which a
//! flush or compaction samples the list, hence (RV5) a snapshot registered after a sample is at least as new
//! as the sample's own `visible`, and the sample can treat that number as one more snapshot: whatever an
//! unregistered reader can see is protected by it. Versions are dropped only within a stripe between two
//! neighbouring boundaries (RV4).

use crate::time::Time;
use esker_base::SeqNo;
use esker_iter::Boundaries;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The registered snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// How many snapshots stand at each moment, oldest first. A new one is the newest (TM4), so it comes to the end, and
    /// short transactions take and give back the last place without an allocation.
    registered: Mutex<Vec<(Moment, usize)>>,
}

/// What a snapshot sees: entries up to a sequence number, unless they have expired by a time. Both grow from snapshot to
/// snapshot, because both are taken under one lock (TM4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) seqno: SeqNo,
    /// In milliseconds since 1970.
    pub(crate) read_time_ms: u64,
}

impl Snapshots {
    /// Registers a snapshot of the present.
    pub(crate) fn register(&self, visible: &AtomicU64, time: &Time) -> Moment {
        let mut registered = self.registered.lock();
        let seqno = SeqNo::new(visible.load(Ordering::Acquire));
        let moment = Moment { seqno, read_time_ms: time.now_ms() };
        match registered.last_mut() {
            Some((last, count)) if *last == moment => *count += 1,
            _ => registered.push((moment, 1)),
        }
        debug_assert!(registered.is_sorted());
        moment
    }

    /// Registers one more holder of a snapshot that is still registered.
    pub(crate) fn register_again(&self, moment: Moment) {
        let mut registered = self.registered.lock();
        let at = registered.binary_search_by_key(&moment, |(moment, _)| *moment);
        registered[at.expect("its holder asks")].1 += 1;
    }

    /// Takes one holder back.
    pub(crate) fn release(&self, moment: Moment) {
        let mut registered = self.registered.lock();
        if let Ok(at) = registered.binary_search_by_key(&moment, |(moment, _)| *moment) {
            registered[at].1 -= 1;
            if registered[at].1 == 0 {
                registered.remove(at);
            }
        }
    }

    /// The boundaries a job must respect: every snapshot, and `visible` itself; and the earliest time at which expiry is
    /// still judged.
    pub(crate) fn sample(&self, visible: &AtomicU64, time: &Time) -> Boundaries {
        let registered = self.registered.lock();
        let visible = SeqNo::new(visible.load(Ordering::Acquire));
        let now_ms = time.now_ms();
        let oldest_ms = registered.first().map_or(now_ms, |(oldest, _)| oldest.read_time_ms);
        Boundaries::new(registered.iter().map(|(moment, _)| moment.seqno), visible).reading_since(oldest_ms)
    }

    /// Number of snapshots and the oldest of them.
    pub(crate) fn summary(&self) -> (usize, Option<Moment>) {
        let registered = self.registered.lock();
        (registered.iter().map(|(_, count)| count).sum(), registered.first().map(|(oldest, _)| *oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::ManualClock;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn sample_holds_every_snapshot_and_the_present() {
        let clock = Arc::new(ManualClock::new(100));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), 0);
        let visible = AtomicU64::new(5);
        let snapshots = Snapshots::default();
        let first = snapshots.register(&visible, &time);
        assert_eq!(first, Moment { seqno: SeqNo::new(5), read_time_ms: 100 });
        snapshots.register_again(first);
        visible.store(9, Ordering::Release);
        clock.advance(Duration::from_millis(50));
        let sample = snapshots.sample(&visible, &time);
        assert_eq!((sample.oldest(), sample.visible()), (SeqNo::new(5), SeqNo::new(9)));
        assert!(
            !sample.are_in_same_stripe(SeqNo::new(5), SeqNo::new(9)),
            "the snapshot reads between the two"
        );
        assert!(
            sample.is_expired_for_all(100) && !sample.is_expired_for_all(101),
            "the snapshot reads at 100"
        );
        snapshots.release(first);
        assert_eq!(snapshots.summary(), (1, Some(first)));
        snapshots.release(first);
        let sample = snapshots.sample(&visible, &time);
        assert_eq!(sample.oldest(), SeqNo::new(9));
        assert!(sample.is_expired_for_all(150) && !sample.is_expired_for_all(151));
    }

    #[test]
    fn snapshots_of_one_state_at_two_times_are_two() {
        let clock = Arc::new(ManualClock::new(100));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), 0);
        let visible = AtomicU64::new(5);
        let snapshots = Snapshots::default();
        let early = snapshots.register(&visible, &time);
        clock.advance(Duration::from_millis(50));
        let late = snapshots.register(&visible, &time);
        snapshots.release(early);
        assert_eq!(snapshots.summary(), (1, Some(late)));
        let sample = snapshots.sample(&visible, &time);
        assert!(sample.is_expired_for_all(150) && !sample.is_expired_for_all(151));
    }
}
