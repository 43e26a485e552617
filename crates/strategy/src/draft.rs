//! From a draft, inputs and a place, to a plan that obeys the rules.

use crate::busy::Busy;
use crate::cut::{Cut, merge_partner};
use crate::options::StrategyOptions;
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, PlanKind, Position, Reason, RunPosition};
use crate::shape::Shape;
use crate::validate::{is_bottom, position, validate};
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, PartMeta, Run};

/// Most parts that one move takes: it bounds the edit.
const MAX_MOVED_PARTS: usize = 256;

/// Most parts that are looked at to find movable ones.
const MAX_LOOKED_AT: usize = 4096;

/// Everything a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) shape: Shape<'a>,
    pub(crate) busy: &'a Busy,
    pub(crate) options: &'a StrategyOptions,
}

/// A plan in the making.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) inputs: Vec<PlanInput>,
    pub(crate) to: Position,
    pub(crate) class: Class,
    pub(crate) reason: Reason,
}

/// All parts of a run that `range` touches, whole, as input; nothing if there are none.
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

/// Keeps the first keys of inputs that are too many for one job, about `limit_bytes` of them. The border is
/// the start of a part, so that most parts are taken whole; nothing changes if there is none to cut at. What
/// lies behind the border is a job for later.
pub(crate) fn narrow(inputs: &mut Vec<PlanInput>, to: Position, limit_bytes: u64) {
    let target = to.in_reading_order();
    let upper = inputs.iter().filter(|input| input.position() != target).flat_map(|input| &input.parts);
    let Some(first_upper) = upper.map(|part| part.range().start.clone()).min() else { return };
    let parts = || inputs.iter().flat_map(|input| &input.parts);
    let mut starts: Vec<Key> = parts().map(|part| part.range().start.clone()).collect();
    starts.sort_unstable();
    starts.dedup();
    // The bytes of a part are spread evenly over the pieces between the starts that it spans.
    let mut steps = vec![0i128; starts.len() + 1];
    for part in parts() {
        let first = starts.partition_point(|start| *start < part.range().start);
        let behind = starts.partition_point(|start| part.range().end.covers(start)).max(first + 1);
        let bytes = i128::from(part.bytes() / (behind - first) as u64);
        steps[first] += bytes;
        steps[behind] -= bytes;
    }
    let (mut piece_bytes, mut before_bytes) = (0i128, 0i128);
    let mut border = None;
    for (start, step) in starts.into_iter().zip(steps) {
        // Behind the first upper key, or the job would move nothing down.
        if start > first_upper && (border.is_none() || before_bytes <= i128::from(limit_bytes)) {
            border = Some(start);
        }
        piece_bytes += step;
        before_bytes += piece_bytes;
    }
    let Some(border) = border else { return };
    let range = KeyRange { start: Key::default(), end: KeyEnd::Excluded(border) };
    for input in inputs.iter_mut() {
        let consumed = std::mem::take(&mut input.parts);
        input.parts = consumed.iter().filter_map(|consumed| clip(consumed, &range)).collect();
    }
    inputs.retain(|input| !input.parts.is_empty());
}

/// What of an input lies in `range`.
fn clip(consumed: &InputPart, range: &KeyRange) -> Option<InputPart> {
    match &consumed.slice {
        None => InputPart::within(&consumed.part, range),
        Some(slice) => Some(InputPart { slice: Some(slice.intersection(range)?), ..consumed.clone() }),
    }
}

impl<'a> Context<'a> {
    /// The draft as a plan: as a move if that is allowed, with everything filled in that follows from the
    /// inputs and the place. `None` if a running job is in the way.
    pub(crate) fn finish(&self, mut draft: Draft) -> Option<CompactionPlan> {
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

    /// The draft as a plan of this kind.
    pub(crate) fn complete(&self, kind: PlanKind, draft: Draft) -> Option<CompactionPlan> {
        let version = self.shape.version;
        let Draft { inputs, to, class, reason } = draft;
        let hull = hull_of(&inputs)?;
        let est_in_bytes = bytes_of(&inputs);
        let plan = CompactionPlan {
            kind,
            class,
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
                debug_assert!(!self.busy.is_empty(), "no job runs, and yet {error}");
                None
            }
        }
    }

    /// Whether the draft, or a part of it, would become a move.
    pub(crate) fn can_move(&self, draft: &Draft) -> bool {
        self.moved_inputs(draft).is_some()
    }

    /// The inputs that may simply change their place; `None` if none may.
    ///
    /// Into a run the movable ones go first and the others follow with a later plan. In front of a level it
    /// is all or nothing, because each plan makes a run there.
    fn moved_inputs(&self, draft: &Draft) -> Option<Vec<PlanInput>> {
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

    /// Whether a part may change its place without being rewritten: nothing it would pass overlaps it,
    /// nothing in it is worth dropping where it would lie, and it would not overlap too much of what it will
    /// be merged with.
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
