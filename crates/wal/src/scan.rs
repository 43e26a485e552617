//! Segment reader: parses records out of one segment file through a buffered window.
//!
//! Everything is read by positioned reads into one buffer, so this serves a read-only open and damaged or
//! truncated files as well. A device error is an error, never the end of the log. An invalid record is a
//! [`StopReason`]; [`mod@crate::recover`] decides what it means.

use crate::record::{HeaderFault, MARK_LEN, RECORD_ALIGN, RECORD_HEADER_LEN, RecordHeader, SegmentIdentity};
use crate::segment::SegmentHeader;
use esker_base::checksum::crc32c;
use esker_base::planted;
use esker_base::{Error, Result};
use esker_env::File;
use std::fmt;
use std::sync::Arc;

const READ_BYTES: u64 = 1 << 20;
/// First read of a file of which usually only the header is needed.
const HEADER_READ_BYTES: u64 = 4 << 10;
/// First read after [`Window::forget`], for a reader that follows the writers. Further reads double it.
const FIRST_READ_BYTES: u64 = 16 << 10;

/// The part of a file that is in memory; moves forward on demand.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    file_len: u64,
    start: u64,
    buffer: Vec<u8>,
    read_bytes: u64,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn File>) -> Result<Window> {
        let file_len = file.len()?;
        Ok(Window { file, file_len, start: 0, buffer: Vec::new(), read_bytes: READ_BYTES })
    }

    /// A window for the header: opening a database waits until the headers of all segments are read.
    pub(crate) fn on_header(file: Arc<dyn File>) -> Result<Window> {
        Ok(Window { read_bytes: HEADER_READ_BYTES, ..Window::new(file)? })
    }

    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The bytes from `offset`, at least `least` of them unless the file ends before.
    ///
    /// Memory is bounded by the file's length, whatever a damaged length field says.
    pub(crate) fn bytes(&mut self, offset: u64, least: u64) -> Result<&[u8]> {
        let end = offset.saturating_add(least).min(self.file_len);
        let held = self.start + self.buffer.len() as u64;
        if offset < self.start || end > held || offset > held {
            self.load(offset, least)?;
        }
        let from = (offset - self.start).min(self.buffer.len() as u64) as usize;
        Ok(&self.buffer[from..])
    }

    /// Drops the buffer, so that the next bytes come from the file.
    fn forget(&mut self) {
        self.buffer.clear();
        self.read_bytes = FIRST_READ_BYTES;
    }

    fn load(&mut self, offset: u64, least: u64) -> Result<()> {
        let wanted = least.max(self.read_bytes).min(self.file_len.saturating_sub(offset));
        let len = usize::try_from(wanted).map_err(|_| {
            Error::invalid(format!("{} is too large for this machine", self.file.path().display()))
        })?;
        self.start = offset;
        self.buffer.resize(len, 0);
        let read = self.file.read_at(&mut self.buffer, offset)?;
        self.buffer.truncate(read);
        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES);
        Ok(())
    }
}

/// Why there is no valid record of a segment's present life at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The segment has no room for another record.
    SegmentFull,
    /// The record header is invalid.
    Header(HeaderFault),
    /// A valid header, but the record reaches past the end of the file or of the segment.
    CutOff {
        /// Bytes that the record takes with its header.
        record_len: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// The header is valid, but the payload does not match its checksum.
    PayloadChecksum {
        /// Stored in the header.
        stored: u32,
        /// Computed from the payload.
        computed: u32,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::SegmentFull => f.write_str("the segment ends without an end record"),
            StopReason::Header(fault) => fault.fmt(f),
            StopReason::CutOff { record_len, available } => {
                write!(f, "a record of {record_len} bytes, {available} are left in the segment")
            }
            StopReason::PayloadChecksum { stored, computed } => {
                write!(f, "payload checksum {stored:#010x} stored, {computed:#010x} computed")
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum Probe<'a> {
    /// A record with valid checksums.
    Record { header: RecordHeader, payload: &'a [u8] },
    /// No valid record; the header, if at least that is valid.
    Nothing { reason: StopReason, header: Option<RecordHeader> },
}

#[derive(Debug)]
pub(crate) struct SegmentReader {
    window: Window,
    identity: SegmentIdentity,
    end: u64,
}

impl SegmentReader {
    pub(crate) fn new(window: Window, header: &SegmentHeader) -> SegmentReader {
        let end = header.size_bytes.min(window.file_len());
        SegmentReader { window, identity: header.identity(), end }
    }

    /// Reads the record that starts at `offset`.
    ///
    /// # Errors
    /// [`Error::Io`] from the device; [`Error::Unsupported`] or [`Error::Corruption`] for an intact header
    /// with contents that this version does not know or no version writes.
    pub(crate) fn probe(&mut self, offset: u64) -> Result<Probe<'_>> {
        let available = self.end.saturating_sub(offset);
        if available < RECORD_HEADER_LEN as u64 {
            return Ok(Probe::Nothing { reason: StopReason::SegmentFull, header: None });
        }
        let head_len = (available as usize).min(RECORD_HEADER_LEN + MARK_LEN);
        let bytes = self.window.bytes(offset, head_len as u64)?;
        let bytes = bytes.get(..head_len).unwrap_or(bytes);
        let header = match RecordHeader::decode(bytes, &self.identity, offset) {
            Ok(header) => header,
            Err(fault @ (HeaderFault::Unknown { .. } | HeaderFault::Impossible(_))) => {
                return Err(self.fault_error(offset, fault));
            }
            Err(fault) => return Ok(Probe::Nothing { reason: StopReason::Header(fault), header: None }),
        };
        let record_len = header.encoded_len() as u64 + u64::from(header.payload_len);
        if record_len > available {
            let reason = StopReason::CutOff { record_len, available };
            return Ok(Probe::Nothing { reason, header: Some(header) });
        }
        let bytes = self.window.bytes(offset, record_len)?;
        let Some(payload) = bytes.get(header.encoded_len()..record_len as usize) else {
            // The file became shorter after its length was read.
            let reason = StopReason::CutOff { record_len, available: bytes.len() as u64 };
            return Ok(Probe::Nothing { reason, header: Some(header) });
        };
        let computed = crc32c(payload);
        if computed != header.payload_crc && !planted!(AppliesTornBatch) {
            let reason = StopReason::PayloadChecksum { stored: header.payload_crc, computed };
            return Ok(Probe::Nothing { reason, header: Some(header) });
        }
        Ok(Probe::Record { header, payload })
    }

    pub(crate) fn forget_bytes(&mut self) {
        self.window.forget();
    }

    /// The next offset where the low half of the log id matches: a cheap filter. `None` up to the end.
    pub(crate) fn next_candidate(&mut self, from: u64) -> Result<Option<u64>> {
        let wanted = self.identity.log_id().get() as u32;
        let mut at = from.next_multiple_of(RECORD_ALIGN);
        while at + RECORD_HEADER_LEN as u64 <= self.end {
            let least = READ_BYTES.min(self.end - at);
            let bytes = self.window.bytes(at, least)?;
            let bytes = &bytes[..bytes.len().min(least as usize)];
            // The id is the upper half of the second word of a header.
            let words = bytes.chunks_exact(8).skip(1);
            let hit = words.map(upper_half).position(|upper| upper == wanted);
            if let Some(index) = hit {
                return Ok(Some(at + index as u64 * RECORD_ALIGN));
            }
            // The last word was tested as a second word only; the next round begins with it as a first one.
            let passed = (bytes.len() as u64 / RECORD_ALIGN).saturating_sub(1) * RECORD_ALIGN;
            if passed == 0 {
                break;
            }
            at += passed;
        }
        Ok(None)
    }

    fn fault_error(&self, offset: u64, fault: HeaderFault) -> Error {
        let path = self.window.file.path();
        if matches!(fault, HeaderFault::Unknown { .. }) {
            return Error::Unsupported(format!("{} byte {offset}: {fault}", path.display()).into());
        }
        Error::corruption(path, offset, fault.to_string())
    }
}

#[inline]
fn upper_half(word: &[u8]) -> u32 {
    u32::from_le_bytes([word[4], word[5], word[6], word[7]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::fault::StrictFs;
    use esker_env::{FileSystem, OpenMode};
    use std::path::Path;

    #[test]
    fn a_window_on_the_header_reads_a_page_and_then_more() {
        let fs = StrictFs::new();
        let file = fs.open(Path::new("/segment"), OpenMode::CreateNew).unwrap();
        file.write_at(&vec![7; 3 << 20], 0).unwrap();
        let mut window = Window::on_header(file.clone()).unwrap();
        assert_eq!(window.bytes(0, 100).unwrap().len() as u64, HEADER_READ_BYTES);
        assert_eq!(window.bytes(HEADER_READ_BYTES, 100).unwrap().len() as u64, 2 * HEADER_READ_BYTES);
        assert_eq!(window.bytes(0, 1 << 20).unwrap().len() as u64, 1 << 20);
        assert_eq!(Window::new(file).unwrap().bytes(0, 100).unwrap().len() as u64, READ_BYTES);
    }
}
