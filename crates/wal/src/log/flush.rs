//! Log flush: makes the records so far durable, and says what is durable. A failed flush poisons the log.
//!
//! [`crate::sync`] decides which thread flushes and for which group of writers.

use super::Log;
use crate::record::LogPosition;
use crate::sync::DurableWait;
use esker_base::{Result, SeqNo, planted};
use std::sync::Arc;
use std::time::Duration;

impl Log {
    /// Returns once everything up to `seqno` survives a power cut; see [`crate::sync`].
    ///
    /// `capture` takes the writers' lock for a moment and returns the last sequence number assigned together
    /// with [`position`](crate::LogWriter::position); every record up to there must be complete.
    ///
    /// # Errors
    /// [`esker_base::Error::ReadOnly`] if a flush failed, now or earlier: the log is poisoned. The caller
    /// then wakes its own waiters too.
    pub fn sync_up_to(&self, seqno: SeqNo, capture: impl Fn() -> (SeqNo, LogPosition)) -> Result<()> {
        let raw_capture = || {
            let (seqno, position) = capture();
            (seqno.get(), position)
        };
        let outcome = self.group_sync.sync_up_to(seqno.get(), raw_capture, |position| self.flush(position));
        if self.group_sync.is_poisoned() {
            self.wake_waiters();
        }
        outcome
    }

    /// Syncs every segment with unsynced bytes before `position`, oldest first.
    fn flush(&self, position: LogPosition) -> Result<()> {
        let began_ns = self.group_sync.now_ns();
        let unsynced = self.pool.lock().live.unsynced_before(position);
        for segment in &unsynced {
            if planted!(SyncsNewestSegmentOnly) && segment.is_closed {
                continue;
            }
            let synced = segment.file.sync_data();
            if !planted!(IgnoresFailedSync) {
                synced?;
            }
            if segment.is_closed {
                self.pool.lock().live.mark_synced(segment.log_id);
            }
        }
        self.sync_names()?;
        let took_ns = self.group_sync.now_ns().saturating_sub(began_ns);
        let mut counters = self.counters.lock();
        counters.flushes += 1;
        counters.flush_times.add(took_ns);
        counters.files_synced += unsynced.len() as u64;
        Ok(())
    }

    /// Makes the directory entries of all segments created so far durable (WL4).
    pub(super) fn sync_names(&self) -> Result<()> {
        let to_sync = self.pool.lock().names_to_sync();
        if let Some(made) = to_sync {
            self.fs.sync_dir(&self.dir)?;
            self.pool.lock().note_synced_names(made);
        }
        Ok(())
    }

    /// The durable sequence number: everything up to it survives a power cut.
    #[inline]
    pub fn durable_seqno(&self) -> SeqNo {
        SeqNo::new(self.group_sync.durable_seqno())
    }

    /// Waits until everything up to `seqno` survives a power cut, at most `limit`. Flushes nothing itself.
    ///
    /// # Errors
    /// [`esker_base::Error::ReadOnly`] if a flush failed, now or earlier.
    pub fn wait_durable(&self, seqno: SeqNo, limit: Duration) -> Result<DurableWait> {
        self.group_sync.wait_durable(seqno.get(), limit)
    }

    /// Ends all calls of [`Log::wait_durable`]: for a database that takes no more writes.
    pub fn end_durable_waits(&self) {
        self.group_sync.end_waits();
    }

    /// The durable position, which manifest edits record: everything before it survives a power cut.
    pub fn durable_position(&self) -> LogPosition {
        self.group_sync.durable_position()
    }

    /// Whether the log is poisoned and accepts no more writes. One load; see [`Log::poisoned`] for the cause.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.group_sync.is_poisoned()
    }

    /// Why the log is poisoned, if it is.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.group_sync.cause()
    }

    /// Poisons the log for an outside reason, such as a panic under the writers' lock. The first cause stays.
    pub fn poison(&self, cause: impl Into<Arc<str>>) {
        self.group_sync.poison(cause.into());
        self.wake_waiters();
    }

    /// The lock makes sure that a waiter that has just tested the poison sleeps before it is notified.
    fn wake_waiters(&self) {
        drop(self.pool.lock());
        self.segment_ready.notify_all();
    }
}
