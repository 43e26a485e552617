//! Write pace: the delay of a write after it is done, under the admission rate of its keyspace.
//!
//! A schedule, not a bucket: `free_at` is the moment at which everything written so far would have been
//! written at the admitted rate. A write advances it by its own bytes; a writer that finds it more than
//! [`LEAST_DEBT`] ahead waits for the difference, but for the bytes of earlier writes no longer than
//! [`LONGEST_WAIT_FOR_OTHERS`]. It is guarded by the commit lock, so it needs no atomics, and an unlimited
//! writer does not touch it.
//!
//! The limit is for a rate that falls at once, as before a flush that hangs: a millisecond of debt at 300
//! MB/s is a third of a second at 1 MB/s. What a write does not wait off stays in the schedule, and each
//! later one waits as long, so small writes go on at 200 a second and writer: 20 KB/s of 100 bytes.

use std::time::Duration;

/// A shorter delay is skipped: a sleep takes at least a scheduler's tick or two.
const LEAST_DEBT: Duration = Duration::from_millis(1);

/// How long a write waits for the bytes of earlier ones: half of the ten milliseconds that a put may take.
const LONGEST_WAIT_FOR_OTHERS: Duration = Duration::from_millis(5);

/// See the file's head.
#[derive(Debug, Default)]
pub struct Pace {
    /// 0 for no limit.
    bytes_per_second: u64,
    free_at_ns: u64,
}

impl Pace {
    pub(crate) fn is_limited(&self) -> bool {
        self.bytes_per_second != 0
    }

    /// Sets the rate from `now` on; the debt stays the same in bytes.
    pub(crate) fn set_rate(&mut self, bytes_per_second: Option<u64>, now_ns: u64) {
        let backlog_ns = self.free_at_ns.saturating_sub(now_ns);
        let before = self.bytes_per_second;
        self.bytes_per_second = bytes_per_second.unwrap_or(0);
        let backlog_ns = match bytes_per_second {
            Some(after) => rescaled_ns(backlog_ns, before, after),
            None => 0,
        };
        self.free_at_ns = now_ns.saturating_add(backlog_ns);
    }

    /// Charges a write; returns its delay: until the next would be on time, within [`longest_wait_ns`].
    pub fn charge(&mut self, bytes: u64, now_ns: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let cost_ns = cost_ns(bytes, self.bytes_per_second);
        self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(cost_ns);
        let longest = Duration::from_nanos(longest_wait_ns(bytes, self.bytes_per_second));
        self.throttle_debt(now_ns).min(longest)
    }

    /// The present delay; zero if it is too short to wait for.
    pub(crate) fn throttle_debt(&self, now_ns: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let throttle_debt = Duration::from_nanos(self.free_at_ns.saturating_sub(now_ns));
        if throttle_debt < LEAST_DEBT { Duration::ZERO } else { throttle_debt }
    }
}

fn cost_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    u64::try_from(cost_ns).unwrap_or(u64::MAX)
}

/// The longest that a write of `bytes` waits: for its own bytes, and a little for those of earlier ones.
pub(crate) fn longest_wait_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    cost_ns(bytes, bytes_per_second).saturating_add(LONGEST_WAIT_FOR_OTHERS.as_nanos() as u64)
}

/// Converts a duration at one rate to the duration at another.
pub(crate) fn rescaled_ns(ns: u64, before: u64, after: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(before) / u128::from(after.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn writes_are_spread_over_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.charge(1 << 40, 0), Duration::ZERO, "without a limit");
        pace.set_rate(Some(1_000_000), 0);
        // 1,000 bytes are a millisecond.
        assert_eq!(pace.charge(999, 0), Duration::ZERO);
        assert_eq!(pace.charge(1, 0), Duration::from_millis(1));
        assert_eq!(pace.charge(4_000, 0), Duration::from_millis(5));
        // A small write waits for a large one's bytes within the limit, and then the next one.
        assert_eq!(pace.charge(20_000, 0), Duration::from_millis(25));
        assert_eq!(pace.charge(1_000, 0), Duration::from_millis(6));
        assert_eq!(pace.throttle_debt(0), Duration::from_millis(26), "nothing is forgotten");
        assert_eq!(pace.throttle_debt(21 * MS), Duration::from_millis(5));
        // After the wait there is no debt; idle time is not saved up.
        assert_eq!(pace.throttle_debt(26 * MS), Duration::ZERO);
        assert_eq!(pace.charge(3_000, 500 * MS), Duration::from_millis(3));
        pace.set_rate(None, 500 * MS);
        assert_eq!(pace.charge(1 << 40, 500 * MS), Duration::ZERO);
    }

    #[test]
    fn the_debt_stays_the_same_in_bytes() {
        let mut pace = Pace::default();
        pace.set_rate(Some(1_000_000), 0);
        assert_eq!(pace.charge(8_000, 0), Duration::from_millis(8));
        assert_eq!(pace.charge(0, 0), LONGEST_WAIT_FOR_OTHERS);
        pace.set_rate(Some(4_000_000), 0);
        assert_eq!(pace.throttle_debt(0), Duration::from_millis(2));
        pace.set_rate(Some(500_000), 0);
        assert_eq!(pace.throttle_debt(0), Duration::from_millis(16));
        pace.set_rate(None, 0);
        pace.set_rate(Some(1), MS);
        assert_eq!(pace.throttle_debt(MS), Duration::ZERO, "without a limit there is no debt");
    }
}
