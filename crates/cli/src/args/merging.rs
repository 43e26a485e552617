//! Arguments of `incr` and `append`, which write merge operands.

use clap::Args;

/// Add a number to a counter and print what it is then
///
/// The keyspace must have the merge operator `counter` or `counter-checked`; one that is missing is created
/// with `counter`. A key without a value counts from 0.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker incr --keyspace visits /index.html
  esker incr --keyspace visits /index.html 10
  esker incr --keyspace visits /index.html -- -3
  esker keyspaces --keyspace default --set merge_operator=counter")]
pub(crate) struct IncrArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) target: String,
    /// What is added
    #[arg(value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) by: i64,
}

/// Append to the value of a key
///
/// The keyspace must have the merge operator `append`; one that is missing is created with it and the
/// separator.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker append --keyspace log today 'door opened'
  esker append --keyspace tags user:17 admin --separator ,
  esker append --keyspace pictures frame < frame.png
  esker keyspaces --keyspace default --set 'merge_operator=append:, '")]
pub(crate) struct AppendArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) target: String,
    /// What is appended; without it, standard input to its end
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub(crate) content: Option<String>,
    /// What stands between two pieces, if the keyspace is created now [default: a line end]
    #[arg(long, value_name = "TEXT")]
    pub(crate) separator: Option<String>,
}
