//! Rows: the results of each kind of workload.

use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::sample::Measured;
use crate::settings::{Settings, Workload};
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::Path;

/// The longest that a put may take under steady overload.
const LONGEST_PUT_US: f64 = 100_000.0;
/// The most puts that may take longer than 10 ms.
const SLOW_PUTS_SHARE: f64 = 0.0001;

/// The result of one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub workload: Workload,
    /// Operations: records for fills and scans, gets and puts otherwise, keys for multi-gets, seeks with
    /// their reads for `seekrandom`.
    pub ops: u64,
    /// Duration; of fills until the last acknowledgement.
    pub seconds: f64,
    /// Operations per second.
    pub ops_per_second: f64,
    /// Median latency of a call, in microseconds. A call is one operation; of batches and multi-gets a whole
    /// batch.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Bytes of keys and values, read and written, in 10^6 a second.
    pub megabytes_per_second: f64,
    /// Pairs that reads found, all of them right.
    pub found: u64,
    /// Fills: duration until flushes and compactions had caught up.
    pub drained_seconds: Option<f64>,
    /// Fills: operations per second over that duration.
    pub drained_ops_per_second: Option<f64>,
    /// The settings behind the result.
    pub options: RowOptions,
    /// Distribution of the latencies in microseconds, if requested: quantile and latency.
    pub histogram: Option<Vec<(f64, f64)>>,
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
    /// How records were chosen.
    pub distribution: Distribution,
    /// Seed of all random choices.
    pub seed: u64,
    /// Durability of writes.
    pub durability: &'static str,
    /// The memory budget, if set.
    pub memory_budget: Option<u64>,
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
            distribution: settings.distribution,
            seed: settings.seed,
            durability: settings.durability.name(),
            memory_budget: settings.memory_budget_bytes,
        }
    }
}

/// Quantiles, each halving the rest above it, down to one sample.
fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let quantiles = histogram.iter_quantiles(1);
    let mut points: Vec<(f64, f64)> =
        quantiles.map(|step| (step.quantile(), step.value_iterated_to() as f64 / 1e3)).collect();
    points.dedup();
    points
}

/// Memory use of the run.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRow {
    /// Always "memory".
    pub workload: &'static str,
    /// Largest resident anonymous memory of the process after any workload.
    pub resident_anonymous_bytes: u64,
    /// The benchmark's own share: keys, values, and the program before the database was opened.
    pub harness_bytes: u64,
    /// The rest: the database's.
    pub database_bytes: u64,
    /// The database's memory budget.
    pub budget_bytes: u64,
}

/// Anonymous memory in one phase of the memory bound.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryBoundRow {
    /// Always `memorybound`.
    pub workload: Workload,
    /// The phase.
    pub phase: &'static str,
    /// Duration.
    pub seconds: f64,
    /// The most anonymous memory, without what the benchmark itself holds.
    pub peak_bytes: u64,
    /// The most that is allowed.
    pub bound_bytes: u64,
    /// What metrics told at the peak.
    pub told_bytes: u64,
    /// The greatest difference between what metrics told and the truth, as a share of the budget.
    pub worst_difference: f64,
    /// The parts of what they told at the peak.
    pub parts: Vec<(&'static str, u64)>,
}

/// Results of sustained overwriting.
#[derive(Clone, Debug, Serialize)]
pub struct OverwriteRow {
    /// Always `overwrite`.
    pub workload: Workload,
    /// Puts.
    pub puts: u64,
    /// Duration.
    pub seconds: f64,
    /// Puts per second.
    pub puts_per_second: f64,
    /// Duration until flushes and compactions had caught up.
    pub drained_seconds: f64,
    /// Puts of the worst second.
    pub worst_second_puts: u64,
    /// The same as a share of the mean.
    pub worst_second_share: f64,
    /// Median latency of a put, in microseconds.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// The longest.
    pub longest_us: f64,
    /// Puts that took longer than 10 ms.
    pub slow_puts: u64,
    /// Those of them during which the system gave the processor to others.
    pub off_processor_puts: u64,
    /// Those for which neither the database nor the system tells four fifths of their time as waiting.
    pub unexplained_puts: u64,
    /// Number of write stalls.
    pub stalls: u64,
    /// Their total duration.
    pub stall_ms: u64,
    /// How long puts were held back, in milliseconds, by what held them back.
    pub held_back_ms: Vec<(String, u64)>,
    /// Bytes of tables written per byte put, until drained.
    pub write_amplification: f64,
    /// Each second.
    pub series: Vec<SecondRow>,
}

/// One second of sustained overwriting.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SecondRow {
    /// Its number, from 1.
    pub second: u64,
    /// Puts that ended in it.
    pub puts: u64,
    /// The longest of these, in microseconds.
    pub longest_us: f64,
}

impl OverwriteRow {
    /// What is out of the bounds for puts under steady overload, in words.
    pub(crate) fn missed_bounds(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if self.longest_us > LONGEST_PUT_US {
            missed.push(format!("a put took {:.0} ms", self.longest_us / 1e3));
        }
        if self.slow_puts as f64 > self.puts as f64 * SLOW_PUTS_SHARE {
            missed.push(format!("{} of {} puts took longer than 10 ms", self.slow_puts, self.puts));
        }
        if self.unexplained_puts > 0 {
            missed
                .push(format!("{} slow puts are not explained by stalls and delays", self.unexplained_puts));
        }
        missed
    }

    /// Writes the seconds as a CSV file.
    pub(crate) fn write_series(&self, path: &Path) -> Result<(), BenchError> {
        let mut text = String::from("second,puts,longest_us\n");
        for SecondRow { second, puts, longest_us } in &self.series {
            text.push_str(&format!("{second},{puts},{longest_us:.1}\n"));
        }
        let file = StdFileSystem.open(path, OpenMode::CreateOrTruncate)?;
        Ok(file.write_at(text.as_bytes(), 0)?)
    }
}

/// Write and space amplification of overwriting.
#[derive(Clone, Debug, Serialize)]
pub struct AmplificationRow {
    /// What was measured.
    pub workload: Workload,
    /// Live bytes of keys and values.
    pub live_bytes: u64,
    /// Bytes of keys and values put during the measurement.
    pub user_bytes: u64,
    /// Bytes written during the measurement, without the log.
    pub written_bytes: u64,
    /// Written bytes per byte put.
    pub write_amplification: f64,
    /// Bytes of the tree per live byte, mean of the samples.
    pub space_amplification_mean: f64,
    /// The largest sample.
    pub space_amplification_max: f64,
    /// Bytes in the directory per live byte, mean of the samples: includes unfinished and obsolete files.
    pub directory_amplification_mean: f64,
    /// The largest sample.
    pub directory_amplification_max: f64,
    /// Duration until flushes and compactions had caught up.
    pub seconds: f64,
    /// Puts per second over that duration.
    pub ops_per_second: f64,
}

/// Results of the merge loop.
#[derive(Clone, Debug, Serialize)]
pub struct MergeRow {
    /// What was measured.
    pub workload: Workload,
    /// Number of passes; times and rates are the means.
    pub passes: u64,
    /// Entries merged.
    pub entries: u64,
    /// Input runs.
    pub input_runs: u64,
    /// Bytes of the input tables.
    pub input_bytes: u64,
    /// Bytes of the output tables.
    pub output_bytes: u64,
    /// Duration.
    pub seconds: f64,
    /// User time, over all threads; 0 where the system does not report it.
    pub user_seconds: f64,
    /// System time.
    pub system_seconds: f64,
    /// Entries per second.
    pub entries_per_second: f64,
    /// Entries per second of user time: the loop on one core.
    pub entries_per_user_second: f64,
}
