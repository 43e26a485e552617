//! Arguments of commands on given keys: `get`, `put`, `ttl`, `delete` and `delete-range`.

use super::durability::DurabilityArg;
use crate::format::parse_duration;
use clap::Args;
use std::time::Duration;

/// Print the value of a key; exit code 1 if it has none
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  esker get user:17\n  esker get --key int --value hex -5")]
pub(crate) struct GetArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) wanted: String,
    /// Do not end the value with a new line
    #[arg(long, short = 'n')]
    pub(crate) no_newline: bool,
}

/// Set the value of a key
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker put user:17 Ada
  esker put picture - < picture.png
  esker put session:9 token --ttl 30m")]
pub(crate) struct PutArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) target: String,
    /// The value, or - to read it from standard input to its end
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub(crate) content: String,
    /// Time to live, such as 500ms, 10s, 30m, 12h or 7d [default: the keyspace's, which is forever]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) ttl: Option<Duration>,
    /// What the write must survive: the end of the process, a power cut (power), or nothing in particular
    /// (none)
    #[arg(long, value_name = "LEVEL", default_value = "process", hide_possible_values = true)]
    pub(crate) durability: DurabilityArg,
}

/// Print the remaining time to live in milliseconds, or `forever`; exit code 1 without a value
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  esker ttl session:9\n  esker ttl session:9 --json")]
pub(crate) struct TtlArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) wanted: String,
}

/// Delete keys; a key without a value is no error
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  esker delete user:17 user:18")]
pub(crate) struct DeleteArgs {
    /// The keys
    #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
    pub(crate) targets: Vec<String>,
}

/// Delete all keys from START up to, but not including, END
///
/// Takes the time of one write, whatever the range contains. There is no confirmation and no undo.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker delete-range user:17 user:18
  esker delete-range --keyspace events 2024-01 2024-02")]
pub(crate) struct DeleteRangeArgs {
    /// The first key to delete
    #[arg(value_name = "START", allow_negative_numbers = true)]
    pub(crate) start: String,
    /// The first key to keep
    #[arg(value_name = "END", allow_negative_numbers = true)]
    pub(crate) end: String,
}
