//! How the merges of one keyspace fare, for those who wait for them.
//!
//! A lane merges the tables of all keyspaces, and what it met in one of them is nothing to the writers of
//! another: so whether something runs, whether it failed the last time, and whether somebody waits is kept
//! beside the keyspace.
//!
//! # What holds
//! * WM1. Who waits is told of what has failed in the keyspace since the wait began, whatever else runs, and
//!   nothing older: what failed before is still to be tried again. So failures are numbered
//!   ([`Merging::failures`]).
//! * WM2. While a writer waits for a keyspace's merges none of them is held to a rate ([`crate::jobs::Job`]),
//!   whatever class it began with: the wait is for just that job, and nobody knew when it began.

use crate::metrics::Waiting;
use esker_base::Error;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Merging {
    /// Plans that are being carried out, for writers that look for room: they hold the commit lock, which an
    /// install takes while it holds `busy`.
    running: AtomicU64,
    /// Writers that wait. A hint, which orders nothing.
    waiting: AtomicU64,
    failed: Mutex<Failed>,
}

#[derive(Debug, Default)]
struct Failed {
    /// How often.
    times: u64,
    /// Why, the last time; `None` once something was merged since, or nothing was left to be.
    last: Option<Error>,
}

impl Merging {
    /// A plan begins to be carried out.
    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// It is not carried out any more.
    pub(crate) fn end(&self) {
        // Release: whoever finds no job finds what the job has published.
        self.running.fetch_sub(1, Ordering::Release);
    }

    /// Whether a plan is being carried out. Takes no lock: writers ask under the commit lock.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Says that a writer waits, for as long as it keeps the answer.
    pub(crate) fn hurry(&self) -> Waiting<'_> {
        Waiting::counted_by(&self.waiting)
    }

    /// Whether a writer waits (WM2).
    #[inline]
    pub(crate) fn is_in_haste(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A plan failed.
    pub(crate) fn note_failure(&self, error: Error) {
        let mut failed = self.failed.lock();
        failed.times += 1;
        failed.last = Some(error);
    }

    /// A plan was carried out, or there is none left.
    pub(crate) fn note_well(&self) {
        self.failed.lock().last = None;
    }

    /// How many plans have failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.lock().times
    }

    /// Why the last one failed, if it came after so many.
    pub(crate) fn failure_after(&self, failures: u64) -> Option<Error> {
        let failed = self.failed.lock();
        failed.last.clone().filter(|_| failed.times > failures)
    }

    /// Why the last one failed, if nothing was well since.
    pub(crate) fn last_failure(&self) -> Option<Error> {
        self.failure_after(0)
    }
}

#[cfg(test)]
mod tests;
