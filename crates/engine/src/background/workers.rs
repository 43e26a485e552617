//! The steps of the background workers, draining, and closing.

use crate::background::compact;
use crate::background::flush;
use crate::background::flush_group;
use crate::background::picker;
use crate::background::spill_memtables;
use crate::background::table_eviction;
use crate::state::scheduler::{BackgroundWork, ErrorScope, LOOK_INTERVAL, WorkerPool};
use crate::state::store::{Store, Writing};
use crate::write::memory_arbiter;
use esker_base::planted;
use esker_base::{Error, Result, Unwinding};
use esker_options::{Event, WorkKind};
use esker_strategy::Class;
use esker_wal::Log;
use std::time::Duration;

/// [`drain`] checks again after this time without any progress; progress wakes it earlier.
const DRAIN_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl BackgroundWork for Store {
    fn look_interval(&self, pool: WorkerPool) -> Option<Duration> {
        match pool {
            WorkerPool::Log | WorkerPool::Deletion | WorkerPool::Flush => None,
            WorkerPool::Compaction | WorkerPool::Urgent => Some(LOOK_INTERVAL),
        }
    }

    fn work(&self, pool: WorkerPool) -> Result<bool> {
        let _guard = PanicPoisons(self, Unwinding::watch());
        if !matches!(pool, WorkerPool::Log | WorkerPool::Deletion) {
            self.writing()?;
        }
        let done = match pool {
            WorkerPool::Log => work_on_log(self),
            WorkerPool::Deletion => Ok(delete_some(self)),
            WorkerPool::Flush => flush_group::flush_some(self),
            WorkerPool::Compaction => compact::compact_some(self, Class::Idle),
            WorkerPool::Urgent => compact::preempt(self),
        };
        if matches!(done, Ok(true)) || pool == WorkerPool::Log {
            esker_env::return_free_memory();
        }
        done
    }

    fn note_condition(&self, pool: WorkerPool, failure: Option<&Error>) {
        let work = match pool {
            WorkerPool::Log => WorkKind::Log,
            WorkerPool::Deletion => WorkKind::Deletion,
            WorkerPool::Flush => WorkKind::Flush,
            WorkerPool::Compaction => WorkKind::Compaction,
            WorkerPool::Urgent => WorkKind::UrgentCompaction,
        };
        self.events.emit(|| match failure {
            Some(error) => Event::BackgroundError { work, error: error.clone() },
            None => Event::BackgroundRecovered { work },
        });
    }
}

/// One step of the log worker: prepares a log segment ahead of the writers, closes unused tables, shrinks
/// the cache for open ones. It deletes nothing itself, but on a full disk, because a writer may be waiting
/// for the segment ([`crate::state::scheduler`]).
fn work_on_log(store: &Store) -> Result<bool> {
    if needs_deletion(store) {
        store.scheduler.request(WorkerPool::Deletion);
    }
    table_eviction::close_cold_tables(store);
    if store.files.has_untold_bytes() || store.env.memory.has_untold_bytes() {
        memory_arbiter::rebalance_memory(store);
    }
    if let Some(writing) = &store.writing {
        let log = &store.writing()?.log;
        if log.needs_preparation() {
            // Evicting comes after the segment that a writer may be waiting for, and is independent of
            // it.
            let prepared = prepare_segment(store, log).inspect(|_| store.scheduler.announce_progress());
            memory_arbiter::rebalance_memory(store);
            prepared?;
        }
        memory_arbiter::reclaim_share(store);
        if spill_memtables::spill_pinned(store, writing) {
            memory_arbiter::rebalance_memory(store);
        }
    }
    memory_arbiter::lend_if_needed(store);
    store.open_readers.warn_of_old();
    Ok(false)
}

/// Prepares a log segment; if there is no room for it, once more behind the deletions that may make room,
/// those included that the deletion worker has begun.
fn prepare_segment(store: &Store, log: &Log) -> Result<bool> {
    match log.prepare_next() {
        Err(Error::Full(_)) => {
            delete_some(store);
            log.prepare_next()
        }
        prepared => prepared,
    }
}

/// Whether there is work for the deletion worker.
fn needs_deletion(store: &Store) -> bool {
    let of_log = |writing: &Writing| writing.has_old_segments() || writing.log.keeps_history();
    store.files.has_obsolete() || store.writing.as_ref().is_some_and(of_log)
}

/// One step of the deletion worker; whether more files became obsolete meanwhile.
fn delete_some(store: &Store) -> bool {
    store.files.delete_obsolete();
    if let Some(writing) = &store.writing {
        delete_old_segments(writing);
    }
    store.files.has_obsolete()
}

/// Deletes log segments of earlier opens, and those that no consumer needs any more. When it returns they are
/// gone, whichever thread has begun.
fn delete_old_segments(writing: &Writing) {
    let mut old_segments = writing.old_segments.lock();
    if let Some(report) = old_segments.take()
        && let Err(error) = writing.log.delete_old(&report)
    {
        // Only space is lost; the next open tries again.
        tracing::warn!(%error, "old log segments could not be removed");
    }
    if let Err(error) = writing.log.trim_history() {
        tracing::warn!(%error, "log segments that no consumer needs could not be removed");
    }
}

/// Waits until memtables are flushed, the strategies' debt is zero, and the files that became obsolete by
/// then are deleted, but for those that readers pin.
pub fn drain(store: &Store) -> Result<()> {
    store.check_may_wait_for_jobs()?;
    store.check_open()?;
    store.writing()?;
    for keyspace in store.all_keyspaces().iter() {
        flush::seal_if_filled(store, keyspace)?;
    }
    // One pool after the other, each with a condition of its own: a wait gets the errors of its pool
    // only, and would never end over a failure of the other one.
    store.scheduler.request(WorkerPool::Flush);
    wait_until_drained(store, WorkerPool::Flush, |store| {
        store.all_keyspaces().iter().all(|keyspace| !keyspace.view.has_sealed())
    })?;
    store.scheduler.request(WorkerPool::Compaction);
    wait_until_drained(store, WorkerPool::Compaction, |store| {
        store.all_keyspaces().iter().all(|keyspace| {
            let has_debt = picker::compaction_debt(store, keyspace, &keyspace.view.load()) > 0;
            if has_debt {
                // The last check may have found everything blocked by a job that has ended since, or was
                // before time made something droppable.
                keyspace.jobs.no_plan_cache.lock().clear();
                store.scheduler.request(WorkerPool::Compaction);
            }
            !has_debt && !keyspace.jobs.compaction_outcome.is_running()
        })
    })?;
    // Not left to the deletion worker: the caller may measure the directory next.
    store.files.delete_obsolete();
    delete_old_segments(store.writing()?);
    Ok(())
}

fn wait_until_drained(store: &Store, pool: WorkerPool, done: impl Fn(&Store) -> bool) -> Result<()> {
    // A failed database cannot drain, and its workers may have ended without reporting it.
    let done = || store.writing().is_err() || done(store);
    store.scheduler.retry_now(pool);
    match store.scheduler.wait(store, pool, ErrorScope::Pool, DRAIN_LIMIT, done)? {
        true => store.writing().map(drop),
        false => Err(Error::internal("background work did not end within a day")),
    }
}

/// Poisons the database if a worker panics: its job is half done; nothing on disk is wrong, but the job will
/// not finish.
struct PanicPoisons<'a>(&'a Store, Unwinding);

impl Drop for PanicPoisons<'_> {
    fn drop(&mut self) {
        if self.1.began_since() && !planted!(BackgroundPanicGoesOn) {
            self.0.fail("a background thread panicked");
        }
    }
}
