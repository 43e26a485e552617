//! Getting rid of tombstones and expired entries: rules that every merging strategy shares.
//!
//! A rule fires only where its merge is certain to change something, or compaction would never end: a part
//! above the last level always changes its level; a part of the last level is rewritten only if no snapshot
//! and no other part can keep its tombstones.
//!
//! # What a merge for the sake of tombstones may cost
//! A dense part is not reason enough. Where every fourth write deletes some key anywhere, each flush is as
//! dense as that, and has all of the last level below it: each would rewrite the whole tree, and for each
//! byte written ten and more would be. So while writes come such a merge has to pay: a quarter of the entries
//! of its whole column, the last level's included, must be garbage. Then four entries at most are rewritten
//! for one that goes, however deletes are spread: with a share `d` of deletes everywhere there must lie
//! `1/(4d - 1)` times the last level above it first, which the rules of form do not let happen, and where a
//! range was deleted a third of it is enough. When the database is idle, time costs nothing and density is
//! enough.
//!
//! The same holds for what expires in the last level, where a part loses a little at any moment. Rewritten at
//! each tenth, it is written nine times until it is gone, by rules that know of no other reason to touch it;
//! at each quarter three times. So while writes come a quarter of a part must be garbage, and three entries
//! at most are written for one that goes; as each entry goes once, that is three bytes at most for each byte
//! that was ever written. An eighth of the last level is garbage then on average. In an idle database a tenth
//! is enough. Both speak of what the metadata tells: expiry is taken to be spread evenly from the first
//! entry's to the last one's.

use crate::column::{Columns, Window};
use crate::draft::{Context, Draft, input_from};
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Position, Reason, RunPosition};
use crate::validate::position;
use esker_version::{LevelIndex, PartMeta, Run};
use std::sync::Arc;

/// A quarter of a part must be garbage before it is merged for its sake, and a quarter of what is rewritten.
const DENSE_TOMBSTONES: u64 = 4;
/// Of a part of the last level, a tenth, while the database is idle.
const IDLE_LAST_TOMBSTONES: u64 = 10;
/// Parts with fewer entries are not worth a job of their own.
const LEAST_ENTRIES: u64 = 1024;
/// Most parts dropped by one plan.
const MAX_DROPPED_PARTS: usize = 256;
/// How many due parts are tried when running jobs are in the way.
const MAX_TRIES: usize = 8;

/// What costs nothing: parts that go without being read.
pub(crate) fn plan_free(cx: &Context<'_>) -> Option<CompactionPlan> {
    drop_hidden(cx).or_else(|| drop_expired(cx))
}

/// The most pressing of the rules without a deadline.
pub(crate) fn plan(cx: &Context<'_>) -> Option<CompactionPlan> {
    merge_tombstones(cx).or_else(|| rewrite_last(cx))
}

/// Deleted data that must be gone by a deadline which comes near: the earliest first.
pub(crate) fn plan_promise(cx: &Context<'_>) -> Option<CompactionPlan> {
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
    let columns = Columns::new(cx);
    let base = cx.shape.base().map(|run| run.id);
    let merge = |part: &PartMeta| {
        // A first step may leave the part where it is: what can be moved goes before what has to be merged,
        // and of a large column only a part. Each step brings something down, so its turn comes.
        columns.merge(columns.window_of(&part.range), Class::Promise, Reason::DeletePromise)
    };
    due.into_iter().take(MAX_TRIES).find_map(|(_, level, run, part)| {
        if holds_file_alone(cx, part) {
            return leave_file(cx, level, run, part);
        }
        if level == LevelIndex::LAST && Some(run.id) == base {
            let alone = rewrite(cx, run, part, Class::Promise, Reason::DeletePromise);
            // What lies above and may hold older versions has no deadline of its own.
            let is_kept = !is_pinned(cx, part) && is_kept_above(cx, part);
            return alone.or_else(|| if is_kept { merge(part) } else { None });
        }
        merge(part)
    })
}

/// Whether a part is due for what is missing of its file alone, which stays as long as the part does.
fn holds_file_alone(cx: &Context<'_>, part: &PartMeta) -> bool {
    part.sliced && !part.stands_for_deletes() && part.expired_entries(cx.shape.expired_ms) == 0
}

/// Writes a part into a file of its own, in its place.
fn leave_file(
    cx: &Context<'_>,
    level: LevelIndex,
    run: &Arc<Run>,
    part: &Arc<PartMeta>,
) -> Option<CompactionPlan> {
    let to = Position::Into { level, run: run.id, order: run.order };
    let parts = vec![InputPart::whole(Arc::clone(part))];
    let inputs = vec![PlanInput { level, run: run.id, order: run.order, parts }];
    cx.finish(Draft { inputs, to, class: Class::Promise, reason: Reason::DeletePromise })
}

/// When the first of what a part holds was deleted, or expired for every reader; `None` if nothing was.
pub fn oldest_gone_ms(part: &PartMeta, expired_ms: u64) -> Option<u64> {
    let expired = part.min_expiry_ms.filter(|&ms| ms <= expired_ms);
    part.oldest_delete_ms.into_iter().chain(expired).min()
}

/// Parts that are wholly hidden by range deletes. Nothing comes to light: what lies under them is older
/// still, and the range deletes, which stay, hide it as well.
fn drop_hidden(cx: &Context<'_>) -> Option<CompactionPlan> {
    if cx.shape.hidden.is_empty() {
        return None;
    }
    drop_parts(cx, Reason::Covered, |_, part| cx.shape.hidden.binary_search(&part.id).is_ok())
}

/// Parts in which every entry has expired, and under which nothing would come to light, simply go. Not while
/// an older snapshot is there: a transaction that reads at it is to learn that the keys have changed since.
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
        let gone = run.parts().iter().filter(|part| is_gone(at, part) && !cx.busy.has(part));
        let parts: Vec<InputPart> = gone.take(MAX_DROPPED_PARTS).cloned().map(InputPart::whole).collect();
        if parts.is_empty() {
            return None;
        }
        let to = Position::Into { level, run: run.id, order: run.order };
        let inputs = vec![PlanInput { level, run: run.id, order: run.order, parts }];
        cx.complete(PlanKind::Drop, Draft { inputs, to, class: Class::Free, reason })
    })
}

/// Entries of a part that are there for nothing, or only to hide others: tombstones, and what has expired for
/// every reader. A merge that drops what has expired leaves no part whose earliest expiry has passed, so it
/// is not done twice.
pub(crate) fn garbage(cx: &Context<'_>, part: &PartMeta) -> u64 {
    let tombstones = part.tombstones.saturating_add(part.range_deletes);
    tombstones.saturating_add(part.expired_entries(cx.shape.expired_ms))
}

/// A part above the last level that is full of tombstones: its column, oldest run first.
fn merge_tombstones(cx: &Context<'_>) -> Option<CompactionPlan> {
    let columns = Columns::new(cx);
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

/// A part of the last level with so many tombstones that nothing needs any more, or expired entries, that it
/// pays.
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

/// Whether a snapshot may keep what a part of the last level could lose.
fn is_pinned(cx: &Context<'_>, part: &PartMeta) -> bool {
    let snapshot = cx.shape.oldest_snapshot;
    part.max_seqno > snapshot || part.pinned_by.is_some_and(|seqno| seqno >= snapshot)
}

/// Rewrites one part of the last level, if that is sure to drop its tombstones and what has expired: every
/// snapshot sees all of them, and nothing above may hold older versions of the same keys.
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
    cx.finish(Draft { inputs, to, class, reason })
}

/// Whether a part above the oldest run may hold what a tombstone of this one hides: by their numbers, which
/// both have ranges of.
fn is_kept_above(cx: &Context<'_>, part: &PartMeta) -> bool {
    let may_hold = |above: &Arc<PartMeta>| above.min_seqno <= part.max_seqno;
    cx.shape.upper().any(|(_, upper)| upper.overlapping(&part.range).iter().any(may_hold))
}
