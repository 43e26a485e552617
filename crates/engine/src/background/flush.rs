//! Flush: writes the sealed memtables of a keyspace to tables.
//!
//! [`crate::background::flush_group`] chooses what is flushed together; this file does it. One flush of a
//! keyspace at a time, of all memtables that are sealed when it starts, merged: versions that no reader can
//! see are dropped, so overwrites within memtables never reach a compaction; on several threads if so many
//! are allowed ([`crate::background::flush_pieces`]). Ingested tables are queued among the sealed memtables,
//! in the order of writes, and divide them into groups, which are installed oldest first (IN4).
//!
//! The steps of protocol 4.1: F0 take the memtables (all of them are behind `visible`, CP6: the seal happened
//! under the commit lock, and so did every write before it), sample the boundaries. F1 write and sync the
//! tables. F2 sync their directory. F3 sync the log if another keyspace depends on it (WL6). F4 to F6
//! install. Tables of several keyspaces take each step together.

use crate::background::flush_pieces;
use crate::background::install;
use crate::state::jobs::JobFacts;
use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::shape::planner_options;
use crate::state::store::{Store, Writing};
use crate::state::traffic::Flushed;
use crate::write::switch_memtable;
use crate::write::write_control;
use esker_base::planted;
use esker_base::{InsideJob, JobSection, KeyspaceId, Result, SeqNo};
use esker_build::compression_downgrade::{Effort, WrittenBy};
use esker_build::filters::{FilterTuner, TableFilter};
use esker_build::older_versions::OlderVersions;
use esker_build::overwrite_ratio::OlderTables;
use esker_build::pending_outputs::{Outputs, UnclaimedFiles};
use esker_build::range_del::input_range_dels;
use esker_build::table_factory::TableFactory;
use esker_build::table_sink::OutputControl;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputSpec, write_tables};
use esker_build::warmed_outputs::{CacheWarming, open_outputs, remove_leftovers};
use esker_env::{DeferredSyncs, FileSystem};
use esker_filter::FilterWatch;
use esker_iter::{Boundaries, InputRangeDels, KeySpan, MergingCursor};
use esker_options::{Event, FileReason, FlushJob, JobOutput, KeyspaceOptions};
use esker_strategy::{Busy, Class, Cut, Position, StrategyOptions};
use esker_version::{DatabaseState, EditOp, KeyRange, PartMeta, Place, Version, VersionEdit};
use esker_view::read::source::Source;
use esker_view::tree::TreeRun;
use esker_view::{MemtableView, paths};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
            None => flush_memtables(store, writing, &[FlushShare { keyspace, memtables: group }])?,
        }
        left = newer;
    }
    Ok(())
}

/// What a flush takes from one keyspace: some sealed memtables, the oldest there are, given newest first.
pub(super) struct FlushShare<'a> {
    pub(super) keyspace: &'a Arc<KeyspaceState>,
    pub(super) memtables: &'a [Arc<MemtableView>],
}

impl FlushShare<'_> {
    /// The last sequence number before the newest of the memtables was sealed.
    fn sealed_at(&self) -> SeqNo {
        self.memtables.first().and_then(|newest| newest.seal_seqno()).unwrap_or(SeqNo::ZERO)
    }

    fn of_install(&self) -> install::InstallShare<'_> {
        install::InstallShare { keyspace: self.keyspace, flushed: self.memtables }
    }
}

/// A share's tables that are written and not installed; deleted when dropped.
struct WrittenShare<'a> {
    hull: Option<KeyRange>,
    tables: Outputs<'a>,
}

/// Flushes memtables of some keyspaces, given by id, together: the tables become durable by one sync of all,
/// and one edit installs them. Reports the begin and the end of each keyspace's flush.
pub(super) fn flush_memtables(store: &Store, writing: &Writing, shares: &[FlushShare<'_>]) -> Result<()> {
    let deferred = match shares {
        [_] => None,
        _ => Some(Arc::new(DeferredSyncs::new(&store.env.fs, &paths::tables(&store.dir))?)),
    };
    let deferring = deferred
        .as_ref()
        .map(|syncs| writing.tables.writing_to(Arc::<DeferredSyncs>::clone(syncs) as Arc<dyn FileSystem>));
    let factory = deferring.as_ref().unwrap_or(&writing.tables);
    let mut begun = Vec::with_capacity(shares.len());
    let done = write_shares(store, factory, shares, &mut begun).and_then(|written| {
        deferred.as_ref().map_or(Ok(()), |syncs| syncs.sync())?;
        install_shares(store, writing, shares, written)
    });
    if done.is_err() {
        remove_leftovers(&store.files);
    }
    for (at, (job, began_ns)) in begun.into_iter().enumerate() {
        let duration = Duration::from_nanos(store.monotonic_ns().saturating_sub(began_ns));
        if done.is_ok() {
            store.counters.flush_times.lock().add(duration.as_nanos() as u64);
        }
        let result = done.as_ref().map(|outputs| outputs[at].clone()).map_err(Clone::clone);
        store.events.emit(|| Event::FlushEnded { job, result, duration });
    }
    done.map(drop)
}

/// F1 and F2 for each share. Notes in `begun` what was reported as begun.
fn write_shares<'f>(
    store: &Store,
    factory: &'f TableFactory,
    shares: &[FlushShare<'_>],
    begun: &mut Vec<(FlushJob, u64)>,
) -> Result<Vec<WrittenShare<'f>>> {
    let write = |share: &FlushShare<'_>| {
        let FlushShare { keyspace, memtables } = share;
        debug_assert!(store.visible.load(Ordering::Acquire) >= share.sealed_at().get(), "CP6");
        let payload_bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
        let job = FlushJob::new(keyspace.event_ref(), memtables.len(), payload_bytes);
        store.events.emit(|| Event::FlushBegun(job.clone()));
        let began_ns = store.monotonic_ns();
        begun.push((job, began_ns));
        let hull = hull_of(memtables);
        let tables = match &hull {
            Some(hull) => write_memtables(store, factory, keyspace, memtables, hull)?,
            None => Outputs::none(factory),
        };
        note_flush(store, keyspace, memtables, tables.bytes(), began_ns);
        Ok(WrittenShare { hull, tables })
    };
    shares.iter().map(write).collect()
}

/// F3 to F6 for all shares at once.
fn install_shares(
    store: &Store,
    writing: &Writing,
    shares: &[FlushShare<'_>],
    mut written: Vec<WrittenShare<'_>>,
) -> Result<Vec<JobOutput>> {
    let changes: Vec<_> = shares.iter().map(FlushShare::of_install).collect();
    order_behind_others(store, writing, &changes)?;
    let mut handed_over = Vec::with_capacity(shares.len());
    let mut outputs = Vec::with_capacity(shares.len());
    for (share, written) in shares.iter().zip(&mut written) {
        let uses_ratios = share.keyspace.options().strategy.uses_overwrite_ratios();
        handed_over.push(open_outputs(&store.files, share.keyspace.id, uses_ratios, &mut written.tables));
        outputs.push(written.tables.job_output());
    }
    let mut written: Vec<_> = written.into_iter().map(Some).collect();
    install::install_together(store, &changes, FileReason::Flush, |at, version, busy| {
        let keyspace = shares[at].keyspace;
        let new_run = writing.tables.take_run_id();
        let mut edit = VersionEdit::new();
        if let Some(WrittenShare { hull: Some(hull), tables }) = written[at].take() {
            // Chosen anew: a compaction may have invalidated the placement chosen at the beginning.
            let to = keyspace.options().strategy.flush_placement(version, &hull, busy);
            let place = to.place(version, new_run);
            keyspace.tuning.overwrite_ratios.lock().note(version, &tables.overwrite_ratios);
            tables.add_to(&mut edit, keyspace.id, place).claim();
        }
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno: shares[at].sealed_at() });
        edit
    })?;
    Ok(outputs)
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

/// F3: what is flushed must not become durable before older entries that stay in the log alone.
fn order_behind_others(
    store: &Store,
    writing: &Writing,
    changes: &[install::InstallShare<'_>],
) -> Result<()> {
    if planted!(TearsBatchOverKeyspaces) {
        return Ok(());
    }
    let memtables = || changes.iter().flat_map(|change| change.flushed);
    let Some(sealed_at) = memtables().filter_map(|memtable| memtable.seal_seqno()).max() else {
        return Ok(());
    };
    if install::must_sync_log_before(store, &install::FlushedMemtables::of(changes), sealed_at) {
        writing.sync_up_to(sealed_at)?;
        seal_laggard(store, memtables().filter_map(|memtable| memtable.first_seqno()).min())?;
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
    keyspace: &Arc<KeyspaceState>,
    group: &[Arc<MemtableView>],
    run: &TreeRun,
) -> Result<()> {
    let share = FlushShare { keyspace, memtables: group };
    let seqno = share.sealed_at();
    order_behind_others(store, writing, &[share.of_install()])?;
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

/// Seals the keyspace whose unflushed entries are the oldest, if they are older than all that is flushed. An
/// idle keyspace with a few entries would otherwise force every flush of a busy one to sync the log
/// first, which costs several times as much as flushing those few entries. One at a time: of a thousand
/// keyspaces with occasional writes, each flush takes one along.
fn seal_laggard(store: &Store, first_flushed: Option<SeqNo>) -> Result<()> {
    let Some(first_flushed) = first_flushed else { return Ok(()) };
    let keyspaces = store.all_keyspaces();
    let first_active = |keyspace: &Arc<KeyspaceState>| {
        let view = keyspace.view.load();
        view.active.first_seqno().filter(|first| view.sealed.is_empty() && *first < first_flushed)
    };
    let laggard = keyspaces.iter().filter_map(|keyspace| Some((first_active(keyspace)?, keyspace)));
    match laggard.min_by_key(|(first, _)| *first) {
        Some((_, laggard)) => seal_if_filled(store, laggard),
        None => Ok(()),
    }
}

/// Merges sealed memtables into tables.
fn write_memtables<'w>(
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
pub(super) type Sealed = [Arc<MemtableView>];

/// Splits the oldest group off from sealed memtables, given newest first: an ingest alone, or all memtables
/// that are older than any ingest.
pub(super) fn oldest_group(sealed: &Sealed) -> Option<(&Sealed, &Sealed)> {
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
                effort: Effort::Configured,
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
    let _inside = InsideJob::enter(JobSection::Flush);
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
