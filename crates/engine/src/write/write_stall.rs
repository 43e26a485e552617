//! Write stall: a write that finds no room waits for the background work that makes some, or is refused.
//!
//! A stalled write has consumed nothing and holds no lock. It waits at most for the stall limit of the
//! database; background work that fails meanwhile ends the wait with its error (WM1).

use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::{ErrorScope, WorkerPool};
use crate::state::store::Store;
use esker_base::{Error, InsideJob, KeyspaceId, Result};
use std::sync::Arc;
use std::time::Duration;

/// Whether a writer may stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallPolicy {
    /// Up to the configured stall limit.
    Stall,
    /// Not at all: `WriteOptions::no_stall`.
    Refuse,
}

/// What a writer has to wait for.
#[derive(Debug)]
pub enum WaitFor {
    /// Any work of a worker pool.
    Pool(WorkerPool),
    /// Compaction of this keyspace.
    Compaction(Arc<KeyspaceState>),
}

impl WaitFor {
    /// The worker pool that does the work.
    pub fn pool(&self) -> WorkerPool {
        match self {
            WaitFor::Pool(pool) => *pool,
            WaitFor::Compaction(_) => WorkerPool::Compaction,
        }
    }
}

/// The waits of one write.
pub struct Wait {
    /// The remaining time limit.
    left: Duration,
    /// The keyspace whose compaction it has waited for, and the number of failures before (WM1).
    failures: Option<(KeyspaceId, u64)>,
}

impl Wait {
    /// A wait of no more than `limit`.
    pub fn at_most(limit: Duration) -> Wait {
        Wait { left: limit, failures: None }
    }

    /// The remaining time limit.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// How many plans of the keyspace had failed when the write began to wait for its compaction.
    fn failures_before(&mut self, keyspace: &KeyspaceState) -> u64 {
        match self.failures {
            Some((id, failures)) if id == keyspace.id => failures,
            _ => self.failures.insert((keyspace.id, keyspace.jobs.compaction_outcome.failures())).1,
        }
    }
}

/// Waits until the obstacle may be gone, at most for the remaining time of the write.
///
/// # Errors
/// `WouldStall` if the time limit is exceeded or waiting is not allowed; otherwise the failure of the
/// background work.
#[cold]
pub(crate) fn wait_for_room(
    store: &Store,
    wait_for: &WaitFor,
    seen: u64,
    stall_policy: StallPolicy,
    wait: &mut Wait,
) -> Result<()> {
    let pool = wait_for.pool();
    let cause = pool.why_writers_wait();
    let own = match wait_for {
        WaitFor::Pool(_) => None,
        WaitFor::Compaction(keyspace) => {
            // Compaction may be due only because time has passed since the strategy was last called.
            keyspace.jobs.no_plan_cache.lock().clear();
            // Before the request: later failures count for this writer.
            Some((&keyspace.jobs.compaction_outcome, wait.failures_before(keyspace)))
        }
    };
    store.scheduler.request(pool);
    // A job that waits for its own callback would wait for ever.
    if stall_policy == StallPolicy::Refuse || InsideJob::here().is_some() {
        return Err(Error::WouldStall { retry_after: Duration::from_millis(10), cause: cause.into() });
    }
    let _waiting = store.counters.wait_for(pool);
    let _in_haste = own.map(|(merging, _)| merging.count_blocked_writer());
    let failure = || own.and_then(|(merging, failures)| merging.failure_after(failures));
    let concern = if own.is_some() { ErrorScope::Own(&failure) } else { ErrorScope::Pool };
    let started = store.env.clock.monotonic_ns();
    let changed = store.scheduler.wait_for_change(store, pool, concern, seen, wait.left)?;
    let waited = Duration::from_nanos(store.env.clock.monotonic_ns().saturating_sub(started));
    store.counters.add_stopped(pool, waited.as_nanos() as u64);
    wait.left = wait.left.saturating_sub(waited);
    if !changed || wait.left.is_zero() {
        return Err(Error::WouldStall { retry_after: store.stall_limit, cause: cause.into() });
    }
    Ok(())
}
