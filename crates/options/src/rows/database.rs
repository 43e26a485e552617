//! The defaults and the rows of a database's options. A default of `None` is derived from other facts when it
//! is needed; the row says how.

use super::{assign, listed, listed_kinds, milliseconds, parsed, size};
use crate::open_tables::{MIN_OPEN_TABLES, validate_open_tables};
use crate::schema::units::Unit;
use crate::schema::{self, OptionGroup, OptionScope, Row, Scope};
use crate::{
    Durability, KeyspaceOptions, ListenerList, MAX_WAL_SEGMENT_BYTES, MIN_MEMORY_BUDGET_BYTES,
    MIN_WAL_SEGMENT_BYTES, NamedKeyspaces, Options, RecoveryMode,
};
use esker_base::{Error, Result};
use esker_cache::{CacheKind, DEFAULT_SCAN_PERCENT};
use esker_env::{AsyncReads, BackgroundRates, Env, MIN_BYTES_PER_SECOND, ReadMode};
use esker_wal::WalRecovery;
use std::time::Duration;

/// Log kept for readers of changes: an hour at 300 KB a second, and little enough that a forgotten consumer
/// does not fill a disk.
const CHANGE_HISTORY_BYTES: u64 = 1 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            memory_budget_bytes: None,
            durability: Durability::Process,
            read_only: false,
            create_if_missing: true,
            flush_on_close: true,
            believe_clock: false,
            mapped_log: true,
            wal_segment_bytes: None,
            wal_recovery: WalRecovery::Strict,
            recovery_mode: RecoveryMode::Strict,
            flush_threads: 1,
            compaction_threads: 1,
            max_subcompactions: None,
            background_rates: BackgroundRates::default(),
            max_open_tables: None,
            table_reads: ReadMode::default(),
            async_reads: AsyncReads::default(),
            cache_bytes: None,
            cache_kind: CacheKind::default(),
            cache_scan_percent: DEFAULT_SCAN_PERCENT,
            cache_filters: false,
            stall_limit: Duration::from_secs(60),
            reader_warn_age: Duration::from_secs(600),
            change_history_bytes: CHANGE_HISTORY_BYTES,
            keyspace: KeyspaceOptions::default(),
            named: NamedKeyspaces::default(),
            merge_operators: Vec::new(),
            allow_missing_operators: false,
            listeners: ListenerList::default(),
            env: Env::real(),
        }
    }
}

type Own = Row<Options>;

/// All of these can be changed only when the database is opened, so the rows do not say so.
const ROWS: &[Own] = &[
    Own::number(
        "memory_budget",
        Unit::Bytes.range(MIN_MEMORY_BUDGET_BYTES, u64::MAX),
        |options| options.memory_budget_bytes,
        |options, bytes| options.memory_budget_bytes = bytes,
    )
    .or("auto", "a quarter of what the machine or its control group allows")
    .group(OptionGroup::Everyday)
    .help("Memory of memtables, block cache, indexes, filters, merges and the mapped log together."),
    Own::text(
        "durability",
        || "none, process or power".to_owned(),
        |options| options.durability.name().to_owned(),
        |options, text| assign(&mut options.durability, parsed(Durability::parse, text)),
    )
    .group(OptionGroup::Everyday)
    .help("Durability of writes that do not name one: the end of the process, or a power cut."),
    Own::flag("read_only", |options| options.read_only, |options, is| options.read_only = is)
        .group(OptionGroup::Everyday)
    .help("Whether the database is opened for reading only."),
    Own::flag(
        "create_if_missing",
        |options| options.create_if_missing,
        |options, is| options.create_if_missing = is,
    )
    .group(OptionGroup::Everyday)
    .help("Whether a missing database is created, or is an error."),
    Own::flag("flush_on_close", |options| options.flush_on_close, |options, is| options.flush_on_close = is)
        .help("Whether closing writes the memtables to tables, so that the next open replays nothing."),
    Own::flag("believe_clock", |options| options.believe_clock, |options, is| options.believe_clock = is)
        .help("Whether this open sets the database time to the wall clock, after one of them was far off."),
    Own::flag("mapped_log", |options| options.mapped_log, |options, is| options.mapped_log = is)
        .group(OptionGroup::Experiment)
    .help("Whether the log is written through a memory map where the file system allows it."),
    Own::number(
        "wal_segment_size",
        Unit::Bytes.range(MIN_WAL_SEGMENT_BYTES, MAX_WAL_SEGMENT_BYTES),
        |options| options.wal_segment_bytes,
        |options, bytes| options.wal_segment_bytes = bytes,
    )
    .or("auto", "from the memory budget, 256 KiB to 16 MiB")
    .also(&["wal_segment_bytes"])
    .help("Size of a segment of the log; a multiple of 4 KiB."),
    Own::text(
        "wal_recovery",
        || listed([WalRecovery::Strict, WalRecovery::PowerCut].map(recovery_name)),
        |options| recovery_name(options.wal_recovery).to_owned(),
        |options, text| assign(&mut options.wal_recovery, parsed(recovery, text)),
    )
    .also(&["wal_recovery_mode"])
    .help("How damage at the end of the log is judged; `power-cut` for images that were copied while they were in use."),
    Own::text(
        "recovery_mode",
        || listed(RecoveryMode::ALL.map(RecoveryMode::name)),
        |options| options.recovery_mode.name().to_owned(),
        |options, text| assign(&mut options.recovery_mode, parsed(RecoveryMode::parse, text)),
    )
    .help("Whether damaged tables refuse to open, or are quarantined: only reads of their keys fail then."),
    Own::number(
        "compaction_threads",
        Unit::Count.range(1, 64),
        |options| Some(options.compaction_threads as u64),
        |options, threads| options.compaction_threads = threads.map_or(0, size),
    )
    .also(&["max_background_compactions"])
    .group(OptionGroup::Everyday)
    .help("Threads that run compactions."),
    Own::number(
        "flush_threads",
        Unit::Count.range(1, 64),
        |options| Some(options.flush_threads as u64),
        |options, threads| options.flush_threads = threads.map_or(1, size),
    )
    .help("Most threads of one flush, each with a range of its keys of a mebibyte and more."),
    Own::number(
        "max_subcompactions",
        Unit::Count.range(1, 64),
        |options| options.max_subcompactions.map(|pieces| pieces as u64),
        |options, pieces| options.max_subcompactions = pieces.map(size),
    )
    .or("auto", "as many as there are idle compaction threads, or processors while writers are slowed")
    .help("Most subcompactions of one compaction, each on a thread of its own."),
    Own::number(
        "background_read_bytes_per_second",
        Unit::Bytes.range(MIN_BYTES_PER_SECOND, u64::MAX),
        |options| options.background_rates.read_bytes_per_second,
        |options, rate| options.background_rates.read_bytes_per_second = rate,
    )
    .or("unlimited", "as fast as they can")
    .help("Bytes of tables a second that compactions may read, cached or not; those that writers wait for have no limit."),
    Own::number(
        "background_write_bytes_per_second",
        Unit::Bytes.range(MIN_BYTES_PER_SECOND, u64::MAX),
        |options| options.background_rates.write_bytes_per_second,
        |options, rate| options.background_rates.write_bytes_per_second = rate,
    )
    .or("unlimited", "as fast as they can")
    .also(&["rate_limiter_bytes_per_sec"])
    .help("Bytes of tables a second that compactions may write; flushes, and compactions that writers wait for, have no limit."),
    Own::flag(
        "background_rate_auto_tuned",
        |options| options.background_rates.auto_tuned,
        |options, is| options.background_rates.auto_tuned = is,
    )
    .also(&["rate_limiter_auto_tuned"])
    .help("Whether these rates are ceilings, below which compactions adapt to foreground reads."),
    Own::number(
        "max_open_tables",
        Unit::Count.range(MIN_OPEN_TABLES as u64, u64::MAX),
        |options| options.max_open_tables.map(|tables| tables as u64),
        |options, tables| options.max_open_tables = tables.map(size),
    )
    .or("auto", "half of the files that the process may have open, less 32")
    .also(&["max_open_files"])
    .help("How many tables may be open; each takes a file descriptor."),
    Own::text(
        "table_reads",
        || listed(ReadMode::ALL.iter().map(|mode| mode.name())),
        |options| options.table_reads.to_string(),
        |options, text| assign(&mut options.table_reads, text.parse()),
    )
    .help("How table files are read: through the page cache, past it, or as memory."),
    Own::text(
        "async_reads",
        || listed(AsyncReads::ALL.iter().map(|way| way.name())),
        |options| options.async_reads.to_string(),
        |options, text| assign(&mut options.async_reads, text.parse()),
    )
    .group(OptionGroup::Experiment)
    .help("How reads are made to overlap, in lookups of many keys, scans and compactions."),
    Own::number(
        "cache_size",
        Unit::Bytes.range(0, u64::MAX),
        |options| options.cache_bytes,
        |options, bytes| options.cache_bytes = bytes,
    )
    .or("auto", "what the others leave of memory_budget")
    .also(&["block_cache_size"])
    .help("Fixed size of the block cache, 0 for none, within a memory budget that is larger by 8 MiB."),
    Own::text(
        "cache_kind",
        || {
            let names = listed_kinds(CacheKind::ALL.map(|kind| (kind.name(), kind.is_reference())));
            format!("{names}; or lru:60s, with a TTL")
        },
        |options| options.cache_kind.to_string(),
        |options, text| assign(&mut options.cache_kind, text.parse().map_err(|error: Error| error.to_string())),
    )
    .group(OptionGroup::Experiment)
    .help("Eviction policy of the block cache, which all keyspaces share."),
    Own::number(
        "cache_scan_percent",
        Unit::Count.range(0, 100),
        |options| Some(u64::from(options.cache_scan_percent)),
        |options, percent| {
            let percent = percent.unwrap_or(u64::from(DEFAULT_SCAN_PERCENT));
            options.cache_scan_percent = u8::try_from(percent).unwrap_or(u8::MAX);
        },
    )
    .also(&["sequential_flooding_percent"])
    .help("Share of the block cache, in percent, that data blocks of scans may take, so that a long scan does not flood it."),
    Own::flag("cache_filters", |options| options.cache_filters, |options, is| options.cache_filters = is)
        .also(&["cache_index_and_filter_blocks"])
        .help("Whether filters lie in the block cache, each at most a sixteenth of it; indexes do by `index_type` b-tree-pages."),
    Own::number(
        "stall_limit",
        Unit::Milliseconds.range(0, u64::MAX),
        |options| Some(milliseconds(options.stall_limit)),
        |options, ms| options.stall_limit = Duration::from_millis(ms.unwrap_or(0)),
    )
    .help("How long a write waits at most for room before it is refused."),
    Own::number(
        "reader_warn_age",
        Unit::Milliseconds.range(0, u64::MAX),
        |options| Some(milliseconds(options.reader_warn_age)),
        |options, ms| options.reader_warn_age = Duration::from_millis(ms.unwrap_or(0)),
    )
    .also(&["holder_warn_age"])
    .help("Age from which on a snapshot, transaction, cursor or range is warned about."),
    Own::number(
        "change_history_limit",
        Unit::Bytes.range(0, u64::MAX),
        |options| Some(options.change_history_bytes),
        |options, bytes| options.change_history_bytes = bytes.unwrap_or(0),
    )
    .help("Most bytes of log kept for consumers that have not read its changes yet."),
    Own::flag(
        "allow_missing_operators",
        |options| options.allow_missing_operators,
        |options, is| options.allow_missing_operators = is,
    )
    .help("Whether the database may be opened without the custom merge operators of its keyspaces."),
];

const fn recovery_name(recovery: WalRecovery) -> &'static str {
    match recovery {
        WalRecovery::Strict => "strict",
        WalRecovery::PowerCut => "power-cut",
    }
}

fn recovery(name: &str) -> Option<WalRecovery> {
    [WalRecovery::Strict, WalRecovery::PowerCut].into_iter().find(|recovery| recovery_name(*recovery) == name)
}

impl Scope for Options {
    const SCOPE: OptionScope = OptionScope::Database;

    fn rows() -> &'static [Own] {
        ROWS
    }

    fn names_elsewhere() -> Vec<(&'static str, OptionScope)> {
        schema::names::<KeyspaceOptions>()
    }

    fn check_more(&self) -> Result<()> {
        if let Some(bytes) = self.wal_segment_bytes
            && !bytes.is_multiple_of(4096)
        {
            return Err(Error::invalid(format!(
                "wal_segment_size is {bytes} bytes, it must be a multiple of 4096"
            )));
        }
        if let (Some(budget), Some(cache)) = (self.memory_budget_bytes, self.cache_bytes)
            && budget.saturating_sub(MIN_MEMORY_BUDGET_BYTES) < cache
        {
            return Err(Error::invalid(format!(
                "cache_size is {cache} bytes, and memory_budget must be {MIN_MEMORY_BUDGET_BYTES} bytes more at \
                 least; it is {budget} bytes"
            )));
        }
        if let Some(tables) = self.max_open_tables {
            validate_open_tables(tables, esker_env::host::open_files_limit())?;
        }
        self.background_rates.validate()?;
        self.merge_operators.iter().try_for_each(|operator| operator.validate())
    }
}
