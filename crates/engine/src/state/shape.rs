//! The tree as strategies see it: its shape, the options they plan by, and what they would still do.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_base::{PartId, SeqNo};
use esker_build::overwrite_ratio::overwrite_ratios_of;
use esker_options::KeyspaceOptions;
use esker_strategy::{Busy, Shape, StrategyOptions};
use esker_view::SuperVersion;
use esker_view::tree::Tree;

/// No table is cut below this because of the budget.
const LEAST_TABLE_BYTES: u64 = 2 << 20;

/// The shape of a tree while the database is not idle; `hidden` is [`hidden_parts`].
pub fn shape<'v>(store: &Store, tree: &'v Tree, hidden: &'v [PartId]) -> Shape<'v> {
    let now_ms = store.time.now_ms();
    let oldest = store.snapshots.oldest();
    let oldest_snapshot = oldest.map_or(SeqNo::MAX, |moment| moment.seqno);
    let expired_ms = oldest.map_or(now_ms, |moment| moment.read_time_ms);
    Shape { oldest_snapshot, now_ms, expired_ms, hidden, ..Shape::new(&tree.version) }
}

/// Parts in which everything is deleted for every reader, ascending.
pub fn hidden_parts(store: &Store, tree: &Tree) -> Vec<PartId> {
    // Parts whose range tombstones cannot be read now are left for later: a read that needs them reports
    // the error.
    let hidden = tree.hidden().unwrap_or_default();
    if hidden.is_empty() {
        return Vec::new();
    }
    let boundaries = store.snapshots.sample(&store.visible, &store.time);
    hidden.iter().filter(|part| part.is_hidden_from_all(&boundaries)).map(|part| part.part).collect()
}

/// The strategy's options for a keyspace.
pub fn strategy_options(store: &Store, options: &KeyspaceOptions) -> StrategyOptions {
    let jobs = u32::try_from(store.compaction_threads).unwrap_or(u32::MAX);
    StrategyOptions { jobs, ..planner_options(options, store.memory.write_buffer_bytes) }
}

/// [`crate::background::picker::compaction_debt`] without parts that could be dropped, which would take I/O
/// to determine. For writers that make room under the commit lock: dropping those would make no room in level
/// 0 that a merge does not.
pub(crate) fn known_debt(store: &Store, keyspace: &KeyspaceState, view: &SuperVersion) -> u64 {
    let options = keyspace.options();
    let overwrite_ratios =
        overwrite_ratios_of(&keyspace.tuning.overwrite_ratios, &options, &view.tree.version);
    let shape = Shape {
        overwrite_ratios: &overwrite_ratios,
        migration: options.migration(),
        ..shape(store, &view.tree, &[])
    };
    debt(keyspace, &options, &shape, &strategy_options(store, &options))
}

/// The strategy's debt; none if all that it wants is blocked by files that are set aside (SA1), because then
/// waiting changes nothing.
pub fn debt(
    keyspace: &KeyspaceState,
    options: &KeyspaceOptions,
    shape: &Shape<'_>,
    of_strategy: &StrategyOptions,
) -> u64 {
    let set_aside = keyspace.jobs.set_aside();
    let is_blocked = !set_aside.is_empty()
        && options.strategy.plan(shape, &Busy::beside(set_aside), of_strategy).is_none();
    if is_blocked { 0 } else { options.strategy.debt(shape, of_strategy) }
}

/// Whether waiting for compaction can help a keyspace: a job is running, or there is debt.
pub fn can_compact(store: &Store, keyspace: &KeyspaceState) -> bool {
    keyspace.jobs.compaction_outcome.is_running() || known_debt(store, keyspace, &keyspace.view.load()) > 0
}

/// The strategy's options for a keyspace.
pub fn planner_options(options: &KeyspaceOptions, default_write_buffer_bytes: u64) -> StrategyOptions {
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

/// The size of small tables, so that the memory a merge needs for one until its end fits its share of the
/// budget: four write buffers, which are twice that, as a power of two, and 16 MiB for server-sized budgets.
fn least_table_bytes(write_buffer_bytes: u64) -> u64 {
    let bytes = write_buffer_bytes
        .saturating_mul(4)
        .clamp(LEAST_TABLE_BYTES, StrategyOptions::default().least_table_bytes);
    1 << bytes.ilog2()
}
