//! The directory of a set of backups, held by its descriptor during one operation: its locks, its catalogs
//! and the shared directory of tables.
//!
//! * **CO3** A file of the shared directory is reused for a new backup unless a verification or a restore
//!   has found it damaged. That is remembered by an empty file beside it; the next backup of a database that
//!   has the table copies it anew, and corrects the checksum in catalogs that state another one.

use super::backup::{BackupId, Backups};
use super::catalog::{CATALOG_NAME, Catalog, CatalogTable, pool_name};
use super::image::ImageTable;
use super::staging::{INCOMPLETE_SUFFIX, LOCK_SUFFIX};
use esker_base::{Error, Result, TableUid};
use esker_engine::file_transfer::{Progress, StoredData, Transfer};
use esker_engine::lifecycle::open::make_directory;
use esker_env::{Env, FileLock, FileSystem, LockKind, OpenMode};
use esker_version::Current;
use esker_view::paths;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Behind the name of a file of the shared directory: it was found damaged.
const DAMAGED_SUFFIX: &str = ".esker-damaged";

/// What identifies a table: its random number and its length.
type TableKey = (TableUid, u64);

/// A directory of backups.
pub(super) struct BackupDir {
    /// Its file system holds the directory.
    pub(super) env: Env,
    /// The absolute path.
    pub(super) path: PathBuf,
}

/// A table of a new backup.
pub(super) struct TakenTable {
    pub(super) line: CatalogTable,
    /// Whether it was copied.
    pub(super) is_new: bool,
}

/// A file that is being copied, deleted unless it gets its name: also when the report of the progress
/// unwinds.
struct Begun<'a> {
    fs: &'a dyn FileSystem,
    path: Option<&'a Path>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path {
            // The next backup deletes leftovers.
            let _removed = self.fs.remove_file(path);
        }
    }
}

impl BackupDir {
    /// Holds an existing directory.
    pub(super) fn hold(backups: &Backups) -> Result<BackupDir> {
        let env = backups.env();
        let path = env.fs.absolute(backups.dir())?;
        let held = env.fs.list(&path).and_then(|_| env.fs.hold_dir(&path));
        let held = held.map_err(|error| match error.is_not_found() {
            true => Error::NotFound(format!("there is no directory of backups at {}", path.display()).into()),
            false => error,
        })?;
        let fs = held.unwrap_or_else(|| Arc::clone(&env.fs));
        Ok(BackupDir { env: Env { fs, ..env.clone() }, path })
    }

    /// As [`BackupDir::hold`]; a missing directory is made.
    pub(super) fn hold_or_make(backups: &Backups) -> Result<BackupDir> {
        let env = backups.env();
        make_directory(&*env.fs, &env.fs.absolute(backups.dir())?)?;
        let dir = BackupDir::hold(backups)?;
        dir.fs().create_dir_all(&dir.pool())?;
        dir.fs().sync_dir(&dir.path)?;
        Ok(dir)
    }

    pub(super) fn fs(&self) -> &dyn FileSystem {
        &*self.env.fs
    }

    pub(super) fn dir_of(&self, id: BackupId) -> PathBuf {
        self.path.join(id.to_string())
    }

    pub(super) fn pool(&self) -> PathBuf {
        self.path.join("tables")
    }

    /// Locks for reading; no lock if there is no lock file, as on a read-only medium.
    pub(super) fn lock_shared(&self) -> Result<Option<Box<dyn FileLock>>> {
        let lock = paths::lock(&self.path);
        match self.fs().file_len(&lock)? {
            Some(_) => self.fs().lock(&lock, LockKind::Shared).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn lock_exclusive(&self) -> Result<Box<dyn FileLock>> {
        self.fs().lock(&paths::lock(&self.path), LockKind::Exclusive)
    }

    /// The catalog of one backup.
    pub(super) fn catalog(&self, id: BackupId) -> Result<Catalog> {
        Catalog::read(self.fs(), &self.dir_of(id)).map_err(|error| {
            if error.is_not_found() {
                Error::NotFound(format!("there is no backup {id} in {}", self.path.display()).into())
            } else {
                error
            }
        })
    }

    pub(super) fn catalogs(&self) -> Result<BTreeMap<BackupId, Catalog>> {
        let entries = self.fs().list(&self.path)?;
        let ids =
            entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| BackupId::of_name(&entry.name));
        ids.map(|id| Ok((id, self.catalog(id)?))).collect()
    }

    /// Makes a directory no backup any more; [`BackupDir::sweep`] deletes it, also after a crash.
    pub(super) fn retire(&self, id: BackupId) -> Result<()> {
        self.fs().rename(&self.dir_of(id), &self.path.join(format!("{id}{INCOMPLETE_SUFFIX}")))
    }

    /// Deletes everything that no catalog names. Under the exclusive lock.
    pub(super) fn sweep(&self, catalogs: &BTreeMap<BackupId, Catalog>) -> Result<()> {
        let fs = self.fs();
        for entry in fs.list(&self.path)? {
            let name = entry.name.strip_suffix(LOCK_SUFFIX).unwrap_or(&entry.name);
            let is_left_over = name.strip_suffix(INCOMPLETE_SUFFIX).and_then(BackupId::of_name).is_some();
            match (is_left_over, entry.is_dir) {
                (true, true) => fs.remove_dir_all(&self.path.join(&entry.name))?,
                (true, false) => fs.remove_file(&self.path.join(&entry.name))?,
                (false, _) => {}
            }
        }
        let named: BTreeSet<String> =
            catalogs.values().flat_map(|catalog| &catalog.tables).map(CatalogTable::file_name).collect();
        let pool = self.pool();
        for entry in fs.list(&pool)? {
            let data = entry.name.strip_suffix(DAMAGED_SUFFIX).unwrap_or(&entry.name);
            let is_data = data.ends_with(".sst") || data.ends_with(".blob");
            let is_ours = is_data || entry.name.ends_with(INCOMPLETE_SUFFIX);
            if is_ours && !named.contains(data) {
                fs.remove_file(&pool.join(&entry.name))?;
            }
        }
        Ok(())
    }

    /// Refuses to mix the backups of two databases, whose retention and sizes would be combined.
    pub(super) fn check_same_database(&self, last: Option<&BackupId>, uuid: [u8; 16]) -> Result<()> {
        let Some(&last) = last else { return Ok(()) };
        match Current::read(self.fs(), &self.dir_of(last))? {
            Some(current) if current.uuid != uuid => {
                let dir = self.path.display();
                Err(Error::invalid(format!(
                    "{dir} holds backups of another database; give each a directory of its own"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Adds a table to the shared directory unless a good one is there. `source` is the file system of the
    /// database.
    pub(super) fn take_table(
        &self,
        source: &dyn FileSystem,
        table: &ImageTable,
        known: &BTreeMap<TableKey, u64>,
        progress: &mut Progress<'_>,
    ) -> Result<TakenTable> {
        let ImageTable { kind, number, uid, bytes, .. } = *table;
        let line = |checksum| CatalogTable { kind, number, uid, bytes, checksum };
        let name = pool_name(kind, uid, bytes);
        let home = self.pool().join(&name);
        if let Some(&checksum) = known.get(&(uid, bytes))
            && self.fs().file_len(&home)? == Some(bytes)
            && self.fs().file_len(&mark_of(&home))?.is_none()
        {
            progress.advance(bytes);
            return Ok(TakenTable { line: line(checksum), is_new: false });
        }
        let temporary = self.pool().join(format!("{name}{INCOMPLETE_SUFFIX}"));
        let from = if table.is_own { self.fs() } else { source };
        let data = StoredData { kind, uid, bytes };
        let mut begun = Begun { fs: self.fs(), path: Some(&temporary) };
        let checksum =
            Transfer { from, to: self.fs() }.copy_verified(&table.path, &temporary, data, progress)?;
        self.fs().rename(&temporary, &home)?;
        begun.path = None;
        Ok(TakenTable { line: line(checksum), is_new: true })
    }

    /// Makes the names of new tables durable, and ends the damage of those that were copied anew (CO3).
    pub(super) fn settle_tables(
        &self,
        catalogs: &BTreeMap<BackupId, Catalog>,
        taken: &[TakenTable],
    ) -> Result<()> {
        self.fs().sync_dir(&self.pool())?;
        let new = taken.iter().filter(|table| table.is_new);
        let checksums: BTreeMap<TableKey, u64> =
            new.map(|table| ((table.line.uid, table.line.bytes), table.line.checksum)).collect();
        for (&id, catalog) in catalogs {
            let mut corrected = catalog.clone();
            for line in &mut corrected.tables {
                line.checksum = checksums.get(&(line.uid, line.bytes)).copied().unwrap_or(line.checksum);
            }
            if corrected != *catalog {
                self.replace_catalog(id, &corrected)?;
            }
        }
        for table in taken.iter().filter(|table| table.is_new) {
            let mark = mark_of(&self.pool().join(table.line.file_name()));
            if self.fs().file_len(&mark)?.is_some() {
                self.fs().remove_file(&mark)?;
            }
        }
        Ok(())
    }

    fn replace_catalog(&self, id: BackupId, catalog: &Catalog) -> Result<()> {
        let dir = self.dir_of(id);
        let temporary = dir.join(format!("{CATALOG_NAME}{INCOMPLETE_SUFFIX}"));
        catalog.write(self.fs(), &temporary, OpenMode::CreateOrTruncate)?;
        self.fs().rename(&temporary, &dir.join(CATALOG_NAME))?;
        self.fs().sync_dir(&dir)
    }

    /// Remembers that a file of the shared directory is damaged (CO3).
    pub(super) fn mark_if_damaged(&self, file: &Path, error: &Error) {
        if !matches!(error, Error::Corruption(_)) {
            return;
        }
        let marked = self.fs().open(&mark_of(file), OpenMode::CreateOrTruncate);
        if let Err(error) = marked.and_then(|_| self.fs().sync_dir(&self.pool())) {
            // As on a read-only medium: no backup is made there.
            tracing::debug!(%error, "a damaged file of a backup could not be marked");
        }
    }
}

fn mark_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(DAMAGED_SUFFIX);
    PathBuf::from(name)
}
