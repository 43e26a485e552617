//! One segment as an open file: preparing it and storing into it.
//!
//! Preparation does everything that can fail or is slow, so that appends do neither (WL4). It allocates
//! extents, because a store into a hole of a full file system kills the process. It writes zeros once,
//! because a store into an allocated but unwritten extent would make the file system convert the extent at
//! the next flush. It syncs data and directory entry, and maps the file. For a log that is not being flushed
//! it neither writes zeros nor syncs: the next flush syncs what it needs, directory entries included, and
//! until then nothing in the segment must survive a power cut. So opening a database, or filling its log
//! faster than segments are prepared, waits for no device.
//!
//! Zeros are written in pieces of at most 64 KiB. The page cache keeps the bytes of one write as one folio
//! and tracks dirtiness per folio: after fills of 1 MiB a flush of one record writes 1 MiB.
//!
//! Each segment has two open file descriptions: one for preparing (and for storing, where there is no
//! mapping), and one only for group sync, opened before the first record, for the reason given in
//! [`crate::sync`].

use crate::segment::slot_file_name;
use esker_base::Result;
use esker_env::{File, FileSystem, Mapping, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILL_BYTES: usize = 64 << 10;

/// Smaller records are assembled into one buffer, so that a positioned write takes one call.
const GATHER_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) slot: u32,
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
    /// The description that group sync calls `fdatasync` on.
    pub(crate) sync_file: Arc<dyn File>,
    /// Random; belongs to the next life of this file.
    pub(crate) salt: u64,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Mapped(Mapping),
    Written(WriteStore),
}

/// Stores by positioned writes; the assembly buffer is reused.
#[derive(Debug)]
struct WriteStore {
    file: Arc<dyn File>,
    gathered: Vec<u8>,
}

impl SegmentFile {
    /// Creates a new file and prepares it. On failure the file is removed.
    pub(crate) fn prepare(
        fs: &dyn FileSystem,
        dir: &Path,
        slot: u32,
        size_bytes: u64,
        map: bool,
        salt: u64,
        how: Fill,
    ) -> Result<SegmentFile> {
        let path = dir.join(slot_file_name(slot));
        let file = fs.open(&path, OpenMode::CreateNew)?;
        let prepared = fill(&*file, size_bytes, how).and_then(|allocated| {
            if how == Fill::Written {
                file.sync_data()?;
                fs.sync_dir(dir)?;
            }
            let sync_file = fs.open(&path, OpenMode::ReadWrite)?;
            Ok((allocated, sync_file))
        });
        match prepared {
            Ok((allocated, sync_file)) => {
                let store = Store::choose(file, size_bytes, map && allocated);
                Ok(SegmentFile { slot, path, size_bytes, sync_file, salt, store })
            }
            Err(error) => {
                drop(file);
                // Returns the first error. A file that cannot be removed is removed by the next open: no
                // header is valid.
                let _ = fs.remove_file(&path);
                Err(error)
            }
        }
    }

    /// Whether stores go to mapped memory and therefore cannot fail.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.store, Store::Mapped(_))
    }

    pub(crate) fn populate(&self) {
        if let Store::Mapped(mapping) = &self.store {
            mapping.populate();
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, offset: u64) {
        if let Store::Mapped(mapping) = &self.store {
            mapping.prefetch_to_write(offset as usize);
        }
    }

    /// Stores bytes other than a record.
    ///
    /// # Errors
    /// Only without a mapping.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &mut self.store {
            Store::Mapped(mapping) => {
                mapping.write(offset as usize, bytes);
                Ok(())
            }
            Store::Written(store) => store.file.write_at(bytes, offset),
        }
    }

    /// Stores a record: the payload first, so that a reader never finds a header without its payload.
    ///
    /// # Errors
    /// Only without a mapping. The bytes at `offset` are then undefined, but no valid record is behind it.
    #[inline]
    pub(crate) fn write_record(&mut self, offset: u64, header: &[u8], payload: &[u8]) -> Result<()> {
        match &mut self.store {
            Store::Mapped(mapping) => {
                let at = offset as usize;
                mapping.write(at + header.len(), payload);
                mapping.write(at, header);
                Ok(())
            }
            Store::Written(store) => store.write_record(offset, header, payload),
        }
    }
}

impl Store {
    /// Maps the file if allowed; else, or if the map is refused, stores by positioned writes.
    fn choose(file: Arc<dyn File>, size_bytes: u64, map: bool) -> Store {
        if map
            && let Ok(len) = usize::try_from(size_bytes)
            && let Ok(mapping) = file.map_writable(len)
        {
            return Store::Mapped(mapping);
        }
        Store::Written(WriteStore { file, gathered: Vec::with_capacity(GATHER_BYTES) })
    }
}

impl WriteStore {
    fn write_record(&mut self, offset: u64, header: &[u8], payload: &[u8]) -> Result<()> {
        if header.len() + payload.len() > GATHER_BYTES {
            self.file.write_at(payload, offset + header.len() as u64)?;
            return self.file.write_at(header, offset);
        }
        self.gathered.clear();
        self.gathered.extend_from_slice(header);
        self.gathered.extend_from_slice(payload);
        self.file.write_at(&self.gathered, offset)
    }
}

/// How a new segment is filled with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// By writing them. Later flushes then change no metadata: for a log that is flushed often.
    Written,
    /// By allocating extents, which read as zeros; the first flush of each page converts its extent. Where
    /// extents cannot be allocated ahead, the zeros are written. Neither size nor directory entry is durable
    /// before the next flush of the log, which syncs both.
    Allocated,
}

/// Allocates and fills; returns whether the file system allocated extents ahead.
fn fill(file: &dyn File, size_bytes: u64, fill: Fill) -> Result<bool> {
    let allocated = file.allocate(0, size_bytes, false)?;
    if allocated && fill == Fill::Allocated {
        return Ok(true);
    }
    let zeros = vec![0u8; FILL_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let piece = (size_bytes - at).min(FILL_BYTES as u64) as usize;
        file.write_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(allocated)
}
