//! Retention of log segments for change-stream readers: which segments are kept and which are deleted. See
//! [`crate::history`].

use super::Log;
use crate::history::{HistorySegment, Hold, HoldInfo, Located};
use esker_base::{Result, SeqNo};
use esker_env::OpenMode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Deletes retained segments that no hold needs or that exceed the limit; returns their number. Call it
    /// when holds have moved or were dropped.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] if a file could not be removed; the next open finds it again.
    pub fn trim_history(&self) -> Result<usize> {
        let surplus = {
            let mut pool = self.pool.lock();
            // After the close another process may own the directory.
            if pool.is_closed() {
                return Ok(0);
            }
            pool.history.trim()
        };
        let count = surplus.len();
        self.delete_history(surplus).map(|()| count)
    }

    /// Whether segments are retained for change-stream readers, so that some of them may be surplus.
    pub fn keeps_history(&self) -> bool {
        let pool = self.pool.lock();
        !pool.is_closed() && pool.history.keeps_any()
    }

    pub(super) fn delete_history(&self, surplus: Vec<HistorySegment>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in surplus {
            let removed = self.delete_file(segment.slot, &segment.path);
            outcome = outcome.and(removed);
        }
        outcome
    }

    /// Retains everything after `after` for a change-stream reader, within the limit. `name` is the
    /// consumer's, if it has one; `since_ns` is the current clock reading.
    ///
    /// # Errors
    /// The smallest position from which the history is complete, if that is greater than `after`.
    pub fn hold(&self, after: SeqNo, name: Option<Arc<str>>, since_ns: u64) -> Result<Arc<Hold>, SeqNo> {
        let hold = Arc::new(Hold::new(after, name, since_ns, Arc::clone(&self.hold_count)));
        self.pool.lock().history.register(&hold).map(|()| hold)
    }

    /// Whether there are holds, or one is being registered.
    pub(crate) fn has_holds(&self) -> bool {
        self.hold_count.load(Ordering::Acquire) > 0
    }

    /// Notes that batches up to `seqno` are not all in the log.
    pub(crate) fn note_gone(&self, seqno: SeqNo) {
        self.pool.lock().history.note_gone(seqno);
    }

    /// The segment with the first batch after `after`, for the owner of a hold at `after` or before.
    pub fn locate(&self, after: SeqNo) -> Located {
        let pool = self.pool.lock();
        match pool.history.locate(after) {
            Located::Nowhere => pool.live.locate(after),
            found => found,
        }
    }

    /// Makes retained segments durable, which a release does not do.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`].
    pub fn sync_history(&self) -> Result<()> {
        let paths = self.pool.lock().history.kept_paths();
        for path in paths {
            match self.fs.open(&path, OpenMode::ReadWrite) {
                // Deleted meanwhile.
                Err(error) if error.is_not_found() => {}
                opened => opened?.sync_data()?,
            }
        }
        self.sync_names()
    }

    /// The smallest position from which the history is complete.
    pub fn oldest_history(&self) -> SeqNo {
        self.pool.lock().history.gone_upto()
    }

    /// Bytes of released segments that are retained for change-stream readers.
    pub fn history_bytes(&self) -> u64 {
        self.pool.lock().history.kept_bytes()
    }

    /// The live holds on the history.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.pool.lock().history.holds()
    }
}
