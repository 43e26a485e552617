//! Tables and plots of a suite's records.

mod cells;
mod csv;
mod markdown;
mod plot;

use crate::engine::Result;
use crate::record::Record;
use crate::suite::{ABOUT_FILE, RECORDS_FILE};
use cells::{Cells, Row};
use clap::Args;
use markdown::Better;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The file of tables.
const REPORT_FILE: &str = "report.md";
/// The file of their cells.
const CSV_FILE: &str = "report.csv";

/// Settings of a report.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportSettings {
    /// Directory of a suite; tables and plots go there.
    directory: PathBuf,
}

impl ReportSettings {
    pub(crate) fn of(directory: &Path) -> ReportSettings {
        ReportSettings { directory: directory.to_owned() }
    }
}

/// A table: its title, its number in a record, and which way is better.
type Table = (&'static str, fn(&Row, &Record) -> Option<f64>, Better);

const TABLES: &[Table] = &[
    ("Operations a second (records of batches, multi-gets and whole scans)", per_second, Better::More),
    ("The same for writes, until the work in the background is done, too", drained, Better::More),
    ("Seconds of processor time for a million of them, background work included", cpu_seconds, Better::Less),
    ("Median latency, microseconds", |_, record| rate(record).map(|_| record.p50_us), Better::Less),
    ("Latency of 99 in 100, microseconds", |_, record| rate(record).map(|_| record.p99_us), Better::Less),
    ("Latency of 999 in 1,000, microseconds", p999_us, Better::Less),
    (
        "Peak of anonymous memory, MiB",
        |_, record| rate(record).map(|_| record.anonymous_peak_mib),
        Better::Less,
    ),
    ("Bytes written to the device for each of them, until all is synced", written, Better::Less),
    (
        "Other figures: ms to open and close, s to compact, MB on disk, MiB of memory",
        |_, record| record.value,
        Better::Less,
    ),
];

/// Plots: file name, title, and prefixes of the workloads in it.
const PLOTS: &[(&str, &str, &[&str])] = &[
    ("writes", "writes", &["fill_", "overwrite", "delete", "log_append"]),
    ("reads", "reads", &["get_", "multi_get", "seek_", "scan_"]),
    ("mixed", "mixed workloads", &["mixed", "ycsb_", "log_newest"]),
];

fn rate(record: &Record) -> Option<f64> {
    if record.value.is_none() { Some(record.per_second) } else { None }
}

fn per_second(_: &Row, record: &Record) -> Option<f64> {
    rate(record)
}

fn drained(row: &Row, record: &Record) -> Option<f64> {
    rate(record).filter(|_| row.writes()).map(|_| record.drained_per_second)
}

fn cpu_seconds(_: &Row, record: &Record) -> Option<f64> {
    rate(record).map(|_| record.cpu_seconds * 1e6 / record.count.max(1) as f64)
}

fn written(row: &Row, record: &Record) -> Option<f64> {
    rate(record).filter(|_| row.writes())?;
    record.written_mb.map(|megabytes| megabytes * 1e6 / record.count.max(1) as f64)
}

/// Least samples for a percentile of 99.9.
const SAMPLES_OF_P999: u64 = 20_000;

fn p999_us(_: &Row, record: &Record) -> Option<f64> {
    rate(record).filter(|_| record.samples >= SAMPLES_OF_P999).map(|_| record.p999_us)
}

/// Writes the report.
///
/// # Errors
/// If the records cannot be read or a file cannot be written.
#[allow(clippy::print_stderr, reason = "a long run shows its progress")]
pub(crate) fn run(settings: &ReportSettings) -> Result<()> {
    let directory = &settings.directory;
    let (records, not_ended) = cells::of_ended_runs(Record::read(&directory.join(RECORDS_FILE))?);
    let about = std::fs::read_to_string(directory.join(ABOUT_FILE)).unwrap_or_default();
    let mut text = format!("# Esker and its peers\n\n{}\n", about.trim().replace('\n', "\n\n"));
    text.push_str(LEGEND);
    for told in not_ended {
        let _ = writeln!(text, "\n* {told}");
    }
    let mut names: Vec<&str> = records.iter().map(|record| record.configuration.as_str()).collect();
    names.dedup();
    let mut csv = csv::HEAD.to_owned();
    for name in names.iter().copied().collect::<BTreeSet<_>>() {
        let of_it: Vec<Record> =
            records.iter().filter(|record| record.configuration == name).cloned().collect();
        configuration(&mut text, name, &of_it);
        for (title, number, _) in TABLES {
            csv::push(&mut csv, name, title, &cells::cells(&of_it, number));
        }
        for (file, title, beginnings) in PLOTS {
            let mut cells: Cells = cells::cells(&of_it, per_second);
            cells.retain(|row, _| beginnings.iter().any(|beginning| row.workload.starts_with(beginning)));
            if !cells.is_empty() {
                let svg = plot::bars(&format!("{name}: {title}, as shares of the fastest store"), &cells);
                write(&directory.join(format!("{name}-{file}.svg")), &svg)?;
                let _ = writeln!(text, "![{name}: {title}]({name}-{file}.svg)\n");
            }
        }
    }
    let path = directory.join(REPORT_FILE);
    write(&path, &text)?;
    write(&directory.join(CSV_FILE), &csv)?;
    eprintln!("tables and plots are in {}", path.display());
    Ok(())
}

const LEGEND: &str = "\nMedians of the rounds; ± half of the distance between the least and the greatest where it is a tenth or \
more. Bold: the best store; limits (skiplist, btreemap, array, raw-write, raw-map, memcpy) do not compete. ❌ wrong results, void; † cut short by \
the time allowed; ‡ keeps its writes less surely than the row asks for, and does not compete; ° others used more than a fifth of a processor meanwhile.\n";

fn configuration(text: &mut String, name: &str, records: &[Record]) {
    let Some(first) = records.first() else { return };
    let rounds: BTreeSet<u32> = records.iter().map(|record| record.round).collect();
    let _ = writeln!(
        text,
        "\n## {name}: {} records of {} bytes, {} MiB of cache, {} MiB of memtable{}; {} rounds\n",
        first.records,
        lengths(first),
        first.cache_bytes >> 20,
        first.memtable_bytes >> 20,
        limit(first),
        rounds.len()
    );
    let versions: BTreeSet<String> =
        records.iter().map(|record| record.version.clone()).filter(|version| !version.is_empty()).collect();
    let versions: Vec<String> = versions.into_iter().collect();
    let _ = writeln!(text, "Versions: {}.\n", versions.join(", "));
    for (title, number, better) in TABLES {
        let cells = cells::cells(records, number);
        if !cells.is_empty() {
            let _ = writeln!(text, "### {title}\n\n{}", markdown::table(&cells, *better));
        }
    }
    if let Some(table) = markdown::variants(&cells::cells(records, per_second)) {
        let _ = writeln!(text, "### With a setting that suits the workload better\n\n{table}");
    }
    let round_trips = |_: &Row, record: &Record| Some(record.core_round_trip_ns).filter(|&ns| ns > 0.0);
    let round_trips = cells::cells(records, round_trips);
    if !round_trips.is_empty() {
        let title =
            "Nanoseconds of a line from core to core and back, beside rows of several threads, each round";
        let _ = writeln!(text, "### {title}\n\n{}", markdown::all_rounds(&round_trips));
    }
    notes(text, records);
}

/// The limit of memory, where there is one.
fn limit(record: &Record) -> String {
    match record.memory_limit_bytes >> 20 {
        0 => String::new(),
        mib => format!(", {mib} MiB of memory with the page cache"),
    }
}

/// Bytes of keys and values, with their forms where these are means.
fn lengths(record: &Record) -> String {
    let bytes = format!("{} + {}", record.key_bytes, record.value_bytes);
    if record.shape.is_empty() { bytes } else { format!("{bytes} by mean ({})", record.shape) }
}

/// Remarks, once for each engine and workload.
fn notes(text: &mut String, records: &[Record]) {
    let told = records.iter().filter(|record| !record.note.is_empty() && record.value.is_none());
    let notes: BTreeSet<String> =
        told.map(|record| format!("* {}, {}: {}", record.workload, record.engine, record.note)).collect();
    if !notes.is_empty() {
        let notes: Vec<String> = notes.into_iter().collect();
        let _ = writeln!(text, "### Remarks\n\n{}\n", notes.join("\n"));
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
