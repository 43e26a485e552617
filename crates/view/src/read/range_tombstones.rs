//! Visible range tombstones: what they hide from a reader of a view.
//!
//! A few loads tell whether a view has range tombstones at all ([`SuperVersion::has_range_deletes`]); without
//! any, nothing of this file runs. Otherwise a point read determines the newest one over its key once
//! ([`cover_at`]), and a cursor gets a [`RangeDelAggregate`] of the same sources ([`cover_of`]), with which
//! its sources seek over hidden ranges ([`covered`]).

use super::run_cursor::RunCursor;
use super::source::{CoveredSource, Source};
use crate::super_version::{MemtableView, SuperVersion};
use crate::tree::TreeRun;
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{Cursor, PartCursor, RangeDelAggregate, RangeDelSource, SkipDeleted, TombstoneInterval};
use esker_memtable::MemtableCursor;
use esker_version::{KeyEnd, LevelIndex};
use std::sync::Arc;

/// The newest range tombstone over `key` in the whole view that is visible at `seqno`; [`SeqNo::ZERO`] if
/// there is none.
#[inline]
pub fn cover_at(view: &SuperVersion, key: &[u8], seqno: SeqNo) -> Result<SeqNo> {
    if view.has_range_deletes() { cover_among(view, key, seqno) } else { Ok(SeqNo::ZERO) }
}

#[cold]
fn cover_among(view: &SuperVersion, key: &[u8], seqno: SeqNo) -> Result<SeqNo> {
    let mut newest =
        view.memtables().map(|view| view.memtable.cover(key, seqno)).max().unwrap_or(SeqNo::ZERO);
    for run in view.tree.runs.iter().filter(|run| run.has_range_deletes()) {
        newest = newest.max(run.interval(key, seqno)?.newest);
    }
    Ok(newest)
}

/// The range tombstones of a view that are visible at `seqno`; `None` if there are none.
pub fn cover_of(view: &SuperVersion, seqno: SeqNo) -> Option<RangeDelAggregate> {
    view.has_range_deletes().then(|| {
        let memtables = view.memtables().flat_map(deletes_of_memtable);
        let runs = view.tree.runs.iter().filter(|run| run.has_range_deletes()).map(deletes_of_run);
        RangeDelAggregate::new(memtables.chain(runs).collect(), seqno)
    })
}

/// The same for the memtables alone, or one level alone.
pub fn cover_of_layer(view: &SuperVersion, level: Option<LevelIndex>, seqno: SeqNo) -> RangeDelAggregate {
    let memtables = view.memtables().filter(|_| level.is_none()).flat_map(deletes_of_memtable);
    let runs = view.tree.runs.iter().filter(|run| Some(run.level) == level && run.has_range_deletes());
    RangeDelAggregate::new(memtables.chain(runs.map(deletes_of_run)).collect(), seqno)
}

fn deletes_of_memtable(view: &Arc<MemtableView>) -> impl Iterator<Item = Box<dyn RangeDelSource>> {
    let sets = view.memtable.range_deletes().iter();
    sets.map(|set| Box::new(Arc::clone(set)) as Box<dyn RangeDelSource>)
}

fn deletes_of_run(run: &Arc<TreeRun>) -> Box<dyn RangeDelSource> {
    Box::new(RunDeletes(Arc::clone(run)))
}

/// The range tombstones of a run's tables.
struct RunDeletes(Arc<TreeRun>);

impl RangeDelSource for RunDeletes {
    fn interval(&self, key: &[u8], seqno: SeqNo) -> Result<TombstoneInterval<'_>> {
        self.0.interval(key, seqno)
    }
}

impl TreeRun {
    /// The interval around `key`; tables are opened when their range tombstones are first used.
    fn interval(&self, key: &[u8], seqno: SeqNo) -> Result<TombstoneInterval<'_>> {
        let at = self.deleting.partition_point(|&at| !self.parts[at].meta.range.end.covers(key));
        let part = |at: usize| self.deleting.get(at).map(|&at| &self.parts[at]);
        let next_start = |at| part(at).map(|next| next.meta.smallest());
        // Parts are disjoint, and a part's range tombstones lie in its range.
        let before = at.checked_sub(1).and_then(part).and_then(|before| before.meta.range.end.key());
        let Some(around) = part(at).filter(|part| part.meta.smallest() <= key) else {
            let low = before.map(|key| &**key);
            return Ok(TombstoneInterval { low, high: next_start(at), newest: SeqNo::ZERO });
        };
        // Those of a part that cannot be read matter below it only, and no read gets there (QU1).
        let mut interval = match around.file.refusal() {
            Some(_) => TombstoneInterval::NOTHING,
            None => (**around.file.range_deletes()?).interval(key, seqno),
        };
        interval.low = interval.low.max(Some(around.meta.smallest()));
        // A slice ends before a border, unless it extends to the end of its file, where range tombstones end
        // as well.
        let high = match &around.meta.range.end {
            KeyEnd::Excluded(border) => Some(&**border),
            _ => next_start(at + 1),
        };
        interval.high = match (interval.high, high) {
            (Some(own), Some(high)) => Some(own.min(high)),
            (own, high) => own.or(high),
        };
        Ok(interval)
    }
}

/// A source that seeks over ranges hidden by `cover`.
pub fn covered(source: Source, view: Option<&MemtableView>, cover: &RangeDelAggregate) -> Source {
    match source {
        Source::Memtable(cursor) => {
            // The active memtable may get newer entries at any moment.
            match view.and_then(MemtableView::seal_seqno) {
                None => Source::Memtable(cursor),
                Some(newest) => Source::Covered(Box::new(CoveredSource::Memtable(SkipDeleted::new(
                    SealedCursor { cursor, newest },
                    cover.clone(),
                )))),
            }
        }
        Source::Run(cursor) => {
            Source::Covered(Box::new(CoveredSource::Run(SkipDeleted::new(*cursor, cover.clone()))))
        }
        covered => covered,
    }
}

impl PartCursor for RunCursor {
    fn newest_around(&self) -> SeqNo {
        self.current_part().meta.max_seqno
    }

    fn skip_forward(&mut self, border: Option<&[u8]>) -> Result<()> {
        match border.filter(|border| self.current_part().meta.range.end.covers(border)) {
            Some(border) => self.seek(border, SeqNo::MAX),
            None => self.leave_forward(),
        }
    }

    fn skip_backward(&mut self, border: Option<&[u8]>) -> Result<()> {
        match border.filter(|border| self.current_part().meta.smallest() < *border) {
            Some(border) => self.seek_before(border),
            None => self.leave_backward(),
        }
    }
}

/// A cursor over a sealed memtable: nothing in it is newer than its seal.
pub struct SealedCursor {
    cursor: MemtableCursor,
    newest: SeqNo,
}

impl PartCursor for SealedCursor {
    fn newest_around(&self) -> SeqNo {
        self.newest
    }

    fn skip_forward(&mut self, border: Option<&[u8]>) -> Result<()> {
        match border {
            Some(border) => self.cursor.seek(border, SeqNo::MAX),
            // Nothing lies before the empty key: the cursor becomes invalid.
            None => self.cursor.seek_before(&[]),
        }
    }

    fn skip_backward(&mut self, border: Option<&[u8]>) -> Result<()> {
        self.cursor.seek_before(border.unwrap_or_default())
    }
}

impl Cursor for SealedCursor {
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        self.cursor.prepare_seek(key, round)
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.cursor.seek(key, seqno)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)
    }
    fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }
    fn is_valid(&self) -> bool {
        self.cursor.is_valid()
    }
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }
    fn tag(&self) -> Tag {
        self.cursor.tag()
    }
    fn value(&self) -> &[u8] {
        self.cursor.value()
    }
    fn head(&self, skip: usize) -> u64 {
        self.cursor.head(skip)
    }
}
