//! Bulk load: writes many entries to tables, bypassing the log and the memtables.
//!
//! Entries are collected in a buffer. While they arrive in ascending order, each full buffer, of a MiB, is
//! written to tables as in the last level: every byte is written once. At the first key that is not greater
//! than the previous one, the tables so far become the first sorted run, the buffer grows to its share of the
//! memory budget, and from then on each full buffer is sorted and written as a run ([`runs`]); the end merges
//! the runs into tables. Entries that fit the buffer are sorted there, and never written twice.
//!
//! Nothing is part of the keyspace before [`BulkLoader::finish`], and then everything is, by an ingest
//! ([`super`]). The files of a load that is dropped, or whose process dies, are deleted: at once, or as
//! orphans at the next open.

mod buffer;
mod runs;
mod tables;

use crate::Expiry;
use crate::handle::{Handle, Keyspace, no_expiry_to_keep};
use buffer::Buffer;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_engine::write::ingest_commit;
use esker_engine::write::memory_arbiter;
use esker_engine::write::write_options::Ends;
use esker_env::MemoryHolding;
use runs::Runs;
use std::sync::Arc;
use tables::{FinishedTables, Purpose, Tables};

/// A buffer of ascending entries is written at this size: large enough to amortise the cost, small enough for
/// the processor's cache.
const STREAM_BYTES: usize = 1 << 20;

/// The limit of unsorted entries before they are written as a run: one in so many of the memory budget.
const SORT_BUDGET_DIVISOR: u64 = 8;

/// Less would make a file of every few entries.
const MIN_SORT_BYTES: u64 = 4 << 10;
/// Offsets into the buffer have 32 bits, and one entry may exceed the limit.
const MAX_SORT_BYTES: u64 = 2 << 30;

/// Entries merged between two calls of a progress callback.
const ENTRIES_PER_TOLD: u64 = 1 << 16;

/// Loads many entries into a keyspace at once: [`Keyspace::bulk_load`].
///
/// Entries are added in any order and become part of the keyspace together, when [`BulkLoader::finish`]
/// returns. In ascending order of keys they are written to tables at once, at the speed of the device;
/// otherwise they are sorted within an eighth of the memory budget and on disk, which temporarily takes up to
/// twice their size. Of several values of one key the last added one counts.
///
/// A loader that is dropped leaves nothing.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Database::open("data")?;
/// let squares = db.keyspace("squares")?;
/// let mut loader = squares.bulk_load()?;
/// for number in 0..1_000_000u64 {
///     loader.add(number.to_be_bytes(), (number * number).to_be_bytes())?;
/// }
/// let report = loader.finish()?;
/// assert_eq!(report.entries, 1_000_000);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct BulkLoader {
    buffer: Buffer,
    /// The size at which the buffer is written.
    buffer_bytes: usize,
    /// The size of the buffer once entries have to be sorted.
    sort_bytes: u64,
    stage: Stage,
    keyspace: Arc<KeyspaceState>,
    store: Arc<Store>,
    added: u64,
    last_key: Vec<u8>,
    /// The error that lost added entries: the load cannot succeed any more.
    failure: Option<Error>,
    reserved: ReservedMemory,
    /// Keeps the database open.
    _handle: Arc<Handle>,
}

/// The order of entries so far.
#[derive(Debug)]
enum Stage {
    /// In ascending order; the tables hold the entries that have left the buffer.
    Ascending(Option<Box<Tables>>),
    /// In any order.
    Sorting(Runs),
}

/// The result of a bulk load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkLoadReport {
    /// The sequence number of all entries; `None` if there were none.
    pub seqno: Option<SeqNo>,
    /// Entries that became part of the keyspace, one for each key.
    pub entries: u64,
    /// Entries that were replaced by a later one of the same key.
    pub replaced: u64,
    /// Tables that were added.
    pub tables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Sorted runs that were written; none if the entries were in order, or fitted memory.
    pub sorted_runs: u64,
}

/// The progress of the final merge of unordered entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkLoadProgress {
    /// Entries written to their tables.
    pub merged: u64,
    /// All entries, including those replaced by later ones.
    pub total: u64,
}

impl BulkLoader {
    pub(crate) fn new(handle: &Arc<Handle>, keyspace: &Arc<KeyspaceState>) -> Result<BulkLoader> {
        let store = &handle.store;
        store.check_open()?;
        store.writing()?;
        keyspace.check_living()?;
        Ok(BulkLoader {
            buffer: Buffer::new(),
            buffer_bytes: STREAM_BYTES,
            sort_bytes: (store.memory.budget_bytes / SORT_BUDGET_DIVISOR).min(MAX_SORT_BYTES),
            stage: Stage::Ascending(None),
            keyspace: Arc::clone(keyspace),
            store: Arc::clone(store),
            added: 0,
            last_key: Vec::new(),
            failure: None,
            reserved: ReservedMemory { store: Arc::clone(store), held: MemoryHolding::default() },
            _handle: Arc::clone(handle),
        })
    }

    /// Sets the memory for sorting unordered entries, in bytes; by default an eighth of the memory budget,
    /// between 4 KiB and 2 GiB. More memory makes fewer and longer runs; merging them takes up to 16 MiB in
    /// addition. To be set before the first entry.
    #[must_use]
    pub fn sort_memory(mut self, bytes: u64) -> BulkLoader {
        self.sort_bytes = bytes.clamp(MIN_SORT_BYTES, MAX_SORT_BYTES);
        self.buffer_bytes = STREAM_BYTES.min(usize::try_from(self.sort_bytes).unwrap_or(STREAM_BYTES));
        self
    }

    /// Adds a key and its value. As for a put, the default TTL of the keyspace counts from now on.
    ///
    /// O(1) in ascending order, apart from writing; O(log n) otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` if key or value is too long; the load can continue. `Full`, `Io`, `Closed`, and
    /// `NotFound` if the keyspace was dropped: these are final, because added entries are lost. Later calls
    /// return the same error again, and so does [`BulkLoader::finish`].
    #[inline]
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        match self.keyspace.default_ttl() {
            None => self.push(key.as_ref(), ValueKind::Put as u8, &[], value.as_ref()),
            Some(ttl) => self.add_until(key.as_ref(), value.as_ref(), self.store.time.after(ttl)),
        }
    }

    /// Adds a key whose value has this expiry.
    ///
    /// # Errors
    /// As [`BulkLoader::add`]; `InvalidArgument` for [`Expiry::Keep`]: a load does not read what is there.
    pub fn add_with(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expiry: Expiry) -> Result<()> {
        match expiry.resolve(&self.store.time, self.keyspace.default_ttl()) {
            Ends::Never => self.push(key.as_ref(), ValueKind::Put as u8, &[], value.as_ref()),
            Ends::At(expiry_ms) => self.add_until(key.as_ref(), value.as_ref(), expiry_ms),
            Ends::AsBefore => Err(no_expiry_to_keep()),
        }
    }

    fn add_until(&mut self, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<()> {
        self.push(key, ValueKind::Put as u8 | FLAG_EXPIRY, &expiry_ms.to_le_bytes(), value)
    }

    #[inline]
    fn push(&mut self, key: &[u8], kind_byte: u8, expiry: &[u8], value: &[u8]) -> Result<()> {
        let max_value_len = MAX_VALUE_LEN - expiry.len();
        if key.len() > MAX_KEY_LEN || value.len() > max_value_len {
            return Err(too_long(key, value, max_value_len));
        }
        self.buffer.push(key, kind_byte, expiry, value);
        self.added += 1;
        if self.buffer.used_bytes() >= self.buffer_bytes { self.make_room() } else { Ok(()) }
    }

    /// Entries added so far.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Writes the buffer. A failure may have lost added entries, so it is final: every later call returns it
    /// as well.
    #[cold]
    fn make_room(&mut self) -> Result<()> {
        let written = self.failure.clone().map_or_else(|| self.write_buffer(), Err);
        if let Err(error) = &written {
            self.failure = Some(error.clone());
            (self.buffer, self.stage) = (Buffer::new(), Stage::Ascending(None));
            // The next entry comes back here.
            self.buffer_bytes = 0;
            self.reserved.reserve(0);
        }
        written
    }

    fn write_buffer(&mut self) -> Result<()> {
        if let Stage::Ascending(tables) = &mut self.stage {
            let after = tables.as_ref().map(|_| &self.last_key[..]);
            if self.buffer.ascends_after(after) {
                let new = || Box::new(Tables::new(&self.store, &self.keyspace, Purpose::Stay));
                let tables = tables.get_or_insert_with(new);
                return write_ascending(tables, &mut self.buffer, &mut self.last_key);
            }
            self.begin_sorting()?;
            if self.buffer.used_bytes() < self.buffer_bytes {
                return Ok(());
            }
        }
        match &mut self.stage {
            Stage::Sorting(runs) => runs.spill(&mut self.buffer),
            Stage::Ascending(_) => Ok(()),
        }
    }

    /// Switches to sorting: the entries are not in order.
    fn begin_sorting(&mut self) -> Result<()> {
        let mut runs = Runs::new(&self.store, &self.keyspace);
        if let Stage::Ascending(tables) = &mut self.stage
            && let Some(tables) = tables.take()
        {
            runs.begin_with(tables.finish()?);
        }
        self.stage = Stage::Sorting(runs);
        self.buffer_bytes = usize::try_from(self.sort_bytes).unwrap_or(usize::MAX);
        self.reserved.reserve(self.sort_bytes);
        Ok(())
    }

    /// Makes all added entries part of the keyspace, all or nothing, durable when it returns. Existing
    /// snapshots do not see them; existing keys get the loaded values.
    ///
    /// # Errors
    /// As [`BulkLoader::add`]; nothing was loaded then. Only if the log's device fails can the outcome be
    /// unknown: the database is read-only then.
    pub fn finish(self) -> Result<BulkLoadReport> {
        self.finish_with(&mut |_| {})
    }

    /// As [`BulkLoader::finish`], with progress reports.
    ///
    /// # Errors
    /// As [`BulkLoader::finish`].
    pub fn finish_with(mut self, told: &mut dyn FnMut(BulkLoadProgress)) -> Result<BulkLoadReport> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut report = BulkLoadReport::default();
        if self.added == 0 {
            return Ok(report);
        }
        let mut tables = self.finish_tables(told, &mut report)?;
        // The memory reserved for sorting is free again.
        self.reserved.reserve(0);
        let _activity = self.store.activity.read_recursive();
        self.store.check_open()?;
        tables.sync_names(&self.store)?;
        report.entries = tables.entries();
        report.replaced = self.added - report.entries;
        report.tables = tables.parts.len() as u64;
        report.bytes = tables.bytes();
        let FinishedTables { parts, files } = &mut tables;
        report.seqno =
            Some(ingest_commit::commit_ingest(&self.store, &self.keyspace, std::mem::take(parts), || {
                files.claim();
            })?);
        Ok(report)
    }

    fn finish_tables(
        &mut self,
        told: &mut dyn FnMut(BulkLoadProgress),
        report: &mut BulkLoadReport,
    ) -> Result<FinishedTables> {
        if let Stage::Ascending(tables) = &mut self.stage {
            let after = tables.as_ref().map(|_| &self.last_key[..]);
            if self.buffer.ascends_after(after) {
                let new = || Box::new(Tables::new(&self.store, &self.keyspace, Purpose::Stay));
                let mut tables = tables.take().unwrap_or_else(new);
                write_ascending(&mut tables, &mut self.buffer, &mut self.last_key)?;
                return tables.finish();
            }
            self.begin_sorting()?;
        }
        let mut tables = Tables::new(&self.store, &self.keyspace, Purpose::Stay);
        let stage = std::mem::replace(&mut self.stage, Stage::Ascending(None));
        let Stage::Sorting(runs) = stage else { return tables.finish() };
        report.sorted_runs = runs.written();
        let buffer = std::mem::replace(&mut self.buffer, Buffer::new());
        let mut progress = BulkLoadProgress { merged: 0, total: runs.entries() + buffer.len() as u64 };
        runs.merge_with(buffer, |key, tag, value| {
            progress.merged += 1;
            if progress.merged.is_multiple_of(ENTRIES_PER_TOLD) {
                told(progress);
            }
            tables.add(key, Tag::from_parts(SeqNo::ZERO, tag.kind_byte()), value)
        })?;
        tables.finish()
    }
}

/// Writes a buffer whose entries ascend.
fn write_ascending(tables: &mut Tables, buffer: &mut Buffer, last_key: &mut Vec<u8>) -> Result<()> {
    let mut last: Option<&[u8]> = None;
    for (key, kind_byte, value) in buffer.iter() {
        tables.add(key, Tag::from_parts(SeqNo::ZERO, kind_byte), value)?;
        last = Some(key);
    }
    if let Some(last) = last {
        last_key.clear();
        last_key.extend_from_slice(last);
    }
    buffer.clear();
    Ok(())
}

#[cold]
fn too_long(key: &[u8], value: &[u8], max_value_len: usize) -> Error {
    let (key, value) = (key.len(), value.len());
    Error::invalid(format!(
        "keys have at most {MAX_KEY_LEN} bytes and values {max_value_len}, not {key} and {value}"
    ))
}

/// Memory of the budget that a load takes from the block cache.
#[derive(Debug)]
struct ReservedMemory {
    store: Arc<Store>,
    held: MemoryHolding,
}

impl ReservedMemory {
    /// Sets the reserved amount.
    fn reserve(&mut self, bytes: u64) {
        self.held.hold(&self.store.env.memory.loads, bytes);
        memory_arbiter::rebalance_memory(&self.store);
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        if self.held.bytes() > 0 {
            self.reserve(0);
        }
    }
}

impl Keyspace {
    /// Begins a bulk load that bypasses the log: see [`BulkLoader`]. Other reads and writes continue
    /// meanwhile.
    ///
    /// # Errors
    /// `NotFound` if the keyspace was dropped, `ReadOnly`, `Closed`.
    #[doc(alias = "PrepareForBulkLoad")]
    #[doc(alias = "ingestion")]
    #[doc(alias = "start_ingestion")]
    pub fn bulk_load(&self) -> Result<BulkLoader> {
        let (handle, state) = self.parts();
        BulkLoader::new(handle, state)
    }
}
