//! The space target: live data, garbage and the transient output of jobs together stay below a multiple of
//! the live data.
//!
//! # Accounting
//! The oldest run of the last level is taken as the live data: everything above it may be garbage and counts
//! as such. That is right for overwrites and conservative for growth. Small stores count as if they had four
//! memtables of live data, otherwise the first flush of a new key range would be due at once.
//!
//! # The rule
//! The target leaves room beside the live data. A third of it is for the output of running jobs before their
//! inputs are removed, which bounds the size of a job; the rest may lie above the last level
//! ([`SpaceBudget`]). When more lies there, the column over the densest window is merged, whatever the
//! strategy; so leveled, tiered and lazy trees meet the target as the default does, by merging earlier than
//! their own rules require. Steady overwriting then costs `1/(2g)` bytes for each, `g` being that allowance
//! as a share of the live data; a target that cannot be met is refused on this basis.

use crate::options::StrategyOptions;
use crate::partition_window::PartitionWindows;
use crate::plan::{Class, CompactionPlan, Reason};
use crate::plan_builder::Context;
use crate::shape::base_bytes;

/// The live data that even the smallest store is assumed to have, in memtables.
const LEAST_LIVE_MEMTABLES: u64 = 4;
/// A job holds up to half more than its window, because the data above the window comes on top.
const JOB_SHARE_HALVES: u64 = 3;
/// The share of the room reserved for running jobs: one in so many.
const TRANSIENT_DIVISOR: u64 = 3;
/// The least garbage worth planning for, in 1/1000 of the live data.
const LEAST_GARBAGE_PERMILLE: u64 = 20;

/// The least limit of a job that follows from the size of tables.
const LEAST_JOB_BYTES: u64 = 32 << 20;

/// What a space target allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceBudget {
    /// Bytes that are taken as alive.
    pub live_bytes: u64,
    /// Bytes that may lie above the last level.
    pub garbage_bytes: u64,
    /// Bytes that one job may rewrite, unless one table alone is larger.
    pub max_job_bytes: u64,
}

impl StrategyOptions {
    /// The most bytes of the last level that a job rewrites, unless one table alone is larger.
    pub fn max_job_bytes(&self, last_bytes: u64) -> u64 {
        let tables = self.table_bytes(last_bytes).saturating_mul(2);
        let target = SpaceBudget::new(self, last_bytes).map_or(u64::MAX, |allowance| allowance.max_job_bytes);
        self.max_job_bytes.unwrap_or(tables.max(LEAST_JOB_BYTES)).min(target)
    }

    /// The limit that is set, or that follows from the space target; `None` if neither is.
    pub(crate) fn job_limit_bytes(&self, last_bytes: u64) -> Option<u64> {
        let target = SpaceBudget::new(self, last_bytes).map(|allowance| allowance.max_job_bytes);
        self.max_job_bytes.into_iter().chain(target).min()
    }
}

impl SpaceBudget {
    /// What `max_space_amp_permille` leaves beside `base_bytes` in the last level; `None` without a target.
    pub fn new(options: &StrategyOptions, base_bytes: u64) -> Option<SpaceBudget> {
        let target = options.max_space_amp_permille?;
        let live_bytes = base_bytes.max(options.memtable_bytes.saturating_mul(LEAST_LIVE_MEMTABLES));
        let room = share(live_bytes, target.saturating_sub(1000));
        let jobs = u64::from(options.jobs.max(1));
        let per_job = room / TRANSIENT_DIVISOR / jobs * 2 / JOB_SHARE_HALVES;
        let max_job_bytes = per_job.max(options.table_bytes(base_bytes));
        let transient = max_job_bytes.saturating_mul(jobs).saturating_mul(JOB_SHARE_HALVES) / 2;
        let garbage_bytes = room.saturating_sub(transient).max(share(live_bytes, LEAST_GARBAGE_PERMILLE));
        Some(SpaceBudget { live_bytes, garbage_bytes, max_job_bytes })
    }

    /// Bytes that compactions write for each byte of steady overwriting.
    pub fn amplification(&self) -> f64 {
        self.live_bytes as f64 / (2.0 * self.garbage_bytes.max(1) as f64)
    }
}

fn share(bytes: u64, permille: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(permille) / 1000).unwrap_or(u64::MAX)
}

/// Merges the column over the densest window if more lies above the last level than the target allows.
pub(crate) fn plan(cx: &Context<'_>) -> Option<CompactionPlan> {
    let base_bytes = base_bytes(cx.shape.version);
    let allowance = SpaceBudget::new(cx.options, base_bytes)?;
    let parts = cx.shape.upper().flat_map(|(_, run)| run.parts());
    let upper_bytes =
        parts.filter(|part| !cx.busy.has(part)).fold(0u64, |sum, part| sum.saturating_add(part.bytes));
    if upper_bytes <= allowance.garbage_bytes {
        return None;
    }
    let columns = PartitionWindows::new(cx);
    if columns.base().is_empty() {
        return columns.merge(columns.everything(), Class::Target, Reason::SpaceTarget);
    }
    let loads = columns.loads();
    columns.merge_best(&loads, vec![true; loads.len()], Class::Target, Reason::SpaceTarget)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn options(target: u64, jobs: u32) -> StrategyOptions {
        StrategyOptions { max_space_amp_permille: Some(target), jobs, ..StrategyOptions::default() }
    }

    #[test]
    fn garbage_and_jobs_fit_beside_the_live_data() {
        assert_eq!(SpaceBudget::new(&StrategyOptions::default(), 1 << 30), None);
        for (target, jobs, base) in [(1250, 1, 1106), (1250, 2, 1106), (1500, 4, 100_000), (2000, 1, 10)] {
            let allowance = SpaceBudget::new(&options(target, jobs), base * MIB).unwrap();
            let transient = allowance.max_job_bytes * u64::from(jobs) * 3 / 2;
            let all = allowance.live_bytes + allowance.garbage_bytes + transient;
            assert!(all <= share(allowance.live_bytes, target), "{target} {jobs} {base}: {allowance:?}");
            assert!(allowance.amplification() < 10.0, "{allowance:?}");
        }
    }

    /// One table is the least job: if even that does not fit, the least garbage remains, and its cost is
    /// reported.
    #[test]
    fn a_target_without_room_is_expensive() {
        let allowance = SpaceBudget::new(&options(1050, 1), 1106 * MIB).unwrap();
        assert_eq!(allowance.max_job_bytes, 16 * MIB, "one table");
        assert_eq!(allowance.garbage_bytes, share(1106 * MIB, 50) - 24 * MIB, "what jobs leave");
        let tight = SpaceBudget::new(&options(1021, 8), 300 * MIB).unwrap();
        assert_eq!(tight.garbage_bytes, share(300 * MIB, 20));
        assert!((tight.amplification() - 25.0).abs() < 0.1, "{}", tight.amplification());
    }
}
