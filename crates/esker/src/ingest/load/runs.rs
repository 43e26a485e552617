//! External sort: sorted runs on disk, and merging them.
//!
//! A run is one buffer, sorted and written, or the merge of several runs. Runs are kept in the order in which
//! their entries were added, and every entry has the number of its first run as sequence number, so a merge
//! yields the last added entry of a key first, however often runs were merged before.
//!
//! Sixty-four runs of one tier are merged into one of the next. So a load of n buffers writes each entry
//! log64(n) times and holds no more than a few times sixty-four files open, whatever its size.

use super::buffer::{Buffer, BufferCursor};
use super::tables::{FinishedTables, Purpose, Tables};
use esker_base::{Error, Result, SeqNo, Tag};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_env::OpenMode;
use esker_iter::{Cursor, MergingCursor};
use esker_sst::{ExpectedTable, ReadPurpose, Table, TableCursor, TableIdentity};
use esker_version::PartMeta;
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs merged at once: each costs a read buffer of 256 KiB.
const FAN_IN: usize = 64;

/// Sorted runs, oldest first.
#[derive(Debug)]
pub(super) struct Runs {
    store: Arc<Store>,
    keyspace: Arc<KeyspaceState>,
    runs: Vec<Run>,
    /// Runs written so far.
    written: u64,
}

#[derive(Debug)]
struct Run {
    tier: u32,
    tables: FinishedTables,
}

impl Runs {
    pub(super) fn new(store: &Arc<Store>, keyspace: &Arc<KeyspaceState>) -> Runs {
        Runs { store: Arc::clone(store), keyspace: Arc::clone(keyspace), runs: Vec::new(), written: 0 }
    }

    /// The number of the next run, as sequence number of its entries. Tables that became a run later have 0.
    fn next_seqno(&self) -> SeqNo {
        SeqNo::new(self.written + 1)
    }

    /// Takes tables of ascending entries with sequence number 0 as the first run.
    pub(super) fn begin_with(&mut self, tables: FinishedTables) {
        if !tables.parts.is_empty() {
            // In a tier of its own: it is merged only once, at the end.
            self.runs.push(Run { tier: u32::MAX, tables });
        }
    }

    /// Writes the buffer as a run, and merges runs if there are many.
    pub(super) fn spill(&mut self, buffer: &mut Buffer) -> Result<()> {
        let seqno = self.next_seqno();
        buffer.sort();
        let mut tables = Tables::new(&self.store, &self.keyspace, Purpose::Pass);
        for (key, kind_byte, value) in buffer.iter() {
            tables.add(key, Tag::from_parts(seqno, kind_byte), value)?;
        }
        self.runs.push(Run { tier: 0, tables: tables.finish()? });
        self.written += 1;
        buffer.clear();
        while let Some(from) = self.full_tier() {
            let merged = self.runs.split_off(from);
            let tier = merged[0].tier + 1;
            let mut tables = Tables::new(&self.store, &self.keyspace, Purpose::Pass);
            let runs =
                merged.into_iter().map(|run| LoadSource::of_run(&self.store, &self.keyspace, run.tables));
            let sources = runs.collect::<Result<_>>()?;
            merge(sources, |key, tag, value| tables.add(key, tag, value))?;
            self.runs.push(Run { tier, tables: tables.finish()? });
        }
        Ok(())
    }

    /// The index of the first of the newest runs that are to be merged.
    fn full_tier(&self) -> Option<usize> {
        let tier = self.runs.last()?.tier;
        let same = self.runs.iter().rev().take_while(|run| run.tier == tier).count();
        (same >= FAN_IN).then(|| self.runs.len() - same)
    }

    /// Entries in all runs.
    pub(super) fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.tables.entries()).sum()
    }

    /// The number of runs written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Yields the last added entry of each key of all runs and of `buffer`, which is newer, in key order.
    pub(super) fn merge_with(
        self,
        buffer: Buffer,
        each: impl FnMut(&[u8], Tag, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let newest = buffer.into_cursor(self.next_seqno());
        let Runs { store, keyspace, runs, .. } = self;
        let runs = runs.into_iter().map(|run| LoadSource::of_run(&store, &keyspace, run.tables));
        let mut sources = runs.collect::<Result<Vec<_>>>()?;
        sources.push(LoadSource::Buffer(newest));
        merge(sources, each)
    }
}

fn merge(sources: Vec<LoadSource>, mut each: impl FnMut(&[u8], Tag, &[u8]) -> Result<()>) -> Result<()> {
    let mut merge = MergingCursor::new(sources);
    let mut last_key = Vec::new();
    let mut is_first = true;
    merge.seek_to_first()?;
    while merge.is_valid() {
        // The newest entry is first; later ones with the same key were added before it.
        if is_first || *last_key != *merge.key() {
            is_first = false;
            last_key.clear();
            last_key.extend_from_slice(merge.key());
            each(merge.key(), merge.tag(), merge.value())?;
        }
        merge.next()?;
    }
    Ok(())
}

/// One source of a merge.
#[expect(clippy::large_enum_variant, reason = "all but one are runs")]
enum LoadSource {
    Run(RunReader),
    Buffer(BufferCursor),
}

/// Reads the tables of a run one after the other, and deletes each when it has been read.
struct RunReader {
    // Before the files, so that a table is closed before its file is deleted.
    cursor: Option<TableCursor>,
    at: Option<PartMeta>,
    to_come: VecDeque<PartMeta>,
    tables: FinishedTables,
    store: Arc<Store>,
    keyspace: Arc<KeyspaceState>,
}

impl RunReader {
    fn new(
        store: &Arc<Store>,
        keyspace: &Arc<KeyspaceState>,
        mut tables: FinishedTables,
    ) -> Result<RunReader> {
        store.check_open()?;
        Ok(RunReader {
            cursor: None,
            at: None,
            to_come: std::mem::take(&mut tables.parts).into(),
            tables,
            store: Arc::clone(store),
            keyspace: Arc::clone(keyspace),
        })
    }

    fn enter_next(&mut self) -> Result<()> {
        self.cursor = None;
        if let Some(read) = self.at.take() {
            self.tables.files.remove(read.file);
        }
        let Some(part) = self.to_come.pop_front() else { return Ok(()) };
        let expected = ExpectedTable { uid: part.table_uid, keyspace: self.keyspace.id, global_seqno: None };
        let file = self.store.env.fs.open(&self.tables.files.path(part.file), OpenMode::Read)?;
        let identity = TableIdentity::new(&self.store.files.tables)?;
        let table = Arc::new(Table::open(file, part.file_bytes, expected, identity)?);
        let mut cursor = table.cursor(ReadPurpose::Compaction);
        cursor.seek_to_first()?;
        self.cursor = Some(cursor);
        self.at = Some(part);
        Ok(())
    }

    #[inline]
    fn cursor(&self) -> &TableCursor {
        self.cursor.as_ref().expect("only called while valid")
    }
}

macro_rules! each {
    ($self:expr, $run:ident => $of_run:expr, $buffer:ident => $of_buffer:expr) => {
        match $self {
            LoadSource::Run($run) => $of_run,
            LoadSource::Buffer($buffer) => $of_buffer,
        }
    };
}

impl LoadSource {
    fn of_run(
        store: &Arc<Store>,
        keyspace: &Arc<KeyspaceState>,
        tables: FinishedTables,
    ) -> Result<LoadSource> {
        RunReader::new(store, keyspace, tables).map(LoadSource::Run)
    }
}

impl Cursor for LoadSource {
    fn seek_to_first(&mut self) -> Result<()> {
        match self {
            LoadSource::Run(run) => run.enter_next(),
            LoadSource::Buffer(buffer) => {
                buffer.seek_to_first();
                Ok(())
            }
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self {
            LoadSource::Run(run) => {
                let Some(cursor) = &mut run.cursor else { return Ok(()) };
                cursor.next()?;
                if cursor.is_valid() { Ok(()) } else { run.enter_next() }
            }
            LoadSource::Buffer(buffer) => {
                buffer.next();
                Ok(())
            }
        }
    }

    #[inline]
    fn is_valid(&self) -> bool {
        each!(self, run => run.cursor.as_ref().is_some_and(Cursor::is_valid), buffer => buffer.is_valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, run => run.cursor().key(), buffer => buffer.key())
    }

    #[inline]
    fn tag(&self) -> Tag {
        each!(self, run => run.cursor().tag(), buffer => buffer.tag())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, run => run.cursor().value(), buffer => buffer.value())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        Err(forwards_only())
    }

    fn seek(&mut self, _: &[u8], _: SeqNo) -> Result<()> {
        Err(forwards_only())
    }

    fn seek_before(&mut self, _: &[u8]) -> Result<()> {
        Err(forwards_only())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forwards_only())
    }
}

/// The error of cursor methods that a forward merge does not use.
#[cold]
fn forwards_only() -> Error {
    Error::internal("the entries of a bulk load are read from the first to the last only")
}
