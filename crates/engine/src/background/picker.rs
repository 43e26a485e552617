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
//! The database is idle when nothing was written between two checks [`IDLE_AFTER`] apart. Then memtables that
//! are worth a table are flushed, because tombstones in memory slow down seeks until they are flushed, and
//! the strategies may converge the tree, from a byte budget ([`crate::state::idle_budget`]) where the rewrite does
//! not pay off. The log is shrunk ([`crate::background::idle_wal`]). One write ends the idle state: running jobs
//! continue, no further one begins.

use crate::state::activity::Activity;
use crate::state::keyspace::KeyspaceState;
use crate::state::no_plan_cache::NoPlan;
use crate::state::scheduler::LOOK_INTERVAL;
use crate::state::store::Store;
use esker_base::{FileNumber, PartId, Result, SeqNo};
use esker_build::overwrite_ratio::overwrite_ratios_of;
use esker_options::KeyspaceOptions;
use esker_strategy::{BlobGc, Busy, Class, CompactionPlan, PlanKind, Shape, StrategyOptions, plan_blob_gc};
use esker_view::SuperVersion;
use esker_view::tree::Tree;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// No table is cut below this because of the budget.
const LEAST_TABLE_BYTES: u64 = 2 << 20;

/// The idle state begins after this time without a write.
const IDLE_AFTER: Duration = LOOK_INTERVAL;

/// A smaller memtable is not flushed when the database is idle: its tombstones, some thousand at most, cost a
/// seek less than a tenth of a millisecond, and a table for a few entries is not worth its file.
pub const IDLE_SEAL_BYTES: u64 = 64 << 10;

/// A picked compaction.
pub struct PickedCompaction {
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

impl Store {
    /// The next plan for a keyspace while these jobs run. The caller holds the lock of `busy`, under which
    /// the view is loaded: a job that ended has installed its result before it removes its mark.
    ///
    /// Blob garbage collection comes before maintaining the shape, because it merges its inputs into the last
    /// level.
    pub fn next_plan(&self, keyspace: &KeyspaceState, busy: &Busy) -> Option<PickedCompaction> {
        self.call_strategy(keyspace, busy, Drops::First)
    }

    /// The same, without plans that only drop tables.
    pub fn next_merge(&self, keyspace: &KeyspaceState, busy: &Busy) -> Option<PickedCompaction> {
        let wanted = self.call_strategy(keyspace, busy, Drops::First)?;
        if wanted.plan.kind == PlanKind::Drop {
            self.call_strategy(keyspace, busy, Drops::Never)
        } else {
            Some(wanted)
        }
    }

    fn call_strategy(&self, keyspace: &KeyspaceState, busy: &Busy, drops: Drops) -> Option<PickedCompaction> {
        // Before any input of the answer is read.
        let epoch = keyspace.no_plan_cache.lock().epoch;
        let view = keyspace.view.load();
        let options = keyspace.options();
        let is_idle = self.quiet.is_idle.load(Ordering::Relaxed);
        let now_ns = self.monotonic_ns();
        let has_idle_budget = is_idle && self.idle_budget.lock().is_left(now_ns);
        let asked = NoPlan {
            version: Arc::clone(&view.tree.version),
            options: Arc::clone(&options),
            oldest: self.snapshots.summary().1,
            is_idle,
            has_idle_budget,
            until_ns: now_ns,
        };
        if keyspace.has_no_plan_for(&asked) {
            return None;
        }
        let hidden = self.hidden_parts(&view.tree);
        let heat = if options.strategy.uses_heat() {
            keyspace.heat.lock().of_tree(&view.tree, now_ns)
        } else {
            Vec::new()
        };
        let overwrite_ratios = overwrite_ratios_of(&keyspace.overwrite_ratios, &options, &view.tree.version);
        let shape = Shape {
            heat: &heat,
            overwrite_ratios: &overwrite_ratios,
            migration: options.migration(),
            ..self.shape(&view.tree, &hidden).with_idle(is_idle)
        };
        let shape = match drops {
            Drops::First => shape,
            // As if nothing were deleted or expired for every reader.
            Drops::Never => Shape { hidden: &[], expired_ms: 0, ..shape },
        };
        let mut of_strategy = self.strategy_options(&options);
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
            keyspace.compaction_outcome.note_success();
            let until_ns = asked.until_ns.saturating_add(LOOK_INTERVAL.as_nanos() as u64);
            let mut book = keyspace.no_plan_cache.lock();
            if book.epoch == epoch {
                book.last = Some(NoPlan { until_ns, ..asked });
            }
        }
        plan
    }

    /// The shape of a tree while the database is not idle; `hidden` is [`Store::hidden_parts`].
    pub fn shape<'v>(&self, tree: &'v Tree, hidden: &'v [PartId]) -> Shape<'v> {
        let now_ms = self.time.now_ms();
        let oldest = self.snapshots.summary().1;
        let oldest_snapshot = oldest.map_or(SeqNo::MAX, |moment| moment.seqno);
        let expired_ms = oldest.map_or(now_ms, |moment| moment.read_time_ms);
        Shape { oldest_snapshot, now_ms, expired_ms, hidden, ..Shape::new(&tree.version) }
    }

    /// Parts in which everything is deleted for every reader, ascending.
    pub fn hidden_parts(&self, tree: &Tree) -> Vec<PartId> {
        // Parts whose range tombstones cannot be read now are left for later: a read that needs them reports
        // the error.
        let hidden = tree.hidden().unwrap_or_default();
        if hidden.is_empty() {
            return Vec::new();
        }
        let boundaries = self.snapshots.sample(&self.visible, &self.time);
        hidden.iter().filter(|part| part.is_hidden_from_all(&boundaries)).map(|part| part.part).collect()
    }

    /// The strategy's options for a keyspace.
    pub fn strategy_options(&self, options: &KeyspaceOptions) -> StrategyOptions {
        let jobs = u32::try_from(self.compaction_threads).unwrap_or(u32::MAX);
        StrategyOptions { jobs, ..strategy_options(options, self.memory.write_buffer_bytes) }
    }

    /// [`Store::compaction_debt`] without parts that could be dropped, which would take I/O to determine. For
    /// writers that make room under the commit lock: dropping those would make no room in level 0 that a
    /// merge does not.
    pub fn known_debt(&self, keyspace: &KeyspaceState, view: &SuperVersion) -> u64 {
        let options = keyspace.options();
        let overwrite_ratios = overwrite_ratios_of(&keyspace.overwrite_ratios, &options, &view.tree.version);
        let shape = Shape {
            overwrite_ratios: &overwrite_ratios,
            migration: options.migration(),
            ..self.shape(&view.tree, &[])
        };
        options.strategy.debt(&shape, &self.strategy_options(&options))
    }

    /// Bytes that the strategy would move before it has nothing more to do, without idle work.
    pub fn compaction_debt(&self, keyspace: &KeyspaceState, view: &SuperVersion) -> u64 {
        let options = keyspace.options();
        let hidden = self.hidden_parts(&view.tree);
        let overwrite_ratios = overwrite_ratios_of(&keyspace.overwrite_ratios, &options, &view.tree.version);
        let shape = Shape {
            overwrite_ratios: &overwrite_ratios,
            migration: options.migration(),
            ..self.shape(&view.tree, &hidden)
        };
        let of_strategy = self.strategy_options(&options);
        let collection = collection(&options, &shape, &Busy::default(), &of_strategy);
        let of_collection = collection.map_or(0, |wanted| wanted.plan.est_in_bytes.max(1));
        options.strategy.debt(&shape, &of_strategy).saturating_add(of_collection)
    }

    pub fn monotonic_ns(&self) -> u64 {
        self.env.clock.monotonic_ns()
    }

    /// Finds out whether the database is idle, and if so, has the memtables flushed that are worth it, and
    /// lets the log rest.
    pub fn note_activity(&self) -> Result<()> {
        let now_ns = self.monotonic_ns();
        let seqno = SeqNo::new(self.visible.load(Ordering::Acquire));
        let silent_ns = {
            let mut last = self.last_activity.lock();
            if last.seqno != seqno {
                *last = Activity { seqno, since_ns: now_ns };
            }
            now_ns.saturating_sub(last.since_ns)
        };
        let is_idle = silent_ns >= IDLE_AFTER.as_nanos() as u64;
        self.quiet.is_idle.store(is_idle, Ordering::Relaxed);
        self.age_for_targets()?;
        if is_idle {
            for keyspace in self.all_keyspaces().iter() {
                if keyspace.view.load().active.memtable.payload_bytes() >= IDLE_SEAL_BYTES {
                    self.seal_if_filled(keyspace)?;
                }
            }
            self.rest_if_still_at(seqno);
        }
        self.offer_if_quiet();
        Ok(())
    }
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

/// The size of small tables, so that the memory a merge needs for one until its end fits its share of the
/// budget: four write buffers, which are twice that, as a power of two, and 16 MiB for server-sized budgets.
fn least_table_bytes(write_buffer_bytes: u64) -> u64 {
    let bytes = write_buffer_bytes
        .saturating_mul(4)
        .clamp(LEAST_TABLE_BYTES, StrategyOptions::default().least_table_bytes);
    1 << bytes.ilog2()
}

/// The strategy's options for a keyspace.
pub fn strategy_options(options: &KeyspaceOptions, default_write_buffer_bytes: u64) -> StrategyOptions {
    StrategyOptions {
        memtable_bytes: options.write_buffer_bytes.unwrap_or(default_write_buffer_bytes),
        table_bytes: options.table_bytes,
        least_table_bytes: least_table_bytes(default_write_buffer_bytes),
        max_job_bytes: options.max_job_bytes,
        max_job_runs: options.max_job_runs,
        level0_trigger_runs: options.level0_trigger_runs,
        level0_hard_runs: options.level0_limits().1,
        blob_space_amp_permille: options.blob_space_amp_permille,
        max_space_amp_permille: options.max_space_amp_permille,
        delete_within_ms: options.delete_within_ms(),
        ..StrategyOptions::default()
    }
}
