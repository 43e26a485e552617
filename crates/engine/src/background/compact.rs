//! Compaction executor: carries out the strategy's plans.
//!
//! The strategy is a pure function from the tree's shape to a plan. This file calls it, most urgent keyspace
//! first, and marks the plan's inputs busy so that the next call does not return them again; [`execute`]
//! executes the plan and installs the result. A merge ([`write_merge`]) reads cached blocks of its inputs
//! from the block cache, and the rest past it, keeps versions that a reader may still see
//! ([`esker_build::table_sink`]), warms the cache for inputs that were cached
//! ([`esker_build::warmed_outputs`]), and replaces inputs by outputs in one edit. A move or a drop is an edit
//! alone. In addition to the strategy, blob garbage collection is planned; its plan is a merge that also
//! rewrites some blob files ([`esker_build::blob_separation`]). Manual compactions are in [`manual`].

mod execute;
pub mod manual;
mod preemption;
mod write_merge;

pub use execute::carry_out;
pub use preemption::preempt;

use crate::background::idle;
use crate::background::migration;
use crate::background::picker;
use crate::background::picker::PickedCompaction;
use crate::background::quarantine;
use crate::state::jobs::{Job, JobFacts};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::{Scheduler, WorkerPool};
use crate::state::store::Store;
use esker_base::Result;
use esker_strategy::{Busy, Class, CompactionPlan, JobId, Reason};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A plan marked busy; the mark is removed on drop, whatever the job's outcome.
struct BusyMark<'a> {
    keyspace: &'a KeyspaceState,
    scheduler: &'a Scheduler,
    job: JobId,
}

impl<'a> BusyMark<'a> {
    fn new(
        store: &'a Store,
        keyspace: &'a KeyspaceState,
        busy: &mut Busy,
        plan: &CompactionPlan,
    ) -> BusyMark<'a> {
        keyspace.jobs.compaction_outcome.begin();
        BusyMark { keyspace, scheduler: &store.scheduler, job: busy.add(plan) }
    }
}

impl Drop for BusyMark<'_> {
    fn drop(&mut self) {
        self.keyspace.jobs.busy.lock().remove(self.job);
        self.keyspace.jobs.compaction_outcome.end();
        // A thread that found the inputs busy may check again, also if the job failed.
        self.scheduler.announce_progress();
    }
}

/// For so many times the time that asking the strategies of all keyspaces took, their answers are worked off
/// before all are asked again. Of ten thousand keyspaces each may have a small merge to do: asking all of
/// them after each merge would take longer than the merges. More urgent work waits for so long at most.
const WORK_PER_ASKING: u64 = 8;

/// Executes the most urgent plan of any keyspace, at least as urgent as `least`, and further ones for as long
/// as [`WORK_PER_ASKING`] says; `false` if there is none. A keyspace whose job fails does not prevent those
/// of others; its error is returned once nothing else could be done.
pub(crate) fn compact_some(store: &Store, least: Class) -> Result<bool> {
    let began_ns = store.monotonic_ns();
    let keyspaces = store.all_keyspaces();
    do_what_is_due(store, &keyspaces, least);
    // One job of the lowest classes at a time (JB5).
    let least = if store.jobs.has_preemptible() { least.max(Class::Shape) } else { least };
    let wanting = by_urgency(store, &keyspaces, least);
    let answered_ns = store.monotonic_ns();
    let goes_on_ns = answered_ns.saturating_sub(began_ns).saturating_mul(WORK_PER_ASKING);
    let (mut has_worked, mut failure) = (false, None);
    for keyspace in wanting {
        let Some((picked, mark)) = pick(store, keyspace, least) else { continue };
        let Some(job) = store.jobs.begin(keyspace, JobFacts::of_plan(&picked.plan), Some(mark.job)) else {
            continue;
        };
        charge(store, keyspace, &picked.plan);
        store.last_compacted.store(keyspace.id.get(), Ordering::Relaxed);
        let tried = try_to_carry_out(store, &job, &picked);
        drop(mark);
        match tried {
            Ok(()) => {
                // The install has requested the pools, but their checks found the inputs still busy
                // (BG1).
                store.scheduler.request(WorkerPool::Compaction);
                has_worked = true;
                if store.monotonic_ns().saturating_sub(answered_ns) >= goes_on_ns {
                    return Ok(true);
                }
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if has_worked { Ok(true) } else { failure.map_or(Ok(false), Err) }
}

/// Work of the database that becomes due by time and that no other request brings about.
fn do_what_is_due(store: &Store, keyspaces: &[Arc<KeyspaceState>], least: Class) {
    if let Err(error) = idle::note_activity(store) {
        tracing::warn!(%error, "memtables could not be sealed while the database is idle");
    }
    if let Err(error) = migration::end_migrations(store, keyspaces) {
        tracing::warn!(%error, "the end of a migration could not be recorded");
    }
    if least == Class::Idle {
        (store.adapt_keyspaces)(store, keyspaces);
    }
}

/// The keyspaces with a plan that is at least as urgent as `least`, the most urgent first. Equally urgent
/// ones take turns, starting after the one served last.
fn by_urgency<'k>(
    store: &Store,
    keyspaces: &'k [Arc<KeyspaceState>],
    least: Class,
) -> Vec<&'k Arc<KeyspaceState>> {
    let last = store.last_compacted.load(Ordering::Relaxed);
    let turn = keyspaces.partition_point(|keyspace| keyspace.id.get() <= last);
    let in_turn = keyspaces[turn..].iter().chain(&keyspaces[..turn]);
    let with_class = |keyspace: &'k Arc<KeyspaceState>| {
        let picked = picker::next_plan(store, keyspace, &keyspace.jobs.busy.lock())?;
        Some((picked.plan.class, keyspace))
    };
    let mut wanting: Vec<_> = in_turn.filter_map(with_class).collect();
    wanting.retain(|(class, _)| *class >= least);
    wanting.sort_by_key(|(class, _)| std::cmp::Reverse(*class));
    wanting.into_iter().map(|(_, keyspace)| keyspace).collect()
}

/// Executes a plan and records the outcome for waiting writers. A cancelled job is not a failed one.
fn try_to_carry_out(store: &Store, job: &Arc<Job>, picked: &PickedCompaction) -> Result<()> {
    let keyspace = job.keyspace();
    match carry_out(store, job, picked) {
        Ok(()) => {
            keyspace.jobs.compaction_outcome.note_success();
            Ok(())
        }
        Err(_) if keyspace.is_dropped() || job.has_yielded() => Ok(()),
        // The next plan is one without the damaged file.
        Err(error) if quarantine::set_aside_damage(store, keyspace, &error) => Ok(()),
        Err(error) => {
            let error = error.in_keyspace(&keyspace.name());
            keyspace.jobs.compaction_outcome.note_failure(error.clone());
            Err(error)
        }
    }
}

/// The next plan of a keyspace, if it is urgent enough, marked busy.
fn pick<'a>(
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    least: Class,
) -> Option<(PickedCompaction, BusyMark<'a>)> {
    let mut busy = keyspace.jobs.busy.lock();
    let picked = picker::next_plan(store, keyspace, &busy).filter(|picked| picked.plan.class >= least)?;
    let mark = BusyMark::new(store, keyspace, &mut busy, &picked.plan);
    Some((picked, mark))
}

/// Charges the budgets of a plan whose job has begun.
fn charge(store: &Store, keyspace: &KeyspaceState, plan: &CompactionPlan) {
    if plan.reason == Reason::Scans {
        keyspace.tuning.read_trigger.spend(plan.est_in_bytes);
    }
    if plan.class == Class::Idle {
        store.idle_budget.lock().spend(plan.est_in_bytes, store.monotonic_ns());
    }
}
