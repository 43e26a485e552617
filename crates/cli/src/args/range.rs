//! Arguments of commands on a range of keys: `scan`, `count` and `compact`.

use clap::Args;

/// A range of keys.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) start: Option<String>,
    /// First key after the range
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) end: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<String>,
}

/// Print pairs in key order
///
/// A line is key, tab and value. Tabs, line ends and unprintable characters are escaped as in TSV files of
/// `dump`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker scan --prefix user: --limit 10
  esker scan --start a --end m --reverse --json")]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Most pairs to print
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

/// Count pairs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker count --prefix user:
  esker count --estimate --start 2024-01 --end 2024-02")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Estimate pairs and bytes without reading them; deleted and overwritten pairs count until a compaction
    #[arg(long)]
    pub(crate) estimate: bool,
}

/// Compact a keyspace, or a range of its keys, into the last level
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  esker compact\n  esker compact --keyspace users --start a --end m")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// All keyspaces
    #[arg(long, conflicts_with_all = ["start", "end", "prefix"])]
    pub(crate) all: bool,
}
