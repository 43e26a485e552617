//! Segment inspection: dumps one segment file for debugging.
//!
//! It needs only the file and judges nothing: both copies of the header, every record up to the first offset
//! without a valid one, and why that offset has none.

use crate::header_copies::HeaderCopies;
use crate::record::{LogPosition, RecordHeader, RecordKind, decode_segment_end};
use crate::scan::{Probe, SegmentReader, StopReason, Window};
use crate::segment::SegmentHeader;
use esker_base::{LogId, Result, SeqNo};
use esker_env::{FileSystem, OpenMode};
use std::path::Path;

/// Walks the records of a segment file.
#[derive(Debug)]
pub struct SegmentInspector {
    copies: HeaderCopies,
    /// `None` if no copy of the header is valid: records cannot be recognised without salt and id.
    reader: Option<SegmentReader>,
    offset: u64,
    stop: Option<InspectionEnd>,
}

/// A record, or at least the header of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectedRecord {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes up to the next record.
    pub record_len: u64,
    /// Bytes of its payload.
    pub payload_len: u32,
    /// The kind of its payload.
    pub kind: RecordKind,
    /// Its first sequence number.
    pub first_seqno: SeqNo,
    /// Sequence numbers consumed.
    pub count: u32,
    /// Records before it that may have been incomplete.
    pub in_flight: u16,
    /// The durable position that it carries.
    pub mark: Option<LogPosition>,
    /// Whether the payload is whole and matches its checksum; the header's always matches.
    pub payload_valid: bool,
    /// The segment that an end record names.
    pub next_log_id: Option<LogId>,
}

/// Where and why an inspection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectionEnd {
    /// The offset without a valid record.
    pub offset: u64,
    /// Why; `None` after an end record.
    pub reason: Option<StopReason>,
}

impl SegmentInspector {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`]. A file without a valid header opens; [`SegmentInspector::copies`] tells
    /// what is wrong with each copy.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> Result<SegmentInspector> {
        let mut window = Window::new(fs.open(path, OpenMode::Read)?)?;
        let copies = HeaderCopies::read(&mut window)?;
        let offset = copies.valid().map_or(0, |header| u64::from(header.data_start));
        let reader = copies.valid().map(|header| SegmentReader::new(window, header));
        Ok(SegmentInspector { copies, reader, offset, stop: None })
    }

    /// Both copies of the header.
    pub fn copies(&self) -> &HeaderCopies {
        &self.copies
    }

    /// The copy in force.
    pub fn header(&self) -> Option<&SegmentHeader> {
        self.copies.valid()
    }

    /// The next record; `None` at the end, for which [`SegmentInspector::stop`] returns the reason. A record
    /// whose payload is damaged is returned, too, as the last one.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`]; [`esker_base::Error::Unsupported`] for a record kind that this version does
    /// not know.
    pub fn next_record(&mut self) -> Result<Option<InspectedRecord>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        if self.stop.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        let (header, payload, reason) = match reader.probe(offset)? {
            Probe::Record { header, payload } => (header, payload, None),
            Probe::Nothing { reason, header } => {
                self.stop = Some(InspectionEnd { offset, reason: Some(reason) });
                let Some(header) = header else { return Ok(None) };
                (header, [].as_slice(), Some(reason))
            }
        };
        let record = inspected(offset, &header, payload, reason.is_none());
        if reason.is_none() {
            self.offset += header.record_len();
            if header.kind == RecordKind::SegmentEnd {
                self.stop = Some(InspectionEnd { offset: self.offset, reason: None });
            }
        }
        Ok(Some(record))
    }

    /// Where and why the inspection ended; `None` while it has not, and for a file without a valid header.
    pub fn stop(&self) -> Option<InspectionEnd> {
        self.stop
    }
}

fn inspected(offset: u64, header: &RecordHeader, payload: &[u8], payload_valid: bool) -> InspectedRecord {
    let ends = header.kind == RecordKind::SegmentEnd;
    InspectedRecord {
        offset,
        record_len: header.record_len(),
        payload_len: header.payload_len,
        kind: header.kind,
        first_seqno: header.first_seqno,
        count: header.count,
        in_flight: header.in_flight,
        mark: header.mark,
        payload_valid,
        next_log_id: if ends { decode_segment_end(payload) } else { None },
    }
}
