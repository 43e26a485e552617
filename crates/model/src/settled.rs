//! Simulation without a clock: a flush, then all jobs of the strategy, then the next flush.

use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::tree::Tree;

/// More jobs than this after one flush indicate an endless loop, because each moves data to a new place.
const MOST_JOBS: u64 = 1_000_000;

/// Writes up to a moment, in operations.
pub(crate) fn run(scenario: &Scenario, tree: &mut Tree, tally: &mut Tally, until: f64) -> Result<(), String> {
    let operations = tree.options.memtable_bytes as f64 / scenario.workload.operation_bytes();
    // A rounding remainder is not a flush.
    while tree.flushed_to < until - 1e-6 * operations {
        let to = (tree.flushed_to + operations).min(until);
        let flushed = to - tree.flushed_to;
        let bytes = tree.flush(to, 0)?;
        tally.flushed(flushed, bytes);
        tally.observe(tree, 0.0, 0);
        settle(tree, tally, false)?;
        tally.observe(tree, flushed, 0);
        tally.sample(tree);
    }
    Ok(())
}

/// Executes all planned jobs, one after the other; returns the bytes written.
pub(crate) fn settle(tree: &mut Tree, tally: &mut Tally, idle: bool) -> Result<u64, String> {
    let (mut bytes, mut jobs) = (0, 0);
    while let Some(job) = tree.begin(idle, 0)? {
        bytes += job.out_bytes;
        tally.observe(tree, 0.0, job.out_bytes);
        tally.job(&job);
        tree.end(job, 0)?;
        tally.observe(tree, 0.0, 0);
        jobs += 1;
        if jobs > MOST_JOBS {
            return Err(format!("{} does not come to rest: {jobs} jobs after one flush", tree.strategy));
        }
    }
    Ok(bytes)
}
