//! Range tombstone aggregation: collects the range tombstones of a job's inputs, and skips inputs they hide.
//!
//! All range tombstones of a table are in memory once it is open, so a job knows those of all its inputs
//! before it reads the first entry. Those of a sliced part are clipped to the slice. A part that the range
//! tombstones of another one hide completely is found from the tree alone, and dropped without a merge
//! ([`Tree::hidden`](esker_view::tree::Tree::hidden)).
//!
//! An input whose every entry is hidden is not read at all (4.4, "whole table"): a range tombstone of the
//! inputs covers it, is newer than everything in it, and no reader's snapshot lies between. The range
//! tombstone is in an installed table, as all inputs of a compaction are: a power cut cannot lose it and keep
//! its effect.

use crate::older_versions::OlderVersions;
use esker_base::Result;
use esker_iter::{Boundaries, InputRangeDels, RangeTombstone, RangeTombstones, TombstoneHull};
use esker_version::{KeyEnd, KeyRange};
use esker_view::MemtableView;
use esker_view::tree::{Access, TreePart, clipped, hidden_by};
use std::sync::Arc;

/// The range tombstones of memtables.
pub fn of_memtables(
    memtables: &[Arc<MemtableView>],
    boundaries: &Boundaries,
    older: &OlderVersions,
) -> InputRangeDels {
    let sets = memtables.iter().flat_map(|view| view.memtable.range_deletes());
    of_deletes(sets.flat_map(|set| set.deletes()), boundaries, older)
}

/// The range tombstones of parts, each clipped to the consumed range.
pub fn of_parts(
    parts: &[TreePart],
    boundaries: &Boundaries,
    older: &OlderVersions,
) -> Result<InputRangeDels> {
    let mut sets: Vec<Arc<RangeTombstones>> = Vec::new();
    for part in parts.iter().filter(|part| part.meta.range_tombstones > 0) {
        let table = part.file.table(Access::Once)?;
        let all = table.range_tombstones();
        sets.push(if part.meta.sliced { Arc::new(clipped(all, part)) } else { Arc::clone(all) });
    }
    Ok(of_deletes(sets.iter().flat_map(|set| set.deletes()), boundaries, older))
}

fn of_deletes<'a>(
    deletes: impl Iterator<Item = RangeTombstone<'a>>,
    boundaries: &Boundaries,
    older: &OlderVersions,
) -> InputRangeDels {
    InputRangeDels::new(deletes, boundaries, |low, high, seqno| older.may_hold_any(low, high, seqno))
}

/// Whether `deletes` hide everything in a part from every reader.
pub fn hide_all_of(deletes: &InputRangeDels, part: &TreePart, boundaries: &Boundaries) -> bool {
    hidden_by(deletes.all(), &part.meta).is_some_and(|hidden| hidden.is_hidden_from_all(boundaries))
}

/// The keys that range tombstones cover, as a key range.
pub fn key_range(hull: TombstoneHull) -> KeyRange {
    KeyRange { start: hull.start, end: hull.end.map_or(KeyEnd::Unbounded, KeyEnd::Excluded) }
}
