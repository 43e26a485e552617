//! Merges of a fluid tree: how much one job takes, and whether its output joins a run of the target level.

use super::Fluid;
use crate::plan::{Class, CompactionPlan, PlanInput, Reason};
use crate::plan_builder::{Context, PlanDraft, bytes_of, hull_of, input_from, narrow};
use crate::position::Position;
use esker_version::{KeyRange, LevelIndex, Run};
use std::sync::Arc;

impl Fluid {
    /// Merges inputs into `level`, with the overlapping parts of the target run.
    pub(super) fn merge_down(
        &self,
        cx: &Context<'_>,
        inputs: Vec<PlanInput>,
        level: LevelIndex,
        depth: u8,
        reason: Reason,
    ) -> PlanDraft {
        match (self.place(cx, level, depth, bytes_of(&inputs)), cx.shape.runs(level).first()) {
            (to @ Position::Into { .. }, Some(newest)) => into_run(level, newest, inputs, to, reason),
            (to, _) => PlanDraft { inputs, to, class: Class::Shape, reason },
        }
    }

    /// The target of a merge of `bytes` in `hull` into `level`: its only run where one is allowed; otherwise
    /// the newest run if that has not had its share of arrivals yet; otherwise the front.
    fn place(&self, cx: &Context<'_>, level: LevelIndex, depth: u8, bytes: u64) -> Position {
        let Some(newest) = cx.shape.runs(level).first() else { return Position::Front(level) };
        let allowed = self.runs_allowed(level);
        // Arrivals that form one run, of the T-1 that fill the level: ceil((T-1)/k).
        let arrivals = u128::from((self.size_ratio.permille() - 1000).div_ceil(1000 * allowed));
        let arriving = u128::from(newest.bytes()) + u128::from(bytes);
        let share = self.size_ratio.divide(arrivals.saturating_mul(self.capacity(cx, level, depth)));
        if allowed == 1 || (arrivals >= 2 && arriving <= share) {
            return Position::Into { level, run: newest.id, order: newest.order };
        }
        Position::Front(level)
    }

    /// The most bytes that one job may take; `None` without a limit.
    pub(super) fn job_bytes(&self, cx: &Context<'_>) -> Option<u64> {
        match self.partial {
            Some(partial) => Some(cx.options.max_job_bytes(cx.shape.last_bytes()).min(partial.max_job_bytes)),
            None if cx.migrates() => Some(cx.options.max_job_bytes(cx.shape.last_bytes())),
            None => cx.options.job_limit_bytes(cx.shape.last_bytes()),
        }
    }

    /// How many of these runs, oldest first, one job merges into one: in a migration no more than its byte
    /// limit allows, but at least two, because the other strategy may have left far more and far larger runs
    /// than the rules of this tree would merge at once.
    pub(super) fn runs_of_a_step<'r>(
        &self,
        cx: &Context<'_>,
        runs: impl ExactSizeIterator<Item = &'r Arc<Run>>,
    ) -> usize {
        let count = runs.len();
        let Some(limit) = self.job_bytes(cx).filter(|_| cx.migrates()) else { return count };
        let sums = runs.scan(0u64, |sum, run| {
            *sum = sum.saturating_add(run.bytes());
            Some(*sum)
        });
        sums.take_while(|&sum| sum <= limit).count().max(2).min(count)
    }

    /// Finishes a draft, without a filter if its run joins a full level and is merged again at once.
    pub(super) fn finish(&self, cx: &Context<'_>, mut draft: PlanDraft) -> Option<CompactionPlan> {
        // Merges whose rule fires until the runs are gone may proceed window by window, because the remaining
        // runs keep the rule firing. The rule of a level that is too large would stop firing after the first
        // keys and never reach the others.
        let fills_empty = |level| self.partial.is_some() && cx.shape.runs(level).is_empty();
        let goes_on = match draft.to {
            Position::Into { .. } => true,
            // The first window becomes the level's run, which the others are merged into.
            Position::Front(level) => fills_empty(level),
        };
        let continues = draft.reason != Reason::TooLarge && goes_on;
        if let Some(limit) = self.job_bytes(cx).filter(|_| continues && cx.options.slices)
            && bytes_of(&draft.inputs) > limit.saturating_mul(2)
            && !cx.can_move(&draft)
        {
            narrow(&mut draft.inputs, draft.to, limit);
        }
        let mut plan = cx.finish(draft)?;
        if let Position::Front(level) = plan.to {
            let allowed = self.upper_runs.of(1);
            let full = cx.shape.runs(level).len() as u64 >= u64::from(allowed);
            // With a limit the next merge takes some of the run's keys, and the rest stays.
            let is_whole = self.job_bytes(cx).is_none();
            let is_taken_on = plan.class == Class::Shape && level.get() == 1 && allowed > 1 && full;
            plan.filter = !(is_taken_on && is_whole);
        }
        Some(plan)
    }
}

pub(super) fn whole_runs(level: LevelIndex, runs: &[Arc<Run>]) -> Vec<PlanInput> {
    runs.iter().filter_map(|run| input_from(level, run, None)).collect()
}

/// A merge into a run: the parts of it that the inputs overlap are inputs as well.
pub(super) fn into_run(
    level: LevelIndex,
    run: &Run,
    mut inputs: Vec<PlanInput>,
    to: Position,
    reason: Reason,
) -> PlanDraft {
    let hull: Option<KeyRange> = hull_of(&inputs);
    inputs.extend(hull.and_then(|hull| input_from(level, run, Some(&hull))));
    PlanDraft { inputs, to, class: Class::Shape, reason }
}
