//! Plan builder: turns a draft (inputs and a target position) into a plan that obeys V1 to V5.

use crate::cut::{Cut, merge_partner};
use crate::migration::Migration;
use crate::options::StrategyOptions;
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Reason};
use crate::position::Position;
use crate::position::RunPosition;
use crate::running_jobs::Busy;
use crate::shape::Shape;
use crate::validate::{is_bottom, position, validate};
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, PartMeta, Run};

/// The most parts one move takes; it bounds the size of the edit.
const MAX_MOVED_PARTS: usize = 256;

const MAX_LOOKED_AT: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) shape: Shape<'a>,
    pub(crate) busy: &'a Busy,
    pub(crate) options: &'a StrategyOptions,
    /// In a migration, old parts do not count where a rule decides whether to act; see [`crate::migration`].
    pub(crate) counted: Option<Migration>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlanDraft {
    pub(crate) inputs: Vec<PlanInput>,
    pub(crate) to: Position,
    pub(crate) class: Class,
    pub(crate) reason: Reason,
}

/// All parts of a run that overlap `range`, whole, as input; `None` if there are none.
pub(crate) fn input_from(level: LevelIndex, run: &Run, range: Option<&KeyRange>) -> Option<PlanInput> {
    let parts = range.map_or(run.parts(), |range| run.overlapping(range));
    let parts: Vec<InputPart> = parts.iter().cloned().map(InputPart::whole).collect();
    (!parts.is_empty()).then_some(PlanInput { level, run: run.id, order: run.order, parts })
}

/// From the first to the last key of the inputs.
pub(crate) fn hull_of(inputs: &[PlanInput]) -> Option<KeyRange> {
    let mut ranges = inputs.iter().flat_map(|input| &input.parts).map(InputPart::range);
    let first = ranges.next()?.clone();
    Some(ranges.fold(first, |hull, range| hull.hull(range)))
}

pub(crate) fn bytes_of(inputs: &[PlanInput]) -> u64 {
    let parts = inputs.iter().flat_map(|input| &input.parts);
    parts.fold(0, |sum, part| sum.saturating_add(part.bytes()))
}

/// Reduces inputs that are too many for one job to about `limit_bytes`. The bounds are starts of parts, so
/// that most parts are taken whole; without a usable bound nothing changes. The rest is left to a later job.
///
/// The kept keys are the first where at least half as many upper runs overlap as anywhere. So a series of
/// such jobs proceeds from left to right. Runs that arrive on the left meanwhile do not draw it back, where
/// they would be merged alone with what has just been written.
pub(crate) fn narrow(inputs: &mut Vec<PlanInput>, to: Position, limit_bytes: u64) {
    let Some(range) = narrowed(inputs, to, limit_bytes) else { return };
    for input in inputs.iter_mut() {
        let consumed = std::mem::take(&mut input.parts);
        input.parts = consumed.iter().filter_map(|consumed| clip(consumed, &range)).collect();
    }
    inputs.retain(|input| !input.parts.is_empty());
}

/// The keys between two adjacent starts of parts.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    bytes: i128,
    upper_runs: i64,
}

/// Keys at which inputs may be divided, ascending: starts of parts, the smallest included, except those that
/// divide more parts than the previous one.
///
/// Tables of several runs that were cut at one border begin at the first key of each run after it, slightly
/// apart. A job that ended between two such starts would take a few keys of the runs that begin before it,
/// and leave a few that need a job of their own. Where no part ends between two starts, the later one divides
/// what the earlier one divides and also the part that begins there, so the earlier one is the better border.
/// O(n log n) in parts.
fn borders(inputs: &[PlanInput]) -> Vec<Key> {
    let ranges = || inputs.iter().flat_map(|input| &input.parts).map(InputPart::range);
    let mut starts: Vec<&Key> = ranges().map(|range| &range.start).collect();
    starts.sort_unstable();
    starts.dedup();
    // Whether a part ends before a start, and not before the preceding start.
    let mut ends_before = vec![false; starts.len() + 1];
    for range in ranges() {
        ends_before[starts.partition_point(|start| range.end.covers(start))] = true;
    }
    let divides = |&(at, _): &(usize, &Key)| at == 0 || ends_before[at];
    starts.into_iter().enumerate().filter(divides).map(|(_, start)| start.clone()).collect()
}

/// The keys that [`narrow`] keeps; `None` for all.
fn narrowed(inputs: &[PlanInput], to: Position, limit_bytes: u64) -> Option<KeyRange> {
    let target = to.in_reading_order();
    let starts = borders(inputs);
    // The bytes of a part are spread evenly over its intervals; the differences are summed up below.
    let mut intervals = vec![Interval::default(); starts.len() + 1];
    for (input, part) in inputs.iter().flat_map(|input| input.parts.iter().map(move |part| (input, part))) {
        let first = starts.partition_point(|start| *start <= part.range().start).saturating_sub(1);
        let behind = starts.partition_point(|start| part.range().end.covers(start)).max(first + 1);
        let bytes = i128::from(part.bytes() / (behind - first) as u64);
        let runs = i64::from(input.position() != target);
        (intervals[first].bytes, intervals[first].upper_runs) =
            (intervals[first].bytes + bytes, intervals[first].upper_runs + runs);
        (intervals[behind].bytes, intervals[behind].upper_runs) =
            (intervals[behind].bytes - bytes, intervals[behind].upper_runs - runs);
    }
    for at in 1..intervals.len() {
        let before = intervals[at - 1];
        intervals[at].bytes += before.bytes;
        intervals[at].upper_runs += before.upper_runs;
    }
    let limit_bytes = i128::from(limit_bytes);
    let most_runs = intervals.iter().map(|interval| interval.upper_runs).max().filter(|runs| *runs > 0)?;
    let dense = intervals.iter().position(|interval| interval.upper_runs * 2 >= most_runs)?;
    // A small amount before the dense interval is included: it is not worth a job of its own.
    let sparse_bytes: i128 = intervals[..dense]
        .iter()
        .filter(|interval| interval.upper_runs > 0)
        .map(|interval| interval.bytes)
        .sum();
    let first = if sparse_bytes <= limit_bytes / 16 { 0 } else { dense };
    let (mut bytes, mut border) = (0, None);
    for (at, interval) in intervals.iter().enumerate().take(starts.len()).skip(first) {
        if at > dense && (border.is_none() || bytes <= limit_bytes) {
            border = Some(at);
        }
        bytes += interval.bytes;
    }
    if first == 0 && border.is_none() {
        return None;
    }
    let start = if first == 0 { Key::default() } else { starts[first].clone() };
    let end = border.map_or(KeyEnd::Unbounded, |at| KeyEnd::Excluded(starts[at].clone()));
    Some(KeyRange { start, end })
}

fn clip(consumed: &InputPart, range: &KeyRange) -> Option<InputPart> {
    match &consumed.slice {
        None => InputPart::within(&consumed.part, range),
        Some(slice) => Some(InputPart { slice: Some(slice.intersection(range)?), ..consumed.clone() }),
    }
}

impl<'a> Context<'a> {
    /// A context in which all parts count.
    pub(crate) fn new(shape: &Shape<'a>, busy: &'a Busy, options: &'a StrategyOptions) -> Context<'a> {
        Context { shape: *shape, busy, options, counted: None }
    }

    /// Turns the draft into a plan: a move if allowed, with all fields that follow from the inputs and the
    /// target. `None` on a conflict with a running job.
    pub(crate) fn finish(&self, mut draft: PlanDraft) -> Option<CompactionPlan> {
        draft.inputs.retain(|input| !input.parts.is_empty());
        draft.inputs.sort_by_key(PlanInput::position);
        let kind = match self.moved_inputs(&draft) {
            Some(moved) => {
                draft.inputs = moved;
                PlanKind::Move
            }
            None => PlanKind::Merge,
        };
        self.complete(kind, draft)
    }

    pub(crate) fn complete(&self, kind: PlanKind, draft: PlanDraft) -> Option<CompactionPlan> {
        let version = self.shape.version;
        let PlanDraft { inputs, to, class, reason } = draft;
        let hull = hull_of(&inputs)?;
        let est_in_bytes = bytes_of(&inputs);
        let plan = CompactionPlan {
            kind,
            class: self.class_of(class),
            reason,
            bottom: is_bottom(version, self.busy, to, &hull),
            cut: Cut::for_output(version, to, self.options),
            filter: true,
            est_in_bytes,
            est_out_bytes: if kind == PlanKind::Merge { est_in_bytes } else { 0 },
            inputs,
            hull,
            to,
        };
        match validate(version, self.busy, &plan) {
            Ok(()) => Some(plan),
            Err(error) => {
                debug_assert!(!self.busy.takes_nothing(), "no part is taken, and yet {error}");
                None
            }
        }
    }

    /// Whether the draft, or a part of it, would become a move.
    pub(crate) fn can_move(&self, draft: &PlanDraft) -> bool {
        self.moved_inputs(draft).is_some()
    }

    /// The inputs that can be moved without a rewrite; `None` if there are none.
    ///
    /// Into a run the movable parts are moved first, and a later plan takes the others. In front of a level
    /// it is all or nothing, because each plan creates a run there.
    fn moved_inputs(&self, draft: &PlanDraft) -> Option<Vec<PlanInput>> {
        let to = draft.to.in_reading_order();
        let max_overlap_bytes = Cut::for_output(self.shape.version, draft.to, self.options).max_overlap_bytes;
        let all_or_nothing = matches!(draft.to, Position::Front(_));
        let (mut count, mut looked_at) = (0, 0);
        let mut moved = Vec::new();
        for input in draft.inputs.iter().filter(|input| input.position() != to) {
            let mut parts = Vec::new();
            for consumed in &input.parts {
                looked_at += 1;
                let movable = count < MAX_MOVED_PARTS
                    && looked_at <= MAX_LOOKED_AT
                    && consumed.slice.is_none()
                    && self.may_move(&consumed.part, input.position(), draft.to, max_overlap_bytes);
                if movable {
                    count += 1;
                    parts.push(consumed.clone());
                } else if all_or_nothing {
                    return None;
                }
            }
            if !parts.is_empty() {
                moved.push(PlanInput { parts, ..*input });
            }
        }
        (!moved.is_empty()).then_some(moved)
    }

    /// Whether a part may be moved without a rewrite: no part between overlaps it, it holds nothing worth
    /// dropping at the target, and it would not overlap too much of the run that it will be merged with.
    fn may_move(&self, part: &PartMeta, from: RunPosition, to: Position, max_overlap_bytes: u64) -> bool {
        let version = self.shape.version;
        let target = to.in_reading_order();
        let passes = |at: RunPosition| at > from && at <= target;
        if version.runs().any(|(level, run)| passes(position(level, run)) && run.overlaps(&part.range)) {
            return false;
        }
        let droppable = (part.has_tombstones() && part.min_seqno <= self.shape.oldest_snapshot)
            || part.min_expiry_ms.is_some_and(|ms| ms <= self.shape.expired_ms);
        if droppable && is_bottom(version, self.busy, to, &part.range) {
            return false;
        }
        let overlap = merge_partner(version, to.level()).map_or(0, |run| {
            run.overlapping(&part.range).iter().fold(0u64, |sum, below| sum.saturating_add(below.bytes))
        });
        overlap <= max_overlap_bytes
    }
}

impl Context<'_> {
    /// Whether a part counts where a rule decides whether to act.
    pub(crate) fn counts(&self, part: &PartMeta) -> bool {
        self.counted.is_none_or(|migration| !migration.is_old(part))
    }

    pub(crate) fn counts_run(&self, run: &Run) -> bool {
        self.counted.is_none() || run.parts().iter().any(|part| self.counts(part))
    }

    pub(crate) fn counted_bytes(&self, run: &Run) -> u64 {
        if self.counted.is_none() {
            return run.bytes();
        }
        let counted = run.parts().iter().filter(|part| self.counts(part));
        counted.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    pub(crate) fn old_bytes(&self, run: &Run) -> u64 {
        let Some(migration) = self.shape.migration else { return 0 };
        let old = run.parts().iter().filter(|part| migration.is_old(part));
        old.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Whether this planning pass serves the migration.
    pub(crate) fn migrates(&self) -> bool {
        self.shape.migration.is_some() && self.counted.is_none()
    }

    /// The class of a plan: restoring the shape is not urgent in a migration.
    pub(crate) fn class_of(&self, class: Class) -> Class {
        if class == Class::Shape && self.migrates() { Class::Clean } else { class }
    }
}

pub(crate) fn is_busy(cx: &Context<'_>, run: &Run) -> bool {
    !cx.busy.takes_nothing() && run.parts().iter().any(|part| cx.busy.has(part))
}
