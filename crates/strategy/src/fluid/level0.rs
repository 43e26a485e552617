//! Level 0 of a fluid tree: a batch of its runs is merged into the first level that may hold them.

use super::Fluid;
use crate::plan::{Class, CompactionPlan, PlanInput, Reason};
use crate::plan_builder::{Context, PlanDraft, hull_of, input_from, is_busy};
use crate::position::Position;
use esker_version::{KeyRange, LevelIndex, Run};
use std::sync::Arc;

impl Fluid {
    /// A merge of level 0 half way between its trigger and the number of runs that stops writers.
    pub(super) fn urgent(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        let trigger = self.level0_trigger(cx.options);
        let hard = cx.options.level0_hard_runs;
        let runs = cx.shape.runs(LevelIndex::FLUSH).iter().filter(|run| cx.counts_run(run)).count() as u64;
        if runs < u64::from(trigger + hard.saturating_sub(trigger) / 2) {
            return None;
        }
        let mut draft = self.level0(cx, trigger)?;
        draft.class = Class::L0Urgent;
        self.finish(cx, draft)
    }

    /// Merges the oldest free runs of level 0, at most `2 * trigger`, if it has `trigger` of them.
    pub(super) fn level0(&self, cx: &Context<'_>, trigger: u32) -> Option<PlanDraft> {
        let mut runs = free_runs(cx);
        if counted(cx, &runs) < u64::from(trigger) {
            return None;
        }
        let most = cx.options.max_job_runs.unwrap_or(self.level0_trigger(cx.options).saturating_mul(2));
        runs.truncate(most.max(1) as usize);
        let depth = self.depth(cx);
        let first = self.next(LevelIndex::FLUSH, depth);
        // A few runs of an idle database are not dense enough for it.
        let is_batch = trigger >= self.level0_trigger(cx.options);
        let batch_runs = trigger.min(most.max(1));
        let passed = if is_batch { self.passed_run(cx, batch_runs, first, depth) } else { None };
        let to = if passed.is_some() { self.next(first, depth) } else { first };
        let down = |runs: &[&Arc<Run>]| {
            let mut inputs: Vec<PlanInput> =
                runs.iter().filter_map(|run| input_from(LevelIndex::FLUSH, run, None)).collect();
            if let Some(passed) = passed {
                let below = cx.shape.runs(to).first();
                let hull = hull_of(&inputs).map(|hull| grown(hull, &[Some(passed), below]));
                inputs.extend(input_from(first, passed, hull.as_ref()));
            }
            self.merge_down(cx, inputs, to, depth, Reason::Level0Runs)
        };
        let draft = down(&runs);
        Some(match draft.to {
            // As in the levels below: what becomes a run of its own must be merged whole.
            Position::Front(_) => down(&runs[..self.runs_of_a_step(cx, runs.iter().copied())]),
            Position::Into { .. } => draft,
        })
    }

    /// The run of the first level, if a window of level 0 takes it along to the level below: under partial
    /// leveling, where that level holds less than half of a batch of level 0 and has no capacity left for the
    /// window.
    ///
    /// Merged into so small a level, nearly all of a batch would be compacted again at once and be written
    /// twice. Passed through, it is written once, and the level keeps what it has capacity for, which saves
    /// that many bytes of the level below. A larger level is worth writing to: its densest part is compacted
    /// next.
    fn passed_run<'a>(
        &self,
        cx: &Context<'a>,
        batch_runs: u32,
        first: LevelIndex,
        depth: u8,
    ) -> Option<&'a Arc<Run>> {
        self.partial.filter(|_| cx.options.slices && !first.is_last())?;
        let [run] = cx.shape.runs(first) else { return None };
        let capacity = self.capacity(cx, first, depth);
        let batch_bytes = u128::from(batch_runs) * u128::from(cx.options.memtable_bytes);
        let with_window = u128::from(run.bytes()) + u128::from(self.job_bytes(cx)?);
        (capacity * 2 < batch_bytes && with_window > capacity).then_some(run)
    }
}

/// The hull, extended by all parts of these runs that overlap it, and by those that overlap the extension: a
/// part of the lower run that extends beyond the hull may lie below a part of the upper one that the hull
/// does not overlap.
fn grown(mut hull: KeyRange, runs: &[Option<&Arc<Run>>]) -> KeyRange {
    loop {
        let touched = runs.iter().flatten().flat_map(|run| run.overlapping(&hull));
        let next = touched.fold(hull.clone(), |hull, part| hull.hull(&part.range));
        if next == hull {
            return hull;
        }
        hull = next;
    }
}

/// Runs of level 0 that no job uses, oldest first.
pub(super) fn free_runs<'a>(cx: &Context<'a>) -> Vec<&'a Arc<Run>> {
    cx.shape.runs(LevelIndex::FLUSH).iter().rev().filter(|run| !is_busy(cx, run)).collect()
}

/// How many of these runs count.
pub(super) fn counted(cx: &Context<'_>, runs: &[&Arc<Run>]) -> u64 {
    runs.iter().filter(|run| cx.counts_run(run)).count() as u64
}
