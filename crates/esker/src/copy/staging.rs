//! Staging directory: a copy is made in a directory of another name, which is renamed once it is complete.
//!
//! * **CO1** A target has one maker at a time. From before it looks at leftovers until the copy has its name,
//!   or what was begun is deleted, the maker holds an exclusive lock of a file beside the target. It deletes
//!   only what it found or made under that lock; other makers get [`Error::Locked`] and touch nothing.
//! * **CO2** The directory that the target is in is held by its descriptor. What another directory has under
//!   the same path, after a rename or a change of the working directory, is not touched.
//!
//! The lock file is not in the staging directory, because that gets the name of the copy. It is removed
//! before its lock is released; [`esker_env::FileSystem::lock`] gives no lock of a removed file.

use esker_base::{Error, Result};
use esker_engine::lifecycle::open::make_directory;
use esker_env::fs::parent_dir;
use esker_env::{Env, FileLock, FileSystem, LockKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffix of the name of a directory in which a copy is being made. No other directory has such a name, so
/// leftovers of an interrupted copy are recognised and deleted.
pub(super) const INCOMPLETE_SUFFIX: &str = ".esker-incomplete";
/// What follows that suffix in the name of the lock file.
pub(super) const LOCK_SUFFIX: &str = ".lock";

/// A directory in which a copy is made, deleted unless it is completed.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Its file system holds the directory that the target is in.
    env: Env,
    target: PathBuf,
    path: PathBuf,
    lock_path: PathBuf,
    is_complete: bool,
    _lock: Box<dyn FileLock>,
}

impl Staging {
    /// Creates the directory beside `target`, which is missing or empty. Leftovers of an interrupted copy are
    /// deleted.
    ///
    /// # Errors
    /// `InvalidArgument` if the target is not empty, `Locked` if another copy to it is being made.
    pub(crate) fn begin(env: &Env, target: &Path) -> Result<Staging> {
        if target.file_name().is_none() {
            let target = target.display();
            return Err(Error::invalid(format!("{target} does not name a directory to be made")));
        }
        let target = env.fs.absolute(target)?;
        check_vacant(&*env.fs, &target)?;
        let parent = parent_dir(&target);
        make_directory(&*env.fs, &parent)?;
        let fs = env.fs.hold_dir(&parent)?.unwrap_or_else(|| Arc::clone(&env.fs));
        let (path, lock_path) =
            (named(&target, &[INCOMPLETE_SUFFIX]), named(&target, &[INCOMPLETE_SUFFIX, LOCK_SUFFIX]));
        let lock = fs.lock(&lock_path, LockKind::Exclusive).map_err(|error| match error {
            Error::Locked { owner, .. } => Error::Locked { path: target.clone(), owner },
            error => error,
        })?;
        let env = Env { fs, ..env.clone() };
        let staging = Staging { env, target, path, lock_path, is_complete: false, _lock: lock };
        let fs = &*staging.env.fs;
        // The target may have been made until the lock was free.
        check_vacant(fs, &staging.target)?;
        match fs.list(&staging.path) {
            Ok(_) => fs.remove_dir_all(&staging.path)?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        fs.create_dir_all(&staging.path)?;
        Ok(staging)
    }

    /// The environment in which the copy is made.
    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory its final name, durable; everything in it is durable already.
    pub(crate) fn complete(mut self) -> Result<()> {
        let fs = &*self.env.fs;
        fs.sync_dir(&self.path)?;
        fs.rename(&self.path, &self.target)?;
        self.is_complete = true;
        // A leftover lock file is locked and removed by the next copy.
        let _ = fs.remove_file(&self.lock_path);
        fs.sync_dir(&parent_dir(&self.target))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_complete {
            // Leftovers are recognised by their name and deleted by the next attempt.
            let _ = self.env.fs.remove_dir_all(&self.path);
            let _ = self.env.fs.remove_file(&self.lock_path);
        }
    }
}

/// The name of a target with more behind it.
fn named(target: &Path, suffixes: &[&str]) -> PathBuf {
    let mut name = target.file_name().map(OsString::from).unwrap_or_default();
    suffixes.iter().for_each(|suffix| name.push(suffix));
    target.with_file_name(name)
}

/// An error unless `path` does not exist or is an empty directory.
fn check_vacant(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let occupied = match fs.list(path) {
        Ok(entries) => !entries.is_empty(),
        Err(error) if error.is_not_found() => false,
        // Not a directory, or not readable: creating one there would fail as well.
        Err(error) => return Err(error),
    };
    if occupied {
        let path = path.display();
        return Err(Error::invalid(format!("{path} is not empty; a copy needs a directory of its own")));
    }
    Ok(())
}
