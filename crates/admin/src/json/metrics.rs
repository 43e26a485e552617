//! Counters and sizes of a database as JSON.

use super::amplification::amplification;
use super::milliseconds;
use esker::metrics::{
    DurationCounts, KeyspaceMetrics, ListenerMetrics, MemoryMetrics, Metrics, OpenReader, StallCause,
};
use esker::parts::cache::{BlockKind, KindStats};
use serde_json::{Map, Value, json};

/// Everything that a database counts, and its open readers.
pub fn metrics(metrics: &Metrics, open_readers: &[OpenReader]) -> Value {
    let (memory, log, cache) = (&metrics.memory, &metrics.log, metrics.cache.total());
    let tables = &metrics.open_tables;
    let keyspaces: Vec<Value> = metrics.keyspaces.iter().map(keyspace_of).collect();
    let open_readers: Vec<Value> = open_readers.iter().map(reader).collect();
    let blocks: Map<String, Value> = BlockKind::ALL
        .iter()
        .map(|&kind| (kind.name().to_owned(), blocks_of(&metrics.cache[kind])))
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
        "stall_causes": metrics.stall_causes.iter().map(stall_cause_of).collect::<Vec<_>>(),
        "flush_times": durations_of(&metrics.flush_times),
        "snapshots": metrics.snapshots,
        "quarantined_files": metrics.quarantined_files,
        "memory": memory_of(memory),
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
            "written_bytes": log.written_bytes,
            "flushes": log.flushes,
            "flush_times": durations_of(&log.flush_times),
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
        "listeners": listeners_of(&metrics.listeners),
    })
}

/// Totals from which two moments give rates, and the share of reads that the block cache answered.
pub(crate) fn totals(metrics: &Metrics) -> Value {
    let cache = metrics.cache.total();
    json!({
        "entries": metrics.entries,
        "user_bytes": metrics.user_bytes,
        "delays": metrics.delays,
        "delay_ms": milliseconds(metrics.delay_time),
        "stalls": metrics.stalls,
        "stall_ms": milliseconds(metrics.stall_time),
        "cache_hits": cache.hits,
        "cache_misses": cache.misses,
    })
}

/// The memory budget and its use.
pub fn memory_of(memory: &MemoryMetrics) -> Value {
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

/// The parts of the memory that counts against the budget; their sum is what is used.
pub(crate) fn memory_parts(memory: &MemoryMetrics) -> [(&'static str, u64); 8] {
    [
        ("memtables", memory.memtable_bytes),
        ("cache", memory.cache_bytes),
        ("table_metadata", memory.table_metadata_bytes),
        ("log_mapped", memory.log_mapped_bytes),
        ("read_ahead", memory.read_ahead_bytes),
        ("jobs", memory.job_bytes),
        ("large_values", memory.large_value_bytes),
        ("loading", memory.loading_bytes),
    ]
}

/// An open reader of the past.
pub fn reader(reader: &OpenReader) -> Value {
    json!({
        "kind": reader.kind.to_string(),
        "name": reader.name,
        "keyspace": reader.keyspace,
        "age_ms": milliseconds(reader.age),
        "seqno": reader.seqno.get(),
        "newer_operations": reader.newer_operations,
        "memtable_bytes": reader.memtable_bytes,
        "spilled_bytes": reader.spilled_bytes,
        "table_bytes": reader.table_bytes,
        "log_bytes": reader.log_bytes,
    })
}

/// One keyspace.
pub fn keyspace_of(keyspace: &KeyspaceMetrics) -> Value {
    json!({
        "name": keyspace.name,
        "memtable_entries": keyspace.memtable_entries,
        "memtable_bytes": keyspace.memtable_bytes,
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
        "amplification": amplification(&keyspace.amplification),
    })
}

/// What held writes back, and for how long.
fn stall_cause_of(stall: &StallCause) -> Value {
    json!({
        "kind": stall_kind(stall),
        "cause": stall.cause,
        "ms": milliseconds(stall.time),
    })
}

/// The word for the way in which writes were held back.
pub(crate) fn stall_kind(stall: &StallCause) -> &'static str {
    if stall.is_stop { "stopped" } else { "slowed" }
}

/// A histogram: how many durations there are, their sum, and how many exceed none of some steps.
fn durations_of(counts: &DurationCounts) -> Value {
    let steps = counts
        .within_steps()
        .map(|(step, within)| json!({ "us": step.as_micros() as u64, "within": within }));
    json!({
        "count": counts.count(),
        "sum_ms": milliseconds(counts.sum()),
        "steps": steps.collect::<Vec<_>>(),
    })
}

fn blocks_of(counted: &KindStats) -> Value {
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

fn listeners_of(listeners: &ListenerMetrics) -> Value {
    json!({
        "delivered": listeners.delivered,
        "queued": listeners.queued,
        "lost": listeners.lost,
        "panics": listeners.panics,
    })
}
