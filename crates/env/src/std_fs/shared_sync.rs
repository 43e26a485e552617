//! Shared sync on Linux: `syncfs` writes all files of a file system and commits their metadata once.
//!
//! A thousand small files synced one by one cost a commit of the journal and a flush of the device each, 2 ms
//! on a virtual disk; together they take 50 ms.
//!
//! `syncfs` reports every failed write of the file system since the descriptor was opened, so the descriptor
//! is opened before the files are written. Two conditions make that true, and without them files are synced
//! one by one: Linux 5.8, before which failures were not reported, and a file system that is known to write
//! its files and flush its device in this call. Network and FUSE file systems may not.

use crate::fs::SharedSync;
use esker_base::{Error, Result};
use rustix::io::retry_on_intr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The first version that reports failed writes.
const REPORTING_KERNEL: (u32, u32) = (5, 8);

/// As `man 2 statfs` lists them: ext4 (which also serves ext2 and ext3), xfs, btrfs, tmpfs.
const WHOLE_SYNCS: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];

#[derive(Debug)]
struct FileSystemSync {
    /// The open directory of the files.
    dir: OwnedFd,
    path: PathBuf,
}

/// A shared sync for the files of an open directory; `None` where it would not be reliable.
pub(super) fn begin(dir: OwnedFd, path: &Path) -> Option<Box<dyn SharedSync>> {
    let stat = rustix::fs::fstatfs(&dir).ok()?;
    // The field is signed on some machines and 32 bits wide on others; the numbers are 32-bit ones.
    let is_whole = WHOLE_SYNCS.contains(&(stat.f_type as u64 & 0xFFFF_FFFF));
    (is_whole && reports_failures()).then(|| Box::new(FileSystemSync { dir, path: path.to_path_buf() }) as _)
}

fn reports_failures() -> bool {
    static REPORTS: OnceLock<bool> = OnceLock::new();
    *REPORTS.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        release
            .ok()
            .and_then(|release| version_of(&release))
            .is_some_and(|version| version >= REPORTING_KERNEL)
    })
}

/// The first two numbers of a release such as `6.1.0-13-amd64`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

impl SharedSync for FileSystemSync {
    fn sync(&self, _files: &[PathBuf]) -> Result<()> {
        retry_on_intr(|| rustix::fs::syncfs(&self.dir))
            .map_err(|error| Error::io("sync the file system of", &self.path, error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_are_read() {
        assert_eq!(version_of("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version_of("5.10"), Some((5, 10)));
        assert_eq!(version_of("unknown"), None);
        assert!(version_of("5.10") >= Some(REPORTING_KERNEL));
        assert!(version_of("5.7.19") < Some(REPORTING_KERNEL));
    }
}
