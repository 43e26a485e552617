//! Arguments of `load` and `dump`, which read and write files of pairs.

use super::range::RangeArgs;
use crate::format::parse_duration;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Read pairs from a file into the database
///
/// CSV: key and value, fields with commas, quotes or line ends in double quotes, quotes inside doubled. TSV:
/// key, tab, value, with the escapes \t \n \r \\ and \xHH. JSON lines: objects with the members "key" and
/// "value", or "key_hex" and "value_hex" for bytes that are no text. Pairs: the binary files of CS265,
/// little-endian 32-bit key and value, which are stored as integers (`--key int --value int`), in
/// `--keyspace dsl.int` where the server's clients see them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker load users.csv --header
  esker load pairs.bin --keyspace dsl.int
  esker load events.tsv --bulk
  esker dump --data old --format jsonl | esker load - --format jsonl --data new")]
pub(crate) struct LoadArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Format of the file: csv, tsv, jsonl or pairs [default: by its extension; ndjson and bin are known,
    /// too]
    #[arg(long, hide_possible_values = true)]
    pub(crate) format: Option<FileFormat>,
    /// The first line of a CSV or TSV file names the columns
    #[arg(long)]
    pub(crate) header: bool,
    /// At a bad line: stop, and apply nothing of its batch; or skip and count it
    #[arg(long, value_name = "stop|skip", default_value = "stop", hide_possible_values = true)]
    pub(crate) on_error: OnError,
    /// Time to live of the pairs, such as 10s, 30m or 7d [default: the keyspace's, which is forever]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) ttl: Option<Duration>,
    /// All pairs or none, past the log, in any order: much faster for many; sorted ones go straight to the
    /// last level
    #[arg(long, conflicts_with = "batch_size")]
    pub(crate) bulk: bool,
    /// Pairs of a batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
}

/// The reaction of `load` to a bad line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Stop; nothing of the line's batch is applied
    Stop,
    /// Skip the line and count it
    Skip,
}

/// Write pairs to a file that `load` reads
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker dump users.csv --keyspace users
  esker dump --format jsonl | gzip > backup.jsonl.gz
  esker dump ints.csv --keyspace dsl.int --key int --value int")]
pub(crate) struct DumpArgs {
    /// The file, or - for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Format of the file: csv, tsv, jsonl or pairs [default: by its extension; jsonl to standard output]
    #[arg(long, hide_possible_values = true)]
    pub(crate) format: Option<FileFormat>,
    /// Begin a CSV or TSV file with a line `key,value`
    #[arg(long)]
    pub(crate) header: bool,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
}

/// The format of a file of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values
    Csv,
    /// Tab-separated values with escapes
    Tsv,
    /// One JSON object a line
    Jsonl,
    /// CS265's binary pairs of 32-bit integers
    Pairs,
}
