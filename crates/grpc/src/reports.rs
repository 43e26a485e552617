//! Reports of the database as messages.

use crate::proto::levels_response::{self, Level, Table};
use crate::proto::stats_response::{self, Memory};
use crate::proto::{LevelsResponse, StallsResponse, StatsResponse, stalls_response};
use bytes::Bytes;
use esker::metrics::{KeyspaceLevels, KeyspaceMetrics, LevelInfo, Metrics, Stalls, WriteState};

/// Counters, sizes and states.
pub(crate) fn stats(metrics: &Metrics, leased_snapshots: usize) -> StatsResponse {
    let memory = &metrics.memory;
    StatsResponse {
        visible_sequence_number: metrics.visible_seqno.get(),
        durable_sequence_number: metrics.durable_seqno.get(),
        counted_since_ms: metrics.counted_since_ms,
        batches: metrics.batches,
        entries: metrics.entries,
        user_bytes: metrics.user_bytes,
        stalls: metrics.stalls,
        stall_time_ms: metrics.stall_time.as_millis() as u64,
        delays: metrics.delays,
        delay_time_ms: metrics.delay_time.as_millis() as u64,
        memory: Some(Memory {
            budget_bytes: memory.budget_bytes,
            used_bytes: memory.used_bytes(),
            memtable_bytes: memory.memtable_bytes,
            cache_bytes: memory.cache_bytes,
            cache_capacity_bytes: memory.cache_capacity_bytes,
            table_metadata_bytes: memory.table_metadata_bytes,
            log_mapped_bytes: memory.log_mapped_bytes,
        }),
        log_live_bytes: metrics.log.live_bytes,
        log_flushes: metrics.log.flushes,
        open_tables: metrics.open_tables.tables as u64,
        open_snapshots: metrics.snapshots as u64,
        running_jobs: metrics.jobs.len() as u64,
        background_errors: metrics.background_errors.iter().map(ToString::to_string).collect(),
        read_only_cause: metrics.read_only_cause.clone(),
        quarantined_files: metrics.quarantined_files as u64,
        keyspaces: metrics.keyspaces.iter().map(keyspace_stats).collect(),
        leased_snapshots: leased_snapshots as u64,
    }
}

fn keyspace_stats(keyspace: &KeyspaceMetrics) -> stats_response::Keyspace {
    stats_response::Keyspace {
        name: keyspace.name.clone(),
        user_bytes: keyspace.user_bytes,
        memtable_entries: keyspace.memtable_entries,
        runs: keyspace.runs as u64,
        tables: keyspace.tables as u64,
        table_bytes: keyspace.table_bytes,
        table_entries: keyspace.table_entries,
        tombstones: keyspace.tombstones,
        compaction_debt_bytes: keyspace.compaction_debt_bytes,
        flushes: keyspace.flushes,
        compactions: keyspace.compactions,
        blob_files: keyspace.blob_files as u64,
        blob_bytes: keyspace.blob_bytes,
        blob_garbage_bytes: keyspace.blob_garbage_bytes,
    }
}

/// The trees of the keyspaces.
pub(crate) fn levels(keyspaces: &[KeyspaceLevels], with_tables: bool) -> LevelsResponse {
    let keyspace = |keyspace: &KeyspaceLevels| levels_response::Keyspace {
        name: keyspace.name.clone(),
        strategy: keyspace.strategy.clone(),
        memtable_entries: keyspace.memtable_entries,
        levels: keyspace.levels.iter().map(|level| level_of(level, with_tables)).collect(),
    };
    LevelsResponse { keyspaces: keyspaces.iter().map(keyspace).collect() }
}

fn level_of(level: &LevelInfo, with_tables: bool) -> Level {
    let mut told = Level { label: level.label(), runs: level.runs.len() as u64, ..Level::default() };
    for (run, tables) in (0..).zip(level.runs.iter().map(|run| &run.tables)) {
        for table in tables {
            told.table_count += 1;
            told.bytes += table.bytes;
            told.entries += table.entries;
            told.tombstones += table.tombstones;
            if with_tables {
                told.tables.push(Table {
                    file: table.file.get(),
                    run,
                    bytes: table.bytes,
                    entries: table.entries,
                    tombstones: table.tombstones,
                    smallest: Bytes::copy_from_slice(&table.smallest),
                    largest: Bytes::copy_from_slice(&table.largest),
                });
            }
        }
    }
    told
}

/// Why writes take longer.
pub(crate) fn stalls(stalls: &Stalls) -> StallsResponse {
    let keyspace = |keyspace: &esker::metrics::KeyspaceStall| stalls_response::Keyspace {
        name: keyspace.name.clone(),
        throttled: keyspace.state != WriteState::Free,
        state: keyspace.to_string(),
    };
    StallsResponse {
        keyspaces: stalls.keyspaces.iter().map(keyspace).collect(),
        waiting_writes: stalls.waiting.iter().map(|waiting| waiting.writes).sum(),
        report: stalls.to_string(),
    }
}
