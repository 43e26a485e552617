//! The path of an open database gets another meaning: its directory is renamed, a link to it leads elsewhere,
//! or the working directory changes. Another database is then where the path leads, and must keep what it
//! holds.
//!
//! Simulated files are found by path alone and stay.

use super::Runner;
use crate::script::PathChange;
use crate::{Failure, Outcome, ensure};
use esker::{Database, Options};
use std::env::{current_dir, set_current_dir};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Runner {
    pub(super) fn change_path(&mut self, change: PathChange) -> Outcome {
        if self.moves_clock() {
            return Ok(());
        }
        match change {
            PathChange::RenameAndBack | PathChange::Rename => self.rename_directory(change),
            PathChange::Link => self.open_through_link(),
            PathChange::WorkingDirectory => self.open_by_relative_path(),
        }
    }

    /// Renames the directory under the open database, which stays in it.
    fn rename_directory(&mut self, change: PathChange) -> Outcome {
        let moved = self.home.with_extension(format!("moved-{}", self.oracle.now()));
        if self.env.fs.file_len(&moved.join("CURRENT"))?.is_some() {
            return Ok(());
        }
        self.env.fs.rename(&self.dir, &moved)?;
        self.work_beside(&self.dir)?;
        self.env.fs.remove_dir_all(&self.dir)?;
        if change == PathChange::Rename {
            self.dir = moved;
            return Ok(());
        }
        Ok(self.env.fs.rename(&moved, &self.dir)?)
    }

    /// Reopens the database through a link, which leads to another database before it is used.
    fn open_through_link(&mut self) -> Outcome {
        let (link, elsewhere) = (self.beside("link"), self.beside("elsewhere"));
        make_link(&self.dir, &link)?;
        self.close()?;
        let dir = std::mem::replace(&mut self.dir, link.clone());
        let opened = self.open(self.flush_on_close);
        self.dir = dir;
        opened?;
        self.env.fs.remove_file(&link)?;
        self.env.fs.create_dir_all(&elsewhere)?;
        make_link(&elsewhere, &link)?;
        self.work_beside(&link)?;
        self.env.fs.remove_file(&link)?;
        Ok(self.env.fs.remove_dir_all(&elsewhere)?)
    }

    /// Reopens the database by its name alone, and leaves for a directory where another database has the
    /// name.
    fn open_by_relative_path(&mut self) -> Outcome {
        let (Some(parent), Some(name)) = (self.dir.parent(), self.dir.file_name()) else { return Ok(()) };
        let (parent, name) = (parent.to_path_buf(), PathBuf::from(name));
        let elsewhere = self.beside("elsewhere");
        self.close()?;
        let working = WorkingDirectory::enter(&parent)?;
        let dir = std::mem::replace(&mut self.dir, name.clone());
        let opened = self.open(self.flush_on_close);
        self.dir = dir;
        opened?;
        self.env.fs.create_dir_all(&elsewhere)?;
        working.leave_for(&elsewhere)?;
        self.work_beside(&name)?;
        drop(working);
        Ok(self.env.fs.remove_dir_all(&elsewhere)?)
    }

    /// Makes another database where the path leads now, and works on both.
    fn work_beside(&self, path: &Path) -> Outcome {
        let open =
            || Database::open_with(path, Options::default().env(self.env.clone()).memory_budget(8 << 20));
        let other = open()?;
        other.default_keyspace().put(b"k", b"of another database")?;
        other.flush()?;
        self.db()?.flush()?;
        self.db()?.default_keyspace().compact(..)?;
        other.close()?;
        drop(other);
        let other = open()?;
        let held = other.default_keyspace().iter().count();
        ensure!(held == 1, "the database that took the path of another one has {held} entries");
        Ok(other.close()?)
    }
}

#[cfg(unix)]
fn make_link(to: &Path, link: &Path) -> Outcome {
    std::os::unix::fs::symlink(to, link).map_err(|error| Failure::new(format!("cannot link: {error}")))
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> Outcome {
    Err(Failure::new("no links here"))
}

/// The working directory of the process, which belongs to one runner at a time.
struct WorkingDirectory {
    before: PathBuf,
    _lock: MutexGuard<'static, ()>,
}

impl WorkingDirectory {
    fn enter(dir: &Path) -> Outcome<WorkingDirectory> {
        static IN_USE: Mutex<()> = Mutex::new(());
        let lock = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current_dir().map_err(|error| Failure::new(format!("no working directory: {error}")))?;
        let working = WorkingDirectory { before, _lock: lock };
        working.leave_for(dir)?;
        Ok(working)
    }

    fn leave_for(&self, dir: &Path) -> Outcome {
        set_current_dir(dir).map_err(|error| Failure::new(format!("cannot enter a directory: {error}")))
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // It was there before; a test that fails leaves it anyway.
        let _ = set_current_dir(&self.before);
    }
}
