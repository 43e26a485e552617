//! What the cost model expects of a keyspace as it is.

use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::shape;
use esker_engine::state::store::Store;
use esker_model::advice::{Prices, form};
use esker_model::cost::Costs;
use esker_version::Version;

/// The costs of the keyspace's strategy for a tree of this size; `None` without a formula or without tables.
pub(super) fn costs_of(store: &Store, keyspace: &KeyspaceState, version: &Version) -> Option<Costs> {
    let options = keyspace.options();
    let of_strategy = shape::strategy_options(store, &options);
    let bytes = version.bytes() as f64;
    if bytes == 0.0 {
        return None;
    }
    let form = form(&options.strategy, &of_strategy, bytes)?;
    Some(Costs::of(&form, bytes / (of_strategy.memtable_bytes as f64).max(1.0)))
}

/// Work of one read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Filters that were asked.
    pub(super) filters: u64,
    /// Blocks that were searched.
    pub(super) blocks: u64,
    /// Of these, blocks and large values that were read from files.
    pub(super) file_reads: u64,
    /// Bytes that were read beside the first of each block: of large values.
    pub(super) file_bytes: u64,
    /// Entries that a merge of sources passed.
    pub(super) entries: u64,
}

impl Work {
    /// How long it takes at the usual prices.
    pub(super) fn expected_ns(&self) -> f64 {
        let prices = Prices::default();
        self.filters as f64 * prices.filter_ns
            + self.blocks as f64 * prices.block_search_ns
            + self.file_reads as f64 * prices.block_read_ns
            + self.file_bytes as f64 * prices.byte_read_ns
            + self.entries as f64 * prices.comparison_ns
    }
}
