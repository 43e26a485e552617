//! Buffered file writer of tables: collects bytes, writes aligned pieces and starts write-back early.
//!
//! Linux keeps a file in folios, the larger the better, and a write makes a folio no larger than its
//! alignment and length allow: 256 KiB at a multiple of 256 KiB are one folio, elsewhere a dozen. Writing
//! into an allocated block costs half of writing into one whose allocation is delayed. So pieces are aligned,
//! and space is allocated ahead.
//!
//! * OG1: pieces are written in order, without gaps, and none twice.
//! * OG2: all pieces but those of the end begin and end at multiples of [`PIECE_BYTES`].
//! * OG3: the space allocated ahead is at most an eighth of what is written, and between
//!   [`MIN_RESERVED_BYTES`] and [`MAX_RESERVED_BYTES`]; unused space is released before the file is synced.
//!   The allocation is a hint: if it fails, writes report the lack of space.
//! * OG4: of long sections, filters above all, no more than a piece is buffered beside the caller's copy.

use crate::input_residency::JobControl;
use esker_base::Result;
use esker_base::planted;
use esker_env::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes per write: few enough for the L2 cache, many enough that calls cost little.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Bytes between starts of write-back: a millisecond of the device, so that the sync has little left.
pub(crate) const WRITE_BACK_BYTES: u64 = 1 << 20;

/// What is allocated ahead, as a part of what is written. More would be released again when the file is
/// whole, and where the file system discards released blocks at once the device stops for each of them: with
/// as much again as was written, a third more bytes were discarded than were written.
const RESERVED_SHARE: u64 = 8;

/// Least and most bytes that are allocated at once.
pub(crate) const MIN_RESERVED_BYTES: u64 = 1 << 20;
pub(crate) const MAX_RESERVED_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct FileWriter {
    file: Arc<dyn File>,
    /// Appended bytes that are not written yet.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the file that are written; `bytes` follow them.
    written_bytes: u64,
    /// Bytes of the file whose write-back has begun.
    sent_bytes: u64,
    /// Bytes of the file that are allocated; `None` if the file system cannot allocate ahead.
    reserved_bytes: Option<u64>,
    /// Checked between the pieces of long sections.
    control: Option<Arc<dyn JobControl>>,
}

impl FileWriter {
    /// A writer of an empty file, with a buffer for a piece and so many bytes more.
    pub(crate) fn new(file: Arc<dyn File>, more_bytes: usize) -> FileWriter {
        FileWriter {
            file,
            bytes: Vec::with_capacity(PIECE_BYTES + more_bytes),
            written_bytes: 0,
            sent_bytes: 0,
            reserved_bytes: Some(0),
            control: None,
        }
    }

    pub(crate) fn set_job_control(&mut self, control: Arc<dyn JobControl>) {
        self.control = Some(control);
    }

    pub(crate) fn control(&self) -> Option<&Arc<dyn JobControl>> {
        self.control.as_ref()
    }

    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.control.as_ref().map_or(Ok(()), |control| control.check_cancelled())
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.written_bytes + self.bytes.len() as u64
    }

    #[inline]
    pub(crate) fn write_full_pieces(&mut self) -> Result<()> {
        if self.bytes.len() < PIECE_BYTES { Ok(()) } else { self.write_pieces() }
    }

    /// Appends a long section: it is written as it comes, so that no more than a piece of it is copied.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.bytes.len().min(PIECE_BYTES - 1);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.bytes.extend_from_slice(now);
            bytes = later;
            if !bytes.is_empty() {
                self.check_cancelled()?;
            }
            self.write_full_pieces()?;
        }
        Ok(())
    }

    #[cold]
    fn write_pieces(&mut self) -> Result<()> {
        let whole = self.bytes.len() - self.bytes.len() % PIECE_BYTES;
        self.reserve(self.written_bytes + whole as u64);
        self.write(whole)?;
        // Releases the memory that a giant value made the buffer grow to.
        self.bytes.shrink_to(2 * PIECE_BYTES);
        Ok(())
    }

    /// Writes the rest and makes the file durable; returns its length.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        if planted!(FooterAfterSync) {
            return self
                .file
                .sync_data()
                .and_then(|()| self.write(self.bytes.len()))
                .map(|()| self.written_bytes);
        }
        self.write(self.bytes.len())?;
        if self.reserved_bytes.is_some_and(|reserved| reserved > self.written_bytes) {
            self.file.set_len(self.written_bytes)?;
        }
        self.check_cancelled()?;
        self.file.sync_data()?;
        Ok(self.written_bytes)
    }

    fn write(&mut self, len: usize) -> Result<()> {
        for piece in self.bytes[..len].chunks(WRITE_BACK_BYTES as usize) {
            if len > WRITE_BACK_BYTES as usize {
                // Index and filter of a large table are appended whole.
                self.check_cancelled()?;
            }
            self.file.write_at(piece, self.written_bytes)?;
            self.written_bytes += piece.len() as u64;
            let unsent_bytes = self.written_bytes - self.sent_bytes;
            if unsent_bytes >= WRITE_BACK_BYTES {
                self.file.begin_write_back(self.sent_bytes, unsent_bytes);
                self.sent_bytes = self.written_bytes;
            }
        }
        self.bytes.drain(..len);
        Ok(())
    }

    /// Allocates space up to `end`, and some more, if the file system can.
    fn reserve(&mut self, end: u64) {
        let Some(reserved) = self.reserved_bytes.filter(|reserved| *reserved < end) else { return };
        let step = (end / RESERVED_SHARE).clamp(MIN_RESERVED_BYTES, MAX_RESERVED_BYTES).max(end - reserved);
        let is_reserved = self.file.allocate(reserved, step, true).unwrap_or(false);
        self.reserved_bytes = is_reserved.then_some(reserved + step);
    }
}
