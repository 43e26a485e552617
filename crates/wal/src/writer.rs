//! Write-ahead log writer: appends records to the active segment, under the engine's writers' lock.
//!
//! There is one [`LogWriter`] a database, kept behind the lock that also assigns sequence numbers. So log
//! offsets, sequence numbers and memtable inserts follow one order (CP1), offsets ascend with sequence
//! numbers (WL2), and a record is complete before the lock is released (CP3): no record is ever in flight,
//! and every record says so (`in_flight` 0).
//!
//! **What may fail where (CP5).** Before a writer takes sequence numbers it checks [`LogWriter::has_room`]
//! and rotates if needed; all failures occur there, and consume nothing. Through a mapping
//! [`LogWriter::append`] is then two copies into the page cache: no system call, no allocation, no failure.
//! Through `write` it may fail; then neither cursor nor sequence numbers have moved, the next record takes
//! the same offset, and since a record is valid only at its own offset no bytes behind that offset are
//! mistaken for one.
//!
//! **Numbers that are not logged.** The engine may write a batch to memtables alone: it takes sequence
//! numbers and no record ([`LogWriter::skip`]). Before the next record a Mark record says which numbers come
//! next, so a reader tells numbers that were never logged from a record that is missing. At the end of a
//! segment its end record says it. Room for that record is reserved by the first skip.
//!
//! **Marks.** When a flush has raised the durable position since the last mark, the next record carries the
//! new position. So recovery knows where missing data is damage and not the expected loss of a power cut. The
//! first record of a segment repeats the position, so that the next segment reveals one that lost its end.
//!
//! Rejected: reservation under the lock with copies outside of it and ordered publication. On two cores one
//! lock around everything is 1.4 to 3.3 times faster; the format has the `in_flight` field that the other
//! design needs.

use crate::file::SegmentFile;
use crate::history::Hold;
use crate::log::{END_ROOM_BYTES, Log, LogOptions, LogStart};
use crate::record::{LogPosition, RECORD_HEADER_LEN, RecordHeader, RecordKind, SegmentIdentity, record_len};
use crate::segment::DATA_START;
use crate::sync::PendingMark;
use esker_base::checksum::crc32c;
use esker_base::planted;
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::Env;
use rotation::write_header;
use std::path::Path;
use std::sync::Arc;

mod rotation;

pub use rotation::Rotation;

/// Appends records; guarded by the engine's writers' lock. See the head of this file.
#[derive(Debug)]
pub struct LogWriter {
    log: Arc<Log>,
    segment: SegmentFile,
    identity: SegmentIdentity,
    cursor: u64,
    /// The last record must end here; the end record fits behind it. Lowered while the log is shrunk.
    limit: u64,
    last_seqno: SeqNo,
    next_log_id: LogId,
    /// The durable position's count of rises at the last mark.
    marked_raises: u64,
    /// The last sequence number that was skipped; zero if none was.
    skipped_upto: SeqNo,
    /// Whether numbers were skipped since the last record; the limit is lowered by [`SKIP_RECORD_BYTES`].
    has_skipped: bool,
    records: u64,
    bytes: u64,
}

/// Bytes of the Mark record that follows skipped sequence numbers.
const SKIP_RECORD_BYTES: u64 = RECORD_HEADER_LEN as u64;

/// A count of rises that never occurs: the next record carries a mark in any case.
const MARK_ANEW: u64 = u64::MAX;

impl Log {
    /// Begins a new life of the log in `dir`, which is created if missing; the first segment is prepared and
    /// active. An existing directory must have a durable name.
    ///
    /// Files that exist already stay until [`Log::delete_old`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options out of range, [`Error::Full`] and [`Error::Io`] from the file
    /// system.
    pub fn create(
        env: &Env,
        dir: &Path,
        start: &LogStart,
        options: LogOptions,
    ) -> Result<(Arc<Log>, LogWriter)> {
        let (log, first) = Log::create_shared(env, dir, start, options)?;
        let writer = LogWriter::begin(Arc::clone(&log), first, start)?;
        Ok((log, writer))
    }
}

impl LogWriter {
    /// Makes `first` the active segment of a new life.
    pub(crate) fn begin(log: Arc<Log>, first: SegmentFile, start: &LogStart) -> Result<LogWriter> {
        let mut writer = LogWriter {
            identity: SegmentIdentity::new(start.log_id, first.salt),
            cursor: DATA_START,
            limit: first.size_bytes - END_ROOM_BYTES,
            segment: first,
            last_seqno: start.last_seqno,
            next_log_id: start.log_id.next(),
            marked_raises: log.group_sync.durable_raises(),
            skipped_upto: SeqNo::ZERO,
            has_skipped: false,
            records: 0,
            bytes: 0,
            log,
        };
        let header = writer.header_for(&writer.segment, start.log_id, LogPosition::ZERO, start.wall_ms);
        write_header(&mut writer.segment, &header)?;
        writer.log.activated(start.log_id, &writer.segment, None, start.last_seqno.plus(1));
        Ok(writer)
    }

    /// The shared part of this log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Whether appends go to mapped memory and therefore cannot fail.
    pub fn is_mapped(&self) -> bool {
        self.segment.is_mapped()
    }

    /// Whether a record with a payload of this length fits into the active segment.
    #[inline]
    pub fn has_room(&self, payload_len: usize) -> bool {
        self.cursor + record_len(payload_len, true) <= self.limit
    }

    /// Prefetches the memory of the next record's start, so that it arrives while the caller does other work.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.segment.prefetch(self.cursor);
    }

    /// Position of the next record; everything before it is complete.
    #[inline]
    pub fn position(&self) -> LogPosition {
        LogPosition::new(self.identity.log_id(), self.cursor)
    }

    /// The id of the segment that follows the active one; greater than every id that this life has used.
    pub fn next_log_id(&self) -> LogId {
        self.next_log_id
    }

    /// The last sequence number in the log.
    #[inline]
    pub fn last_seqno(&self) -> SeqNo {
        self.last_seqno
    }

    /// Records appended since the log was opened, end records included.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes appended since the log was opened, headers and padding included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a batch whose entries have the sequence numbers from `first_seqno` on; `payload_crc` is the
    /// crc32c of `payload`. Returns the record's position.
    ///
    /// The caller has checked [`LogWriter::has_room`] and passes rising sequence numbers.
    ///
    /// # Errors
    /// Through a mapping, none but [`Error::Internal`] for a caller that did not check the room. Through
    /// positioned writes, [`Error::Full`] or [`Error::Io`]: nothing is consumed, the same sequence numbers
    /// may be used again.
    #[inline]
    pub fn append(
        &mut self,
        first_seqno: SeqNo,
        count: u32,
        payload: &[u8],
        payload_crc: u32,
    ) -> Result<LogPosition> {
        debug_assert!(first_seqno > self.last_seqno, "sequence numbers must rise (WL2)");
        debug_assert!(count > 0, "a batch consumes sequence numbers");
        debug_assert_eq!(payload_crc, crc32c(payload), "the checksum is not the payload's");
        if !self.has_room(payload.len()) {
            return Err(self.no_room(payload.len()));
        }
        if self.has_skipped {
            self.append_skip()?;
        }
        let pending = self.pending_mark();
        self.append_record(RecordKind::Batch, first_seqno, count, payload, payload_crc, pending)
    }

    /// Appends an Ingest record, which takes the sequence number `seqno`; `payload` is the output of
    /// [`Ingest::encode`]. Returns the record's position.
    ///
    /// The caller has checked [`LogWriter::has_room`] and passes rising sequence numbers.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    ///
    /// [`Ingest::encode`]: crate::batch::Ingest::encode
    pub fn append_ingest(&mut self, seqno: SeqNo, payload: &[u8]) -> Result<LogPosition> {
        debug_assert!(seqno > self.last_seqno, "sequence numbers must rise (WL2)");
        if !self.has_room(payload.len()) {
            return Err(self.no_room(payload.len()));
        }
        if self.has_skipped {
            self.append_skip()?;
        }
        let pending = self.pending_mark();
        self.append_record(RecordKind::Ingest, seqno, 1, payload, crc32c(payload), pending)
    }

    /// Passes over the `count` sequence numbers from `first_seqno` on, which get no record: recovery does not
    /// return them. Not while [`LogWriter::is_followed`]: a reader would miss them.
    pub fn skip(&mut self, first_seqno: SeqNo, count: u32) {
        debug_assert!(first_seqno > self.last_seqno, "sequence numbers must rise (WL2)");
        if !self.has_skipped {
            self.has_skipped = true;
            self.limit -= SKIP_RECORD_BYTES;
        }
        self.last_seqno = SeqNo::new(first_seqno.get() + u64::from(count) - 1);
        self.skipped_upto = self.last_seqno;
    }

    /// Whether a reader of the history needs every number from now on in the log.
    pub fn is_followed(&self) -> bool {
        self.log.has_holds()
    }

    /// As [`Log::hold`], where sequence numbers may have been skipped: under the writers' lock none is
    /// skipped between the check and the registration.
    ///
    /// # Errors
    /// As [`Log::hold`].
    pub fn hold(&self, after: SeqNo, name: Option<Arc<str>>, since_ns: u64) -> Result<Arc<Hold>, SeqNo> {
        self.log.note_gone(self.skipped_upto);
        self.log.hold(after, name, since_ns)
    }

    /// Tells readers that the numbers before the next record were skipped.
    #[cold]
    fn append_skip(&mut self) -> Result<()> {
        self.append_record(RecordKind::Mark, self.last_seqno.plus(1), 0, &[], crc32c(&[]), None)?;
        self.end_skip();
        Ok(())
    }

    fn end_skip(&mut self) {
        if std::mem::take(&mut self.has_skipped) {
            self.limit += SKIP_RECORD_BYTES;
        }
    }

    /// Appends a record that holds only a mark, if there is a durable position to record and room for it;
    /// `true` if it did. For a log that is about to be closed or idle, where no later record would carry it.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn append_mark(&mut self) -> Result<bool> {
        let pending = self.pending_mark();
        if !self.has_room(0) || pending.is_none() {
            return Ok(false);
        }
        self.append_record(RecordKind::Mark, self.last_seqno.plus(1), 0, &[], crc32c(&[]), pending)?;
        self.end_skip();
        Ok(true)
    }

    /// Bytes of the active segment's file.
    pub fn segment_bytes(&self) -> u64 {
        self.segment.size_bytes
    }

    /// Shrinks an idle log until [`LogWriter::grow`]: no segments are prepared or recycled, and
    /// [`Log::delete_surplus`] deletes the Ready ones. The limit in the active segment is halved, so that a
    /// writer that reaches it grows the log again early. `true` if the log was not shrunk before.
    pub fn shrink(&mut self) -> bool {
        let begins = !self.log.set_shrunk(true);
        if begins {
            // The limit may be just below the cursor, where numbers were skipped behind the last record.
            self.limit = self.cursor + self.limit.saturating_sub(self.cursor) / 2;
        }
        begins
    }

    /// Ends the shrunk state: restores the active segment's limit and preparation. `true` if it was shrunk.
    pub fn grow(&mut self) -> bool {
        let was_shrunk = self.log.set_shrunk(false);
        if was_shrunk {
            self.limit = self.segment.size_bytes - END_ROOM_BYTES;
            self.limit -= if self.has_skipped { SKIP_RECORD_BYTES } else { 0 };
        }
        was_shrunk
    }

    /// Appends at the cursor; the caller has checked the room.
    #[inline]
    fn append_record(
        &mut self,
        kind: RecordKind,
        first_seqno: SeqNo,
        count: u32,
        payload: &[u8],
        payload_crc: u32,
        pending: Option<PendingMark>,
    ) -> Result<LogPosition> {
        let header = RecordHeader {
            payload_crc,
            payload_len: payload.len() as u32,
            first_seqno,
            count,
            kind,
            in_flight: 0,
            mark: pending.map(|mark| mark.position),
        };
        let start = self.position();
        let encoded = header.encode(&self.identity, self.cursor);
        let written = self.segment.write_record(self.cursor, encoded.as_bytes(), payload);
        let len = header.record_len();
        self.cursor += if planted!(GapAfterFailedWrite) && written.is_err() { len } else { 0 };
        written?;
        self.cursor += len;
        self.bytes += len;
        self.records += 1;
        self.last_seqno = header.last_seqno();
        if let Some(mark) = pending {
            self.marked_raises = mark.durable_raises;
        }
        Ok(start)
    }

    /// The durable position, if no record carries it yet.
    #[inline]
    fn pending_mark(&self) -> Option<PendingMark> {
        if self.log.group_sync.durable_raises() == self.marked_raises {
            return None;
        }
        self.log.group_sync.try_pending_mark()
    }

    #[cold]
    fn no_room(&self, payload_len: usize) -> Error {
        Error::internal(format!(
            "a record of {payload_len} bytes was appended at {} without checking for room",
            self.position()
        ))
    }
}
