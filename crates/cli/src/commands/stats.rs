//! `stats`: prints counters and sizes as tables.

use super::amplification::{self, ratio};
use super::watch::Watch;
use super::{Context, write_json};
use crate::args::StatsArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_time};
use crate::host;
use esker::metrics::{KeyspaceMetrics, ListenerMetrics, MemoryMetrics, Metrics, OpenReader};
use esker::parts::cache::{BlockKind, KindStats};
use serde_json::json;
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
        let serde_json::Value::Object(members) = as_json(&metrics, &readers) else { return Ok(()) };
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
        ("  flushes since opening", human_count(log.flushes)),
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

fn memory_as_json(memory: &MemoryMetrics) -> serde_json::Value {
    json!({
        "budget_bytes": memory.budget_bytes,
        "used_bytes": memory.used_bytes(),
        "memtable_bytes": memory.memtable_bytes,
        "pinned_memtable_bytes": memory.pinned_memtable_bytes,
        "spilled_memtable_bytes": memory.spilled_memtable_bytes,
        "cache_bytes": memory.cache_bytes,
        "cache_capacity_bytes": memory.cache_capacity_bytes,
        "table_metadata_bytes": memory.table_metadata_bytes,
        "log_mapped_bytes": memory.log_mapped_bytes,
        "loading_bytes": memory.loading_bytes,
        "read_ahead_bytes": memory.read_ahead_bytes,
        "job_bytes": memory.job_bytes,
        "large_value_bytes": memory.large_value_bytes,
        "process_block_bytes": memory.process_block_bytes,
        "process_idle_block_bytes": memory.process_idle_block_bytes,
        "process_anonymous_bytes": memory.process_anonymous_bytes,
    })
}

fn reader_as_json(reader: &OpenReader) -> serde_json::Value {
    json!({
        "kind": reader.kind.to_string(),
        "name": reader.name,
        "keyspace": reader.keyspace,
        "age_ms": u64::try_from(reader.age.as_millis()).unwrap_or(u64::MAX),
        "seqno": reader.seqno.get(),
        "newer_operations": reader.newer_operations,
        "memtable_bytes": reader.memtable_bytes,
        "spilled_bytes": reader.spilled_bytes,
        "table_bytes": reader.table_bytes,
        "log_bytes": reader.log_bytes,
    })
}

fn keyspace_as_json(keyspace: &KeyspaceMetrics) -> serde_json::Value {
    json!({
        "name": keyspace.name,
        "memtable_entries": keyspace.memtable_entries,
        "sealed_memtables": keyspace.sealed_memtables,
        "runs": keyspace.runs,
        "tables": keyspace.tables,
        "table_bytes": keyspace.table_bytes,
        "table_entries": keyspace.table_entries,
        "tombstones": keyspace.tombstones,
        "range_deletes": keyspace.range_deletes,
        "compaction_debt_bytes": keyspace.compaction_debt_bytes,
        "flushes": keyspace.flushes,
        "flushed_bytes": keyspace.flushed_bytes,
        "compactions": keyspace.compactions,
        "trivial_moves": keyspace.trivial_moves,
        "compacted_in_bytes": keyspace.compacted_in_bytes,
        "compacted_out_bytes": keyspace.compacted_out_bytes,
        "blob_files": keyspace.blob_files,
        "blob_bytes": keyspace.blob_bytes,
        "blob_garbage_bytes": keyspace.blob_garbage_bytes,
        "blob_flushed_bytes": keyspace.blob_flushed_bytes,
        "blob_relocated_bytes": keyspace.blob_relocated_bytes,
        "amplification": amplification::as_json(&keyspace.amplification),
    })
}

fn blocks_as_json(counted: &KindStats) -> serde_json::Value {
    json!({
        "hits": counted.hits,
        "misses": counted.misses,
        "inserts": counted.inserts,
        "evictions": counted.evictions,
        "removals": counted.removals,
        "expirations": counted.expirations,
        "resident_bytes": counted.resident_bytes,
    })
}

/// The newest sequence numbers; the durable one is unknown to read-only opens, which have no log.
fn last_seqno(metrics: &Metrics) -> String {
    if metrics.log.live_bytes == 0 {
        return metrics.visible_seqno.to_string();
    }
    format!("{}, durable {}", metrics.visible_seqno, metrics.durable_seqno)
}

fn as_json(metrics: &Metrics, open_readers: &[OpenReader]) -> serde_json::Value {
    let (memory, log, cache) = (&metrics.memory, &metrics.log, metrics.cache.total());
    let tables = &metrics.open_tables;
    let keyspaces: Vec<serde_json::Value> = metrics.keyspaces.iter().map(keyspace_as_json).collect();
    let open_readers: Vec<serde_json::Value> = open_readers.iter().map(reader_as_json).collect();
    let blocks: serde_json::Map<String, serde_json::Value> = BlockKind::ALL
        .iter()
        .map(|&kind| (kind.name().to_owned(), blocks_as_json(&metrics.cache[kind])))
        .collect();
    let errors: Vec<String> = metrics.background_errors.iter().map(ToString::to_string).collect();
    json!({
        "visible_seqno": metrics.visible_seqno.get(),
        "durable_seqno": metrics.durable_seqno.get(),
        "counted_since_ms": metrics.counted_since_ms,
        "batches": metrics.batches,
        "entries": metrics.entries,
        "user_bytes": metrics.user_bytes,
        "stalls": metrics.stalls,
        "stall_ms": metrics.stall_time.as_millis() as u64,
        "delays": metrics.delays,
        "delay_ms": metrics.delay_time.as_millis() as u64,
        "snapshots": metrics.snapshots,
        "quarantined_files": metrics.quarantined_files,
        "memory": memory_as_json(memory),
        "open_tables": {
            "tables": tables.tables,
            "max_tables": tables.max_tables,
            "metadata_bytes": tables.metadata_bytes,
            "max_metadata_bytes": tables.max_metadata_bytes,
            "opened": tables.opened,
            "closed": tables.closed,
        },
        "log": {
            "live_bytes": log.live_bytes,
            "history_bytes": log.history_bytes,
            "history_limit_bytes": log.history_limit_bytes,
            "flushes": log.flushes,
            "segments_prepared": log.segments_prepared,
            "segments_recycled": log.segments_recycled,
        },
        "cache": {
            "kind": metrics.cache.kind.to_string(),
            "hits": cache.hits,
            "misses": cache.misses,
            "inserts": cache.inserts,
            "evictions": cache.evictions,
            "expirations": cache.expirations,
            "duplicate_loads": metrics.cache.duplicate_loads,
            "declined": metrics.cache.declined,
            "not_admitted": metrics.cache.not_admitted,
            "warm_inserts": metrics.cache.warm_inserts,
            "scanned_bytes": metrics.cache.scanned_bytes,
            "blocks": blocks,
        },
        "keyspaces": keyspaces,
        "open_readers": open_readers,
        "background_errors": errors,
        "read_only_cause": metrics.read_only_cause,
        "clock_skew_ms": metrics.clock_skew_ms,
        "listeners": listeners_as_json(&metrics.listeners),
    })
}

fn listeners_as_json(listeners: &ListenerMetrics) -> serde_json::Value {
    json!({
        "delivered": listeners.delivered,
        "queued": listeners.queued,
        "lost": listeners.lost,
        "panics": listeners.panics,
    })
}
