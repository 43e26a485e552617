//! One measured workload, as a line of JSON.

use crate::engine::Result;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The workload that marks the end of a complete run; a complete run is not repeated.
pub(crate) const RUN_ENDED: &str = "run_ended";

/// One measured workload of one engine.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub(crate) struct Record {
    /// Time of the measurement.
    pub(crate) unix_seconds: u64,
    /// Name of the configuration.
    pub(crate) configuration: String,
    /// Number of the round.
    pub(crate) round: u32,
    /// The run of a process: its beginning in ms since 1970.
    pub(crate) run: u64,
    /// Name of the engine.
    pub(crate) engine: String,
    /// Version of the engine.
    pub(crate) version: String,
    /// Name of the workload.
    pub(crate) workload: String,
    /// Threads.
    pub(crate) threads: usize,
    /// Records of the data set.
    pub(crate) records: u64,
    /// Forms of keys and values that have many lengths, in words.
    pub(crate) shape: String,
    /// Bytes of a key; the mean where they differ.
    pub(crate) key_bytes: usize,
    /// Bytes of a value; the mean where they differ.
    pub(crate) value_bytes: usize,
    /// Bytes of cache that engines were given.
    pub(crate) cache_bytes: u64,
    /// Bytes of memtable that engines were given.
    pub(crate) memtable_bytes: u64,
    /// Bytes of memory that the run had, page cache included; 0 without a limit.
    pub(crate) memory_limit_bytes: u64,
    /// Whether writes survive a power cut (else the end of the process).
    pub(crate) is_power: bool,
    /// The store keeps less of what it acknowledged than the others do here.
    pub(crate) is_weaker: bool,

    /// Number of records for batches, multi-gets and whole scans, else of operations.
    pub(crate) count: u64,
    /// Duration.
    pub(crate) seconds: f64,
    /// Count per second.
    pub(crate) per_second: f64,
    /// Count per second until background work had ended (workloads that write).
    pub(crate) drained_per_second: f64,
    /// Duration of the background work afterwards.
    pub(crate) settle_seconds: f64,
    /// Median latency of an operation.
    pub(crate) p50_us: f64,
    /// 99th percentile.
    pub(crate) p99_us: f64,
    /// 99.9th percentile.
    pub(crate) p999_us: f64,
    /// The longest latency measured.
    pub(crate) max_us: f64,
    /// Operations whose latency was measured.
    pub(crate) samples: u64,
    /// Processor seconds of the whole process, until background work had ended.
    pub(crate) cpu_seconds: f64,
    /// Nanoseconds of a cache line's round trip between cores, the longer one of before and after, with
    /// several threads.
    pub(crate) core_round_trip_ns: f64,
    /// Processors used by other processes meanwhile.
    pub(crate) others_cpus: f64,
    /// Megabytes read from the device.
    pub(crate) read_mb: f64,
    /// Megabytes written to the device by any process, until background work had ended and all was synced.
    pub(crate) written_mb: Option<f64>,
    /// MiB of memory at its end, mapped files included.
    pub(crate) resident_mib: f64,
    /// Peak of anonymous memory in MiB.
    pub(crate) anonymous_peak_mib: f64,

    /// A number that is not a rate.
    pub(crate) value: Option<f64>,
    /// Unit of that number.
    pub(crate) unit: String,
    /// Stopped by the time limit.
    pub(crate) is_cut_short: bool,
    /// Wrong results; if any, the other numbers are void.
    pub(crate) errors: u64,
    /// Remark.
    pub(crate) note: String,
}

impl Record {
    /// Rounded to significant digits.
    fn rounded(mut self) -> Record {
        for number in [
            &mut self.seconds,
            &mut self.per_second,
            &mut self.drained_per_second,
            &mut self.settle_seconds,
            &mut self.cpu_seconds,
            &mut self.core_round_trip_ns,
            &mut self.others_cpus,
            &mut self.read_mb,
            &mut self.resident_mib,
            &mut self.anonymous_peak_mib,
        ] {
            *number = (*number * 1e6).round() / 1e6;
        }
        self
    }

    /// One line of progress.
    pub(crate) fn summary(&self) -> String {
        let what = match self.value {
            Some(value) => format!("{value:>12.3} {}", self.unit),
            None => format!(
                "{:>12.0} /s, p50 {:.1} us, p99 {:.1} us{}",
                self.per_second,
                self.p50_us,
                self.p99_us,
                if self.is_cut_short { ", cut short" } else { "" }
            ),
        };
        format!("{:<18} {:<20} t{:<2} {what} {}", self.engine, self.workload, self.threads, self.note)
    }

    /// Appends it to a file, or prints it without one.
    #[allow(clippy::print_stdout, reason = "the lines are what the program is for")]
    pub(crate) fn write(self, file: Option<&Path>) -> Result<()> {
        let line = serde_json::to_string(&self.rounded())?;
        let Some(path) = file else {
            println!("{line}");
            return Ok(());
        };
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| writeln!(file, "{line}"));
        written.map_err(|error| format!("cannot add a line to {}: {error}", path.display()).into())
    }

    pub(crate) fn read(path: &Path) -> Result<Vec<Record>> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(number, line)| {
                serde_json::from_str(line)
                    .map_err(|error| format!("{}, line {number}: {error}", path.display()).into())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn records_come_back_and_damage_is_named() {
        let path = std::env::temp_dir().join(format!("peers-records-{}", std::process::id()));
        let record = Record { engine: "esker".to_owned(), per_second: 1.234_567_89, ..Record::default() };
        record.clone().write(Some(&path)).unwrap();
        record.write(Some(&path)).unwrap();
        let read = Record::read(&path).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[1].engine.as_str(), read[1].per_second), ("esker", 1.234_568));
        std::fs::write(&path, "{\"engine\": 7}\n").unwrap();
        let error = Record::read(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("line 1"), "{error}");
    }
}
