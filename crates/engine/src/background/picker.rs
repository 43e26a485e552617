//! Compaction picker: calls the strategies as rarely as possible and caches their negative answers.
//!
//! A strategy is a pure function of few inputs: the tree, the running jobs, the options, the oldest snapshot,
//! the time, and whether the database is idle. After each install the strategies of all keyspaces are called;
//! of a thousand keyspaces nearly all have no plan, again. So a negative answer is cached with the keyspace
//! together with its inputs ([`NoPlan`]). It holds until one of them changes, at most for the period after
//! which the compaction worker checks without a request: then time may have changed the answer, or a snapshot
//! other than the oldest has been dropped.
//!
//! # Idle
//! The database is idle when nothing was written between two checks [`crate::background::idle`] apart. Then
//! memtables that are worth a table are flushed, because tombstones in memory slow down seeks until they are
//! flushed, and the strategies may converge the tree, from a byte budget ([`crate::state::idle_budget`])
//! where the rewrite does not pay off. The log is shrunk ([`crate::background::idle_wal`]). One write ends
//! the idle state: running jobs continue, no further one begins.

use crate::state::keyspace::KeyspaceState;
use crate::state::keyspace::job_state::NoPlan;
use crate::state::scheduler::LOOK_INTERVAL;
use crate::state::shape;
use crate::state::store::Store;
use esker_base::FileNumber;
use esker_build::overwrite_ratio::overwrite_ratios_of;
use esker_options::KeyspaceOptions;
use esker_strategy::{
    BlobGc, Busy, Class, CompactionPlan, LevelLimit, PlanKind, Shape, StrategyOptions, plan_blob_gc,
};
use esker_version::LevelIndex;
use esker_view::SuperVersion;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A picked compaction.
pub struct PickedCompaction {
    /// What to compact.
    pub plan: CompactionPlan,
    /// Blob files whose values are rewritten by it.
    pub victims: BTreeSet<FileNumber>,
}

impl From<CompactionPlan> for PickedCompaction {
    fn from(plan: CompactionPlan) -> PickedCompaction {
        PickedCompaction { plan, victims: BTreeSet::new() }
    }
}

/// Whether plans that only drop whole tables are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drops {
    First,
    Never,
}

/// The next plan for a keyspace while these jobs run. The caller holds the lock of `busy`, under which
/// the view is loaded: a job that ended has installed its result before it removes its mark.
///
/// Blob garbage collection comes before maintaining the shape, because it merges its inputs into the last
/// level.
pub(crate) fn next_plan(store: &Store, keyspace: &KeyspaceState, busy: &Busy) -> Option<PickedCompaction> {
    call_strategy(store, keyspace, busy, Drops::First)
}

/// The same, without plans that only drop tables.
pub(crate) fn next_merge(store: &Store, keyspace: &KeyspaceState, busy: &Busy) -> Option<PickedCompaction> {
    let wanted = call_strategy(store, keyspace, busy, Drops::First)?;
    if wanted.plan.kind == PlanKind::Drop {
        call_strategy(store, keyspace, busy, Drops::Never)
    } else {
        Some(wanted)
    }
}

fn call_strategy(
    store: &Store,
    keyspace: &KeyspaceState,
    busy: &Busy,
    drops: Drops,
) -> Option<PickedCompaction> {
    store.counters.strategy_calls.fetch_add(1, Ordering::Relaxed);
    // Before any input of the answer is read.
    let epoch = keyspace.jobs.no_plan_cache.lock().epoch;
    let view = keyspace.view.load();
    let options = keyspace.options();
    let is_idle = store.quiet.is_idle.load(Ordering::Relaxed);
    let now_ns = store.monotonic_ns();
    let has_idle_budget = is_idle && store.idle_budget.lock().is_left(now_ns);
    let asked = NoPlan {
        version: Arc::clone(&view.tree.version),
        options: Arc::clone(&options),
        oldest: store.snapshots.oldest(),
        is_idle,
        has_idle_budget,
        is_scanned: keyspace.tuning.read_trigger.is_due(keyspace.tuning.scans.total()),
        until_ns: now_ns,
    };
    if keyspace.jobs.no_plan_cache.lock().has(&asked) {
        return None;
    }
    let hidden = shape::hidden_parts(store, &view.tree);
    let heat = if options.strategy.uses_heat() {
        keyspace.tuning.heat.lock().of_tree(&view.tree, now_ns)
    } else {
        Vec::new()
    };
    let overwrite_ratios =
        overwrite_ratios_of(&keyspace.tuning.overwrite_ratios, &options, &view.tree.version);
    let shape = Shape {
        heat: &heat,
        overwrite_ratios: &overwrite_ratios,
        migration: options.migration(),
        is_scanned: asked.is_scanned,
        ..shape::shape(store, &view.tree, &hidden).with_idle(is_idle)
    };
    let shape = match drops {
        Drops::First => shape,
        // As if nothing were deleted or expired for every reader.
        Drops::Never => Shape { hidden: &[], expired_ms: 0, ..shape },
    };
    let mut of_strategy = shape::strategy_options(store, &options);
    if has_idle_budget {
        of_strategy.idle_permille = 0;
    }
    let plan = options.strategy.plan(&shape, busy, &of_strategy);
    let collection = if plan.as_ref().is_some_and(|plan| plan.class > Class::Shape) {
        None
    } else {
        collection(&options, &shape, busy, &of_strategy)
    };
    let plan = collection.or_else(|| plan.map(PickedCompaction::from));
    if plan.is_none() && busy.is_empty() && drops == Drops::First {
        keyspace.jobs.compaction_outcome.note_success();
        let until_ns = asked.until_ns.saturating_add(LOOK_INTERVAL.as_nanos() as u64);
        let mut book = keyspace.jobs.no_plan_cache.lock();
        if book.epoch == epoch {
            book.last = Some(NoPlan { until_ns, ..asked });
        }
    }
    plan
}

/// Bytes that the strategy would move before it has nothing more to do, without idle work.
pub fn compaction_debt(store: &Store, keyspace: &KeyspaceState, view: &SuperVersion) -> u64 {
    let options = keyspace.options();
    let hidden = shape::hidden_parts(store, &view.tree);
    let overwrite_ratios =
        overwrite_ratios_of(&keyspace.tuning.overwrite_ratios, &options, &view.tree.version);
    let shape = Shape {
        overwrite_ratios: &overwrite_ratios,
        migration: options.migration(),
        ..shape::shape(store, &view.tree, &hidden)
    };
    let of_strategy = shape::strategy_options(store, &options);
    let beside = Busy::beside(keyspace.jobs.set_aside());
    let collection = collection(&options, &shape, &beside, &of_strategy);
    let of_collection = collection.map_or(0, |wanted| wanted.plan.est_in_bytes.max(1));
    shape::debt(keyspace, &options, &shape, &of_strategy).saturating_add(of_collection)
}

/// What the strategy lets each level hold before it is compacted, in the order of the levels.
pub fn level_limits(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &SuperVersion,
) -> Vec<(LevelIndex, LevelLimit)> {
    let options = keyspace.options();
    let shape = Shape { migration: options.migration(), ..shape::shape(store, &view.tree, &[]) };
    options.strategy.level_limits(&shape, &shape::strategy_options(store, &options))
}

/// The blob garbage collection of a keyspace, if one is due. Strategies without merges have none.
fn collection(
    options: &KeyspaceOptions,
    shape: &Shape<'_>,
    busy: &Busy,
    of_strategy: &StrategyOptions,
) -> Option<PickedCompaction> {
    if shape.version.blob_files().is_empty() || !options.strategy.merges() {
        return None;
    }
    let BlobGc { plan, victims } = plan_blob_gc(shape, busy, of_strategy)?;
    Some(PickedCompaction { plan, victims })
}
