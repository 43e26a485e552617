//! Arguments of `simulate`, which computes the costs of strategies on a model of the tree.

use crate::format::parse_bytes;
use clap::Args;
use esker::options::Strategy;
use esker::parts::model::Input;

/// The strategies of `--strategies all`: each kind with its usual parameters.
const USUAL: [&str; 9] = [
    "leveled:4",
    "leveled:10",
    "partial:10",
    "golden-ratio",
    "tiered:4",
    "tiered:10",
    "lazy-leveled:4",
    "lazy-leveled:10",
    "partitioned",
];

/// Compute the costs of strategies on a tree of any size, without a database
///
/// The store's planners run on a tree of figures only, a million million entries in seconds. Prints write
/// amplification beside the closed formula's, space amplification, the runs that a lookup probes and the
/// blocks that it reads; and with --rate how long writers had to wait.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker simulate
  esker simulate --entries 1e9 --strategies leveled:10 lazy-leveled:4 partitioned
  esker simulate --entries 1e12 --write-buffer-size 1GiB --strategies all
  esker simulate --input zipf:0.99 --deletes 0.3 --passes 5
  esker simulate --ttl 0.5 --strategies leveled:10 lazy-leveled:4 partitioned
  esker simulate --against-engine --passes 2 --strategies leveled:10 tiered:4 partitioned
  esker simulate --entries 1e9 --rate 60MiB --disk 400MiB --threads 2 --json

Inputs:
  uniform      overwrites, every key as often as any other
  80/20        overwrites, four fifths of them of a fifth of the keys, scattered
  zipf:0.99    overwrites by popularity, scattered; the exponent may be 0 to 2
  hot-range    overwrites, four fifths of them of a fifth of the key space
  load         every key once in random order, into an empty tree
  sequential   every key once in ascending order, into an empty tree

Strategies are written as for the option `strategy`: see `esker options strategy`.
Columns:
  writes       bytes written to tables over bytes of keys and values, without the log; by
               simulation and by formula
  space        bytes of tables over those of live data: on average, at most, and with
               outputs of running merges
  runs         sorted runs that may hold a key: on average, and at most
  absent/found blocks that a lookup reads in vain for an absent key, and in all for a present
               one, with cold caches")]
pub(crate) struct SimulateArgs {
    /// Strategies to compare, or all
    #[arg(long, value_name = "STRATEGY", num_args = 1.., default_value = "all")]
    pub(crate) strategies: Vec<String>,
    /// Different keys, such as 10000000, 10M or 1e9
    #[arg(long, value_name = "N", default_value = "10M", value_parser = parse_count)]
    pub(crate) entries: u64,
    /// Order and frequency of the written keys
    #[arg(long, value_name = "INPUT", default_value = "uniform")]
    pub(crate) input: Input,
    /// Share of overwrites that are deletes, 0 to 0.95; as many of the keys are absent at any time
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub(crate) deletes: f64,
    /// Lifetime of an entry in passes over all keys, such as 0.5 [default: forever]. If that is hardly more
    /// flushes than level 0 holds runs, and with several runs in the last level, writes are right within a
    /// factor of two only
    #[arg(long, value_name = "PASSES")]
    pub(crate) ttl: Option<f64>,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub(crate) key_bytes: u32,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) value_bytes: u32,
    /// Bytes of a memtable
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) write_buffer_size: u64,
    /// Bytes at which tables are cut [default: by the size of the tree]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) table_size: Option<u64>,
    /// Most bytes of the last level that a merge rewrites, where a strategy can go window by window
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) max_job: Option<u64>,
    /// Measured writes, in passes over all keys [default: 2 and more, in whole cycles of the last level, and
    /// up to 16 where level 0 is merged window by window; 1 for loads]
    #[arg(long, value_name = "N")]
    pub(crate) passes: Option<f64>,
    /// Writes before the measurement, in passes over all keys [default: 1 and more; 0 for loads]
    #[arg(long, value_name = "N")]
    pub(crate) warm_up: Option<f64>,
    /// Filter memory in bits per entry, divided over the runs by Monkey
    #[arg(long, value_name = "BITS", default_value_t = 10.0)]
    pub(crate) filter_bits: f64,
    /// Bytes of keys and values that arrive per second [default: each flush waits for the end of compaction]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) rate: Option<u64>,
    /// Bytes that the disk writes per second
    #[arg(long, value_name = "BYTES", default_value = "400MiB", value_parser = parse_bytes)]
    pub(crate) disk: u64,
    /// Run the engine as well, in a temporary directory or below --data, and print both
    #[arg(long, conflicts_with = "rate")]
    pub(crate) against_engine: bool,
    /// Fail if writes or space of some strategy deviate from the engine's by more than this percentage
    #[arg(long, value_name = "PERCENT", requires = "against_engine")]
    pub(crate) within: Option<f64>,
    /// Compaction threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) threads: usize,
}

impl SimulateArgs {
    /// The strategies to compare, each once, in the order given.
    pub(crate) fn chosen(&self) -> Result<Vec<Strategy>, String> {
        let mut chosen: Vec<Strategy> = Vec::new();
        for name in &self.strategies {
            let names: &[&str] = if name == "all" { &USUAL } else { &[name] };
            for name in names {
                let strategy = name.parse()?;
                if !chosen.contains(&strategy) {
                    chosen.push(strategy);
                }
            }
        }
        Ok(chosen)
    }
}

/// A count: `10000000`, `10M`, `1e9`, `2.5G`. Units are powers of 1000.
pub(super) fn parse_count(written: &str) -> Result<u64, String> {
    let wrong = || format!("'{written}' is no count from 1 to 10^15; write 10000000, 10M or 1e7");
    let (number, unit) = match written.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => (&written[..at], letter.to_ascii_lowercase()),
        _ => (written, ' '),
    };
    let scale = match unit {
        ' ' => 1.0,
        'k' => 1e3,
        'm' => 1e6,
        'g' | 'b' => 1e9,
        't' => 1e12,
        _ => return Err(wrong()),
    };
    let count = number.replace(['_', ','], "").parse::<f64>().map_err(|_| wrong())? * scale;
    if (1.0..=1e15).contains(&count) { Ok(count.round() as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_any_form() {
        for (text, count) in [("7", 7), ("10M", 10_000_000), ("1e9", 1_000_000_000), ("2.5k", 2500)] {
            assert_eq!(parse_count(text), Ok(count));
        }
        for text in ["", "0", "-1", "1e99", "10X", "M", "nan"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_usual_strategies_exist() {
        for name in USUAL {
            assert!(name.parse::<Strategy>().is_ok(), "{name}");
        }
    }
}
