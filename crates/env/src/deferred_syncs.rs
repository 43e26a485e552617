//! Deferred syncs: new files of a directory become durable together, by one call at the end.
//!
//! A wrapper of a file system for a job that writes many small files and needs all of them durable before it
//! goes on. Files that it creates record their syncs instead of carrying them out, and so does the directory;
//! [`DeferredSyncs::sync`] then does all of it by [`SharedSync`], or one by one where the file system has no
//! such call.
//!
//! # Invariants
//! * DS1: after a successful [`DeferredSyncs::sync`] every file that was synced through the wrapper is
//!   durable, with its name.
//! * DS2: nothing refers to such a file before. The wrapper cannot check it; its owner writes no manifest
//!   record and returns no success.

use crate::fs::{File, FileSystem, OpenMode, SharedSync};
use crate::fs_wrapper::{FileSystemWrapper, FileWrapper};
use esker_base::Result;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many files at least are synced by one call. It writes everything that is unwritten on the device,
/// data of other programs included, so it must save some waits.
const MIN_SHARED_FILES: usize = 8;

/// A file system whose new files in one directory are synced together.
#[derive(Debug)]
pub struct DeferredSyncs {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// `None` if the file system has no such call.
    shared: Option<Box<dyn SharedSync>>,
    waiting: Arc<Waiting>,
}

/// Files whose sync was requested.
#[derive(Debug, Default)]
struct Waiting(Mutex<BTreeSet<PathBuf>>);

impl DeferredSyncs {
    /// Defers the syncs of files that are created in `dir` from now on.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn new(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<DeferredSyncs> {
        let shared = fs.begin_shared_sync(dir)?;
        Ok(DeferredSyncs { fs: Arc::clone(fs), dir: dir.to_path_buf(), shared, waiting: Arc::default() })
    }

    /// Makes all files durable whose sync was requested since the last call, with their names.
    ///
    /// # Errors
    /// If one of them may not be durable. They must be written anew then: what a failed sync left behind is
    /// unknown.
    pub fn sync(&self) -> Result<()> {
        let files: Vec<PathBuf> = std::mem::take(&mut *self.waiting.0.lock()).into_iter().collect();
        if files.is_empty() {
            return Ok(());
        }
        match &self.shared {
            Some(shared) if files.len() >= MIN_SHARED_FILES => shared.sync(&files)?,
            _ => {
                for file in &files {
                    self.fs.open(file, OpenMode::ReadWrite)?.sync_data()?;
                }
            }
        }
        self.fs.sync_dir(&self.dir)
    }
}

impl FileSystemWrapper for DeferredSyncs {
    fn below(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.fs.open(path, mode)?;
        match mode {
            OpenMode::CreateNew if path.parent() == Some(&self.dir) => {
                Ok(Arc::new(DeferredFile { file, waiting: Arc::clone(&self.waiting) }))
            }
            _ => Ok(file),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.waiting.0.lock().remove(path);
        self.fs.remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir == self.dir { Ok(()) } else { self.fs.sync_dir(dir) }
    }
}

/// A file that records its syncs.
#[derive(Debug)]
struct DeferredFile {
    file: Arc<dyn File>,
    waiting: Arc<Waiting>,
}

impl FileWrapper for DeferredFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn sync_data(&self) -> Result<()> {
        FileWrapper::sync_all(self)
    }

    fn sync_all(&self) -> Result<()> {
        self.waiting.0.lock().insert(self.file.path().to_path_buf());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StdFileSystem;
    use crate::fault::{Crash, FaultFs, Operation, StrictFs};

    const DIR: &str = "/files";

    fn written(fs: &FaultFs, files: usize) -> (DeferredSyncs, Arc<dyn FileSystem>) {
        let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
        fs.create_dir_all(Path::new(DIR)).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let deferred = DeferredSyncs::new(&fs, Path::new(DIR)).unwrap();
        for number in 0..files {
            let file = FileSystemWrapper::open(&deferred, &path(number), OpenMode::CreateNew).unwrap();
            file.write_at(b"bytes", 0).unwrap();
            file.sync_data().unwrap();
            FileSystemWrapper::sync_dir(&deferred, Path::new(DIR)).unwrap();
        }
        (deferred, fs)
    }

    fn path(number: usize) -> PathBuf {
        Path::new(DIR).join(number.to_string())
    }

    fn survivors(strict: &StrictFs) -> usize {
        let after = strict.crash(Crash::PowerAllLost);
        let whole = |number: &usize| after.file_len(&path(*number)).unwrap() == Some(5);
        (0..100).filter(whole).count()
    }

    #[test]
    fn many_files_become_durable_by_one_call_and_not_before() {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        let (deferred, _) = written(&faults, 100);
        assert_eq!(survivors(&strict), 0);
        let dirs = faults.calls(Operation::SyncDir);
        deferred.sync().unwrap();
        assert_eq!(survivors(&strict), 100);
        let syncs = |operation| faults.calls(operation);
        assert_eq!((syncs(Operation::SyncShared), syncs(Operation::SyncData)), (1, 0));
        assert_eq!(faults.calls(Operation::SyncDir) - dirs, 1);
        deferred.sync().unwrap();
        assert_eq!(faults.calls(Operation::SyncShared), 1, "nothing is left to sync");
    }

    #[test]
    fn few_files_are_synced_one_by_one_and_removed_ones_not_at_all() {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        let (deferred, _) = written(&faults, 3);
        FileSystemWrapper::remove_file(&deferred, &path(1)).unwrap();
        deferred.sync().unwrap();
        assert_eq!(survivors(&strict), 2);
        assert_eq!((faults.calls(Operation::SyncShared), faults.calls(Operation::SyncData)), (0, 2));
    }

    #[test]
    fn the_machines_file_system_syncs_many_files_together() {
        let dir = std::env::temp_dir().join(format!("esker-deferred-{}", std::process::id()));
        let fs: Arc<dyn FileSystem> = Arc::new(StdFileSystem);
        fs.create_dir_all(&dir).unwrap();
        let held = fs.hold_dir(&dir).unwrap().unwrap_or_else(|| Arc::clone(&fs));
        for fs in [fs, held] {
            let deferred = DeferredSyncs::new(&fs, &dir).unwrap();
            for number in 0..2 * MIN_SHARED_FILES {
                let path = dir.join(number.to_string());
                let file = FileSystemWrapper::open(&deferred, &path, OpenMode::CreateNew).unwrap();
                file.write_at(b"bytes", 0).unwrap();
                file.sync_data().unwrap();
            }
            deferred.sync().unwrap();
            for number in 0..2 * MIN_SHARED_FILES {
                fs.remove_file(&dir.join(number.to_string())).unwrap();
            }
        }
        StdFileSystem.remove_dir_all(&dir).unwrap();
    }
}
