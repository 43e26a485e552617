//! A directory that is removed with the test.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct TestDir(PathBuf);

impl TestDir {
    pub(crate) fn new(name: &str) -> TestDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("esker-{name}-{}-{number}", std::process::id()));
        TestDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    #[allow(clippy::disallowed_methods, reason = "tests clean up behind the database")]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keyspace options so small that a few hundred entries go through every part of the tree.
pub(crate) fn tiny() -> esker::KeyspaceOptions {
    esker::KeyspaceOptions::default().write_buffer_size(8 << 10).table_size(4 << 10).block_size(512)
}

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

pub(crate) fn value(number: u64, round: u64) -> Vec<u8> {
    format!("value {number} of round {round}").into_bytes()
}

/// Copies a directory as another process sees it now.
#[allow(clippy::disallowed_methods, reason = "the tests look behind the database's back")]
#[allow(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
