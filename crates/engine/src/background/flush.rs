//! Flush: writes the sealed memtables of a keyspace to tables.
//!
//! One flush of a keyspace at a time, of all memtables that are sealed when it starts, merged: versions that
//! no reader can see are dropped, so overwrites within memtables never reach a compaction. Ingested tables
//! are queued among the sealed memtables, in the order of writes, and divide them into groups, which are
//! installed oldest first (IN4).
//!
//! The steps of protocol 4.1: F0 take the memtables (all of them are behind `visible`, CP6: the seal happened
//! under the commit lock, and so did every write before it), sample the boundaries. F1 write and sync the
//! tables. F2 sync their directory. F3 sync the log if another keyspace depends on it (WL6). F4 to F6
//! install.

use crate::background::install;
use crate::state::jobs::JobFacts;
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::shape;
use crate::state::shape::planner_options;
use crate::state::store::{Store, Writing};
use crate::state::traffic::Flushed;
use crate::write::switch_memtable;
use crate::write::write_control;
use esker_base::planted;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_build::filters::{FilterTuner, TableFilter};
use esker_build::older_versions::OlderVersions;
use esker_build::overwrite_ratio::OlderTables;
use esker_build::pending_outputs::{Outputs, UnclaimedFiles};
use esker_build::range_del::input_range_dels;
use esker_build::table_factory::TableFactory;
use esker_build::table_sink::OutputControl;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputSpec, write_tables};
use esker_build::warmed_outputs::{CacheWarming, open_outputs, remove_leftovers};
use esker_filter::FilterWatch;
use esker_iter::{Boundaries, MergingCursor};
use esker_options::{Event, FileReason, FlushJob, JobOutput, KeyspaceOptions};
use esker_strategy::{Busy, Class, Cut, Position, StrategyOptions};
use esker_version::{DatabaseState, EditOp, KeyRange, PartMeta, Place, Version, VersionEdit};
use esker_view::MemtableView;
use esker_view::read::source::Source;
use esker_view::tree::TreeRun;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Flushes the keyspace whose sealed memtables pin the oldest part of the log; `false` if there are none.
/// A failed flush of one keyspace does not prevent those of others.
pub fn flush_some(store: &Store) -> Result<bool> {
    let oldest = |keyspace: &KeyspaceState| {
        let view = keyspace.view.load();
        view.sealed.last().map(|memtable| memtable.first_log_id().unwrap_or(0))
    };
    let keyspaces = store.all_keyspaces();
    let with_sealed = keyspaces.iter().filter(|keyspace| keyspace.view.has_sealed());
    let mut waiting: Vec<_> =
        with_sealed.filter_map(|keyspace| Some((oldest(keyspace)?, keyspace))).collect();
    waiting.sort_by_key(|(oldest, _)| *oldest);
    let mut failure = None;
    for (_, keyspace) in waiting {
        match flush_sealed(store, keyspace) {
            Ok(()) => return Ok(true),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(false), Err)
}

/// Writes all sealed memtables of a keyspace to tables; nothing if it is dropped.
pub fn flush_sealed(store: &Store, keyspace: &Arc<KeyspaceState>) -> Result<()> {
    match try_flush_sealed(store, keyspace) {
        Err(_) if keyspace.is_dropped() => Ok(()),
        flushed => flushed,
    }
}

fn try_flush_sealed(store: &Store, keyspace: &Arc<KeyspaceState>) -> Result<()> {
    let writing = store.writing()?;
    let _one_at_a_time = keyspace.jobs.flushing.lock();
    // Not the view: it would keep files that compactions replace meanwhile from being deleted.
    let sealed = keyspace.view.load().sealed.clone();
    let mut left = &sealed[..];
    while let Some((newer, group)) = oldest_group(left) {
        match &group[0].ingested {
            Some(run) => install_ingested(store, writing, keyspace, group, run)?,
            None => {
                flush_group(store, writing, keyspace, group)
                    .inspect_err(|_| remove_leftovers(&store.files))?;
            }
        }
        left = newer;
    }
    Ok(())
}

/// Flushes a group of memtables, and reports its begin and its end.
fn flush_group(
    store: &Store,
    writing: &Writing,
    keyspace: &Arc<KeyspaceState>,
    memtables: &[Arc<MemtableView>],
) -> Result<()> {
    let payload_bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
    let job = FlushJob::new(keyspace.event_ref(), memtables.len(), payload_bytes);
    store.events.emit(|| Event::FlushBegun(job.clone()));
    let began_ns = store.monotonic_ns();
    let result = flush_memtables(store, writing, keyspace, memtables);
    let duration = Duration::from_nanos(store.monotonic_ns().saturating_sub(began_ns));
    let done = result.as_ref().map(|_| ()).map_err(Clone::clone);
    store.events.emit(|| Event::FlushEnded { job, result, duration });
    done
}

/// Writes some sealed memtables, the oldest there are, given newest first, to tables and installs those.
fn flush_memtables(
    store: &Store,
    writing: &Writing,
    keyspace: &Arc<KeyspaceState>,
    memtables: &[Arc<MemtableView>],
) -> Result<JobOutput> {
    let sealed_at = memtables.first().and_then(|newest| newest.seal_seqno()).unwrap_or(SeqNo::ZERO);
    debug_assert!(store.visible.load(Ordering::Acquire) >= sealed_at.get(), "CP6");
    let hull = hull_of(memtables);
    let began_ns = store.env.clock.monotonic_ns();
    let mut tables = match &hull {
        Some(hull) => write_memtables(store, writing, keyspace, memtables, hull)?,
        None => Outputs::none(&writing.tables),
    };
    note_flush(store, keyspace, memtables, tables.bytes(), began_ns);
    order_behind_others(store, writing, keyspace, memtables, sealed_at)?;
    let _handed_over = open_outputs(
        &store.files,
        keyspace.id,
        keyspace.options().strategy.uses_overwrite_ratios(),
        &mut tables,
    );
    let output = tables.job_output();
    install::install(store, keyspace, memtables, FileReason::Flush, |version, busy| {
        let new_run = writing.tables.take_run_id();
        let mut edit = VersionEdit::new();
        if let Some(hull) = &hull {
            // Chosen anew: a compaction may have invalidated the placement chosen at the beginning.
            let to = keyspace.options().strategy.flush_placement(version, hull, busy);
            let place = to.place(version, new_run);
            keyspace.tuning.overwrite_ratios.lock().note(version, &tables.overwrite_ratios);
            tables.add_to(&mut edit, keyspace.id, place).claim();
        }
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno: sealed_at });
        edit
    })?;
    Ok(output)
}

/// Reports the rate of a flush to the write control.
fn note_flush(
    store: &Store,
    keyspace: &KeyspaceState,
    memtables: &[Arc<MemtableView>],
    table_bytes: u64,
    began_ns: u64,
) {
    let payload_bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
    let ended_ns = store.env.clock.monotonic_ns();
    keyspace.write_control.lock().note_flush(payload_bytes, table_bytes, began_ns, ended_ns);
}

/// F3: the entries of `memtables` must not become durable before older entries of other keyspaces.
fn order_behind_others(
    store: &Store,
    writing: &Writing,
    keyspace: &KeyspaceState,
    memtables: &[Arc<MemtableView>],
    sealed_at: SeqNo,
) -> Result<()> {
    if planted!(TearsBatchOverKeyspaces) {
        return Ok(());
    }
    if install::must_sync_log_before(store, keyspace, sealed_at) {
        writing.sync_up_to(sealed_at)?;
        seal_laggard(store, keyspace, memtables)?;
    } else if store.consumers.are_there() {
        // HS6: data that survives in tables must survive in the history, too.
        writing.sync_up_to(sealed_at)?;
    }
    Ok(())
}

/// Installs ingested tables: their "flush" is an edit alone. All older data is in the tree by now, so
/// each table may go as deep as it overlaps nothing.
fn install_ingested(
    store: &Store,
    writing: &Writing,
    keyspace: &KeyspaceState,
    group: &[Arc<MemtableView>],
    run: &TreeRun,
) -> Result<()> {
    let seqno = group.first().and_then(|view| view.seal_seqno()).unwrap_or(SeqNo::ZERO);
    order_behind_others(store, writing, keyspace, group, seqno)?;
    let mut placed = Vec::with_capacity(run.parts.len());
    install::install(store, keyspace, group, FileReason::Ingest, |version, busy| {
        let mut edit = VersionEdit::new();
        let parts = run.parts.iter().map(|part| Arc::clone(&part.meta));
        place_ingested(&keyspace.options(), version, busy, &writing.tables, parts, |place, part| {
            placed.push((place.level, part.bytes));
            edit.add_part(keyspace.id, place, part);
        });
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno });
        edit
    })?;
    let raw_bytes = run.parts.iter().map(|part| part.meta.raw_bytes).sum();
    keyspace.jobs.traffic.note_ingest(raw_bytes, placed.into_iter());
    Ok(())
}

/// Seals the keyspace whose unflushed entries are the oldest, if they are older than all of `flushed`. An
/// idle keyspace with a few entries would otherwise force every flush of a busy one to sync the log
/// first, which costs several times as much as flushing those few entries. One at a time: of a thousand
/// keyspaces with occasional writes, each flush takes one along.
fn seal_laggard(store: &Store, keyspace: &KeyspaceState, flushed: &[Arc<MemtableView>]) -> Result<()> {
    let Some(first_flushed) = flushed.iter().filter_map(|view| view.first_seqno()).min() else {
        return Ok(());
    };
    let keyspaces = store.all_keyspaces();
    let laggard = keyspaces
        .iter()
        .filter(|other| other.id != keyspace.id)
        .filter_map(|other| {
            let view = other.view.load();
            let first = view.active.first_seqno().filter(|_| view.sealed.is_empty())?;
            (first < first_flushed).then_some((first, other))
        })
        .min_by_key(|(first, _)| *first);
    match laggard {
        Some((_, laggard)) => seal_if_filled(store, laggard),
        None => Ok(()),
    }
}

/// Merges sealed memtables into tables.
fn write_memtables<'w>(
    store: &Store,
    writing: &'w Writing,
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
    spec.layout.is_downgraded = keyspace
        .tuning
        .compression_downgrade
        .downgrades(&options, || write_control::fullest_queue_permille(store, keyspace));
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
    let tables = merge_memtables(&writing.tables, &spec, version, hull, memtables, boundaries)?;
    let flushed = Flushed {
        operations: memtables.iter().map(|view| view.memtable.len()).sum(),
        entries: tables.entries(),
        tombstones: tables.tombstones(),
    };
    let moved = tables.moved(0, store.monotonic_ns().saturating_sub(start_ns));
    keyspace.jobs.traffic.note_flush(to.level(), flushed, moved);
    Ok(tables)
}

/// Seals and flushes keyspaces, and waits until everything they held at the call is in tables.
pub fn flush_keyspaces(store: &Store, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    store.writing()?;
    for keyspace in keyspaces {
        seal_if_filled(store, keyspace)?;
    }
    for keyspace in keyspaces {
        // The flush worker may be doing it already; the second finds nothing left.
        flush_sealed(store, keyspace)?;
    }
    store.scheduler.request(WorkerPool::Compaction);
    Ok(())
}

/// Seals the active memtable of a keyspace unless it is empty, or the keyspace dropped.
pub fn seal_if_filled(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    loop {
        let writing = store.writing()?;
        {
            let mut state = writing.commit.lock();
            if let Ok(active) = state.active(keyspace.id) {
                let is_empty = active.entries == 0;
                let nothing_next = crate::write::batch::Share::nothing(keyspace.id);
                return if is_empty {
                    Ok(())
                } else {
                    switch_memtable::seal(store, &mut state, keyspace.id, &nothing_next)
                };
            }
        }
        // Being dropped: the dropping thread holds the manifest until the outcome is decided, and may
        // still fail.
        drop(writing.manifest.lock());
        if keyspace.is_dropped() {
            return Ok(());
        }
    }
}

/// Sealed memtables, newest first.
type Sealed = [Arc<MemtableView>];

/// Splits the oldest group off from sealed memtables, given newest first: an ingest alone, or all memtables
/// that are older than any ingest.
fn oldest_group(sealed: &Sealed) -> Option<(&Sealed, &Sealed)> {
    let oldest = sealed.last()?;
    let ingest_before = || sealed.iter().rposition(|view| view.ingested.is_some());
    let from = match &oldest.ingested {
        Some(_) => sealed.len() - 1,
        None => ingest_before().map_or(0, |at| at + 1),
    };
    Some(sealed.split_at(from))
}

/// Chooses a position for each of some ingested parts, which share no key: the deepest possible.
fn place_ingested(
    options: &KeyspaceOptions,
    version: &Version,
    busy: &Busy,
    factory: &TableFactory,
    parts: impl Iterator<Item = Arc<PartMeta>>,
    mut add: impl FnMut(Place, Arc<PartMeta>),
) {
    // Only the front of level 0 and that of the last level begin new runs, whatever the number of parts.
    let mut chosen: Vec<(Position, Place)> = Vec::new();
    for part in parts {
        let to = options.strategy.flush_placement(version, &part.range, busy);
        let place = chosen.iter().find(|(position, _)| *position == to).map(|(_, place)| *place);
        let place = place.unwrap_or_else(|| {
            let place = to.place(version, factory.take_run_id());
            chosen.push((to, place));
            place
        });
        add(place, part);
    }
}

/// Adds sealed memtables and ingested tables, given newest first, to an unpublished state; see
/// [`add_flushed`].
pub fn add_sealed<'a>(
    factory: &'a TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    write_buffer_bytes: u64,
    sealed: &[Arc<MemtableView>],
) -> Result<UnclaimedFiles<'a>> {
    let mut files = UnclaimedFiles::new(factory);
    let mut left = sealed;
    while let Some((newer, group)) = oldest_group(left) {
        match &group[0].ingested {
            Some(run) => {
                let parts = run.parts.iter().map(|part| Arc::clone(&part.meta)).collect();
                add_ingested(factory, state, id, options, parts)?;
            }
            None => files.append(add_flushed(factory, state, id, options, write_buffer_bytes, group)?),
        }
        left = newer;
    }
    Ok(files)
}

/// Adds ingested tables, which share no key, to an unpublished state.
pub fn add_ingested(
    factory: &TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    parts: Vec<Arc<PartMeta>>,
) -> Result<()> {
    let version = state.keyspace(id).map_or_else(Arc::default, |keyspace| Arc::clone(&keyspace.version));
    let mut edit = VersionEdit::new();
    place_ingested(options, &version, &Busy::default(), factory, parts.into_iter(), |place, part| {
        edit.add_part(id, place, part);
    });
    state.apply(&edit)?;
    Ok(())
}

/// The output specification of a flush to `to`.
fn flush_spec<'a>(
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
                is_downgraded: false,
                cut: Cut::for_output(version, to, strategy_options),
                input_bytes: memtables.iter().map(|view| view.memtable.payload_bytes()).sum(),
                filter: TableFilter::in_tree(options, version, None, to, keys, tuner),
            },
        )
    }
}

/// Merges memtables, given newest first, with keys in `hull`, into tables placed above those of `version`.
fn merge_memtables<'w>(
    factory: &'w TableFactory,
    spec: &OutputSpec<'_>,
    version: &Version,
    hull: &KeyRange,
    memtables: &[Arc<MemtableView>],
    boundaries: Boundaries,
) -> Result<Outputs<'w>> {
    let merge =
        MergingCursor::new(memtables.iter().map(|view| Source::Memtable(view.memtable.cursor())).collect());
    let mut older = OlderVersions::all_of(version, hull);
    let deletes = input_range_dels::of_memtables(memtables, &boundaries, &older);
    let below = |key: &[u8], seqno: SeqNo| older.may_hold(key, seqno);
    write_tables(factory, spec, merge, boundaries, deletes, below)
}

/// Writes sealed memtables of a keyspace, given newest first, to tables and adds those to an unpublished
/// state: that of a database being opened or copied. No snapshot is older than such a state, so only the
/// newest version of each key is kept. The state's last sequence number must cover the memtables.
///
/// The tables' files are deleted when the result is dropped, unless they are claimed.
pub fn add_flushed<'a>(
    factory: &'a TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    write_buffer_bytes: u64,
    memtables: &[Arc<MemtableView>],
) -> Result<UnclaimedFiles<'a>> {
    let Some(hull) = hull_of(memtables) else { return Ok(UnclaimedFiles::new(factory)) };
    let version = state.keyspace(id).map_or_else(Arc::default, |keyspace| Arc::clone(&keyspace.version));
    let to = options.strategy.flush_placement(&version, &hull, &Busy::default());
    let place = to.place(&version, factory.take_run_id());
    let strategy_options = planner_options(options, write_buffer_bytes);
    let mut spec = flush_spec(id, options, &version, to, memtables, &strategy_options, None);
    spec.retention.operand_merger =
        state.keyspace(id).and_then(|keyspace| options.operand_merger(&keyspace.name)).map(Arc::new);
    let boundaries = Boundaries::new([], SeqNo::MAX);
    let tables = merge_memtables(factory, &spec, &version, &hull, memtables, boundaries)?;
    let mut edit = VersionEdit::new();
    let files = tables.add_to(&mut edit, id, place);
    state.apply(&edit)?;
    Ok(files)
}

/// The key range of some memtables, range tombstones included.
fn hull_of(memtables: &[Arc<MemtableView>]) -> Option<KeyRange> {
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
