//! Compaction executor: carries out the strategy's plans.
//!
//! The strategy is a pure function from the tree's shape to a plan. This file calls it, marks the plan's
//! inputs busy so that the next call does not return them again, executes the plan, and installs the result.
//! A merge reads cached blocks of its inputs from the block cache, and the rest past it, keeps versions that
//! a reader may still see ([`esker_build::table_sink`]), warms the cache for inputs that were cached
//! ([`esker_build::warmed_outputs`]), and replaces inputs by outputs in one edit. A move or a drop is an edit
//! alone. In addition to the strategy, blob garbage collection is planned; its plan is a merge that also
//! rewrites some blob files ([`esker_build::blob_separation`]). Manual compactions are in [`manual`].

pub mod manual;

use crate::background::idle;
use crate::background::install;
use crate::background::migration;
use crate::background::picker;
use crate::background::picker::PickedCompaction;
use crate::background::quarantine;
use crate::background::subcompactions::subcompaction_ranges;
use crate::state::jobs::{Job, JobFacts};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::{Scheduler, WorkerPool};
use crate::state::store::{Store, Writing};
use crate::write::write_control;
use esker_base::{Error, FileNumber, InsideJob, JobSection, PartId, Result, SeqNo};
use esker_build::blob_separation::Relocation;
use esker_build::compression_downgrade::WrittenBy;
use esker_build::filters::{TableFilter, keys_taken};
use esker_build::older_versions::OlderVersions;
use esker_build::overwrite_ratio::OlderTables;
use esker_build::pending_outputs::Outputs;
use esker_build::range_del::input_range_dels;
use esker_build::table_sink::OutputControl;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputRetention, OutputSpec, write_tables};
use esker_build::warmed_outputs::{CacheWarming, open_outputs, remove_leftovers};
use esker_iter::{Boundaries, CompactionFilter, LargeValues, MergingCursor};
use esker_options::{CompactionJob, Event, FileReason, JobOutput, KeyspaceOptions};
use esker_sst::{InputReading, InputResidency, JobControl};
use esker_strategy::{Busy, Class, CompactionPlan, InputPart, JobId, PlanInput, PlanKind, Reason};
use esker_version::{KeyRange, PartFlags, PartMeta, Version, VersionEdit};
use esker_view::read::run_cursor::RunCursor;
use esker_view::tree::{TreePart, TreeRun};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
pub fn compact_some(store: &Store, least: Class) -> Result<bool> {
    let began_ns = store.monotonic_ns();
    if let Err(error) = idle::note_activity(store) {
        tracing::warn!(%error, "memtables could not be sealed while the database is idle");
    }
    let keyspaces = store.all_keyspaces();
    if let Err(error) = migration::end_migrations(store, &keyspaces) {
        tracing::warn!(%error, "the end of a migration could not be recorded");
    }
    if least == Class::Idle {
        (store.adapt_keyspaces)(store, &keyspaces);
    }
    // Equally urgent keyspaces take turns, starting after the one served last.
    let last = store.last_compacted.load(Ordering::Relaxed);
    let turn = keyspaces.partition_point(|keyspace| keyspace.id.get() <= last);
    let in_turn = keyspaces[turn..].iter().chain(&keyspaces[..turn]);
    // One job of the lowest classes at a time (JB5).
    let least = if store.jobs.has_preemptible() { least.max(Class::Shape) } else { least };
    let mut wanted: Vec<_> =
        in_turn.filter_map(|keyspace| Some((wanted(store, keyspace)?.plan.class, keyspace))).collect();
    wanted.retain(|(class, _)| *class >= least);
    wanted.sort_by_key(|(class, _)| std::cmp::Reverse(*class));
    let answered_ns = store.monotonic_ns();
    let goes_on_ns = answered_ns.saturating_sub(began_ns).saturating_mul(WORK_PER_ASKING);
    let (mut has_worked, mut failure) = (false, None);
    for (_, keyspace) in wanted {
        let Some((wanted, claim)) = plan(store, keyspace, least) else { continue };
        let Some(job) = store.jobs.begin(keyspace, JobFacts::of_plan(&wanted.plan), Some(claim.job)) else {
            continue;
        };
        charge(store, keyspace, &wanted.plan);
        store.last_compacted.store(keyspace.id.get(), Ordering::Relaxed);
        let tried = try_to_carry_out(store, &job, &wanted);
        drop(claim);
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

/// Executes a plan and records the outcome for waiting writers. A cancelled job is not a failed one.
fn try_to_carry_out(store: &Store, job: &Arc<Job>, wanted: &PickedCompaction) -> Result<()> {
    let keyspace = job.keyspace();
    match carry_out(store, job, wanted) {
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

/// The next plan of a keyspace.
fn wanted(store: &Store, keyspace: &KeyspaceState) -> Option<PickedCompaction> {
    picker::next_plan(store, keyspace, &keyspace.jobs.busy.lock())
}

/// The next plan of a keyspace, if it is urgent enough, marked busy.
fn plan<'a>(
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    least: Class,
) -> Option<(PickedCompaction, BusyMark<'a>)> {
    let mut busy = keyspace.jobs.busy.lock();
    let wanted = picker::next_plan(store, keyspace, &busy).filter(|wanted| wanted.plan.class >= least)?;
    let claim = BusyMark::new(store, keyspace, &mut busy, &wanted.plan);
    Some((wanted, claim))
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

/// Writes the merge of a plan to new tables, in parallel subcompactions if worthwhile.
fn write_merge<'s>(
    store: &'s Store,
    job: &Arc<Job>,
    plan: &CompactionPlan,
    victims: &BTreeSet<FileNumber>,
    options: &KeyspaceOptions,
    compaction_filter: Option<Arc<dyn CompactionFilter>>,
) -> Result<Outputs<'s>> {
    let keyspace = &**job.keyspace();
    let writing = store.writing()?;
    // Sampled after the inputs were fixed (RV4): every version in them is at or below `visible`.
    let boundaries = store.snapshots.sample(&store.visible, &store.time);
    // Of the tree the job keeps its inputs and the blob files they point to (BF4), and for the rest only
    // the manifest's metadata; otherwise all files that other jobs replace meanwhile would stay until its
    // end.
    let (version, values) = {
        let view = keyspace.view.load();
        let inputs = plan.parts().map(|(_, input)| &*input.part);
        (Arc::clone(&view.tree.version), view.tree.large.of_parts(inputs))
    };
    let pieces = subcompaction_ranges(store, keyspace, plan);
    // Errors from a dropped keyspace's files are not corruption.
    keyspace.check_living()?;
    let pieces = pieces?;
    let filter = if plan.filter {
        let watch = store.files.watch_of(keyspace.id);
        TableFilter::in_tree(
            options,
            &version,
            Some(plan),
            plan.to,
            keys_taken(plan),
            Some((&keyspace.tuning.filters, &watch)),
        )
    } else {
        TableFilter::NONE
    };
    let common = MergeContext {
        job,
        plan,
        options,
        relocation: Relocation { victims: victims.clone(), values: Arc::new(values) },
        taken: plan
            .parts()
            .filter(|(_, input)| input.leaves_nothing_in(&plan.hull))
            .map(|(_, input)| input.part.id)
            .collect(),
        version,
        boundaries,
        filter,
        compaction_filter,
    };
    job.note_subcompactions(pieces.len());
    let threads = pieces.len();
    let written = store.env.fork_join("esker-piece", threads, pieces, |range| {
        let written = write_subcompaction(store, &common, &range);
        if written.is_err() {
            job.fail();
        }
        written
    });
    job.note_subcompactions(1);
    Outputs::none(&writing.tables).joined(written)
}

/// How the inputs of a job are read: at its pace, and with files for what does not fit its memory.
fn input_reading(store: &Store, writing: &Writing, job: &Arc<Job>) -> InputReading {
    InputReading {
        control: Arc::clone(job) as Arc<dyn JobControl>,
        residency: Arc::new(InputResidency::default()),
        scratch: Some(Arc::new(writing.tables.writing_to(Arc::clone(&store.env.fs)))),
    }
}

/// Merges the part of a plan that lies in `range`.
fn write_subcompaction<'s>(
    store: &'s Store,
    common: &MergeContext<'_>,
    range: &KeyRange,
) -> Result<Outputs<'s>> {
    let MergeContext { job, plan, options, boundaries, relocation, .. } = common;
    let (keyspace, writing) = (&**job.keyspace(), store.writing()?);
    let inputs: Vec<PlanInput> = plan.inputs.iter().map(|input| input.within(range)).collect();
    let mut older = OlderVersions::outside(&common.version, &common.taken, None);
    let runs: Vec<Vec<TreePart>> = inputs.iter().map(|input| input_parts(store, keyspace, input)).collect();
    // Checked after the files were found by their numbers: those of a living keyspace's tree are not
    // being deleted, and from here on the parts hold them.
    keyspace.check_living()?;
    let deletes = input_range_dels::of_parts(&runs.concat(), boundaries, &older)?;
    let reading = input_reading(store, writing, job);
    let sources = inputs.iter().zip(runs).map(|(input, mut parts)| {
        parts.retain(|part| !input_range_dels::hide_all_of(&deletes, part, boundaries));
        let run = Arc::new(TreeRun::new(input.level, parts.into()));
        RunCursor::for_job(run, reading.clone())
    });
    let merge = MergingCursor::new(sources.collect());
    let spec = OutputSpec {
        retention: OutputRetention {
            operand_merger: keyspace.definition.semantics.operand_merger().cloned(),
            compaction_filter: common.compaction_filter.clone(),
            large: Some(Arc::clone(&relocation.values) as Arc<dyn LargeValues>),
            collects: plan.reason == Reason::BlobGarbage,
            zero_seqnos: plan.to.level().is_last(),
            relocation: (!relocation.victims.is_empty()).then_some(relocation),
        },
        accounting: OutputAccounting {
            job: Some(Arc::clone(job) as Arc<dyn OutputControl>),
            created_ms: oldest_creation(plan),
            oldest_delete_ms: plan.parts().filter_map(|(_, input)| input.part.oldest_delete_ms).min(),
            is_bottom: plan.bottom,
            hides_deleted: hides_deleted(plan, boundaries),
            cache_warming: Some(CacheWarming {
                files: &store.files,
                residency: Arc::clone(&reading.residency),
            }),
            older: OlderTables::than_output(
                &keyspace.view,
                &keyspace.tuning.overwrite_ratios,
                &keyspace.options(),
                plan,
            ),
        },
        ..OutputSpec::new(
            keyspace.id,
            options,
            OutputLayout {
                level: plan.to.level(),
                effort: keyspace.tuning.compression_downgrade.effort(
                    options,
                    if plan.to.level().is_last() { WrittenBy::LastLevel } else { WrittenBy::Merge },
                    || write_control::load(store, keyspace),
                ),
                cut: plan.cut.clone(),
                input_bytes: inputs.iter().flat_map(|input| &input.parts).map(InputPart::bytes).sum(),
                filter: common.filter,
            },
        )
    };
    let below = |key: &[u8], seqno: SeqNo| older.may_hold(key, seqno);
    let _inside = InsideJob::enter(JobSection::Compaction);
    write_tables(&writing.tables, &spec, merge, boundaries.clone(), deletes, below)
}

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

/// The inputs of a plan from one run: each part with the range that is consumed.
fn input_parts(store: &Store, keyspace: &KeyspaceState, input: &PlanInput) -> Vec<TreePart> {
    let parts = input.parts.iter().map(|consumed| {
        let file = store.files.file_of(keyspace.id, &consumed.part);
        let meta = match &consumed.slice {
            None => Arc::clone(&consumed.part),
            Some(slice) => {
                let mut meta = PartMeta::clone(&consumed.part);
                meta.sliced = true;
                meta.range = slice.clone();
                Arc::new(meta)
            }
        };
        TreePart { meta, file }
    });
    parts.collect()
}

/// The shared state of the subcompactions of a merge.
struct MergeContext<'m> {
    job: &'m Arc<Job>,
    plan: &'m CompactionPlan,
    options: &'m KeyspaceOptions,
    version: Arc<Version>,
    boundaries: Boundaries,
    /// Parts that the plan consumes completely within its keys: the remainder of any other may hold older
    /// versions.
    taken: HashSet<PartId>,
    relocation: Relocation,
    filter: TableFilter,
    compaction_filter: Option<Arc<dyn CompactionFilter>>,
}

/// When the oldest of the inputs was written, if the strategy drops data by its age: merging must not make it
/// younger.
fn oldest_creation(plan: &CompactionPlan) -> Option<u64> {
    let created = plan.parts().map(|(_, input)| input.part.created_ms);
    created.min().filter(|_| plan.reason == Reason::SmallRuns)
}

/// Whether an input represents deletes whose tombstones are already dropped, and must continue to: the
/// deleted data lies outside the inputs, or a snapshot keeps it.
fn hides_deleted(plan: &CompactionPlan, boundaries: &Boundaries) -> bool {
    let parts = || plan.parts().map(|(_, input)| &input.part);
    let newest = parts().map(|part| part.max_seqno).max();
    let keeps = !plan.bottom || newest.is_some_and(|newest| boundaries.oldest() < newest);
    keeps && parts().any(|part| part.flags.has(PartFlags::HIDES_DELETED))
}
