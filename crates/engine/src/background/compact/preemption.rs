//! Preemption: an urgent job gets a thread while all compaction threads are busy, or the inputs that a job of
//! the lowest classes occupies.

use super::compact_some;
use crate::background::picker;
use crate::state::jobs::Job;
use crate::state::scheduler::WorkerPool;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_strategy::{Busy, Class};
use std::sync::Arc;

/// The work of the urgent pool: runs an urgent job if all compaction threads are busy with others; and
/// preempts a job of the lowest classes that holds up more urgent work.
pub fn preempt(store: &Store) -> Result<bool> {
    let is_crowded = store.jobs.merging() >= store.compaction_threads;
    // A thread that becomes free meanwhile must not wait for this pool's next attempt.
    let wake_idle = |_: &Error| store.scheduler.request_alone(WorkerPool::Compaction);
    if is_crowded && compact_some(store, Class::L0Urgent).inspect_err(wake_idle)? {
        return Ok(true);
    }
    if let Some(preemptible) = store.jobs.preemptible()
        && holds_up_urgent_work(store, &preemptible, is_crowded)
    {
        tracing::debug!(?preemptible, "preempts a job for more urgent work");
        preemptible.yield_now();
    }
    Ok(false)
}

/// Whether a job of the lowest classes holds up a more urgent plan, for lack of a thread or because it
/// occupies the plan's inputs.
fn holds_up_urgent_work(store: &Store, preemptible: &Job, is_crowded: bool) -> bool {
    store.all_keyspaces().iter().any(|keyspace| {
        let busy = keyspace.jobs.busy.lock();
        // Where writers wait, no class is too low, except for the job itself.
        let is_own = Arc::ptr_eq(keyspace, preemptible.keyspace());
        let has_blocked_writers = !is_own && keyspace.jobs.compaction_outcome.has_blocked_writers();
        // Dropping a table needs no I/O, so it never preempts a running job.
        let wants_more = |busy: &Busy| {
            let wanted = picker::next_merge(store, keyspace, busy);
            wanted.is_some_and(|wanted| wanted.plan.class > Class::Clean || has_blocked_writers)
        };
        if is_crowded && wants_more(&busy) {
            return true;
        }
        let mut without = busy.clone();
        let Some(mark) = preemptible.mark().filter(|_| is_own) else {
            return false;
        };
        without.remove(mark);
        !wants_more(&busy) && wants_more(&without)
    })
}
