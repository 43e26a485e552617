//! Manual compaction of a key range.

use crate::partition_window::PartitionWindows;
use crate::plan::{Class, CompactionPlan, Reason};
use crate::plan_builder::{Context, PlanDraft, input_from};
use esker_base::{PartId, SeqNo};
use esker_version::{KeyRange, LevelIndex};

/// The age limit of one request: taken after the memtables were flushed, and kept until the request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualMark {
    /// The newest sequence number at the request: older data above the last level is merged into it.
    pub seqno: SeqNo,
    /// The next part id at the request: parts of the last level below it are rewritten.
    pub part: PartId,
}

/// The next step of a manual compaction.
#[derive(Clone, Debug)]
pub enum ManualStep {
    /// Everything in the range has been compacted since the mark was taken.
    Done,
    /// Running jobs conflict; try again when one has ended.
    Blocked,
    /// The next job.
    Plan(Box<CompactionPlan>),
}

/// Merges all old data of `range` into the last level, window by window from the left, and rewrites old parts
/// there. It terminates, because merged parts are not old.
pub(crate) fn plan(cx: &Context<'_>, range: &KeyRange, mark: ManualMark) -> ManualStep {
    let columns = PartitionWindows::new(cx);
    let above: Vec<KeyRange> = columns
        .upper()
        .iter()
        .flat_map(|(_, run)| run.overlapping(range))
        .filter(|part| part.min_seqno <= mark.seqno)
        .filter_map(|part| part.range.intersection(range))
        .collect();
    let mut blocked = false;
    if columns.base().is_empty() {
        if above.is_empty() {
            return ManualStep::Done;
        }
        let plan = columns.merge(columns.everything(), Class::Shape, Reason::Manual);
        return plan.map_or(ManualStep::Blocked, |plan| ManualStep::Plan(Box::new(plan)));
    }
    let touched = columns.window_of(range);
    let mut old_above = vec![false; columns.base().len()];
    for part in &above {
        let window = columns.window_of(part);
        old_above[window.first..=window.last].fill(true);
    }
    let has_old_above = |at: usize| old_above[at];
    for at in touched.first..=touched.last {
        let part = &columns.base()[at];
        let is_old = part.id < mark.part && part.range.overlaps(range);
        let plan = match (has_old_above(at), is_old) {
            (false, false) => continue,
            (true, _) => {
                let window = columns.window_from(at, touched.last, has_old_above);
                columns.merge(window, Class::Shape, Reason::Manual)
            }
            (false, true) => rewrite(cx, &part.range),
        };
        match plan {
            Some(plan) => return ManualStep::Plan(Box::new(plan)),
            None => blocked = true,
        }
    }
    if blocked { ManualStep::Blocked } else { ManualStep::Done }
}

/// Rewrites a part of the last level in place.
fn rewrite(cx: &Context<'_>, range: &KeyRange) -> Option<CompactionPlan> {
    let run = cx.shape.base()?;
    let inputs = input_from(LevelIndex::LAST, run, Some(range)).into_iter().collect();
    let to = PartitionWindows::new(cx).target();
    cx.finish(PlanDraft { inputs, to, class: Class::Shape, reason: Reason::Manual })
}
