//! Tombstone rules: compactions that drop tombstones and expired entries, shared by every merging strategy.
//!
//! A rule fires only where its merge is certain to change something, otherwise compaction would not end: a
//! part above the last level always changes its level; a part of the last level is rewritten only if no
//! snapshot and no other part can keep its tombstones.
//!
//! # The cost bound of a tombstone merge
//! The density of one part is not a sufficient condition. If every fourth write deletes a random key, every
//! flush has that density and overlaps the whole last level, so each flush would rewrite the whole tree: more
//! than ten bytes written for each byte of the user. Therefore, while writes arrive, a quarter of the entries
//! of the whole column, the last level included, must be garbage. Then at most four entries are rewritten for
//! each entry dropped, however deletes are distributed. With a share `d` of deletes everywhere, the bytes
//! above the last level must first reach `1/(4d - 1)` times the last level, which the shape rules do not
//! allow; for a deleted range a third of it is enough. In an idle database the density of the part alone is
//! enough.
//!
//! The same holds for entries of the last level that expire, where a part loses a little at a time. Rewritten
//! at each tenth of garbage, a part is written nine times until it is empty; at each quarter, three times. So
//! while writes arrive a quarter of a part must be garbage, and at most three entries are written for each
//! entry dropped. As each entry is dropped once, the cost is at most three bytes for each byte ever written,
//! and on average an eighth of the last level is garbage. In an idle database a tenth is enough. Both rules
//! use table metadata only: expiry times are assumed to be spread evenly from the first to the last.

use crate::partition_window::{PartitionWindows, Window};
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Reason};
use crate::plan_builder::{Context, PlanDraft, input_from};
use crate::position::Position;
use crate::position::RunPosition;
use crate::validate::position;
use esker_version::{LevelIndex, PartMeta, Run};
use std::sync::Arc;

/// Share of garbage at which a part is merged, and share of all entries rewritten: one in this many.
const DENSE_TOMBSTONES: u64 = 4;
/// The same for a part of the last level while the database is idle.
const IDLE_LAST_TOMBSTONES: u64 = 10;
/// Parts with fewer entries are not worth a job of their own.
const LEAST_ENTRIES: u64 = 1024;
const MAX_DROPPED_PARTS: usize = 256;
/// How many due parts are tried when running jobs conflict with them.
const MAX_TRIES: usize = 8;

/// Plans without I/O: parts that are dropped unread.
pub(crate) fn plan_drops(cx: &Context<'_>) -> Option<CompactionPlan> {
    drop_hidden(cx).or_else(|| drop_expired(cx))
}

/// The most urgent of the rules without a deadline.
pub(crate) fn plan(cx: &Context<'_>) -> Option<CompactionPlan> {
    merge_tombstones(cx).or_else(|| rewrite_last(cx))
}

/// Deleted data that must be dropped before a deadline that is near: the earliest deadline first.
pub(crate) fn plan_due_deletes(cx: &Context<'_>) -> Option<CompactionPlan> {
    cx.options.delete_within_ms?;
    let mut due: Vec<(u64, LevelIndex, &Arc<Run>, &Arc<PartMeta>)> = cx
        .shape
        .version
        .parts()
        .filter_map(|(level, run, part)| {
            let gone_ms = oldest_gone_ms(part, cx.shape.expired_ms)?;
            let due_ms = cx.options.delete_due_ms(gone_ms)?;
            (due_ms <= cx.shape.now_ms && !cx.busy.has(part)).then_some((due_ms, level, run, part))
        })
        .collect();
    due.sort_by_key(|(due_ms, level, _, part)| (*due_ms, std::cmp::Reverse(*level), part.id));
    let columns = PartitionWindows::new(cx);
    let base = cx.shape.base().map(|run| run.id);
    let merge = |part: &PartMeta| {
        // The first step may not include the part itself: what can be moved precedes what must be merged, and
        // a large column is merged in parts. Each step moves something down, so the part is reached.
        columns.merge(columns.window_of(&part.range), Class::Target, Reason::DeleteTarget)
    };
    due.into_iter().take(MAX_TRIES).find_map(|(_, level, run, part)| {
        if holds_file_alone(cx, part) {
            return leave_file(cx, level, run, part);
        }
        if level == LevelIndex::LAST && Some(run.id) == base {
            let alone = rewrite(cx, run, part, Class::Target, Reason::DeleteTarget);
            // A part above it that may hold older versions has no deadline of its own.
            let is_kept = !is_pinned(cx, part) && is_kept_above(cx, part);
            return alone.or_else(|| if is_kept { merge(part) } else { None });
        }
        merge(part)
    })
}

/// Whether only the hidden remainder of its file is due in a part: it exists as long as the part.
fn holds_file_alone(cx: &Context<'_>, part: &PartMeta) -> bool {
    part.sliced && !part.stands_for_deletes() && part.expired_entries(cx.shape.expired_ms) == 0
}

/// Rewrites a slice into a file of its own, in place, so that the old file can be deleted.
fn leave_file(
    cx: &Context<'_>,
    level: LevelIndex,
    run: &Arc<Run>,
    part: &Arc<PartMeta>,
) -> Option<CompactionPlan> {
    let to = Position::Into { level, run: run.id, order: run.order };
    let parts = vec![InputPart::whole(Arc::clone(part))];
    let inputs = vec![PlanInput { level, run: run.id, order: run.order, parts }];
    cx.finish(PlanDraft { inputs, to, class: Class::Target, reason: Reason::DeleteTarget })
}

/// When the oldest dropped data of a part was deleted, or expired for every reader; `None` if there is none.
pub fn oldest_gone_ms(part: &PartMeta, expired_ms: u64) -> Option<u64> {
    let expired = part.min_expiry_ms.filter(|&ms| ms <= expired_ms);
    part.oldest_delete_ms.into_iter().chain(expired).min()
}

/// Drops parts that range tombstones hide completely. No older version reappears: the range tombstones stay,
/// and they hide everything below as well.
fn drop_hidden(cx: &Context<'_>) -> Option<CompactionPlan> {
    if cx.shape.hidden.is_empty() {
        return None;
    }
    drop_parts(cx, Reason::RangeDeleted, |_, part| cx.shape.hidden.binary_search(&part.id).is_ok())
}

/// Drops parts in which every entry has expired and which hide nothing older. Not while an older snapshot
/// exists: a transaction that reads at that snapshot must detect that the keys have changed.
fn drop_expired(cx: &Context<'_>) -> Option<CompactionPlan> {
    let version = cx.shape.version;
    let covers_older = |at: RunPosition, part: &PartMeta| {
        version.runs().any(|(level, run)| position(level, run) > at && run.overlaps(&part.range))
    };
    drop_parts(cx, Reason::Expired, |at, part| {
        part.max_expiry_ms.is_some_and(|ms| ms <= cx.shape.expired_ms)
            && part.max_seqno <= cx.shape.oldest_snapshot
            && !covers_older(at, part)
    })
}

/// Drops parts of one run that no job uses.
fn drop_parts(
    cx: &Context<'_>,
    reason: Reason,
    is_gone: impl Fn(RunPosition, &PartMeta) -> bool,
) -> Option<CompactionPlan> {
    cx.shape.version.runs().find_map(|(level, run)| {
        let at = position(level, run);
        let gone = run.parts().iter().filter(|part| is_gone(at, part) && !cx.busy.is_input(part));
        let parts: Vec<InputPart> = gone.take(MAX_DROPPED_PARTS).cloned().map(InputPart::whole).collect();
        if parts.is_empty() {
            return None;
        }
        let to = Position::Into { level, run: run.id, order: run.order };
        let inputs = vec![PlanInput { level, run: run.id, order: run.order, parts }];
        cx.complete(PlanKind::Drop, PlanDraft { inputs, to, class: Class::Free, reason })
    })
}

/// Garbage entries of a part: tombstones, and entries that have expired for every reader. A merge that drops
/// expired entries leaves no part whose earliest expiry has passed, so it is not repeated.
pub(crate) fn garbage(cx: &Context<'_>, part: &PartMeta) -> u64 {
    let tombstones = part.tombstones.saturating_add(part.range_tombstones);
    tombstones.saturating_add(part.expired_entries(cx.shape.expired_ms))
}

/// Merges a part above the last level with a high share of tombstones: its column, oldest run first.
fn merge_tombstones(cx: &Context<'_>) -> Option<CompactionPlan> {
    let columns = PartitionWindows::new(cx);
    let due = columns.upper().iter().flat_map(|(_, run)| run.parts()).filter(|part| {
        part.entries > LEAST_ENTRIES
            && garbage(cx, part).saturating_mul(DENSE_TOMBSTONES) >= part.entries
            && !cx.busy.has(part)
    });
    let mut due = due.map(|part| columns.window_of(&part.range)).peekable();
    due.peek()?;
    let loads = columns.garbage_loads(|part| garbage(cx, part));
    let pays = |window: &Window| {
        let load = loads.over(*window);
        load.garbage.saturating_mul(DENSE_TOMBSTONES) >= load.entries
    };
    due.filter(|window| cx.shape.idle || pays(window))
        .take(MAX_TRIES)
        .find_map(|window| columns.merge(window, Class::Clean, Reason::Tombstones))
}

/// Rewrites a part of the last level with enough tombstones that no reader needs, or expired entries.
fn rewrite_last(cx: &Context<'_>) -> Option<CompactionPlan> {
    let run = cx.shape.base()?;
    let most = if cx.shape.idle { IDLE_LAST_TOMBSTONES } else { DENSE_TOMBSTONES };
    let due = run.parts().iter().filter(|part| {
        let garbage = garbage(cx, part);
        garbage > 0 && garbage.saturating_mul(most) >= part.entries
    });
    due.filter(|part| !cx.busy.has(part))
        .take(MAX_TRIES)
        .find_map(|part| rewrite(cx, run, part, Class::Clean, Reason::LastTombstones))
}

/// Whether a snapshot may keep entries of a part of the last level that could otherwise be dropped.
fn is_pinned(cx: &Context<'_>, part: &PartMeta) -> bool {
    let snapshot = cx.shape.oldest_snapshot;
    part.max_seqno > snapshot || part.pinned_by.is_some_and(|seqno| seqno >= snapshot)
}

/// Rewrites one part of the last level if that is certain to drop its tombstones and expired entries: every
/// snapshot sees all of them, and no part above holds older versions of the same keys.
fn rewrite(
    cx: &Context<'_>,
    run: &Arc<Run>,
    part: &Arc<PartMeta>,
    class: Class,
    reason: Reason,
) -> Option<CompactionPlan> {
    let is_worth = garbage(cx, part) > 0 || part.stands_for_deletes();
    if is_pinned(cx, part) || is_kept_above(cx, part) || !is_worth {
        return None;
    }
    let to = Position::Into { level: LevelIndex::LAST, run: run.id, order: run.order };
    let inputs = input_from(LevelIndex::LAST, run, Some(&part.range)).into_iter().collect();
    cx.finish(PlanDraft { inputs, to, class, reason })
}

/// Whether a part above the oldest run may hold versions that this part's tombstones hide, by sequence
/// numbers.
fn is_kept_above(cx: &Context<'_>, part: &PartMeta) -> bool {
    let may_hold = |above: &Arc<PartMeta>| above.min_seqno <= part.max_seqno;
    cx.shape.upper().any(|(_, upper)| upper.overlapping(&part.range).iter().any(may_hold))
}
