//! Stepped mode: callers run the steps of the work, in an order that the seed decides alone.
//!
//! Writers run some steps after each write, and where they would wait they step until the condition holds.
//! One seed, one interleaving.

use super::pool::WORKER_POOLS;
use super::wait::ErrorScope;
use super::{BackgroundWork, Scheduler, WorkerPool};
use esker_base::{Error, ResidentOnly, Result};
use esker_env::Random;

/// After one write of so many, on average, a step is run.
const WRITES_PER_STEP: u64 = 4;

impl Scheduler {
    /// Whether work runs only when a caller steps it.
    pub fn is_stepped(&self) -> bool {
        self.stepped.is_some()
    }

    /// Stepped mode: runs one step of a requested pool. `false` if nothing was requested, or after
    /// [`Scheduler::stop`].
    pub fn step<W: BackgroundWork>(&self, work: &W) -> bool {
        self.step_one(work).is_some()
    }

    /// Stepped mode: after a write, sometimes runs a step, as a background thread would.
    pub(crate) fn step_sometimes<W: BackgroundWork>(&self, work: &W) {
        if let Some(random) = &self.stepped
            && random.next_u64().is_multiple_of(WRITES_PER_STEP)
        {
            self.step(work);
        }
    }

    /// Runs steps until `done`; an error where that cannot come about.
    pub(super) fn step_until<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        scope: ErrorScope<'_>,
        done: &mut impl FnMut() -> bool,
    ) -> Result<bool> {
        while !done() {
            let stepped = self.step_one(work);
            // An earlier failure does not count while the next attempt is still pending.
            let has_tried = stepped.is_none_or(|stepped| stepped == pool);
            if has_tried && let Some(error) = self.state.lock().failure(pool, scope) {
                return Err(error);
            }
            if stepped.is_none() && !done() {
                return Err(match self.is_stopping() {
                    true => Error::Closed,
                    false => Error::internal("waiting for background work without a request"),
                });
            }
        }
        Ok(true)
    }

    /// As [`Scheduler::step`]; returns the pool.
    fn step_one<W: BackgroundWork>(&self, work: &W) -> Option<WorkerPool> {
        let pool = self.choose_pool()?;
        // The step belongs to a background thread, not to the caller.
        let _files_are_read = ResidentOnly::suspend();
        self.run_step(pool, work);
        Some(pool)
    }

    /// A requested pool, by the seed; `None` if there is none, or after the stop.
    fn choose_pool(&self) -> Option<WorkerPool> {
        let random = self.stepped.as_ref()?.next_u64() as usize;
        let state = self.state.lock();
        if state.stopping {
            return None;
        }
        let requested: Vec<WorkerPool> =
            WORKER_POOLS.into_iter().filter(|&pool| state.pools[pool as usize].is_requested()).collect();
        (!requested.is_empty()).then(|| requested[random % requested.len()])
    }
}
