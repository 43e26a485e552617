//! Arguments of `explain`.

use super::RangeArgs;
use clap::{Args, Subcommand};

/// Explain a get, a scan, puts, space, memory or a stall: steps with figures, and what dominates
///
/// `get` and `scan` do what they explain. Figures in brackets are what the cost model expects.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker explain get user:17
  esker explain scan --prefix user: --limit 100
  esker explain put --keyspace users
  esker explain space --json
  esker explain memory
  esker explain stall --connect 127.0.0.1:8081

On a database that another process has open, such as a server, the process that has it open answers: memory, \
cache and stalls are those of that process.")]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) what: ExplainCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Look up a key: the sources asked and passed over, blocks, and times
    Get {
        /// The key
        #[arg(value_name = "KEY", allow_negative_numbers = true)]
        wanted: String,
    },
    /// Walk a range: entries, tombstones and older versions met in each source, blocks, and times
    Scan(ExplainScanArgs),
    /// What becomes of a byte that is put: log, memtable, flushes and compactions
    Put,
    /// Where the bytes of the directory are: alive, overwritten, deleted, held by readers, log
    Space,
    /// Where the memory of the process is, beside the budget
    Memory,
    /// Why writes are slowed or stopped, since when and until when
    Stall,
}

impl ExplainCommand {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ExplainCommand::Get { .. } => "explain get",
            ExplainCommand::Scan(_) => "explain scan",
            ExplainCommand::Put => "explain put",
            ExplainCommand::Space => "explain space",
            ExplainCommand::Memory => "explain memory",
            ExplainCommand::Stall => "explain stall",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ExplainScanArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Most pairs to walk over [default: all of the range]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}
