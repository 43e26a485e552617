//! Worker threads: each waits for requests of its pool, and runs steps of its work.

use super::{BackgroundWork, Scheduler, WorkerPool};
use esker_base::Error;
use esker_env::host;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a pool waits after its first failure: what fails once, such as a lack of descriptors for a
/// moment, costs no more than that.
const FIRST_RETRY_WAIT: Duration = Duration::from_millis(10);

/// The longest wait of a pool that goes on to fail: so long after the cause is gone the work goes on.
pub(super) const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Niceness steps of threads that merge. Against a thread with normal priority, five leave a quarter of a
/// contended processor, and a third of a thread's share beside many. With ten fills were faster still, but
/// beside eight busy threads merges would have a tenth of their share.
pub(super) const MERGING_STEPS: u8 = 5;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Work was done, so there may be more.
    Done,
    /// There was no work.
    Nothing,
    Failed,
}

impl Scheduler {
    /// The loop of a thread, until the stop.
    pub(super) fn run_worker<W: BackgroundWork>(&self, pool: WorkerPool, work: &W) {
        if pool == WorkerPool::Compaction {
            // If the system refuses that, merges run at normal priority.
            host::lower_thread_priority(MERGING_STEPS);
        }
        let (mut checked_upto, mut last) = (0, Outcome::Nothing);
        while self.wait_for_request(pool, checked_upto, last, work.look_interval(pool)) {
            (checked_upto, last) = self.run_step(pool, work);
        }
    }

    /// Waits until there may be work: at once after a step that did something, for a time after one that
    /// failed, otherwise until a request beyond `checked_upto`, or until the period has passed. `false` after
    /// the stop.
    fn wait_for_request(
        &self,
        pool: WorkerPool,
        checked_upto: u64,
        last: Outcome,
        look_interval: Option<Duration>,
    ) -> bool {
        let mut state = self.state.lock();
        if last == Outcome::Failed && !state.stopping {
            let wait = retry_wait(state.pools[pool as usize].failures);
            self.retries.wait_for(&mut state, wait);
            return !state.stopping;
        }
        while !state.stopping && last != Outcome::Done && state.pools[pool as usize].requests == checked_upto
        {
            let Some(longest) = look_interval else {
                self.requests[pool as usize].wait(&mut state);
                continue;
            };
            if self.requests[pool as usize].wait_for(&mut state, longest).timed_out() {
                break;
            }
        }
        !state.stopping
    }

    /// One step; returns up to which request it checked, and its outcome.
    pub(super) fn run_step<W: BackgroundWork>(&self, pool: WorkerPool, work: &W) -> (u64, Outcome) {
        let checked_upto = {
            let pool = &mut self.state.lock().pools[pool as usize];
            pool.taken = pool.requests;
            pool.running += 1;
            pool.requests
        };
        let result = work.work(pool);
        let mut state = self.state.lock();
        let pool_state = &mut state.pools[pool as usize];
        pool_state.running -= 1;
        let (outcome, has_changed, report) = match result {
            Ok(is_done) => {
                // In stepped mode no thread continues by itself.
                pool_state.requests += u64::from(self.is_stepped() && is_done);
                let ended = pool_state.take_error(is_done);
                note_recovery(work, pool, ended.as_ref());
                // A step without work changes nothing: waking waiters for it would make them repeat their
                // request endlessly.
                let outcome = if is_done { Outcome::Done } else { Outcome::Nothing };
                (outcome, is_done || ended.is_some(), None)
            }
            Err(error) => {
                let is_other = pool_state.note_failure(&error);
                if is_other {
                    work.note_condition(pool, Some(&error));
                }
                let is_reported =
                    !matches!(error, Error::Closed) && (is_other || pool_state.failures.is_power_of_two());
                (Outcome::Failed, true, is_reported.then_some((error, pool_state.failures)))
            }
        };
        if has_changed {
            self.generation.fetch_add(1, Ordering::AcqRel);
            drop(state);
            self.progress.notify_all();
        } else {
            drop(state);
        }
        if let Some((error, failures)) = report {
            tracing::warn!(?pool, %error, failures, "background work failed and will be tried again");
        }
        (checked_upto, outcome)
    }
}

/// The wait after so many failures in a row, at least one.
pub(super) fn retry_wait(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(u32::BITS - 1);
    FIRST_RETRY_WAIT.saturating_mul(1 << doublings).min(RETRY_WAIT)
}

/// Reports that a pool works again; a closed store is no failure.
fn note_recovery<W: BackgroundWork>(work: &W, pool: WorkerPool, ended: Option<&Error>) {
    if ended.is_some_and(|error| !matches!(error, Error::Closed)) {
        work.note_condition(pool, None);
    }
}
