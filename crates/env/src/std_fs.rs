//! The machine's file system.
//!
//! A thin layer: it retries interrupted calls, continues short transfers, turns errors into sentences, and
//! hides differences of platforms (`platform`). Three modules do more: locks, which must also hold within one
//! process (`lock`), shared writable maps (`mapping`), and directories that are held by descriptor
//! (`held_dir`).
//!
//! Durability is the platform's best: `fdatasync` on Linux, `F_FULLFSYNC` on Apple systems, where a plain
//! `fsync` leaves the data in the drive's cache, `FlushFileBuffers` on Windows.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the banned functions of std::fs are banned in favour of this module"
)]

mod file;
#[cfg(unix)]
mod held_dir;
mod lock;
mod mapping;
mod platform;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod shared_sync;
mod write_back;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::fs::SharedSync;
use crate::fs::{DirEntry, File, FileLock, FileSystem, LockKind, OpenMode};
use esker_base::{Error, Result};
use file::StdFile;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdFileSystem;

impl FileSystem for StdFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read | OpenMode::ReadMapped => {}
            OpenMode::ReadDirect => {
                // A refusal of direct access falls back; any other failure recurs in the plain open below.
                if let Some(file) = platform::open_direct(path) {
                    return Ok(Arc::new(StdFile::new(file, path, true)));
                }
            }
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
            OpenMode::CreateOrTruncate => {
                options.write(true).create(true).truncate(true);
            }
        }
        let operation = match mode {
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => "create",
            _ => "open",
        };
        let file = options.open(path).map_err(|source| Error::io(operation, path, source))?;
        Ok(Arc::new(match mode {
            OpenMode::ReadMapped => StdFile::mapped(file, path),
            _ => StdFile::new(file, path, false),
        }))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|source| Error::io("make absolute the path", path, source))
    }

    #[cfg(unix)]
    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn FileSystem>>> {
        crate::fork::check_may_open()?;
        Ok(Some(Arc::new(held_dir::HeldDirectory::open(dir)?)))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).map_err(|source| Error::io("create the directory", path, source))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let failed = |source| Error::io("list", dir, source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Through the path, so that a symbolic link counts as what it points to.
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                // Removed since the directory was read, or a dangling link: skipped.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("inspect", entry.path(), error)),
            };
            let is_dir = metadata.is_dir();
            // Names that are not UTF-8 are not Esker's; they are listed, but cannot be opened by this text.
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, len: if is_dir { 0 } else { metadata.len() }, is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok((!metadata.is_dir()).then_some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("inspect", path, error)),
        }
    }

    fn disk_bytes(&self, path: &Path) -> Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(platform::disk_bytes(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("inspect", path, error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|source| Error::io("rename", from, source))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|source| Error::io("remove", path, source))
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        fs::remove_dir_all(path).map_err(|source| Error::io("remove the directory", path, source))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        platform::hard_link(from, to).map_err(|source| Error::io("link", from, source))
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        platform::is_same_file(one, other).map_err(|source| Error::io("look at", one, source))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        platform::sync_dir(dir).map_err(|source| Error::io("sync the directory", dir, source))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn begin_shared_sync(&self, dir: &Path) -> Result<Option<Box<dyn SharedSync>>> {
        let opened = fs::File::open(dir).map_err(|source| Error::io("open the directory", dir, source))?;
        Ok(shared_sync::begin(opened.into(), dir))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::StdLock::acquire(path, kind)?))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        platform::free_bytes(dir).map_err(|source| Error::io("inspect the file system of", dir, source))
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        platform::keeps_extents(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        platform::boot_id()
    }
}

#[cfg(test)]
mod tests;
