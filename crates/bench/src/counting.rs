//! A file system that counts what is written to the files of the tree: tables, blob files and manifests. Log segments are not
//! counted; they are written through maps, and their amplification is one.

use esker::Result;
use esker::parts::env::{DirEntry, File, FileLock, FileSystem, LockKind, Mapping, OpenMode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Passes everything on, and counts.
#[derive(Clone, Debug)]
pub(crate) struct CountingFs {
    inner: Arc<dyn FileSystem>,
    written_bytes: Arc<AtomicU64>,
}

impl CountingFs {
    pub(crate) fn new(inner: Arc<dyn FileSystem>) -> CountingFs {
        CountingFs { inner, written_bytes: Arc::default() }
    }

    /// Bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }
}

impl FileSystem for CountingFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        if path.extension().is_some_and(|extension| extension == "seg") {
            return Ok(file);
        }
        Ok(Arc::new(CountingFile { file, written_bytes: Arc::clone(&self.written_bytes) }))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        self.inner.file_len(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.remove_dir_all(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.hard_link(from, to)
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.is_same_file(one, other)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path, kind)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        self.inner.can_map_writable(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn File>,
    written_bytes: Arc<AtomicU64>,
}

impl File for CountingFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        self.file.allocate(offset, len, keep_len)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all()
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        self.file.map_writable(len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.file.will_need(offset, len);
    }
}
