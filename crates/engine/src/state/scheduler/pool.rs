//! Worker pools: the kinds of background work, and what the scheduler knows of each.

use esker_base::Error;
use std::mem::discriminant;

/// A worker pool: a kind of background work with its own threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPool {
    /// Prepares segments, closes cold tables, moves memory between the block cache and memtables.
    Log,
    /// Deletes obsolete files, and log segments that nothing needs.
    Deletion,
    /// Writes memtables to tables.
    Flush,
    /// Merges tables.
    Compaction,
    /// Merges tables that cannot wait for a compaction thread. Requested together with
    /// [`WorkerPool::Compaction`], and never in stepped mode, where no job runs while another is chosen.
    Urgent,
}

/// All pools; a pool's number is its index.
pub(crate) const WORKER_POOLS: [WorkerPool; 5] =
    [WorkerPool::Log, WorkerPool::Deletion, WorkerPool::Flush, WorkerPool::Compaction, WorkerPool::Urgent];

impl WorkerPool {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            WorkerPool::Log => "log",
            WorkerPool::Deletion => "deletion",
            WorkerPool::Flush => "flush",
            WorkerPool::Compaction => "compaction",
            WorkerPool::Urgent => "urgent compaction",
        }
    }

    /// Why a write waits for the pool.
    pub(crate) fn why_writers_wait(self) -> &'static str {
        match self {
            WorkerPool::Log => "a log segment is being prepared",
            WorkerPool::Deletion => "files are being deleted",
            WorkerPool::Flush => "memtables are being written to tables",
            WorkerPool::Compaction | WorkerPool::Urgent => {
                "level 0 holds as many runs as it may and is being compacted"
            }
        }
    }
}

/// Requests of a pool and its last failure.
#[derive(Debug, Default)]
pub(super) struct PoolState {
    /// Requests so far.
    pub(super) requests: u64,
    /// Stepped mode: how many of these were checked. A thread stores that itself.
    pub(super) taken: u64,
    /// Steps that threads of the pool are in.
    pub(super) running: usize,
    pub(super) error: Option<Error>,
    /// Failed steps since the last successful one.
    pub(super) failures: u32,
    /// The error is older than an attempt that a caller has asked for
    /// ([`Scheduler::retry_now`](super::Scheduler::retry_now)).
    pub(super) is_error_old: bool,
}

impl PoolState {
    /// Stepped mode: whether a request came since the last check.
    pub(super) fn is_requested(&self) -> bool {
        self.requests != self.taken
    }

    /// Takes back the error after a step without failure: one that found no work says nothing about what
    /// another thread of the pool does.
    pub(super) fn take_error(&mut self, is_done: bool) -> Option<Error> {
        if !is_done && self.running > 0 {
            return None;
        }
        (self.failures, self.is_error_old) = (0, false);
        self.error.take()
    }

    /// Stores a failure; whether it is of another kind than the one before.
    pub(super) fn note_failure(&mut self, error: &Error) -> bool {
        let before = self.error.replace(error.clone());
        let is_other = before.is_none_or(|before| discriminant(&before) != discriminant(error));
        (self.failures, self.is_error_old) = (self.failures.saturating_add(1), false);
        is_other && !matches!(error, Error::Closed)
    }
}
