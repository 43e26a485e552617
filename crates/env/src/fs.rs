//! File system interface: the operations that the engine needs.
//!
//! Errors are [`esker_base::Error`] and name the operation and the path. Every implementation retries
//! interrupted calls and continues short ones; a caller sees all of a transfer or an error.

use esker_base::{Error, Result};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// Offsets, lengths and buffers of direct reads are multiples of this: the block size of every device in use.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// How [`FileSystem::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading past the page cache. Offsets, lengths and buffers must be multiples of
    /// [`DIRECT_ALIGNMENT_BYTES`]; falls back to [`OpenMode::Read`] where the file system has no direct
    /// access.
    ReadDirect,
    /// An existing file that is not changed while it is open, for reading as memory ([`File::mapped`]). A
    /// device error, or a truncation by another process, then kills the process by a signal: there is no
    /// error value for a load from memory. Falls back to [`OpenMode::Read`] where files cannot be mapped.
    ReadMapped,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; an error if it exists.
    CreateNew,
    /// A file for reading and writing, created if missing and emptied if present.
    CreateOrTruncate,
}

/// What the reads of a file are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPattern {
    /// Here and there: whatever lies behind a read is not worth reading with it.
    Scattered,
    /// Some are consecutive, so the system may read ahead where it sees it.
    Consecutive,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without the directory.
    pub name: String,
    /// Length in bytes; 0 for directories.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Which other holders a lock allows at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// None.
    Exclusive,
    /// Other shared holders.
    Shared,
}

/// Makes several files of one directory durable by one call. A sync of a file waits for the device; a
/// thousand small files synced one by one take a thousand times as long as together.
pub trait SharedSync: Send + Sync + Debug {
    /// Makes data and metadata of these files durable. They were written since
    /// [`FileSystem::begin_shared_sync`], and may be closed.
    ///
    /// # Errors
    /// If any of them, or an unrelated file that was written since, may not be durable.
    fn sync(&self, files: &[PathBuf]) -> Result<()>;
}

/// A held lock; dropping it releases it.
pub trait FileLock: Send + Sync + Debug {}

/// A file system.
pub trait FileSystem: Send + Sync + Debug {
    /// Opens a file. A missing file is an error for which [`esker_base::Error::is_not_found`] holds.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// The path without the working directory: what it means stays the same when that changes. The directory
    /// need not exist. A file system without a working directory returns the path itself.
    ///
    /// # Errors
    /// `InvalidArgument` or `Io` for an empty path, or if the working directory is gone.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// A file system that keeps to the directory which the absolute path `dir` names now, whatever that path
    /// means later; it is told the same paths. It goes on to hold what this one holds. `None` where paths
    /// cannot come to mean something else, or the platform has no such calls.
    fn hold_dir(&self, _dir: &Path) -> Result<Option<Arc<dyn FileSystem>>> {
        Ok(None)
    }

    /// Creates a directory and its missing parents; no error if it exists.
    fn create_dir_all(&self, path: &Path) -> Result<()>;

    /// Everything in a directory, sorted by name.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;

    /// Length of a file, `None` if there is none.
    fn file_len(&self, path: &Path) -> Result<Option<u64>>;

    /// What a file takes on the disk, space that was allocated ahead included; `None` if there is none. A
    /// file system that does not tell it rounds the length up to whole blocks, and may know nothing of
    /// directories.
    ///
    /// # Errors
    /// Those of inspecting the file.
    fn disk_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let len = self.file_len(path)?;
        Ok(len.map(|len| len.next_multiple_of(DIRECT_ALIGNMENT_BYTES as u64)))
    }

    /// Renames a file, replacing the target. Durable only after [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Durable only after [`FileSystem::sync_dir`].
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes a directory and everything in it.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;

    /// Creates a second name for a file. Durable only after [`FileSystem::sync_dir`].
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Whether two names refer to one file.
    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool>;

    /// Makes the names in a directory durable: creations, renames and removals.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Prepares to make new files of the directory `dir` durable by one call; see [`SharedSync`]. Called
    /// before the first of them is written. `None` where each file must be synced by itself.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    fn begin_shared_sync(&self, _dir: &Path) -> Result<Option<Box<dyn SharedSync>>> {
        Ok(None)
    }

    /// Locks a file, created if missing, against other processes and other opens of this process.
    ///
    /// An exclusive holder leaves its process id in the file, so that [`esker_base::Error::Locked`] can name
    /// it. It may remove the file while it holds the lock: a lock of a removed file is never given.
    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>>;

    /// Bytes that can still be written to the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;

    /// Whether allocated files in `dir` may be mapped for writing: on ext4, xfs, tmpfs, which keep extents.
    fn can_map_writable(&self, dir: &Path) -> bool;

    /// Identifies the current boot of the machine; all zero if unknown. Two equal values mean that no power
    /// was lost in between, so that everything stored in the page cache is still there.
    fn boot_id(&self) -> [u8; 16];
}

/// An open file.
pub trait File: Send + Sync + Debug {
    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buffer` from `offset`; a file that ends earlier is reported as damage with its offset.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buffer, offset)?;
        if read == buffer.len() {
            return Ok(());
        }
        let detail = format!("{} bytes expected, the file ends after {read}", buffer.len());
        Err(Error::corruption(self.path(), offset, detail))
    }

    /// As [`File::read_exact_at`], if the system has all of these bytes in its page cache, so that nothing
    /// waits for a device. `false` if it has not, or cannot tell, or if the read fails: then the contents of
    /// `buffer` are undefined, and the device may have been asked for what is missing.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Changes the length. Blocks allocated behind it are freed, also if the length stays the same.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Allocates real extents for a range, so that writing there cannot run out of space. The length grows to
    /// cover the range unless `keep_len`. `false` if the file system cannot allocate ahead.
    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool>;

    /// Makes the data, and the length if it grew, durable.
    fn sync_data(&self) -> Result<()>;

    /// Makes data and all metadata durable.
    fn sync_all(&self) -> Result<()>;

    /// Maps the first `len` bytes for writing. They must be allocated: a store to a hole can be fatal.
    fn map_writable(&self, len: usize) -> Result<Mapping>;

    /// The kernel's descriptor, for direct submission. `None` if reads must go through [`File::read_at`].
    fn descriptor(&self) -> Option<Descriptor> {
        None
    }

    /// The whole file as memory, if it was opened with [`OpenMode::ReadMapped`] and could be mapped.
    fn mapped(&self) -> Option<&[u8]> {
        None
    }

    /// Tells the kernel that a range will be read soon. Only a hint; errors are ignored.
    fn will_need(&self, offset: u64, len: u64);

    /// Tells the kernel what reads by this open file are like from now on. Only a hint; until it is given,
    /// reads are [`ReadPattern::Consecutive`].
    fn expect_reads(&self, _pattern: ReadPattern) {}

    /// Tells the kernel that a range will not be written again before the next sync, so that write-back may
    /// begin now, in parallel to the caller. Only a hint: nothing is durable before the sync, which also
    /// reports the errors.
    fn begin_write_back(&self, _offset: u64, _len: u64) {}
}

/// The kernel's descriptor of an open file. Valid as long as the [`File`] it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The number.
    pub fd: i32,
    /// Whether reads go past the page cache and must be aligned.
    pub is_direct: bool,
}

/// Notified of every store into a [`Mapping`]: a test file system's view of the page cache.
pub trait StoreObserver: Send + Sync + Debug {
    /// `bytes` were stored at `offset`.
    fn stored(&self, offset: usize, bytes: &[u8]);
}

/// Keeps the memory of a [`Mapping`] alive and unmaps it on drop.
pub trait MappingOwner: Send + Sync + Debug {
    /// Makes every page of the map writable now, if that can be done without storing anything.
    fn populate(&self) {}
}

/// The first bytes of a file, mapped: stores survive a process crash, and are synced with the file.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    observer: Option<Arc<dyn StoreObserver>>,
    owner: Box<dyn MappingOwner>,
}

// SAFETY: the memory is plain bytes, valid from every thread until the owner is dropped with the mapping;
// writes need `&mut self`, so two threads never store through one mapping at the same time.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing can be read or written through `&Mapping`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Prefetches the first cache lines at `offset` for writing; a hint, also beyond the end.
    #[inline(always)]
    pub fn prefetch_to_write(&self, offset: usize) {
        crate::memory::prefetch_start_to_write(self.base.as_ptr().wrapping_add(offset));
    }

    /// Wraps mapped memory.
    ///
    /// # Safety
    /// `base..base+len` must be writable memory that nothing else in the process refers to, until `owner` is
    /// dropped.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        owner: Box<dyn MappingOwner>,
        observer: Option<Arc<dyn StoreObserver>>,
    ) -> Mapping {
        Mapping { base, len, observer, owner }
    }

    /// Bytes mapped.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the page faults of later stores now. They cost 1.3 us a page, and up to five times that beside
    /// other work; a background job that prepares a map spares them to the writers. It makes all pages dirty,
    /// so the next sync of the file writes all of it. Only a hint: where it is not supported the faults occur
    /// later.
    pub fn populate(&self) {
        self.owner.populate();
    }

    /// Stores `bytes` at `offset`.
    ///
    /// # Panics
    /// If the range does not lie within the mapping.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "store outside of the mapping");
        // SAFETY: the range was just checked; `bytes` cannot overlap it, because nothing else refers to the
        // mapped memory.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len());
        }
        if let Some(observer) = &self.observer {
            observer.stored(offset, bytes);
        }
    }
}

/// Rejects a misaligned direct read with its numbers; the kernel reports only "invalid argument".
pub(crate) fn check_direct_alignment(path: &Path, buffer: &[u8], offset: u64) -> Result<()> {
    let alignment = DIRECT_ALIGNMENT_BYTES as u64;
    let (address, len) = (buffer.as_ptr().addr(), buffer.len());
    // The lowest bits of all three at once: the alignment is a power of two.
    if (address as u64 | len as u64 | offset).is_multiple_of(alignment) {
        return Ok(());
    }
    let path = path.display();
    Err(Error::invalid(format!(
        "direct read of {len} bytes at {offset} of {path} into address {address:#x}: \
         all three must be multiples of {alignment}"
    )))
}

/// The parent directory of a path; "." for a bare name.
pub fn parent_dir(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
