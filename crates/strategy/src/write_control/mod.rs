//! Write control: how fast writers may be, as pure functions of how full the queues before background work
//! are.
//!
//! Two queues lie between writers and the tree: memtables before the flush, and runs of level 0 before
//! compaction. A third is overwritten data that merges have not dropped yet ([`GarbageQueue`]). This module
//! defines their limits, the rate at which writers are admitted under pressure
//! ([`admitted_bytes_per_second`]), and the measured capacity of background work ([`Capacity`]). The store
//! measures and throttles its writers accordingly; a simulation does the same with a clock of its own, so
//! that both predict the same stalls.

mod admission_rate;
mod capacity;
mod garbage_queue;
mod pressure;

pub use admission_rate::{
    FULL_PERMILLE, admitted_before_flushes, admitted_bytes_per_second, fullness_permille, pressure_permille,
};
pub use capacity::{Capacity, UNKNOWN_BYTES_PER_SECOND};
pub use garbage_queue::{GarbageQueue, MOST_PRESSURE_PERMILLE};
pub use pressure::{Pressure, PressureCause, WriteState};

use crate::kind::Strategy;
use crate::options::StrategyOptions;

/// Sealed memtables that one keyspace may queue before its writers wait.
pub const MAX_SEALED: usize = 3;

/// Runs in level 0 at which writes stop, unless the strategy leaves more there.
pub const DEFAULT_LEVEL0_STOP_RUNS: u32 = 24;

/// Runs that arrive during the merge that they wait for; they do not indicate a backlog.
const LEVEL0_SLACK_RUNS: u32 = 2;

/// The share of its memory limit, in eighths, that a keyspace's memtables may hold without pressure: of four
/// memtables one and a half, so that the one being flushed and half of the active one are free.
const SOFT_MEMORY_EIGHTHS: u64 = 3;

/// Bytes of memtables of `memtable_bytes` each at which writes are slowed, and at which they stop: the active
/// memtable is full and no further one may be sealed. `memory_bytes` is the limit of sealed memtables.
pub fn memory_limits(memtable_bytes: u64, memory_bytes: u64) -> (u64, u64) {
    let memtable_bytes = memtable_bytes.max(1);
    let memtables = (memory_bytes / memtable_bytes).saturating_add(1).clamp(2, MAX_SEALED as u64 + 1);
    let hard = memtable_bytes.saturating_mul(memtables);
    ((hard / 8 * SOFT_MEMORY_EIGHTHS).max(memtable_bytes), hard)
}

/// Runs of level 0 at which writes are slowed and at which they stop: the configured values; by default above
/// what the strategy leaves in level 0 in normal operation, and unreachable where that is unbounded.
pub fn level0_limits(
    strategy: &Strategy,
    options: &StrategyOptions,
    slowdown_runs: Option<u32>,
    stop_runs: Option<u32>,
) -> (u32, u32) {
    let Some(trigger) = strategy.level0_trigger(options) else { return (u32::MAX - 1, u32::MAX) };
    let by_default = || DEFAULT_LEVEL0_STOP_RUNS.max(trigger.saturating_add(2 * LEVEL0_SLACK_RUNS));
    let hard = stop_runs.unwrap_or_else(by_default);
    let soft = slowdown_runs.unwrap_or(hard / 2);
    (soft.max(trigger.saturating_add(LEVEL0_SLACK_RUNS)).min(hard.saturating_sub(1)), hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_level_0_are_above_its_normal_runs() {
        let options = StrategyOptions::default();
        let limits = |strategy: &str| level0_limits(&strategy.parse().unwrap(), &options, None, None);
        assert_eq!(limits("partitioned"), (12, 24));
        assert_eq!(limits("leveled:10"), (12, 24));
        assert_eq!(limits("tiered:16"), (18, 24));
        assert_eq!(limits("tiered:32"), (34, 36));
        assert_eq!(limits("none"), (u32::MAX - 1, u32::MAX));
        assert_eq!(level0_limits(&Strategy::default(), &options, Some(50), Some(20)), (19, 20));
    }

    #[test]
    fn the_flushing_memtable_and_half_of_the_active_one_are_free() {
        assert_eq!(memory_limits(64, 1024), (96, 256));
        assert_eq!(memory_limits(64, 64), (64, 128), "of two there is one");
        assert_eq!(memory_limits(64, 0), (64, 128));
    }
}
