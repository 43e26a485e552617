//! Metrics of the database, from its public reports.

use super::MAX_KEYSPACES;
use super::catalog::*;
use super::exposition::Exposition;
use crate::history::number_of;
use crate::json::metrics::stall_kind;
use esker::Database;
use esker::metrics::{
    DurationCounts, KeyspaceLevels, KeyspaceMetrics, LevelLimit, Metrics, OpenReader, Stalls, TargetState,
};
use esker::parts::cache::BlockKind;
use std::collections::BTreeMap;

pub(super) fn write(out: &mut Exposition, database: &Database) {
    let (metrics, stalls) = (database.metrics(), database.stalls());
    if let Some(bytes) = metrics.memory.process_anonymous_bytes {
        out.sample(&PROCESS_MEMORY, &[], bytes);
    }
    writes(out, &metrics);
    write_control(out, &metrics, &stalls);
    memory(out, &metrics);
    files(out, &metrics);
    readers(out, &database.open_readers());
    conditions(out, &metrics);
    let shown = metrics.keyspaces.len().min(MAX_KEYSPACES);
    keyspaces(out, &metrics.keyspaces[..shown]);
    levels(out, &database.levels());
    promises(out, database);
}

fn writes(out: &mut Exposition, metrics: &Metrics) {
    out.sample(&KEYSPACES, &[], metrics.keyspaces.len());
    out.sample(&BATCHES, &[], metrics.batches);
    out.sample(&OPERATIONS, &[], metrics.entries);
    for keyspace in metrics.keyspaces.iter().take(MAX_KEYSPACES) {
        out.sample(&USER_BYTES, &[&keyspace.name], keyspace.user_bytes);
    }
    let (visible, durable) = (metrics.visible_seqno.get(), metrics.durable_seqno.get());
    out.sample(&SEQNO, &["visible"], visible);
    out.sample(&SEQNO, &["durable"], durable);
    out.sample(&UNSYNCED, &[], visible.saturating_sub(durable));
    out.sample(&STALLS, &["slowed"], metrics.delays);
    out.sample(&STALLS, &["stopped"], metrics.stalls);
    out.sample(&STALL_SECONDS, &["slowed"], metrics.delay_time.as_secs_f64());
    out.sample(&STALL_SECONDS, &["stopped"], metrics.stall_time.as_secs_f64());
}

fn write_control(out: &mut Exposition, metrics: &Metrics, stalls: &Stalls) {
    for stall in &metrics.stall_causes {
        out.sample(&STALL_CAUSES, &[stall_kind(stall), stall.cause], stall.time.as_secs_f64());
    }
    for waiting in &stalls.waiting {
        out.sample(&WRITES_WAITING, &[waiting.cause], waiting.writes);
    }
    let shown = || stalls.keyspaces.iter().take(MAX_KEYSPACES);
    for keyspace in shown() {
        out.sample(&WRITE_STATE, &[&keyspace.name], number_of(&keyspace.state));
    }
    for keyspace in shown() {
        for pressure in keyspace.pressures.iter().filter(|pressure| pressure.hard > 0) {
            let cause = pressure.cause.name();
            out.sample(&WRITE_PRESSURE, &[&keyspace.name, cause], f64::from(pressure.permille) / 1000.0);
        }
    }
}

fn memory(out: &mut Exposition, metrics: &Metrics) {
    let memory = &metrics.memory;
    for (part, bytes) in crate::json::metrics::memory_parts(memory) {
        out.sample(&MEMORY, &[part], bytes);
    }
    out.sample(&MEMORY_USED, &[], memory.used_bytes());
    out.sample(&MEMORY_BUDGET, &[], memory.budget_bytes);
    out.sample(&PINNED_MEMTABLES, &[], memory.pinned_memtable_bytes);
    out.sample(&CACHE_CAPACITY, &[], memory.cache_capacity_bytes);
    let kinds = || BlockKind::ALL.iter().map(move |&kind| (kind.name(), &metrics.cache[kind]));
    kinds().for_each(|(kind, counted)| out.sample(&CACHE_RESIDENT, &[kind], counted.resident_bytes));
    kinds().for_each(|(kind, counted)| out.sample(&CACHE_HITS, &[kind], counted.hits));
    kinds().for_each(|(kind, counted)| out.sample(&CACHE_MISSES, &[kind], counted.misses));
    kinds().for_each(|(kind, counted)| out.sample(&CACHE_EVICTIONS, &[kind], counted.evictions));
}

fn files(out: &mut Exposition, metrics: &Metrics) {
    let (log, tables) = (&metrics.log, &metrics.open_tables);
    out.sample(&WAL_LIVE, &[], log.live_bytes);
    out.sample(&WAL_HISTORY, &[], log.history_bytes);
    out.sample(&WAL_BYTES, &[], log.written_bytes);
    out.sample(&WAL_SYNCS, &[], log.flushes);
    durations(out, &WAL_SYNC_SECONDS, &log.flush_times);
    out.sample(&OPEN_TABLES, &[], tables.tables);
    out.sample(&OPEN_TABLES_LIMIT, &[], tables.max_tables);
    out.sample(&TABLE_OPENS, &[], tables.opened);
}

fn readers(out: &mut Exposition, readers: &[OpenReader]) {
    let mut kinds = BTreeMap::<String, u64>::new();
    readers.iter().for_each(|reader| *kinds.entry(reader.kind.to_string()).or_default() += 1);
    for (kind, count) in &kinds {
        out.sample(&READERS, &[kind], count);
    }
    let oldest = readers.iter().map(|reader| reader.age).max().unwrap_or_default();
    out.sample(&SNAPSHOT_OLDEST, &[], oldest.as_secs_f64());
}

fn conditions(out: &mut Exposition, metrics: &Metrics) {
    out.sample(&BACKGROUND_ERRORS, &[], metrics.background_errors.len());
    out.sample(&READ_ONLY, &[], u8::from(metrics.read_only_cause.is_some()));
    out.sample(&QUARANTINED, &[], metrics.quarantined_files);
    out.sample(&CLOCK_SKEW, &[], metrics.clock_skew_ms as f64 / 1000.0);
    let flushes = metrics.jobs.iter().filter(|job| job.reason.is_none()).count();
    out.sample(&JOBS, &["flush"], flushes);
    out.sample(&JOBS, &["compaction"], metrics.jobs.len() - flushes);
    durations(out, &FLUSH_SECONDS, &metrics.flush_times);
}

fn durations(out: &mut Exposition, metric: &'static Metric, counts: &DurationCounts) {
    let steps = counts.within_steps().map(|(step, within)| (step.as_secs_f64(), within));
    out.histogram(metric, &[], steps, counts.count(), counts.sum().as_secs_f64());
}

fn keyspaces(out: &mut Exposition, keyspaces: &[KeyspaceMetrics]) {
    let mut each = |metric: &'static Metric, value: fn(&KeyspaceMetrics) -> u64| {
        keyspaces.iter().for_each(|keyspace| out.sample(metric, &[&keyspace.name], value(keyspace)));
    };
    each(&MEMTABLE_BYTES, |keyspace| keyspace.memtable_bytes);
    each(&MEMTABLE_ENTRIES, |keyspace| keyspace.memtable_entries);
    each(&SEALED_MEMTABLES, |keyspace| keyspace.sealed_memtables as u64);
    each(&TABLES, |keyspace| keyspace.tables as u64);
    each(&RUNS, |keyspace| keyspace.runs as u64);
    each(&TABLE_BYTES, |keyspace| keyspace.table_bytes);
    each(&TABLE_ENTRIES, |keyspace| keyspace.table_entries);
    each(&TOMBSTONES, |keyspace| keyspace.tombstones);
    each(&RANGE_DELETES, |keyspace| keyspace.range_deletes);
    for keyspace in keyspaces {
        let live_bytes = keyspace.blob_bytes.saturating_sub(keyspace.blob_garbage_bytes);
        out.sample(&BLOB_BYTES, &[&keyspace.name, "live"], live_bytes);
        out.sample(&BLOB_BYTES, &[&keyspace.name, "garbage"], keyspace.blob_garbage_bytes);
    }
    let mut each = |metric: &'static Metric, value: fn(&KeyspaceMetrics) -> u64| {
        keyspaces.iter().for_each(|keyspace| out.sample(metric, &[&keyspace.name], value(keyspace)));
    };
    each(&PENDING, |keyspace| keyspace.compaction_debt_bytes);
    each(&FLUSHES, |keyspace| keyspace.flushes);
    each(&FLUSHED_BYTES, |keyspace| keyspace.flushed_bytes + keyspace.blob_flushed_bytes);
    each(&COMPACTIONS, |keyspace| keyspace.compactions);
    for keyspace in keyspaces {
        let written_bytes = keyspace.compacted_out_bytes + keyspace.blob_relocated_bytes;
        out.sample(&COMPACTION_BYTES, &[&keyspace.name, "read"], keyspace.compacted_in_bytes);
        out.sample(&COMPACTION_BYTES, &[&keyspace.name, "written"], written_bytes);
    }
    amplification(out, keyspaces);
}

fn amplification(out: &mut Exposition, keyspaces: &[KeyspaceMetrics]) {
    for keyspace in keyspaces {
        let seen = &keyspace.amplification;
        let known = [("write", seen.write()), ("space", seen.space.ratio()), ("read", seen.reads.searched())];
        for (kind, ratio) in known {
            if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) {
                out.sample(&AMPLIFICATION, &[&keyspace.name, kind], ratio);
            }
        }
    }
    for keyspace in keyspaces {
        let reads = &keyspace.amplification.reads;
        let excluded = reads.tables_probed.saturating_sub(reads.tables_searched);
        out.sample(&FILTER_CHECKS, &[&keyspace.name, "excluded"], excluded);
        out.sample(&FILTER_CHECKS, &[&keyspace.name, "searched"], reads.tables_searched);
    }
}

fn levels(out: &mut Exposition, trees: &[KeyspaceLevels]) {
    let mut rows = Vec::new();
    let mut limits = Vec::new();
    for tree in trees.iter().take(MAX_KEYSPACES) {
        for level in &tree.levels {
            let tables = || level.runs.iter().flat_map(|run| &run.tables);
            let bytes: u64 = tables().map(|table| table.bytes).sum();
            rows.push((&tree.name, level.label(), bytes, level.runs.len(), tables().count()));
            limits.push((&tree.name, level.label(), level.limit));
        }
    }
    rows.iter().for_each(|(name, label, bytes, ..)| out.sample(&LEVEL_BYTES, &[name, label], bytes));
    rows.iter().for_each(|(name, label, _, runs, _)| out.sample(&LEVEL_RUNS, &[name, label], runs));
    rows.iter().for_each(|(name, label, .., tables)| out.sample(&LEVEL_TABLES, &[name, label], tables));
    let mut each = |metric: &'static Metric, most: fn(&LevelLimit) -> Option<u64>| {
        for (name, label, limit) in &limits {
            if let Some(most) = most(limit) {
                out.sample(metric, &[name, label], most);
            }
        }
    };
    each(&LEVEL_MAX_BYTES, |limit| limit.bytes);
    each(&LEVEL_MAX_RUNS, |limit| limit.runs.map(u64::from));
}

fn promises(out: &mut Exposition, database: &Database) {
    for targets in database.targets().iter().take(MAX_KEYSPACES) {
        let space = targets.space.as_ref().map(|space| ("space", space.state));
        let deletes = targets.deletes.as_ref().map(|deletes| ("deletes", deletes.state));
        for (promise, state) in space.into_iter().chain(deletes) {
            let number = match state {
                TargetState::Kept => 0,
                TargetState::AtRisk => 1,
                TargetState::Missed => 2,
                _ => 3,
            };
            out.sample(&PROMISE_STATE, &[&targets.name, promise], number);
        }
    }
}
