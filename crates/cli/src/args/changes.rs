//! Arguments of `changes`, the command for the change stream and its consumers.

use clap::Args;

/// Show committed batches in order, as far back as the log goes; create, move and drop consumers
///
/// The log holds what was written since the database was last opened for writing. For a named consumer it is
/// kept longer, until the consumer has acknowledged it, up to a limit (1 GiB). Showing acknowledges nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker changes
  esker changes --since 1200 --limit 10 --json
  esker changes --create audit
  esker changes --consumer audit
  esker changes --consumer audit --acknowledge 1250
  esker changes --consumers
  esker changes --drop audit

With --keyspace only changes of that keyspace are shown. Keyspaces that are created, dropped or renamed \
are not changes; one that has been dropped since is shown by its number.

A database is open in one process at a time, so there is nobody to follow from here: a program that wants \
changes as they come reads them in its own process, by `db.changes_since(..)` or `db.consumer(..)`.")]
pub(crate) struct ChangesArgs {
    /// Begin after this sequence number [default: the oldest in the log]
    #[arg(long, value_name = "SEQNO", conflicts_with = "consumer")]
    pub(crate) since: Option<u64>,
    /// Begin at this consumer's position
    #[arg(long, value_name = "NAME")]
    pub(crate) consumer: Option<String>,
    /// Most batches to show
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Create a consumer: after the last write, or at --since
    #[arg(long, value_name = "NAME", group = "change", conflicts_with = "consumer")]
    pub(crate) create: Option<String>,
    /// Acknowledge everything up to this sequence number for --consumer
    #[arg(long, value_name = "SEQNO", group = "change", requires = "consumer")]
    pub(crate) acknowledge: Option<u64>,
    /// Drop a consumer
    #[arg(long, value_name = "NAME", group = "change", conflicts_with = "consumer")]
    pub(crate) drop: Option<String>,
    /// List the consumers
    #[arg(long, group = "change", conflicts_with = "consumer")]
    pub(crate) consumers: bool,
}

impl ChangesArgs {
    /// Whether the command changes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        self.create.is_none() && self.acknowledge.is_none() && self.drop.is_none()
    }
}
