//! The database's time: what expiry is judged by.
//!
//! The wall clock of a machine may be set back, and an entry that was once seen expired must not come back: a
//! compaction may have dropped it already, so some replicas of one truth would have it and others not.
//! Therefore the database has a time of its own, `max(last, wall clock)`, where `last` is the latest time
//! that was given out in this life or in an earlier one.
//!
//! * TM1: time does not run backwards, whatever the clock does: `last` is one word, raised only when the
//!   clock is ahead.
//! * TM2: nor over a reopening. Every edit of the manifest carries `last` (the time floor), and so does the
//!   header of every log segment; opening starts with the greatest of them. Closing stores what was given out
//!   since the last edit. A process that dies may lose the floor of its last moments: then time stands at an
//!   earlier one for at most as long as the clock was set back.
//! * TM3: a job samples the time before it begins, a reader asks for it after it has its view (RV1). So
//!   whoever sees what the job left reads at a time not before the job's, and misses nothing that the job
//!   dropped as expired.
//! * TM4: a snapshot takes its time when it is registered, under the lock under which jobs sample. The oldest
//!   snapshot has the earliest time of all, and no job treats as expired what a snapshot still sees.
//!
//! No thread keeps a cached clock. A plain get asks for the time only when it meets an entry that expires.

use esker_env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Gives out the time.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    /// The latest time that was given out, in milliseconds since 1970.
    last_ms: AtomicU64,
}

impl Time {
    /// Time that does not lie before `floor_ms`.
    pub(crate) fn new(clock: Arc<dyn Clock>, floor_ms: u64) -> Time {
        Time { clock, last_ms: AtomicU64::new(floor_ms) }
    }

    /// Now, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let wall_ms = self.clock.wall_ms();
        let last_ms = self.last_ms.load(Ordering::Acquire);
        if wall_ms <= last_ms {
            return last_ms;
        }
        self.last_ms.fetch_max(wall_ms, Ordering::AcqRel).max(wall_ms)
    }

    /// The latest time that was given out.
    pub(crate) fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
    }

    /// Lets time go on from here at least.
    pub(crate) fn raise(&self, floor_ms: u64) {
        self.last_ms.fetch_max(floor_ms, Ordering::AcqRel);
    }

    /// The moment at which something that lives so long from now on expires. Fractions of a millisecond are
    /// rounded up, so that what is to live does; the end of time is 2^64 - 1 ms.
    pub(crate) fn after(&self, ttl: Duration) -> u64 {
        let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
        self.now_ms().saturating_add(u64::try_from(ttl_ms).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::ManualClock;

    #[test]
    fn time_stands_still_while_the_clock_is_behind() {
        let clock = Arc::new(ManualClock::new(100));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), 250);
        assert_eq!(time.now_ms(), 250);
        clock.advance(Duration::from_millis(200));
        assert_eq!(time.now_ms(), 300);
        clock.set_wall_ms(20);
        assert_eq!((time.now_ms(), time.last_ms()), (300, 300));
        time.raise(400);
        time.raise(350);
        assert_eq!(time.now_ms(), 400);
    }

    #[test]
    fn what_is_to_live_lives() {
        let time = Time::new(Arc::new(ManualClock::new(1_000)), 0);
        assert_eq!(time.after(Duration::ZERO), 1_000);
        assert_eq!(time.after(Duration::from_nanos(1)), 1_001);
        assert_eq!(time.after(Duration::from_millis(7)), 1_007);
        assert_eq!(time.after(Duration::MAX), u64::MAX);
    }
}
