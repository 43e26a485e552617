//! File locks that hold against other processes and within one process.
//!
//! The operating system's lock (`flock` on Unix) ends with the process, however it dies, which a lock file
//! with a process id alone cannot do. It belongs to an open file, so on most file systems it also holds
//! against a second open of the same process; but on NFS it is emulated by locks that belong to the
//! *process*: there a second open would succeed, and worse, closing that second open would drop the first
//! one's lock. Hence a registry in the process, checked before the file is opened.
//!
//! A holder may remove the lock file before it releases the lock. A process that opened the file before then
//! locks a file without a name, which excludes no other process; so a lock counts only if its file still has
//! a name, and is taken anew otherwise.

use super::platform::{self, DirectoryIdentity};
use crate::fork::{self, InUse, ProcessMark};
use crate::fs::{FileLock, LockKind};
use esker_base::planted;
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The most digits of a process id that are read from a lock file.
const OWNER_BYTES: usize = 20;

#[derive(Debug)]
pub(super) struct StdLock {
    // Order matters: the system's lock is released, at the latest by closing the file, before the claim ends.
    file: File,
    kind: LockKind,
    process: ProcessMark,
    _claim: LockClaim,
}

impl FileLock for StdLock {}

/// One value for a lock file, whichever path leads to it: the directory that it is in, and its name. Not the
/// file itself, which may not exist yet.
pub(super) type LockIdentity = (DirectoryIdentity, OsString);

/// How a lock file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockOpen {
    /// For reading, if it exists.
    Read,
    /// For reading and writing; created if missing.
    Create,
}

impl StdLock {
    pub(super) fn acquire(path: &Path, kind: LockKind) -> Result<StdLock> {
        let identity = || {
            let directory = platform::directory_identity(&crate::fs::parent_dir(path))?;
            Ok((directory, path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned()))
        };
        Self::acquire_by(path, kind, identity, |how| match how {
            LockOpen::Read => OpenOptions::new().read(true).open(path),
            LockOpen::Create => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
            }
        })
    }

    /// Locks the file that `open` opens; `path` is for errors.
    pub(super) fn acquire_by(
        path: &Path,
        kind: LockKind,
        identity: impl FnOnce() -> io::Result<LockIdentity>,
        open_by: impl Fn(LockOpen) -> io::Result<File>,
    ) -> Result<StdLock> {
        fork::check_may_open()?;
        let failed = |source| Error::io("lock", path, source);
        let claim = LockClaim::make(identity().map_err(failed)?, kind).ok_or_else(|| Error::Locked {
            path: path.to_path_buf(),
            owner: format!("this process ({})", std::process::id()).into(),
        })?;
        let file = loop {
            let file = open(kind, &open_by).map_err(failed)?;
            let taken = match kind {
                LockKind::Exclusive => file.try_lock(),
                LockKind::Shared => file.try_lock_shared(),
            };
            match taken {
                Ok(()) if platform::is_removed(&file) => {}
                Ok(()) => break file,
                Err(TryLockError::WouldBlock) if planted!(LockIsIgnored) => break file,
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Locked { path: path.to_path_buf(), owner: owner(&file).into() });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        };
        if kind == LockKind::Exclusive {
            // Informational for the next process: on a full disk the database must still open.
            let _ = write_owner(&file);
        }
        Ok(StdLock { file, kind, process: ProcessMark::here(), _claim: claim })
    }
}

impl Drop for StdLock {
    fn drop(&mut self) {
        if self.process.is_inherited() {
            // The lock belongs to the parent; unlocking this copy would release it. Closing it does not.
            return;
        }
        if self.kind == LockKind::Exclusive {
            // So that later shared holders are not taken for this process; `owner` handles a killed one's id.
            let _ = self.file.set_len(0);
        }
        // Closing would suffice if this were the only descriptor of the open file. But while another thread
        // starts a process, that process has copies of all descriptors until its program begins, and would
        // hold the lock as long.
        let _ = self.file.unlock();
    }
}

fn open(kind: LockKind, open_by: &impl Fn(LockOpen) -> io::Result<File>) -> io::Result<File> {
    if kind == LockKind::Shared {
        // Shared locks are for readers, which may lack the right to write here.
        match open_by(LockOpen::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
    open_by(LockOpen::Create)
}

fn write_owner(file: &File) -> io::Result<()> {
    let text = format!("{}\n", std::process::id());
    platform::write_at(file, text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// The holder of an unavailable lock, as far as the file names it.
fn owner(file: &File) -> String {
    let mut buffer = [0; OWNER_BYTES];
    let read = platform::read_at(file, &mut buffer, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&buffer[..read]);
    match text.trim().parse::<u32>() {
        // An id that a killed process left behind says nothing about the present holder.
        Ok(process) if platform::is_running(process) => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}

/// Locks that this process holds or is about to take; the number counts shared holders.
static CLAIMS: Mutex<BTreeMap<LockIdentity, (LockKind, usize, ProcessMark)>> = Mutex::new(BTreeMap::new());

/// An entry in [`CLAIMS`], removed on drop.
#[derive(Debug)]
struct LockClaim {
    identity: LockIdentity,
    _in_use: InUse,
}

impl LockClaim {
    /// `None` if another holder in this process excludes it.
    fn make(identity: LockIdentity, kind: LockKind) -> Option<LockClaim> {
        // Counted before the lock is taken: a child that is forked meanwhile must know of it.
        let in_use = InUse::count();
        let mut claims = CLAIMS.lock();
        // A claim of the parent is none of a child; the system's lock still holds against it.
        let here = ProcessMark::here();
        match claims.get_mut(&identity).filter(|(_, _, process)| *process == here) {
            None => {
                claims.insert(identity.clone(), (kind, 1, here));
            }
            Some((LockKind::Shared, holders, _)) if kind == LockKind::Shared => *holders += 1,
            Some(_) => return None,
        }
        Some(LockClaim { identity, _in_use: in_use })
    }
}

impl Drop for LockClaim {
    fn drop(&mut self) {
        if fork::was_forked_in_use() {
            // Another thread may have held the lock at the fork, and such a process makes no claims.
            return;
        }
        let mut claims = CLAIMS.lock();
        if let Some((_, holders, _)) = claims.get_mut(&self.identity) {
            *holders -= 1;
            if *holders == 0 {
                claims.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that opened the lock file just before its holder removed it.
    #[test]
    #[cfg(unix)]
    fn a_lock_of_a_removed_file_does_not_count() {
        let path = std::env::temp_dir().join(format!("esker-removed-lock-{}", std::process::id()));
        let stale = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        let handed = std::cell::Cell::new(Some(stale));
        let open_by = |_| match handed.take() {
            Some(stale) => std::fs::remove_file(&path).map(|()| stale),
            None => OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path),
        };
        let identity = || Ok(((0, 0), "lock".into()));
        let lock = StdLock::acquire_by(&path, LockKind::Exclusive, identity, open_by).unwrap();
        assert!(path.exists() && !platform::is_removed(&lock.file), "it is the lock of the present file");
        std::fs::remove_file(&path).unwrap();
    }

    /// Another process has such a copy for a moment while a thread starts it.
    #[test]
    fn a_copy_of_the_descriptor_does_not_hold_the_lock() {
        let path = std::env::temp_dir().join(format!("esker-lock-{}", std::process::id()));
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let lock = StdLock::acquire(&path, kind).unwrap();
            let copy = lock.file.try_clone().unwrap();
            drop(lock);
            assert!(StdLock::acquire(&path, LockKind::Exclusive).is_ok(), "{kind:?}");
            drop(copy);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
