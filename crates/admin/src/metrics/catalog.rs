//! The catalogue: each metric with its kind, its labels and its meaning. docs/metrics.md is made from it.

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It goes up, and begins anew at a start or a reset.
    Counter,
    /// Observations, counted by steps.
    Histogram,
}

impl Kind {
    /// Its name in the format.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it changes.
    pub kind: Kind,
    /// Its labels, `le` of histograms excepted.
    pub labels: &'static [&'static str],
    /// What it tells, in a sentence.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal $labels:tt $help:literal)*) => {
        $(pub(super) static $id: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &$labels, help: $help };)*

        /// All metrics, in the order in which a scrape has them.
        pub static ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    BUILD_INFO Gauge "esker_build_info" ["version"] "Always 1; the label is the version of the program."
    UPTIME Gauge "esker_uptime_seconds" [] "Time since the database was opened."
    DISK_FREE Gauge "esker_disk_free_bytes" [] "Free bytes of the file system that holds the database."
    PROCESS_MEMORY Gauge "esker_process_anonymous_bytes" [] "Resident anonymous memory of the process."

    KEYSPACES Gauge "esker_keyspaces" [] "Keyspaces. The first 256 have series of their own."
    BATCHES Counter "esker_batches_total" [] "Batches written, over the database's life."
    OPERATIONS Counter "esker_operations_written_total" [] "Operations written, over the database's life."
    USER_BYTES Counter "esker_user_bytes_total" ["keyspace"] "Bytes of keys and values that users wrote, over the database's life."
    SEQNO Gauge "esker_seqno" ["kind"] "Last sequence number: the visible one, and the one that survives a power cut."
    UNSYNCED Gauge "esker_unsynced_operations" [] "Operations that are visible and would not survive a power cut: the lag of the log."
    STALLS Counter "esker_write_stalls_total" ["kind"] "Writes that were slowed after they were done, or stopped for lack of room, over the database's life."
    STALL_SECONDS Counter "esker_write_stall_seconds_total" ["kind"] "How long writes were slowed or stopped, summed over threads, over the database's life."
    STALL_CAUSES Counter "esker_write_stall_cause_seconds_total" ["kind", "cause"] "How long writes were slowed or stopped since the open, summed over threads: stopped by the work that they waited for, slowed by the queue that was closest to its limit. A cause without time is left out."
    WRITES_WAITING Gauge "esker_writes_waiting" ["cause"] "Writes that wait for room now, by the work that they wait for."
    WRITE_STATE Gauge "esker_write_state" ["keyspace"] "Whether writes are free (0), slowed (1) or stopped (2)."
    WRITE_PRESSURE Gauge "esker_write_pressure_ratio" ["keyspace", "cause"] "How full a queue before flush or compaction is between its soft limit (0) and its hard one (1)."

    MEMORY Gauge "esker_memory_bytes" ["part"] "Memory that counts against the budget, by part."
    MEMORY_USED Gauge "esker_memory_used_bytes" [] "The sum of the parts."
    MEMORY_BUDGET Gauge "esker_memory_budget_bytes" [] "The memory budget."
    PINNED_MEMTABLES Gauge "esker_memtable_pinned_bytes" [] "Flushed memtables that only readers hold; a part of the memtables."
    CACHE_CAPACITY Gauge "esker_cache_capacity_bytes" [] "The present capacity of the block cache."
    CACHE_RESIDENT Gauge "esker_cache_resident_bytes" ["kind"] "Blocks in the cache, by kind."
    CACHE_HITS Counter "esker_cache_hits_total" ["kind"] "Lookups that found their block in the cache, since the open."
    CACHE_MISSES Counter "esker_cache_misses_total" ["kind"] "Lookups that had to load their block, since the open."
    CACHE_EVICTIONS Counter "esker_cache_evictions_total" ["kind"] "Blocks evicted to make room, since the open."

    WAL_LIVE Gauge "esker_wal_live_bytes" [] "Bytes of the log that recovery would read."
    WAL_HISTORY Gauge "esker_wal_history_bytes" [] "Bytes of the log kept for readers of changes alone."
    WAL_BYTES Counter "esker_wal_bytes_total" [] "Bytes written to the log since the open, headers of records and padding included."
    WAL_SYNCS Counter "esker_wal_syncs_total" [] "Flushes of the log to the device, since the open."
    WAL_SYNC_SECONDS Histogram "esker_wal_sync_seconds" [] "How long flushes of the log to the device took, since the open."
    OPEN_TABLES Gauge "esker_open_tables" [] "Tables that are open."
    OPEN_TABLES_LIMIT Gauge "esker_open_tables_limit" [] "How many tables are kept open at most."
    TABLE_OPENS Counter "esker_table_opens_total" [] "Files of tables opened, since the open."

    READERS Gauge "esker_open_readers" ["kind"] "Open readers of the past, by kind."
    SNAPSHOT_OLDEST Gauge "esker_snapshot_oldest_seconds" [] "Age of the oldest open reader of the past; 0 without any."
    BACKGROUND_ERRORS Gauge "esker_background_errors" [] "Errors of background work without a later success."
    READ_ONLY Gauge "esker_read_only" [] "1 if the database takes no writes."
    QUARANTINED Gauge "esker_quarantined_files" [] "Damaged files that are in quarantine."
    CLOCK_SKEW Gauge "esker_clock_skew_seconds" [] "How far the wall clock is ahead of the time by which entries expire."
    JOBS Gauge "esker_jobs_running" ["kind"] "Flushes and compactions that run."

    FLUSH_SECONDS Histogram "esker_flush_seconds" [] "How long flushes of memtables took since the open, from the first entry to the edit that installs the tables."
    MEMTABLE_BYTES Gauge "esker_memtable_bytes" ["keyspace"] "Memory of memtables, without those that only readers hold."
    MEMTABLE_ENTRIES Gauge "esker_memtable_entries" ["keyspace"] "Entries in memtables."
    SEALED_MEMTABLES Gauge "esker_memtables_sealed" ["keyspace"] "Memtables that wait to be flushed."
    TABLES Gauge "esker_tables" ["keyspace"] "Tables."
    RUNS Gauge "esker_runs" ["keyspace"] "Runs of tables: the most that a lookup searches."
    TABLE_BYTES Gauge "esker_table_bytes" ["keyspace"] "Bytes of tables."
    TABLE_ENTRIES Gauge "esker_table_entries" ["keyspace"] "Entries in tables, with superseded versions and tombstones."
    TOMBSTONES Gauge "esker_tombstones" ["keyspace"] "Tombstones in tables."
    RANGE_DELETES Gauge "esker_range_deletes_live" ["keyspace"] "Range tombstones in memtables and tables."
    BLOB_BYTES Gauge "esker_blob_bytes" ["keyspace", "kind"] "Bytes of blob files: live values, and garbage that no table points to."
    PENDING Gauge "esker_compaction_pending_bytes" ["keyspace"] "Bytes that the strategy would still move."
    FLUSHES Counter "esker_flushes_total" ["keyspace"] "Flushes, over the database's life."
    FLUSHED_BYTES Counter "esker_flushed_bytes_total" ["keyspace"] "Bytes of tables and blob files that flushes wrote, over the database's life."
    COMPACTIONS Counter "esker_compactions_total" ["keyspace"] "Compactions, over the database's life; moves are none."
    COMPACTION_BYTES Counter "esker_compaction_bytes_total" ["keyspace", "dir"] "Bytes that compactions read and wrote, over the database's life."
    AMPLIFICATION Gauge "esker_amplification" ["keyspace", "kind"] "Bytes written for each byte of users (write), bytes stored for each live byte (space), tables searched by a sampled lookup (read); left out while unknown."
    FILTER_CHECKS Counter "esker_filter_checks_total" ["keyspace", "result"] "Tables that sampled lookups (one in 64) met, excluded by their filter or searched, over the database's life."
    LEVEL_BYTES Gauge "esker_level_bytes" ["keyspace", "level"] "Bytes of tables of a level."
    LEVEL_RUNS Gauge "esker_level_runs" ["keyspace", "level"] "Runs of a level."
    LEVEL_TABLES Gauge "esker_level_tables" ["keyspace", "level"] "Tables of a level."
    LEVEL_MAX_BYTES Gauge "esker_level_max_bytes" ["keyspace", "level"] "The most bytes of a level before it is compacted; left out where the strategy does not bound them."
    LEVEL_MAX_RUNS Gauge "esker_level_max_runs" ["keyspace", "level"] "The most runs of a level before it is compacted; left out where the strategy does not bound them."
    PROMISE_STATE Gauge "esker_promise_state" ["keyspace", "promise"] "Whether a promise (space, deletes) is kept (0), at risk (1), missed (2) or not yet measured (3)."

    CONNECTIONS_OPEN Gauge "esker_connections" ["state"] "Connected clients of Redis: those that wait for a key (blocked), and the others (active)."
    CONNECTIONS_LIMIT Gauge "esker_connections_limit" [] "The most clients of Redis that may be connected."
    CONNECTIONS Counter "esker_connections_total" [] "Connections of clients of Redis accepted."
    CONNECTIONS_REJECTED Counter "esker_connections_rejected_total" ["reason"] "Connections of clients of Redis refused."
    TLS_HANDSHAKES Counter "esker_tls_handshakes_total" ["result"] "TLS handshakes of clients of Redis: those that ended well (ok), and those that failed, took too long or were given up (failed)."
    NET_BYTES Counter "esker_net_bytes_total" ["dir"] "Bytes received from clients of Redis (in) and sent to them (out)."
    CLIENT_BUFFERS Gauge "esker_client_buffer_bytes" ["kind"] "Requests of clients of Redis not executed yet (input), and replies not taken yet (output)."
    BACKPRESSURE Counter "esker_backpressure_seconds_total" [] "How long clients of Redis were not read or served because they did not take replies, or had sent much behind a command that waits, summed over clients."
    PIPELINE Histogram "esker_pipeline_commands" [] "Commands of Redis executed in one turn of a client: what it sent at once, if nothing has to be waited for."
    GROUPS Counter "esker_groups_total" [] "Groups of commands of Redis, each of which has one batch."
    GROUP_CUTS Counter "esker_group_cuts_total" ["cause"] "Groups that ended before the requests of their client did: the next command shares no group (alone), its keys are in use (busy keys), the group is large (full), replies must be taken first (output), another client waits for a key (awaited key), or a pause holds it back (pause)."
    COMMANDS Counter "esker_commands_total" ["cmd"] "Executions of a command of Redis."
    COMMANDS_FAILED Counter "esker_commands_failed_total" ["cmd"] "Executions of it that ended with an error."
    COMMANDS_REJECTED Counter "esker_commands_rejected_total" ["cmd"] "Calls of it that were not executed."
    COMMAND_ERRORS Counter "esker_command_errors_total" ["code"] "Error replies, by their first word."
    COMMAND_SECONDS Histogram "esker_command_seconds" ["cmd"] "How long executions took; counted while latency-tracking is on."
    KEYSPACE_HITS Counter "esker_keyspace_hits_total" [] "Keys that reading commands looked up and found."
    KEYSPACE_MISSES Counter "esker_keyspace_misses_total" [] "Keys that reading commands looked up and did not find."
    SLOW_GROUPS Counter "esker_slow_lane_groups_total" [] "Groups of commands that waited for a device or for a stall."
    SLOW_LANE_QUEUE Gauge "esker_slow_lane_queue" [] "Groups of commands that wait for a thread that may wait for a device or for a stall, and those held back by a stall."
    SCRIPT_SECONDS Histogram "esker_script_seconds" [] "How long runs of scripts and functions took."
    SCRIPT_RERUNS Counter "esker_script_reruns_total" [] "Runs of them that were taken back and begun anew: with an undeclared key under the locks of all, or on a thread that may wait."
    PUBSUB_MESSAGES Counter "esker_pubsub_messages_total" [] "Messages of channels given to subscribers, once for each of them."
    PUBSUB_CHANNELS Gauge "esker_pubsub_channels" [] "Channels and patterns that have subscribers."
    REDIS_KEYS Gauge "esker_redis_keys" ["db"] "Keys of a database of Redis that has any."
    REDIS_EXPIRING Gauge "esker_redis_expiring_keys" ["db"] "Of these, the ones with an expiry."
    EXPIRED_KEYS Counter "esker_expired_keys_total" [] "Keys deleted because they had expired."
    EXPIRY_LAG Gauge "esker_expiry_lag_seconds" [] "How long the first key that has expired and is not deleted has been so."
    GARBAGE_OBJECTS Gauge "esker_garbage_objects" [] "Deleted collections whose elements are not deleted yet."

    SCRAPE_SECONDS Gauge "esker_scrape_seconds" [] "How long making this page took."
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_follow_the_rules_of_prometheus() {
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            let name = metric.name;
            assert!(name.starts_with("esker_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            assert!(metric.help.ends_with('.') && !metric.help.contains(['\\', '\n', '|']), "{name}");
            assert!(!name.ends_with("_count") && !name.ends_with("_sum") && !name.ends_with("_bucket"));
        }
    }
}
