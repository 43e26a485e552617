//! Manual compaction: merges everything in a range of keys into the last level.

use super::BusyMark;
use crate::background::compact;
use crate::background::flush_group;
use crate::background::idle_wal;
use crate::background::picker::PickedCompaction;
use crate::background::quarantine;
use crate::state::jobs::JobFacts;
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::{ErrorScope, WorkerPool};
use crate::state::shape;
use crate::state::store::Store;
use esker_base::{Error, Result, SeqNo};
use esker_iter::Bounds;
use esker_strategy::{Class, CompactionPlan, ManualMark, ManualStep};
use esker_version::{KeyEnd, KeyRange};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest wait of a manual compaction for a conflicting job; every install wakes it earlier.
const CONFLICT_WAIT: Duration = Duration::from_secs(3600);

/// The next step of a manual compaction, its inputs marked busy.
enum ManualPlan<'a> {
    Done,
    Blocked,
    /// Everything is done that can be done without a quarantined file.
    Refused(Error),
    Run(Box<CompactionPlan>, BusyMark<'a>),
}

/// Flushes, then merges everything in a range of keys into the last level.
pub fn compact_range(store: &Store, keyspace: &Arc<KeyspaceState>, bounds: &Bounds) -> Result<()> {
    let _activity = store.activity.read_recursive();
    flush_group::flush_keyspaces(store, std::slice::from_ref(keyspace))?;
    let range = key_range_of(bounds);
    // Taken after the flush: tables that exist now are old, output of later jobs is not.
    let mark = ManualMark {
        seqno: SeqNo::new(store.visible.load(Ordering::Acquire)),
        part: store.writing()?.tables.counters().1,
    };
    loop {
        store.check_open()?;
        keyspace.check_living()?;
        let seen = store.scheduler.generation();
        match plan_manual(store, keyspace, &range, mark) {
            ManualPlan::Done => {
                idle_wal::shrink_log_if_still_at(store, mark.seqno);
                return Ok(());
            }
            ManualPlan::Run(plan, claim) => {
                let facts = JobFacts::of_plan(&plan);
                // Never of the lowest classes, so that it always begins.
                let facts = JobFacts { class: facts.class.max(Class::Shape), ..facts };
                let job = store.jobs.begin(keyspace, facts, Some(claim.job));
                let carried_out =
                    job.map_or(Ok(()), |job| compact::carry_out(store, &job, &PickedCompaction::from(*plan)));
                if carried_out.is_ok() {
                    keyspace.jobs.compaction_outcome.note_success();
                }
                drop(claim);
                // A worker may have found its inputs busy, whatever the job's outcome.
                store.scheduler.request(WorkerPool::Compaction);
                match carried_out {
                    Err(error) if quarantine::set_aside_damage(store, keyspace, &error) => {}
                    carried_out => carried_out?,
                }
            }
            ManualPlan::Refused(error) => return Err(error),
            ManualPlan::Blocked => {
                // The conflicting job may be the one that waits for this call.
                store.check_may_wait_for_jobs()?;
                // The end of the conflicting job is awaited, whatever its outcome.
                let concern = ErrorScope::Own(&|| None);
                store.scheduler.wait_for_change(
                    store,
                    WorkerPool::Compaction,
                    concern,
                    seen,
                    CONFLICT_WAIT,
                )?;
            }
        }
    }
}

fn plan_manual<'a>(
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    range: &KeyRange,
    mark: ManualMark,
) -> ManualPlan<'a> {
    let mut busy = keyspace.jobs.busy.lock();
    let view = keyspace.view.load();
    let options = keyspace.options();
    let (shape, of_strategy) =
        (shape::shape(store, &view.tree, &[]), shape::strategy_options(store, &options));
    match options.strategy.plan_manual(&shape, &busy, &of_strategy, range, mark) {
        ManualStep::Done => ManualPlan::Done,
        ManualStep::Blocked if busy.is_empty() && busy.has_set_aside() => {
            quarantine::error_of(store, keyspace).map_or(ManualPlan::Done, ManualPlan::Refused)
        }
        ManualStep::Blocked => ManualPlan::Blocked,
        ManualStep::Plan(plan) => {
            let claim = BusyMark::new(store, keyspace, &mut busy, &plan);
            ManualPlan::Run(plan, claim)
        }
    }
}

/// The range for the planner: it may be too wide by the one key of an excluded lower bound.
fn key_range_of(bounds: &Bounds) -> KeyRange {
    let start = match bounds.lower() {
        Bound::Included(key) | Bound::Excluded(key) => key.into(),
        Bound::Unbounded => [].as_slice().into(),
    };
    let end = match bounds.upper() {
        Bound::Included(key) => KeyEnd::Included(key.into()),
        Bound::Excluded(key) => KeyEnd::Excluded(key.into()),
        Bound::Unbounded => KeyEnd::Unbounded,
    };
    KeyRange { start, end }
}
