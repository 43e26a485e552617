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
//! * TM5: a wall clock that is more than [`MAX_LEAP`] ahead of where time should be is not believed: time
//!   goes on by the monotonic clock. So one open with a wrong clock neither drops data that has not expired
//!   nor makes a time durable at which the database would stand still for decades. Of a database that was
//!   closed for longer than that, time goes on where it stopped, until an open that believes the clock
//!   (`believe_clock`), which is also the way back from a floor that is too high: that open alone may begin
//!   with an earlier time than an earlier one ended with.
//!
//! Rejected: to believe no leap at all, which would need an answer from a user after every holiday; and to
//! lower a floor that is ahead of the clock by itself, since a machine without a battery begins in 1970.
//!
//! No thread keeps a cached clock. A plain get reads the time only when it finds an entry that expires.

use esker_base::planted;
use esker_env::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A wall clock further ahead is not believed: five years. Clocks that are wrong are mostly wrong by decades
/// (counters that overflow, years entered by hand), and databases are rarely closed for so long.
pub const MAX_LEAP: Duration = Duration::from_secs(5 * 366 * 24 * 3600);

const MAX_LEAP_MS: u64 = MAX_LEAP.as_secs() * 1000;

/// The database time.
#[derive(Debug)]
pub struct Time {
    clock: Arc<dyn Clock>,
    /// The latest returned time, in milliseconds since 1970.
    last_ms: AtomicU64,
    /// A time that was believed, from which on the monotonic clock tells where time should be.
    anchor: Mutex<Anchor>,
}

#[derive(Debug)]
struct Anchor {
    ms: u64,
    monotonic_ns: u64,
    /// Whether the wall clock is not believed at present.
    is_doubted: bool,
}

impl Time {
    /// Time not before `floor_ms`.
    pub fn new(clock: Arc<dyn Clock>, floor_ms: u64) -> Time {
        let anchor = Anchor { ms: floor_ms, monotonic_ns: clock.monotonic_ns(), is_doubted: false };
        Time { clock, last_ms: AtomicU64::new(floor_ms), anchor: Mutex::new(anchor) }
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
        let now_ms =
            if wall_ms - last_ms > MAX_LEAP_MS { self.doubted_ms(wall_ms, last_ms) } else { wall_ms };
        self.last_ms.fetch_max(now_ms, Ordering::AcqRel).max(now_ms)
    }

    /// The time while the wall clock is far ahead of `last_ms` (TM5).
    #[cold]
    fn doubted_ms(&self, wall_ms: u64, last_ms: u64) -> u64 {
        let mut anchor = self.anchor.lock();
        let monotonic_ns = self.clock.monotonic_ns();
        let passed_ms = monotonic_ns.saturating_sub(anchor.monotonic_ns) / NS_PER_MS;
        let due_ms = last_ms.max(anchor.ms.saturating_add(passed_ms));
        // A database without any time yet has nothing to compare with.
        if last_ms == 0 || wall_ms <= due_ms.saturating_add(MAX_LEAP_MS) {
            *anchor = Anchor { ms: wall_ms, monotonic_ns, is_doubted: false };
            return wall_ms;
        }
        if !anchor.is_doubted {
            *anchor = Anchor { ms: due_ms, monotonic_ns, is_doubted: true };
        }
        due_ms
    }

    /// How far the wall clock is ahead of the database time, in milliseconds; negative if it is behind. Far
    /// ahead it is not believed (TM5); behind, time stands still (TM1).
    pub fn skew_ms(&self) -> i64 {
        let now_ms = self.now_ms();
        let wall_ms = self.clock.wall_ms();
        i64::try_from(wall_ms).unwrap_or(i64::MAX).saturating_sub(i64::try_from(now_ms).unwrap_or(i64::MAX))
    }

    /// The latest returned time.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
    }

    /// Raises the time to at least this value, which an earlier open has stored.
    pub fn raise(&self, floor_ms: u64) {
        let before_ms = self.last_ms.fetch_max(floor_ms, Ordering::AcqRel);
        let monotonic_ns = self.clock.monotonic_ns();
        *self.anchor.lock() = Anchor { ms: before_ms.max(floor_ms), monotonic_ns, is_doubted: false };
    }

    /// As [`Time::raise`], unless the value is so far ahead that a clock would not be believed (TM5): a
    /// header of the log may be of an open whose time was taken back since.
    pub fn raise_if_near(&self, floor_ms: u64) {
        if floor_ms.saturating_sub(self.last_ms()) <= MAX_LEAP_MS || self.last_ms() == 0 {
            self.raise(floor_ms);
        }
    }

    /// The expiry time of an entry that lives for `ttl` from now on. Fractions of a millisecond are rounded
    /// up, so that it lives at least that long; the end of time is 2^64 - 1 ms.
    pub fn after(&self, ttl: Duration) -> u64 {
        let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
        self.now_ms().saturating_add(u64::try_from(ttl_ms).unwrap_or(u64::MAX))
    }
}

const NS_PER_MS: u64 = 1_000_000;

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
    fn a_clock_that_is_decades_ahead_is_not_believed() {
        let (floor_ms, later_ms) = (1_700_000_000_000, 4_000_000_000_000);
        let clock = Arc::new(ManualClock::new(later_ms));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), floor_ms);
        assert_eq!(time.now_ms(), floor_ms);
        clock.advance(Duration::from_secs(60));
        assert_eq!(time.now_ms(), floor_ms + 60_000, "it goes on by the monotonic clock");
        assert_eq!(time.skew_ms(), i64::try_from(later_ms - floor_ms).unwrap());
        time.raise_if_near(later_ms);
        assert_eq!(time.last_ms(), floor_ms + 60_000);
        clock.set_wall_ms(floor_ms + 3_600_000);
        assert_eq!((time.now_ms(), time.skew_ms()), (floor_ms + 3_600_000, 0), "it is right again");
        clock.set_wall_ms(later_ms);
        assert_eq!(time.now_ms(), floor_ms + 3_600_000);
    }

    #[test]
    fn a_leap_within_the_bound_and_time_that_has_passed_are_believed() {
        let clock = Arc::new(ManualClock::new(1_000));
        let time = Time::new(Arc::<ManualClock>::clone(&clock), 1_000);
        clock.set_wall_ms(1_000 + MAX_LEAP_MS);
        assert_eq!(time.now_ms(), 1_000 + MAX_LEAP_MS);
        clock.advance(3 * MAX_LEAP);
        assert_eq!(
            time.now_ms(),
            1_000 + 4 * MAX_LEAP_MS,
            "both clocks went on, and no call asked meanwhile"
        );
        let new = Time::new(Arc::<ManualClock>::clone(&clock), 0);
        assert_eq!(new.now_ms(), 1_000 + 4 * MAX_LEAP_MS, "a new database has nothing to compare with");
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
