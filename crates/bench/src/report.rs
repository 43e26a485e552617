//! Rows of results, and two ways to print them: a table for people, a JSON object a line for programs.

use crate::error::BenchError;
use crate::sample::Measured;
use crate::settings::{Settings, Workload};
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// The result of one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub workload: Workload,
    /// Operations: records for fills and scans, gets and puts otherwise, keys for multi-gets, seeks with what
    /// they read for `seekrandom`.
    pub ops: u64,
    /// How long they took; for fills until the last one was acknowledged.
    pub seconds: f64,
    /// Their quotient.
    pub ops_per_second: f64,
    /// Half of the calls took at most so many microseconds. A call is one operation, but in batches and
    /// multi-gets a whole batch.
    pub p50_us: f64,
    /// 99 of 100 calls took at most so long.
    pub p99_us: f64,
    /// 999 of 1000 calls took at most so long.
    pub p999_us: f64,
    /// Bytes of keys and values, read and written, in 10^6 a second.
    pub megabytes_per_second: f64,
    /// Pairs that reads found; all of them were right.
    pub found: u64,
    /// Fills: until flushes and compactions had caught up, too.
    pub drained_seconds: Option<f64>,
    /// Fills: operations a second up to then.
    pub drained_ops_per_second: Option<f64>,
    /// What decided about the result.
    pub options: RowOptions,
    /// Distribution of the calls' latencies in microseconds, when asked for: quantile and latency.
    pub histogram: Option<Vec<(f64, f64)>>,
}

/// The settings that a result depends on.
#[derive(Clone, Debug, Serialize)]
pub struct RowOptions {
    /// Records of the data set.
    pub num: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Threads.
    pub threads: usize,
    /// Puts of a batch.
    pub batch_size: usize,
    /// Keys of a multi-get.
    pub multi_get_size: usize,
    /// Pairs read after a seek.
    pub seek_nexts: usize,
    /// Share of gets in `readwrite`.
    pub read_percent: u8,
    /// Where random choices start.
    pub seed: u64,
    /// Durability of writes.
    pub durability: &'static str,
    /// The memory budget, if one was given.
    pub memory_budget: Option<u64>,
}

/// How much memory the run took.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRow {
    /// Always "memory".
    pub workload: &'static str,
    /// Most resident anonymous memory of the process that was seen after a workload.
    pub resident_anonymous_bytes: u64,
    /// What of it the benchmark itself held: keys, values, and the program before the database was opened.
    pub harness_bytes: u64,
    /// The rest, which is the database's.
    pub database_bytes: u64,
    /// What the database has to stay within.
    pub budget_bytes: u64,
}

/// How evenly overwriting goes when it goes on for long.
#[derive(Clone, Debug, Serialize)]
pub struct OverwriteRow {
    /// Always `overwrite`.
    pub workload: Workload,
    /// Puts.
    pub puts: u64,
    /// How long they took.
    pub seconds: f64,
    /// Their quotient.
    pub puts_per_second: f64,
    /// Until flushes and compactions had caught up, too.
    pub drained_seconds: f64,
    /// Puts of the worst second.
    pub worst_second_puts: u64,
    /// The same as a share of the mean.
    pub worst_second_share: f64,
    /// Half of the puts took at most so many microseconds.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// 9999 of 10000.
    pub p9999_us: f64,
    /// The longest of all.
    pub longest_us: f64,
    /// How often a put had to wait for room.
    pub stalls: u64,
    /// For how long, summed up.
    pub stall_ms: u64,
    /// Bytes of tables written for each byte put, until drained.
    pub write_amplification: f64,
    /// Each second.
    pub series: Vec<SecondRow>,
}

/// One second of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SecondRow {
    /// Which, from 1 on.
    pub second: u64,
    /// Puts that ended in it.
    pub puts: u64,
    /// The longest of these, in microseconds.
    pub longest_us: f64,
}

impl OverwriteRow {
    /// Writes the seconds as comma-separated values.
    pub(crate) fn write_series(&self, path: &Path) -> Result<(), BenchError> {
        let mut text = String::from("second,puts,longest_us\n");
        for SecondRow { second, puts, longest_us } in &self.series {
            text.push_str(&format!("{second},{puts},{longest_us:.1}\n"));
        }
        let file = StdFileSystem.open(path, OpenMode::CreateOrTruncate)?;
        Ok(file.write_at(text.as_bytes(), 0)?)
    }
}

/// What overwriting costs, for each byte that was put or is alive.
#[derive(Clone, Debug, Serialize)]
pub struct AmplificationRow {
    /// What was measured.
    pub workload: Workload,
    /// Bytes of keys and values that are alive.
    pub live_bytes: u64,
    /// Bytes of keys and values that were put while it was measured.
    pub user_bytes: u64,
    /// Bytes that were written meanwhile, without the log.
    pub written_bytes: u64,
    /// Their quotient.
    pub write_amplification: f64,
    /// What the tree consisted of, for each byte alive; the mean of many looks.
    pub space_amplification_mean: f64,
    /// The most that any look showed.
    pub space_amplification_max: f64,
    /// What lay in the directory, for each byte alive: with what was being written and what was to be
    /// deleted.
    pub directory_amplification_mean: f64,
    /// The most that any look showed.
    pub directory_amplification_max: f64,
    /// How long it took, until flushes and compactions had caught up.
    pub seconds: f64,
    /// Puts a second up to then.
    pub ops_per_second: f64,
}

/// What merging sorted runs took.
#[derive(Clone, Debug, Serialize)]
pub struct MergeRow {
    /// What was measured.
    pub workload: Workload,
    /// How often that was done; times and rates are the means.
    pub passes: u64,
    /// Entries that were merged.
    pub entries: u64,
    /// Runs that they came from.
    pub input_runs: u64,
    /// Bytes of the tables that they came from.
    pub input_bytes: u64,
    /// Bytes of the tables that came of it.
    pub output_bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Processor time in the program, over all threads; 0 where the system does not tell.
    pub user_seconds: f64,
    /// Processor time that the system took for it.
    pub system_seconds: f64,
    /// Entries a second.
    pub entries_per_second: f64,
    /// Entries a second of processor time in the program: what the loop does on one core.
    pub entries_per_user_second: f64,
}

/// Where results go.
pub trait Report {
    /// Something worth knowing that is no result.
    fn note(&mut self, text: &str) -> io::Result<()>;
    /// One result.
    fn row(&mut self, row: &Row) -> io::Result<()>;
    /// What overwriting cost.
    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()>;
    /// What merging took.
    fn merge(&mut self, row: &MergeRow) -> io::Result<()>;
    /// How evenly overwriting went.
    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()>;
    /// The memory taken, at the end.
    fn memory(&mut self, row: &MemoryRow) -> io::Result<()>;
}

impl Row {
    pub(crate) fn new(workload: Workload, settings: &Settings, measured: &Measured) -> Row {
        let work = &measured.work;
        let seconds = measured.seconds.max(1e-9);
        let quantile = |quantile| work.histogram.value_at_quantile(quantile) as f64 / 1e3;
        Row {
            workload,
            ops: work.ops,
            seconds: measured.seconds,
            ops_per_second: work.ops as f64 / seconds,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            megabytes_per_second: work.bytes as f64 / 1e6 / seconds,
            found: work.found,
            drained_seconds: None,
            drained_ops_per_second: None,
            options: RowOptions::new(settings),
            histogram: settings.histogram.then(|| distribution(&work.histogram)),
        }
    }

    pub(crate) fn drained(mut self, seconds: f64) -> Row {
        self.drained_seconds = Some(seconds);
        self.drained_ops_per_second = Some(self.ops as f64 / seconds.max(1e-9));
        self
    }
}

impl RowOptions {
    fn new(settings: &Settings) -> RowOptions {
        RowOptions {
            num: settings.num,
            key_size: settings.key_size,
            value_size: settings.value_size,
            threads: settings.threads,
            batch_size: settings.batch_size,
            multi_get_size: settings.multi_get_size,
            seek_nexts: settings.seek_nexts,
            read_percent: settings.read_percent,
            seed: settings.seed,
            durability: settings.durability.name(),
            memory_budget: settings.memory_budget_bytes,
        }
    }
}

/// Quantiles that halve what is left above them, down to one sample.
fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let quantiles = histogram.iter_quantiles(1);
    let mut points: Vec<(f64, f64)> =
        quantiles.map(|step| (step.quantile(), step.value_iterated_to() as f64 / 1e3)).collect();
    points.dedup();
    points
}

/// Prints a table.
#[derive(Debug)]
pub struct Table<W, N> {
    out: W,
    notes: N,
    has_head: bool,
}

impl<W: Write, N: Write> Table<W, N> {
    /// Results go to `out`, notes to `notes`.
    pub fn new(out: W, notes: N) -> Table<W, N> {
        Table { out, notes, has_head: false }
    }
}

impl<W: Write, N: Write> Report for Table<W, N> {
    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{text}")
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_head, true) {
            let names = ("workload", "ops", "seconds", "ops/s", "p50 us", "p99 us", "p99.9", "MB/s");
            let (workload, ops, seconds, rate, p50, p99, p999, megabytes) = names;
            writeln!(
                self.out,
                "{workload:<16} {ops:>10} {seconds:>8} {rate:>9} {p50:>8} {p99:>8} {p999:>8} {megabytes:>6}"
            )?;
        }
        let Row { workload, ops, seconds, ops_per_second: rate, p50_us, p99_us, p999_us, .. } = row;
        let megabytes = row.megabytes_per_second;
        writeln!(
            self.out,
            "{workload:<16} {ops:>10} {seconds:>8.3} {rate:>9.0} {p50_us:>8.2} {p99_us:>8.2} \
             {p999_us:>8.2} {megabytes:>6.1}"
        )?;
        if let (Some(seconds), Some(rate)) = (row.drained_seconds, row.drained_ops_per_second) {
            writeln!(self.out, "{:<16} {ops:>10} {seconds:>8.3} {rate:>9.0}", "  until drained")?;
        }
        for (quantile, latency_us) in row.histogram.iter().flatten() {
            writeln!(self.out, "  {:>9.4} % {latency_us:>10.2} us", quantile * 100.0)?;
        }
        self.out.flush()
    }

    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()> {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let AmplificationRow { workload, seconds, ops_per_second, .. } = row;
        writeln!(
            self.out,
            "{workload}: {:.0} MB alive, {:.0} MB overwritten in {seconds:.1} s ({ops_per_second:.0} puts/s until drained)",
            megabytes(row.live_bytes),
            megabytes(row.user_bytes),
        )?;
        writeln!(
            self.out,
            "  write amplification {:.2} without the log, space amplification {:.2} (most {:.2}), in the directory {:.2} (most {:.2})",
            row.write_amplification,
            row.space_amplification_mean,
            row.space_amplification_max,
            row.directory_amplification_mean,
            row.directory_amplification_max,
        )?;
        self.out.flush()
    }

    fn merge(&mut self, row: &MergeRow) -> io::Result<()> {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let MergeRow { workload, passes, entries, input_runs, seconds, user_seconds, system_seconds, .. } =
            row;
        writeln!(
            self.out,
            "{workload}: {entries} entries of {input_runs} runs, {:.0} MB into {:.0} MB, in {seconds:.3} s, the mean of {passes} passes",
            megabytes(row.input_bytes),
            megabytes(row.output_bytes),
        )?;
        writeln!(
            self.out,
            "  processor time {user_seconds:.3} s in the program, {system_seconds:.3} s in the system: \
             {:.1} M entries/s of program time, {:.1} M entries/s of both",
            row.entries_per_user_second / 1e6,
            *entries as f64 / (user_seconds + system_seconds).max(1e-9) / 1e6,
        )?;
        self.out.flush()
    }

    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()> {
        let OverwriteRow { workload, puts, seconds, puts_per_second: rate, .. } = row;
        writeln!(
            self.out,
            "{workload}: {puts} puts in {seconds:.1} s, {rate:.0} a second; drained after {:.1} s",
            row.drained_seconds
        )?;
        writeln!(
            self.out,
            "  worst second {} puts, {:.2} of the mean; waited {} times, {} ms in all",
            row.worst_second_puts, row.worst_second_share, row.stalls, row.stall_ms
        )?;
        writeln!(
            self.out,
            "  a put, us: p50 {:.2}, p99 {:.2}, p99.9 {:.1}, p99.99 {:.1}, longest {:.0}",
            row.p50_us, row.p99_us, row.p999_us, row.p9999_us, row.longest_us
        )?;
        writeln!(
            self.out,
            "  write amplification {:.2} without the log, until drained",
            row.write_amplification
        )?;
        self.out.flush()
    }

    fn memory(&mut self, row: &MemoryRow) -> io::Result<()> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            self.out,
            "memory, MiB: {:.1} the database's (budget {:.1}), {:.1} the benchmark's",
            mebibytes(row.database_bytes),
            mebibytes(row.budget_bytes),
            mebibytes(row.harness_bytes),
        )
    }
}

/// Prints one JSON object a line.
#[derive(Debug)]
pub struct JsonLines<W, N> {
    out: W,
    notes: N,
}

impl<W: Write, N: Write> JsonLines<W, N> {
    /// Results go to `out`, notes to `notes` as plain text.
    pub fn new(out: W, notes: N) -> JsonLines<W, N> {
        JsonLines { out, notes }
    }

    fn object(&mut self, object: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        writeln!(self.out)?;
        self.out.flush()
    }
}

impl<W: Write, N: Write> Report for JsonLines<W, N> {
    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{text}")
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        self.object(row)
    }

    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()> {
        self.object(row)
    }

    fn merge(&mut self, row: &MergeRow) -> io::Result<()> {
        self.object(row)
    }

    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()> {
        self.object(row)
    }

    fn memory(&mut self, row: &MemoryRow) -> io::Result<()> {
        self.object(row)
    }
}
