//! Parts whose every entry is hidden by the range tombstones of one other part, found from the tree alone.

use super::{Tree, TreePart};
use esker_base::{PartId, Result, SeqNo};
use esker_iter::{Boundaries, RangeTombstones};
use esker_version::{KeyEnd, PartMeta};

/// A part whose every entry range tombstones hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenPart {
    /// The part.
    pub part: PartId,
    /// The oldest entry is not older than this.
    oldest: SeqNo,
    /// A reader at this sequence number sees every range tombstone needed.
    newest: SeqNo,
}

impl HiddenPart {
    /// Whether no reader's snapshot lies between its entries and the range tombstones.
    pub fn is_hidden_from_all(&self, boundaries: &Boundaries) -> bool {
        boundaries.are_in_same_stripe(self.oldest, self.newest)
    }
}

/// The part, if `deletes` hide it; else `None`.
pub fn hidden_by(deletes: &RangeTombstones, part: &PartMeta) -> Option<HiddenPart> {
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

/// The parts of a tree that the range tombstones of one other part hide, each once. Parts hidden only by the
/// range tombstones of several parts together wait for the merge of these.
///
/// Dropping one changes no result, and loses nothing in a power cut: the range tombstone is in an installed
/// table, as the part is, and no job drops it while an older part stays outside of the job.
pub(super) fn hidden_parts(tree: &Tree) -> Result<Vec<HiddenPart>> {
    let mut hidden = Vec::new();
    for deleting in tree.runs.iter().flat_map(|run| run.deleting.iter().map(|&at| &run.parts[at])) {
        let older = tree.version.runs().flat_map(|(_, run)| run.overlapping(&deleting.meta.range));
        let mut older = older.filter(|part| part.max_seqno < deleting.meta.max_seqno).peekable();
        // What cannot be read hides nothing as far as is known.
        if older.peek().is_none() || deleting.file.refusal().is_some() {
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

/// The range tombstones of a part, clipped to its key range.
pub fn clipped(all: &RangeTombstones, part: &TreePart) -> RangeTombstones {
    let low = part.meta.smallest();
    let high = part.meta.range.end.exclusive_bound();
    RangeTombstones::new(all.deletes().filter_map(|delete| delete.clipped(Some(low), high.as_deref())))
}
