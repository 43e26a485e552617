//! The steps of the background workers, draining, and closing.

use crate::state::scheduler::{BackgroundWork, ErrorScope, LOOK_INTERVAL, WorkerPool};
use crate::state::store::{Store, Writing};
use esker_base::{Error, Result};
use esker_strategy::Class;
use esker_version::{EditOp, VersionEdit};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// [`Store::drain`] checks again after this time without any progress; progress wakes it earlier.
const DRAIN_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl BackgroundWork for Store {
    fn look_interval(&self, pool: WorkerPool) -> Option<Duration> {
        match pool {
            WorkerPool::Log | WorkerPool::Flush => None,
            WorkerPool::Compaction | WorkerPool::Urgent => Some(LOOK_INTERVAL),
        }
    }

    fn work(&self, pool: WorkerPool) -> Result<bool> {
        let _guard = PanicPoisons(self);
        match pool {
            WorkerPool::Log => self.work_on_log(),
            WorkerPool::Flush => {
                self.writing()?;
                self.flush_some()
            }
            WorkerPool::Compaction => {
                self.writing()?;
                self.compact_some(Class::Idle)
            }
            WorkerPool::Urgent => {
                self.writing()?;
                self.preempt()
            }
        }
    }
}

impl Store {
    /// One step of the log worker: prepares a log segment ahead of the writers, closes unused tables, shrinks
    /// the cache for open ones, deletes unreferenced files.
    fn work_on_log(&self) -> Result<bool> {
        // Deletions first: on a full disk they make room for the segment.
        self.files.delete_doomed();
        self.close_cold_tables();
        if self.files.has_untold_bytes() {
            self.rebalance_memory();
        }
        if let Some(writing) = &self.writing {
            let old_segments = writing.old_segments.lock().take();
            if let Some(report) = old_segments
                && let Err(error) = writing.log.delete_old(&report)
            {
                // Only space is lost; the next open tries again.
                tracing::warn!(%error, "old log segments could not be removed");
            }
            if let Err(error) = writing.log.trim_history() {
                tracing::warn!(%error, "log segments that nobody wants to read any more could not be removed");
            }
            let log = &self.writing()?.log;
            if log.needs_preparation() {
                // Evicting comes after the segment that a writer may be waiting for, and is independent of
                // it.
                let prepared = log.prepare_next().inspect(|_| self.scheduler.announce_progress());
                self.rebalance_memory();
                prepared?;
            }
            self.reclaim_share();
        }
        self.lend_if_needed();
        self.open_readers.warn_of_old();
        Ok(self.files.has_doomed())
    }

    /// Waits until memtables are flushed and the strategies' debt is zero.
    pub fn drain(&self) -> Result<()> {
        self.check_open()?;
        self.writing()?;
        for keyspace in self.all_keyspaces().iter() {
            self.seal_if_filled(keyspace)?;
        }
        // One pool after the other, each with a condition of its own: a wait gets the errors of its pool
        // only, and would never end over a failure of the other one.
        self.scheduler.request(WorkerPool::Flush);
        self.wait_until_drained(WorkerPool::Flush, |store| {
            store.all_keyspaces().iter().all(|keyspace| !keyspace.view.has_sealed())
        })?;
        self.scheduler.request(WorkerPool::Compaction);
        self.wait_until_drained(WorkerPool::Compaction, |store| {
            store.all_keyspaces().iter().all(|keyspace| {
                let has_debt = store.compaction_debt(keyspace, &keyspace.view.load()) > 0;
                if has_debt {
                    // The last check may have found everything blocked by a job that has ended since, or was
                    // before time made something droppable.
                    keyspace.forget_no_plan();
                    store.scheduler.request(WorkerPool::Compaction);
                }
                !has_debt && !keyspace.compaction_outcome.is_running()
            })
        })
    }

    fn wait_until_drained(&self, pool: WorkerPool, done: impl Fn(&Store) -> bool) -> Result<()> {
        // A failed database cannot drain, and its workers may have ended without reporting it.
        let done = || self.writing().is_err() || done(self);
        match self.scheduler.wait(self, (pool, ErrorScope::Pool), DRAIN_LIMIT, done)? {
            true => self.writing().map(drop),
            false => Err(Error::internal("background work did not come to an end within a day")),
        }
    }

    /// Closes the database; the second call does nothing.
    pub fn close(&self) -> Result<()> {
        let _one_at_a_time = self.closing.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if let Some(writing) = &self.writing {
            // Writers recheck under the lock, so after this none is between its check and its record.
            writing.commit.lock().closed = true;
            writing.commit_notifier.notify();
        }
        self.scheduler.stop();
        // Foreground flushes and compactions end before the directory lock is released: the next owner must
        // be alone.
        let _alone = self.activity.write();
        let result = match &self.writing {
            Some(writing) => {
                let result = self.finish_writing();
                writing.log.close();
                result
            }
            None => Ok(()),
        };
        self.lock.lock().take();
        result
    }

    fn finish_writing(&self) -> Result<()> {
        let writing = self.writing()?;
        if self.flush_on_close {
            for keyspace in self.all_keyspaces().iter() {
                self.seal_if_filled(keyspace)?;
                self.flush_sealed(keyspace)?;
            }
        } else {
            self.sync()?;
            // The mark tells the next open that nothing before it can be missing.
            writing.commit.lock().log.append_mark()?;
        }
        self.close_manifest(writing)?;
        self.files.delete_doomed();
        Ok(())
    }

    /// Stores the time up to which entries were judged expired, if it has grown since the last edit (TM2).
    pub fn store_time(&self, writing: &Writing) -> Result<()> {
        let mut installed = writing.manifest.lock();
        let last_ms = self.time.last_ms();
        if last_ms > installed.state.time_floor_ms {
            let mut edit = VersionEdit::new();
            edit.push(EditOp::TimeFloor(last_ms));
            self.make_durable(writing, &mut installed, &edit)?;
        }
        Ok(())
    }
}

/// Poisons the database if a worker panics: its job is half done; nothing on disk is wrong, but the job will
/// not finish.
struct PanicPoisons<'a>(&'a Store);

impl Drop for PanicPoisons<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a background thread panicked");
        }
    }
}
