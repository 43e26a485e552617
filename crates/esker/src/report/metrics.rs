//! Metrics: counters, sizes and states of a database.

use crate::Database;
use esker_base::{DurationCounts, Error, SeqNo};
use esker_cache::CacheStats;
use esker_engine::amplification;
use esker_engine::amplification::Amplification;
use esker_engine::background::picker;
use esker_engine::state::counters::StallCause;
use esker_engine::state::events::ListenerMetrics;
use esker_engine::state::jobs::JobMetrics;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_env::{host, slabs};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Database {
    /// Counters, sizes and states.
    #[doc(alias = "GetProperty")]
    #[doc(alias = "GetIntProperty")]
    #[doc(alias = "Statistics")]
    #[doc(alias = "stats")]
    #[doc(alias = "disk_space")]
    pub fn metrics(&self) -> Metrics {
        metrics(&self.handle().store)
    }
}

/// Counters, sizes and states of a database at one moment.
///
/// Two kinds of totals are in it. Those of the database's *life* outlast closing and opening, also for
/// reading only: batches, entries, user bytes, stalls and delays, and in each keyspace bytes, flushes,
/// compactions, moves and the amplification, as the statistics of filters in
/// [`LevelInfo`](crate::metrics::LevelInfo). The manifest keeps them, at most a minute old while edits are
/// written, and from the last moment if the database was closed; a crash loses what was counted since, and a
/// database of an older build begins to count at its first open by this one. All other totals are those *of
/// this open*: the log's, the cache's, of opened and closed tables, and of listeners.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// Last visible sequence number.
    pub visible_seqno: SeqNo,
    /// Last sequence number known to survive a power cut; 0 in a read-only database, which does not know it.
    pub durable_seqno: SeqNo,
    /// Since when the totals of the database's life are counted, in milliseconds since 1970.
    pub counted_since_ms: u64,
    /// Batches written.
    pub batches: u64,
    /// Operations written.
    pub entries: u64,
    /// Key and value bytes written by users.
    pub user_bytes: u64,
    /// Writes that waited for room, or were refused for lack of it.
    pub stalls: u64,
    /// How long writes waited for room, summed over threads.
    pub stall_time: Duration,
    /// Writes that were delayed after they were done, because background work fell behind.
    pub delays: u64,
    /// How long these delays took, summed over threads.
    pub delay_time: Duration,
    /// How long writes were stopped and slowed since the open, by what held them back; causes without time
    /// are left out.
    pub stall_causes: Vec<StallCause>,
    /// How long flushes took since the open, from the first entry to the edit that installs the tables.
    pub flush_times: DurationCounts,
    /// The memory budget and its use.
    pub memory: MemoryMetrics,
    /// The log.
    pub log: LogMetrics,
    /// Tables that are open.
    pub open_tables: OpenTablesMetrics,
    /// The block cache.
    pub cache: CacheStats,
    /// Open snapshots, those of transactions included.
    pub snapshots: usize,
    /// Sequence number of the oldest open snapshot.
    pub oldest_snapshot: Option<u64>,
    /// Keyspaces, oldest first.
    pub keyspaces: Vec<KeyspaceMetrics>,
    /// Flushes and merges that run, oldest first.
    pub jobs: Vec<JobMetrics>,
    /// Errors of background work without a later success; reads and, while memory lasts, writes continue.
    pub background_errors: Vec<Error>,
    /// Why the database takes no writes, if it does not.
    pub read_only_cause: Option<String>,
    /// How far the wall clock is ahead of the database time, by which entries expire, in milliseconds. Zero,
    /// or a few, as long as the time follows the clock; negative while the clock is behind and time stands
    /// still; more than five years while the clock is not believed ([`crate::Options::believe_clock`]).
    pub clock_skew_ms: i64,
    /// Files that are quarantined ([`crate::Database::quarantined`]).
    pub quarantined_files: usize,
    /// Event listeners.
    pub listeners: ListenerMetrics,
}

/// The memory budget and its use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryMetrics {
    /// The budget.
    pub budget_bytes: u64,
    /// Payload at which a memtable is sealed, in keyspaces without their own setting.
    pub write_buffer_bytes: u64,
    /// Arenas of memtables: in use, kept for reuse, or held by readers only.
    pub memtable_bytes: u64,
    /// Of these, flushed memtables that only readers hold. [`Database::open_readers`] tells which.
    pub pinned_memtable_bytes: u64,
    /// Bytes of such memtables that were moved to files without names: no memory, room on the disk.
    pub spilled_memtable_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// The present capacity of the cache.
    pub cache_capacity_bytes: u64,
    /// Indexes and filters of open tables.
    pub table_metadata_bytes: u64,
    /// Mapped log segments; pages of files, not anonymous memory.
    pub log_mapped_bytes: u64,
    /// Sort buffers of bulk loads.
    pub loading_bytes: u64,
    /// Windows of files that cursors read ahead; a sixteenth of the budget at most, and single blocks beyond.
    pub read_ahead_bytes: u64,
    /// Buffers of flushes, merges and copies: what they read, and the tables and blob files that they write.
    pub job_bytes: u64,
    /// Values of a mebibyte and more while they are written into tables and blob files; an eighth of the
    /// budget at most, or one value.
    pub large_value_bytes: u64,
    /// Blocks in memory, of all databases of this process: those in caches, and those that only cursors,
    /// values and reads keep.
    pub process_block_bytes: u64,
    /// Memory beside these blocks that smaller and larger caches left behind, in all of this process: for the
    /// blocks that come next. A sixteenth of the blocks and some mebibytes stay; more returns to the system
    /// where whole pages are free.
    pub process_idle_block_bytes: u64,
    /// Resident anonymous memory of this process, as the system tells it: all of the above but the log,
    /// buffers of background work, and what is the program's own, which includes freed memory that the
    /// allocator keeps. `None` where the system does not tell it.
    pub process_anonymous_bytes: Option<u64>,
}

impl MemoryMetrics {
    /// Everything that counts against the budget.
    pub fn used_bytes(&self) -> u64 {
        let tables = self.cache_bytes + self.table_metadata_bytes;
        let buffers = self.read_ahead_bytes + self.job_bytes + self.large_value_bytes + self.loading_bytes;
        self.memtable_bytes + tables + self.log_mapped_bytes + buffers
    }
}

/// Open tables: each has a descriptor, and its index and filter in memory. The limits are targets: a table
/// that is needed is opened, and unused ones are closed afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenTablesMetrics {
    /// Tables.
    pub tables: usize,
    /// The value of `Options::max_open_tables`, or the one derived from the process's limit on files.
    pub max_tables: usize,
    /// Bytes of their indexes and filters.
    pub metadata_bytes: u64,
    /// Their limit at present, a share of the memory budget that grows while memtables need little.
    pub max_metadata_bytes: u64,
    /// Files opened.
    pub opened: u64,
    /// Tables closed because of the limits.
    pub closed: u64,
}

/// The write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogMetrics {
    /// Bytes in segments that recovery would read.
    pub live_bytes: u64,
    /// Bytes of segments that recovery does not need, kept for readers of changes.
    pub history_bytes: u64,
    /// The limit of these bytes.
    pub history_limit_bytes: u64,
    /// Bytes written to the log since the open, headers of records and padding included.
    pub written_bytes: u64,
    /// Flushes to the device.
    pub flushes: u64,
    /// How long each of them took.
    pub flush_times: DurationCounts,
    /// Segments created.
    pub segments_prepared: u64,
    /// Segments reused.
    pub segments_recycled: u64,
}

/// One keyspace.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceMetrics {
    /// Its name.
    pub name: String,
    /// Key and value bytes written by users.
    pub user_bytes: u64,
    /// Entries in memtables, superseded versions and tombstones included.
    pub memtable_entries: u64,
    /// Memory of memtables, without those that only readers hold.
    pub memtable_bytes: u64,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: usize,
    /// Runs of tables: the most that a lookup searches.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Entries in tables, superseded versions and tombstones included.
    pub table_entries: u64,
    /// Tombstones in tables.
    pub tombstones: u64,
    /// Range tombstones in memtables and tables; one that overlaps others counts several times.
    pub range_deletes: u64,
    /// Compaction debt: bytes that the strategy would still move.
    pub compaction_debt_bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Bytes of tables written by flushes.
    pub flushed_bytes: u64,
    /// Blob files, which hold large values.
    pub blob_files: usize,
    /// Their bytes: live values and garbage.
    pub blob_bytes: u64,
    /// Bytes of them that no table points to. Overwritten values that no compaction has merged yet are not
    /// counted.
    pub blob_garbage_bytes: u64,
    /// Bytes of blob files written by flushes.
    pub blob_flushed_bytes: u64,
    /// Bytes of blob files written by compactions: mostly live values relocated from files that are deleted.
    pub blob_relocated_bytes: u64,
    /// Compactions done, trivial moves not counted.
    pub compactions: u64,
    /// Tables moved without being rewritten.
    pub trivial_moves: u64,
    /// Bytes of tables read by compactions.
    pub compacted_in_bytes: u64,
    /// Bytes of tables written by compactions.
    pub compacted_out_bytes: u64,
    /// The amplification.
    pub amplification: Amplification,
}

pub(crate) fn metrics(store: &Store) -> Metrics {
    let cache = store.files.cache();
    let log = store.writing.as_ref().map(|writing| &writing.log);
    let log_counters = log.map(|log| log.counters()).unwrap_or_default();
    let log_mapped_bytes = log.map_or(0, |log| log.mapped_bytes());
    let (snapshots, oldest_snapshot) = store.snapshots.summary();
    let keyspaces = store.all_keyspaces();
    let keyspaces: Vec<_> = keyspaces.iter().map(|keyspace| keyspace_metrics(store, keyspace)).collect();
    let (batches, entries, log_written_bytes) = store.writing.as_ref().map_or((0, 0, 0), |writing| {
        let state = writing.commit.lock();
        (state.batches, state.entries, state.log.bytes())
    });
    let (open, limit) = (store.files.open_amount(), store.files.target());
    let cause = store.writing().err().map(|error| error.to_string());
    Metrics {
        visible_seqno: SeqNo::new(store.visible.load(Ordering::Acquire)),
        durable_seqno: log.map_or(SeqNo::default(), |log| log.durable_seqno()),
        counted_since_ms: store.counters.counted_since_ms,
        batches: store.counters.earlier_batches + batches,
        entries: store.counters.earlier_entries + entries,
        user_bytes: keyspaces.iter().map(|keyspace| keyspace.user_bytes).sum(),
        stalls: store.counters.stalls.load(Ordering::Relaxed),
        stall_time: Duration::from_nanos(store.counters.stall_ns.load(Ordering::Relaxed)),
        delays: store.counters.delays.load(Ordering::Relaxed),
        delay_time: Duration::from_nanos(store.counters.delay_ns.load(Ordering::Relaxed)),
        stall_causes: store.counters.stall_causes(),
        flush_times: *store.counters.flush_times.lock(),
        memory: memory_metrics(store, log_mapped_bytes),
        log: LogMetrics {
            live_bytes: log.map_or(0, |log| log.live_bytes()),
            history_bytes: log
                .map_or_else(|| store.history.kept_bytes_after(SeqNo::ZERO), |log| log.history_bytes()),
            history_limit_bytes: store.history_limit_bytes,
            written_bytes: log_written_bytes,
            flushes: log_counters.flushes,
            flush_times: log_counters.flush_times,
            segments_prepared: log_counters.prepared,
            segments_recycled: log_counters.recycled,
        },
        open_tables: OpenTablesMetrics {
            tables: open.tables,
            max_tables: limit.tables,
            metadata_bytes: open.bytes,
            max_metadata_bytes: limit.bytes,
            opened: store.files.openings(),
            closed: store.counters.tables_closed.load(Ordering::Relaxed),
        },
        cache: cache.stats(),
        snapshots,
        quarantined_files: super::quarantine::quarantined(store).len(),
        oldest_snapshot: oldest_snapshot.map(|moment| moment.seqno.get()),
        keyspaces,
        jobs: store.jobs.progress(store.env.clock.monotonic_ns()),
        background_errors: store.scheduler.errors(),
        read_only_cause: cause,
        clock_skew_ms: store.time.skew_ms(),
        listeners: store.events.metrics(),
    }
}

fn memory_metrics(store: &Store, log_mapped_bytes: u64) -> MemoryMetrics {
    let (cache, pinned, buffers) = (store.files.cache(), store.pinned_memtables.bytes(), &store.env.memory);
    MemoryMetrics {
        budget_bytes: store.memory.budget_bytes,
        write_buffer_bytes: store.memory.write_buffer_bytes,
        memtable_bytes: store.memtable_memory_bytes(),
        pinned_memtable_bytes: pinned.memory_bytes,
        spilled_memtable_bytes: pinned.spilled_bytes,
        cache_bytes: cache.used_bytes() as u64,
        cache_capacity_bytes: cache.capacity_bytes() as u64,
        table_metadata_bytes: store.files.open_amount().bytes,
        log_mapped_bytes,
        loading_bytes: buffers.loads.held_bytes(),
        read_ahead_bytes: buffers.read_ahead.held_bytes(),
        job_bytes: buffers.jobs.held_bytes() + buffers.large_inputs.held_bytes(),
        large_value_bytes: buffers.large_values.held_bytes(),
        process_block_bytes: slabs::allocated_bytes() as u64,
        process_idle_block_bytes: slabs::idle_bytes() as u64,
        process_anonymous_bytes: host::anonymous_bytes(),
    }
}

fn keyspace_metrics(store: &Store, keyspace: &KeyspaceState) -> KeyspaceMetrics {
    let view = keyspace.view.load();
    let parts = || view.tree.parts().map(|part| &part.meta);
    let user_bytes = amplification::user_bytes(store, keyspace);
    let book = keyspace.jobs.traffic.book();
    let (flushes, compactions) = (book.flushes(), book.compactions());
    KeyspaceMetrics {
        name: keyspace.name().to_string(),
        user_bytes,
        memtable_entries: view.memtables().map(|view| view.memtable.len()).sum(),
        memtable_bytes: view.memtables().map(|view| view.memtable.allocated_bytes()).sum(),
        sealed_memtables: view.sealed.len(),
        runs: view.tree.runs.len(),
        tables: parts().count(),
        table_bytes: parts().map(|part| part.bytes).sum(),
        table_entries: parts().map(|part| part.entries).sum(),
        tombstones: parts().map(|part| part.tombstones).sum(),
        range_deletes: parts().map(|part| part.range_tombstones).sum::<u64>()
            + view.memtables().map(|view| view.memtable.range_deletes_len()).sum::<u64>(),
        compaction_debt_bytes: picker::compaction_debt(store, keyspace, &view),
        flushes: flushes.jobs,
        flushed_bytes: flushes.written_bytes,
        blob_files: view.tree.version.blob_files().len(),
        blob_bytes: view.tree.version.blob_files().bytes(),
        blob_garbage_bytes: view.tree.version.blob_files().garbage_bytes(),
        blob_flushed_bytes: flushes.blob_bytes,
        blob_relocated_bytes: compactions.blob_bytes,
        compactions: compactions.jobs,
        trivial_moves: book.moves(),
        compacted_in_bytes: compactions.read_bytes,
        compacted_out_bytes: compactions.written_bytes,
        amplification: amplification::amplification(store, keyspace, &view, user_bytes),
    }
}
