//! Log rotation: closes the active segment and continues in the next one.
//!
//! The order: pop a Ready segment; store both copies of its header; store the end record, which names the new
//! segment, at the old cursor (its bytes are always reserved); switch. In the other order a process killed
//! between the two would leave an end record that names a segment without a header, and recovery takes that
//! for damage. Without power loss a reader after the death of this process sees stores to the page cache in
//! program order, so a compiler fence suffices.

use super::{LogWriter, MARK_ANEW};
use crate::file::SegmentFile;
use crate::log::{END_ROOM_BYTES, PrivateSegment};
use crate::record::{LogPosition, RecordKind, SegmentIdentity};
use crate::segment::{DATA_START, HEADER_OFFSETS, SegmentHeader};
use esker_base::checksum::crc32c;
use esker_base::{Error, LogId, Result};
use std::sync::atomic::{Ordering, compiler_fence};

/// Result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The log continues in this segment.
    Done(LogId),
    /// No segment is Ready: release the lock and call [`Log::wait_ready`](crate::Log::wait_ready).
    NoneReady,
}

impl LogWriter {
    /// Continues in the next Ready segment. `wall_ms` is the wall clock in milliseconds since 1970.
    ///
    /// # Errors
    /// Only without a mapping: [`Error::Full`] or [`Error::Io`]; the active segment stays.
    pub fn rotate(&mut self, wall_ms: u64) -> Result<Rotation> {
        let Some(mut next) = self.log.take_ready() else { return Ok(Rotation::NoneReady) };
        match self.switch_to(&mut next, wall_ms) {
            Ok(log_id) => {
                self.adopt(next, log_id);
                Ok(Rotation::Done(log_id))
            }
            Err(error) => {
                self.log.give_back(next);
                Err(error)
            }
        }
    }

    /// Continues in a segment that was prepared for one large record.
    ///
    /// # Errors
    /// As [`LogWriter::rotate`]; the private segment can be tried again or dropped.
    pub fn rotate_to_private(&mut self, private: &mut PrivateSegment, wall_ms: u64) -> Result<LogId> {
        let used = || Error::internal("a private log segment was used twice");
        let mut next = private.take().ok_or_else(used)?;
        match self.switch_to(&mut next, wall_ms) {
            Ok(log_id) => {
                self.adopt(next, log_id);
                Ok(log_id)
            }
            Err(error) => {
                private.restore(next);
                Err(error)
            }
        }
    }

    /// Stores the new segment's header, then the end record that leads to it.
    fn switch_to(&mut self, next: &mut SegmentFile, wall_ms: u64) -> Result<LogId> {
        // Consumed even if a store fails below: a second attempt needs a greater id, because the two copies
        // of the header may then be of different attempts and the greater id counts.
        let log_id = self.next_log_id;
        self.next_log_id = log_id.next();
        let header = self.header_for(next, log_id, self.position(), wall_ms);
        write_header(next, &header)?;
        compiler_fence(Ordering::SeqCst);
        let payload = log_id.get().to_le_bytes();
        let first_seqno = self.last_seqno.plus(1);
        let pending = self.pending_mark();
        self.append_record(RecordKind::SegmentEnd, first_seqno, 0, &payload, crc32c(&payload), pending)?;
        Ok(log_id)
    }

    /// Makes `next` the active segment and the one before it a closed one.
    fn adopt(&mut self, next: SegmentFile, log_id: LogId) {
        self.identity = SegmentIdentity::new(log_id, next.salt);
        self.cursor = DATA_START;
        self.limit = next.size_bytes - END_ROOM_BYTES;
        // The end record that led here and the new header say which number comes next.
        self.has_skipped = false;
        self.marked_raises = MARK_ANEW;
        let closed = std::mem::replace(&mut self.segment, next);
        self.log.activated(log_id, &self.segment, Some(closed), self.last_seqno.plus(1));
    }

    pub(super) fn header_for(
        &self,
        segment: &SegmentFile,
        log_id: LogId,
        prev_end: LogPosition,
        wall_ms: u64,
    ) -> SegmentHeader {
        SegmentHeader {
            data_start: DATA_START as u32,
            db_uuid: self.log.db_uuid,
            log_id,
            salt: segment.salt,
            size_bytes: segment.size_bytes,
            prev_end,
            first_seqno: self.last_seqno.plus(1),
            manifest_edit: self.log.manifest_edit(),
            boot_id: self.log.boot_id,
            wall_ms,
            replaces_upto: LogId(0),
        }
    }
}

/// Stores both copies of a segment's header.
pub(super) fn write_header(segment: &mut SegmentFile, header: &SegmentHeader) -> Result<()> {
    let bytes = header.encode();
    for offset in HEADER_OFFSETS {
        segment.write(offset, &bytes)?;
    }
    Ok(())
}
