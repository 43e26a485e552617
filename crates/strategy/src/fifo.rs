//! First in, first out: tables are dropped whole when they are too old or too many, and hardly anything is
//! merged.
//!
//! # What may be dropped
//! A part goes only if nothing older overlaps it: else versions that it hides would come to light. The data
//! of the oldest run always may go, so with runs over each other the oldest go first. And nothing goes while
//! a snapshot is registered: it would lose what it sees. Which part is older is told by its newest entry.
//!
//! # Where data lies
//! A flush goes where it overlaps nothing, as in every other tree: keys that ascend with time, for which this
//! strategy is made, become one run of small parts instead of a run for each flush, and are dropped part by
//! part all the same. So there is nothing that this strategy demands of a tree's form, and any tree can be
//! handed to it and back.

use crate::clean;
use crate::draft::{Context, Draft, input_from};
use crate::fluid::is_busy;
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Position, Reason, RunPosition};
use crate::validate::position;
use esker_base::SeqNo;
use esker_version::{LevelIndex, PartMeta, Run};
use std::sync::Arc;

/// Most parts dropped by one plan.
const MAX_DROPPED_PARTS: usize = 256;
/// So many small runs beside each other are merged into one, if that is wanted.
const SMALL_RUNS: usize = 4;
/// Most runs that one such merge takes.
const MAX_SMALL_RUNS: usize = 64;
/// A run is small if it has less than this share of what a flush brings.
const SMALL_RUN_DIVISOR: u64 = 4;

/// What first-in-first-out keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FifoLimits {
    /// Most bytes of tables, with what they point to in blob files; any number if `None`.
    pub max_bytes: Option<u64>,
    /// How old a table may get, in milliseconds; any age if `None`.
    pub max_age_ms: Option<u64>,
    /// Whether small runs are merged into one, so that reads meet fewer.
    pub merges_small_runs: bool,
}

impl FifoLimits {
    pub(crate) fn plan(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        clean::plan_free(cx)
            .or_else(|| self.drop_oldest(cx))
            .or_else(|| if self.merges_small_runs { merge_small_runs(cx) } else { None })
    }

    /// Bytes of what is to be done next; zero iff there is nothing.
    pub(crate) fn debt(&self, cx: &Context<'_>) -> u64 {
        self.plan(cx).map_or(0, |plan| plan.est_in_bytes.max(1))
    }

    fn drop_oldest(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        let has_snapshot = cx.shape.oldest_snapshot != SeqNo::MAX;
        let mut left_bytes = self.max_bytes.map_or(0, |_| total_bytes(cx));
        if has_snapshot || (self.max_age_ms.is_none() && left_bytes <= self.max_bytes?) {
            return None;
        }
        let mut oldest: Vec<(LevelIndex, &Arc<Run>, &Arc<PartMeta>)> =
            cx.shape.version.parts().filter(|(.., part)| !cx.busy.has(part)).collect();
        oldest.sort_by_key(|(level, run, part)| {
            (part.max_seqno, std::cmp::Reverse(position(*level, run)), part.id)
        });
        let mut found: Option<(PlanInput, Reason)> = None;
        for (level, run, part) in oldest {
            let reason = if self.max_bytes.is_some_and(|most| left_bytes > most) {
                Reason::OverSize
            } else if self.is_too_old(cx, part) {
                Reason::TooOld
            } else if found.is_none() {
                // What is older by its entries may still be younger by its file.
                continue;
            } else {
                break;
            };
            let at = position(level, run);
            if found.as_ref().is_some_and(|(input, _)| input.position() != at) {
                break;
            }
            if covers_older(cx, at, part) {
                continue;
            }
            left_bytes = left_bytes.saturating_sub(bytes_with_blobs(part));
            let (input, _) = found.get_or_insert_with(|| {
                (PlanInput { level, run: run.id, order: run.order, parts: Vec::new() }, reason)
            });
            input.parts.push(InputPart::whole(Arc::clone(part)));
            if input.parts.len() == MAX_DROPPED_PARTS {
                break;
            }
        }
        let (mut input, reason) = found?;
        input.parts.sort_by(|a, b| a.part.smallest().cmp(b.part.smallest()));
        let to = Position::Into { level: input.level, run: input.run, order: input.order };
        cx.complete(PlanKind::Drop, Draft { inputs: vec![input], to, class: Class::Free, reason })
    }

    fn is_too_old(&self, cx: &Context<'_>, part: &PartMeta) -> bool {
        let is_over = |age_ms: u64| part.created_ms.saturating_add(age_ms) <= cx.shape.now_ms;
        part.created_ms > 0 && self.max_age_ms.is_some_and(is_over)
    }
}

/// Whether something older would come to light if the part went.
fn covers_older(cx: &Context<'_>, at: RunPosition, part: &PartMeta) -> bool {
    let mut older = cx.shape.version.runs().rev().take_while(|(level, run)| position(*level, run) > at);
    older.any(|(_, run)| run.overlaps(&part.range))
}

fn bytes_with_blobs(part: &PartMeta) -> u64 {
    part.blobs.iter().fold(part.bytes, |sum, blob| sum.saturating_add(blob.bytes))
}

fn total_bytes(cx: &Context<'_>) -> u64 {
    let free = cx.shape.version.parts().filter(|(.., part)| !cx.busy.has(part));
    free.fold(0, |sum, (.., part)| sum.saturating_add(bytes_with_blobs(part)))
}

/// The oldest group of small runs that lie beside each other in level 0 becomes one run in the place of its
/// oldest. What comes out counts as being as old as the oldest of them.
fn merge_small_runs(cx: &Context<'_>) -> Option<CompactionPlan> {
    let small_bytes = cx.options.memtable_bytes / SMALL_RUN_DIVISOR;
    let runs = cx.shape.runs(LevelIndex::FLUSH);
    let is_small = |run: &Arc<Run>| run.bytes() < small_bytes && !is_busy(cx, run);
    let mut groups = runs.rsplit(|run| !is_small(run));
    let group = groups.find(|group| group.len() >= SMALL_RUNS)?;
    let mut group = &group[group.len().saturating_sub(MAX_SMALL_RUNS)..];
    // As long as the oldest is larger than all others together it stays out: a run that grows is rewritten
    // when it doubles, not with every few flushes.
    while let Some((oldest, newer)) = group.split_last()
        && oldest.bytes() > newer.iter().fold(0, |sum, run| sum.saturating_add(run.bytes()))
    {
        group = newer;
    }
    if group.len() < SMALL_RUNS {
        return None;
    }
    let oldest = group.last()?;
    let to = Position::Into { level: LevelIndex::FLUSH, run: oldest.id, order: oldest.order };
    let inputs = group.iter().filter_map(|run| input_from(LevelIndex::FLUSH, run, None)).collect();
    cx.finish(Draft { inputs, to, class: Class::Shape, reason: Reason::SmallRuns })
}
