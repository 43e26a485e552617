//! The file of a table while it is written: bytes collect until a call is worth it, and go to the system and
//! on to the device.
//!
//! What a call costs is not its bytes alone. The page cache of Linux keeps a file in folios, the larger the
//! better, and a write makes a folio no larger than its place is aligned and its length allows: a piece of
//! 256 KiB at a multiple of 256 KiB is one, the same piece somewhere else a dozen. And a block of the file
//! system that has a place on the device is written into with half the work of one that has to be promised
//! one first. So pieces are aligned, and places are reserved ahead.
//!
//! * OG1: pieces go out in order, without gaps, and none twice.
//! * OG2: all pieces but those of the end begin and end at multiples of [`PIECE_BYTES`].
//! * OG3: what is reserved is at most as much again as is written, or [`MAX_RESERVED_BYTES`], and what
//!   nothing was written to is given back before the file is synced. A reservation is a hint: where there is
//!   none to be had, writing tells whether there is room.
//! * OG4: of what is long, filters above all, no more than a piece is kept here beside what the caller has.

use crate::read_ahead::JobControl;
use esker_base::Result;
use esker_env::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes collected before they are written: few enough that they stay in the second-level cache from block to
/// block, enough that the calls do not count.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Bytes after which the device is told to begin: a millisecond of its work, so that little is left when the
/// file is synced, and few calls.
pub(crate) const WRITE_BACK_BYTES: u64 = 1 << 20;

/// Least and most bytes that are reserved at once.
const MIN_RESERVED_BYTES: u64 = 1 << 20;
pub(crate) const MAX_RESERVED_BYTES: u64 = 16 << 20;

/// A file that grows at its end.
#[derive(Debug)]
pub(crate) struct FileWriter {
    file: Arc<dyn File>,
    /// What was appended and not written yet.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the file written already; `bytes` follow them.
    written_bytes: u64,
    /// Bytes of the file that were sent to the device already.
    sent_bytes: u64,
    /// Bytes of the file that have a place on the device, if places can be reserved.
    reserved_bytes: Option<u64>,
    /// Who is asked between the pieces of what comes in one.
    control: Option<Arc<dyn JobControl>>,
}

impl FileWriter {
    /// The beginning of an empty file, with room for a piece and so much more.
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

    /// Whoever is asked whether to go on.
    pub(crate) fn control(&self) -> Option<&Arc<dyn JobControl>> {
        self.control.as_ref()
    }

    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.control.as_ref().map_or(Ok(()), |control| control.check_cancelled())
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where in the file the next byte comes to lie.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.written_bytes + self.bytes.len() as u64
    }

    /// Writes what there is of whole pieces.
    #[inline]
    pub(crate) fn flow(&mut self) -> Result<()> {
        if self.bytes.len() < PIECE_BYTES { Ok(()) } else { self.write_pieces() }
    }

    /// Adds what is long: it goes on to the file as it comes, so that no more than a piece of it is kept
    /// twice.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.bytes.len().min(PIECE_BYTES - 1);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.bytes.extend_from_slice(now);
            bytes = later;
            if !bytes.is_empty() {
                self.check_cancelled()?;
            }
            self.flow()?;
        }
        Ok(())
    }

    #[cold]
    fn write_pieces(&mut self) -> Result<()> {
        let whole = self.bytes.len() - self.bytes.len() % PIECE_BYTES;
        self.reserve(self.written_bytes + whole as u64);
        self.write(whole)?;
        // What a giant value made the buffer grow to is given back.
        self.bytes.shrink_to(2 * PIECE_BYTES);
        Ok(())
    }

    /// Writes the rest and makes the file durable; its length.
    pub(crate) fn finish(&mut self) -> Result<u64> {
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
                // Index and filter of a large table, which come in one.
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

    /// Sees to it that the file has places up to `end`, and some more, if that can be.
    fn reserve(&mut self, end: u64) {
        let Some(reserved) = self.reserved_bytes.filter(|reserved| *reserved < end) else { return };
        let step = end.clamp(MIN_RESERVED_BYTES, MAX_RESERVED_BYTES).max(end - reserved);
        let is_reserved = self.file.allocate(reserved, step, true).unwrap_or(false);
        self.reserved_bytes = is_reserved.then_some(reserved + step);
    }
}
