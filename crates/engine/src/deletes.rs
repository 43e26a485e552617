//! The range deletes of a flush or compaction: gathered from its inputs, and what they spare it.
//!
//! All range deletes of a table are in memory once it is open, so a job knows those of all its inputs before
//! it reads the first entry. Those of a sliced part count as far as the slice reaches. A part that the range
//! deletes of another one hide as a whole is found from the tree alone, and dropped without a merge
//! ([`hidden_parts`]).
//!
//! An input whose every entry is hidden is not read at all (4.4, "whole table"): a range delete of the inputs
//! covers it, is newer than everything in it, and nobody reads between. The range delete is in an installed
//! table, as all inputs of a compaction are: a power cut cannot lose it and keep its effect.

use crate::older::OlderParts;
use crate::tree::{Access, Tree, TreePart};
use crate::view::MemtableView;
use esker_base::{PartId, Result, SeqNo};
use esker_iter::{Boundaries, DeletedHull, InputDeletes, RangeDelete, RangeDeletes};
use esker_version::{KeyEnd, KeyRange, PartMeta};
use std::sync::Arc;

/// The range deletes of memtables.
pub(crate) fn of_memtables(
    memtables: &[Arc<MemtableView>],
    boundaries: &Boundaries,
    older: &OlderParts,
) -> InputDeletes {
    let sets = memtables.iter().flat_map(|view| view.memtable.range_deletes());
    of_deletes(sets.flat_map(|set| set.deletes()), boundaries, older)
}

/// The range deletes of parts, each with its range as what is consumed of it.
pub(crate) fn of_parts(
    parts: &[TreePart],
    boundaries: &Boundaries,
    older: &OlderParts,
) -> Result<InputDeletes> {
    let mut sets: Vec<Arc<RangeDeletes>> = Vec::new();
    for part in parts.iter().filter(|part| part.meta.range_deletes > 0) {
        let table = part.file.table(Access::Once)?;
        let all = table.range_deletes();
        sets.push(if part.meta.sliced { Arc::new(clipped(all, part)) } else { Arc::clone(all) });
    }
    Ok(of_deletes(sets.iter().flat_map(|set| set.deletes()), boundaries, older))
}

fn clipped(all: &RangeDeletes, part: &TreePart) -> RangeDeletes {
    let low = part.meta.smallest();
    let high = part.meta.range.end.border();
    RangeDeletes::new(all.deletes().filter_map(|delete| delete.clipped(Some(low), high.as_deref())))
}

fn of_deletes<'a>(
    deletes: impl Iterator<Item = RangeDelete<'a>>,
    boundaries: &Boundaries,
    older: &OlderParts,
) -> InputDeletes {
    InputDeletes::new(deletes, boundaries, |low, high, seqno| older.may_hold_any(low, high, seqno))
}

/// Whether `deletes` hide everything in a part from everybody.
pub(crate) fn hide_all_of(deletes: &InputDeletes, part: &TreePart, boundaries: &Boundaries) -> bool {
    hidden_by(deletes.all(), &part.meta).is_some_and(|hidden| hidden.is_hidden_from_all(boundaries))
}

/// A part in which range deletes hide every entry from whoever sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HiddenPart {
    pub(crate) part: PartId,
    /// No entry of it is older.
    oldest: SeqNo,
    /// Who sees this sees every range delete that is needed.
    newest: SeqNo,
}

impl HiddenPart {
    /// Whether nobody reads between its entries and the range deletes.
    pub(crate) fn is_hidden_from_all(&self, boundaries: &Boundaries) -> bool {
        boundaries.are_in_same_stripe(self.oldest, self.newest)
    }
}

/// The part as one that `deletes` hide; `None` if they do not.
fn hidden_by(deletes: &RangeDeletes, part: &PartMeta) -> Option<HiddenPart> {
    let (mut at, end) = (&*part.range.start, &part.range.end);
    let mut hidden = HiddenPart { part: part.id, oldest: part.min_seqno, newest: SeqNo::ZERO };
    loop {
        let fragment = deletes.fragment_over(at)?;
        hidden.newest = hidden.newest.max(fragment.oldest_above(part.max_seqno)?);
        let Some(border) = &fragment.end else { return Some(hidden) };
        let is_behind = match end {
            KeyEnd::Included(last) => last < border,
            KeyEnd::Excluded(last) => last <= border,
            KeyEnd::Unbounded => false,
        };
        if is_behind {
            return Some(hidden);
        }
        at = border;
    }
}

/// The parts of a tree that the range deletes of one other part hide, each once. Parts that it takes the
/// range deletes of several to hide wait for the merge in which these meet.
///
/// Dropping one changes no answer, and loses nothing in a power cut: the range delete lies in an installed
/// table, as the part does, and no job drops it while an older part stays outside of the job.
pub(crate) fn hidden_parts(tree: &Tree) -> Result<Vec<HiddenPart>> {
    let mut hidden = Vec::new();
    for deleting in tree.runs.iter().flat_map(|run| run.deleting.iter().map(|&at| &run.parts[at])) {
        let older = tree.version.runs().flat_map(|(_, run)| run.overlapping(&deleting.meta.range));
        let mut older = older.filter(|part| part.max_seqno < deleting.meta.max_seqno).peekable();
        if older.peek().is_none() {
            continue;
        }
        let all = deleting.file.range_deletes()?;
        let clipped = deleting.meta.sliced.then(|| clipped(all, deleting));
        hidden.extend(older.filter_map(|part| hidden_by(clipped.as_ref().unwrap_or(all), part)));
    }
    hidden.sort_unstable_by_key(|hidden| (hidden.part, hidden.newest));
    hidden.dedup_by_key(|hidden| hidden.part);
    Ok(hidden)
}

/// The keys that range deletes cover, as parts say it.
pub(crate) fn key_range(hull: DeletedHull) -> KeyRange {
    KeyRange { start: hull.start, end: hull.end.map_or(KeyEnd::Unbounded, KeyEnd::Excluded) }
}
