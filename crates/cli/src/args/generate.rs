//! Arguments of `generate`; the names are those of CS265's own generator.

use clap::Args;
use esker_bench::dsl_workload::{DslWorkload, PAIRS_PER_FILE, RangeStarts};
use std::path::PathBuf;

/// Write a workload of DSL commands on integers, for `exec` and for clients of the server
///
/// The options are those of the workload generator of Harvard's course CS265. All operations are mixed
/// evenly, counts and shares are exact, and equal seeds give equal files. What was generated is told on
/// standard error.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker generate --puts 100000 --gets 1000 --ranges 10 --deletes 20 > workload.txt
  esker generate --puts 10000 --gets 9000 --gets-misses-ratio 0.3 --gets-skewness 0.2 | esker exec -
  esker generate --puts 100000 --ranges 100 --gaussian-ranges --max-range-size 5000000
  esker generate --puts 10000000 --external-puts files | esker exec -")]
pub(crate) struct GenerateArgs {
    /// Number of puts
    #[arg(long, value_name = "N", default_value_t = 0)]
    puts: u64,
    /// Number of gets
    #[arg(long, value_name = "N", default_value_t = 0)]
    gets: u64,
    /// Number of range queries
    #[arg(long, value_name = "N", default_value_t = 0)]
    ranges: u64,
    /// Number of deletes, of stored keys
    #[arg(long, value_name = "N", default_value_t = 0)]
    deletes: u64,
    /// Share of the gets whose key is not stored, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    gets_misses_ratio: f64,
    /// Share of the gets that repeat an earlier one, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    gets_skewness: f64,
    /// Ranges begin anywhere (the default)
    #[arg(long)]
    uniform_ranges: bool,
    /// Ranges begin around the middle of the keys, by a normal distribution
    #[arg(long, conflicts_with = "uniform_ranges")]
    gaussian_ranges: bool,
    /// Greatest difference of the two ends of a range
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_range_size: i64,
    /// Keys and values lie between -N and N
    #[arg(long, value_name = "N", default_value_t = i32::MAX.into())]
    max_number: i64,
    /// Write the puts, before all else, into binary files of this directory, and commands that load them
    #[arg(long, value_name = "DIR")]
    pub(crate) external_puts: Option<PathBuf>,
    /// Most pairs of such a file
    #[arg(long, value_name = "N", default_value_t = PAIRS_PER_FILE, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) pairs_per_file: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl GenerateArgs {
    pub(crate) fn workload(&self) -> DslWorkload {
        DslWorkload {
            puts: self.puts,
            gets: self.gets,
            ranges: self.ranges,
            deletes: self.deletes,
            gets_misses_ratio: self.gets_misses_ratio,
            gets_skewness: self.gets_skewness,
            puts_first: self.external_puts.is_some(),
            range_starts: if self.gaussian_ranges { RangeStarts::Gaussian } else { RangeStarts::Uniform },
            max_range_size: self.max_range_size,
            max_number: self.max_number,
            seed: self.seed,
        }
    }
}
