//! Arguments of `incr` and `append`, which write merge operands.

use clap::Args;

/// Add a number to a counter and print the result
///
/// The keyspace must have the merge operator `counter` or `counter-checked`; a missing one is created with
/// `counter`. A key without a value counts from 0.
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
    /// The number to add
    #[arg(value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) by: i64,
}

/// Append to the value of a key
///
/// The keyspace must have the merge operator `append`; a missing one is created with it and the separator.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker append --keyspace log today 'door opened'
  esker append --keyspace tags user:17 admin --separator ,
  esker append --keyspace pictures frame - < frame.png
  esker keyspaces --keyspace default --set 'merge_operator=append:, '")]
pub(crate) struct AppendArgs {
    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) target: String,
    /// The text to append, or - to read it from standard input to its end
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub(crate) content: String,
    /// Separator of a keyspace that is created [default: a line end]
    #[arg(long, value_name = "TEXT")]
    pub(crate) separator: Option<String>,
}
