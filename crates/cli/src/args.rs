//! Command line arguments: defined once, for parsing and for `--help`.

mod advise;
mod changes;
mod connect;
mod copies;
mod experiment;
mod explain;
mod generate;
mod honoured;
mod ingest;
mod keyspaces;
mod merging;
mod options;
mod over_http;
mod pages;
mod repair;
mod serve;
mod simulate;
mod strategy;
mod top;

pub(crate) use advise::AdviseArgs;
pub(crate) use changes::ChangesArgs;
pub(crate) use connect::{ClientTlsArgs, Connect};
pub(crate) use copies::{
    BackupArgs, BackupCommand, BackupCreateArgs, BackupPruneArgs, BackupVerifyArgs, CheckpointArgs,
    ExportArgs, ImportArgs, QuarantineArgs, RestoreArgs,
};
pub(crate) use experiment::ExperimentArgs;
pub(crate) use explain::{ExplainArgs, ExplainCommand, ExplainScanArgs};
pub(crate) use generate::GenerateArgs;
pub(crate) use honoured::{check as check_options, check_line as check_line_options};
pub(crate) use ingest::{BuildTableArgs, IngestArgs};
pub(crate) use keyspaces::KeyspacesArgs;
pub(crate) use merging::{AppendArgs, IncrArgs};
pub(crate) use options::OptionsArgs;
pub(crate) use over_http::{OVER_HTTP, refusal_over_http};
pub(crate) use pages::{CompletionsArgs, ManArgs};
pub(crate) use repair::{RepairArgs, VerifyArgs};
pub(crate) use serve::{LogFormat, ServeArgs};
pub(crate) use simulate::SimulateArgs;
pub(crate) use strategy::StrategyArgs;
pub(crate) use top::TopArgs;

use crate::failure::EXIT_CODES;
use crate::format::{Format, parse_bytes, parse_duration};
use clap::{Args, Parser, Subcommand, ValueEnum};
use esker::parts::sst::IndexKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// How keys and values are written, as `--help` shows it.
const FORMATS: &str = "\
Formats of keys and values:
  text  taken as it is; in lines of `scan` and TSV files with the escapes \\t \\n \\r \\\\ and \\xHH
  int   a signed 64-bit integer in decimal, stored in eight bytes that sort as the numbers do
  hex   any bytes, as hexadecimal digits";

/// Widest page of help, in columns.
const PAGE_COLUMNS: usize = 100;

/// Esker, a log-structured merge-tree key-value store.
#[derive(Debug, Parser)]
#[command(name = "esker", version, max_term_width = PAGE_COLUMNS)]
#[command(after_help = format!("{FORMATS}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Directory of the database [default: ./esker-data; of `bench` ./esker-bench]
    #[arg(long, visible_alias = "db", global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Let the process that has the database open execute the command: PATH is its control socket, or the
    /// directory of the database. Commands that report, such as `stats` and `top`, also take HOST:PORT of
    /// `serve --admin`; `shell` that of a server of the text protocol
    #[arg(long, global = true, value_name = "PATH", value_parser = Connect::parse)]
    pub(crate) connect: Option<Connect>,
    /// File with the token of `serve --admin-token-file` [default: the variable ESKER_ADMIN_TOKEN]
    #[arg(long, global = true, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTlsArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// File with options, in the form of `esker options --toml`; the command line takes precedence
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Memory budget of the database, such as 256MiB [default: a quarter of the available memory]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Log level for standard error: off, error, warn, info, debug or trace [default: warn; of `serve` info,
    /// of `top` off]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<LevelFilter>,
}

/// The keyspace, and the formats of keys and values.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ShapeArgs {
    /// Keyspace to work on [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
    /// Format of keys in input and output: text, int or hex [default: text]
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) key: Option<Format>,
    /// Format of values in input and output: text, int or hex [default: text]
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) value: Option<Format>,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// [`ShapeArgs`] with the defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) keyspace: String,
    pub(crate) key: Format,
    pub(crate) value: Format,
    pub(crate) json: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { keyspace: "default".into(), key: Format::Text, value: Format::Text, json: false }
    }
}

impl ShapeArgs {
    /// The given values, and those of `otherwise` for the rest.
    pub(crate) fn or(&self, otherwise: &Shape) -> Shape {
        Shape {
            keyspace: self.keyspace.clone().unwrap_or_else(|| otherwise.keyspace.clone()),
            key: self.key.unwrap_or(otherwise.key),
            value: self.value.unwrap_or(otherwise.value),
            json: self.json || otherwise.json,
        }
    }
}

impl Global {
    pub(crate) fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("./esker-data"))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<ServeArgs>),
    Shell(ShellArgs),
    Top(TopArgs),
    #[command(flatten)]
    Data(DataCommand),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Repair(RepairArgs),
    Import(ImportArgs),
    BuildTable(BuildTableArgs),
    Inspect(InspectArgs),
    Bench(Box<BenchArgs>),
    Experiment(ExperimentArgs),
    Simulate(Box<SimulateArgs>),
    Options(OptionsArgs),
    Generate(GenerateArgs),
    Exec(ExecArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// Whether it works on a database that another process has open.
    pub(crate) fn can_be_shared(&self) -> bool {
        match self {
            Command::Data(_)
            | Command::Import(_)
            | Command::Exec(_)
            | Command::Options(_)
            | Command::Shell(_)
            | Command::Top(_) => true,
            Command::Backup(args) => matches!(args.command, BackupCommand::Create(_)),
            _ => false,
        }
    }
}

/// Commands on an open database; the shell has them, too.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Get(GetArgs),
    Put(PutArgs),
    Delete(DeleteArgs),
    Incr(IncrArgs),
    Append(AppendArgs),
    Ttl(TtlArgs),
    DeleteRange(DeleteRangeArgs),
    Scan(ScanArgs),
    Count(CountArgs),
    Load(LoadArgs),
    Ingest(IngestArgs),
    Dump(DumpArgs),
    Stats(StatsArgs),
    /// Draw the tree: its levels, runs and tables
    #[command(after_help = "Example:\n  esker levels --keyspace users")]
    Levels(LevelsArgs),
    /// Explain why writes are slowed or stopped; for the shell, while a load runs
    #[command(after_help = "Example:\n  echo stalls | esker shell")]
    Stalls,
    Explain(ExplainArgs),
    Compact(CompactArgs),
    Verify(VerifyArgs),
    Quarantine(QuarantineArgs),
    Keyspaces(KeyspacesArgs),
    Strategy(StrategyArgs),
    Advise(Box<AdviseArgs>),
    Changes(ChangesArgs),
    Checkpoint(CheckpointArgs),
    Export(ExportArgs),
}

/// Read commands at a prompt, for a database or a server
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker shell
  esker shell --connect 127.0.0.1:8080
  printf 'p 1 2\\ng 1\\n' | esker shell
  esker shell --connect 127.0.0.1:8080 --file commands.txt --timing
  esker shell --connect 127.0.0.1:8080 --wait 10s --json --file commands.txt

Without a terminal, commands are read from standard input and no prompt is shown.
On a database, the shell knows the DSL of the server and the words get, put, scan, ... of this program; \
type help there. On a server it speaks the DSL; with --json each answer is an \
object with the command, its answer or error, and the milliseconds until it came.")]
pub(crate) struct ShellArgs {
    /// Read commands from a file instead of the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Options of a shell on a server.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RemoteArgs {
    /// Show how long answers took: after each at a terminal, else the sums on standard error
    #[arg(long, requires = "connect")]
    pub(crate) timing: bool,
    /// Try to connect for this time, for a server that is about to start
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true, value_parser = parse_duration, requires = "connect")]
    pub(crate) wait: Duration,
}

impl RemoteArgs {
    fn is_given(self) -> bool {
        self.timing || !self.wait.is_zero()
    }
}

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

/// A range of keys.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) start: Option<String>,
    /// First key after the range
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) end: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<String>,
}

/// Print pairs in key order
///
/// A line is key, tab and value. Tabs, line ends and unprintable characters are escaped as in TSV files of
/// `dump`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker scan --prefix user: --limit 10
  esker scan --start a --end m --reverse --json")]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Most pairs to print
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

/// Count pairs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker count --prefix user:
  esker count --estimate --start 2024-01 --end 2024-02")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Estimate pairs and bytes without reading them; deleted and overwritten pairs count until a compaction
    #[arg(long)]
    pub(crate) estimate: bool,
}

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

/// Show counters, sizes and memory
///
/// With --watch, a line for each interval: entries written per second; MiB/s written by users, flushes and
/// compactions; write amplification since the start, without the log; gets per second, sampled one in 64, and
/// the tables that each searched; estimated space amplification; runs; compaction debt; and how long writers
/// were stopped.
///
/// The counters are those of the process that has the database open. `esker serve --watch` shows those of a
/// server as they change, and so does `esker top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker stats --data ./esker-data
  esker stats --connect 127.0.0.1:8081
  esker stats --watch 1s --count 60")]
pub(crate) struct StatsArgs {
    /// Print a line for each interval, such as 1s or 500ms; the database is opened for writing, so that its
    /// background work goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) watch: Option<Duration>,
    /// Number of lines [default: until interrupted]
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) count: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct LevelsArgs {
    /// List every table, too
    #[arg(long)]
    pub(crate) tables: bool,
}

/// Compact a keyspace, or a range of its keys, into the last level
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  esker compact\n  esker compact --keyspace users --start a --end m")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// All keyspaces
    #[arg(long, conflicts_with_all = ["start", "end", "prefix"])]
    pub(crate) all: bool,
}

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

/// Run a file of DSL commands on the database and print the answers
///
/// An error is an answer, but the exit code is 5 then.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  esker exec commands.txt\n  esker generate --puts 1000 --gets 100 | esker exec -"
)]
pub(crate) struct ExecArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

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

/// What a write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Nothing in particular
    None,
    /// The end of the process
    Process,
    /// A power cut
    Power,
}

impl From<DurabilityArg> for esker::Durability {
    fn from(level: DurabilityArg) -> esker::Durability {
        match level {
            DurabilityArg::None => esker::Durability::None,
            DurabilityArg::Process => esker::Durability::Process,
            DurabilityArg::Power => esker::Durability::Power,
        }
    }
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

/// The reaction of `load` to a bad line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Stop; nothing of the line's batch is applied
    Stop,
    /// Skip the line and count it
    Skip,
}

fn parse_distribution(name: &str) -> Result<esker_bench::Distribution, String> {
    esker_bench::Distribution::parse(name).ok_or_else(|| {
        let names = esker_bench::Distribution::ALL.map(|distribution| distribution.name());
        format!("there are {}", names.join(", "))
    })
}

fn parse_workload(name: &str) -> Result<esker_bench::Workload, String> {
    esker_bench::Workload::parse(name).ok_or_else(|| {
        let names: Vec<&str> = esker_bench::Workload::ALL.iter().map(|workload| workload.name()).collect();
        format!("there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Examples and columns are laid out by hand and must not be wrapped; clap wraps the rest to the
    /// terminal's width.
    #[test]
    fn help_formatted_by_hand_fits_the_page() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= PAGE_COLUMNS, "{}: {line}", command.get_name());
            }
            let mut lines = help.lines().zip(help.lines().skip(1));
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let broken = lines.find(|(line, next)| is_prose(line) && is_prose(next) && !line.ends_with('.'));
            assert_eq!(broken, None, "{}: a sentence is broken by hand", command.get_name());
        }
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
