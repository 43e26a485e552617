//! How much an idle database may rewrite for the sake of few bytes.
//!
//! One run is the best there is for readers, so an idle tree converges to it. Where little lies above the
//! last level this rewrites much for little: a store of 10 GiB that gets a megabyte between two pauses would
//! be written anew in each of them. What is a tenth of the last level or more is always worth it
//! (`StrategyOptions::idle_permille`). Less is merged from an allowance: it lets a store of 10 GiB converge
//! whole after its first pause, and costs [`IDLE_ALLOWANCE_BYTES`](ALLOWANCE_BYTES) a day at most, whatever
//! the pauses are like. All merges of an idle database draw on it, also those that are worth it and need none
//! to begin: nobody looks again at which is which. An allowance is less to reason about than a rule by what
//! has been merged how often, and it bounds the very thing that is to be bounded: what is written to the
//! disk.

use esker_strategy::IDLE_ALLOWANCE_BYTES as ALLOWANCE_BYTES;
use std::time::Duration;

/// As long as it takes until all of the allowance is there again: less than 0.2 MB/s.
const REFILLED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// It comes back in pieces of a job's size, so that looks which come often do not lose the time between them.
const LEAST_REFILL_BYTES: u64 = 64 << 20;

/// What is left of the allowance.
#[derive(Debug)]
pub(crate) struct Leisure {
    left_bytes: u64,
    /// On the monotonic clock: up to when it was refilled.
    refilled_ns: u64,
}

impl Leisure {
    /// All of it.
    pub(crate) fn new(now_ns: u64) -> Leisure {
        Leisure { left_bytes: ALLOWANCE_BYTES, refilled_ns: now_ns }
    }

    /// Whether a merge may begin that is not worth its rewriting.
    pub(crate) fn is_left(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns);
        self.left_bytes > 0
    }

    /// A merge begins that reads so much. The last one of an idle database may take more than is left: it is
    /// one window of the last level. One that fails or is called off has read and written, so nothing is
    /// given back.
    pub(crate) fn spend(&mut self, bytes: u64, now_ns: u64) {
        self.refill(now_ns);
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
    }

    fn refill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.refilled_ns);
        let bytes = u128::from(ALLOWANCE_BYTES) * u128::from(passed_ns) / REFILLED_AFTER.as_nanos();
        if bytes < u128::from(LEAST_REFILL_BYTES) {
            return;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.left_bytes = self.left_bytes.saturating_add(bytes).min(ALLOWANCE_BYTES);
        self.refilled_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::{ALLOWANCE_BYTES, Leisure, REFILLED_AFTER};

    const DAY_NS: u64 = REFILLED_AFTER.as_nanos() as u64;

    #[test]
    fn a_day_brings_as_much_as_there_was() {
        let mut leisure = Leisure::new(5);
        assert!(leisure.is_left(5));
        leisure.spend(ALLOWANCE_BYTES - 1, 5);
        assert!(leisure.is_left(5));
        leisure.spend(100, 5);
        assert!(!leisure.is_left(5));
        assert!(!leisure.is_left(DAY_NS / 1000));
        // Many looks bring no more and no less than one.
        (0..=1000).for_each(|look| _ = leisure.is_left(5 + DAY_NS / 2000 * look));
        leisure.spend(ALLOWANCE_BYTES / 2 - ALLOWANCE_BYTES / 100, 5 + DAY_NS / 2);
        assert!(leisure.is_left(5 + DAY_NS / 2));
        leisure.spend(ALLOWANCE_BYTES / 100, 5 + DAY_NS / 2);
        assert!(!leisure.is_left(5 + DAY_NS / 2));
        assert!(leisure.is_left(100 * DAY_NS));
        leisure.spend(ALLOWANCE_BYTES, 100 * DAY_NS);
        assert!(!leisure.is_left(100 * DAY_NS), "it does not pile up");
    }

    #[test]
    fn a_clock_that_runs_backwards_brings_nothing() {
        let mut leisure = Leisure::new(DAY_NS);
        leisure.spend(u64::MAX, DAY_NS);
        assert!(!leisure.is_left(0));
    }
}
