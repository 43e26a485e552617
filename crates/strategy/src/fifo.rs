//! FIFO compaction: whole tables are dropped when they are too old or exceed the size limit; almost nothing
//! is merged.
//!
//! # What may be dropped
//! A part is dropped only if nothing older overlaps it; otherwise versions that it hides would reappear. The
//! oldest run can always be dropped, so of overlapping runs the oldest go first. Nothing is dropped while a
//! snapshot is registered, because it would lose visible data. Parts are ordered by their newest entry.
//!
//! # Placement
//! A flush is placed where it overlaps nothing, as in every strategy: keys that ascend with time, the
//! intended use of this strategy, form one run of small parts instead of a run for each flush, and are still
//! dropped part by part. So this strategy requires no form of the tree, and any tree can switch to it and
//! back.

use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Reason};
use crate::plan_builder::is_busy;
use crate::plan_builder::{Context, PlanDraft, input_from};
use crate::position::Position;
use crate::position::RunPosition;
use crate::tombstone_rules;
use crate::validate::position;
use esker_base::SeqNo;
use esker_version::{LevelIndex, PartMeta, Run};
use std::sync::Arc;

const MAX_DROPPED_PARTS: usize = 256;
/// This many adjacent small runs are merged into one, if enabled.
const SMALL_RUNS: usize = 4;
const MAX_SMALL_RUNS: usize = 64;
/// A run is small if it has less than one in so many of a flush's bytes.
const SMALL_RUN_DIVISOR: u64 = 4;

/// The limits of FIFO compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FifoLimits {
    /// The most bytes of tables and of the blob records they point to; unlimited if `None`.
    pub max_bytes: Option<u64>,
    /// The greatest age of a table in milliseconds; unlimited if `None`.
    pub max_age_ms: Option<u64>,
    /// Whether small runs are merged into one, so that reads search fewer runs.
    pub merges_small_runs: bool,
}

impl FifoLimits {
    pub(crate) fn plan(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        tombstone_rules::plan_drops(cx)
            .or_else(|| self.drop_oldest(cx))
            .or_else(|| if self.merges_small_runs { merge_small_runs(cx) } else { None })
    }

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
            cx.shape.version.parts().filter(|(.., part)| !cx.busy.is_input(part)).collect();
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
                // A part that is older by its entries may be newer by its file.
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
        cx.complete(PlanKind::Drop, PlanDraft { inputs: vec![input], to, class: Class::Free, reason })
    }

    fn is_too_old(&self, cx: &Context<'_>, part: &PartMeta) -> bool {
        let is_over = |age_ms: u64| part.created_ms.saturating_add(age_ms) <= cx.shape.now_ms;
        part.created_ms > 0 && self.max_age_ms.is_some_and(is_over)
    }
}

/// Whether dropping the part would make an older version visible.
fn covers_older(cx: &Context<'_>, at: RunPosition, part: &PartMeta) -> bool {
    let mut older = cx.shape.version.runs().rev().take_while(|(level, run)| position(*level, run) > at);
    older.any(|(_, run)| run.overlaps(&part.range))
}

fn bytes_with_blobs(part: &PartMeta) -> u64 {
    part.blobs.iter().fold(part.bytes, |sum, blob| sum.saturating_add(blob.bytes))
}

fn total_bytes(cx: &Context<'_>) -> u64 {
    let free = cx.shape.version.parts().filter(|(.., part)| !cx.busy.is_input(part));
    free.fold(0, |sum, (.., part)| sum.saturating_add(bytes_with_blobs(part)))
}

/// Merges the oldest group of adjacent small runs of level 0 into one, which counts as old as the oldest.
fn merge_small_runs(cx: &Context<'_>) -> Option<CompactionPlan> {
    let small_bytes = cx.options.memtable_bytes / SMALL_RUN_DIVISOR;
    let runs = cx.shape.runs(LevelIndex::FLUSH);
    let is_small = |run: &Arc<Run>| run.bytes() < small_bytes && !is_busy(cx, run);
    let mut groups = runs.rsplit(|run| !is_small(run));
    let group = groups.find(|group| group.len() >= SMALL_RUNS)?;
    let mut group = &group[group.len().saturating_sub(MAX_SMALL_RUNS)..];
    // An oldest run larger than the others together stays out: a growing run is rewritten when it doubles.
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
    cx.finish(PlanDraft { inputs, to, class: Class::Shape, reason: Reason::SmallRuns })
}
