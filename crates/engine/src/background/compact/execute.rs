//! Compaction job: executes one plan, installs the result and reports both.

use super::write_merge::write_merge;
use crate::background::install;
use crate::background::picker::PickedCompaction;
use crate::state::jobs::Job;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_base::{FileNumber, Result};
use esker_build::filters::keys_taken;
use esker_build::pending_outputs::Outputs;
use esker_build::warmed_outputs::{open_outputs, remove_leftovers};
use esker_options::{CompactionJob, Event, FileReason, JobOutput};
use esker_strategy::{CompactionPlan, PlanKind};
use esker_version::VersionEdit;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Executes a plan and installs it, and reports its begin and its end.
pub fn carry_out(store: &Store, job: &Arc<Job>, picked: &PickedCompaction) -> Result<()> {
    let (keyspace, plan) = (&**job.keyspace(), &picked.plan);
    tracing::debug!(keyspace = %keyspace.name(), %plan, "compaction begins");
    let described = || CompactionJob::of_plan(keyspace.event_ref(), job.number(), plan);
    store.events.emit(|| Event::CompactionBegun(described()));
    let began_ns = store.monotonic_ns();
    let result = execute(store, job, picked);
    let duration = Duration::from_nanos(store.monotonic_ns().saturating_sub(began_ns));
    let done = result.as_ref().map(|_| ()).map_err(Clone::clone);
    store.events.emit(|| Event::CompactionEnded { job: described(), result, duration });
    done
}

/// Executes a plan and installs its result.
fn execute(
    store: &Store,
    job: &Arc<Job>,
    PickedCompaction { plan, victims }: &PickedCompaction,
) -> Result<JobOutput> {
    let keyspace = &**job.keyspace();
    if plan.kind == PlanKind::Merge {
        merge(store, job, plan, victims).inspect_err(|_| remove_leftovers(&store.files))
    } else {
        let writing = store.writing()?;
        install::install(store, keyspace, &[], FileReason::Compaction(plan.reason), |version, _| {
            // Taken under the manifest's lock, so that run ids grow in the order of installs.
            let new_run = writing.tables.take_run_id();
            plan.edit_without_output(keyspace.id, version, new_run, || writing.tables.take_part_id())
        })?;
        keyspace.jobs.traffic.note_move();
        Ok(JobOutput::default())
    }
}

/// Merges the inputs of a plan and replaces them by the result.
fn merge(
    store: &Store,
    job: &Arc<Job>,
    plan: &CompactionPlan,
    victims: &BTreeSet<FileNumber>,
) -> Result<JobOutput> {
    let (keyspace, start_ns) = (&**job.keyspace(), store.monotonic_ns());
    let options = keyspace.options();
    let filter = options.compaction_filter.as_ref().map(|filter| Arc::clone(&filter.0));
    let mut tables = write_merge(store, job, plan, victims, &options, filter)?;
    let mut frozen = None;
    if let Some(oldest) = tables.oldest_filtered {
        // CF2: a snapshot taken since the sample sees the data that the filter was shown, and keeps
        // seeing it.
        frozen = store.snapshots.freeze(oldest);
        if frozen.is_none() {
            tracing::debug!(keyspace = %keyspace.name(), "new snapshots see filtered data: the merge is repeated without the filter");
            tables = write_merge(store, job, plan, victims, &options, None)?;
        }
    }
    let moved = tables.moved(plan.est_in_bytes, store.monotonic_ns().saturating_sub(start_ns));
    keyspace.jobs.traffic.note_merge(plan, keys_taken(plan), tables.entries(), moved);
    let took = Duration::from_nanos(store.monotonic_ns().saturating_sub(start_ns));
    {
        let mut control = keyspace.write_control.lock();
        control.capacity.note_compaction(tables.bytes(), plan.bytes_into_last(), took);
        control.capacity.note_merged(plan.est_in_bytes, took);
    }
    let output = tables.job_output();
    let installed = install_merge(store, keyspace, plan, tables);
    drop(frozen);
    installed.map(|()| output)
}

/// Replaces the inputs of a plan by its output.
fn install_merge(
    store: &Store,
    keyspace: &KeyspaceState,
    plan: &CompactionPlan,
    mut tables: Outputs<'_>,
) -> Result<()> {
    let writing = store.writing()?;
    // Kept until the tree refers to the tables.
    let _inherited = open_outputs(
        &store.files,
        keyspace.id,
        keyspace.options().strategy.uses_overwrite_ratios(),
        &mut tables,
    );
    install::install(store, keyspace, &[], FileReason::Compaction(plan.reason), |version, _| {
        let new_run = writing.tables.take_run_id();
        let mut edit = VersionEdit::new();
        plan.remove_inputs(keyspace.id, &mut edit, || writing.tables.take_part_id());
        // A new run goes in front of the runs that exist now, not of those at the beginning.
        let place = plan.to.place(version, new_run);
        keyspace.tuning.overwrite_ratios.lock().note(version, &tables.overwrite_ratios);
        tables.add_to(&mut edit, keyspace.id, place).claim();
        edit
    })
}
