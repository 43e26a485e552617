//! Merge of a plan's inputs into new tables, without installing them; in parallel subcompactions if
//! worthwhile.

use crate::background::subcompactions::subcompaction_ranges;
use crate::state::jobs::Job;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::{Store, Writing};
use crate::write::write_control;
use esker_base::{FileNumber, InsideJob, JobSection, PartId, Result, SeqNo};
use esker_build::blob_separation::Relocation;
use esker_build::compression_downgrade::WrittenBy;
use esker_build::filters::{TableFilter, keys_taken};
use esker_build::older_versions::OlderVersions;
use esker_build::overwrite_ratio::OlderTables;
use esker_build::pending_outputs::Outputs;
use esker_build::range_del::input_range_dels;
use esker_build::table_sink::OutputControl;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputRetention, OutputSpec, write_tables};
use esker_build::warmed_outputs::CacheWarming;
use esker_iter::{Boundaries, CompactionFilter, LargeValues, MergingCursor};
use esker_options::KeyspaceOptions;
use esker_sst::{InputReading, InputResidency, JobControl};
use esker_strategy::{CompactionPlan, InputPart, PlanInput, Reason};
use esker_version::{KeyRange, PartFlags, PartMeta, Version};
use esker_view::read::run_cursor::RunCursor;
use esker_view::tree::{TreePart, TreeRun};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

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

/// Writes the merge of a plan to new tables, in parallel subcompactions if worthwhile.
pub(super) fn write_merge<'s>(
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
        filter: output_filter(store, keyspace, plan, options, &version),
        version,
        boundaries,
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

/// The filter of the plan's output, sized for the keys that may come.
fn output_filter(
    store: &Store,
    keyspace: &KeyspaceState,
    plan: &CompactionPlan,
    options: &KeyspaceOptions,
    version: &Version,
) -> TableFilter {
    if !plan.filter {
        return TableFilter::NONE;
    }
    let watch = store.files.watch_of(keyspace.id);
    let tuner = Some((&keyspace.tuning.filters, &*watch));
    TableFilter::in_tree(options, version, Some(plan), plan.to, keys_taken(plan), tuner)
}

/// Merges the part of a plan that lies in `range`.
fn write_subcompaction<'s>(
    store: &'s Store,
    common: &MergeContext<'_>,
    range: &KeyRange,
) -> Result<Outputs<'s>> {
    let MergeContext { job, plan, boundaries, .. } = common;
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
    let spec = output_spec(store, common, &inputs, &reading.residency);
    let below = |key: &[u8], seqno: SeqNo| older.may_hold(key, seqno);
    let _inside = InsideJob::enter(JobSection::Compaction);
    write_tables(&writing.tables, &spec, merge, boundaries.clone(), deletes, below)
}

/// How the merge of `inputs` is written.
fn output_spec<'a>(
    store: &'a Store,
    common: &'a MergeContext<'_>,
    inputs: &[PlanInput],
    residency: &Arc<InputResidency>,
) -> OutputSpec<'a> {
    let MergeContext { job, plan, options, boundaries, relocation, .. } = common;
    let keyspace = &**job.keyspace();
    OutputSpec {
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
            cache_warming: Some(CacheWarming { files: &store.files, residency: Arc::clone(residency) }),
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
    }
}

/// How the inputs of a job are read: at its pace, and with files for what does not fit its memory.
fn input_reading(store: &Store, writing: &Writing, job: &Arc<Job>) -> InputReading {
    InputReading {
        control: Arc::clone(job) as Arc<dyn JobControl>,
        residency: Arc::new(InputResidency::default()),
        scratch: Some(Arc::new(writing.tables.writing_to(Arc::clone(&store.env.fs)))),
    }
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
