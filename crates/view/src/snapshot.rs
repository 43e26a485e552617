//! Registered snapshots: which sequence numbers a reader may still read.
//!
//! A snapshot is a registered sequence number. Registering takes `visible` under the same mutex under which a
//! flush or compaction samples the list, hence (RV5) a snapshot registered after a sample is at least as new
//! as the sample's own `visible`, and the sample can treat that number as one more snapshot: it protects
//! whatever an unregistered reader can see. Versions are dropped only within a stripe between two adjacent
//! boundaries (RV4).
//!
//! # Filters
//! A compaction filter changes the visible data, so a snapshot must not see the data before and after:
//!
//! * CF1: a filter gets only versions that are newer than every snapshot of the job's sample.
//! * CF2: a snapshot taken since then sees those versions. Before the install the job checks again
//!   ([`Snapshots::freeze`]); if there is such a snapshot, it writes its tables again without the filter. If
//!   there is none, new ones wait until the view without the versions is published, which takes one sync of
//!   the manifest. Installs take no snapshots.

use crate::time::Time;
use esker_base::SeqNo;
use esker_base::planted;
use esker_iter::Boundaries;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};

/// The registered snapshots of a database.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The number of snapshots at each moment, oldest first. A new one is the newest (TM4), so it is
    /// appended, and short transactions take and release the last entry without an allocation.
    registered: Mutex<Registered>,
    thawed: Condvar,
}

#[derive(Debug, Default)]
struct Registered {
    moments: Vec<(Moment, usize)>,
    /// The number of jobs that block new snapshots.
    freezes: u32,
}

/// What a snapshot sees: entries up to a sequence number, unless they have expired by a time. Both grow from
/// snapshot to snapshot, because both are taken under one lock (TM4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Entries above it are invisible.
    pub seqno: SeqNo,
    /// In milliseconds since 1970.
    pub read_time_ms: u64,
}

impl Snapshots {
    /// Registers a snapshot of the present.
    pub fn register(&self, visible: &AtomicU64, time: &Time) -> Moment {
        let mut registered = self.registered.lock();
        while registered.freezes > 0 {
            self.thawed.wait(&mut registered);
        }
        let seqno = SeqNo::new(visible.load(Ordering::Acquire));
        let moment = Moment { seqno, read_time_ms: time.now_ms() };
        match registered.moments.last_mut() {
            Some((last, count)) if *last == moment => *count += 1,
            _ => registered.moments.push((moment, 1)),
        }
        debug_assert!(registered.moments.is_sorted());
        moment
    }

    /// Blocks new snapshots until the result is dropped; `None`, without blocking, if there is a snapshot
    /// that may see the version `oldest` or a newer one.
    pub fn freeze(&self, oldest: SeqNo) -> Option<Freeze<'_>> {
        let mut registered = self.registered.lock();
        if registered.moments.last().is_some_and(|(newest, _)| newest.seqno >= oldest) {
            return None;
        }
        registered.freezes += 1;
        Some(Freeze(self))
    }

    /// Registers one more reference to a snapshot that is still registered.
    pub fn register_again(&self, moment: Moment) {
        let mut registered = self.registered.lock();
        let at = registered.moments.binary_search_by_key(&moment, |(moment, _)| *moment);
        registered.moments[at.expect("its holder asks")].1 += 1;
    }

    /// Releases one reference.
    pub fn release(&self, moment: Moment) {
        let mut registered = self.registered.lock();
        if let Ok(at) = registered.moments.binary_search_by_key(&moment, |(moment, _)| *moment) {
            registered.moments[at].1 -= 1;
            if registered.moments[at].1 == 0 {
                registered.moments.remove(at);
            }
        }
    }

    /// The boundaries a job must respect: every snapshot, and `visible` itself; and the earliest time at
    /// which expiry is still judged.
    pub fn sample(&self, visible: &AtomicU64, time: &Time) -> Boundaries {
        let registered = self.registered.lock();
        let visible = SeqNo::new(visible.load(Ordering::Acquire));
        let now_ms = time.now_ms();
        let oldest_ms = registered.moments.first().map_or(now_ms, |(oldest, _)| oldest.read_time_ms);
        let known = registered.moments.iter().skip(usize::from(planted!(ForgetsOldestSnapshot)));
        Boundaries::new(known.map(|(moment, _)| moment.seqno), visible).reading_since(oldest_ms)
    }

    /// The oldest snapshot. Asked for each keyspace, so it must not count them all.
    pub fn oldest(&self) -> Option<Moment> {
        self.registered.lock().moments.first().map(|(oldest, _)| *oldest)
    }

    /// Number of snapshots and the oldest of them. O(snapshots).
    pub fn summary(&self) -> (usize, Option<Moment>) {
        let registered = self.registered.lock();
        (
            registered.moments.iter().map(|(_, count)| count).sum(),
            registered.moments.first().map(|(oldest, _)| *oldest),
        )
    }
}

/// Blocks new snapshots.
pub struct Freeze<'a>(&'a Snapshots);

impl Drop for Freeze<'_> {
    fn drop(&mut self) {
        self.0.registered.lock().freezes -= 1;
        self.0.thawed.notify_all();
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
        assert_eq!(snapshots.oldest(), Some(first));
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

    #[test]
    fn a_freeze_fails_after_a_late_snapshot_and_blocks_later_ones() {
        let clock = Arc::new(ManualClock::new(100));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), 0);
        let visible = AtomicU64::new(5);
        let snapshots = Snapshots::default();
        let early = snapshots.register(&visible, &time);
        assert!(snapshots.freeze(SeqNo::new(5)).is_none(), "the snapshot sees it");
        let frozen = snapshots.freeze(SeqNo::new(6)).expect("no reader sees it");
        std::thread::scope(|scope| {
            let late = scope.spawn(|| snapshots.register(&visible, &time));
            // The blocked one sees whatever is visible when the freeze ends.
            visible.store(9, Ordering::Release);
            drop(frozen);
            let late = late.join().expect("no panic");
            assert_eq!(late.seqno, SeqNo::new(9));
            snapshots.release(late);
        });
        snapshots.release(early);
        assert!(snapshots.freeze(SeqNo::new(1)).is_some());
    }
}
