//! Directories held by their descriptors: the calls below one resolve from the open directory, not from its
//! path.
//!
//! A path means what the system finds under it at the moment of the call. After a rename of the directory, a
//! change of the working directory or a new mount it may lead to another directory, and a store that goes on
//! by path would write into and delete from that one. A descriptor keeps its directory through all of these.
//! Once the directory is removed every creation below it fails with "not found".
//!
//! Paths stay as they are in errors and in [`File::path`]; what lies outside of the held directories is
//! resolved as usual. A database holds its own directory; a copy of it holds the directory of its target,
//! too.
//!
//! Rejected: paths below `/proc/self/fd`, which need a mounted `/proc` and exist on Linux alone.

use super::file::StdFile;
use super::lock::{LockOpen, StdLock};
use super::{StdFileSystem, platform};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::fs::SharedSync;
use crate::fs::{DirEntry, File, FileLock, FileSystem, LockKind, OpenMode, parent_dir};
use esker_base::{Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Rights of created files and directories, which the process's mask restricts further: as `std::fs` has
/// them.
const FILE_RIGHTS: u32 = 0o666;
const DIRECTORY_RIGHTS: u32 = 0o777;

/// The machine's file system, with some directories held by their descriptors.
#[derive(Debug)]
pub(super) struct HeldDirectory {
    roots: Vec<Root>,
}

/// A held directory.
#[derive(Clone, Debug)]
struct Root {
    descriptor: Arc<OwnedFd>,
    /// The absolute path by which the directory was opened, and by which callers name what is in it.
    path: PathBuf,
}

impl Root {
    fn open(place: Place<'_>, path: &Path) -> Result<Root> {
        let descriptor = place.open_dir().map_err(|source| Error::io("open the directory", path, source))?;
        Ok(Root { descriptor: Arc::new(descriptor), path: path.to_path_buf() })
    }

    /// Where a call begins to resolve `path`, if it lies within this directory. A path that leaves the
    /// directory again by `..` is one outside of it.
    fn place<'a>(&'a self, path: &'a Path) -> Option<Place<'a>> {
        let rest = path.strip_prefix(&self.path).ok()?;
        let goes_up = rest.components().any(|part| !matches!(part, Component::Normal(_)));
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        (!goes_up).then(|| Place { from: self.descriptor.as_fd(), rest })
    }
}

/// Where a call resolves a path: the directory it starts from, and the rest.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    from: BorrowedFd<'a>,
    rest: &'a Path,
}

impl Place<'_> {
    fn open(self, flags: OFlags, rights: u32) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| rustix::fs::openat(self.from, self.rest, flags, Mode::from_raw_mode(rights)))?)
    }

    fn open_dir(self) -> io::Result<OwnedFd> {
        self.open(OFlags::RDONLY | OFlags::DIRECTORY, 0)
    }

    fn stat(self) -> io::Result<rustix::fs::Stat> {
        Ok(retry_on_intr(|| rustix::fs::statat(self.from, self.rest, AtFlags::empty()))?)
    }
}

impl HeldDirectory {
    /// Opens a directory; `path` is absolute.
    pub(super) fn open(path: &Path) -> Result<HeldDirectory> {
        Ok(HeldDirectory { roots: vec![Root::open(Place { from: CWD, rest: path }, path)?] })
    }

    /// Where a call begins to resolve `path`: the innermost held directory that it lies in.
    fn place<'a>(&'a self, path: &'a Path) -> Option<Place<'a>> {
        let placed = self.roots.iter().filter_map(|root| Some((root, root.place(path)?)));
        placed.max_by_key(|(root, _)| root.path.as_os_str().len()).map(|(_, place)| place)
    }

    /// As [`HeldDirectory::place`]; outside of the directories a call starts from the working directory.
    fn place_or_outside<'a>(&'a self, path: &'a Path) -> Place<'a> {
        self.place(path).unwrap_or(Place { from: CWD, rest: path })
    }
}

fn flags(mode: OpenMode) -> OFlags {
    match mode {
        OpenMode::Read | OpenMode::ReadDirect | OpenMode::ReadMapped => OFlags::RDONLY,
        OpenMode::ReadWrite => OFlags::RDWR,
        OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        OpenMode::CreateOrTruncate => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
    }
}

/// Removes a directory and what is in it. Symbolic links are removed, never followed: what they lead to may
/// lie outside.
fn remove_tree(from: BorrowedFd<'_>, name: impl Arg + Copy) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| rustix::fs::openat(from, name, flags, Mode::empty()))?;
    // All names first: what a directory lists while it shrinks is not defined.
    let entries: Vec<_> = Dir::read_from(&opened)?.collect::<rustix::io::Result<_>>()?;
    for entry in entries {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match retry_on_intr(|| rustix::fs::unlinkat(&opened, name, AtFlags::empty())) {
            // Linux says the first of a directory, POSIX the second.
            Err(Errno::ISDIR | Errno::PERM) => remove_tree(opened.as_fd(), name)?,
            removed => removed?,
        }
    }
    retry_on_intr(|| rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR))
}

impl FileSystem for HeldDirectory {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        StdFileSystem.absolute(path)
    }

    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn FileSystem>>> {
        let mut roots = self.roots.clone();
        roots.push(Root::open(self.place_or_outside(dir), dir)?);
        Ok(Some(Arc::new(HeldDirectory { roots })))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let Some(place) = self.place(path) else { return StdFileSystem.open(path, mode) };
        if mode == OpenMode::ReadDirect
            && let Some(file) = platform::open_direct_at(place.from, place.rest)
        {
            return Ok(Arc::new(StdFile::new(file, path, true)));
        }
        let operation = match mode {
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => "create",
            _ => "open",
        };
        let file =
            place.open(flags(mode), FILE_RIGHTS).map_err(|source| Error::io(operation, path, source))?;
        Ok(Arc::new(match mode {
            OpenMode::ReadMapped => StdFile::mapped(file.into(), path),
            _ => StdFile::new(file.into(), path, false),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let Some(place) = self.place(path) else { return StdFileSystem.create_dir_all(path) };
        let mut made = PathBuf::new();
        for part in place.rest {
            made.push(part);
            let rights = Mode::from_raw_mode(DIRECTORY_RIGHTS);
            match retry_on_intr(|| rustix::fs::mkdirat(place.from, &made, rights)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::io("create the directory", path, error.into())),
            }
        }
        // A file of that name is no directory.
        place.open_dir().map(drop).map_err(|source| Error::io("create the directory", path, source))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let Some(place) = self.place(dir) else { return StdFileSystem.list(dir) };
        let failed = |source: io::Error| Error::io("list", dir, source);
        let opened = place.open_dir().map_err(failed)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened).map_err(|error| failed(error.into()))? {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Follows a symbolic link, so that it counts as what it points to.
            let stat = match retry_on_intr(|| rustix::fs::statat(&opened, name, AtFlags::empty())) {
                Ok(stat) => stat,
                // Removed since the directory was read, or a dangling link: skipped.
                Err(Errno::NOENT) => continue,
                Err(error) => {
                    let path = dir.join(name.to_string_lossy().as_ref());
                    return Err(Error::io("inspect", path, error.into()));
                }
            };
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let len = if is_dir { 0 } else { stat.st_size.unsigned_abs() };
            entries.push(DirEntry { name: name.to_string_lossy().into_owned(), len, is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        let Some(place) = self.place(path) else { return StdFileSystem.file_len(path) };
        match place.stat() {
            Ok(stat) => {
                let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                Ok((!is_dir).then_some(stat.st_size.unsigned_abs()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("inspect", path, error)),
        }
    }

    fn disk_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let Some(place) = self.place(path) else { return StdFileSystem.disk_bytes(path) };
        match place.stat() {
            Ok(stat) => Ok(Some(platform::STAT_BLOCK_BYTES * stat.st_blocks.unsigned_abs())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("inspect", path, error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (one, other) = (self.place_or_outside(from), self.place_or_outside(to));
        retry_on_intr(|| rustix::fs::renameat(one.from, one.rest, other.from, other.rest))
            .map_err(|error| Error::io("rename", from, error.into()))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let place = self.place_or_outside(path);
        retry_on_intr(|| rustix::fs::unlinkat(place.from, place.rest, AtFlags::empty()))
            .map_err(|error| Error::io("remove", path, error.into()))
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        let Some(place) = self.place(path) else { return StdFileSystem.remove_dir_all(path) };
        remove_tree(place.from, place.rest)
            .map_err(|error| Error::io("remove the directory", path, error.into()))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let (one, other) = (self.place_or_outside(from), self.place_or_outside(to));
        let follow = AtFlags::SYMLINK_FOLLOW;
        retry_on_intr(|| rustix::fs::linkat(one.from, one.rest, other.from, other.rest, follow))
            .map_err(|error| Error::io("link", from, error.into()))
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        let identity = |path: &Path| {
            let stat = self.place_or_outside(path).stat();
            stat.map(|stat| (stat.st_dev, stat.st_ino)).map_err(|source| Error::io("look at", path, source))
        };
        Ok(identity(one)? == identity(other)?)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let Some(place) = self.place(dir) else { return StdFileSystem.sync_dir(dir) };
        let synced = place.open_dir().and_then(|opened| platform::sync_opened_dir(&opened.into()));
        synced.map_err(|source| Error::io("sync the directory", dir, source))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn begin_shared_sync(&self, dir: &Path) -> Result<Option<Box<dyn SharedSync>>> {
        let Some(place) = self.place(dir) else { return StdFileSystem.begin_shared_sync(dir) };
        let opened = place.open_dir().map_err(|source| Error::io("open the directory", dir, source))?;
        Ok(super::shared_sync::begin(opened, dir))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        let parent = parent_dir(path);
        let (Some(place), Some(parent)) = (self.place(path), self.place(&parent)) else {
            return StdFileSystem.lock(path, kind);
        };
        let identity = || {
            let stat = parent.stat()?;
            Ok(((stat.st_dev, stat.st_ino), path.file_name().unwrap_or_default().to_owned()))
        };
        let lock = StdLock::acquire_by(path, kind, identity, |how| {
            let flags = match how {
                LockOpen::Read => OFlags::RDONLY,
                LockOpen::Create => OFlags::RDWR | OFlags::CREATE,
            };
            place.open(flags, FILE_RIGHTS).map(std::fs::File::from)
        });
        Ok(Box::new(lock?))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let Some(place) = self.place(dir) else { return StdFileSystem.free_bytes(dir) };
        let stat = place.open_dir().and_then(|opened| Ok(rustix::fs::fstatvfs(&opened)?));
        let stat = stat.map_err(|source| Error::io("inspect the file system of", dir, source))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        match self.place(dir) {
            Some(place) => place.open_dir().is_ok_and(|opened| platform::keeps_extents_at(&opened)),
            None => StdFileSystem.can_map_writable(dir),
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        StdFileSystem.boot_id()
    }
}
