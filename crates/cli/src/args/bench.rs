//! Arguments of `bench`.

use super::durability::DurabilityArg;
use crate::format::parse_bytes;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Measure the database on generated data, with every answer checked
///
/// Groups of workloads: fill (fillseq, fillbatch, fillrandom), bulkload (rawwrite, bulkseq, bulkrandom), read
/// (readrandom, readzipf, readmissing, multireadrandom), scan (readseq, readreverse, seekrandom), mixed
/// (readwrite, transaction, mergerandom), deleted (seekdeleted, seekrangedeleted, queue), open (reopen,
/// reopenkill). A fill begins with an empty database and replaces data of an earlier benchmark; the others
/// use stored data, or fill first. A transaction gets one key and puts it; mergerandom adds 1 to counters in
/// a separate keyspace. Of the group open, p50 is the median of 5 openings: reopen opens after a clean close,
/// reopenkill after another process has filled a memtable and was killed. Of the group bulkload, rawwrite
/// writes the pairs' bytes into a file and counts them as pairs: the device's limit.
///
/// Not in `all`: deleted deletes all records, one by one or by one range delete, waits, and seeks over them;
/// queue puts at the tail, finds the head and deletes it, and reports how the latency changed. Blob
/// overwrites values of 4 KiB evenly and reports write and space amplification. Compact merges 4 uncompressed
/// runs of the records and reports processor time. Overwrite puts random present keys for --seconds and times
/// each. Rest is readrested: overwrites a tenth of the records, waits for --idle_seconds, and reports how
/// many runs a get may probe. Keyspaces makes --keyspaces keyspaces with an entry each and reports what
/// creating, closing, opening and flushing them takes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker bench
  esker bench fill --num 5000000 --threads 2
  esker bench read --memory 256MiB --json
  esker bench --benchmarks fillrandom,readrandom,seekrandom --value_size 400
  esker bench --benchmarks transaction --threads 2
  esker bench --benchmarks fillrandom,mergerandom
  esker bench shares --distribution zipf
  esker bench open --num 2000000
  esker bench deleted --idle_seconds 30
  esker bench bulkload --num 10000000
  esker bench blob --blob_bytes 500MB
  esker bench overwrite --num 10000000 --seconds 600 --series seconds.csv
  esker bench rest --num 86000000 --reads 1000000 --idle_seconds 60
  esker bench compact --num 4000000
  esker bench memory --memory 64MiB
  esker bench stalls --num 4000000 --memory 128MiB --seconds 120

Latencies are those of every 64th operation. A row of a fill is followed by one that counts until flushes \
and compactions have caught up.")]
pub(crate) struct BenchArgs {
    /// Which workloads: fill, bulkload, read, scan, mixed, shares, deleted, open, blob, compact, overwrite,
    /// rest, keyspaces, memory, stalls or all
    #[arg(value_name = "GROUP", default_value = "all", hide_possible_values = true)]
    pub(crate) group: BenchGroup,
    /// Exactly these workloads in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_workload)]
    pub(crate) benchmarks: Option<Vec<esker_bench::Workload>>,
    /// Use stored data, and never replace it
    #[arg(long = "use_existing_db")]
    pub(crate) use_existing_db: bool,
    /// Records of the data set
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) num: u64,
    /// Operations of a reading or mixed workload [default: as many as records]
    #[arg(long, value_name = "N")]
    pub(crate) reads: Option<u64>,
    /// Bytes of a key, at least 8
    #[arg(long = "key_size", value_name = "BYTES", default_value_t = 16)]
    pub(crate) key_size: usize,
    /// Bytes of a value, half compressible
    #[arg(long = "value_size", value_name = "BYTES", default_value_t = 100)]
    pub(crate) value_size: usize,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Puts of a batch in fillbatch
    #[arg(long = "batch_size", value_name = "N", default_value_t = 1000)]
    pub(crate) batch_size: usize,
    /// Keys of a multi-get in multireadrandom
    #[arg(long = "multi_get_size", value_name = "N", default_value_t = 32)]
    pub(crate) multi_get_size: usize,
    /// Pairs read after a seek in seekrandom
    #[arg(long = "seek_nexts", value_name = "N", default_value_t = 10)]
    pub(crate) seek_nexts: usize,
    /// Share of gets in readwrite, in percent
    #[arg(long = "read_percent", value_name = "PERCENT", default_value_t = 50)]
    pub(crate) read_percent: u8,
    /// How records are chosen by workloads that choose present ones: uniform, zipf, latest, sequential,
    /// gaussian or skewed
    #[arg(long, value_name = "NAME", value_parser = parse_distribution, default_value = "uniform")]
    pub(crate) distribution: esker_bench::Distribution,
    /// Idle seconds before the seeks of seekdeleted and seekrangedeleted, and before readrested
    #[arg(long = "idle_seconds", value_name = "N", default_value_t = 60)]
    pub(crate) idle_seconds: u64,
    /// Seconds of overwrite and stallbound
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Phases of memorybound [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) phases: Vec<String>,
    /// Share of its data that memorybound writes
    #[arg(long = "data_share", value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) data_share: f64,
    /// CSV file for the figures of each second of overwrite
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// Keyspaces of the workload keyspaces
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) keyspaces: u64,
    /// Live bytes of large values in blob
    #[arg(long = "blob_bytes", value_name = "BYTES", value_parser = parse_bytes, default_value = "2GB")]
    pub(crate) blob_bytes: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// What an acknowledged write survives: none, process or power
    #[arg(long, value_name = "LEVEL", default_value = "process", hide_possible_values = true)]
    pub(crate) durability: DurabilityArg,
    /// The same as --durability power
    #[arg(long, conflicts_with = "durability")]
    pub(crate) sync: bool,
    /// The same as --memory
    #[arg(long = "memory_budget", value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "memory")]
    pub(crate) memory_budget: Option<u64>,
    /// Print the distribution of latencies
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Make this many puts and wait for the kill: the child process of `reopenkill`
    #[arg(long = "victim_puts", value_name = "N", hide = true)]
    pub(crate) victim_puts: Option<u64>,
    /// Which of a record's two values those puts write
    #[arg(long = "victim_version", value_name = "N", default_value_t = 1, hide = true)]
    pub(crate) victim_version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchGroup {
    /// Writing a data set
    Fill,
    /// Writing a data set past the log
    Bulkload,
    /// Point reads
    Read,
    /// Scans
    Scan,
    /// Reads and writes at the same time
    Mixed,
    /// Puts, gets, ranges and deletes by shares
    Shares,
    /// Reads among deleted keys
    Deleted,
    /// Opening the database
    Open,
    /// Large values
    Blob,
    /// Merging sorted runs
    Compact,
    /// Overwriting without a pause
    Overwrite,
    /// Reading after idle time
    Rest,
    /// Many keyspaces
    Keyspaces,
    /// Anonymous memory against its bound
    Memory,
    /// How long puts wait, against its bound
    Stalls,
    /// All but deleted, blob, compact, overwrite, rest, keyspaces, memory and stalls
    All,
}

fn parse_workload(name: &str) -> Result<esker_bench::Workload, String> {
    esker_bench::Workload::parse(name).ok_or_else(|| {
        let names: Vec<&str> = esker_bench::Workload::ALL.iter().map(|workload| workload.name()).collect();
        format!("there are {}", names.join(", "))
    })
}

fn parse_distribution(name: &str) -> Result<esker_bench::Distribution, String> {
    esker_bench::Distribution::parse(name).ok_or_else(|| {
        let names = esker_bench::Distribution::ALL.map(|distribution| distribution.name());
        format!("there are {}", names.join(", "))
    })
}
