//! Platform differences. Linux has everything; for the others each function documents its fallback.

use crate::fs::ReadPattern;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

#[cfg(unix)]
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Reads all of the buffer from the page cache by one call; `false` if that has less, or on any failure.
#[cfg(target_os = "linux")]
pub(super) fn read_cached_at(file: &File, buffer: &mut [u8], offset: u64) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let wanted = buffer.len();
    // A kernel or a file system without such reads refuses them.
    let read = preadv2(file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
    read.is_ok_and(|read| read == wanted)
}

/// No such reads on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_cached_at(_file: &File, _buffer: &mut [u8], _offset: u64) -> bool {
    false
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// The unit of `st_blocks`, whatever the file system's own blocks are.
#[cfg(unix)]
pub(super) const STAT_BLOCK_BYTES: u64 = 512;

/// What a file takes on the disk.
#[cfg(unix)]
pub(super) fn disk_bytes(metadata: &std::fs::Metadata) -> u64 {
    STAT_BLOCK_BYTES * std::os::unix::fs::MetadataExt::blocks(metadata)
}

/// The length in whole blocks: the standard library does not tell what is allocated.
#[cfg(not(unix))]
pub(super) fn disk_bytes(metadata: &std::fs::Metadata) -> u64 {
    metadata.len().next_multiple_of(crate::fs::DIRECT_ALIGNMENT_BYTES as u64)
}

/// The kernel's descriptor of a file.
#[cfg(unix)]
pub(super) fn descriptor(file: &File) -> Option<i32> {
    Some(std::os::fd::AsRawFd::as_raw_fd(file))
}

#[cfg(not(unix))]
pub(super) fn descriptor(_file: &File) -> Option<i32> {
    None
}

/// Opens a file for reading past the page cache; `None` on any failure.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_direct(path: &Path) -> Option<File> {
    open_direct_at(rustix::fs::CWD, path)
}

/// As [`open_direct`], resolved from an open directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_direct_at(from: std::os::fd::BorrowedFd<'_>, path: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| openat(from, path, flags, Mode::empty())).ok().map(File::from)
}

/// No direct access: the caller reads through the page cache.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn open_direct(_path: &Path) -> Option<File> {
    None
}

/// As [`open_direct`].
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(super) fn open_direct_at(_from: std::os::fd::BorrowedFd<'_>, _path: &Path) -> Option<File> {
    None
}

/// Allocates extents; `false` if the file system cannot, and then nothing has changed.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn allocate(file: &File, offset: u64, len: u64, keep_len: bool) -> io::Result<bool> {
    use rustix::fs::FallocateFlags;
    use rustix::io::Errno;
    let flags = if keep_len { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    match rustix::fs::fallocate(file, flags, offset, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Not offered, or without the guarantee that later writes cannot run out of space.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn allocate(_file: &File, _offset: u64, _len: u64, _keep_len: bool) -> io::Result<bool> {
    Ok(false)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn will_need(file: &File, offset: u64, len: u64) {
    use rustix::fs::Advice;
    // A length of zero would mean "to the end of the file".
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), Advice::WillNeed);
    }
}

#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(super) fn will_need(file: &File, offset: u64, len: u64) {
    let _ = rustix::fs::fcntl_rdadvise(file, offset, len);
}

/// No such hint on this platform.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "macos",
    target_os = "ios"
)))]
pub(super) fn will_need(_file: &File, _offset: u64, _len: u64) {}

/// For the whole file: the kernel reads ahead, or reads what it is asked for and nothing else.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn expect_reads(file: &File, pattern: ReadPattern) {
    use rustix::fs::Advice;
    let advice = match pattern {
        ReadPattern::Scattered => Advice::Random,
        ReadPattern::Consecutive => Advice::Normal,
    };
    let _ = rustix::fs::fadvise(file, 0, None, advice);
}

/// No such hint on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn expect_reads(_file: &File, _pattern: ReadPattern) {}

#[cfg(unix)]
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    sync_opened_dir(&File::open(dir)?)
}

/// As [`sync_dir`], for an open directory.
#[cfg(unix)]
pub(super) fn sync_opened_dir(dir: &File) -> io::Result<()> {
    match dir.sync_all() {
        // Some network and FUSE file systems cannot sync directories; refusing to run would not help.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => Ok(()),
        outcome => outcome,
    }
}

/// Windows journals names itself and has no call for it.
#[cfg(not(unix))]
pub(super) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// A second name of the file itself, also where `from` is a symbolic link to it.
#[cfg(unix)]
pub(super) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(unix))]
pub(super) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)
}

/// What a directory is, whichever path leads to it.
#[cfg(unix)]
pub(super) type DirectoryIdentity = (u64, u64);

/// Its device and inode, which a rename does not change.
#[cfg(unix)]
pub(super) fn directory_identity(dir: &Path) -> io::Result<DirectoryIdentity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(dir).map(|found| (found.dev(), found.ino()))
}

/// What a directory is, whichever path leads to it.
#[cfg(not(unix))]
pub(super) type DirectoryIdentity = std::path::PathBuf;

#[cfg(not(unix))]
pub(super) fn directory_identity(dir: &Path) -> io::Result<DirectoryIdentity> {
    std::fs::canonicalize(dir)
}

/// Whether the open file has no name any more.
#[cfg(unix)]
pub(super) fn is_removed(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

/// A file that is open keeps its name until it is closed.
#[cfg(not(unix))]
pub(super) fn is_removed(_file: &File) -> bool {
    false
}

#[cfg(unix)]
pub(super) fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    Ok(identity(one)? == identity(other)?)
}

#[cfg(not(unix))]
pub(super) fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(std::fs::canonicalize(one)? == std::fs::canonicalize(other)?)
}

#[cfg(unix)]
pub(super) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Unknown, so writes are never stalled for lack of space; a full disk shows in the write that fails.
#[cfg(not(unix))]
pub(super) fn free_bytes(_dir: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// Whether the file system is known to allow stores into shared maps without ever needing new blocks.
///
/// An allow list: copy-on-write, network and stacked file systems may need space for a store into an
/// allocated block, and can report its lack only by killing the process.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn keeps_extents(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| is_extent_keeping(&stat))
}

/// As [`keeps_extents`], for an open directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn keeps_extents_at(dir: &impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|stat| is_extent_keeping(&stat))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_extent_keeping(stat: &rustix::fs::StatFs) -> bool {
    /// As `man 2 statfs` lists them: ext4 (which also serves ext2 and ext3), xfs, tmpfs.
    const GOOD: [u64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];
    // The field is signed on some machines and 32 bits wide on others; the numbers are 32-bit ones.
    GOOD.contains(&(stat.f_type as u64 & 0xFFFF_FFFF))
}

/// Only Linux has a list.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn keeps_extents(_dir: &Path) -> bool {
    false
}

/// As [`keeps_extents`].
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(super) fn keeps_extents_at(_dir: &impl std::os::fd::AsFd) -> bool {
    false
}

/// The kernel's id of this boot; zero where there is none.
pub(super) fn boot_id() -> [u8; 16] {
    static BOOT_ID: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT_ID.get_or_init(|| {
        if !cfg!(any(target_os = "linux", target_os = "android")) {
            return [0; 16];
        }
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        text.ok().and_then(|text| parse_boot_id(&text)).unwrap_or_default()
    })
}

/// Reads 32 hexadecimal digits, ignoring the dashes between them.
pub(super) fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.trim().chars().filter(|&c| c != '-').map(|c| c.to_digit(16));
    let mut id = [0; 16];
    for byte in &mut id {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    digits.next().is_none().then_some(id)
}

/// Whether a process with this id exists on this machine.
#[cfg(unix)]
pub(super) fn is_running(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // A refused permission to signal it proves that it exists.
    matches!(test_kill_process(process), Ok(()) | Err(rustix::io::Errno::PERM))
}

/// Cannot be determined without a further dependency; the lock file is believed.
#[cfg(not(unix))]
pub(super) fn is_running(_process: u32) -> bool {
    true
}
