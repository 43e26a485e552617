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

use super::backup_dir::{BackupDir, TakenTable};
use super::catalog::{CATALOG_NAME, Catalog};
use super::image::Image;
use super::retention::Retention;
use super::staging::Staging;
use crate::Database;
use esker_base::{Error, Result, SeqNo};
use esker_engine::background::flush_group;
use esker_engine::file_transfer::{CopyProgress, Progress};
use esker_engine::state::store::Store;
use esker_env::{Env, OpenMode};
use esker_options::CopyKind;
use esker_view::paths;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

impl Database {
    /// Adds a backup of the present to a directory of backups, while reads and writes go on. Tables that an
    /// earlier backup has are not copied again, unless [`Backups::verify`] or [`Backups::restore`] found them
    /// damaged. Each copy is verified by its checksums before it counts. See [`Backups`].
    ///
    /// # Errors
    /// `InvalidArgument` if the directory holds backups of another database, `Locked` if another call works
    /// there, `Corruption` naming a damaged table of the database (a table that an earlier backup has is not
    /// read), `Full`, `Io`, `ReadOnly`, `Closed`. Nothing is added then.
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

    /// The number of the backup that follows.
    fn after(last: Option<BackupId>) -> Result<BackupId> {
        let next = last.map_or(Some(1), |last| last.0.checked_add(1)).map(BackupId);
        next.ok_or_else(|| {
            Error::invalid(format!(
                "no number follows backup {}; give new backups another directory",
                u32::MAX
            ))
        })
    }

    pub(super) fn of_name(name: &str) -> Option<BackupId> {
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
        let dir = BackupDir::hold(self)?;
        let _lock = dir.lock_shared()?;
        Ok(dir.catalogs()?.iter().map(|(id, catalog)| info_of(*id, catalog)).collect())
    }

    /// Removes the backups that `rule` does not keep, and the tables that only they had. Returns the removed
    /// backups.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `Locked` if another call works there, `Corruption` if a
    /// catalog is damaged, `Io`.
    #[doc(alias = "PurgeOldBackups")]
    pub fn retain(&self, rule: Retention) -> Result<Vec<BackupInfo>> {
        let dir = BackupDir::hold(self)?;
        let _lock = dir.lock_exclusive()?;
        let infos: Vec<BackupInfo> =
            dir.catalogs()?.iter().map(|(id, catalog)| info_of(*id, catalog)).collect();
        let expired: Vec<BackupInfo> =
            rule.expired(&infos, self.env.clock.wall_ms()).into_iter().copied().collect();
        for backup in &expired {
            dir.retire(backup.id)?;
        }
        dir.fs().sync_dir(&dir.path)?;
        dir.sweep(&dir.catalogs()?)?;
        Ok(expired)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
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
    let dir = BackupDir::hold_or_make(backups)?;
    let _lock = dir.lock_exclusive()?;
    let catalogs = dir.catalogs()?;
    dir.sweep(&catalogs)?;
    // Memtables are flushed first, so that the next backup can share the tables.
    flush_group::flush_keyspaces(store, &store.all_keyspaces())?;
    let created_ms = backups.env.clock.wall_ms();
    let capture = crate::copy::capture::capture(store)?;
    dir.check_same_database(catalogs.keys().last(), capture.state.uuid)?;
    let id = BackupId::after(catalogs.keys().last().copied())?;
    let staging = Staging::begin(&dir.env, &dir.dir_of(id))?;
    let (env, target) = (staging.env(), staging.path());
    let image = Image::begin(env, &store.dir, target, &capture, store.memory.write_buffer_bytes)?;
    let catalog =
        Catalog { created_ms, seqno: image.seqno().get(), entries: image.entries(), ..Catalog::default() };
    let (catalog, report) = take_tables(store, &dir, id, &catalogs, &image, catalog, told)?;
    env.fs.remove_dir_all(&paths::tables(target))?;
    image.finish(env, target)?;
    catalog.write(&*env.fs, &target.join(CATALOG_NAME), OpenMode::CreateNew)?;
    staging.complete()?;
    Ok(report)
}

/// Brings the tables of an image into the shared directory, durable, and lists them in the catalog.
fn take_tables(
    store: &Store,
    dir: &BackupDir,
    id: BackupId,
    catalogs: &BTreeMap<BackupId, Catalog>,
    image: &Image,
    mut catalog: Catalog,
    told: &mut dyn FnMut(CopyProgress),
) -> Result<(Catalog, BackupReport)> {
    let known: BTreeMap<_, _> = catalogs
        .values()
        .flat_map(|catalog| &catalog.tables)
        .map(|table| ((table.uid, table.bytes), table.checksum))
        .collect();
    let total = image.tables.iter().map(|table| table.bytes).sum();
    let mut progress = Progress::new(total, told);
    let take = |table| dir.take_table(&*store.env.fs, table, &known, &mut progress);
    let taken: Vec<TakenTable> = image.tables.iter().map(take).collect::<Result<_>>()?;
    dir.settle_tables(catalogs, &taken)?;
    catalog.tables = taken.iter().map(|table| table.line).collect();
    let new = taken.iter().filter(|table| table.is_new);
    let (copied_tables, copied_bytes) =
        new.fold((0, 0), |(tables, bytes), table| (tables + 1, bytes + table.line.bytes));
    let report = BackupReport {
        id,
        seqno: image.seqno(),
        tables: catalog.tables.len() as u64,
        bytes: catalog.bytes(),
        copied_tables,
        copied_bytes,
    };
    Ok((catalog, report))
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
