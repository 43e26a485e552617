//! Working round set-aside parts: merges of level 0 where the strategy's own merges are blocked.
//!
//! A merge that would take level 0 into a run with a part that is set aside (SA1) cannot be made, so level 0
//! would grow by a run with each flush, and reads would slow down. So neighbouring runs of level 0 are merged
//! among themselves, as tiers by size: a run is taken if it is not larger than the newer ones with it. Each
//! entry is then rewritten a number of times that grows with the logarithm of level 0. The result stands in
//! the place of the oldest, so nothing passes what is set aside, above or below.

use crate::plan::{Class, CompactionPlan, PlanKind, Reason};
use crate::plan_builder::{Context, PlanDraft, input_from, is_busy};
use crate::position::Position;
use esker_version::{LevelIndex, Run};
use std::sync::Arc;

/// Runs that are merged at least: as many as a tier has by default.
const LEAST_RUNS: usize = 4;
/// Runs that are merged at most, so that a merge opens few tables.
const MOST_RUNS: usize = 32;

/// A merge of runs of level 0, if there are files set aside and enough runs beside each other.
pub(crate) fn plan(cx: &Context<'_>) -> Option<CompactionPlan> {
    if !cx.busy.has_set_aside() {
        return None;
    }
    let runs = cx.shape.runs(LevelIndex::FLUSH);
    runs.split(|run| is_busy(cx, run)).find_map(|group| merge(cx, tier(group)?))
}

/// The newest runs beside each other that make a tier: none is larger than the newer ones in it together.
fn tier(group: &[Arc<Run>]) -> Option<&[Arc<Run>]> {
    if group.len() >= MOST_RUNS {
        return Some(&group[..MOST_RUNS]);
    }
    (0..group.len()).map(|start| &group[start..]).find_map(|runs| {
        let mut bytes = runs[0].bytes();
        let fitting = runs[1..].iter().take_while(|run| {
            let fits = run.bytes() <= bytes;
            bytes = bytes.saturating_add(run.bytes());
            fits
        });
        let count = 1 + fitting.count();
        (count >= LEAST_RUNS).then(|| &runs[..count])
    })
}

fn merge(cx: &Context<'_>, runs: &[Arc<Run>]) -> Option<CompactionPlan> {
    let oldest = runs.last()?;
    let to = Position::Into { level: LevelIndex::FLUSH, run: oldest.id, order: oldest.order };
    let inputs = runs.iter().filter_map(|run| input_from(LevelIndex::FLUSH, run, None)).collect();
    let draft = PlanDraft { inputs, to, class: Class::Shape, reason: Reason::TooManyRuns };
    cx.complete(PlanKind::Merge, draft)
}
