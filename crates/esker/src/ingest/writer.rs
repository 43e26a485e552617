//! Writes a table outside of any database, to be ingested later.

use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::{Error, Result, SeqNo, TableUid, Tag, ValueKind};
use esker_build::filters::TableFilter;
use esker_env::fs::parent_dir;
use esker_env::{Env, OpenMode};
use esker_options::KeyspaceOptions;
use esker_sst::TableOptions;
use esker_version::LevelIndex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Writes a table file, entry by entry in ascending order of keys, for
/// [`Keyspace::ingest`](crate::Keyspace::ingest). It needs no open database: tables may be written on many
/// machines and ingested on one.
///
/// The file is complete once [`TableWriter::finish`] returns. A writer that is dropped before removes it.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// use esker::{Database, KeyspaceOptions};
/// use esker::ingest::{IngestOptions, TableWriter};
///
/// let mut table = TableWriter::create("planets.sst", &KeyspaceOptions::default())?;
/// table.put(b"earth", b"1 moon")?;
/// table.put(b"mars", b"2 moons")?;
/// table.delete(b"pluto")?;
/// table.finish()?;
///
/// let planets = Database::open("data")?.keyspace("planets")?;
/// planets.ingest(["planets.sst"], IngestOptions::new())?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[doc(alias = "SstFileWriter")]
pub struct TableWriter {
    env: Env,
    path: PathBuf,
    /// `None` once it is finished.
    writer: Option<esker_sst::TableWriter>,
    last_key: Vec<u8>,
    is_empty: bool,
    scratch: Vec<u8>,
}

/// A finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenTable {
    /// Its file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Entries, deletes included.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
    /// The first key; empty if there are no entries.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
}

impl TableWriter {
    /// Begins a table in a new file. The options of tables in the last level apply: layout and size of
    /// blocks, compression and filter. A default TTL does not: the time of the ingest is not known yet.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range, and any error of creating the file, also if it exists
    /// already.
    pub fn create(path: impl AsRef<Path>, options: &KeyspaceOptions) -> Result<TableWriter> {
        TableWriter::create_in(&Env::real(), path, options)
    }

    /// As [`TableWriter::create`], in another environment than the real one: for tests.
    ///
    /// # Errors
    /// As [`TableWriter::create`].
    pub fn create_in(env: &Env, path: impl AsRef<Path>, options: &KeyspaceOptions) -> Result<TableWriter> {
        options.validate()?;
        let path = env.fs.absolute(path.as_ref())?;
        // The file is removed if the table is not finished: never one that another directory has there by
        // then.
        let held = env.fs.hold_dir(&parent_dir(&path))?;
        let env = Env { fs: held.unwrap_or_else(|| Arc::clone(&env.fs)), ..env.clone() };
        let file = env.fs.open(&path, OpenMode::CreateNew)?;
        let filter = TableFilter::standing_alone(options);
        let options = TableOptions {
            layout: options.block_layout.last(),
            codec: options.compression.last(),
            filter: filter.policy,
            filter_bits: filter.bits,
            uid: TableUid(env.random.next_u64()),
            level: LevelIndex::LAST.get(),
            created_ms: env.clock.wall_ms(),
            ..options.table_options()
        };
        let writer = esker_sst::TableWriter::new(file, options).inspect_err(|_| {
            let _ = env.fs.remove_file(&path);
        })?;
        let (last_key, scratch) = (Vec::new(), Vec::new());
        Ok(TableWriter { env, path, writer: Some(writer), last_key, is_empty: true, scratch })
    }

    /// Adds a key and its value. The key must be greater than the previous one. O(1), and a write of a MiB
    /// now and then.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is not greater, naming both, or if key or value is too long; the table
    /// can be continued. And any error of writing: the file is removed then, and later calls return `Closed`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueKind::Put as u8, value.as_ref())
    }

    /// Adds a key whose value is there until `end`, the first moment without it.
    ///
    /// # Errors
    /// As [`TableWriter::put`].
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        end: SystemTime,
    ) -> Result<()> {
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        stored.reserve(EXPIRY_LEN + value.as_ref().len());
        stored.extend_from_slice(&esker_view::time::to_ms(end).to_le_bytes());
        stored.extend_from_slice(value.as_ref());
        let added = self.add(key.as_ref(), ValueKind::Put as u8 | FLAG_EXPIRY, &stored);
        self.scratch = stored;
        added
    }

    /// Adds the delete of a key: ingesting the table will delete it.
    ///
    /// # Errors
    /// As [`TableWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueKind::Delete as u8, &[])
    }

    #[inline]
    fn add(&mut self, key: &[u8], kind_byte: u8, value: &[u8]) -> Result<()> {
        if !self.is_empty && *key <= *self.last_key {
            return Err(self.out_of_order(key));
        }
        let Some(writer) = &mut self.writer else { return Err(Error::Closed) };
        if let Err(error) = writer.add(key, Tag::from_parts(SeqNo::ZERO, kind_byte), value) {
            return Err(self.given_up(error));
        }
        self.is_empty = false;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// After an error the table cannot be continued, unless nothing was written: a key or value that is too
    /// long.
    #[cold]
    fn given_up(&mut self, error: Error) -> Error {
        if !matches!(error, Error::InvalidArgument(_)) && self.writer.take().is_some() {
            let _ = self.env.fs.remove_file(&self.path);
        }
        error
    }

    #[cold]
    fn out_of_order(&self, key: &[u8]) -> Error {
        Error::invalid(format!(
            "{}: keys must ascend, but {:?} was added after {:?}",
            self.path.display(),
            key.escape_ascii().to_string(),
            self.last_key.escape_ascii().to_string()
        ))
    }

    /// The approximate size of the file if it were finished now, to decide when to begin another.
    pub fn estimated_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, esker_sst::TableWriter::estimated_file_bytes)
    }

    /// Completes the file and makes it durable, its name included. A table without entries is a table;
    /// ingesting it adds nothing.
    ///
    /// # Errors
    /// Any error of writing and syncing; the file is removed then.
    pub fn finish(mut self) -> Result<WrittenTable> {
        let Some(writer) = self.writer.take() else { return Err(Error::Closed) };
        let finished = writer.finish().and_then(|summary| {
            self.env.fs.sync_dir(&parent_dir(&self.path))?;
            Ok(WrittenTable {
                path: self.path.clone(),
                bytes: summary.file_bytes,
                entries: summary.entries,
                deletes: summary.tombstones,
                smallest: summary.smallest,
                largest: summary.largest,
            })
        });
        if finished.is_err() {
            let _ = self.env.fs.remove_file(&self.path);
        }
        finished
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            // A leftover file has no footer, which an ingest reports.
            let _ = self.env.fs.remove_file(&self.path);
        }
    }
}
