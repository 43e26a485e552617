//! Merge source: a memtable or a run, dispatched without a virtual call.

use super::fenced_run::FencedRun;
use super::range_tombstones::{SealedCursor, covered};
use super::run_cursor::RunCursor;
use crate::super_version::{MemtableView, SuperVersion};
use crate::tree::TreeRun;
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{BoundOrder, Cursor, RangeDelAggregate, SkipDeleted};
use esker_memtable::MemtableCursor;
use esker_sst::ReadPurpose;
use esker_version::LevelIndex;
use std::sync::Arc;

/// A cursor over one source of a keyspace. Run cursors are boxed: they are large, and a merge of one or two
/// sources, the usual case, is created for a few entries each time.
// With an explicit tag: one in a field's niche takes four more instructions to read, and each step reads it
// several times.
#[repr(u8)]
pub enum Source {
    /// A memtable.
    Memtable(MemtableCursor),
    /// A run of tables.
    Run(Box<RunCursor>),
    /// A source read under range tombstones.
    Covered(Box<CoveredSource>),
}

/// Sources under range tombstones: separate, so that the steps of all other readers stay short.
pub enum CoveredSource {
    /// A sealed memtable.
    Memtable(SkipDeleted<SealedCursor>),
    /// A run with range tombstones.
    Run(SkipDeleted<RunCursor>),
    /// A run with parts that cannot be read.
    Fenced(FencedRun),
}

impl Source {
    /// Cursors over all sources of a view, newest first. Empty memtables are left out.
    pub fn all_of(view: &SuperVersion, purpose: ReadPurpose) -> Vec<Source> {
        let mut sources = Vec::with_capacity(1 + view.sealed.len() + view.tree.runs.len());
        for view in view.memtables().filter(|view| !view.is_empty()) {
            sources.push(Source::of_memtable(view, purpose));
        }
        for run in &view.tree.runs {
            sources.push(Source::of_run(run, purpose));
        }
        sources
    }

    /// A cursor over a run.
    #[inline(always)]
    fn of_run(run: &Arc<TreeRun>, purpose: ReadPurpose) -> Source {
        // Constructed in place, not moved.
        Source::Run(Box::write(Box::new_uninit(), RunCursor::new(Arc::clone(run), purpose)))
    }

    /// As [`Source::all_of`], for a reader under range tombstones: ranges hidden by `cover` are seeked over.
    pub fn all_under(view: &SuperVersion, cover: &RangeDelAggregate, purpose: ReadPurpose) -> Vec<Source> {
        let memtables = view.memtables().filter(|view| !view.is_empty());
        let memtables = memtables.map(|view| covered(Source::of_memtable(view, purpose), Some(view), cover));
        let runs = view.tree.runs.iter().map(|run| match &run.unreadable {
            None => covered(Source::of_run(run, purpose), None, cover),
            Some(unreadable) => {
                let fenced = FencedRun::new(unreadable, cover, purpose);
                Source::Covered(Box::new(CoveredSource::Fenced(fenced)))
            }
        });
        memtables.chain(runs).collect()
    }

    /// A cursor over a memtable, or over the ingested tables in its position.
    fn of_memtable(view: &MemtableView, purpose: ReadPurpose) -> Source {
        match &view.ingested {
            None => Source::Memtable(view.memtable.cursor()),
            Some(run) => Source::of_run(run, purpose),
        }
    }

    /// Cursors over the memtables of a view, or over one level of it.
    pub fn of_layer(view: &SuperVersion, level: Option<LevelIndex>) -> Vec<Source> {
        match level {
            None => view.memtables().map(|view| Source::of_memtable(view, ReadPurpose::Scan)).collect(),
            Some(level) => {
                let runs = view.tree.runs.iter().filter(|run| run.level == level);
                runs.map(|run| Source::of_run(run, ReadPurpose::Scan)).collect()
            }
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Memtable(_) => "Memtable",
            Source::Run(_) => "Run",
            Source::Covered(_) => "Covered",
        })
    }
}

macro_rules! each {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::Covered($cursor) => $call,
        }
    };
}

macro_rules! each_covered {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            CoveredSource::Memtable($cursor) => $call,
            CoveredSource::Run($cursor) => $call,
            CoveredSource::Fenced($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        each!(self, cursor => cursor.prepare_seek(key, round))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_last())
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    #[inline(always)]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline(always)]
    fn next_key(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next_key())
    }

    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    #[inline(always)]
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.prev_key(seqno))
    }

    #[inline(always)]
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        match self {
            Source::Run(run) => run.bound_order::<BACKWARD>(bound),
            Source::Memtable(_) | Source::Covered(_) => (BoundOrder::Unknown, 0),
        }
    }

    #[inline(always)]
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        match self {
            Source::Run(run) => run.step_towards::<BACKWARD>(bound),
            Source::Memtable(_) | Source::Covered(_) => unreachable!("only runs tell where they stand"),
        }
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        each!(self, cursor => cursor.is_valid())
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }

    #[inline(always)]
    fn tag(&self) -> Tag {
        each!(self, cursor => cursor.tag())
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        each!(self, cursor => cursor.value())
    }

    #[inline(always)]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        each!(self, cursor => cursor.entry())
    }

    #[inline(always)]
    fn head(&self, skip: usize) -> u64 {
        each!(self, cursor => cursor.head(skip))
    }
}

impl Cursor for CoveredSource {
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        each_covered!(self, cursor => cursor.prepare_seek(key, round))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        each_covered!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        each_covered!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        each_covered!(self, cursor => cursor.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each_covered!(self, cursor => cursor.seek_before(key))
    }

    #[inline(never)]
    fn next(&mut self) -> Result<()> {
        each_covered!(self, cursor => cursor.next())
    }

    #[inline(never)]
    fn prev(&mut self) -> Result<()> {
        each_covered!(self, cursor => cursor.prev())
    }

    #[inline(never)]
    fn is_valid(&self) -> bool {
        each_covered!(self, cursor => cursor.is_valid())
    }

    #[inline(never)]
    fn key(&self) -> &[u8] {
        each_covered!(self, cursor => cursor.key())
    }

    #[inline(never)]
    fn tag(&self) -> Tag {
        each_covered!(self, cursor => cursor.tag())
    }

    #[inline(never)]
    fn value(&self) -> &[u8] {
        each_covered!(self, cursor => cursor.value())
    }

    #[inline(never)]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        each_covered!(self, cursor => cursor.entry())
    }

    #[inline(never)]
    fn head(&self, skip: usize) -> u64 {
        each_covered!(self, cursor => cursor.head(skip))
    }
}
