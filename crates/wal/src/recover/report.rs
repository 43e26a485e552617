//! Recovery report: where the log ended, what was dropped, and which files the new life of the log replaces.

use crate::history::{HistorySegment, KeptHistory, SegmentSummary};
use crate::record::LogPosition;
use crate::scan::StopReason;
use esker_base::{LogId, SeqNo};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Result of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segment files of this database in the directory.
    pub segments_seen: usize,
    /// Those that held a part of the log.
    pub segments_read: usize,
    /// Records returned.
    pub records: u64,
    /// Bytes of all records before the stop, marks, end records, headers and padding included.
    pub bytes: u64,
    /// Valid records behind the cut, lost with a power cut.
    pub dropped_records: u64,
    /// What was dropped and what was left alone, for the operator.
    pub warning: Option<String>,
    /// The id for the next segment: greater than every id seen.
    pub next_log_id: LogId,
    /// The greatest sequence number in any valid record, dropped ones included; zero if there is none.
    pub greatest_seqno: SeqNo,
    /// The latest header time of the read segments, in milliseconds since 1970; 0 if there is none.
    pub latest_wall_ms: u64,
    /// Where the log ended.
    pub end: LogPosition,
    /// Why it ended there; `None` if the first segment does not exist.
    pub end_reason: Option<StopReason>,
    /// Slot and path of every segment file that the new life replaces.
    pub removable: Vec<(u32, PathBuf)>,
    /// The last segment that was read, and the last sequence number before the stop, from an earlier segment
    /// if this one has no record. `None` if no segment was read.
    pub last_read: Option<(LogId, SeqNo)>,
    /// Segment files with both copies of the header damaged.
    pub damaged: Vec<PathBuf>,
    /// All segment files of this database that have a valid header, by log id.
    pub segments: BTreeMap<LogId, SegmentSummary>,
}

impl KeptHistory {
    /// Links the segments that a recovery found to the lives of the log, each given by its last segment and
    /// its last sequence number, oldest first: from the newest back to the first missing segment.
    pub fn link(report: &RecoveryReport, lives: &[(LogId, SeqNo)]) -> KeptHistory {
        let mut segments = Vec::new();
        let mut last_seqno = lives.last().map_or(SeqNo::ZERO, |(_, last)| *last);
        'lives: for &(last_log_id, end) in lives.iter().rev() {
            last_seqno = end;
            let mut log_id = last_log_id;
            loop {
                let Some(found) = report.segments.get(&log_id) else { break 'lives };
                let SegmentSummary { slot, path, size_bytes, first_seqno, prev_end } = found.clone();
                segments.push(HistorySegment { slot, path, log_id, size_bytes, first_seqno, last_seqno });
                last_seqno = SeqNo::new(first_seqno.get().saturating_sub(1)).min(last_seqno);
                if prev_end == LogPosition::ZERO || prev_end.log_id >= log_id {
                    break;
                }
                log_id = prev_end.log_id;
            }
        }
        segments.reverse();
        KeptHistory { segments, gone_upto: last_seqno, ..KeptHistory::default() }
    }
}
