//! Restoring a backup to a database, and verifying that it can be restored.

use super::backup::{BackupId, Backups};
use super::backup_dir::BackupDir;
use super::catalog::{CATALOG_NAME, Catalog, CatalogTable};
use super::staging::Staging;
use crate::damage::Damage;
use esker_base::{Error, Result, SeqNo};
use esker_blob::{BlobReader, ExpectedBlob};
use esker_engine::file_transfer::{CopyProgress, Progress, Transfer, checksum_of};
use esker_env::{FileSystem, OpenMode};
use esker_sst::{ExpectedTable, Table, TableCache, TableIdentity};
use esker_version::{CURRENT_NAME, DatabaseState, FileKind, LiveFile, Recovery, manifest_name};
use esker_view::paths;
use std::path::Path;
use std::sync::Arc;

/// The contents of a restored database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Tables that were copied.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The moment that the backup shows.
    pub seqno: SeqNo,
}

/// The result of verifying a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupVerification {
    /// Tables that were read.
    pub tables: u64,
    /// Entries whose order was verified.
    pub entries: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// All corruption found.
    pub damage: Vec<Damage>,
}

impl BackupVerification {
    /// Whether the backup can be restored, and read afterwards.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }
}

impl Backups {
    /// Restores a backup to a directory that is missing or empty. Every copy is verified by the checksums
    /// inside of it and by that of the catalog.
    ///
    /// # Errors
    /// `NotFound` if there is no such backup, `InvalidArgument` if the directory is not empty, `Locked` if
    /// another copy is being made there or the backups are being changed, naming the process, `Corruption`
    /// naming the damaged file of the backup. Nothing is left in the directory then, and nothing is deleted
    /// that another call made.
    #[doc(alias = "RestoreDBFromBackup")]
    #[doc(alias = "RestoreDBFromLatestBackup")]
    pub fn restore(&self, id: BackupId, to: impl AsRef<Path>) -> Result<RestoreReport> {
        self.restore_with(id, to, |_| {})
    }

    /// As [`Backups::restore`], with progress reports.
    pub fn restore_with(
        &self,
        id: BackupId,
        to: impl AsRef<Path>,
        mut told: impl FnMut(CopyProgress),
    ) -> Result<RestoreReport> {
        let dir = BackupDir::hold(self)?;
        let _lock = dir.lock_shared()?;
        let catalog = dir.catalog(id)?;
        let state = dir.state_of(id)?;
        dir.check_agreement(id, &catalog, &state)?;
        let staging = Staging::begin(self.env(), to.as_ref())?;
        let target = staging.env();
        let tables_dir = paths::tables(staging.path());
        target.fs.create_dir_all(&tables_dir)?;
        let mut progress = Progress::new(catalog.bytes(), &mut told);
        for table in &catalog.tables {
            let to = paths::data(staging.path(), table.kind, table.number);
            dir.restore_table(table, &*target.fs, &to, &mut progress)?;
        }
        target.fs.sync_dir(&tables_dir)?;
        dir.restore_manifest(id, &state, &*target.fs, staging.path())?;
        staging.complete()?;
        Ok(RestoreReport {
            tables: catalog.tables.len() as u64,
            bytes: catalog.bytes(),
            seqno: SeqNo::new(catalog.seqno),
        })
    }

    /// Reads all of a backup and verifies everything that can be checked: catalog, manifest, the bytes of
    /// every table against their checksum, every block and the order of all entries. A backup without damage
    /// can be restored.
    ///
    /// A damaged table is remembered in the directory: the next backup of a database that still has it copies
    /// it anew, for this backup, too.
    ///
    /// # Errors
    /// `NotFound` if there is no such backup. Damage is no error: it is listed.
    #[doc(alias = "VerifyBackup")]
    pub fn verify(&self, id: BackupId) -> Result<BackupVerification> {
        self.verify_with(id, |_| {})
    }

    /// As [`Backups::verify`], with progress reports.
    pub fn verify_with(
        &self,
        id: BackupId,
        mut told: impl FnMut(CopyProgress),
    ) -> Result<BackupVerification> {
        let dir = BackupDir::hold(self)?;
        let _lock = dir.lock_shared()?;
        let mut found = BackupVerification::default();
        let damage = |keyspace: &str, file: &Path, error| Damage {
            keyspace: keyspace.to_owned(),
            file: file.to_path_buf(),
            error,
        };
        let catalog = match dir.catalog(id) {
            Ok(catalog) => catalog,
            Err(error @ Error::NotFound(_)) => return Err(error),
            Err(error) => {
                found.damage.push(damage("", &dir.dir_of(id).join(CATALOG_NAME), error));
                return Ok(found);
            }
        };
        let state = dir.state_of(id).and_then(|state| {
            dir.check_agreement(id, &catalog, &state)?;
            Ok(state)
        });
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                found.damage.push(damage("", &dir.dir_of(id), error));
                return Ok(found);
            }
        };
        let files = state.live_files();
        let mut progress = Progress::new(catalog.bytes(), &mut told);
        for table in &catalog.tables {
            let path = dir.pool().join(table.file_name());
            let file = files.get(&table.number);
            match dir.verify_table(table, file, &path, &mut progress) {
                Ok(entries) => {
                    found.tables += 1;
                    found.entries += entries;
                    found.bytes += table.bytes;
                }
                Err(error) => {
                    dir.mark_if_damaged(&path, &error);
                    let keyspace = file.and_then(|file| state.keyspace(file.keyspace));
                    found.damage.push(damage(keyspace.map_or("", |keyspace| &keyspace.name), &path, error));
                }
            }
        }
        Ok(found)
    }
}

impl BackupDir {
    fn restore_table(
        &self,
        table: &CatalogTable,
        target: &dyn FileSystem,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let from = self.pool().join(table.file_name());
        let transfer = Transfer { from: self.fs(), to: target };
        let copied = transfer
            .copy_verified(&from, to, table.data(), progress)
            .and_then(|checksum| check_sum(&from, table, checksum));
        copied.inspect_err(|error| self.mark_if_damaged(&from, error))
    }

    fn verify_table(
        &self,
        table: &CatalogTable,
        file: Option<&LiveFile>,
        path: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let fs = self.fs();
        check_sum(path, table, checksum_of(fs, path, table.bytes, progress)?)?;
        let file = file.ok_or_else(|| Error::internal("a table of the catalog is not in the manifest"))?;
        check_file(fs, path, file)
    }

    /// The state in the manifest of a backup.
    fn state_of(&self, id: BackupId) -> Result<DatabaseState> {
        let dir = self.dir_of(id);
        match esker_version::recover(self.fs(), &dir)? {
            Recovery::Database(recovered) => Ok(recovered.state),
            _ => Err(Error::corruption(dir.join(CURRENT_NAME), None, "the file is missing")),
        }
    }

    /// Catalog and manifest were written together and must list the same tables.
    fn check_agreement(&self, id: BackupId, catalog: &Catalog, state: &DatabaseState) -> Result<()> {
        let files = state.live_files();
        let agrees = |table: &CatalogTable| {
            let file = files.get(&table.number);
            file.is_some_and(|file| {
                file.kind == table.kind && file.table_uid == table.uid && file.bytes == table.bytes
            })
        };
        if files.len() == catalog.tables.len() && catalog.tables.iter().all(agrees) {
            return Ok(());
        }
        let path = self.dir_of(id).join(CATALOG_NAME);
        Err(Error::corruption(path, None, "the catalog names other tables than the manifest"))
    }

    /// Copies manifest and CURRENT, and verifies that they say what they did.
    fn restore_manifest(
        &self,
        id: BackupId,
        state: &DatabaseState,
        target: &dyn FileSystem,
        to: &Path,
    ) -> Result<()> {
        let from = self.dir_of(id);
        let current = esker_version::Current::read(self.fs(), &from)?;
        let current =
            current.ok_or_else(|| Error::corruption(from.join(CURRENT_NAME), None, "the file is missing"))?;
        let transfer = Transfer { from: self.fs(), to: target };
        for name in [manifest_name(current.manifest), CURRENT_NAME.to_owned()] {
            let path = from.join(&name);
            let bytes = self.fs().file_len(&path)?.unwrap_or(0);
            transfer.copy(&path, &to.join(&name), bytes, &mut Progress::new(bytes, &mut |_| {}))?;
        }
        target.sync_dir(to)?;
        match esker_version::recover(target, to)? {
            Recovery::Database(recovered) if recovered.state == *state => Ok(()),
            _ => Err(Error::corruption(
                to.join(CURRENT_NAME),
                None,
                "the manifest was damaged while it was copied",
            )),
        }
    }
}

fn check_sum(path: &Path, table: &CatalogTable, checksum: u64) -> Result<()> {
    if checksum == table.checksum {
        return Ok(());
    }
    let detail = format!("its checksum is {checksum:016x}, the catalog says {:016x}", table.checksum);
    Err(Error::corruption(path, None, detail))
}

/// Reads all of a table or blob file as the one that a manifest names; returns the entries of a table.
pub(crate) fn check_file(fs: &dyn FileSystem, path: &Path, live: &LiveFile) -> Result<u64> {
    /// Each block is read once: caching gains nothing.
    const CACHE_BYTES: usize = 1 << 20;
    let file = fs.open(path, OpenMode::Read)?;
    let (uid, keyspace, file_bytes) = (live.table_uid, live.keyspace, live.bytes);
    if live.kind == FileKind::Blob {
        let opened = BlobReader::open(file, ExpectedBlob { file_bytes, uid, keyspace })?;
        // Its values are entries of the tables that point to them.
        return opened.scan(|_, _, _| Ok(())).map(|_| 0);
    }
    let expected = ExpectedTable { uid, keyspace, global_seqno: live.global_seqno };
    let identity = TableIdentity::standalone(Arc::new(TableCache::new(CACHE_BYTES)))?;
    let opened = Table::open(file, file_bytes, expected, identity)?;
    if let Some(damage) = opened.filter_damage() {
        return Err(damage.clone());
    }
    Ok(opened.verify()?.entries)
}
