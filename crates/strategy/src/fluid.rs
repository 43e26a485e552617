//! The fluid LSM tree: levels grow by a ratio, and each may hold several runs.
//!
//! Leveling, tiering and lazy leveling are instances (Dostoevsky, SIGMOD'18): `upper_runs` K runs in each
//! level above the last, `last_runs` Z in the last. K = Z = 1 is leveling, K = Z = T-1 is tiering, K = T-1
//! and Z = 1 is lazy leveling. K may differ from level to level: T-1 in level 0 and 1 below it is called
//! tiered and leveled elsewhere. Partial leveling is leveling that compacts a part of a level at a time. The
//! number of levels follows from the size of the last level: capacities are derived from it, so a level is
//! never much smaller than one batch of level 0, and a tree that shrinks loses levels.

use crate::level_limit::LevelLimit;
use crate::options::{SizeRatio, StrategyOptions};
use crate::partial::{CompactionPriority, LevelParts};
use crate::partition_window::PartitionWindows;
use crate::plan::{Class, CompactionPlan, PlanInput, Reason};
use crate::plan_builder::is_busy;
use crate::plan_builder::{Context, PlanDraft, bytes_of, hull_of, input_from, narrow};
use crate::position::Position;
use crate::runs_per_level::RunsPerLevel;
use crate::score::Score;
use crate::space_target;
use crate::tombstone_rules;
use esker_version::{KeyRange, Level, LevelIndex, Run};
use std::sync::Arc;

/// Runs of level 0 that start a merge where the number of runs per level does not determine it.
const LEVEL0_TRIGGER_RUNS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fluid {
    /// T.
    pub(crate) size_ratio: SizeRatio,
    /// K for each level, from level 0 on.
    pub(crate) upper_runs: RunsPerLevel,
    /// Z, at least 1.
    pub(crate) last_runs: u32,
    pub(crate) partial: Option<Partial>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) pick: CompactionPriority,
    /// Runs of level 0 that start a merge.
    pub(crate) level0_runs: u32,
    /// The smallest useful capacity of a level, in memtables times the ratio.
    pub(crate) least_memtables: u32,
    /// The most bytes one job may rewrite, whatever the options say.
    pub(crate) max_job_bytes: u64,
}

impl Partial {
    /// Level 0 collects twice as many runs as for leveling: each of its runs spans all keys, so that merging
    /// them rewrites all of level 1, window by window, and of the level below where level 1 is too small to
    /// hold them.
    pub(crate) fn with(pick: CompactionPriority) -> Partial {
        Partial { pick, level0_runs: 8, least_memtables: 1, max_job_bytes: u64::MAX }
    }

    /// Small jobs and few runs, as in the byron report; a level of less than two flushes would only cost
    /// writes.
    pub(crate) const GOLDEN: Partial = Partial {
        pick: CompactionPriority::LeastOverlap,
        level0_runs: 2,
        least_memtables: 2,
        max_job_bytes: 64 << 20,
    };
}

struct Candidate {
    score: Score,
    level: LevelIndex,
    work: Work,
}

enum Work {
    PlanDraft(PlanDraft),
    /// Compacts one part of the level.
    SomePart,
}

impl Fluid {
    pub(crate) fn plan(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        tombstone_rules::plan_drops(cx)
            .or_else(|| self.urgent(cx))
            .or_else(|| tombstone_rules::plan_due_deletes(cx))
            .or_else(|| space_target::plan(cx))
            .or_else(|| self.plan_shape(cx))
            .or_else(|| tombstone_rules::plan(cx))
            .or_else(|| self.plan_idle(cx))
    }

    /// Bytes that the rules would merge now; zero iff there is nothing to do.
    pub(crate) fn debt(&self, cx: &Context<'_>) -> u64 {
        let depth = self.depth(cx);
        let bytes = |candidate: &Candidate| match &candidate.work {
            Work::PlanDraft(draft) => bytes_of(&draft.inputs),
            Work::SomePart => self.excess_bytes(cx, candidate.level, depth),
        };
        let shape_bytes = self.candidates(cx).iter().map(bytes).fold(0, u64::saturating_add);
        let first_bytes = self.plan(cx).map_or(0, |plan| plan.est_in_bytes.max(1));
        shape_bytes.max(first_bytes)
    }

    fn urgent(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
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

    pub(crate) fn plan_shape(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        let mut candidates = self.candidates(cx);
        candidates.sort_by(|a, b| b.score.cmp(&a.score).then(b.level.cmp(&a.level)));
        let depth = self.depth(cx);
        candidates.into_iter().find_map(|candidate| match candidate.work {
            Work::PlanDraft(draft) => self.finish(cx, draft),
            Work::SomePart => self.plan_part(cx, candidate.level, depth),
        })
    }

    /// Compacts a part of a level that exceeds its capacity: the best that no running job conflicts with.
    fn plan_part(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> Option<CompactionPlan> {
        let pick = self.partial.map_or(CompactionPriority::LeastOverlap, |partial| partial.pick);
        let best = self.parts(cx, level, depth)?.best(pick);
        best.into_iter().find_map(|input| {
            let next = self.next(level, depth);
            cx.finish(self.merge_down(cx, vec![input], next, depth, Reason::TooLarge))
        })
    }

    fn parts<'a>(&self, cx: &Context<'a>, level: LevelIndex, depth: u8) -> Option<LevelParts<'a>> {
        let run = cx.shape.runs(level).first()?;
        let below = cx.shape.runs(self.next(level, depth)).first();
        let job_bytes = self.job_bytes(cx).unwrap_or(u64::MAX);
        Some(LevelParts { cx: *cx, level, run, below, job_bytes })
    }

    /// The bytes a level has to lose, with the bytes of the next level they are merged with.
    fn excess_bytes(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> u64 {
        let Some(parts) = self.parts(cx, level, depth) else { return 0 };
        let bytes = u128::from(parts.run.bytes()).max(1);
        let excess = bytes.saturating_sub(self.capacity(cx, level, depth));
        u64::try_from(u128::from(parts.bytes_with_below()) * excess / bytes).unwrap_or(u64::MAX)
    }

    fn job_bytes(&self, cx: &Context<'_>) -> Option<u64> {
        match self.partial {
            Some(partial) => Some(cx.options.max_job_bytes(cx.shape.last_bytes()).min(partial.max_job_bytes)),
            None if cx.migrates() => Some(cx.options.max_job_bytes(cx.shape.last_bytes())),
            None => cx.options.job_limit_bytes(cx.shape.last_bytes()),
        }
    }

    /// How many of these runs, oldest first, one job merges into one: in a migration no more than its byte
    /// limit allows, but at least two, because the other strategy may have left far more and far larger runs
    /// than the rules of this tree would merge at once.
    fn runs_of_a_step<'r>(
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

    /// In a migration: a too large level is compacted by parts if it and the next level have one run each.
    fn goes_by_parts(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> bool {
        let one_into_one = self.runs_allowed(level) == 1 && self.runs_allowed(self.next(level, depth)) == 1;
        self.partial.is_some() || (cx.migrates() && one_into_one)
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

    /// Whether everything becomes one run while the database is idle: true for trees with tiers above one run
    /// in the last level. Levels of one run stay, and so do several runs in the last level.
    pub(crate) fn converges(&self) -> bool {
        self.last_runs == 1 && !self.upper_runs.is_leveled_below_first()
    }

    fn plan_idle(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        if !cx.shape.idle || self.last_runs > 1 {
            return None;
        }
        if self.converges() {
            return PartitionWindows::new(cx).converge();
        }
        let mut draft = self.level0(cx, 1)?;
        (draft.class, draft.reason) = (Class::Idle, Reason::Converge);
        self.finish(cx, draft)
    }

    /// Finishes a draft, without a filter if its run joins a full level and is merged again at once.
    fn finish(&self, cx: &Context<'_>, mut draft: PlanDraft) -> Option<CompactionPlan> {
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
            plan.filter = !(plan.class == Class::Shape && level.get() == 1 && allowed > 1 && full);
        }
        Some(plan)
    }

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

    fn runs_allowed(&self, level: LevelIndex) -> u32 {
        if level.is_last() { self.last_runs } else { self.upper_runs.of(level.get()) }
    }

    fn next(&self, level: LevelIndex, depth: u8) -> LevelIndex {
        level.next().filter(|next| next.get() <= depth).unwrap_or(LevelIndex::LAST)
    }

    /// A level's capacity: the largest run of the last level, divided by the ratio for each level from there
    /// up.
    fn capacity(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> u128 {
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

    fn candidates(&self, cx: &Context<'_>) -> Vec<Candidate> {
        let depth = self.depth(cx);
        let trigger = self.level0_trigger(cx.options);
        let mut candidates = Vec::new();
        if let Some(draft) = self.level0(cx, trigger) {
            let score = Score::new(counted(cx, &free_runs(cx)), u64::from(trigger));
            candidates.push(Candidate { score, level: LevelIndex::FLUSH, work: Work::PlanDraft(draft) });
        }
        for level in cx.shape.version.levels().iter().filter(|level| level.index != LevelIndex::FLUSH) {
            candidates.extend(self.level_candidate(cx, level.index, depth));
        }
        candidates
    }

    /// Merges the oldest free runs of level 0, at most `2 * trigger`, if it has `trigger` of them.
    fn level0(&self, cx: &Context<'_>, trigger: u32) -> Option<PlanDraft> {
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

    fn level_candidate(&self, cx: &Context<'_>, level: LevelIndex, depth: u8) -> Option<Candidate> {
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

    /// Merges inputs into `level`, with the overlapping parts of the target run.
    fn merge_down(
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
}

fn whole_runs(level: LevelIndex, runs: &[Arc<Run>]) -> Vec<PlanInput> {
    runs.iter().filter_map(|run| input_from(level, run, None)).collect()
}

/// A merge into a run: the parts of it that the inputs overlap are inputs as well.
fn into_run(
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
fn free_runs<'a>(cx: &Context<'a>) -> Vec<&'a Arc<Run>> {
    cx.shape.runs(LevelIndex::FLUSH).iter().rev().filter(|run| !is_busy(cx, run)).collect()
}

/// How many of these runs count.
fn counted(cx: &Context<'_>, runs: &[&Arc<Run>]) -> u64 {
    runs.iter().filter(|run| cx.counts_run(run)).count() as u64
}

fn largest_last_run(cx: &Context<'_>) -> u128 {
    cx.shape.runs(LevelIndex::LAST).iter().map(|run| u128::from(run.bytes())).max().unwrap_or(0)
}
