//! Arguments of `top`, the dashboard.

use crate::format::parse_duration;
use clap::Args;
use std::time::Duration;

/// Show what a database does, in a terminal, anew each second
///
/// Operations and their latencies, whether writes are held back and until when, memory by part, log, readers,
/// and the trees of the largest keyspaces with what is being merged. Of a database that another process has
/// open, such as a server, the figures of that process; otherwise the database is opened for writing, so that
/// its background work goes on, and commands of other processes work on it meanwhile.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker top --data /var/lib/esker/data
  esker top --connect 127.0.0.1:8081
  ESKER_ADMIN_TOKEN=... esker top --connect db.example:8081 --interval 5s
  esker top --once | head -20
  esker top --json | jq .info.redis

Keys: up and down, or tab, choose the keyspace; ? shows help; q or Ctrl-C ends. Lookups are estimated from one \
in 64. With NO_COLOR in the environment nothing is coloured.")]
pub(crate) struct TopArgs {
    /// Time between two frames, such as 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Print one frame as text and end; its rates are those of one interval
    #[arg(long, conflicts_with = "json")]
    pub(crate) once: bool,
}
