//! Reads the log history record by record; see [`super`].

use super::{FoundSegment, Located, SegmentSource};
use crate::header_copies::HeaderCopies;
use crate::record::{LogPosition, RecordKind};
use crate::scan::{Probe, SegmentReader, Window};
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::{FileSystem, OpenMode};
use std::path::Path;
use std::sync::Arc;

/// A batch or an ingest read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Its position in the log.
    pub position: LogPosition,
    /// The segment file.
    pub path: Arc<Path>,
    /// [`RecordKind::Batch`] or [`RecordKind::Ingest`].
    pub kind: RecordKind,
    /// Its first sequence number.
    pub first_seqno: SeqNo,
    /// Its last sequence number.
    pub last_seqno: SeqNo,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Result of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryStep {
    /// The next record.
    Record(HistoryRecord),
    /// No further record up to the limit.
    UpToDate,
    /// Batches up to `oldest` are gone, and the next one is among them.
    Gone {
        /// The smallest position from which the history is complete.
        oldest: SeqNo,
    },
}

/// Reads history records in order; see the head of this file.
#[derive(Debug)]
pub struct HistoryReader {
    fs: Arc<dyn FileSystem>,
    position: SeqNo,
    at: Option<SegmentCursor>,
}

#[derive(Debug)]
struct SegmentCursor {
    log_id: LogId,
    path: Arc<Path>,
    reader: SegmentReader,
    offset: u64,
    /// The sequence number that the next record must have.
    expected: SeqNo,
    /// The buffered bytes were read when everything up to here was complete (HS4).
    trusted: SeqNo,
}

impl HistoryReader {
    /// A reader that begins after `after`.
    pub fn new(fs: Arc<dyn FileSystem>, after: SeqNo) -> HistoryReader {
        HistoryReader { fs, position: after, at: None }
    }

    /// The last sequence number returned, or the one that the reader began after.
    pub fn position(&self) -> SeqNo {
        self.position
    }

    /// The next record that ends at or before `limit`, up to which everything is complete. `locate` must
    /// belong to a hold whose position is at most this reader's.
    ///
    /// # Errors
    /// [`Error::Corruption`] where a record is missing; [`Error::Io`] from the device.
    pub fn next(&mut self, limit: SeqNo, locate: &dyn Fn(SeqNo) -> Located) -> Result<HistoryStep> {
        loop {
            if self.position >= limit {
                return Ok(HistoryStep::UpToDate);
            }
            let Some(cursor) = &mut self.at else {
                match self.open_next_segment(limit, locate)? {
                    Ok(cursor) => {
                        // Numbers between two lives may be unused: the first batch after the position begins
                        // here.
                        let before = SeqNo::new(cursor.expected.get().saturating_sub(1));
                        self.position = self.position.max(before.min(limit));
                        self.at = Some(cursor);
                    }
                    Err(step) => return Ok(step),
                }
                continue;
            };
            match cursor.step(self.position)? {
                NextRecord::Record(record, len) if record.last_seqno <= cursor.trusted => {
                    self.position = record.last_seqno;
                    cursor.pass(record.last_seqno, len);
                    return Ok(HistoryStep::Record(record));
                }
                // The buffered bytes may be older than the limit.
                _ if cursor.trusted < limit => {
                    cursor.reader.forget_bytes();
                    cursor.trusted = limit;
                }
                NextRecord::Record(..) => return Ok(HistoryStep::UpToDate),
                NextRecord::Skipped(oldest) => return Ok(HistoryStep::Gone { oldest }),
                NextRecord::Nothing(why) => {
                    let (log_id, path, offset) = (cursor.log_id, Arc::clone(&cursor.path), cursor.offset);
                    match locate(self.position) {
                        Located::In(found) if found.log_id != log_id => self.at = None,
                        Located::Gone { oldest } => return Ok(HistoryStep::Gone { oldest }),
                        Located::In(_) => return Err(missing(&path, offset, self.position, limit, &why)),
                        // Numbers that were assigned and never used, at the end of a log without writers.
                        Located::Nowhere => return Ok(HistoryStep::UpToDate),
                    }
                }
            }
        }
    }

    /// Opens the segment that holds the next batch; looks it up again if it is deleted meanwhile.
    fn open_next_segment(
        &self,
        limit: SeqNo,
        locate: &dyn Fn(SeqNo) -> Located,
    ) -> Result<Result<SegmentCursor, HistoryStep>> {
        let mut failed: Option<(LogId, Error)> = None;
        loop {
            let found = match locate(self.position) {
                Located::In(found) => found,
                Located::Gone { oldest } => return Ok(Err(HistoryStep::Gone { oldest })),
                Located::Nowhere => return Ok(Err(HistoryStep::UpToDate)),
            };
            match (SegmentCursor::open(&*self.fs, &found, limit), failed.take()) {
                (Ok(cursor), _) => return Ok(Ok(cursor)),
                (Err(error), Some((log_id, _))) if log_id == found.log_id => return Err(error),
                (Err(error), _) => failed = Some((found.log_id, error)),
            }
        }
    }
}

enum NextRecord {
    /// A record, and the bytes that it takes.
    Record(HistoryRecord, u64),
    /// The numbers up to here were never logged.
    Skipped(SeqNo),
    Nothing(String),
}

impl SegmentCursor {
    fn open(fs: &dyn FileSystem, found: &FoundSegment, limit: SeqNo) -> Result<SegmentCursor> {
        let file = match &found.source {
            SegmentSource::Open(file) => Arc::clone(file),
            SegmentSource::Path(path) => fs.open(path, OpenMode::Read)?,
        };
        let path: Arc<Path> = file.path().into();
        let mut window = Window::new(file)?;
        let copies = HeaderCopies::read(&mut window)?;
        let Some(header) = copies.valid().filter(|header| header.log_id == found.log_id) else {
            let detail =
                format!("log segment {} is expected here, and the header says otherwise", found.log_id);
            return Err(Error::corruption(&*path, 0, detail));
        };
        let (offset, expected) = (u64::from(header.data_start), header.first_seqno);
        let reader = SegmentReader::new(window, header);
        Ok(SegmentCursor { log_id: found.log_id, path, reader, offset, expected, trusted: limit })
    }

    /// Skips records up to `position`; returns the next record after it.
    fn step(&mut self, position: SeqNo) -> Result<NextRecord> {
        loop {
            let (header, payload) = match self.reader.probe(self.offset)? {
                Probe::Record { header, payload } => (header, payload),
                Probe::Nothing { reason, .. } => return Ok(NextRecord::Nothing(reason.to_string())),
            };
            let (last_seqno, len) = (header.last_seqno(), header.record_len());
            match header.kind {
                RecordKind::Mark | RecordKind::SegmentEnd
                    if header.first_seqno > self.expected && last_seqno > position =>
                {
                    return Ok(NextRecord::Skipped(last_seqno));
                }
                RecordKind::Mark if header.first_seqno > self.expected => self.pass(last_seqno, len),
                RecordKind::SegmentEnd => return Ok(NextRecord::Nothing("the segment ends".into())),
                // A Carry repeats entries that were returned from their original records.
                RecordKind::Mark | RecordKind::Carry => self.offset += len,
                RecordKind::Batch | RecordKind::Ingest => {
                    if header.first_seqno != self.expected || header.count == 0 {
                        let (found, expected) = (header.first_seqno, self.expected);
                        let detail = format!("a record begins with sequence number {found}, not {expected}");
                        return Err(Error::corruption(&*self.path, self.offset, detail));
                    }
                    if last_seqno <= position {
                        self.pass(last_seqno, len);
                        continue;
                    }
                    let record = HistoryRecord {
                        position: LogPosition::new(self.log_id, self.offset),
                        path: Arc::clone(&self.path),
                        kind: header.kind,
                        first_seqno: header.first_seqno,
                        last_seqno,
                        payload: payload.to_vec(),
                    };
                    return Ok(NextRecord::Record(record, len));
                }
            }
        }
    }

    fn pass(&mut self, last_seqno: SeqNo, len: u64) {
        self.offset += len;
        self.expected = last_seqno.plus(1);
    }
}

fn missing(path: &Path, offset: u64, position: SeqNo, limit: SeqNo, why: &str) -> Error {
    let detail = format!(
        "the batch after sequence number {position} is missing here, although everything up to {limit} is complete: {why}"
    );
    Error::corruption(path, offset, detail)
}
