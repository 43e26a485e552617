//! Flush placement: the lowest run that a flush may join.

use crate::position::Position;

use crate::position::RunPosition;
use crate::running_jobs::Busy;
use esker_version::{KeyRange, LevelIndex, Version};

/// The lowest position that a flush of keys in `hull` may take. Data that overlaps nothing does not pass
/// through the levels, so a sequential load is written once.
///
/// It walks the runs from the newest on; as long as none overlaps the hull, the flush can be placed below all
/// of them. It joins the oldest run passed, or starts the last level if nothing overlaps and that level is
/// empty. Otherwise it becomes a new run in front of level 0, which is always legal.
///
/// Running jobs count with all keys of their hull: the output of a job that writes into the run, or passes
/// it, may cover a key gap that is still free now. The caller repeats the call at install, with the tree and
/// the jobs of that moment; if the result has changed, it uses the front of level 0.
pub fn flush_placement(version: &Version, hull: &KeyRange, busy: &Busy) -> Position {
    let mut found = Position::Front(LevelIndex::FLUSH);
    for (level, run) in version.runs() {
        let at = RunPosition { level, order: run.order };
        if run.overlaps(hull) || blocked(at, hull, busy) {
            return found;
        }
        found = Position::Into { level, run: run.id, order: run.order };
    }
    let behind = RunPosition { level: LevelIndex::LAST, order: u64::MAX };
    if version.runs_of(LevelIndex::LAST).is_empty() && !blocked(behind, hull, busy) {
        found = Position::Front(LevelIndex::LAST);
    }
    found
}

/// Whether a running job writes to `at` or before it, or passes it.
fn blocked(at: RunPosition, hull: &KeyRange, busy: &Busy) -> bool {
    busy.jobs().any(|job| job.hull.overlaps(hull) && (job.to <= at || job.from <= at))
}
