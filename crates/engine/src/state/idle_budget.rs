//! Idle compaction budget: how many bytes an idle database may rewrite although little is gained.
//!
//! One run is optimal for readers, so an idle tree converges to it. Where little lies above the last level
//! this rewrites much for little: a store of 10 GiB that gets a megabyte between two idle periods would be
//! rewritten in each of them. A tenth of the last level or more always justifies it
//! (`StrategyOptions::idle_permille`). Less is merged from a budget: it lets a store of 10 GiB converge
//! completely in its first idle period, and costs at most [`IDLE_BUDGET_BYTES`](BUDGET_BYTES) a day,
//! whatever the periods are. All merges of an idle database are charged to it, including those that need no
//! budget to begin; they are not distinguished later. A budget is simpler than a rule by merge history, and
//! it bounds the relevant quantity directly: bytes written to the disk.

use esker_strategy::IDLE_BUDGET_BYTES as BUDGET_BYTES;
use std::time::Duration;

/// The time until the whole budget is refilled: less than 0.2 MB/s.
const REFILLED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The refill happens in steps of a job's size, so that frequent checks do not lose the time between them.
const LEAST_REFILL_BYTES: u64 = 64 << 20;

/// The remaining budget.
#[derive(Debug)]
pub struct IdleBudget {
    left_bytes: u64,
    /// On the monotonic clock: up to when it was refilled.
    refilled_ns: u64,
}

impl IdleBudget {
    /// The whole budget.
    pub fn new(now_ns: u64) -> IdleBudget {
        IdleBudget { left_bytes: BUDGET_BYTES, refilled_ns: now_ns }
    }

    /// Whether a merge may begin that does not pay off otherwise.
    pub fn is_left(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns);
        self.left_bytes > 0
    }

    /// Charges a merge that reads `bytes`. The last one of an idle period may exceed the remainder: it is one
    /// window of the last level. A failed or cancelled one has read and written, so nothing is returned.
    pub fn spend(&mut self, bytes: u64, now_ns: u64) {
        self.refill(now_ns);
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
    }

    fn refill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.refilled_ns);
        let bytes = u128::from(BUDGET_BYTES) * u128::from(passed_ns) / REFILLED_AFTER.as_nanos();
        if bytes < u128::from(LEAST_REFILL_BYTES) {
            return;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.left_bytes = self.left_bytes.saturating_add(bytes).min(BUDGET_BYTES);
        self.refilled_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::{BUDGET_BYTES, IdleBudget, REFILLED_AFTER};

    const DAY_NS: u64 = REFILLED_AFTER.as_nanos() as u64;

    #[test]
    fn a_day_brings_as_much_as_there_was() {
        let mut idle_budget = IdleBudget::new(5);
        assert!(idle_budget.is_left(5));
        idle_budget.spend(BUDGET_BYTES - 1, 5);
        assert!(idle_budget.is_left(5));
        idle_budget.spend(100, 5);
        assert!(!idle_budget.is_left(5));
        assert!(!idle_budget.is_left(DAY_NS / 1000));
        // Many checks refill as much as one.
        (0..=1000).for_each(|look| _ = idle_budget.is_left(5 + DAY_NS / 2000 * look));
        idle_budget.spend(BUDGET_BYTES / 2 - BUDGET_BYTES / 100, 5 + DAY_NS / 2);
        assert!(idle_budget.is_left(5 + DAY_NS / 2));
        idle_budget.spend(BUDGET_BYTES / 100, 5 + DAY_NS / 2);
        assert!(!idle_budget.is_left(5 + DAY_NS / 2));
        assert!(idle_budget.is_left(100 * DAY_NS));
        idle_budget.spend(BUDGET_BYTES, 100 * DAY_NS);
        assert!(!idle_budget.is_left(100 * DAY_NS), "it does not pile up");
    }

    #[test]
    fn a_clock_that_runs_backwards_brings_nothing() {
        let mut idle_budget = IdleBudget::new(DAY_NS);
        idle_budget.spend(u64::MAX, DAY_NS);
        assert!(!idle_budget.is_left(0));
    }
}
