//! Log history: segments retained for change-stream readers beyond what recovery needs.
//!
//! Recovery needs the log from the manifest's oldest id on. A reader of the change stream may be further
//! behind: because it reads slowly, or because a named consumer was not connected for a while. So a segment
//! that recovery no longer needs is *released* ([`crate::Log::release_below`]) and then either recycled or
//! *kept* here.
//!
//! # Words
//! A *hold* ([`Hold`]; PostgreSQL calls it a replication slot) is a reader's position: all changes up to a
//! sequence number are consumed, everything after it must be retained. A running stream has one, and each
//! named consumer while the database is open. The *floor* is the smallest position of all holds. The history
//! is *gone* up to a sequence number: batches up to there are no longer available.
//!
//! # Invariants
//!
//! * **HS1** A segment with a batch after the floor is not recycled: on release it is kept, unmapped, under
//!   its name. A kept segment never becomes a Ready one; it is deleted when no hold needs it. So no reader
//!   reads a segment that is being overwritten. The decision is made under the pool's lock, under which holds
//!   are registered, too; positions move without a lock, and only forward.
//! * **HS2** The available history is a suffix without holes: the oldest segment goes first, and the
//!   gone-up-to number moves with it, under one lock. A position before that number gets "gone", never the
//!   batches after a hole.
//! * **HS3** Kept segments take at most `history_limit_bytes`. Past the limit the oldest are deleted, and
//!   holds that needed them are *cut off*: they retain nothing any more, because a reader that has lost a
//!   part cannot use the rest.
//! * **HS4** A reader returns a record only if its bytes were read after the limit that covers it was known:
//!   an offset can hold a whole record that was never published, where a write failed and the next one took
//!   its place.
//! * **HS5** A record is accepted only with the checksum that binds it to this life of its segment, and only
//!   if its number follows the one before. A missing record is damage, never the end of the stream. Numbers
//!   that the writer skipped ([`crate::LogWriter::skip`]) are named by the next Mark record: to a reader
//!   before them they are gone. None is skipped while there is a hold.
//! * Across a reopen (HS6): an earlier life's segments count up to the last sequence number that its
//!   recovery accepted, which the manifest stores; records behind that are void. The engine makes the
//!   segments durable before the open's commit point, and with consumers it makes the log durable before a
//!   table counts as flushed. So a write that survived a crash in a table is also in the history.
//!
//! # Design
//! A stream finds its segment by sequence number instead of following end records: whenever the bytes at its
//! cursor are not a record, it looks up the segment that holds the next number. That one lookup covers the
//! end of a segment, the border between two lives, a segment that was recycled after the reader had read all
//! of it, and history that is gone.
//!
//! Rejected: copying the log into separate files for consumers (writes everything twice); hard links
//! (segments are recycled in place); renaming kept segments (a rename is not durable until its directory is,
//! one more state to recover from).

mod reader;

pub use reader::{HistoryReader, HistoryRecord, HistoryStep};

use crate::record::LogPosition;
use esker_base::{LogId, SeqNo};
use esker_env::File;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// A segment that is kept for change-stream readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySegment {
    /// The slot number.
    pub slot: u32,
    /// The segment file.
    pub path: PathBuf,
    /// Which part of the log it holds.
    pub log_id: LogId,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// No batch in it has a smaller sequence number.
    pub first_seqno: SeqNo,
    /// No accepted batch in it has a greater sequence number.
    pub last_seqno: SeqNo,
}

/// The fields of a segment header that the history needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The slot number.
    pub slot: u32,
    /// The segment file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// The next sequence number when it was begun.
    pub first_seqno: SeqNo,
    /// Position of the end record that leads to it; zero for the first segment of a life.
    pub prev_end: LogPosition,
}

/// The history that an open finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptHistory {
    /// Oldest first, without a hole.
    pub segments: Vec<HistorySegment>,
    /// Batches up to here are no longer available.
    pub gone_upto: SeqNo,
    /// Recovery needs the segments from this one on, whatever the history needs.
    pub needed_from: LogId,
}

impl KeptHistory {
    /// No history; batches up to `gone_upto` are not available.
    pub fn none(gone_upto: SeqNo) -> KeptHistory {
        KeptHistory { gone_upto, ..KeptHistory::default() }
    }

    /// Drops the segments that hold nothing after `floor`.
    pub fn drop_segments_through(&mut self, floor: SeqNo) {
        let dropped = self.segments.iter().take_while(|segment| segment.last_seqno <= floor).count();
        for segment in self.segments.drain(..dropped) {
            self.gone_upto = self.gone_upto.max(segment.last_seqno);
        }
    }

    /// The lives in `among` that the segments belong to, oldest first.
    pub fn lives(&self, among: &[(LogId, SeqNo)]) -> Vec<(LogId, SeqNo)> {
        let first = self.segments.first().map(|segment| segment.log_id);
        let is_kept = |life: &&(LogId, SeqNo)| first.is_some_and(|first| life.0 >= first);
        among.iter().filter(is_kept).copied().collect()
    }

    /// Bytes of the segments with a batch after `seqno` that recovery does not need.
    pub fn kept_bytes_after(&self, seqno: SeqNo) -> u64 {
        let beyond = self.segments.iter().filter(|segment| segment.log_id < self.needed_from);
        beyond.filter(|segment| segment.last_seqno > seqno).map(|segment| segment.size_bytes).sum()
    }

    /// The segment that holds the first batch after `after`.
    pub fn locate(&self, after: SeqNo) -> Located {
        if after < self.gone_upto {
            return Located::Gone { oldest: self.gone_upto };
        }
        match self.segments.iter().find(|segment| segment.last_seqno > after) {
            Some(segment) => Located::kept(segment),
            None => Located::Nowhere,
        }
    }
}

/// A reader's position in the history; see the head of this file. Dropping it ends the hold.
#[derive(Debug)]
pub struct Hold {
    name: Option<Arc<str>>,
    since_ns: u64,
    position: AtomicU64,
    is_cut_off: AtomicBool,
    /// The number of holds of the log.
    count: Arc<AtomicUsize>,
}

impl Hold {
    pub(crate) fn new(after: SeqNo, name: Option<Arc<str>>, since_ns: u64, count: Arc<AtomicUsize>) -> Hold {
        count.fetch_add(1, Ordering::AcqRel);
        let (position, is_cut_off) = (AtomicU64::new(after.get()), AtomicBool::new(false));
        Hold { name, since_ns, position, is_cut_off, count }
    }

    /// Marks everything up to `seqno` as consumed. Positions never fall.
    pub fn advance(&self, seqno: SeqNo) {
        self.position.fetch_max(seqno.get(), Ordering::Release);
    }

    /// The position: everything up to it is consumed.
    pub fn position(&self) -> SeqNo {
        SeqNo::new(self.position.load(Ordering::Acquire))
    }

    /// Whether the batch after the position is gone.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A snapshot of a hold's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldInfo {
    /// The name of the consumer; `None` for a running stream.
    pub name: Option<Arc<str>>,
    /// Everything up to it is consumed.
    pub position: SeqNo,
    /// Clock reading when the hold was created.
    pub since_ns: u64,
    /// Whether the batch after the position is gone.
    pub is_cut_off: bool,
    /// Bytes of kept segments that it needs; several holds may count the same segments.
    pub kept_bytes: u64,
}

/// Result of looking up a batch.
#[derive(Clone, Debug)]
pub enum Located {
    /// In this segment.
    In(FoundSegment),
    /// Batches up to `oldest` are gone; later ones are available.
    Gone {
        /// The smallest position from which the history is complete.
        oldest: SeqNo,
    },
    /// No such batch exists yet.
    Nowhere,
}

/// A segment to read.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    log_id: LogId,
    source: SegmentSource,
}

#[derive(Clone, Debug)]
enum SegmentSource {
    /// A segment of the present life, by a description that is open already.
    Open(Arc<dyn File>),
    Path(PathBuf),
}

impl Located {
    fn kept(segment: &HistorySegment) -> Located {
        Located::In(FoundSegment {
            log_id: segment.log_id,
            source: SegmentSource::Path(segment.path.clone()),
        })
    }

    pub(crate) fn live(log_id: LogId, file: &Arc<dyn File>) -> Located {
        Located::In(FoundSegment { log_id, source: SegmentSource::Open(Arc::clone(file)) })
    }
}

/// The history of an open log; guarded by the pool's lock.
#[derive(Debug)]
pub(crate) struct History {
    /// Oldest first, without a hole, all older than the live segments.
    kept: VecDeque<HistorySegment>,
    gone_upto: SeqNo,
    holds: Vec<Weak<Hold>>,
    limit_bytes: u64,
}

impl History {
    pub(crate) fn new(found: KeptHistory, limit_bytes: u64) -> History {
        let KeptHistory { segments, gone_upto, .. } = found;
        History { kept: segments.into(), gone_upto, holds: Vec::new(), limit_bytes }
    }

    /// Registers a hold if the history is complete from its position on.
    pub(crate) fn register(&mut self, hold: &Arc<Hold>) -> Result<(), SeqNo> {
        if hold.position() < self.gone_upto {
            return Err(self.gone_upto);
        }
        self.holds.retain(|hold| hold.strong_count() > 0);
        self.holds.push(Arc::downgrade(hold));
        Ok(())
    }

    /// The smallest position of a hold that is not cut off.
    fn floor(&mut self) -> Option<SeqNo> {
        self.holds.retain(|hold| hold.strong_count() > 0);
        let holds = self.holds.iter().filter_map(Weak::upgrade);
        holds.filter(|hold| !hold.is_cut_off()).map(|hold| hold.position()).min()
    }

    /// Whether a released segment must be kept (HS1). If not, its batches are gone.
    pub(crate) fn must_keep(&mut self, last_seqno: SeqNo) -> bool {
        let must_keep = self.limit_bytes > 0 && self.floor().is_some_and(|floor| floor < last_seqno);
        if !must_keep {
            // Segments are released oldest first, so kept segments before this one are not needed either.
            self.gone_upto = self.gone_upto.max(last_seqno);
            self.cut_off();
        }
        must_keep
    }

    pub(crate) fn keep(&mut self, segment: HistorySegment) {
        self.kept.push_back(segment);
    }

    /// Whether any segment is retained.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Removes segments that no hold needs, then the oldest ones over the limit (HS2, HS3).
    pub(crate) fn trim(&mut self) -> Vec<HistorySegment> {
        let mut bytes = self.kept_bytes();
        let mut surplus = Vec::new();
        loop {
            let floor = self.floor();
            while let Some(oldest) = self.kept.pop_front_if(|oldest| {
                oldest.last_seqno <= self.gone_upto || floor.is_none_or(|floor| floor >= oldest.last_seqno)
            }) {
                bytes -= oldest.size_bytes;
                self.gone_upto = self.gone_upto.max(oldest.last_seqno);
                surplus.push(oldest);
            }
            if bytes <= self.limit_bytes {
                return surplus;
            }
            let Some(oldest) = self.kept.pop_front() else { return surplus };
            bytes -= oldest.size_bytes;
            self.gone_upto = self.gone_upto.max(oldest.last_seqno);
            surplus.push(oldest);
            self.cut_off();
        }
    }

    /// Batches up to `seqno` are not all in the log. No hold is behind it.
    pub(crate) fn note_gone(&mut self, seqno: SeqNo) {
        self.gone_upto = self.gone_upto.max(seqno);
    }

    fn cut_off(&self) {
        for hold in self.holds.iter().filter_map(Weak::upgrade) {
            if hold.position() < self.gone_upto {
                hold.is_cut_off.store(true, Ordering::Release);
            }
        }
    }

    /// The kept segment with the first batch after `after`; `Nowhere` if that is newer than all of them.
    pub(crate) fn locate(&self, after: SeqNo) -> Located {
        if after < self.gone_upto {
            return Located::Gone { oldest: self.gone_upto };
        }
        match self.kept.iter().find(|segment| segment.last_seqno > after) {
            Some(segment) => Located::kept(segment),
            None => Located::Nowhere,
        }
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|segment| segment.size_bytes).sum()
    }

    pub(crate) fn kept_paths(&self) -> Vec<PathBuf> {
        self.kept.iter().map(|segment| segment.path.clone()).collect()
    }

    pub(crate) fn gone_upto(&self) -> SeqNo {
        self.gone_upto
    }

    pub(crate) fn holds(&self) -> Vec<HoldInfo> {
        let holds = self.holds.iter().filter_map(Weak::upgrade);
        let info = |hold: Arc<Hold>| {
            let (position, is_cut_off) = (hold.position(), hold.is_cut_off());
            let wanted = self.kept.iter().filter(|kept| !is_cut_off && kept.last_seqno > position);
            let kept_bytes = wanted.map(|kept| kept.size_bytes).sum();
            HoldInfo { name: hold.name.clone(), position, since_ns: hold.since_ns, is_cut_off, kept_bytes }
        };
        holds.map(info).collect()
    }
}
