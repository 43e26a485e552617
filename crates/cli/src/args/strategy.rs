//! Arguments of `strategy`.

use clap::Args;

/// Show or change the compaction strategy, and the progress of a migration to it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker strategy
  esker strategy lazy-leveled:4 --keyspace events
  esker strategy partial:10,least-overlap --wait
  esker strategy --pause
  esker strategy --resume --wait

Strategies: partitioned, leveled:T, tiered:T, lazy-leveled:T, tiered-leveled:T, fluid:T,K,Z, partial:T,PICK, \
golden-ratio, fifo:SIZE,AGE and none. T is the size ratio, from 1.5 to 32.

The tree is rewritten step by step whenever the database is open, after all compactions that writes need. \
To revert a change, set the previous strategy. With the option adaptive_compaction the strategy follows the workload.")]
pub(crate) struct StrategyArgs {
    /// The new strategy
    #[arg(value_name = "STRATEGY")]
    pub(crate) strategy: Option<String>,
    /// Pause the migration; only what writes need is compacted
    #[arg(long, conflicts_with_all = ["resume", "wait"])]
    pub(crate) pause: bool,
    /// Resume the migration
    #[arg(long)]
    pub(crate) resume: bool,
    /// Return when the migration is complete
    #[arg(long)]
    pub(crate) wait: bool,
}

impl StrategyArgs {
    /// Whether the command changes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        self.strategy.is_none() && !self.pause && !self.resume && !self.wait
    }
}
