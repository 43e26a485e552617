//! Live segments: those with records that no durable manifest has made unnecessary, oldest first.
//!
//! The last one is the active one, into which the [`LogWriter`](crate::LogWriter) appends; the others are
//! closed. A flush syncs those before its position that no earlier flush has covered.

use crate::file::SegmentFile;
use crate::history::{HistorySegment, Located};
use crate::record::LogPosition;
use esker_base::{LogId, SeqNo};
use esker_env::File;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct LiveSegments(VecDeque<LiveSegment>);

#[derive(Debug)]
struct LiveSegment {
    log_id: LogId,
    /// No batch in it has a smaller sequence number.
    first_seqno: SeqNo,
    size_bytes: u64,
    sync_file: Arc<dyn File>,
    /// The file once it is closed; the writer owns it while it is active.
    closed: Option<SegmentFile>,
    /// Whether a flush that began after it was closed has succeeded.
    synced: bool,
}

/// A segment that a flush has to sync.
#[derive(Debug)]
pub(super) struct UnsyncedSegment {
    pub(super) log_id: LogId,
    pub(super) file: Arc<dyn File>,
    /// Whether no record follows in it, so that one sync is enough.
    pub(super) is_closed: bool,
}

impl LiveSegments {
    /// Adds a new active segment; `closed` is the file of the one before it.
    pub(super) fn activate(
        &mut self,
        log_id: LogId,
        segment: &SegmentFile,
        closed: Option<SegmentFile>,
        first_seqno: SeqNo,
    ) {
        if let Some(last) = self.0.back_mut() {
            last.closed = closed;
        }
        self.0.push_back(LiveSegment {
            log_id,
            first_seqno,
            size_bytes: segment.size_bytes,
            sync_file: segment.sync_file.clone(),
            closed: None,
            synced: false,
        });
    }

    /// Takes out the oldest segment if it is closed and has an id below `min_log_id`.
    pub(super) fn pop_closed_below(&mut self, min_log_id: LogId) -> Option<(SegmentFile, HistorySegment)> {
        // The active segment is not closed, so a closed segment has a follower.
        let follower_first = self.0.get(1)?.first_seqno;
        let oldest = self.0.front_mut()?;
        if oldest.log_id >= min_log_id {
            return None;
        }
        let segment = oldest.closed.take()?;
        let history = HistorySegment {
            slot: segment.slot,
            path: segment.path.clone(),
            log_id: oldest.log_id,
            size_bytes: segment.size_bytes,
            first_seqno: oldest.first_seqno,
            last_seqno: SeqNo::new(follower_first.get().saturating_sub(1)),
        };
        self.0.pop_front();
        Some((segment, history))
    }

    /// The segments with unsynced bytes before `position`, oldest first.
    pub(super) fn unsynced_before(&self, position: LogPosition) -> Vec<UnsyncedSegment> {
        let unsynced = self.0.iter().filter(|live| live.log_id <= position.log_id && !live.synced);
        let unsynced = unsynced.map(|live| UnsyncedSegment {
            log_id: live.log_id,
            file: live.sync_file.clone(),
            is_closed: live.closed.is_some(),
        });
        unsynced.collect()
    }

    /// Notes that a closed segment needs no further sync.
    pub(super) fn mark_synced(&mut self, log_id: LogId) {
        if let Some(live) = self.0.iter_mut().find(|live| live.log_id == log_id) {
            live.synced = true;
        }
    }

    /// The segment with the first batch after `after`.
    pub(super) fn locate(&self, after: SeqNo) -> Located {
        let followers = self.0.iter().skip(1).map(|follower| Some(follower.first_seqno)).chain([None]);
        let mut pairs = self.0.iter().zip(followers);
        let found = pairs.find(|(_, follower)| follower.is_none_or(|first| first > after.plus(1)));
        found.map_or(Located::Nowhere, |(live, _)| Located::live(live.log_id, &live.sync_file))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.0.iter().map(|live| live.size_bytes).sum()
    }

    pub(super) fn oldest(&self) -> Option<LogId> {
        self.0.front().map(|live| live.log_id)
    }
}
