//! Arguments of `inspect`.

use clap::{Args, ValueEnum};
use esker::parts::sst::IndexKind;
use std::path::PathBuf;

/// Show the content of a file of the database
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker inspect table esker-data/tables/000012.sst
  esker inspect blob esker-data/tables/000013.blob
  esker inspect wal esker-data/wal/0001.seg --limit 20
  esker inspect manifest esker-data/MANIFEST-000003 --json")]
pub(crate) struct InspectArgs {
    /// Kind of the file: table, blob, wal or manifest
    #[arg(value_name = "KIND", hide_possible_values = true)]
    pub(crate) kind: FileKind,
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Most blocks and entries, records or edits to print
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Of a table, show the entries, too
    #[arg(long)]
    pub(crate) entries: bool,
    /// Index kind to read a table with, as the option index_type; shows the choice of an adaptive one
    #[arg(long, value_name = "KIND", default_value_t)]
    pub(crate) index: IndexKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileKind {
    /// A table: properties, blocks and entries
    Table,
    /// A blob file: its values
    Blob,
    /// A segment of the write-ahead log: its records
    Wal,
    /// A manifest: its edits
    Manifest,
}
