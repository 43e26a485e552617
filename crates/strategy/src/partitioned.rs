//! Partitioned lazy leveling, the default: tiers above a last level that is merged window by window.
//!
//! The last level is one run, and merges into it take one column at a time, always the densest. Merging whole
//! levels costs `1/u` to keep the garbage below a share `u` and needs a second copy of the level while it
//! runs; merging the densest window spreads the windows over all densities from 0 to `2g`, so the average
//! garbage is `g`, the cost is `1/(2g)`, and the transient space is one window per job.
//!
//! 1. *Tier*: enough runs of a level that are small against the last are merged into one run of the next
//!    level.
//! 2. *Dense*: when the garbage estimate above the last level exceeds `g` of its bytes (and a tier of
//!    flushes), or some window is very dense or has many runs over it, the column over the best window is
//!    merged. Parts count with their overwrite ratio, new keys with a third of their bytes
//!    ([`crate::garbage_estimate`]); so do runs in rule 1, whose tiers have an unchanged number of runs.
//! 3. *Scans*: where scans justify it, fewer runs than a tier are merged, up to the garbage budget. Like a
//!    tier they become one run of the next level, so each byte is merged at most once a level for this.
//! 4. *Clean*: tombstones. Parts that have expired or are hidden as a whole are dropped before everything
//!    else, because that costs no I/O.
//! 5. *Idle*: columns with enough data above a share of the last level to justify the rewrite.
//!
//! The number of levels needs no rule: rule 1 refuses a merge whose result would use half the garbage budget,
//! so those runs wait for rule 2. No state is kept beyond the shape.

use crate::garbage_budget::{flushed_tier_bytes, garbage_budget_bytes, small_garbage_bytes};
use crate::garbage_estimate::GarbageEstimates;
use crate::level_limit::LevelLimit;
use crate::partition_window::{PartitionWindows, UpperLoad};
use crate::plan::{Class, CompactionPlan, PlanInput, Reason};
use crate::plan_builder::is_busy;
use crate::plan_builder::{Context, PlanDraft, input_from};
use crate::position::Position;
use crate::shape::base_bytes;
use crate::space_target::{self, SpaceBudget};
use crate::tombstone_rules;
use esker_version::{LevelIndex, PartMeta, Run};
use std::sync::Arc;

/// More runs than this over one window make it eligible, however small they are.
const MAX_RUNS_OVER_WINDOW: u32 = 24;
/// A window this many times denser than the budget is merged at once.
const VERY_DENSE: u128 = 4;
pub(crate) fn plan(cx: &Context<'_>) -> Option<CompactionPlan> {
    tombstone_rules::plan_drops(cx)
        .or_else(|| urgent(cx))
        .or_else(|| tombstone_rules::plan_due_deletes(cx))
        .or_else(|| space_target::plan(cx))
        .or_else(|| plan_shape(cx))
        .or_else(|| merge_scanned(cx))
        .or_else(|| tombstone_rules::plan(cx))
        .or_else(|| converge(cx))
}

/// One step towards a single run, while the database is idle.
fn converge(cx: &Context<'_>) -> Option<CompactionPlan> {
    if cx.shape.idle { PartitionWindows::new(cx).converge() } else { None }
}

/// The estimated bytes to merge until no rule fires; zero iff none fires.
pub(crate) fn debt(cx: &Context<'_>) -> u64 {
    let Some(first) = plan(cx) else { return 0 };
    let tier_bytes = tier_levels().map(|level| prefix_bytes(cx, level)).fold(0u64, u64::saturating_add);
    let upper = upper_weight(cx);
    let budget = garbage_bytes(cx);
    // The excess over the budget is merged with the base under it: 1/(2g) bytes for each.
    let excess = u128::from(upper.saturating_sub(budget));
    let per_byte = 1000 + 500_000 / u128::from(cx.options.garbage_permille.max(1));
    let dense_bytes = u64::try_from(excess * per_byte / 1000).unwrap_or(u64::MAX);
    tier_bytes.saturating_add(dense_bytes).max(first.est_in_bytes).max(1)
}

pub(crate) fn plan_shape(cx: &Context<'_>) -> Option<CompactionPlan> {
    for level in tier_levels() {
        if let Some(plan) = tier(cx, level, Class::Shape) {
            return Some(plan);
        }
    }
    dense(cx, Class::Shape)
}

/// Merges the newest runs above the last level, of all levels with more than one, if scans justify it.
fn merge_scanned(cx: &Context<'_>) -> Option<CompactionPlan> {
    if !cx.shape.is_scanned {
        return None;
    }
    let mut newest = Vec::new();
    for level in tier_levels() {
        newest.extend(cx.shape.runs(level).iter().map(|run| (level, run)));
        if newest.len() < 2 {
            continue;
        }
        let runs = oldest_within(cx, &newest, garbage_bytes(cx), false);
        if runs.len() > 1 {
            return merge_below(cx, level, runs, Class::Clean, Reason::Scans);
        }
        newest.clear();
    }
    None
}

/// Merges if level 0 is half-way to stopping the writers.
fn urgent(cx: &Context<'_>) -> Option<CompactionPlan> {
    let (soft, hard) = (cx.options.tier_runs, cx.options.level0_hard_runs);
    let runs = counted_runs(cx, LevelIndex::FLUSH);
    if runs < u64::from(soft) + u64::from(hard.saturating_sub(soft) / 2) {
        return None;
    }
    tier(cx, LevelIndex::FLUSH, Class::L0Urgent).or_else(|| dense(cx, Class::L0Urgent))
}

/// Levels whose runs may become a tier of the next.
fn tier_levels() -> impl Iterator<Item = LevelIndex> {
    (0..LevelIndex::LAST.get() - 1).filter_map(LevelIndex::new)
}

/// The budget above the last level, by garbage estimate.
fn garbage_bytes(cx: &Context<'_>) -> u64 {
    let base_bytes = base_bytes(cx.shape.version);
    let target =
        SpaceBudget::new(cx.options, base_bytes).map_or(u64::MAX, |allowance| allowance.garbage_bytes);
    wanted_garbage_bytes(cx, base_bytes).min(target)
}

/// The budget by the options, without a space target.
fn wanted_garbage_bytes(cx: &Context<'_>, base_bytes: u64) -> u64 {
    if base_bytes == 0 {
        // The last level is empty: two full tiers of flushes.
        return flushed_tier_bytes(cx.options).saturating_mul(2);
    }
    garbage_budget_bytes(cx.options, base_bytes)
}

/// The largest garbage estimate of one tier.
fn tier_limit(cx: &Context<'_>) -> u64 {
    if cx.shape.base().is_none() {
        return cx.options.memtable_bytes.saturating_mul(8 * u64::from(cx.options.tier_runs));
    }
    garbage_bytes(cx) / 2
}

/// Level 0 holds one run fewer than a tier, unless they are too large for one: such runs wait for rule 2,
/// which bounds the garbage of all levels together, not the runs or bytes of each.
pub(crate) fn level_limit(cx: &Context<'_>, level: LevelIndex) -> LevelLimit {
    let tier_runs = u32::try_from(tier_runs(cx)).unwrap_or(u32::MAX);
    LevelLimit { runs: (level == LevelIndex::FLUSH).then_some(tier_runs - 1), bytes: None }
}

fn tier_runs(cx: &Context<'_>) -> usize {
    cx.options.tier_runs.max(2) as usize
}

type LevelRun<'a> = (LevelIndex, &'a Arc<Run>);

/// The oldest free runs of a level that are small enough together; empty if too few for a tier.
fn prefix<'a>(cx: &Context<'a>, level: LevelIndex, ignore_jobs: bool) -> Vec<LevelRun<'a>> {
    let runs: Vec<LevelRun<'_>> = cx.shape.runs(level).iter().map(|run| (level, run)).collect();
    let fitting = oldest_within(cx, &runs, tier_limit(cx), ignore_jobs);
    if fitting.len() < tier_runs(cx) { Vec::new() } else { fitting }
}

/// The oldest of these runs, newest first, that are free and whose garbage stays within the limit together.
fn oldest_within<'a>(
    cx: &Context<'a>,
    runs: &[LevelRun<'a>],
    limit_bytes: u64,
    ignore_jobs: bool,
) -> Vec<LevelRun<'a>> {
    let weights = GarbageEstimates::new(cx);
    let mut bytes = 0u64;
    let oldest = runs.iter().rev().take(tier_runs(cx) * 2);
    oldest
        .take_while(|(_, run)| {
            bytes = bytes.saturating_add(weights.of_run(run));
            bytes <= limit_bytes && (ignore_jobs || !is_busy(cx, run))
        })
        .copied()
        .collect()
}

fn prefix_bytes(cx: &Context<'_>, level: LevelIndex) -> u64 {
    prefix(cx, level, true).iter().fold(0, |sum, (_, run)| sum.saturating_add(run.bytes()))
}

/// Bytes in old files not in this form: above the budget, and in runs of the last level except its oldest.
pub(crate) fn misplaced_bytes(cx: &Context<'_>) -> u64 {
    let old = cx.shape.upper().fold(0u64, |sum, (_, run)| sum.saturating_add(cx.old_bytes(run)));
    old.min(upper_weight(cx).saturating_sub(garbage_bytes(cx)))
}

fn counted_runs(cx: &Context<'_>, level: LevelIndex) -> u64 {
    cx.shape.runs(level).iter().filter(|run| cx.counts_run(run)).count() as u64
}

fn tier(cx: &Context<'_>, level: LevelIndex, class: Class) -> Option<CompactionPlan> {
    if class == Class::Shape && counted_runs(cx, level) < tier_runs(cx) as u64 {
        return None;
    }
    // With a filter also where the run fills tier 1: what is merged next may be windows of its keys, and the
    // rest of the run stays.
    merge_below(cx, level, prefix(cx, level, false), class, Reason::Tier)
}

/// Merges these runs, the oldest of which are of this level, into the newest one of the next.
fn merge_below(
    cx: &Context<'_>,
    level: LevelIndex,
    runs: Vec<LevelRun<'_>>,
    class: Class,
    reason: Reason,
) -> Option<CompactionPlan> {
    let to = level.next().filter(|next| !next.is_last())?;
    let inputs = runs.into_iter().filter_map(|(level, run)| input_from(level, run, None));
    let inputs: Vec<PlanInput> = inputs.collect();
    if inputs.is_empty() {
        return None;
    }
    cx.finish(PlanDraft { inputs, to: Position::Front(to), class, reason })
}

/// The garbage estimate of everything above the last level that no job uses.
fn upper_weight(cx: &Context<'_>) -> u64 {
    let weights = GarbageEstimates::new(cx);
    let parts = cx.shape.upper().flat_map(|(_, run)| run.parts());
    let free = parts.filter(|part| !cx.busy.has(part) && cx.counts(part));
    free.fold(0, |sum, part| sum.saturating_add(weights.of_part(part)))
}

fn dense(cx: &Context<'_>, class: Class) -> Option<CompactionPlan> {
    let columns = PartitionWindows::new(cx);
    if tier_levels().any(|level| !prefix(cx, level, true).is_empty()) && columns.upper_is_busy() {
        // A tier is due, and running columns conflict with it. With two jobs taking turns there would always
        // be one, so no new column begins until the tier has run.
        return None;
    }
    let upper_weight = upper_weight(cx);
    let over_budget = class == Class::L0Urgent || upper_weight > garbage_bytes(cx);
    if columns.base().is_empty() {
        return if over_budget {
            columns.merge(columns.everything(), class, Reason::DenseWindow)
        } else {
            None
        };
    }
    let weights = GarbageEstimates::new(cx);
    let loads = columns.loads_by(|part| weights.of_part(part));
    let eligible: Vec<bool> = if over_budget {
        vec![true; loads.len()]
    } else {
        // While little lies above, only the number of runs counts, not its bytes, however dense.
        let bytes_count = upper_weight > small_garbage_bytes(cx.options);
        let is_eligible = |(part, load): (&Arc<PartMeta>, &UpperLoad)| {
            load.runs >= MAX_RUNS_OVER_WINDOW || (bytes_count && is_very_dense(cx, part.bytes, *load))
        };
        columns.base().iter().zip(&loads).map(is_eligible).collect()
    };
    columns.merge_best(&loads, eligible, class, Reason::DenseWindow)
}

fn is_very_dense(cx: &Context<'_>, base_bytes: u64, load: UpperLoad) -> bool {
    let budget = u128::from(base_bytes) * u128::from(cx.options.garbage_permille);
    u128::from(load.bytes) * 1000 > VERY_DENSE * budget
}
