//! Full levels of a fluid tree: a level with too many runs or bytes is merged down, as a whole or by parts.

use super::merges::{into_run, whole_runs};
use super::{Candidate, Fluid, Work};
use crate::partial::{CompactionPriority, LevelParts};
use crate::plan::{CompactionPlan, Reason};
use crate::plan_builder::{Context, is_busy};
use crate::position::Position;
use crate::score::Score;
use esker_version::LevelIndex;

impl Fluid {
    pub(super) fn level_candidate(
        &self,
        cx: &Context<'_>,
        level: LevelIndex,
        depth: u8,
    ) -> Option<Candidate> {
        let runs = cx.shape.runs(level);
        let allowed = self.runs_allowed(level);
        let capacity = self.capacity(cx, level, depth);
        let counted_runs = runs.iter().filter(|run| cx.counts_run(run)).count() as u64;
        let too_many = counted_runs > u64::from(allowed);
        if self.goes_by_parts(cx, level, depth) && runs.len() == 1 && !level.is_last() {
            let bytes = u128::from(self.parts(cx, level, depth)?.free_bytes());
            let score = Score { part: bytes, whole: capacity };
            return (bytes > capacity).then_some(Candidate { score, level, work: Work::SomePart });
        }
        let bytes = runs.iter().fold(0u64, |sum, run| sum.saturating_add(cx.counted_bytes(run)));
        let too_large = !level.is_last() && allowed == 1 && u128::from(bytes) > capacity;
        if !(too_many || too_large) || runs.iter().any(|run| is_busy(cx, run)) {
            return None;
        }
        let score = if too_many {
            Score::new(counted_runs, u64::from(allowed) + 1)
        } else {
            Score { part: u128::from(bytes), whole: capacity }
        };
        // The oldest, if a job may not take all of them; at least two, to merge them into one.
        let most = cx.options.max_job_runs.map_or(runs.len(), |most| most.max(2) as usize);
        let oldest = &runs[runs.len().saturating_sub(most)..];
        // Where one run is allowed, more exist only after a change of strategy: they are merged into one in
        // place. Parts are compacted from a single run only.
        let is_divided = too_many || (self.partial.is_some() && runs.len() > 1);
        let draft = if is_divided && (allowed == 1 || level.is_last()) {
            let (target, newer) = oldest.split_last()?;
            let to = Position::Into { level, run: target.id, order: target.order };
            into_run(level, target, whole_runs(level, newer), to, Reason::TooManyRuns)
        } else {
            let reason = if too_many { Reason::TooManyRuns } else { Reason::TooLarge };
            let down =
                |runs| self.merge_down(cx, whole_runs(level, runs), self.next(level, depth), depth, reason);
            let draft = down(oldest);
            match draft.to {
                // A merge into a run proceeds window by window; a new run must be merged whole.
                Position::Front(_) => {
                    down(&oldest[oldest.len() - self.runs_of_a_step(cx, oldest.iter().rev())..])
                }
                Position::Into { .. } => draft,
            }
        };
        Some(Candidate { score, level, work: Work::PlanDraft(draft) })
    }

    /// Compacts a part of a level that exceeds its capacity: the best that no running job conflicts with.
    pub(super) fn plan_part(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> Option<CompactionPlan> {
        let pick = self.partial.map_or(CompactionPriority::LeastOverlap, |partial| partial.pick);
        let best = self.parts(cx, level, depth)?.best(pick);
        best.into_iter().find_map(|input| {
            let next = self.next(level, depth);
            cx.finish(self.merge_down(cx, vec![input], next, depth, Reason::TooLarge))
        })
    }

    /// The bytes a level has to lose, with the bytes of the next level they are merged with.
    pub(super) fn excess_bytes(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> u64 {
        let Some(parts) = self.parts(cx, level, depth) else { return 0 };
        let bytes = u128::from(parts.run.bytes()).max(1);
        let excess = bytes.saturating_sub(self.capacity(cx, level, depth));
        u64::try_from(u128::from(parts.bytes_with_below()) * excess / bytes).unwrap_or(u64::MAX)
    }

    fn parts<'a>(&self, cx: &Context<'a>, level: LevelIndex, depth: u8) -> Option<LevelParts<'a>> {
        let run = cx.shape.runs(level).first()?;
        let below = cx.shape.runs(self.next(level, depth)).first();
        let job_bytes = self.job_bytes(cx).unwrap_or(u64::MAX);
        Some(LevelParts { cx: *cx, level, run, below, job_bytes })
    }

    /// In a migration: a too large level is compacted by parts if it and the next level have one run each.
    fn goes_by_parts(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> bool {
        let one_into_one = self.runs_allowed(level) == 1 && self.runs_allowed(self.next(level, depth)) == 1;
        self.partial.is_some() || (cx.migrates() && one_into_one)
    }
}
