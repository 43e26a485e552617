//! Fluid LSM tree: levels grow by a ratio, and each may hold several runs.
//!
//! Leveling, tiering and lazy leveling are instances (Dostoevsky, SIGMOD'18): `upper_runs` K runs in each
//! level above the last, `last_runs` Z in the last. K = Z = 1 is leveling, K = Z = T-1 is tiering, K = T-1
//! and Z = 1 is lazy leveling. K may differ from level to level: T-1 in level 0 and 1 below it is called
//! tiered and leveled elsewhere. Partial leveling is leveling that compacts a part of a level at a time. The
//! number of levels follows from the size of the last level: capacities are derived from it, so a level is
//! never much smaller than one batch of level 0, and a tree that shrinks loses levels.

use crate::options::SizeRatio;
use crate::partial::CompactionPriority;
use crate::partition_window::PartitionWindows;
use crate::plan::{Class, CompactionPlan, Reason};
use crate::plan_builder::{Context, PlanDraft, bytes_of};
use crate::runs_per_level::RunsPerLevel;
use crate::score::Score;
use crate::space_target;
use crate::tombstone_rules;
use esker_version::LevelIndex;
use level0::{counted, free_runs};

mod form;
mod full_level;
mod level0;
mod merges;

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

/// A level whose rule fires.
struct Candidate {
    score: Score,
    level: LevelIndex,
    work: Work,
}

/// What is to be done for it.
enum Work {
    PlanDraft(PlanDraft),
    /// Compacts one part of the level.
    SomePart,
}

impl Fluid {
    /// The plan of the first rule that has one.
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

    pub(crate) fn plan_shape(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        let mut candidates = self.candidates(cx);
        candidates.sort_by(|a, b| b.score.cmp(&a.score).then(b.level.cmp(&a.level)));
        let depth = self.depth(cx);
        candidates.into_iter().find_map(|candidate| match candidate.work {
            Work::PlanDraft(draft) => self.finish(cx, draft),
            Work::SomePart => self.plan_part(cx, candidate.level, depth),
        })
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

    /// Every level whose rule fires, with the work for it.
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
}
