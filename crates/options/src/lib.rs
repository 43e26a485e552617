//! Options of a database, given at open, and of keyspaces, given at creation.
#![forbid(unsafe_code)]

mod by_name;
mod config;
mod design;
mod durability;
mod events;
mod filtering;
mod keyspace;
mod memory;
mod merging;
mod migration_record;
mod named;
mod open_tables;
mod own_filter;
mod per_level;
mod presets;
mod recovery_mode;
mod rows;
mod schema;
mod stored;
#[cfg(test)]
mod tests;

pub use durability::Durability;
pub use events::{
    ClockState, CompactionJob, CopyKind, Event, EventListener, FileInfo, FileReason, FlushJob, JobOutput,
    KeyspaceRef, ListenerList, WorkKind,
};
pub use keyspace::KeyspaceOptions;
pub use memory::MemoryPlan;
pub use migration_record::MigrationRecord;
pub use named::NamedKeyspaces;
pub use open_tables::default_open_tables;
pub use own_filter::OwnFilter;
pub use per_level::PerLevel;
pub use presets::{Cs265, Preset};
pub use recovery_mode::RecoveryMode;
pub use schema::{OptionChange, OptionGroup, OptionInfo, OptionScope, OptionValue};

use esker_base::Result;
use esker_cache::CacheKind;
use esker_env::BackgroundRates;
use esker_env::{AsyncReads, Env, ReadMode};
use esker_iter::operator::MergeOperator;
use esker_wal::WalRecovery;
use std::time::Duration;

/// The keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// Smallest memory budget that leaves room for two memtables, a log segment and a cache: 8 MiB.
pub const MIN_MEMORY_BUDGET_BYTES: u64 = 8 << 20;

/// Options of a database. They apply to one open and are not stored; options of the data are in
/// [`KeyspaceOptions`].
///
/// ```
/// let options = esker_options::Options::default().memory_budget(512 << 20);
/// ```
#[derive(Clone, Debug)]
#[must_use]
#[doc(alias = "DBOptions")]
#[doc(alias = "Config")]
#[doc(alias = "Builder")]
pub struct Options {
    #[doc(hidden)]
    pub memory_budget_bytes: Option<u64>,
    #[doc(hidden)]
    pub durability: Durability,
    #[doc(hidden)]
    pub read_only: bool,
    #[doc(hidden)]
    pub create_if_missing: bool,
    #[doc(hidden)]
    pub flush_on_close: bool,
    #[doc(hidden)]
    pub believe_clock: bool,
    #[doc(hidden)]
    pub mapped_log: bool,
    #[doc(hidden)]
    pub wal_segment_bytes: Option<u64>,
    #[doc(hidden)]
    pub wal_recovery: WalRecovery,
    #[doc(hidden)]
    pub recovery_mode: RecoveryMode,
    #[doc(hidden)]
    pub compaction_threads: usize,
    #[doc(hidden)]
    pub flush_threads: usize,
    #[doc(hidden)]
    pub max_subcompactions: Option<usize>,
    #[doc(hidden)]
    pub background_rates: BackgroundRates,
    #[doc(hidden)]
    pub max_open_tables: Option<usize>,
    #[doc(hidden)]
    pub table_reads: ReadMode,
    #[doc(hidden)]
    pub async_reads: AsyncReads,
    #[doc(hidden)]
    pub cache_bytes: Option<u64>,
    #[doc(hidden)]
    pub cache_kind: CacheKind,
    #[doc(hidden)]
    pub cache_scan_percent: u8,
    #[doc(hidden)]
    pub cache_filters: bool,
    #[doc(hidden)]
    pub stall_limit: Duration,
    #[doc(hidden)]
    pub reader_warn_age: Duration,
    #[doc(hidden)]
    pub change_history_bytes: u64,
    #[doc(hidden)]
    pub keyspace: KeyspaceOptions,
    /// Options of single keyspaces.
    #[doc(hidden)]
    pub named: NamedKeyspaces,
    #[doc(hidden)]
    pub merge_operators: Vec<MergeOperator>,
    #[doc(hidden)]
    pub allow_missing_operators: bool,
    #[doc(hidden)]
    pub listeners: ListenerList,
    #[doc(hidden)]
    pub env: Env,
}

impl Options {
    /// The memory that memtables, block cache, indexes, filters, merge buffers and the mapped log may take
    /// together, in bytes. Default: a quarter of the limit of the machine or its control group.
    ///
    /// One batch, and so one value, may have half of it at most, since it is in a memtable and in the mapped
    /// log at once: with a quarter of a machine of 1 GiB that is 128 MiB.
    ///
    /// The block cache shrinks for all others, down to a sixteenth of the budget. Not included are the
    /// overhead of memtables with small entries; 8 bytes a key of each table while it is written; the memory
    /// of batches, transactions and cursors; and freed memory kept by the heap of the C library, some 10 to
    /// 20 MiB where tables have a million keys. The log is mapped: its pages belong to files, and anonymous
    /// memory is less by them.
    #[doc(alias = "WriteBufferManager")]
    #[doc(alias = "block_cache")]
    #[doc(alias = "db_write_buffer_size")]
    pub fn memory_budget(mut self, bytes: u64) -> Options {
        self.memory_budget_bytes = Some(bytes);
        self
    }

    /// Durability of writes that do not name one. Default: [`Durability::Process`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Opens read-only: no file is created, changed or deleted, and the log is replayed into private memory.
    /// Refused while another process has the database open for writing.
    #[doc(alias = "OpenForReadOnly")]
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Whether a missing database is created (the default) or is an error.
    #[doc(alias = "error_if_exists")]
    pub fn create_if_missing(mut self, create: bool) -> Options {
        self.create_if_missing = create;
        self
    }

    /// Whether closing flushes the memtables, so that the next open replays nothing. Default: yes.
    #[doc(alias = "avoid_flush_during_shutdown")]
    pub fn flush_on_close(mut self, flush: bool) -> Options {
        self.flush_on_close = flush;
        self
    }

    /// Whether this open sets the database time to the wall clock, forwards or backwards. Default: no.
    ///
    /// Expiries are judged by a time that never runs backwards and follows the wall clock, unless that leaps
    /// ahead by more than five years: then it goes on from where it was. If such a leap is right, because the
    /// database was closed for so long, or if the clock was wrong and the time is too late now, open the
    /// database once with this option. Entries that seemed expired and were not dropped yet are there again
    /// if the time goes back; their expiries stay as they were written.
    ///
    /// [`ClockState`](crate::Event::ClockState) and the metrics tell when the two are apart.
    pub fn believe_clock(mut self, believe: bool) -> Options {
        self.believe_clock = believe;
        self
    }

    /// Whether the log is written through a memory map where the file system allows it. Default: yes. Without
    /// it every write is a system call, and an error of the file system is an error value rather than a
    /// signal.
    #[doc(alias = "allow_mmap_writes")]
    pub fn mapped_log(mut self, mapped: bool) -> Options {
        self.mapped_log = mapped;
        self
    }

    /// Size of a log segment in bytes; a multiple of 4096, at least 16 KiB. Default: from the memory budget.
    #[doc(alias = "max_total_wal_size")]
    #[doc(alias = "max_journaling_size")]
    pub fn wal_segment_bytes(mut self, bytes: u64) -> Options {
        self.wal_segment_bytes = Some(bytes);
        self
    }

    /// How damage in the log is treated. Default: [`WalRecovery::Strict`].
    #[doc(alias = "wal_recovery_mode")]
    pub fn wal_recovery(mut self, recovery: WalRecovery) -> Options {
        self.wal_recovery = recovery;
        self
    }

    /// What an open does about damaged tables and blob files. Default: [`RecoveryMode::Strict`].
    #[doc(alias = "best_efforts_recovery")]
    #[doc(alias = "paranoid_checks")]
    pub fn recovery_mode(mut self, mode: RecoveryMode) -> Options {
        self.recovery_mode = mode;
        self
    }

    /// Threads that run compactions. Default: 1. Flushes, the log, and urgent compactions that writers would
    /// otherwise wait for, have one additional thread each. On Linux compaction threads have a niceness 5
    /// above that of the thread that opens the database, so that callers and flushes have priority where
    /// processors are scarce.
    #[doc(alias = "max_background_jobs")]
    #[doc(alias = "max_background_compactions")]
    #[doc(alias = "IncreaseParallelism")]
    #[doc(alias = "compaction_workers")]
    pub fn compaction_threads(mut self, threads: usize) -> Options {
        self.compaction_threads = threads;
        self
    }

    /// The most threads of one flush, 1 to 64. Each writes a range of the keys, of a mebibyte and more, to
    /// tables of its own, and all are installed together, so nothing else changes; flushes with range deletes
    /// have one thread. It pays where writers are faster than one thread that encodes and compresses, and
    /// processors are idle. Default: 1.
    #[doc(alias = "max_background_flushes")]
    #[doc(alias = "flush_workers")]
    pub fn flush_threads(mut self, threads: usize) -> Options {
        self.flush_threads = threads;
        self
    }

    /// The most subcompactions of one compaction, each merged on a thread of its own (RocksDB's
    /// `max_subcompactions`). With `None`, the default, it is divided where compaction threads are idle, and
    /// while writers are throttled by pending compactions among as many threads as there are processors,
    /// eight at most; a number allows this many threads regardless of others. No subcompaction is smaller
    /// than two tables, and idle work is never divided.
    #[doc(alias = "subcompaction")]
    pub fn max_subcompactions(mut self, pieces: Option<usize>) -> Options {
        self.max_subcompactions = pieces;
        self
    }

    /// Rate limits of compactions in bytes read and written a second (RocksDB's rate limiter). Default:
    /// unlimited. Flushes, and compactions that writers wait for, are exempt, only counted.
    /// `Database::set_background_rates` changes it later.
    ///
    /// ```
    /// use esker_env::BackgroundRates;
    /// use esker_options::Options;
    ///
    /// let rates = BackgroundRates {
    ///     write_bytes_per_second: Some(50 << 20),
    ///     auto_tuned: true,
    ///     ..BackgroundRates::default()
    /// };
    /// let options = Options::default().background_rates(rates);
    /// # let _ = options;
    /// ```
    #[doc(alias = "RateLimiter")]
    #[doc(alias = "rate_limiter")]
    pub fn background_rates(mut self, rates: BackgroundRates) -> Options {
        self.background_rates = rates;
        self
    }

    /// How table files are read. Default: [`ReadMode::Positioned`].
    ///
    /// [`ReadMode::Direct`] bypasses the kernel's page cache, so that the block cache is all the memory that
    /// reading takes; give it a large [`Options::memory_budget`]. [`ReadMode::Mapped`] is the fastest where
    /// the data fits into memory and is not compressed, with a disadvantage: an error of the device ends the
    /// process, where the others return an error.
    #[doc(alias = "use_direct_reads")]
    #[doc(alias = "allow_mmap_reads")]
    pub fn table_reads(mut self, mode: ReadMode) -> Options {
        self.table_reads = mode;
        self
    }

    /// How reads of tables are made to overlap: multi-gets that miss the caches, scans and compactions.
    /// Default: [`AsyncReads::Auto`], `io_uring` where available, else a few threads.
    ///
    /// Measured with lookups of 32 keys (two cores, Linux 6.18, ext4): blocks from the device are read three
    /// to five times as fast as by plain reads with `io_uring`, for a third of the processor time, and two to
    /// four times as fast with threads, for the same; blocks in the page cache cost `io_uring` a tenth more
    /// time than plain reads, and threads three times the processor time. `docs/experiments/reading.md` has
    /// the figures and the program.
    #[doc(alias = "async_io")]
    #[doc(alias = "io_uring")]
    pub fn async_reads(mut self, way: AsyncReads) -> Options {
        self.async_reads = way;
        self
    }

    /// How many tables may be open. Each takes a file descriptor; its index and filter, which are in memory
    /// while it is open, are bounded by the memory budget as well. Default: half of the files that the
    /// process may have open (`ulimit -n`) less 32, 480 of the usual 1024; at least 8, at most 1,048,576.
    ///
    /// A target, not a hard limit: a table that is needed is always opened, and unused tables are closed in
    /// the background. For a moment a quarter more may be open, and in addition the tables that cursors and
    /// compactions are reading, one for each run. Several databases in one process each have their own limit,
    /// but share the process's.
    ///
    /// Opening a table again costs reading and verifying its index and filter, about a hundredth of its file.
    /// If the hot tables of a database fit the limit there is no effect.
    #[doc(alias = "max_open_files")]
    pub fn max_open_tables(mut self, tables: usize) -> Options {
        self.max_open_tables = Some(tables);
        self
    }

    /// A block cache of a fixed size, in bytes; 0 for none. It is part of [`Options::memory_budget`], the
    /// rest of which memtables, log, indexes, filters and merges divide, and which must be larger by 8 MiB
    /// at least; a budget that was not chosen grows around it. Default: what the others leave of the budget.
    ///
    /// For comparisons, where caches must be equal at every size of data. For use the default is better: it
    /// gives the cache what memtables and indexes do not need, where a fixed size leaves that unused, and
    /// closes tables whose indexes and filters do not fit the rest.
    ///
    /// ```
    /// let options = esker_options::Options::default().memory_budget(32 << 20).cache_size(10 << 20);
    /// options.validate().unwrap();
    /// ```
    #[doc(alias = "block_cache")]
    #[doc(alias = "NewLRUCache")]
    pub fn cache_size(mut self, bytes: u64) -> Options {
        self.cache_bytes = Some(bytes);
        self
    }

    /// The eviction policy of the block cache, which all keyspaces share. Default: [`CacheKind::Slots`].
    #[doc(alias = "LRUCache")]
    #[doc(alias = "HyperClockCache")]
    pub fn cache_kind(mut self, kind: CacheKind) -> Options {
        self.cache_kind = kind.within_limits();
        self
    }

    /// The share of the block cache that data blocks read by scans may take, in percent, from 0 to 100.
    /// Default: 40, as in the CSC443 report's store against sequential flooding.
    ///
    /// A scan over more data than the cache has room for would otherwise replace everything in it by blocks
    /// that are read once. Beyond the share scans replace their own blocks; all scans share it, and a lookup
    /// that finds a scan's block makes it an ordinary one. Indexes and filters do not count. 0 keeps no block
    /// of a scan, so that scans of the same range read it again each time; 100 is a cache without protection.
    ///
    /// ```
    /// let options = esker_options::Options::default().cache_scan_percent(10);
    /// options.validate().unwrap();
    /// assert!(options.cache_scan_percent(101).validate().is_err());
    /// ```
    #[doc(alias = "fill_cache")]
    #[doc(alias = "sequential flooding")]
    pub fn cache_scan_percent(mut self, percent: u8) -> Options {
        self.cache_scan_percent = percent;
        self
    }

    /// Whether the filters of tables go through the block cache, where they have priority over data, instead
    /// of being in memory as long as their table is open. For databases whose filters exceed the memory
    /// budget: an open table takes little more than its index, and unused filters are evicted. Costs a lookup
    /// about 50 ns for each table it searches, and a read of the filter by the first lookup that needs it, if
    /// it is not cached; one of more than a sixteenth of the cache is not read, and lookups do without.
    /// Opening a table does not read its filter. Indexes stay with their tables, unless the keyspace's block
    /// index is `b-tree-pages`, which are cached with the same priority. Default: no.
    #[doc(alias = "cache_index_and_filter_blocks")]
    pub fn cache_filters(mut self, cached: bool) -> Options {
        self.cache_filters = cached;
        self
    }

    /// The longest wait of a write for room before it is refused with `WouldStall`. Default: 60 s.
    pub fn stall_limit(mut self, limit: Duration) -> Options {
        self.stall_limit = limit;
        self
    }

    /// Age from which on a snapshot, transaction, cursor or range is reported, once, as a warning through
    /// `tracing`; checked after flushes and compactions. `Database::open_readers` lists all. Default: 10
    /// minutes.
    pub fn reader_warn_age(mut self, age: Duration) -> Options {
        self.reader_warn_age = age;
        self
    }

    /// The most bytes of log kept, beyond what recovery needs, for readers that have not read its changes
    /// yet: named consumers, and streams slower than the writers. Beyond it the oldest are deleted; a reader
    /// that needed them gets [`esker_base::Error::HistoryGone`], and nothing more is kept for it. On disk
    /// only, and not part of the memory budget; counted in whole segments. Without consumers and streams
    /// nothing is kept, whatever the limit. Default: 1 GiB.
    #[doc(alias = "WAL_size_limit_MB")]
    #[doc(alias = "WAL_ttl_seconds")]
    pub fn change_history_limit(mut self, bytes: u64) -> Options {
        self.change_history_bytes = bytes;
        self
    }

    /// Options of keyspaces that are created without options of their own, "default" among them;
    /// [`Options::set_keyspace`] sets options of single ones on top.
    #[doc(alias = "ColumnFamilyOptions")]
    pub fn keyspace_options(mut self, options: KeyspaceOptions) -> Options {
        self.keyspace = options;
        self
    }

    /// The value of [`Options::keyspace_options`].
    pub fn keyspace_defaults(&self) -> &KeyspaceOptions {
        &self.keyspace
    }

    /// The environment. Default: the real one.
    pub fn env(mut self, env: Env) -> Options {
        self.env = env;
        self
    }

    /// Checks all options.
    ///
    /// # Errors
    /// `InvalidArgument` for options that are out of bounds or contradict each other.
    pub fn validate(&self) -> Result<()> {
        schema::check(self)?;
        self.keyspace.validate()?;
        self.keyspace.check_supplied(DEFAULT_KEYSPACE)
    }
}

/// Smallest log segment: a header page and a few records.
pub const MIN_WAL_SEGMENT_BYTES: u64 = 16 << 10;
/// Largest log segment; larger records get a segment of their own.
pub const MAX_WAL_SEGMENT_BYTES: u64 = 64 << 20;
