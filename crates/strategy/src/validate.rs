//! Plan validation: the rules that every plan obeys, whatever strategy made it.
//!
//! * V1 order: between the newest input and the output, nothing that is not an input, and no output of a
//!   running job, overlaps the hull. Otherwise a version would overtake a newer one.
//! * V2 place: nothing of the output run that is not an input overlaps the hull.
//! * V3 bottom: set iff nothing older than the output, now or in a running job's output, overlaps the hull.
//!   It stays true while the job runs, because whatever could arrive below must pass between its ends.
//! * V4 conflict: no running job shares a part, or writes between the ends of this one where they touch the
//!   same keys, or the other way round.
//! * V5 progress: something moves to an older level or run, or parts are removed, or a due marker is cleared.
//!   Each of these can happen only finitely often without new data, so compaction ends.

use crate::plan::{Class, CompactionPlan, InputPart, PlanKind, Reason};

use crate::position::Position;

use crate::position::RunPosition;
use crate::running_jobs::Busy;
use esker_base::PartId;
use esker_version::{KeyRange, LevelIndex, Run, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks a plan against the tree and the running jobs it was made for.
///
/// # Errors
/// The violated rule, as a sentence. A violation is a defect of the strategy.
pub fn validate(version: &Version, busy: &Busy, plan: &CompactionPlan) -> Result<(), String> {
    let inputs = check_inputs(version, busy, plan)?;
    let (from, to) = (plan.from(), plan.to.in_reading_order());
    if plan.kind != PlanKind::Drop {
        if plan.inputs.iter().any(|input| input.position() > to) {
            return Err(format!("V1: the output {} would be newer than an input", plan.to));
        }
        check_between(version, plan, &inputs)?;
    }
    if busy.conflicts(from, plan.to, &plan.hull) {
        return Err(format!("V4: a running job is in the way of {plan}"));
    }
    if plan.bottom != is_bottom(version, busy, plan.to, &plan.hull) {
        return Err(format!("V3: bottom is {} in {plan}", plan.bottom));
    }
    check_progress(plan)
}

/// Whether nothing older than `to` overlaps `hull` now or may do so later: V3.
pub(crate) fn is_bottom(version: &Version, busy: &Busy, to: Position, hull: &KeyRange) -> bool {
    let to = to.in_reading_order();
    let older_run = version.runs().any(|(level, run)| position(level, run) > to && run.overlaps(hull));
    !older_run && !busy.jobs().any(|job| job.to > to && job.hull.overlaps(hull))
}

pub(crate) fn position(level: LevelIndex, run: &Run) -> RunPosition {
    RunPosition { level, order: run.order }
}

/// Inputs by part, with the consumed slice of each.
type Inputs<'p> = BTreeMap<PartId, &'p InputPart>;

fn check_inputs<'p>(version: &Version, busy: &Busy, plan: &'p CompactionPlan) -> Result<Inputs<'p>, String> {
    let mut inputs = Inputs::new();
    if !plan.inputs.is_sorted_by(|a, b| a.position() < b.position()) {
        return Err("the inputs are not in reading order".into());
    }
    for (input, consumed) in plan.parts() {
        let part = &consumed.part;
        let run = version.run(input.level, input.run).filter(|run| run.order == input.order);
        if run.and_then(|run| run.part_for(part.smallest())).is_none_or(|there| there != part) {
            return Err(format!("{part} is not in run {} of {}", input.run, input.level));
        }
        if inputs.insert(part.id, consumed).is_some() {
            return Err(format!("{part} is an input twice"));
        }
        if busy.is_input(part) {
            return Err(format!("V4: {part} is the input of a running job"));
        }
        if plan.kind == PlanKind::Merge && busy.is_set_aside(part) {
            return Err(format!("SA1: {part} cannot be read"));
        }
        if !part.range.covers(consumed.range()) || !plan.hull.covers(consumed.range()) {
            return Err(format!("{part} is to be consumed in {}", consumed.range()));
        }
        if consumed.slice.is_some() && plan.kind != PlanKind::Merge {
            return Err(format!("a slice of {part} cannot be moved or dropped"));
        }
    }
    if inputs.is_empty() { Err("there are no inputs".into()) } else { Ok(inputs) }
}

/// V1, V2: whatever overlaps the hull between newest input and output is an input, completely within the
/// hull.
fn check_between(version: &Version, plan: &CompactionPlan, inputs: &Inputs<'_>) -> Result<(), String> {
    let (from, to) = (plan.from(), plan.to.in_reading_order());
    for (level, run) in version.runs() {
        let at = position(level, run);
        if at <= from && at != to || at > to {
            continue;
        }
        if plan.kind == PlanKind::Move {
            check_move(plan, run, at)?;
            continue;
        }
        for part in run.overlapping(&plan.hull) {
            let uncovered = match inputs.get(&part.id) {
                None => true,
                Some(input) => input.slice.as_ref().is_some_and(|slice| {
                    let (before, after) = part.range.without(slice);
                    [before, after].into_iter().flatten().any(|rest| rest.overlaps(&plan.hull))
                }),
            };
            if uncovered {
                let rule = if at == to { "V2" } else { "V1" };
                return Err(format!("{rule}: {part} in {level} is in the way of {plan}"));
            }
        }
    }
    Ok(())
}

/// A move takes each part past the runs between: none of them, input or not, may overlap that part. The keys
/// between two moved parts do not matter, because nothing is written there.
fn check_move(plan: &CompactionPlan, run: &Arc<Run>, at: RunPosition) -> Result<(), String> {
    for (input, moved) in plan.parts() {
        if input.position() < at && run.overlaps(&moved.part.range) {
            return Err(format!("V1: {} would pass run {}, which overlaps it", moved.part, run.id));
        }
    }
    Ok(())
}

/// V5. Data moves to an older run finitely often: new runs come only from newer levels.
fn check_progress(plan: &CompactionPlan) -> Result<(), String> {
    let descends = plan.inputs.iter().any(|input| match plan.to {
        Position::Front(level) => input.level < level,
        Position::Into { .. } => input.position() < plan.to.in_reading_order(),
    });
    let clears = plan.class == Class::Clean
        || matches!(plan.reason, Reason::Manual | Reason::DeleteTarget | Reason::BlobGarbage);
    if plan.kind == PlanKind::Drop || descends || clears {
        Ok(())
    } else {
        Err(format!("V5: {plan} leaves everything as it is"))
    }
}
