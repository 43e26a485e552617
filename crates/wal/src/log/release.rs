//! Segment release: what becomes of a segment that a durable manifest no longer needs (WL7). It is recycled,
//! retained for change-stream readers, or deleted.

use super::Log;
use crate::file::SegmentFile;
use crate::recover::RecoveryReport;
use esker_base::{LogId, Result};
use std::path::Path;

impl Log {
    /// Releases all closed segments with an id below `min_log_id`. Call it after a *durable* manifest says so
    /// (WL7). Returns the number of segments released.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] if a surplus file could not be removed; all segments are released
    /// nevertheless.
    pub fn release_below(&self, min_log_id: LogId) -> Result<usize> {
        let mut closed = Vec::new();
        // Dropped without the lock, because that unmaps them.
        let mut kept = Vec::new();
        let surplus_history = {
            let mut pool = self.pool.lock();
            while let Some((segment, history)) = pool.live.pop_closed_below(min_log_id) {
                if pool.history.must_keep(history.last_seqno) {
                    pool.history.keep(history);
                    kept.push(segment);
                } else {
                    closed.push(segment);
                }
            }
            pool.history.trim()
        };
        let released = closed.len() + kept.len();
        drop(kept);
        // Each life of a file has its own salt; see [`crate::record`].
        for segment in &mut closed {
            segment.salt = self.random.next_u64();
        }
        let surplus = self.recycle(closed);
        self.segment_ready.notify_all();
        let outcome = self.delete_segments(surplus);
        outcome.and(self.delete_history(surplus_history)).map(|()| released)
    }

    /// Makes segments Ready again as far as they are needed; returns the others.
    fn recycle(&self, mut released: Vec<SegmentFile>) -> Vec<SegmentFile> {
        let count = released.len();
        let options = &self.options;
        self.pool.lock().recycle(&mut released, options.segment_bytes, options.kept_segments);
        self.counters.lock().recycled += (count - released.len()) as u64;
        released
    }

    /// Whether released segments are recycled. If not, Ready ones are deleted, so that no record outlives the
    /// last need for it.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] for the first that could not be deleted; the next open deletes it.
    pub fn set_recycling(&self, recycles: bool) -> Result<()> {
        let surplus = self.pool.lock().set_recycling(recycles);
        self.delete_segments(surplus)
    }

    /// Sets whether the log is shrunk; returns the previous state.
    pub(crate) fn set_shrunk(&self, is_shrunk: bool) -> bool {
        self.pool.lock().set_shrunk(is_shrunk)
    }

    /// Deletes the Ready segments of a shrunk log; returns their number. Does nothing if the log has grown
    /// meanwhile.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] for the first that could not be deleted; the next open deletes it.
    pub fn delete_surplus(&self) -> Result<usize> {
        let surplus = self.pool.lock().take_surplus();
        let count = surplus.len();
        self.delete_segments(surplus).map(|()| count)
    }

    /// Removes the segments of earlier lives that a recovery listed, once its result is committed (RC1).
    /// Returns the number of files removed.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] for the first file that could not be removed; the next open finds it again.
    pub fn delete_old(&self, report: &RecoveryReport) -> Result<usize> {
        let mut outcome = Ok(0);
        for (slot, path) in &report.removable {
            match self.fs.remove_file(path) {
                Ok(()) => {
                    self.pool.lock().free_slot(*slot);
                    outcome = outcome.map(|removed| removed + 1);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Deletes segments. One that fails does not keep the others.
    fn delete_segments(&self, segments: Vec<SegmentFile>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in segments {
            let deleted = self.delete_segment(segment);
            outcome = outcome.and(deleted);
        }
        outcome
    }

    pub(super) fn delete_segment(&self, segment: SegmentFile) -> Result<()> {
        let (slot, path) = (segment.slot, segment.path.clone());
        drop(segment);
        self.delete_file(slot, &path)
    }

    /// Deletes the file of a slot, which is free then, and counts it.
    pub(super) fn delete_file(&self, slot: u32, path: &Path) -> Result<()> {
        self.fs.remove_file(path)?;
        self.pool.lock().free_slot(slot);
        self.counters.lock().deleted += 1;
        Ok(())
    }
}
