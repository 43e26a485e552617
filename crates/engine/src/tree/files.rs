//! Open table files: shared by every version that refers to them, deleted after the last of them.
//!
//! A [`TableFile`] exists while some [`super::Tree`] refers to a part of its file; trees of successive versions, and
//! the readers that hold old ones, share it. The table inside is opened at first use, because opening a database
//! must not cost a read per table (R3).
//!
//! Deletion (IN3): an install marks the files that no part of the new version refers to, after its edit is durable;
//! the drop of the last reference then hands the file to the log lane, which removes its blocks from the cache
//! (BS5) and unlinks it. No directory is synced: a name that reappears after a crash is an orphan, removed at
//! the next open.

use crate::paths;
use crate::scheduler::{Lane, Scheduler};
use esker_base::{Error, FileNumber, KeyspaceId, Result, TableUid};
use esker_cache::BlockCache;
use esker_env::{Env, OpenMode};
use esker_sst::{Block, OpenTables, Table, TableHome};
use esker_version::PartMeta;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// All table files in use, and those waiting to be deleted.
#[derive(Debug)]
pub(crate) struct TableFiles {
    env: Env,
    dir: PathBuf,
    tables: Arc<OpenTables>,
    open: Mutex<HashMap<FileNumber, Weak<TableFile>, foldhash::fast::FixedState>>,
    doomed: Mutex<Vec<Doomed>>,
    /// Deleting is work for the log lane.
    scheduler: Arc<Scheduler>,
}

/// A file that nothing refers to any more.
#[derive(Debug)]
struct Doomed {
    path: PathBuf,
    delete: bool,
}

/// A table file that a version refers to.
#[derive(Debug)]
pub(crate) struct TableFile {
    files: Arc<TableFiles>,
    number: FileNumber,
    path: PathBuf,
    file_bytes: u64,
    uid: TableUid,
    keyspace: KeyspaceId,
    table: OnceLock<Arc<Table>>,
    opening: Mutex<()>,
    obsolete: AtomicBool,
}

impl TableFiles {
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        cache: Arc<BlockCache<Block>>,
        scheduler: Arc<Scheduler>,
    ) -> Arc<TableFiles> {
        Arc::new(TableFiles {
            env,
            dir,
            tables: OpenTables::new(cache),
            open: Mutex::default(),
            doomed: Mutex::default(),
            scheduler,
        })
    }

    /// The file that holds `part`.
    pub(crate) fn file_of(self: &Arc<Self>, keyspace: KeyspaceId, part: &PartMeta) -> Arc<TableFile> {
        let mut open = self.open.lock();
        if let Some(file) = open.get(&part.file).and_then(Weak::upgrade) {
            return file;
        }
        let file = Arc::new(TableFile {
            files: Arc::clone(self),
            number: part.file,
            path: paths::table(&self.dir, part.file),
            file_bytes: part.file_bytes,
            uid: part.table_uid,
            keyspace,
            table: OnceLock::new(),
            opening: Mutex::new(()),
            obsolete: AtomicBool::new(false),
        });
        open.insert(part.file, Arc::downgrade(&file));
        file
    }

    /// Marks a file for deletion once the last reader lets go of it. Only after the edit that removed it is durable.
    pub(crate) fn retire(&self, number: FileNumber) {
        let file = self.open.lock().remove(&number).and_then(|file| file.upgrade());
        match file {
            Some(file) => file.obsolete.store(true, Ordering::Release),
            None => self.doomed.lock().push(Doomed { path: paths::table(&self.dir, number), delete: true }),
        }
    }

    /// Whether files wait to be deleted, or blocks of such files to be removed from the cache.
    pub(crate) fn has_doomed(&self) -> bool {
        !self.doomed.lock().is_empty() || self.cache().has_departed()
    }

    /// Deletes what nothing refers to any more.
    pub(crate) fn delete_doomed(&self) {
        let doomed = std::mem::take(&mut *self.doomed.lock());
        self.cache().remove_departed();
        for file in doomed {
            if file.delete
                && let Err(error) = self.env.fs.remove_file(&file.path)
                && !error.is_not_found()
            {
                // Harmless beyond the space: the next open removes it as an orphan.
                tracing::warn!(path = %file.path.display(), %error, "an obsolete table could not be removed");
            }
        }
    }

    /// Bytes that indexes and filters of open tables hold.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        self.tables.memory_bytes()
    }

    pub(crate) fn cache(&self) -> &Arc<BlockCache<Block>> {
        self.tables.cache()
    }
}

impl TableFile {
    /// The opened table; opens it at the first call.
    #[inline]
    pub(crate) fn table(&self) -> Result<&Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => self.open_table(),
        }
    }

    #[cold]
    fn open_table(&self) -> Result<&Arc<Table>> {
        let _one_at_a_time = self.opening.lock();
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let files = &self.files;
        let file = files.env.fs.open(&self.path, OpenMode::Read)?;
        let expected = esker_sst::TableIdentity { uid: self.uid, keyspace: self.keyspace };
        let table = Table::open(file, self.file_bytes, expected, TableHome::new(&files.tables)?)?;
        Ok(self.table.get_or_init(|| Arc::new(table)))
    }

    /// The table if it has been opened already.
    pub(crate) fn opened(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// An error unless the file exists with its recorded length: what opening checks without reading it.
    pub(crate) fn check_presence(&self) -> Result<()> {
        match self.files.env.fs.file_len(&self.path)? {
            Some(len) if len == self.file_bytes => Ok(()),
            Some(len) => {
                let detail = format!("the manifest says {} bytes, the file has {len}", self.file_bytes);
                Err(Error::corruption(&self.path, None, detail))
            }
            None => Err(Error::corruption(
                &self.path,
                None,
                "the manifest names this table, but the file is missing",
            )),
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        // Before the file is handed over: closed, and its blocks no longer wanted.
        drop(self.table.take());
        let delete = self.obsolete.load(Ordering::Acquire);
        self.files.doomed.lock().push(Doomed { path: self.path.clone(), delete });
        self.files.scheduler.request(Lane::Log);
    }
}
