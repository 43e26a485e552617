//! A temporary directory of the real file system, removed when its handle is dropped.

use esker::parts::env::{FileSystem, StdFileSystem};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A path in the temporary directory, removed with all below it when dropped. Nothing is created there.
#[derive(Debug)]
pub struct TestDir(PathBuf);

impl TestDir {
    /// A path that no other test of this or another process uses.
    pub fn new(name: &str) -> TestDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-{name}-{}-{number}", std::process::id());
        TestDir(std::env::temp_dir().join(name))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // A leftover directory does no harm.
        let _ = StdFileSystem.remove_dir_all(&self.0);
    }
}
