//! One source of a merge: a memtable or a run, dispatched without a virtual call.

use super::covers::{SealedCursor, covered};
use super::run_cursor::RunCursor;
use crate::view::{MemtableView, SuperVersion};
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{Cover, Covered, Cursor};
use esker_memtable::MemtableCursor;
use esker_sst::ReadPurpose;
use esker_version::LevelIndex;
use std::sync::Arc;

/// A cursor over one source of a keyspace.
#[expect(clippy::large_enum_variant, reason = "a box would be one more cache miss on every step of a scan")]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
    /// A sealed memtable that is read under range deletes.
    CoveredMemtable(Box<Covered<SealedCursor>>),
    /// A run that is read under range deletes.
    CoveredRun(Box<Covered<RunCursor>>),
}

impl Source {
    /// Cursors over everything a view holds, newest source first. Empty memtables are left out.
    pub(crate) fn all_of(view: &SuperVersion, purpose: ReadPurpose) -> Vec<Source> {
        let memtables = view.memtables().filter(|view| !view.is_empty());
        let runs = view.tree.runs.iter();
        memtables
            .map(|view| Source::of_memtable(view, purpose))
            .chain(runs.map(|run| Source::Run(RunCursor::new(Arc::clone(run), purpose))))
            .collect()
    }

    /// As [`Source::all_of`], for a reader under range deletes: what `cover` hides as a whole is sought over.
    pub(crate) fn all_under(view: &SuperVersion, cover: &Cover, purpose: ReadPurpose) -> Vec<Source> {
        let memtables = view.memtables().filter(|view| !view.is_empty());
        let memtables = memtables.map(|view| covered(Source::of_memtable(view, purpose), Some(view), cover));
        let runs = view.tree.runs.iter();
        let runs = runs.map(|run| Source::Run(RunCursor::new(Arc::clone(run), purpose)));
        memtables.chain(runs.map(|run| covered(run, None, cover))).collect()
    }

    /// A cursor over a memtable, or over the tables in its place.
    fn of_memtable(view: &MemtableView, purpose: ReadPurpose) -> Source {
        match &view.ingested {
            None => Source::Memtable(view.memtable.cursor()),
            Some(run) => Source::Run(RunCursor::new(Arc::clone(run), purpose)),
        }
    }

    /// Cursors over the memtables of a view, or over one level of it.
    pub(crate) fn of_layer(view: &SuperVersion, level: Option<LevelIndex>) -> Vec<Source> {
        match level {
            None => view.memtables().map(|view| Source::of_memtable(view, ReadPurpose::Scan)).collect(),
            Some(level) => {
                let runs = view.tree.runs.iter().filter(|run| run.level == level);
                runs.map(|run| Source::Run(RunCursor::new(Arc::clone(run), ReadPurpose::Scan))).collect()
            }
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Memtable(_) | Source::CoveredMemtable(_) => "Memtable",
            Source::Run(_) | Source::CoveredRun(_) => "Run",
        })
    }
}

macro_rules! each {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::CoveredMemtable($cursor) => $call,
            Source::CoveredRun($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        each!(self, cursor => cursor.prepare_seek(key, round))
    }

    #[inline]
    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_first())
    }

    #[inline]
    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_last())
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.seek(key, seqno))
    }

    #[inline]
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    #[inline]
    fn is_valid(&self) -> bool {
        each!(self, cursor => cursor.is_valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }

    #[inline]
    fn tag(&self) -> Tag {
        each!(self, cursor => cursor.tag())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, cursor => cursor.value())
    }

    #[inline]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        each!(self, cursor => cursor.entry())
    }

    #[inline]
    fn head(&self, skip: usize) -> u64 {
        each!(self, cursor => cursor.head(skip))
    }
}
