//! The garbage budget: bytes that may lie above the last level of a partitioned tree.

use crate::options::StrategyOptions;

/// Target for the bytes above the last level, in percent of the share in the options: 235 of 1000 by default.
const MOST_GARBAGE_PERCENT: u64 = 124;

/// Bytes that may lie above a last level of `base_bytes` before they are merged: the target, less a flush
/// that comes on top at once and a fifth that arrives during the merge; but no less than two thirds of the
/// share without large flushes.
pub(crate) fn garbage_budget_bytes(options: &StrategyOptions, base_bytes: u64) -> u64 {
    let wanted = garbage_share_bytes(options, base_bytes);
    let flushes = options.memtable_bytes.saturating_mul(6) / 5;
    let left = most_garbage_bytes(options, base_bytes).saturating_sub(flushes);
    left.max(wanted / 3 * 2).min(wanted).max(small_garbage_bytes(options))
}

/// The equilibrium of writers and merges at full speed: bytes above a last level of `base_bytes`, just after
/// a flush. It is the target with a small reserve; where flushes are large, a flush more than the budget and
/// a reserve, otherwise merges would be idle.
pub(crate) fn garbage_target_bytes(options: &StrategyOptions, base_bytes: u64) -> u64 {
    let flush = options.memtable_bytes;
    let most = most_garbage_bytes(options, base_bytes).saturating_sub(flush / 10 * 3);
    most.max(garbage_budget_bytes(options, base_bytes).saturating_add(flush / 10 * 11))
}

/// Most bytes above a last level of `base_bytes` while writers and merges both run at full speed.
fn most_garbage_bytes(options: &StrategyOptions, base_bytes: u64) -> u64 {
    garbage_share_bytes(options, base_bytes) / 100 * MOST_GARBAGE_PERCENT
}

/// The share of a last level of `base_bytes` in the options.
pub(crate) fn garbage_share_bytes(options: &StrategyOptions, base_bytes: u64) -> u64 {
    let bytes = u128::from(base_bytes) * u128::from(options.garbage_permille) / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bytes that may lie above the last level whatever its size.
pub(crate) fn small_garbage_bytes(options: &StrategyOptions) -> u64 {
    flushed_tier_bytes(options).min(options.small_garbage_bytes)
}

pub(crate) fn flushed_tier_bytes(options: &StrategyOptions) -> u64 {
    options.memtable_bytes.saturating_mul(u64::from(options.tier_runs))
}
