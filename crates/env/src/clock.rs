//! Clocks: the source of time, replaceable in tests.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970 by the wall clock. May jump, also backwards.
    fn wall_ms(&self) -> u64;

    /// Nanoseconds since some fixed moment; never runs backwards.
    fn monotonic_ns(&self) -> u64;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// Monotonic time is counted from here, so that it fits 64 bits for the next 584 years.
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    fn wall_ms(&self) -> u64 {
        // A wall clock set before 1970 reads as 1970.
        whole(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis())
    }

    #[inline]
    fn monotonic_ns(&self) -> u64 {
        whole(self.started.elapsed().as_nanos())
    }
}

fn whole(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

const NS_PER_MS: u64 = 1_000_000;

/// A clock that moves only on request.
///
/// Keep the `Arc` that goes into the [`crate::Env`] to move it.
#[derive(Debug)]
pub struct ManualClock {
    monotonic_ns: AtomicU64,
    /// The wall clock at monotonic time zero. Wraps below zero.
    wall_ms_at_zero: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall_ms` and a monotonic time of zero.
    pub fn new(wall_ms: u64) -> ManualClock {
        ManualClock { monotonic_ns: AtomicU64::new(0), wall_ms_at_zero: AtomicU64::new(wall_ms) }
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        self.monotonic_ns.fetch_add(whole(by.as_nanos()), Ordering::SeqCst);
    }

    /// Sets the wall clock, also backwards, as an administrator might; monotonic time is not affected.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        let passed_ms = self.monotonic_ns() / NS_PER_MS;
        self.wall_ms_at_zero.store(wall_ms.wrapping_sub(passed_ms), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms_at_zero.load(Ordering::SeqCst).wrapping_add(self.monotonic_ns() / NS_PER_MS)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_moves_forward_and_lies_after_this_was_written() {
        let clock = SystemClock::new();
        let first = clock.monotonic_ns();
        assert!(clock.monotonic_ns() >= first);
        assert!(clock.wall_ms() > 1_700_000_000_000);
    }

    #[test]
    fn manual_time_moves_only_when_told() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.wall_ms(), clock.monotonic_ns()), (1_000, 0));
        clock.advance(Duration::from_millis(5));
        assert_eq!((clock.wall_ms(), clock.monotonic_ns()), (1_005, 5_000_000));
        clock.set_wall_ms(3);
        assert_eq!((clock.wall_ms(), clock.monotonic_ns()), (3, 5_000_000));
        clock.advance(Duration::from_millis(1));
        assert_eq!((clock.wall_ms(), clock.monotonic_ns()), (4, 6_000_000));
    }

    #[test]
    fn small_steps_add_up_to_wall_time() {
        let clock = ManualClock::new(0);
        for _ in 0..10 {
            clock.advance(Duration::from_micros(250));
        }
        assert_eq!((clock.wall_ms(), clock.monotonic_ns()), (2, 2_500_000));
    }
}
