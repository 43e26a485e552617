//! Wrappers of files and file systems: a wrapper overrides some methods and forwards the rest.
//!
//! A wrapper names the wrapped object and overrides what it is for; forwarding is here, once. Reads that
//! could bypass a wrapper are not forwarded by default: reads by descriptor, by memory and of what is cached
//! are refused unless the wrapper allows them.
//!
//! Rejected: forwarding in [`File`] and [`FileSystem`] themselves, by a method that returns the wrapped
//! object. A real file that omits a method would then compile.

use crate::fs::{Descriptor, DirEntry, File, FileLock, FileSystem, LockKind, Mapping, OpenMode, ReadPattern};
use esker_base::Result;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A wrapper of a file. Implementing it implements [`File`].
///
/// # Examples
/// ```
/// use esker_env::{File, FileWrapper, FileSystem, OpenMode, StdFileSystem};
/// use std::sync::Arc;
///
/// /// Refuses to be written.
/// #[derive(Debug)]
/// struct ReadOnly(Arc<dyn File>);
///
/// impl FileWrapper for ReadOnly {
///     fn below(&self) -> &dyn File {
///         &*self.0
///     }
///
///     fn write_at(&self, _: &[u8], _: u64) -> esker_base::Result<()> {
///         Err(esker_base::Error::invalid("this file is not written"))
///     }
/// }
///
/// let path = std::env::temp_dir().join(format!("over-{}", std::process::id()));
/// let file: Arc<dyn File> = Arc::new(ReadOnly(StdFileSystem.open(&path, OpenMode::CreateOrTruncate)?));
/// assert!(file.write_at(b"four", 0).is_err());
/// assert_eq!(file.len()?, 0);
/// StdFileSystem.remove_file(&path)?;
/// # Ok::<(), esker_base::Error>(())
/// ```
pub trait FileWrapper: Send + Sync + Debug {
    /// The wrapped file.
    fn below(&self) -> &dyn File;

    /// [`File::read_at`]; [`File::read_exact_at`] is built on it.
    #[inline]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.below().read_at(buffer, offset)
    }

    /// [`File::read_cached_at`]: not forwarded by default, because such reads bypass the wrapper.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// [`File::write_at`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.below().write_at(bytes, offset)
    }

    /// [`File::set_len`].
    fn set_len(&self, len: u64) -> Result<()> {
        self.below().set_len(len)
    }

    /// [`File::allocate`].
    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        self.below().allocate(offset, len, keep_len)
    }

    /// [`File::sync_data`].
    fn sync_data(&self) -> Result<()> {
        self.below().sync_data()
    }

    /// [`File::sync_all`].
    fn sync_all(&self) -> Result<()> {
        self.below().sync_all()
    }

    /// [`File::map_writable`].
    fn map_writable(&self, len: usize) -> Result<Mapping> {
        self.below().map_writable(len)
    }

    /// [`File::descriptor`]: not forwarded by default, for the same reason.
    fn descriptor(&self) -> Option<Descriptor> {
        None
    }

    /// [`File::mapped`]: not forwarded by default, for the same reason.
    fn mapped(&self) -> Option<&[u8]> {
        None
    }

    /// [`File::will_need`].
    fn will_need(&self, offset: u64, len: u64) {
        self.below().will_need(offset, len);
    }

    /// [`File::expect_reads`].
    fn expect_reads(&self, pattern: ReadPattern) {
        self.below().expect_reads(pattern);
    }

    /// [`File::begin_write_back`].
    fn begin_write_back(&self, offset: u64, len: u64) {
        self.below().begin_write_back(offset, len);
    }
}

impl<F: FileWrapper> File for F {
    fn path(&self) -> &Path {
        self.below().path()
    }

    #[inline]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        FileWrapper::read_at(self, buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        FileWrapper::read_cached_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        FileWrapper::write_at(self, bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.below().len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        FileWrapper::set_len(self, len)
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        FileWrapper::allocate(self, offset, len, keep_len)
    }

    fn sync_data(&self) -> Result<()> {
        FileWrapper::sync_data(self)
    }

    fn sync_all(&self) -> Result<()> {
        FileWrapper::sync_all(self)
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        FileWrapper::map_writable(self, len)
    }

    fn descriptor(&self) -> Option<Descriptor> {
        FileWrapper::descriptor(self)
    }

    fn mapped(&self) -> Option<&[u8]> {
        FileWrapper::mapped(self)
    }

    fn will_need(&self, offset: u64, len: u64) {
        FileWrapper::will_need(self, offset, len);
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        FileWrapper::expect_reads(self, pattern);
    }

    fn begin_write_back(&self, offset: u64, len: u64) {
        FileWrapper::begin_write_back(self, offset, len);
    }
}

/// A wrapper of a file system. Implementing it implements [`FileSystem`]; a shared sync would bypass it, so
/// there is none.
pub trait FileSystemWrapper: Send + Sync + Debug {
    /// The wrapped file system.
    fn below(&self) -> &dyn FileSystem;

    /// [`FileSystem::open`].
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.below().open(path, mode)
    }

    /// [`FileSystem::rename`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.below().rename(from, to)
    }

    /// [`FileSystem::remove_file`].
    fn remove_file(&self, path: &Path) -> Result<()> {
        self.below().remove_file(path)
    }

    /// [`FileSystem::remove_dir_all`].
    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.below().remove_dir_all(path)
    }

    /// [`FileSystem::sync_dir`].
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.below().sync_dir(dir)
    }
}

impl<F: FileSystemWrapper> FileSystem for F {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        FileSystemWrapper::open(self, path, mode)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.below().absolute(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.below().create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.below().list(dir)
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        self.below().file_len(path)
    }

    fn disk_bytes(&self, path: &Path) -> Result<Option<u64>> {
        self.below().disk_bytes(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        FileSystemWrapper::rename(self, from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        FileSystemWrapper::remove_file(self, path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        FileSystemWrapper::remove_dir_all(self, path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.below().hard_link(from, to)
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        self.below().is_same_file(one, other)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        FileSystemWrapper::sync_dir(self, dir)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        self.below().lock(path, kind)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.below().free_bytes(dir)
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        self.below().can_map_writable(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.below().boot_id()
    }
}
