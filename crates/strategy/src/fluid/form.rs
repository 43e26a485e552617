//! Form of a fluid tree: its depth, and how many runs and bytes each level may hold.

use super::Fluid;
use crate::level_limit::LevelLimit;
use crate::options::StrategyOptions;
use crate::plan_builder::Context;
use esker_version::{Level, LevelIndex, Run};
use std::sync::Arc;

/// Runs of level 0 that start a merge where the number of runs per level does not determine it.
const LEVEL0_TRIGGER_RUNS: u32 = 4;

impl Fluid {
    pub(crate) fn level0_trigger(&self, options: &StrategyOptions) -> u32 {
        let runs = self.upper_runs.of(0);
        if runs > 1 {
            return runs + 1;
        }
        let usual = self.partial.map_or(LEVEL0_TRIGGER_RUNS, |partial| partial.level0_runs);
        options.level0_trigger_runs.unwrap_or(usual).max(1)
    }

    /// The number of levels between level 0 and the last.
    pub(crate) fn depth(&self, cx: &Context<'_>) -> u8 {
        let largest = largest_last_run(cx);
        let memtables =
            self.partial.map_or(self.level0_trigger(cx.options), |partial| partial.least_memtables);
        let batch = u128::from(memtables) * u128::from(cx.options.memtable_bytes.max(1));
        let mut depth = 0;
        let mut least = self.size_ratio.times(batch);
        while least <= largest && depth < 62 {
            depth += 1;
            least = self.size_ratio.times(least);
        }
        let deepest =
            cx.shape.version.levels().iter().map(|level| level.index).rfind(|level| !level.is_last());
        depth.max(deepest.map_or(0, LevelIndex::get))
    }

    pub(super) fn runs_allowed(&self, level: LevelIndex) -> u32 {
        if level.is_last() { self.last_runs } else { self.upper_runs.of(level.get()) }
    }

    pub(super) fn next(&self, level: LevelIndex, depth: u8) -> LevelIndex {
        level.next().filter(|next| next.get() <= depth).unwrap_or(LevelIndex::LAST)
    }

    /// A level's capacity: the largest run of the last level, divided by the ratio for each level from there
    /// up.
    pub(super) fn capacity(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> u128 {
        let steps = if level.is_last() { 0 } else { u32::from(depth) + 1 - u32::from(level.get()) };
        (0..steps).fold(largest_last_run(cx), |bytes, _| self.size_ratio.divide(bytes))
    }

    /// A merge of level 0 begins at its trigger; a level of one run is bounded by its capacity, one of
    /// several by their number.
    pub(crate) fn level_limit(&self, cx: &Context<'_>, level: LevelIndex) -> LevelLimit {
        if level == LevelIndex::FLUSH {
            return LevelLimit { runs: Some(self.level0_trigger(cx.options) - 1), bytes: None };
        }
        let allowed = self.runs_allowed(level);
        let is_bounded = allowed == 1 && !level.is_last();
        let capacity = || u64::try_from(self.capacity(cx, level, self.depth(cx))).unwrap_or(u64::MAX);
        LevelLimit { runs: Some(allowed), bytes: is_bounded.then(capacity) }
    }

    /// Bytes in old files that are not in this tree's form: in level 0 if its runs start a merge; in levels
    /// with too many runs, except the run that the others are merged into; the excess over capacity in levels
    /// of one run.
    pub(crate) fn misplaced_bytes(&self, cx: &Context<'_>) -> u64 {
        let depth = self.depth(cx);
        let of_level = |level: &Level| {
            let (index, runs) = (level.index, level.runs());
            let allowed = self.runs_allowed(index);
            let old =
                |runs: &[Arc<Run>]| runs.iter().map(|run| cx.old_bytes(run)).fold(0, u64::saturating_add);
            if index == LevelIndex::FLUSH {
                let is_full = runs.len() as u64 >= u64::from(self.level0_trigger(cx.options));
                return if is_full { old(runs) } else { 0 };
            }
            if runs.len() as u64 > u64::from(allowed) {
                let in_place = usize::from(allowed == 1 || index.is_last());
                return old(&runs[..runs.len() - in_place]);
            }
            let excess = u128::from(level.bytes()).saturating_sub(self.capacity(cx, index, depth));
            let has_limit = allowed == 1 && !index.is_last();
            if has_limit { old(runs).min(u64::try_from(excess).unwrap_or(u64::MAX)) } else { 0 }
        };
        cx.shape.version.levels().iter().map(of_level).fold(0, u64::saturating_add)
    }
}

fn largest_last_run(cx: &Context<'_>) -> u128 {
    cx.shape.runs(LevelIndex::LAST).iter().map(|run| u128::from(run.bytes())).max().unwrap_or(0)
}
