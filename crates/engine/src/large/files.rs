//! Blob files in use: found by number, read by pointers, deleted when no tree names them any more.
//!
//! Trees of successive versions share a [`LargeFile`] for as long as they name its file (BF4). It is opened
//! at the first read; so that descriptors stay bounded, only so many are open at a time, and the one that was
//! opened first is closed first. A reader in the middle of a read keeps what it reads open.

use crate::paths;
use crate::tree::TableFiles;
use esker_base::{Error, FileNumber, KeyspaceId, Result};
use esker_blob::{BlobCheck, BlobPointer, BlobReader};
use esker_env::OpenMode;
use esker_iter::LargeValues;
use esker_version::{BlobFileMeta, PartMeta, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Fewest blob files that may be open at a time.
const MIN_OPEN_FILES: usize = 8;
/// Of the tables that may be open, this share of blob files may be open beside them. Half of the process's
/// descriptors are for tables, a quarter of that for their headroom: an eighth for blob files leaves a
/// quarter.
const OPEN_TABLES_PER_FILE: usize = 4;

/// A blob file that some tree names.
#[derive(Debug)]
pub(crate) struct LargeFile {
    files: Arc<TableFiles>,
    meta: BlobFileMeta,
    keyspace: KeyspaceId,
    path: PathBuf,
    /// To be deleted once no tree names it.
    obsolete: AtomicBool,
    open: Mutex<Option<Arc<BlobReader>>>,
}

impl LargeFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn meta(&self) -> &BlobFileMeta {
        &self.meta
    }

    /// The open file.
    pub(crate) fn reader(self: &Arc<Self>) -> Result<Arc<BlobReader>> {
        let mut open = self.open.lock();
        if let Some(reader) = &*open {
            return Ok(Arc::clone(reader));
        }
        let check =
            BlobCheck { file_bytes: self.meta.file_bytes, uid: self.meta.uid, keyspace: self.keyspace };
        let reader = Arc::new(BlobReader::open(self.files.env.fs.open(&self.path, OpenMode::Read)?, check)?);
        *open = Some(Arc::clone(&reader));
        drop(open);
        self.files.large.note_opening(self);
        Ok(reader)
    }

    fn close(&self) {
        let open = self.open.lock().take();
        drop(open);
    }

    /// An error unless the file exists with its recorded length: what opening a database checks without
    /// reading it.
    pub(crate) fn check_presence(&self) -> Result<()> {
        let detail = match self.files.env.fs.file_len(&self.path)? {
            Some(len) if len == self.meta.file_bytes => return Ok(()),
            Some(len) => format!("the manifest says {} bytes, the file has {len}", self.meta.file_bytes),
            None => "the manifest names this blob file, but the file is missing".to_owned(),
        };
        Err(Error::corruption(&self.path, None, detail))
    }
}

impl Drop for LargeFile {
    fn drop(&mut self) {
        self.close();
        if self.obsolete.load(Ordering::Acquire) {
            self.files.doom(std::mem::take(&mut self.path));
            self.files.request_cleanup();
        }
    }
}

/// All blob files in use.
#[derive(Debug)]
pub(crate) struct LargeFiles {
    known: Mutex<HashMap<FileNumber, Weak<LargeFile>, foldhash::fast::FixedState>>,
    /// In the order in which they were opened.
    open: Mutex<VecDeque<Weak<LargeFile>>>,
    max_open: usize,
}

impl LargeFiles {
    /// None yet, beside so many tables.
    pub(crate) fn beside(max_open_tables: usize) -> LargeFiles {
        let max_open = (max_open_tables / OPEN_TABLES_PER_FILE).max(MIN_OPEN_FILES);
        LargeFiles { known: Mutex::default(), open: Mutex::default(), max_open }
    }

    fn note_opening(&self, file: &Arc<LargeFile>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(file));
        let first = if open.len() > self.max_open { open.pop_front() } else { None };
        drop(open);
        if let Some(first) = first.and_then(|first| first.upgrade()) {
            first.close();
        }
    }

    /// Takes a file out of those that trees to come can find.
    fn forget(&self, number: FileNumber) -> Option<Arc<LargeFile>> {
        self.known.lock().remove(&number).and_then(|known| known.upgrade())
    }
}

impl TableFiles {
    /// A blob file, as trees refer to it.
    pub(crate) fn large_file(self: &Arc<Self>, keyspace: KeyspaceId, meta: &BlobFileMeta) -> Arc<LargeFile> {
        let mut known = self.large.known.lock();
        known.get(&meta.number).and_then(Weak::upgrade).unwrap_or_else(|| {
            let file = Arc::new(LargeFile {
                files: Arc::clone(self),
                meta: *meta,
                keyspace,
                path: paths::blob(&self.dir, meta.number),
                obsolete: AtomicBool::new(false),
                open: Mutex::default(),
            });
            known.insert(meta.number, Arc::downgrade(&file));
            file
        })
    }

    /// Marks a blob file for deletion once the last tree lets go of it. Only after the edit that removed it
    /// is durable (BF4).
    pub(crate) fn retire_large(&self, number: FileNumber) {
        match self.large.forget(number) {
            Some(file) => file.obsolete.store(true, Ordering::Release),
            None => self.doom(paths::blob(&self.dir, number)),
        }
    }
}

/// The blob files of one tree.
#[derive(Debug, Default)]
pub(crate) struct LargeMap {
    files: HashMap<FileNumber, Arc<LargeFile>, foldhash::fast::FixedState>,
}

impl LargeMap {
    /// Those of these that some part points to. A job that has no more than these keeps no blob file that
    /// others empty while it runs.
    pub(crate) fn of_parts<'p>(&self, parts: impl Iterator<Item = &'p PartMeta>) -> LargeMap {
        let pointed_to = parts.flat_map(|part| part.blobs.iter());
        let named = pointed_to.filter_map(|blob| Some((blob.file, Arc::clone(self.files.get(&blob.file)?))));
        LargeMap { files: named.collect() }
    }

    /// Those of a version.
    pub(crate) fn new(keyspace: KeyspaceId, version: &Version, files: &Arc<TableFiles>) -> LargeMap {
        let named =
            |blob: &esker_version::LiveBlob| (blob.meta.number, files.large_file(keyspace, &blob.meta));
        LargeMap { files: version.blob_files().iter().map(named).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<LargeFile>> {
        self.files.values()
    }
}

impl LargeValues for LargeMap {
    fn fetch(&self, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let pointer = decode(key, pointer)?;
        let file = self.files.get(&pointer.file).ok_or_else(|| {
            let (key, number) = (key.escape_ascii(), pointer.file);
            Error::internal(format!("key {key} points to blob file {number}, which its tree does not have"))
        })?;
        file.reader()?.read(key, &pointer, value)
    }
}

/// The pointer that an entry has in place of its value.
pub(crate) fn decode(key: &[u8], pointer: &[u8]) -> Result<BlobPointer> {
    BlobPointer::decode(pointer).ok_or_else(|| {
        let key = key.escape_ascii();
        // Checksums guard the bytes of a table, so no writer of ours left them.
        Error::internal(format!("key {key} has a malformed pointer in place of its value"))
    })
}
