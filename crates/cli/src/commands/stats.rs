//! `stats`: prints counters and sizes as tables.

use super::amplification::ratio;
use super::watch::Watch;
use super::{Context, write_json};
use crate::args::StatsArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_time};
use crate::host;
use esker::metrics::{KeyspaceMetrics, LogMetrics, MemoryMetrics, Metrics, OpenReader};
use std::io::Write;
use std::time::Duration;

/// A difference of the wall clock and the database time from which on it is told.
const TOLD_SKEW_MS: u64 = 3_600_000;

/// Shortest interval: a sample takes some microseconds per keyspace, and more lines cannot be read.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

pub(super) fn run(context: &mut Context<'_>, args: &StatsArgs) -> Result<Exit, Failure> {
    if let Some(interval) = args.watch {
        return watch(context, interval.max(SHORTEST_INTERVAL), args.count.unwrap_or(u64::MAX));
    }
    print(context)?;
    Ok(Exit::Done)
}

fn watch(context: &mut Context<'_>, interval: Duration, count: u64) -> Result<Exit, Failure> {
    if context.only.is_some() {
        context.existing_keyspace()?;
    }
    let mut watch = Watch::new(context.only.clone(), &context.database.metrics());
    for _ in 0..count {
        host::pause(interval);
        if context.shape.json {
            print(context)?;
        } else {
            write!(context.out, "{}", watch.lines(&context.database.metrics(), interval))?;
        }
        context.out.flush()?;
    }
    Ok(Exit::Done)
}

fn print(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut metrics = context.database.metrics();
    if context.for_reading {
        metrics.read_only_cause = None;
    }
    let readers = context.database.open_readers();
    if context.shape.json {
        let serde_json::Value::Object(members) = esker_admin::json::metrics::metrics(&metrics, &readers)
        else {
            return Ok(());
        };
        write_json(context.out, members)?;
    } else {
        table(context.out, &metrics)?;
        open_readers(context.out, &readers)?;
    }
    Ok(())
}

fn table(out: &mut dyn Write, metrics: &Metrics) -> Result<(), Failure> {
    totals(out, metrics)?;
    writeln!(out)?;
    keyspaces(out, metrics)
}

fn totals(out: &mut dyn Write, metrics: &Metrics) -> Result<(), Failure> {
    let memory = &metrics.memory;
    let (cache, log, tables) = (metrics.cache.total(), &metrics.log, &metrics.open_tables);
    let lookups = cache.hits + cache.misses;
    let rate = cache.hit_rate().map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    for (name, value) in [
        ("memory budget", human_bytes(memory.budget_bytes)),
        ("  used", human_bytes(memory.used_bytes())),
        ("  memtables", human_bytes(memory.memtable_bytes)),
        ("    held by readers", held_by_readers(memory)),
        (
            "  block cache",
            format!("{} of {}", human_bytes(memory.cache_bytes), human_bytes(memory.cache_capacity_bytes)),
        ),
        (
            "  indexes and filters",
            format!("{} of {}", human_bytes(tables.metadata_bytes), human_bytes(tables.max_metadata_bytes)),
        ),
        ("  log, mapped", human_bytes(memory.log_mapped_bytes)),
        ("  read ahead", human_bytes(memory.read_ahead_bytes)),
        ("  flushes and merges", human_bytes(memory.job_bytes)),
        ("  large values", human_bytes(memory.large_value_bytes)),
        ("  bulk loads", human_bytes(memory.loading_bytes)),
        ("process, anonymous", memory.process_anonymous_bytes.map_or("-".to_owned(), human_bytes)),
        (
            "open tables",
            format!("{} of {}", human_count(tables.tables as u64), human_count(tables.max_tables as u64)),
        ),
        (
            "  since opening",
            format!("{} opened, {} closed", human_count(tables.opened), human_count(tables.closed)),
        ),
        ("cache hits since opening", format!("{rate} of {}", human_count(lookups))),
        ("log", human_bytes(log.live_bytes)),
        (
            "  kept for readers",
            format!("{} of {}", human_bytes(log.history_bytes), human_bytes(log.history_limit_bytes)),
        ),
        ("  written since opening", human_bytes(log.written_bytes)),
        ("  flushes since opening", flushes_of_log(log)),
        ("writes", format!("{} in {} batches", human_count(metrics.entries), human_count(metrics.batches))),
        ("  their bytes", human_bytes(metrics.user_bytes)),
        (
            "  slowed",
            format!(
                "{} times, {} ms",
                human_count(metrics.delays),
                human_count(metrics.delay_time.as_millis() as u64)
            ),
        ),
        (
            "  stopped",
            format!(
                "{} times, {} ms",
                human_count(metrics.stalls),
                human_count(metrics.stall_time.as_millis() as u64)
            ),
        ),
        ("  counted since", human_time(metrics.counted_since_ms)),
        ("last sequence number", last_seqno(metrics)),
        ("open snapshots", human_count(metrics.snapshots as u64)),
        ("quarantined files", human_count(metrics.quarantined_files as u64)),
    ] {
        writeln!(out, "{name:<24} {value}")?;
    }
    conditions(out, metrics)
}

/// How often the log was flushed to the device, and how long that took on the average.
fn flushes_of_log(log: &LogMetrics) -> String {
    let count = log.flush_times.count();
    match u32::try_from(count) {
        Err(_) | Ok(0) => human_count(log.flushes),
        Ok(count) => {
            let each_ms = (log.flush_times.sum() / count).as_secs_f64() * 1e3;
            format!("{}, {each_ms:.1} ms each", human_count(log.flushes))
        }
    }
}

/// What needs attention.
fn conditions(out: &mut dyn Write, metrics: &Metrics) -> Result<(), Failure> {
    if metrics.clock_skew_ms.unsigned_abs() >= TOLD_SKEW_MS {
        let hours = metrics.clock_skew_ms / 3_600_000;
        writeln!(out, "{:<24} {hours} hours before the wall clock; see believe_clock", "database time")?;
    }
    if let Some(cause) = &metrics.read_only_cause {
        writeln!(out, "{:<24} {cause}", "takes no writes")?;
    }
    for error in &metrics.background_errors {
        writeln!(out, "{:<24} {error}", "background error")?;
    }
    Ok(())
}

fn keyspaces(out: &mut dyn Write, metrics: &Metrics) -> Result<(), Failure> {
    let head = ["keyspace", "in memory", "entries", "deleted", "ranges", "bytes", "tables", "runs", "debt"];
    let rows: Vec<[String; 9]> = metrics.keyspaces.iter().map(keyspace_row).collect();
    columns(out, &head, &rows)?;
    writeln!(out)?;
    let head =
        ["keyspace", "write amp.", "space amp.", "flushed", "merged", "sources", "absent get", "searched"];
    let rows: Vec<[String; 8]> = metrics.keyspaces.iter().map(amplification_row).collect();
    columns(out, &head, &rows)?;
    let with_blobs = metrics.keyspaces.iter().filter(|keyspace| keyspace.blob_files > 0);
    let rows: Vec<[String; 5]> = with_blobs.map(blob_row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    columns(out, &["keyspace", "blob files", "bytes", "garbage", "copied"], &rows)
}

fn blob_row(keyspace: &KeyspaceMetrics) -> [String; 5] {
    [
        keyspace.name.escape_debug().to_string(),
        human_count(keyspace.blob_files as u64),
        human_bytes(keyspace.blob_bytes),
        human_bytes(keyspace.blob_garbage_bytes),
        human_bytes(keyspace.blob_relocated_bytes),
    ]
}

fn open_readers(out: &mut dyn Write, open_readers: &[OpenReader]) -> Result<(), Failure> {
    if open_readers.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let head = [
        "open reader",
        "of",
        "seconds",
        "sequence number",
        "newer writes",
        "memtables",
        "spilled",
        "tables",
        "log",
    ];
    let row = |reader: &OpenReader| {
        [
            reader.kind.to_string(),
            reader
                .name
                .as_ref()
                .or(reader.keyspace.as_ref())
                .map_or("-".to_owned(), |name| name.escape_debug().to_string()),
            human_count(reader.age.as_secs()),
            reader.seqno.to_string(),
            human_count(reader.newer_operations),
            human_bytes(reader.memtable_bytes),
            human_bytes(reader.spilled_bytes),
            human_bytes(reader.table_bytes),
            human_bytes(reader.log_bytes),
        ]
    };
    columns(out, &head, &open_readers.iter().map(row).collect::<Vec<_>>())
}

fn keyspace_row(keyspace: &KeyspaceMetrics) -> [String; 9] {
    [
        keyspace.name.escape_debug().to_string(),
        human_count(keyspace.memtable_entries),
        human_count(keyspace.table_entries),
        human_count(keyspace.tombstones),
        human_count(keyspace.range_deletes),
        human_bytes(keyspace.table_bytes + keyspace.blob_bytes),
        human_count(keyspace.tables as u64),
        human_count(keyspace.runs as u64),
        human_bytes(keyspace.compaction_debt_bytes),
    ]
}

/// Write and space amplification, and the costs of lookups: runs, false positives, tables searched.
fn amplification_row(keyspace: &KeyspaceMetrics) -> [String; 8] {
    let seen = &keyspace.amplification;
    [
        keyspace.name.escape_debug().to_string(),
        ratio(seen.write()),
        ratio(seen.space.ratio()),
        human_bytes(keyspace.flushed_bytes + keyspace.blob_flushed_bytes),
        human_bytes(keyspace.compacted_out_bytes + keyspace.blob_relocated_bytes),
        human_count((seen.reads.memtables + seen.reads.runs) as u64),
        format!("{:.4}", seen.reads.expected_absent),
        seen.reads.searched().map_or_else(|| "-".to_owned(), |searched| format!("{searched:.4}")),
    ]
}

/// Prints rows under a head, the first column left-aligned, in minimal widths.
fn columns<const N: usize>(
    out: &mut dyn Write,
    head: &[&str; N],
    rows: &[[String; N]],
) -> Result<(), Failure> {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head = head.map(str::to_owned);
    for row in std::iter::once(&head).chain(rows) {
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            if at == 0 {
                write!(out, "{cell:<width$}")?;
            } else {
                write!(out, "  {cell:>width$}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn held_by_readers(memory: &MemoryMetrics) -> String {
    let (in_memory, in_files) = (memory.pinned_memtable_bytes, memory.spilled_memtable_bytes);
    format!("{}, and {} in files", human_bytes(in_memory), human_bytes(in_files))
}

/// The newest sequence numbers; the durable one is unknown to read-only opens, which have no log.
fn last_seqno(metrics: &Metrics) -> String {
    if metrics.log.live_bytes == 0 {
        return metrics.visible_seqno.to_string();
    }
    format!("{}, durable {}", metrics.visible_seqno, metrics.durable_seqno)
}
