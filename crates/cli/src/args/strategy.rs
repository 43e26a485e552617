//! Arguments of `strategy`.

use clap::Args;

/// Show by which strategy the tree is kept in form, and how far it is from that form; change it, pause and
/// resume
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

What is there is rewritten step by step whenever the database is open, behind everything that writes need. \
To take a change back, set the strategy before. With the option adaptive_compaction it follows the workload.")]
pub(crate) struct StrategyArgs {
    /// The strategy from now on
    #[arg(value_name = "STRATEGY")]
    pub(crate) strategy: Option<String>,
    /// Leave the tree as it is for now, but for what writes need
    #[arg(long, conflicts_with_all = ["resume", "wait"])]
    pub(crate) pause: bool,
    /// Go on after a pause
    #[arg(long)]
    pub(crate) resume: bool,
    /// Return when the tree has the form of its strategy
    #[arg(long)]
    pub(crate) wait: bool,
}

impl StrategyArgs {
    /// Whether the command changes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        self.strategy.is_none() && !self.pause && !self.resume && !self.wait
    }
}
