//! Arguments of `stats` and `levels`.

use crate::format::parse_duration;
use clap::Args;
use std::time::Duration;

/// Show counters, sizes and memory
///
/// With --watch, a line for each interval: entries written per second; MiB/s written by users, flushes and
/// compactions; write amplification since the start, without the log; gets per second, sampled one in 64, and
/// the tables that each searched; estimated space amplification; runs; compaction debt; and how long writers
/// were stopped.
///
/// Writes, stalls and amplification are counted over the database's life; what stands with "since opening",
/// and memory, is of the process that has the database open. `esker serve --watch` shows the figures of a
/// server as they change, and so does `esker top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker stats --data ./esker-data
  esker stats --connect 127.0.0.1:8081
  esker stats --watch 1s --count 60")]
pub(crate) struct StatsArgs {
    /// Print a line for each interval, such as 1s or 500ms; the database is opened for writing, so that its
    /// background work goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) watch: Option<Duration>,
    /// Number of lines [default: until interrupted]
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) count: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct LevelsArgs {
    /// List every table, too
    #[arg(long)]
    pub(crate) tables: bool,
}
