//! Backups: many copies of a database in one directory, which share unchanged tables.
//!
//! ```text
//! LOCK                      held while the directory is changed
//! tables/UID-BYTES.sst      tables, each once, however many backups have it
//! tables/UID-BYTES.blob     blob files, likewise
//! 000001/BACKUP             the catalog of the first backup: which tables, with checksums
//! 000001/CURRENT            for restoring: as in a database directory
//! 000001/MANIFEST-n
//! ```
//!
//! A backup copies the tables that no earlier backup has and refers to the others. So a backup after few
//! changes is small, and yet each is complete: any of them can be removed without affecting the rest. The
//! order is tables, manifest, catalog, and last the rename that gives the directory its number: a numbered
//! directory is complete and durable. Tables that no catalog names are left over from a backup that was
//! interrupted or removed; the next change of the directory deletes them.

use super::catalog::{Catalog, CatalogTable, pool_name};
use super::checkpoint::{INCOMPLETE_SUFFIX, Unfinished};
use super::image::{Image, ImageTable};
use super::retention::Retention;
use crate::Database;
use esker_base::{Error, Result, SeqNo, TableUid};
use esker_engine::background::flush;
use esker_engine::file_transfer::{CopyProgress, Progress, checksum_of, copy};
use esker_engine::lifecycle::open::make_directory;
use esker_engine::state::store::Store;
use esker_env::{Env, FileLock, LockKind};
use esker_options::CopyKind;
use esker_version::Current;
use esker_view::paths;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

impl Database {
    /// Adds a backup of the present to a directory of backups, while reads and writes go on. Tables that an
    /// earlier backup has are not copied again. See [`Backups`].
    ///
    /// # Errors
    /// `InvalidArgument` if the directory holds backups of another database, `Locked` if another backup is
    /// being made there, `Full`, `Io`, `ReadOnly`, `Closed`.
    #[doc(alias = "CreateNewBackup")]
    #[doc(alias = "BackupEngine")]
    pub fn backup(&self, to: &Backups) -> Result<BackupReport> {
        self.backup_with(to, |_| {})
    }

    /// As [`Database::backup`], telling how far it is.
    pub fn backup_with(&self, to: &Backups, mut told: impl FnMut(CopyProgress)) -> Result<BackupReport> {
        let store = &self.handle().store;
        let began_ns = store.monotonic_ns();
        let copied = backup(store, to, &mut told);
        super::report_end(store, CopyKind::Backup, &to.dir, began_ns, copied, |report| report.seqno)
    }
}

/// A directory of backups of one database.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// use esker::backup::{Backups, Retention};
/// use esker::Database;
/// let db = Database::open("data")?;
/// let backups = Backups::new("/mnt/backups/data");
/// let report = db.backup(&backups)?;
/// println!("backup {}: {} of {} bytes were new", report.id, report.copied_bytes, report.bytes);
/// assert!(backups.verify(report.id)?.is_clean());
/// backups.retain(Retention::keep_last(7))?;
/// backups.restore(report.id, "restored")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "BackupEngine")]
#[doc(alias = "BackupEngineReadOnly")]
pub struct Backups {
    env: Env,
    dir: PathBuf,
}

/// The number of a backup in its directory; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(pub(crate) u32);

impl BackupId {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    fn of_name(name: &str) -> Option<BackupId> {
        let id = BackupId(name.parse().ok()?);
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

impl FromStr for BackupId {
    type Err = Error;

    fn from_str(text: &str) -> Result<BackupId> {
        text.parse()
            .map(BackupId)
            .map_err(|_| Error::invalid(format!("a backup is named by its number, such as 3, not {text:?}")))
    }
}

/// The contents of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number.
    pub id: BackupId,
    /// When it was begun.
    pub created: SystemTime,
    /// Its moment: it contains every write up to this sequence number, and none after.
    pub seqno: SeqNo,
    /// Entries in its tables, versions and tombstones included.
    pub entries: u64,
    /// Its tables.
    pub tables: u64,
    /// Their bytes; backups share them.
    pub bytes: u64,
}

impl BackupInfo {
    #[cfg(test)]
    pub(crate) fn of(id: BackupId) -> BackupInfo {
        BackupInfo {
            id,
            created: SystemTime::UNIX_EPOCH,
            seqno: SeqNo::default(),
            entries: 0,
            tables: 0,
            bytes: 0,
        }
    }
}

/// The result of making a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of the new backup.
    pub id: BackupId,
    /// Its moment: it contains every write up to this sequence number, and none after.
    pub seqno: SeqNo,
    /// Its tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The tables that no earlier backup had.
    pub copied_tables: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

impl Backups {
    /// The backups in a directory, which the first backup creates.
    pub fn new(dir: impl AsRef<Path>) -> Backups {
        Backups::with_env(dir, Env::real())
    }

    /// As [`Backups::new`], on another file system and clock.
    pub fn with_env(dir: impl AsRef<Path>, env: Env) -> Backups {
        Backups { env, dir: dir.as_ref().to_path_buf() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All backups, oldest first.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `Corruption` if a catalog is damaged.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let _lock = self.lock_shared()?;
        Ok(self.catalogs()?.iter().map(|(id, catalog)| info_of(*id, catalog)).collect())
    }

    /// Removes the backups that `rule` does not keep, and the tables that only they had. Returns the removed
    /// backups.
    #[doc(alias = "PurgeOldBackups")]
    pub fn retain(&self, rule: Retention) -> Result<Vec<BackupInfo>> {
        let _lock = self.lock_exclusive()?;
        let infos: Vec<BackupInfo> =
            self.catalogs()?.iter().map(|(id, catalog)| info_of(*id, catalog)).collect();
        let expired: Vec<BackupInfo> =
            rule.expired(&infos, self.env.clock.wall_ms()).into_iter().copied().collect();
        for backup in &expired {
            // From the rename on it is no backup any more; leftovers of a crash are deleted later.
            let name = self.dir_of(backup.id);
            self.env.fs.rename(&name, &self.dir.join(format!("{}{INCOMPLETE_SUFFIX}", backup.id)))?;
        }
        self.env.fs.sync_dir(&self.dir)?;
        self.sweep(&self.catalogs()?)?;
        Ok(expired)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn dir_of(&self, id: BackupId) -> PathBuf {
        self.dir.join(id.to_string())
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.dir.join("tables")
    }

    /// The catalog of one backup.
    pub(crate) fn catalog(&self, id: BackupId) -> Result<Catalog> {
        Catalog::read(&*self.env.fs, &self.dir_of(id)).map_err(|error| {
            if error.is_not_found() {
                Error::NotFound(format!("there is no backup {id} in {}", self.dir.display()).into())
            } else {
                error
            }
        })
    }

    fn catalogs(&self) -> Result<BTreeMap<BackupId, Catalog>> {
        let entries = self.env.fs.list(&self.dir)?;
        let ids =
            entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| BackupId::of_name(&entry.name));
        ids.map(|id| Ok((id, self.catalog(id)?))).collect()
    }

    /// Locks for reading; no lock if there is no lock file, as on a read-only medium.
    pub(crate) fn lock_shared(&self) -> Result<Option<Box<dyn FileLock>>> {
        let lock = paths::lock(&self.dir);
        if self.env.fs.list(&self.dir).is_err_and(|error| error.is_not_found()) {
            let dir = self.dir.display();
            return Err(Error::NotFound(format!("there is no directory of backups at {dir}").into()));
        }
        match self.env.fs.file_len(&lock)? {
            Some(_) => self.env.fs.lock(&lock, LockKind::Shared).map(Some),
            None => Ok(None),
        }
    }

    fn lock_exclusive(&self) -> Result<Box<dyn FileLock>> {
        self.env.fs.lock(&paths::lock(&self.dir), LockKind::Exclusive)
    }

    /// Deletes everything that no catalog names.
    fn sweep(&self, catalogs: &BTreeMap<BackupId, Catalog>) -> Result<()> {
        let fs = &self.env.fs;
        for entry in fs.list(&self.dir)? {
            let is_left_over =
                entry.name.strip_suffix(INCOMPLETE_SUFFIX).and_then(BackupId::of_name).is_some();
            if entry.is_dir && is_left_over {
                fs.remove_dir_all(&self.dir.join(&entry.name))?;
            }
        }
        let named: BTreeSet<String> =
            catalogs.values().flat_map(|catalog| &catalog.tables).map(CatalogTable::file_name).collect();
        let pool = self.pool();
        for entry in fs.list(&pool)? {
            let is_data = entry.name.ends_with(".sst") || entry.name.ends_with(".blob");
            let is_ours = is_data || entry.name.ends_with(INCOMPLETE_SUFFIX);
            if is_ours && !named.contains(&entry.name) {
                fs.remove_file(&pool.join(&entry.name))?;
            }
        }
        Ok(())
    }

    /// Refuses to mix the backups of two databases, whose retention and sizes would be combined.
    fn check_same_database(&self, last: Option<&BackupId>, uuid: [u8; 16]) -> Result<()> {
        let Some(&last) = last else { return Ok(()) };
        match Current::read(&*self.env.fs, &self.dir_of(last))? {
            Some(current) if current.uuid != uuid => {
                let dir = self.dir.display();
                Err(Error::invalid(format!(
                    "{dir} holds backups of another database; give each a directory of its own"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Adds the table to the shared directory if it is missing; returns its catalog line and whether it is
    /// new.
    fn take_table(
        &self,
        table: &ImageTable,
        known: &BTreeMap<(TableUid, u64), u64>,
        progress: &mut Progress<'_>,
    ) -> Result<(CatalogTable, bool)> {
        let ImageTable { kind, number, uid, bytes, .. } = *table;
        let line = |checksum| CatalogTable { kind, number, uid, bytes, checksum };
        let fs = &self.env.fs;
        let name = pool_name(kind, uid, bytes);
        let home = self.pool().join(&name);
        if let Some(&checksum) = known.get(&(table.uid, table.bytes))
            && fs.file_len(&home)? == Some(table.bytes)
        {
            progress.advance(table.bytes);
            return Ok((line(checksum), false));
        }
        let checksum = if table.is_own {
            let checksum = checksum_of(&self.env, &table.path, table.bytes, progress)?;
            fs.rename(&table.path, &home)?;
            checksum
        } else {
            let temporary = self.pool().join(format!("{name}{INCOMPLETE_SUFFIX}"));
            let checksum = copy(&self.env, &table.path, &temporary, table.bytes, progress)?;
            fs.rename(&temporary, &home)?;
            checksum
        };
        Ok((line(checksum), true))
    }
}

/// See [`crate::Database::backup`].
pub(crate) fn backup(
    store: &Store,
    backups: &Backups,
    told: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport> {
    let _activity = store.activity.read_recursive();
    // Before anything is created or deleted at the target.
    store.check_open()?;
    store.writing()?;
    let env = &backups.env;
    make_directory(&*env.fs, &backups.pool())?;
    let _lock = backups.lock_exclusive()?;
    let catalogs = backups.catalogs()?;
    backups.sweep(&catalogs)?;
    // Memtables are flushed first, so that the next backup can share the tables.
    flush::flush_keyspaces(store, &store.all_keyspaces())?;
    let created_ms = env.clock.wall_ms();
    let capture = crate::copy::capture::capture(store)?;
    backups.check_same_database(catalogs.keys().last(), capture.state.uuid)?;
    let id = BackupId(catalogs.keys().last().map_or(1, |last| last.0 + 1));
    let target = backups.dir_of(id);
    let unfinished = Unfinished::create(&*env.fs, &target)?;
    let dir = unfinished.path();
    let buffer = store.memory.write_buffer_bytes;
    let image = Image::begin(env, &store.dir, dir, &capture, buffer)?;
    let known: BTreeMap<_, _> = catalogs
        .values()
        .flat_map(|catalog| &catalog.tables)
        .map(|table| ((table.uid, table.bytes), table.checksum))
        .collect();
    let total = image.tables.iter().map(|table| table.bytes).sum();
    let mut progress = Progress::new(total, told);
    let (mut copied_tables, mut copied_bytes) = (0, 0);
    let mut catalog = Catalog { created_ms, seqno: image.seqno().get(), ..Catalog::default() };
    for table in &image.tables {
        let (line, is_new) = backups.take_table(table, &known, &mut progress)?;
        catalog.tables.push(line);
        copied_tables += u64::from(is_new);
        copied_bytes += if is_new { table.bytes } else { 0 };
    }
    catalog.entries = image.entries();
    env.fs.sync_dir(&backups.pool())?;
    env.fs.sync_dir(&backups.dir)?;
    env.fs.remove_dir_all(&paths::tables(dir))?;
    image.finish(env, dir)?;
    catalog.write(&*env.fs, dir)?;
    unfinished.complete(&target)?;
    Ok(BackupReport {
        id,
        seqno: image.seqno(),
        tables: catalog.tables.len() as u64,
        bytes: catalog.bytes(),
        copied_tables,
        copied_bytes,
    })
}

pub(crate) fn info_of(id: BackupId, catalog: &Catalog) -> BackupInfo {
    BackupInfo {
        id,
        created: esker_view::time::from_ms(catalog.created_ms),
        seqno: SeqNo::new(catalog.seqno),
        entries: catalog.entries,
        tables: catalog.tables.len() as u64,
        bytes: catalog.bytes(),
    }
}
