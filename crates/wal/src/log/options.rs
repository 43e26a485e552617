//! Options of the log, its limits, and where a new life of it starts.

use crate::history::KeptHistory;
use esker_base::{Error, LogId, Result, SeqNo};

/// Bytes that are always free at the end of a segment: an end record with a mark takes 56 bytes.
pub(crate) const END_ROOM_BYTES: u64 = 64;
/// Smallest segment: header page and one page of records.
const MIN_SEGMENT_BYTES: u64 = 8 << 10;
/// Largest segment that is not a private one.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// Segment sizes are multiples of this.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Limit for the first segment of a life and for the segments of a shrunk log. Opening a database waits for
/// the first segment: where extents cannot be allocated it is filled with zeros, and 16 MiB of them take some
/// 40 ms. Later segments are prepared in the background.
pub const SMALL_SEGMENT_BYTES: u64 = 256 << 10;

/// Options of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment file: a multiple of 4096 from 8 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Write segments through memory maps if the file system is known to allow it, else by positioned writes.
    pub mapped: bool,
    /// Most released segments that are kept for reuse.
    pub kept_segments: usize,
    /// Most bytes of released segments that are retained for change-stream readers.
    pub history_limit_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 16 << 20, mapped: true, kept_segments: 8, history_limit_bytes: 1 << 30 }
    }
}

impl LogOptions {
    pub(super) fn check(&self) -> Result<()> {
        let size = self.segment_bytes;
        if (MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&size) && size.is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "log segments of {size} bytes: the size must be a multiple of {PAGE_BYTES} \
             from {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
        )))
    }
}

/// Where a new life of the log starts: one open of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The database that the log belongs to.
    pub db_uuid: [u8; 16],
    /// The id of the first segment: greater than every id seen so far (RC3).
    pub log_id: LogId,
    /// The last sequence number assigned so far, discarded ones included (RC3).
    pub last_seqno: SeqNo,
    /// The last durable edit of the manifest.
    pub manifest_edit: u64,
    /// Wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Retained segments of earlier lives.
    pub history: KeptHistory,
}
