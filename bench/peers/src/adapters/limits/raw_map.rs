//! Limit of mapped logs: records copied into a mapped, allocated file. For durable writes, the beginning of
//! the file was filled with zeros and synced, and each record is followed by an `msync(2)` of its pages.

use super::append::{self, Framed};
use crate::engine::{Abilities, Engine, EngineSettings, Result, Session};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE_BYTES: usize = 4096;
/// Capacity for the lengths of records of 16 bytes, and for twice as many records as expected.
const ROOM_FACTOR: u64 = 3;
/// Additional capacity; for durable writes this much is filled with zeros.
const ROOM_BYTES: u64 = 64 << 20;

struct RawMap {
    file: File,
    start: *mut u8,
    len_bytes: usize,
    end: AtomicUsize,
    is_power: bool,
}

// SAFETY: `end` gives each range to one thread, which alone writes to it, and nothing is read.
unsafe impl Send for RawMap {}
// SAFETY: as above.
unsafe impl Sync for RawMap {}

/// An empty file, allocated like a recycled log segment.
pub(in crate::adapters) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let path = directory.join("log");
    let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
    let len_bytes =
        usize::try_from(settings.expected_bytes * ROOM_FACTOR + ROOM_BYTES)?.next_multiple_of(PAGE_BYTES);
    let len_offset = libc::off_t::try_from(len_bytes)?;
    // SAFETY: the descriptor is that of an open file.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len_offset) };
    if code != 0 {
        return Err(std::io::Error::from_raw_os_error(code).into());
    }
    if settings.is_power() {
        file.write_all_at(&vec![0; ROOM_BYTES as usize], 0)?;
        file.sync_all()?;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of an open file of that length.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), len_bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().into());
    }
    let is_power = settings.is_power();
    Ok(Box::new(RawMap { file, start: start.cast(), len_bytes, end: AtomicUsize::new(0), is_power }))
}

impl Drop for RawMap {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`; no session outlives its store.
        unsafe { libc::munmap(self.start.cast(), self.len_bytes) };
    }
}

impl RawMap {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        let at = self.end.fetch_add(bytes.len(), Ordering::Relaxed);
        if at + bytes.len() > self.len_bytes {
            return Err(format!("the mapped file of {} bytes is full", self.len_bytes).into());
        }
        // SAFETY: the range lies in the mapping, and only this call writes to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
        if self.is_power {
            let from = at / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: the range begins at a page and lies in the mapping.
            let code =
                unsafe { libc::msync(self.start.add(from).cast(), at + bytes.len() - from, libc::MS_SYNC) };
            if code != 0 {
                return Err(std::io::Error::last_os_error().into());
            }
        }
        Ok(())
    }
}

impl Engine for RawMap {
    fn abilities(&self) -> Abilities {
        Abilities::APPEND
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(append::session(Framed::new(|bytes| self.append(bytes))))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn version(&self) -> String {
        "copies into a mapped, allocated file".to_owned()
    }
}
