//! A table file by itself: its identity, what its end says, and whether every block can be read.

use super::table_stream::{KnownTable, TableGap, TableStream};
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid};
use esker_build::range_del::input_range_dels::key_range;
use esker_env::{Env, File, OpenMode};
use esker_sst::{ExpectedTable, SalvagedEnd, Table, TableCache, TableIdentity, TableProperties, uid_of_file};
use esker_version::{KeyRange, PartMeta};
use std::path::Path;
use std::sync::Arc;

/// Each block is read once: caching gains nothing.
const CACHE_BYTES: usize = 1 << 20;

/// What a table file says of itself.
#[derive(Debug)]
pub(crate) struct TableHead {
    pub(crate) file: Arc<dyn File>,
    pub(crate) bytes: u64,
    pub(crate) uid: TableUid,
    pub(crate) end: SalvagedEnd,
}

impl TableHead {
    /// Reads both ends of a file; `None` if it cannot be opened or neither end says which table it is.
    pub(crate) fn read(env: &Env, path: &Path) -> Option<TableHead> {
        let file = env.fs.open(path, OpenMode::Read).ok()?;
        let bytes = file.len().ok()?;
        let uid = uid_of_file(&*file, bytes).ok()?;
        Some(TableHead::expected(file, bytes, uid))
    }

    /// The same of a file that should be this table.
    pub(crate) fn expected(file: Arc<dyn File>, bytes: u64, uid: TableUid) -> TableHead {
        let end = SalvagedEnd::read(&*file, bytes, uid);
        TableHead { file, bytes, uid, end }
    }

    /// The entries, as far as they can be read; `known` adds to what the end says.
    pub(crate) fn stream(&self, global_seqno: Option<SeqNo>, entries: Option<u64>) -> Result<TableStream> {
        let mut known = KnownTable::from_end(&self.end);
        known.global_seqno = global_seqno;
        known.entries = known.entries.or(entries);
        TableStream::open(Arc::clone(&self.file), self.bytes, self.uid, known)
    }
}

/// What a table is expected to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    pub(crate) bytes: u64,
    pub(crate) uid: TableUid,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) global_seqno: Option<SeqNo>,
    /// Entries, if the manifest says them of the whole file.
    pub(crate) entries: Option<u64>,
}

impl Expectation {
    pub(crate) fn of(keyspace: KeyspaceId, part: &PartMeta) -> Expectation {
        Expectation {
            bytes: part.file_bytes,
            uid: part.table_uid,
            keyspace,
            global_seqno: part.global_seqno,
            entries: (!part.sliced).then_some(part.entries),
        }
    }
}

/// The counts of a whole table.
#[derive(Clone, Debug)]
pub(crate) struct WholeTable {
    pub(crate) blocks: u64,
    pub(crate) entries: u64,
    pub(crate) properties: TableProperties,
    /// The keys that its range tombstones cover.
    pub(crate) deleted: Option<KeyRange>,
}

/// The state of a table file.
#[derive(Debug)]
pub(crate) enum TableState {
    /// Every checksum and the order of all entries are right.
    Whole(Box<WholeTable>),
    /// There is no such file.
    Missing,
    /// The file is another table, or something else.
    Foreign(String),
    /// Part of it cannot be read.
    Damaged(Box<DamagedTable>),
}

/// A table of which some blocks, or the sections behind them, cannot be read.
#[derive(Debug)]
pub(crate) struct DamagedTable {
    /// The first damage.
    pub(crate) error: Error,
    pub(crate) gaps: Vec<TableGap>,
    /// Entries that can be read, and how many at most cannot.
    pub(crate) seen: u64,
    pub(crate) missing_at_most: Option<u64>,
    /// Whether the range tombstones can be read.
    pub(crate) has_range_tombstones: bool,
}

/// Reads all of a table and verifies everything.
///
/// # Errors
/// [`Error::Unsupported`] if a newer version wrote it.
pub(crate) fn check_table(env: &Env, path: &Path, expected: &Expectation) -> Result<TableState> {
    let file = match env.fs.open(path, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(TableState::Missing),
        opened => opened?,
    };
    let bytes = file.len()?;
    let error = match verify_whole(&file, bytes, expected) {
        Ok(whole) => return Ok(TableState::Whole(Box::new(whole))),
        Err(error @ Error::Unsupported(_)) => return Err(error),
        Err(error) => error,
    };
    if let Ok(uid) = uid_of_file(&*file, bytes)
        && uid != expected.uid
    {
        let (wanted, found) = (expected.uid.get(), uid.get());
        return Ok(TableState::Foreign(format!(
            "table {wanted:016x} expected, table {found:016x} found: another table has this file's name"
        )));
    }
    let head = TableHead::expected(file, bytes, expected.uid);
    let mut stream = head.stream(expected.global_seqno, expected.entries)?;
    while stream.entry().is_some() {
        stream.advance()?;
    }
    if stream.seen() == 0 && uid_of_file(&*head.file, bytes).is_err() && expected.entries != Some(0) {
        let what = "the file is no table, or nothing of it is readable".to_owned();
        return Ok(TableState::Foreign(what));
    }
    Ok(TableState::Damaged(Box::new(DamagedTable {
        error,
        gaps: stream.gaps().to_vec(),
        seen: stream.seen(),
        missing_at_most: stream.missing_at_most(),
        has_range_tombstones: head.end.range_tombstones.is_some(),
    })))
}

fn verify_whole(file: &Arc<dyn File>, bytes: u64, expected: &Expectation) -> Result<WholeTable> {
    if bytes != expected.bytes {
        let detail = format!("the file has {bytes} bytes, the manifest says {}", expected.bytes);
        return Err(Error::corruption(file.path(), None, detail));
    }
    let Expectation { uid, keyspace, global_seqno, .. } = *expected;
    let identity = TableIdentity::standalone(Arc::new(TableCache::new(CACHE_BYTES)))?;
    let expected = ExpectedTable { uid, keyspace, global_seqno };
    let table = Table::open(Arc::clone(file), bytes, expected, identity)?;
    let found = table.verify()?;
    if let Some(damage) = table.filter_damage().or(table.index_damage()) {
        return Err(damage.clone());
    }
    Ok(WholeTable {
        blocks: found.blocks,
        entries: found.entries,
        properties: table.properties().clone(),
        deleted: table.range_tombstones().hull().map(key_range),
    })
}
