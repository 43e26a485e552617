//! Ingesting external files: verifies them and gives them a name in the database's directory.

use super::new_files::NewFiles;
use crate::handle::Keyspace;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::{Error, PartId, Result, SeqNo, ValueKind};
use esker_engine::file_transfer::{CopyProgress, Progress, StoredData, Transfer};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_engine::write::ingest_commit;
use esker_engine::write::ingest_commit::MAX_TABLES;
use esker_engine::write::ingested_part::described;
use esker_env::fs::parent_dir;
use esker_env::{FileSystem, OpenMode};
use esker_sst::{Table, TableIdentity};
use esker_version::{FileKind, PartMeta};
use esker_view::paths;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How files are ingested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IngestMode {
    /// They are copied; the originals stay, independent of the database.
    #[default]
    Copy,
    /// They are hard-linked into the database's directory where possible (one file system), and copied
    /// otherwise. Writing to the originals afterwards damages the database.
    Link,
    /// As [`IngestMode::Link`], and the originals are removed once the ingest is durable.
    Move,
}

/// Options of an ingest.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
#[doc(alias = "IngestExternalFileOptions")]
pub struct IngestOptions {
    mode: IngestMode,
}

impl IngestOptions {
    /// Files are copied.
    pub fn new() -> IngestOptions {
        IngestOptions::default()
    }

    /// Sets how files are ingested.
    pub fn mode(mut self, mode: IngestMode) -> IngestOptions {
        self.mode = mode;
        self
    }
}

/// The result of an ingest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The sequence number of all entries; `None` if there were none.
    pub seqno: Option<SeqNo>,
    /// Tables that were added. Those without entries are left out.
    pub tables: u64,
    /// Entries in them, deletes included.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Tables that were hard-linked instead of copied.
    pub linked_tables: u64,
}

/// A verified file.
struct Checked<'p> {
    path: &'p Path,
    part: PartMeta,
}

/// See [`crate::Keyspace::ingest`].
pub(crate) fn ingest_files(
    store: &Arc<Store>,
    keyspace: &Arc<KeyspaceState>,
    paths: &[PathBuf],
    options: IngestOptions,
    told: &mut dyn FnMut(CopyProgress),
) -> Result<IngestReport> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    keyspace.check_living()?;
    check_count(paths.len())?;
    let paths: Vec<PathBuf> = paths.iter().map(|path| store.env.fs.absolute(path)).collect::<Result<_>>()?;
    let paths = &paths[..];
    let lens: Vec<u64> = paths.iter().map(|path| len_of(&*store.env.fs, path)).collect::<Result<_>>()?;
    // Each file is read for verification, and once more for the copy.
    let mut progress = Progress::new(2 * lens.iter().sum::<u64>(), told);
    let mut checked = Vec::new();
    for (path, &bytes) in paths.iter().zip(&lens) {
        checked.extend(check_file(store, path, bytes, options.mode)?);
        progress.advance(bytes);
    }
    checked.sort_by(|left, right| left.part.range.start.cmp(&right.part.range.start));
    check_disjoint(&checked)?;
    let mut report = IngestReport { tables: checked.len() as u64, ..IngestReport::default() };
    if checked.is_empty() {
        remove_originals(store, paths, options.mode);
        return Ok(report);
    }
    let mut files = NewFiles::new(store);
    for Checked { path, part } in &mut checked {
        (part.id, part.file) = (writing.tables.take_part_id(), writing.tables.take_file_number());
        report.linked_tables += u64::from(bring(store, path, part, options.mode, &mut files, &mut progress)?);
        report.entries += part.entries;
        report.bytes += part.file_bytes;
    }
    store.env.fs.sync_dir(&paths::tables(&store.dir))?;
    let parts = checked.into_iter().map(|file| file.part).collect();
    report.seqno = Some(ingest_commit::commit_ingest(store, keyspace, parts, || files.claim())?);
    remove_originals(store, paths, options.mode);
    Ok(report)
}

fn remove_originals(store: &Store, paths: &[PathBuf], mode: IngestMode) {
    for path in paths.iter().filter(|_| mode == IngestMode::Move) {
        if let Err(error) = store.env.fs.remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "an ingested file could not be removed");
        }
    }
}

fn len_of(fs: &dyn FileSystem, path: &Path) -> Result<u64> {
    match fs.file_len(path)? {
        Some(len) => Ok(len),
        None if fs.list(path).is_ok() => Err(Error::invalid(format!(
            "{} is a directory; the tables to ingest are named one by one",
            path.display()
        ))),
        None => Err(Error::NotFound(format!("there is no file {}", path.display()).into())),
    }
}

/// Whether a name is one that the database gave to a table: removing it would lose the table. Other names of
/// the same file may go.
fn is_own_name(store: &Store, path: &Path) -> Result<bool> {
    store.env.fs.is_same_file(&parent_dir(path), &paths::tables(&store.dir))
}

/// Reads all of a file and verifies that it is a table which may join a keyspace; `None` if it is empty.
fn check_file<'p>(
    store: &Store,
    path: &'p Path,
    bytes: u64,
    mode: IngestMode,
) -> Result<Option<Checked<'p>>> {
    let file = store.env.fs.open(path, OpenMode::Read)?;
    let table = Table::open_any(file, bytes, TableIdentity::new(&store.files.tables)?)?;
    let verified = table.verify()?;
    let properties = table.properties();
    let refused = |why: String| {
        let path = path.display();
        Error::invalid(format!("{path} cannot be ingested: {why}; tables for it are written by TableWriter"))
    };
    if mode == IngestMode::Move && is_own_name(store, path)? {
        return Err(refused("it is a table of this database, which would lose it".into()));
    }
    if properties.range_tombstones > 0 {
        return Err(refused(format!("it holds {} range deletes", properties.range_tombstones)));
    }
    if properties.entries == 0 {
        return Ok(None);
    }
    if properties.max_seqno != SeqNo::ZERO || properties.keys != properties.entries {
        return Err(refused("its entries have sequence numbers of another database".into()));
    }
    if let Some(kind) = verified.kinds.iter().find(|kind| !ALLOWED_KINDS.contains(kind)) {
        return Err(refused(format!("it holds entries of kind {kind:#04x}")));
    }
    let range = esker_version::KeyRange::inclusive(&[][..], &[][..]);
    let part = PartMeta::new(PartId(0), esker_base::FileNumber(0), bytes, table.uid(), range);
    Ok(Some(Checked { path, part: described(part, properties) }))
}

/// Gives a file its name in the directory of tables; whether by a link.
fn bring(
    store: &Store,
    path: &Path,
    part: &PartMeta,
    mode: IngestMode,
    files: &mut NewFiles,
    progress: &mut Progress<'_>,
) -> Result<bool> {
    let target = files.add(part.file);
    let fs = &*store.env.fs;
    let transfer = Transfer { from: fs, to: fs };
    let data = StoredData { kind: FileKind::Table, uid: part.table_uid, bytes: part.file_bytes };
    if mode == IngestMode::Copy {
        transfer.copy_verified(path, &target, data, progress)?;
        return Ok(false);
    }
    let is_linked = transfer.link_or_copy(path, &target, data, progress)?;
    if is_linked {
        // The original may not be durable yet (BL2).
        store.env.fs.open(&target, OpenMode::Read)?.sync_all()?;
    }
    Ok(is_linked)
}

/// Kind bytes allowed in ingested tables. A merge operand would have to distinguish older entries from
/// concurrent ones, a blob pointer would refer to another file.
const ALLOWED_KINDS: [u8; 3] =
    [ValueKind::Delete as u8, ValueKind::Put as u8, ValueKind::Put as u8 | FLAG_EXPIRY];

fn check_count(count: usize) -> Result<()> {
    if count <= MAX_TABLES {
        return Ok(());
    }
    Err(Error::invalid(format!("one ingest takes at most {MAX_TABLES} tables, not {count}")))
}

fn check_disjoint(sorted: &[Checked<'_>]) -> Result<()> {
    for pair in sorted.windows(2) {
        let (left, right) = (&pair[0], &pair[1]);
        if !left.part.range.is_before(&right.part.range) {
            return Err(Error::invalid(format!(
                "{} and {} share keys: the first goes up to {}, the second begins with {}; tables of one ingest must not overlap",
                left.path.display(),
                right.path.display(),
                left.part.largest().escape_ascii(),
                right.part.smallest().escape_ascii()
            )));
        }
    }
    Ok(())
}

impl Keyspace {
    /// Adds table files to the keyspace, all or nothing, durable when it returns. Their entries take one
    /// sequence number: existing keys get the values of the tables or are deleted by them, later writes
    /// override them, and existing snapshots do not see them. Where nothing overlaps, a table goes to the
    /// last level and is not written again.
    ///
    /// The files are read and verified before: checksums, order, contents. They must be made by
    /// [`TableWriter`](crate::ingest::TableWriter): one version of each key, no range tombstones. Tables of one call
    /// may be given in any order and must not share keys. The keyspace's default TTL does not apply; entries
    /// expire as the writer specified.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use esker::ingest::{IngestMode, IngestOptions};
    ///
    /// let planets = db.keyspace("planets")?;
    /// let report = planets.ingest(["a.sst", "b.sst"], IngestOptions::new().mode(IngestMode::Move))?;
    /// println!("{} entries from {} tables", report.entries, report.tables);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if a file is missing or the keyspace was dropped; `Corruption` with file and offset if a
    /// file is damaged, is no table, or was not finished; `InvalidArgument` if a path is a directory, if
    /// tables overlap or hold entries that cannot be ingested, naming them; `Full`, `Io`, `WouldStall`,
    /// `ReadOnly`, `Closed`. Nothing was added then, unless the log's device failed: then the outcome is
    /// unknown, and the database read-only.
    #[doc(alias = "IngestExternalFile")]
    pub fn ingest<P: AsRef<Path>>(
        &self,
        paths: impl IntoIterator<Item = P>,
        options: IngestOptions,
    ) -> Result<IngestReport> {
        self.ingest_with(paths, options, &mut |_| {})
    }

    /// As [`Keyspace::ingest`], with progress reports: each byte counts twice, once when it is verified and
    /// once when it is copied or linked.
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingest_with<P: AsRef<Path>>(
        &self,
        paths: impl IntoIterator<Item = P>,
        options: IngestOptions,
        told: &mut dyn FnMut(CopyProgress),
    ) -> Result<IngestReport> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
        let (handle, state) = self.parts();
        ingest_files(&handle.store, state, &paths, options, told)
    }
}
