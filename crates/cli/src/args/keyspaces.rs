//! Arguments of `keyspaces`.

use clap::Args;

/// List the keyspaces with their sizes; create, drop and rename them, show and change their options
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker keyspaces
  esker keyspaces --create events --set compression_last=zstd:3
  esker keyspaces --rename events.new events
  esker keyspaces --options --keyspace events
  esker keyspaces --keyspace events --set block_size=16KiB --set level0_stop_runs=40
  esker keyspaces --drop events

Entries are counted with superseded versions and tombstones. A drop has no confirmation and no undo.")]
pub(crate) struct KeyspacesArgs {
    /// Create a keyspace
    #[arg(long, value_name = "NAME", group = "change")]
    pub(crate) create: Option<String>,
    /// Drop a keyspace and everything in it
    #[arg(long, value_name = "NAME", group = "change")]
    pub(crate) drop: Option<String>,
    /// Rename a keyspace
    #[arg(long, value_names = ["OLD", "NEW"], num_args = 2, group = "change")]
    pub(crate) rename: Option<Vec<String>>,
    /// Show the options of --keyspace
    #[arg(long, group = "change")]
    pub(crate) options: bool,
    /// Set an option of --keyspace, or of the created one
    #[arg(long, value_name = "OPTION=VALUE", conflicts_with_all = ["drop", "rename", "options"])]
    pub(crate) set: Vec<String>,
}

impl KeyspacesArgs {
    /// Whether the command changes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        self.create.is_none() && self.drop.is_none() && self.rename.is_none() && self.set.is_empty()
    }

    /// Whether the database may be missing.
    pub(crate) fn creates(&self) -> bool {
        self.create.is_some()
    }
}
