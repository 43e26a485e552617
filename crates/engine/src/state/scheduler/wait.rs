//! Waiting for background work: until a condition holds, the work fails, or the time is over.

use super::{BackgroundWork, Scheduler, State, WorkerPool};
use esker_base::{Error, Result};
use std::time::Duration;

/// The longest wait between two checks of the remaining time.
const WAIT_PIECE: Duration = Duration::from_millis(100);

/// Which failures end a wait.
#[derive(Clone, Copy)]
pub enum ErrorScope<'a> {
    /// The last failure of the pool.
    Pool,
    /// The error reported by this closure; only the caller knows which of the pool's jobs it waits for.
    Own(&'a dyn Fn() -> Option<Error>),
}

impl State {
    /// The error that ends a wait for the pool.
    pub(super) fn failure(&self, pool: WorkerPool, scope: ErrorScope<'_>) -> Option<Error> {
        match scope {
            ErrorScope::Pool => {
                let pool = &self.pools[pool as usize];
                pool.error.clone().filter(|_| !pool.is_error_old)
            }
            ErrorScope::Own(failure) => failure(),
        }
    }
}

impl Scheduler {
    /// Waits until the generation differs from `seen`; otherwise as [`Scheduler::wait`].
    pub(crate) fn wait_for_change<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        scope: ErrorScope<'_>,
        seen: u64,
        limit: Duration,
    ) -> Result<bool> {
        self.wait(work, pool, scope, limit, || self.generation() != seen)
    }

    /// Waits until `done`, at most `limit`; `false` if the time ran out.
    ///
    /// # Errors
    /// The error of the pool's last attempt at the awaited work, if that failed, because the wait might never
    /// end.
    pub fn wait<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        scope: ErrorScope<'_>,
        limit: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool> {
        if self.is_stepped() {
            return self.step_until(work, pool, scope, &mut done);
        }
        let mut left = limit;
        loop {
            let seen = self.generation();
            // Not under the scheduler's lock: `done` reads views, and dropping the last reference to an old
            // one requests the log worker.
            if done() {
                return Ok(true);
            }
            let mut state = self.state.lock();
            while self.generation() == seen {
                if state.stopping {
                    return Err(Error::Closed);
                }
                if let Some(error) = state.failure(pool, scope) {
                    return Err(error);
                }
                // The wait is divided so that the limit needs no clock.
                let piece = left.min(WAIT_PIECE);
                if self.progress.wait_for(&mut state, piece).timed_out() {
                    left = left.saturating_sub(piece);
                    if left.is_zero() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Pauses for a time, or until a change or the close. Does nothing in stepped mode, which has no other
    /// threads. For callers that hold no lock.
    pub fn pause(&self, time: Duration) {
        if self.is_stepped() {
            return;
        }
        let mut state = self.state.lock();
        if !state.stopping {
            self.progress.wait_for(&mut state, time);
        }
    }
}
