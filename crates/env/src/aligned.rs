//! Direct reads of any offset and length.
//!
//! Direct access needs offsets, lengths and buffers that are multiples of the device's block. Blocks of a
//! table begin and end anywhere; so the device blocks around them are read into a thread-local buffer, and
//! the requested bytes are copied out of it.

use crate::fs::{DIRECT_ALIGNMENT_BYTES, Descriptor, File};
use crate::fs_wrapper::FileWrapper;
use esker_base::Result;
use esker_base::with_thread_buffer;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Largest buffer that a thread keeps: the largest window of a scan, and the device blocks at its ends.
const LARGEST_KEPT_BYTES: usize = (1 << 20) + 3 * DIRECT_ALIGNMENT_BYTES;

thread_local! {
    static BUFFER: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer::new()) };
}

/// Memory that begins at a multiple of [`DIRECT_ALIGNMENT_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
}

impl AlignedBuffer {
    pub(crate) const fn new() -> AlignedBuffer {
        AlignedBuffer { bytes: Vec::new() }
    }

    /// A buffer of `len` bytes with undefined contents.
    pub(crate) fn take(&mut self, len: usize) -> &mut [u8] {
        let needed = len + DIRECT_ALIGNMENT_BYTES;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        let start = self.bytes.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES);
        &mut self.bytes[start..start + len]
    }

    fn shrink(&mut self) {
        if self.bytes.len() > LARGEST_KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// The device blocks that hold a range of a file.
pub(crate) fn aligned_range(offset: u64, len: usize) -> Range<u64> {
    let alignment = DIRECT_ALIGNMENT_BYTES as u64;
    offset / alignment * alignment..(offset + len as u64).next_multiple_of(alignment)
}

/// A file opened with [`crate::OpenMode::ReadDirect`] that can be read at any offset and length.
#[derive(Debug)]
pub struct AlignedFile {
    file: Arc<dyn File>,
}

impl AlignedFile {
    /// Reads `file` in device blocks.
    pub fn over(file: Arc<dyn File>) -> AlignedFile {
        AlignedFile { file }
    }
}

impl FileWrapper for AlignedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let range = aligned_range(offset, buffer.len());
        with_thread_buffer(&BUFFER, AlignedBuffer::new, |aligned| {
            let around = aligned.take((range.end - range.start) as usize);
            let read = self.file.read_at(around, range.start)?;
            let before = (offset - range.start) as usize;
            let found = read.saturating_sub(before).min(buffer.len());
            buffer[..found].copy_from_slice(&around[before..before + found]);
            aligned.shrink();
            Ok(found)
        })
    }

    fn will_need(&self, _offset: u64, _len: u64) {
        // There is no page cache to read into.
    }

    fn descriptor(&self) -> Option<Descriptor> {
        self.file.descriptor()
    }
}
