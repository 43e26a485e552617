//! Memtable merge: writes sealed memtables to tables, without installing them.

use crate::background::flush_pieces;
use crate::state::jobs::JobFacts;
use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::store::Store;
use crate::state::traffic::Flushed;
use crate::write::write_control;
use esker_base::{InsideJob, JobSection, KeyspaceId, Result, SeqNo};
use esker_build::compression_downgrade::{Effort, WrittenBy};
use esker_build::filters::{FilterTuner, TableFilter};
use esker_build::older_versions::OlderVersions;
use esker_build::overwrite_ratio::OlderTables;
use esker_build::pending_outputs::Outputs;
use esker_build::range_del::input_range_dels;
use esker_build::table_factory::TableFactory;
use esker_build::table_sink::OutputControl;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputSpec, write_tables};
use esker_build::warmed_outputs::CacheWarming;
use esker_filter::FilterWatch;
use esker_iter::{Boundaries, InputRangeDels, KeySpan, MergingCursor};
use esker_options::KeyspaceOptions;
use esker_strategy::{Class, Cut, Position, StrategyOptions};
use esker_version::{KeyRange, Version};
use esker_view::MemtableView;
use esker_view::read::source::Source;
use std::sync::Arc;

/// Merges sealed memtables into tables.
pub(super) fn write_memtables<'w>(
    store: &Store,
    factory: &'w TableFactory,
    keyspace: &Arc<KeyspaceState>,
    memtables: &[Arc<MemtableView>],
    hull: &KeyRange,
) -> Result<Outputs<'w>> {
    let boundaries = store.snapshots.sample(&store.visible, &store.time);
    // Loaded here, not before: everything older than these memtables is in it now.
    let version = &Arc::clone(&keyspace.view.load().tree.version);
    // Layout and compression are chosen for the level the tables will most probably go to.
    let options = keyspace.options();
    let to = options.strategy.flush_placement(version, hull, &keyspace.jobs.busy.lock());
    let of_strategy = shape::strategy_options(store, &options);
    let watch = store.files.watch_of(keyspace.id);
    let mut spec = flush_spec(
        keyspace.id,
        &options,
        version,
        to,
        memtables,
        &of_strategy,
        Some((&keyspace.tuning.filters, &watch)),
    );
    let compression = &keyspace.tuning.compression_downgrade;
    spec.layout.effort =
        compression.effort(&options, WrittenBy::Flush, || write_control::load(store, keyspace));
    let facts = JobFacts {
        class: Class::Flush,
        reason: None,
        from: Vec::new(),
        level: to.level(),
        hull: None,
        total_bytes: spec.layout.input_bytes,
        is_cancellable: false,
    };
    let job = store.jobs.begin(keyspace, facts, None);
    spec.accounting.job = job.as_deref().map(|job| Arc::clone(job) as Arc<dyn OutputControl>);
    spec.retention.operand_merger = keyspace.definition.semantics.operand_merger().cloned();
    spec.accounting.older = OlderTables::than_flush(&keyspace.view, &keyspace.options());
    let writes = memtables.iter().map(|view| view.memtable.len()).sum();
    let scans = keyspace.tuning.scans.seen();
    spec.accounting.cache_warming = CacheWarming::for_flush(
        &store.files,
        keyspace.id,
        scans.short + scans.long,
        &keyspace.tuning.reads_at_flush,
        writes,
    );
    let start_ns = store.monotonic_ns();
    let tables = write_pieces(store, factory, &spec, version, hull, memtables, &boundaries)?;
    let flushed = Flushed {
        operations: memtables.iter().map(|view| view.memtable.len()).sum(),
        entries: tables.entries(),
        tombstones: tables.tombstones(),
    };
    let moved = tables.moved(0, store.monotonic_ns().saturating_sub(start_ns));
    keyspace.jobs.traffic.note_flush(to.level(), flushed, moved);
    Ok(tables)
}

/// Merges memtables, given newest first, into tables, on as many threads as are allowed (FP1).
fn write_pieces<'w>(
    store: &Store,
    factory: &'w TableFactory,
    spec: &OutputSpec<'_>,
    version: &Version,
    hull: &KeyRange,
    memtables: &[Arc<MemtableView>],
    boundaries: &Boundaries,
) -> Result<Outputs<'w>> {
    let pieces = flush_pieces::pieces_of(memtables, spec.layout.cut.table_bytes, store.flush_threads)?;
    if pieces.len() == 1 {
        return merge_memtables(factory, spec, version, hull, memtables, boundaries.clone());
    }
    let threads = pieces.len();
    let mut spec = spec.clone();
    spec.layout.input_bytes /= threads as u64;
    let pieces: Vec<_> = pieces.into_iter().map(|piece| (piece, spec.clone())).collect();
    let written = store.env.fork_join("esker-flush-piece", threads, pieces, |((from, until), spec)| {
        let _inside = InsideJob::enter(JobSection::Flush);
        let cursor = |view: &Arc<MemtableView>| {
            KeySpan::new(Source::Memtable(view.memtable.cursor()), from.clone(), until.clone())
        };
        let merge = MergingCursor::new(memtables.iter().map(cursor).collect());
        let mut older = OlderVersions::all_of(version, hull);
        let below = |key: &[u8], seqno: SeqNo| older.may_hold(key, seqno);
        write_tables(factory, &spec, merge, boundaries.clone(), InputRangeDels::default(), below)
    });
    Outputs::none(factory).joined(written)
}

/// Merges memtables, given newest first, with keys in `hull`, into tables placed above those of `version`.
pub(super) fn merge_memtables<'w>(
    factory: &'w TableFactory,
    spec: &OutputSpec<'_>,
    version: &Version,
    hull: &KeyRange,
    memtables: &[Arc<MemtableView>],
    boundaries: Boundaries,
) -> Result<Outputs<'w>> {
    let _inside = InsideJob::enter(JobSection::Flush);
    let merge =
        MergingCursor::new(memtables.iter().map(|view| Source::Memtable(view.memtable.cursor())).collect());
    let mut older = OlderVersions::all_of(version, hull);
    let deletes = input_range_dels::of_memtables(memtables, &boundaries, &older);
    let below = |key: &[u8], seqno: SeqNo| older.may_hold(key, seqno);
    write_tables(factory, spec, merge, boundaries, deletes, below)
}

/// The output specification of a flush to `to`.
pub(super) fn flush_spec<'a>(
    keyspace: KeyspaceId,
    options: &'a KeyspaceOptions,
    version: &Version,
    to: Position,
    memtables: &[Arc<MemtableView>],
    strategy_options: &StrategyOptions,
    tuner: Option<(&FilterTuner, &FilterWatch)>,
) -> OutputSpec<'a> {
    let keys = memtables.iter().map(|view| view.memtable.len()).sum();
    OutputSpec {
        accounting: OutputAccounting {
            oldest_delete_ms: memtables.iter().filter_map(|view| view.since_ms()).min(),
            ..OutputAccounting::default()
        },
        ..OutputSpec::new(
            keyspace,
            options,
            OutputLayout {
                level: to.level(),
                effort: Effort::Configured,
                cut: Cut::for_output(version, to, strategy_options),
                input_bytes: memtables.iter().map(|view| view.memtable.payload_bytes()).sum(),
                filter: TableFilter::in_tree(options, version, None, to, keys, tuner),
            },
        )
    }
}

/// The key range of some memtables, range tombstones included.
pub(super) fn hull_of(memtables: &[Arc<MemtableView>]) -> Option<KeyRange> {
    memtables.iter().filter_map(|view| hull_of_one(view)).reduce(|hull, other| hull.hull(&other))
}

fn hull_of_one(view: &MemtableView) -> Option<KeyRange> {
    let memtable = &view.memtable;
    let entries = memtable.first_key().zip(memtable.last_key());
    let entries = entries.map(|(first, last)| KeyRange::inclusive(first, last));
    let deletes =
        memtable.range_deletes().iter().filter_map(|set| set.hull()).map(input_range_dels::key_range);
    entries.into_iter().chain(deletes).reduce(|hull, other| hull.hull(&other))
}
