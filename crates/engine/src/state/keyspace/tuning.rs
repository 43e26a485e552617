//! What a keyspace learns from its use, and adapts to: reads, overwrites, filters.

use crate::state::adaptive_state::Adapting;
use crate::state::read_heat::ReadHeat;
use crate::state::read_triggered::ReadTrigger;
use esker_build::compression_downgrade::CompressionDowngrade;
use esker_build::filters::FilterTuner;
use esker_build::overwrite_ratio::OverwriteRatios;
use esker_build::warmed_outputs::ReadsAtFlush;
use esker_options::KeyspaceOptions;
use esker_strategy::{upper_bytes, upper_runs};
use esker_view::read::scan_tally::ScanCounts;
use esker_view::tree::Tree;
use parking_lot::Mutex;
use std::sync::Arc;

/// Measurements of one keyspace, and the decisions that follow from them.
#[derive(Debug, Default)]
pub struct Tuning {
    /// Counters of its cursors, which the cursors share.
    pub scans: Arc<ScanCounts>,
    /// Whether these scans justify a compaction.
    pub read_trigger: ReadTrigger,
    /// Measures whether flushed data is read.
    pub reads_at_flush: ReadsAtFlush,
    /// The state of its automatic tuning.
    pub adapting: Adapting,
    /// The read heat of its tables, if its strategy uses it.
    pub heat: Mutex<ReadHeat>,
    /// The overwrite ratios of its tables, if its strategy uses them.
    pub overwrite_ratios: Mutex<OverwriteRatios>,
    /// The compression downgrade of its jobs.
    pub compression_downgrade: CompressionDowngrade,
    /// Statistics of its filters, and the tuning of new ones.
    pub filters: FilterTuner,
}

impl Tuning {
    /// Called after each published change of the tree.
    pub(crate) fn note_tree(&self, tree: &Tree, options: &KeyspaceOptions) {
        self.scans.note_shape(tree, options.block_size_bytes);
        let (runs, bytes) = (upper_runs(&tree.version).count() as u64, upper_bytes(&tree.version));
        self.scans.watch(self.read_trigger.note_shape(self.scans.total(), runs, bytes));
    }
}
