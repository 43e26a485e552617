//! Compaction state of one keyspace, for writers that wait for it.
//!
//! The compaction pool serves all keyspaces, and a failure in one is irrelevant to the writers of another: so
//! whether a job runs, whether the last one failed, and whether a writer waits is stored with the keyspace.
//!
//! # Invariants
//! * WM1. A waiting writer gets failures in its keyspace since the wait began, whatever else runs, and none
//!   before: what failed before is still to be tried again. So failures are numbered
//!   ([`CompactionOutcome::failures`]).
//! * WM2. While a writer waits for a keyspace's merges, none of them is rate-limited
//!   ([`crate::state::jobs::Job`]), whatever its class: the wait is for that job, which was not known when it
//!   began.

use crate::state::counters::Waiting;
use esker_base::Error;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the compactions of a keyspace went lately.
#[derive(Debug, Default)]
pub struct CompactionOutcome {
    /// Plans that are being executed, for writers that make room: they hold the commit lock, which an install
    /// takes while it holds `busy`.
    running: AtomicU64,
    /// Waiting writers. A hint; it orders nothing.
    waiting: AtomicU64,
    failed: Mutex<FailureRecord>,
}

#[derive(Debug, Default)]
struct FailureRecord {
    /// The number of failures.
    times: u64,
    /// The last failure; `None` after a later success, or when there is nothing left to do.
    last: Option<Error>,
}

impl CompactionOutcome {
    /// The execution of a plan begins.
    pub fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// The execution of a plan has ended.
    pub fn end(&self) {
        // Release: a thread that finds no job finds what the job has published.
        self.running.fetch_sub(1, Ordering::Release);
    }

    /// Whether a plan is being executed. Takes no lock, because writers call it under the commit lock.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Counts a waiting writer until the result is dropped.
    pub(crate) fn count_blocked_writer(&self) -> Waiting<'_> {
        Waiting::counted_by(&self.waiting)
    }

    /// Whether a writer waits (WM2).
    #[inline]
    pub(crate) fn has_blocked_writers(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Records a failed plan.
    pub(crate) fn note_failure(&self, error: Error) {
        let mut failed = self.failed.lock();
        failed.times += 1;
        failed.last = Some(error);
    }

    /// Records a success, or that there is no plan left.
    pub(crate) fn note_success(&self) {
        self.failed.lock().last = None;
    }

    /// The number of failed plans.
    pub fn failures(&self) -> u64 {
        self.failed.lock().times
    }

    /// The last failure, if there are more than `failures`.
    pub(crate) fn failure_after(&self, failures: u64) -> Option<Error> {
        let failed = self.failed.lock();
        failed.last.clone().filter(|_| failed.times > failures)
    }

    /// The last failure, if there was no success since.
    pub fn last_failure(&self) -> Option<Error> {
        self.failure_after(0)
    }
}
