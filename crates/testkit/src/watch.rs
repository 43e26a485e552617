//! A file system that watches the table files: how many are open for reading, and that none is misused.
//!
//! It refuses by panic what must never happen to a table (IN3): to be removed while a reader has it open, to
//! be removed twice, to be opened after it was removed.

use esker::Result;
use esker::parts::env::fs::{File, FileSystem, OpenMode};
use esker::parts::env::{FileSystemWrapper, FileWrapper};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Passes every call on to another file system. Clones are the same file system.
#[derive(Clone, Debug)]
pub struct WatchFs {
    inner: Arc<dyn FileSystem>,
    seen: Arc<Mutex<Seen>>,
    extension: &'static str,
}

#[derive(Debug, Default)]
struct Seen {
    /// Handles of each table that are open for reading.
    open: BTreeMap<PathBuf, usize>,
    most_open: usize,
    opened: u64,
    removed: BTreeSet<PathBuf>,
}

impl WatchFs {
    /// Watches the tables of `inner`.
    pub fn new(inner: Arc<dyn FileSystem>) -> WatchFs {
        WatchFs::over(inner, "sst")
    }

    /// Watches the files of `inner` that have this extension.
    pub fn over(inner: Arc<dyn FileSystem>, extension: &'static str) -> WatchFs {
        WatchFs { inner, seen: Arc::default(), extension }
    }

    fn is_watched(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == self.extension)
    }

    /// Handles of tables that are open for reading now.
    pub fn open_tables(&self) -> usize {
        self.seen().open.values().sum()
    }

    /// The most there were at once since this was last asked.
    pub fn take_most_open(&self) -> usize {
        let now = self.open_tables();
        std::mem::replace(&mut self.seen().most_open, now)
    }

    /// How often a table was opened for reading.
    pub fn opened(&self) -> u64 {
        self.seen().opened
    }

    /// Tables that were removed.
    pub fn removed(&self) -> BTreeSet<PathBuf> {
        self.seen().removed.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileSystemWrapper for WatchFs {
    fn below(&self) -> &dyn FileSystem {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let is_read = self.is_watched(path) && mode == OpenMode::Read;
        if is_read {
            let mut seen = self.seen();
            assert!(!seen.removed.contains(path), "{} is opened after its removal", path.display());
            *seen.open.entry(path.to_owned()).or_default() += 1;
            seen.opened += 1;
            seen.most_open = seen.most_open.max(seen.open.values().sum());
        }
        let handle = Handle { watch: is_read.then(|| self.clone()), path: path.to_owned() };
        let file = self.inner.open(path, mode)?;
        Ok(Arc::new(WatchedFile { file, _handle: handle }))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        if self.is_watched(path) {
            let mut seen = self.seen();
            assert!(!seen.open.contains_key(path), "{} is removed while it is open", path.display());
            assert!(seen.removed.insert(path.to_owned()), "{} is removed twice", path.display());
        }
        self.inner.remove_file(path)
    }
}

/// Counts an open table until it is dropped.
#[derive(Debug)]
struct Handle {
    watch: Option<WatchFs>,
    path: PathBuf,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut seen = watch.seen();
        let Some(count) = seen.open.get_mut(&self.path) else { return };
        *count -= 1;
        if *count == 0 {
            seen.open.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    _handle: Handle,
}

impl FileWrapper for WatchedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }
}
