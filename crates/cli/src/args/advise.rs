//! Arguments of `advise`, which proposes a strategy.

use super::simulate::parse_count;
use crate::format::parse_bytes;
use clap::Args;
use esker::advice::Operations;

/// Propose strategy, size ratio and division of memory for the operations on a keyspace, with reasons
///
/// Closed formulas compute the costs of writes, lookups and scans under some ten thousand designs, in blocks
/// read and bytes written. The formulas' costs of the present design are compared with measurements on this
/// database and corrected by them. The operations are those of the keyspace's life, as `esker stats` counts
/// them, or stated ones: numbers in any unit, of which only the proportions matter. With --entries the data
/// is stated, too, and no database is opened.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker advise --writes 50 --reads-present 40 --reads-absent 10 \\
    --entries 100M --entry-bytes 116 --memory 1GiB
  esker advise --keyspace events --writes 90 --long-scans 10 --long-scan-length 5000
  esker advise --writes 95 --reads-present 5 --apply
  echo advise | esker shell

Columns:
  buffer, filters, cache   how memory is divided; filters in bits for each entry
  writes                   bytes written to tables for one of keys and values, without the log
  absent, found            blocks that a lookup searches for an absent key, and for a present one
  runs                     sorted runs: blocks that a short scan reads
  space                    bytes of tables over those of what is alive, on average
  cached                   part of the blocks that the cache answers
  cost                     nanoseconds for an operation of the mixture, at --read-us and
                           --merge-rate: what designs are ranked by")]
pub(crate) struct AdviseArgs {
    /// Lookups of keys that have a value
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) reads_present: f64,
    /// Lookups of keys that have none
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) reads_absent: f64,
    /// Scans of few entries
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) short_scans: f64,
    /// Entries that they return on average
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub(crate) short_scan_length: f64,
    /// Scans of many entries
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) long_scans: f64,
    /// Entries that they return on average
    #[arg(long, value_name = "N", default_value_t = 10_000.0)]
    pub(crate) long_scan_length: f64,
    /// Puts
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) writes: f64,
    /// Deletes
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) deletes: f64,
    /// Number of entries, such as 10000000, 10M or 1e9; the data is stated, too
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with = "apply")]
    pub(crate) entries: Option<u64>,
    /// Bytes of a key with its value
    #[arg(long, value_name = "BYTES", default_value_t = 116, requires = "entries")]
    pub(crate) entry_bytes: u32,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16, requires = "entries")]
    pub(crate) key_bytes: u32,
    /// Most space amplification: bytes of tables over live bytes
    #[arg(long, value_name = "FACTOR", requires = "entries")]
    pub(crate) max_space_amp: Option<f64>,
    /// Time to read an uncached block, in microseconds
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    pub(crate) read_us: f64,
    /// Bytes per second that background work reads, merges and writes
    #[arg(long, value_name = "BYTES", default_value = "250MB", value_parser = parse_bytes)]
    pub(crate) merge_rate: u64,
    /// Apply the proposed strategy, write buffer and filters, if they save enough
    #[arg(long)]
    pub(crate) apply: bool,
}

impl AdviseArgs {
    /// The stated operations, if there are any.
    pub(crate) fn operations(&self) -> Option<Operations> {
        let operations = Operations {
            present_reads: self.reads_present,
            absent_reads: self.reads_absent,
            short_scans: self.short_scans,
            short_scan_entries: self.short_scans * self.short_scan_length,
            long_scans: self.long_scans,
            long_scan_entries: self.long_scans * self.long_scan_length,
            puts: self.writes,
            deletes: self.deletes,
        };
        (operations != Operations::default()).then_some(operations)
    }
}
