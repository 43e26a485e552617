//! Large values are stored outside the tables, in blob files (key-value separation).
//!
//! Log and memtable hold values whole. When a flush or a compaction writes a value of at least the keyspace's
//! threshold, it goes to a blob file and the table gets a pointer. From then on compactions
//! copy the pointer. Readers follow it ([`LargeMap`]); reads of keys alone never touch a blob file.
//!
//! # Invariants
//! * BF1. The live data of a blob file follows from the tables of a version: each records what it points to.
//!   No count is kept on disk, so none can be wrong after a crash.
//! * BF2. A blob file is in the manifest exactly as long as some table of the present version points to it:
//!   the edit that adds a table adds the files it points to, and the edit that removes the last such table
//!   removes the file. A file that no manifest names is an orphan, and deleted at the next open. So a crash
//!   neither loses a value nor leaks one.
//! * BF3. A blob file is durable, with its name, before an edit names it (IN1).
//! * BF4. A blob file is deleted after the edit that drops it is durable and after the last tree that refers
//!   to it is dropped (IN3): a reader's view keeps its tree, and the tree keeps its files.
//! * BF5. A value is verified before it is returned, and so is that it belongs to the requested key.
//!
//! # Garbage collection
//! Garbage is what nothing points to. When blob files exceed the keyspace's space target, a compaction merges
//! the tables that point to the files with the most garbage, and on the way copies the live values of those
//! files to new ones (`Relocation`, planned by `esker_strategy::plan_blob_gc`). The files are
//! dropped by BF2 with the edit of the last of these compactions. It is a compaction like any other:
//! snapshots keep what they see, closing cancels it, and a failed one has changed nothing.
//!
//! # Rejected
//! * A log of values that is also the write-ahead log: one copy less, but every value would have to be
//!   rewritten when the log is released, small ones too, and a torn batch would concern the values.
//! * Reference counts in the manifest: redundant to the tables, and wrong after the first mistake.
//! * Blob values in the block cache: its blocks are decoded forms that tables reach by slots. Values of
//!   several KiB are one positioned read from the page cache away, which usually costs less than processing
//!   them.
//!
//! # Files in use
//! Blob files in use: found by number, read by pointers, deleted when no tree refers to them any more.
//!
//! Trees of successive versions share a [`LargeFile`] for as long as they refer to its file (BF4). It is
//! opened at the first read; to bound descriptors, a limited number is open at a time, and the one that was
//! opened first is closed first. A reader in the middle of a read keeps its file open.

use crate::paths;
use crate::tree::TableFiles;
use crate::tree::unreadable::Refusal;
use esker_base::{Error, FileNumber, KeyspaceId, QuarantinedRange, ResidentOnly, Result};
use esker_blob::{BlobPointer, BlobReader, ExpectedBlob};
use esker_env::OpenMode;
use esker_iter::LargeValues;
use esker_sst::ObservedReads;
use esker_version::{BlobFileMeta, PartMeta, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The least limit of open blob files.
const MIN_OPEN_FILES: usize = 8;
/// One blob file may be open for so many tables. Half of the process's descriptors are for tables, a quarter
/// of that for their headroom: an eighth for blob files leaves a quarter.
const OPEN_TABLES_PER_FILE: usize = 4;

/// A blob file that some tree refers to.
#[derive(Debug)]
pub struct LargeFile {
    files: Arc<TableFiles>,
    meta: BlobFileMeta,
    keyspace: KeyspaceId,
    path: PathBuf,
    /// To be deleted once no tree refers to it.
    obsolete: AtomicBool,
    open: Mutex<Option<Arc<BlobReader>>>,
    /// Why the file is not opened, if it is quarantined: values in it are errors, keys are read (QU1).
    refusal: Refusal,
}

impl LargeFile {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the manifest says of it.
    pub fn meta(&self) -> &BlobFileMeta {
        &self.meta
    }

    /// The open file.
    pub fn reader(self: &Arc<Self>) -> Result<Arc<BlobReader>> {
        self.refusal.check()?;
        // Large values are not cached, so each use is a read of the file.
        ResidentOnly::check(&self.path)?;
        let mut open = self.open.lock();
        if let Some(reader) = &*open {
            return Ok(Arc::clone(reader));
        }
        let check =
            ExpectedBlob { file_bytes: self.meta.file_bytes, uid: self.meta.uid, keyspace: self.keyspace };
        let reader = Arc::new(BlobReader::open(self.files.env.fs.open(&self.path, OpenMode::Read)?, check)?);
        *open = Some(Arc::clone(&reader));
        drop(open);
        self.files.large.note_opening(self);
        Ok(reader)
    }

    /// Refuses to open the file from now on.
    pub fn refuse(&self, range: Arc<QuarantinedRange>) {
        self.refusal.set(range);
    }

    /// Forgets the file as it was: another one with the same identity is in its place.
    pub fn begin_anew(&self) {
        self.refusal.lift();
        self.close();
    }

    fn close(&self) {
        let open = self.open.lock().take();
        drop(open);
    }

    /// An error unless the file exists with its recorded length: the check at open, without reading it.
    pub fn check_presence(&self) -> Result<()> {
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
            self.files.note_unreferenced(std::mem::take(&mut self.path));
            self.files.request_cleanup();
        }
    }
}

/// All blob files in use.
#[derive(Debug)]
pub struct LargeFiles {
    known: Mutex<HashMap<FileNumber, Weak<LargeFile>, foldhash::fast::FixedState>>,
    /// In the order in which they were opened.
    open: Mutex<VecDeque<Weak<LargeFile>>>,
    max_open: usize,
}

impl LargeFiles {
    /// No files yet, with a limit derived from that of tables.
    pub fn beside(max_open_tables: usize) -> LargeFiles {
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

    /// Removes a file from the map that new trees use.
    fn forget(&self, number: FileNumber) -> Option<Arc<LargeFile>> {
        self.known.lock().remove(&number).and_then(|known| known.upgrade())
    }
}

impl TableFiles {
    /// A blob file, as trees refer to it.
    pub fn large_file(self: &Arc<Self>, keyspace: KeyspaceId, meta: &BlobFileMeta) -> Arc<LargeFile> {
        let mut known = self.large.known.lock();
        known.get(&meta.number).and_then(Weak::upgrade).unwrap_or_else(|| {
            let file = Arc::new(LargeFile {
                files: Arc::clone(self),
                meta: *meta,
                keyspace,
                path: paths::blob(&self.dir, meta.number),
                obsolete: AtomicBool::new(false),
                open: Mutex::default(),
                refusal: Refusal::default(),
            });
            known.insert(meta.number, Arc::downgrade(&file));
            file
        })
    }

    /// Marks a blob file for deletion once the last tree releases it. Only after the edit that removed it is
    /// durable (BF4).
    pub fn retire_large(&self, number: FileNumber) {
        match self.large.forget(number) {
            Some(file) => file.obsolete.store(true, Ordering::Release),
            None => self.note_unreferenced(paths::blob(&self.dir, number)),
        }
    }
}

/// The blob files of one tree.
#[derive(Debug, Default)]
pub struct LargeMap {
    files: HashMap<FileNumber, Arc<LargeFile>, foldhash::fast::FixedState>,
}

impl LargeMap {
    /// Those of these that some part points to. A job that keeps only these does not delay the deletion of
    /// files that other jobs rewrite.
    pub fn of_parts<'p>(&self, parts: impl Iterator<Item = &'p PartMeta>) -> LargeMap {
        let pointed_to = parts.flat_map(|part| part.blobs.iter());
        let named = pointed_to.filter_map(|blob| Some((blob.file, Arc::clone(self.files.get(&blob.file)?))));
        LargeMap { files: named.collect() }
    }

    /// The blob files of a version.
    pub fn new(keyspace: KeyspaceId, version: &Version, files: &Arc<TableFiles>) -> LargeMap {
        let named =
            |blob: &esker_version::LiveBlob| (blob.meta.number, files.large_file(keyspace, &blob.meta));
        LargeMap { files: version.blob_files().iter().map(named).collect() }
    }

    /// Whether the tree refers to no blob file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The blob files, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LargeFile>> {
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
        file.reader()?.read(key, &pointer, value)?;
        ObservedReads::note_large(value.len() as u64);
        Ok(())
    }
}

/// Decodes the pointer that an entry has in place of its value.
pub fn decode(key: &[u8], pointer: &[u8]) -> Result<BlobPointer> {
    BlobPointer::decode(pointer).ok_or_else(|| {
        let key = key.escape_ascii();
        // Checksums protect the bytes of a table, so this is a defect of the writer.
        Error::internal(format!("key {key} has a malformed pointer in place of its value"))
    })
}
