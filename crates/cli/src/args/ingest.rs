//! Arguments of `ingest`, which adds table files, and `build-table`, which writes them.

use super::FileFormat;
use clap::Args;
use std::path::PathBuf;

/// Add table files that `build-table` wrote, all or nothing
///
/// Every checksum and the order of the keys are checked first. Existing keys get the values of the tables.
/// Tables of one call must not share keys. They are copied by default, and not rewritten where their keys
/// overlap nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker build-table users.sst users.tsv
  esker ingest users.sst --keyspace users
  esker ingest --move part-*.sst")]
pub(crate) struct IngestArgs {
    /// The table files, in any order
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Move the files into the database; on one file system nothing is copied
    #[arg(long = "move")]
    pub(crate) moves: bool,
    /// Link the files into the database where the file system can; they must not be written to afterwards
    #[arg(long, conflicts_with = "moves")]
    pub(crate) link: bool,
}

/// Write a table file from sorted pairs, without a database; `ingest` adds it to one
///
/// The keys must ascend, compared byte by byte (`LC_ALL=C sort` for text), each once; `esker load --bulk`
/// sorts pairs in any order. The input has the formats of `esker load`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker build-table users.sst users.tsv
  LC_ALL=C sort -u users.tsv | esker build-table users.sst - --format tsv
  esker build-table log.sst log.jsonl --set compression_last=zstd:3")]
pub(crate) struct BuildTableArgs {
    /// The table file, which must not exist
    #[arg(value_name = "TABLE")]
    pub(crate) table: PathBuf,
    /// The pairs, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Format of the pairs: csv, tsv, jsonl or pairs [default: by the file's extension]
    #[arg(long, hide_possible_values = true)]
    pub(crate) format: Option<FileFormat>,
    /// The first line of a CSV or TSV file names the columns
    #[arg(long)]
    pub(crate) header: bool,
    /// A keyspace option that concerns tables, such as block_size or filter
    #[arg(long, value_name = "OPTION=VALUE")]
    pub(crate) set: Vec<String>,
}
