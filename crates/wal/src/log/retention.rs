//! The log's side of the history: who wants what, and what is let go. See [`crate::history`].

use super::Log;
use crate::history::{HistorySegment, Hold, HoldInfo, Located};
use esker_base::{Result, SeqNo};
use esker_env::OpenMode;
use std::sync::Arc;

impl Log {
    /// Deletes kept segments that nobody wants any more, or that are too many; gives their number. To be
    /// called when holds have moved or gone.
    ///
    /// # Errors
    /// [`esker_base::Error::Io`] if a file could not be removed; the next open finds it again.
    pub fn trim_history(&self) -> Result<usize> {
        let surplus = {
            let mut pool = self.pool.lock();
            // Somebody else's directory, perhaps.
            if pool.closed {
                return Ok(0);
            }
            pool.history.trim()
        };
        let count = surplus.len();
        self.delete_history(surplus).map(|()| count)
    }

    pub(super) fn delete_history(&self, surplus: Vec<HistorySegment>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in surplus {
            let removed = self.fs.remove_file(&segment.path);
            if removed.is_ok() {
                self.pool.lock().slots.remove(&segment.slot);
                self.counters.lock().deleted += 1;
            }
            outcome = outcome.and(removed);
        }
        outcome
    }

    /// Keeps everything after `after` for a reader of changes, within the limit; `name` is the consumer's, if
    /// it has one, and `since_ns` what the clock shows.
    ///
    /// # Errors
    /// The smallest position from which the history is whole, if that is greater than `after`.
    pub fn hold(&self, after: SeqNo, name: Option<Arc<str>>, since_ns: u64) -> Result<Arc<Hold>, SeqNo> {
        let hold = Arc::new(Hold::new(after, name, since_ns));
        self.pool.lock().history.register(&hold).map(|()| hold)
    }

    /// The segment that holds the first batch after `after`. For the owner of a hold whose position is at
    /// most that.
    pub fn locate(&self, after: SeqNo) -> Located {
        let pool = self.pool.lock();
        match pool.history.locate(after) {
            Located::Nowhere => {}
            found => return found,
        }
        let followers = pool.live.iter().skip(1).map(|follower| Some(follower.first_seqno)).chain([None]);
        let mut pairs = pool.live.iter().zip(followers);
        let found = pairs.find(|(_, follower)| follower.is_none_or(|first| first > after.plus(1)));
        found.map_or(Located::Nowhere, |(live, _)| Located::live(live.log_id, &live.sync_file))
    }

    /// Makes kept segments durable, which a release does not ask for.
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

    /// The smallest position from which the history is whole.
    pub fn oldest_history(&self) -> SeqNo {
        self.pool.lock().history.gone_upto()
    }

    /// Bytes of released segments that are kept for readers of changes.
    pub fn history_bytes(&self) -> u64 {
        self.pool.lock().history.kept_bytes()
    }

    /// Those who keep history.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.pool.lock().history.holds()
    }
}
