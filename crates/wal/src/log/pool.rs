//! Segment pool: the segments of a log by their state, behind one lock.
//!
//! Nothing here calls the file system. A caller claims a slot number or takes segments out under the lock,
//! and creates, syncs or deletes their files without it.

use super::live_segments::LiveSegments;
use crate::file::SegmentFile;
use crate::history::History;
use esker_base::{Error, Result};
use std::collections::BTreeSet;

/// Most prepared segments ahead of the writer. One thread fills 16 MiB in 30 ms, about what preparing the
/// next takes when the device is busy. Each rotation requests one preparation, so there is mostly one Ready
/// segment; the second covers bursts.
const READY_AHEAD: usize = 2;

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) live: LiveSegments,
    /// Released segments that are retained for change-stream readers.
    pub(super) history: History,
    ready: Vec<SegmentFile>,
    /// Slot numbers that have a file.
    slots: BTreeSet<u32>,
    is_preparing: bool,
    /// Error of the last preparation, if it failed.
    failure: Option<Error>,
    /// Whether no Ready segments are needed; see [`shrink`](crate::LogWriter::shrink).
    is_shrunk: bool,
    /// See [`Log::set_recycling`](super::Log::set_recycling).
    recycles: bool,
    is_closed: bool,
    /// Segments created without a synced directory entry, and how many of these entries are durable.
    names_made: u64,
    names_durable: u64,
}

impl Pool {
    /// A pool without segments; `slots` have files of earlier lives.
    pub(super) fn new(slots: BTreeSet<u32>, history: History) -> Pool {
        Pool {
            live: LiveSegments::default(),
            history,
            ready: Vec::new(),
            slots,
            is_preparing: false,
            failure: None,
            is_shrunk: false,
            recycles: true,
            is_closed: false,
            names_made: 0,
            names_durable: 0,
        }
    }

    // ---- slot numbers

    /// The smallest slot number without a file; it belongs to the caller.
    pub(super) fn claim_slot(&mut self) -> Result<u32> {
        let slot = (1..=u32::MAX).find(|slot| !self.slots.contains(slot));
        let slot = slot.ok_or_else(|| Error::internal("no slot number is free for a log segment"))?;
        self.slots.insert(slot);
        Ok(slot)
    }

    /// Notes that the file of a slot is gone.
    pub(super) fn free_slot(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    // ---- Ready segments

    /// Whether a rotation finds no Ready segment now or soon.
    pub(super) fn needs_segment(&self) -> bool {
        !self.is_closed && !self.is_shrunk && !self.is_preparing && self.ready.len() < READY_AHEAD
    }

    /// `true` if the caller has to prepare a segment and then call [`Pool::end_preparation`].
    pub(super) fn begin_preparation(&mut self) -> bool {
        let begins = self.needs_segment();
        self.is_preparing |= begins;
        begins
    }

    pub(super) fn end_preparation(&mut self, prepared: Result<SegmentFile>) -> Result<()> {
        self.is_preparing = false;
        match prepared {
            Ok(segment) => {
                self.failure = None;
                self.ready.push(segment);
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Whether a segment is Ready; an error if none is and waiting would be in vain.
    pub(super) fn check_ready(&self) -> Result<bool> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        match &self.failure {
            Some(error) if self.ready.is_empty() && !self.is_preparing => Err(error.clone()),
            _ => Ok(self.has_ready()),
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn take_ready(&mut self) -> Option<SegmentFile> {
        self.ready.pop()
    }

    /// Returns a segment that [`Pool::take_ready`] gave out.
    pub(super) fn put_back(&mut self, segment: SegmentFile) {
        self.ready.push(segment);
    }

    pub(super) fn ready_bytes(&self) -> u64 {
        self.ready.iter().map(|ready| ready.size_bytes).sum()
    }

    // ---- recycling

    /// Moves released segments of `segment_bytes` to the Ready ones until those are `kept_segments`.
    pub(super) fn recycle(
        &mut self,
        released: &mut Vec<SegmentFile>,
        segment_bytes: u64,
        kept_segments: usize,
    ) {
        if self.is_closed || self.is_shrunk || !self.recycles {
            return;
        }
        let mut free = kept_segments.saturating_sub(self.ready.len());
        let recyclable = |segment: &mut SegmentFile| {
            let fits = free > 0 && segment.size_bytes == segment_bytes;
            free -= usize::from(fits);
            fits
        };
        self.ready.extend(released.extract_if(.., recyclable));
    }

    /// Sets whether released segments are recycled. Where that ends, returns the Ready ones.
    pub(super) fn set_recycling(&mut self, recycles: bool) -> Vec<SegmentFile> {
        let ends = self.recycles && !recycles;
        self.recycles = recycles;
        if ends { std::mem::take(&mut self.ready) } else { Vec::new() }
    }

    // ---- shrinking and closing

    /// Sets whether the log is shrunk; returns the previous state.
    pub(super) fn set_shrunk(&mut self, is_shrunk: bool) -> bool {
        std::mem::replace(&mut self.is_shrunk, is_shrunk)
    }

    /// Takes the Ready segments of a shrunk log. None after the close: another process may own the directory.
    pub(super) fn take_surplus(&mut self) -> Vec<SegmentFile> {
        if self.is_shrunk && !self.is_closed { std::mem::take(&mut self.ready) } else { Vec::new() }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    // ---- directory entries

    /// Notes a segment whose directory entry is not synced.
    pub(super) fn note_unsynced_name(&mut self) {
        self.names_made += 1;
    }

    /// How many directory entries a sync of the directory now makes durable, all earlier ones included;
    /// `None` if they are durable.
    pub(super) fn names_to_sync(&self) -> Option<u64> {
        (self.names_durable != self.names_made).then_some(self.names_made)
    }

    /// Notes a sync that began when [`Pool::names_to_sync`] said `made`.
    pub(super) fn note_synced_names(&mut self, made: u64) {
        self.names_durable = self.names_durable.max(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Fill;
    use crate::history::KeptHistory;
    use esker_base::SeqNo;
    use esker_env::fault::StrictFs;
    use std::path::Path;

    const SEGMENT_BYTES: u64 = 8 << 10;

    fn pool() -> Pool {
        Pool::new(BTreeSet::from([1, 3]), History::new(KeptHistory::none(SeqNo::ZERO), 0))
    }

    fn segment(fs: &StrictFs, slot: u32, size_bytes: u64) -> SegmentFile {
        SegmentFile::prepare(fs, Path::new("/"), slot, size_bytes, false, 0, Fill::Allocated).unwrap()
    }

    #[test]
    fn slots_with_files_are_not_given_out() {
        let mut pool = pool();
        assert_eq!((pool.claim_slot().unwrap(), pool.claim_slot().unwrap()), (2, 4));
        pool.free_slot(3);
        assert_eq!(pool.claim_slot().unwrap(), 3);
    }

    #[test]
    fn a_failure_ends_waits_while_nothing_is_ready_or_being_prepared() {
        let mut pool = pool();
        assert!(pool.begin_preparation());
        assert!(!pool.begin_preparation(), "two at a time");
        assert!(!pool.check_ready().unwrap());
        pool.end_preparation(Err(Error::Full("the disk".into()))).unwrap_err();
        assert!(matches!(pool.check_ready(), Err(Error::Full(_))));
        assert!(pool.begin_preparation());
        assert!(!pool.check_ready().unwrap(), "the next attempt may succeed");
        pool.end_preparation(Ok(segment(&StrictFs::new(), 2, SEGMENT_BYTES))).unwrap();
        assert!(pool.check_ready().unwrap());
        pool.close();
        assert!(matches!(pool.check_ready(), Err(Error::Closed)));
        assert!(!pool.begin_preparation());
    }

    #[test]
    fn segments_of_the_usual_size_are_recycled_up_to_the_limit() {
        let (fs, mut pool) = (StrictFs::new(), pool());
        let sizes = [2 * SEGMENT_BYTES, SEGMENT_BYTES, SEGMENT_BYTES, SEGMENT_BYTES];
        let mut released: Vec<_> = (10..).zip(sizes).map(|(slot, size)| segment(&fs, slot, size)).collect();
        pool.recycle(&mut released, SEGMENT_BYTES, 2);
        assert_eq!(released.iter().map(|segment| segment.slot).collect::<Vec<_>>(), [10, 13]);
        assert_eq!(pool.ready_bytes(), 2 * SEGMENT_BYTES);
        assert_eq!(pool.set_recycling(false).len(), 2);
        pool.recycle(&mut released, SEGMENT_BYTES, 2);
        assert!(released.len() == 2 && !pool.has_ready());
    }

    #[test]
    fn a_shrunk_log_needs_no_segments_until_it_grows() {
        let (fs, mut pool) = (StrictFs::new(), pool());
        pool.put_back(segment(&fs, 2, SEGMENT_BYTES));
        assert!(pool.take_surplus().is_empty() && !pool.set_shrunk(true));
        assert!(!pool.needs_segment());
        assert_eq!(pool.take_surplus().len(), 1);
        assert!(pool.set_shrunk(false) && pool.needs_segment());
    }

    /// A directory entry made while the directory is being synced may not be part of that sync.
    #[test]
    fn a_sync_covers_the_names_from_before_it() {
        let mut pool = pool();
        assert_eq!(pool.names_to_sync(), None);
        pool.note_unsynced_name();
        let made = pool.names_to_sync().unwrap();
        pool.note_unsynced_name();
        pool.note_synced_names(made);
        assert_eq!(pool.names_to_sync(), Some(2));
        pool.note_synced_names(2);
        assert_eq!(pool.names_to_sync(), None);
    }
}
