//! One segment as an open file: preparing it, storing into it.
//!
//! Preparation does everything that can fail or is slow, so that nothing of it is left for the writers (WL4):
//! real extents are allocated, because a store to a hole of a full file system kills the process; zeros are
//! written once, because a store into an allocated but unwritten extent would make the file system change the
//! extent at the next flush; data and directory entry are synced; the file is mapped. Of a log that is not
//! being flushed neither is done: the next flush syncs what it needs, names included, and until then nothing
//! in the segment was promised to outlive a power cut. So whoever opens the database or fills its log faster
//! than segments come waits for no device.
//!
//! Zeros are written in pieces of at most 64 KiB. The page cache keeps what one write brings in as one folio
//! and tracks dirtiness per folio: after fills of 1 MiB a flush of one record writes 1 MiB.
//!
//! Each segment has two open file descriptions: one that prepares (and stores, where there is no mapping),
//! and one for the flush sync_file alone, opened before the first record, for the reason given in [`crate::sync`].

use crate::segment::slot_file_name;
use esker_base::Result;
use esker_env::{File, FileSystem, Mapping, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest piece in which zeros are written.
const FILL_BYTES: usize = 64 << 10;

/// Records up to this size are put together before they are written by the path without a mapping, so that
/// they take one call.
const GATHER_BYTES: usize = 64 << 10;

/// A prepared segment.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) slot: u32,
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
    /// The description that the flush sync_file syncs.
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

/// Stores by positioned writes; the gathering buffer keeps its memory.
#[derive(Debug)]
struct WriteStore {
    file: Arc<dyn File>,
    gathered: Vec<u8>,
}

impl SegmentFile {
    /// Makes a new file and takes it all the way to being usable. On failure nothing of it is left behind.
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
                // The error that matters is the first one. A file that cannot be removed is found and removed
                // by the next open: no header in it is valid.
                let _ = fs.remove_file(&path);
                Err(error)
            }
        }
    }

    /// Whether stores go to mapped memory and therefore cannot fail.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.store, Store::Mapped(_))
    }

    /// Takes the page faults of the records to come; see [`Mapping::populate`].
    pub(crate) fn populate(&self) {
        if let Store::Mapped(mapping) = &self.store {
            mapping.populate();
        }
    }

    /// Asks for the memory of a record that is about to be stored.
    #[inline(always)]
    pub(crate) fn prefetch(&self, offset: u64) {
        if let Store::Mapped(mapping) = &self.store {
            mapping.prefetch_to_write(offset as usize);
        }
    }

    /// Stores bytes that are no record.
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

    /// Stores a record: the payload first, so that a header is never found before what it describes.
    ///
    /// # Errors
    /// Only without a mapping. What stands at `offset` afterwards is unknown, but no valid record behind it
    /// is.
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
    /// Maps the file if it may be; a refusal (too many maps, no address space) means positioned writes.
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

/// How a new segment's bytes come to be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// They are written. Later flushes then change no metadata: for a log that is flushed all the time.
    Written,
    /// Allocated extents read as zeros. The first flush of each page converts its extent. Where extents
    /// cannot be allocated ahead, the zeros are written. Neither size nor name are durable before the next
    /// flush of the log, which has to see to both.
    Allocated,
}

/// Allocates and fills; tells whether the file system allocated extents ahead.
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
