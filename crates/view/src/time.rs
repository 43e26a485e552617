//! Database time: the clock by which expiry is judged.
//!
//! The wall clock of a machine may be set back, and an entry that was seen as expired must not reappear: a
//! compaction may have dropped it already, so reads would disagree. Therefore the database has a time of its
//! own, `max(last, wall clock)`, where `last` is the latest time that was returned since this or any earlier
//! open.
//!
//! * TM1: time does not run backwards, whatever the clock does: `last` is one word, raised only when the
//!   clock is ahead.
//! * TM2: nor over a reopen. Every edit of the manifest carries `last` (the time floor), and so does the
//!   header of every log segment; opening starts with the greatest of them. Closing stores the latest time
//!   since the last edit. A process that dies may lose the floor of its last moments: then time stands at an
//!   earlier one for at most as long as the clock was set back.
//! * TM3: a job samples the time before it begins, a reader after it has its view (RV1). So a reader that
//!   sees the job's output reads at a time not before the job's, and misses nothing that the job dropped as
//!   expired.
//! * TM4: a snapshot takes its time when it is registered, under the lock under which jobs sample. The oldest
//!   snapshot has the earliest time of all, and no job treats an entry as expired that a snapshot still sees.
//!
//! No thread keeps a cached clock. A plain get reads the time only when it finds an entry that expires.

use esker_base::planted;
use esker_env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The database time.
#[derive(Debug)]
pub struct Time {
    clock: Arc<dyn Clock>,
    /// The latest returned time, in milliseconds since 1970.
    last_ms: AtomicU64,
}

impl Time {
    /// Time not before `floor_ms`.
    pub fn new(clock: Arc<dyn Clock>, floor_ms: u64) -> Time {
        Time { clock, last_ms: AtomicU64::new(floor_ms) }
    }

    /// Now, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let wall_ms = self.clock.wall_ms();
        if planted!(TimeRunsBack) {
            return wall_ms;
        }
        let last_ms = self.last_ms.load(Ordering::Acquire);
        if wall_ms <= last_ms {
            return last_ms;
        }
        self.last_ms.fetch_max(wall_ms, Ordering::AcqRel).max(wall_ms)
    }

    /// The latest returned time.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
    }

    /// Raises the time to at least this value.
    pub fn raise(&self, floor_ms: u64) {
        self.last_ms.fetch_max(floor_ms, Ordering::AcqRel);
    }

    /// The expiry time of an entry that lives for `ttl` from now on. Fractions of a millisecond are rounded
    /// up, so that it lives at least that long; the end of time is 2^64 - 1 ms.
    pub fn after(&self, ttl: Duration) -> u64 {
        let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
        self.now_ms().saturating_add(u64::try_from(ttl_ms).unwrap_or(u64::MAX))
    }
}

/// A time in milliseconds since 1970, fractions rounded up; times before that are 0.
pub fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The last millisecond of the year 9999: every system can name it.
const FAR_MS: u64 = 253_402_300_799_999;

/// The time so many milliseconds after 1970 began; far away if the system cannot name it.
pub fn from_ms(ms: u64) -> SystemTime {
    let time = |ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    time(ms).or_else(|| time(FAR_MS)).unwrap_or(SystemTime::UNIX_EPOCH)
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
    fn entries_live_at_least_their_ttl() {
        let time = Time::new(Arc::new(ManualClock::new(1_000)), 0);
        assert_eq!(time.after(Duration::ZERO), 1_000);
        assert_eq!(time.after(Duration::from_nanos(1)), 1_001);
        assert_eq!(time.after(Duration::from_millis(7)), 1_007);
        assert_eq!(time.after(Duration::MAX), u64::MAX);
    }

    #[test]
    fn milliseconds_become_a_system_time_and_come_back() {
        for ms in [0, 1, 1_000_000, u64::MAX / 2, u64::MAX] {
            assert_eq!(to_ms(from_ms(ms)), ms);
        }
        assert_eq!(to_ms(SystemTime::UNIX_EPOCH + Duration::from_nanos(1)), 1);
        assert_eq!(to_ms(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), 0);
    }
}
