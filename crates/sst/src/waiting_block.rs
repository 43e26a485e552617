//! Waiting blocks: large blocks of a merge's inputs, in files without names instead of in memory.
//!
//! # Why
//! A merge writes one entry at a time, but each of its inputs stands on one: with ten inputs and values of
//! ten mebibytes that was a hundred mebibytes, whatever the memory budget. Inputs may hold some large blocks
//! together ([`esker_env::MemoryLedger::large_inputs`]). Beyond, the block is written to a file whose pages
//! take the place of the memory: then they are in the page cache, and the system may drop them and read them
//! again. The name of the file is removed before anything is written, so its room is free when the cursor
//! leaves the block, or the process ends.
//!
//! # Invariants
//! * WB1. A waiting block has the same bytes as one in memory: it is decompressed, or copied, from the
//!   verified image, and validated after its pages were replaced.
//! * WB2. Where no file can be written or mapped, the block stays in memory and is counted.
//!
//! # Rejected
//! Reading the key only, and the value when it is the next to be written: each large value would be
//! decompressed twice, and a reader that asks for a value too early would see another one.

use crate::input_residency::ScratchFiles;
use esker_base::{Error, Result};
use esker_env::{File, PageAdvice, Region};

/// Memory for one large block, which may be that of a file.
pub(crate) struct WaitingBlock {
    region: Region,
    len: usize,
    is_in_file: bool,
}

impl WaitingBlock {
    /// `len` bytes that `fill` writes; it gets zeros. `None` if the system has no file or address space for
    /// them.
    pub(crate) fn create<E>(
        files: &dyn ScratchFiles,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<WaitingBlock>, E> {
        let Ok(Some(file)) = files.scratch_file() else { return Ok(None) };
        let Ok(region) = Region::reserve_with(len, PageAdvice::Small) else { return Ok(None) };
        let mut block = WaitingBlock { region, len, is_in_file: false };
        // SAFETY: the region has at least `len` bytes, which are zero at first, and nothing else refers to
        // it.
        fill(unsafe { std::slice::from_raw_parts_mut(block.region.as_ptr(), len) })?;
        // WB2: after an error it is in memory as before.
        block.is_in_file = block.move_to(&*file).unwrap_or(false);
        Ok(Some(block))
    }

    fn move_to(&self, file: &dyn File) -> Result<bool> {
        let Some(descriptor) = file.descriptor() else { return Ok(false) };
        file.write_at(self.bytes(), 0)?;
        file.set_len(self.region.len() as u64)?;
        // SAFETY: the file is open and has the bytes of the region; nothing writes to either any more.
        let replaced = unsafe { self.region.replace_by_file(descriptor.fd) };
        replaced.map_err(|source| Error::io("map", file.path(), source))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the region has so many bytes, all initialised, which nothing changes.
        unsafe { std::slice::from_raw_parts(self.region.as_ptr(), self.len) }
    }

    /// Whether the bytes are not in this process's own memory.
    pub(crate) fn is_in_file(&self) -> bool {
        self.is_in_file
    }
}
