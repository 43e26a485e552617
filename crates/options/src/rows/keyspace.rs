//! The defaults and the rows of a keyspace's options. A default of `None` is derived from other facts when it
//! is needed; the row says how.

use super::{assign, listed, listed_kinds, narrow, parsed, short, size};
use crate::migration_record::MigrationRecord;
use crate::schema::units::{NumberRange, Unit};
use crate::schema::{self, OptionChange, OptionGroup, OptionScope, Row, Scope};
use crate::{KeyspaceOptions, Options, PerLevel};
use esker_base::{Error, Result};
use esker_codec::Codec;
use esker_filter::{FilterAllocation, FilterKind, FilterPolicy};
use esker_iter::operator::MergeOperator;
use esker_memtable::MemtableKind;
use esker_sst::{BlockBounds, BlockLayout, IndexKind};
use esker_strategy::write_control::DEFAULT_LEVEL0_STOP_RUNS;
use esker_strategy::{CompactionPriority, Strategy};
use std::time::Duration;

/// Write buffers: the smallest memtable still holds hundreds of small entries; the references of the largest
/// reach 16 GiB, and its replay must stay tolerable.
const WRITE_BUFFER_BYTES: NumberRange = Unit::Bytes.range(4 << 10, 4 << 30);
/// Sizes that blocks may have (T1).
const BLOCK_SIZE_BYTES: NumberRange = Unit::Bytes.range(512, 64 << 10);
/// Whole keys in delta blocks: between every one and the first alone.
const RESTART_INTERVAL: NumberRange = Unit::Count.range(1, u16::MAX as u64);
/// Hash slots of delta blocks: beyond four for an entry hardly any slot is shared, and each costs a byte.
const HASH_SLOTS_PERCENT: NumberRange = Unit::Count.range(0, 400);
/// Sizes that tables and blob files may have.
const FILE_SIZE_BYTES: NumberRange = Unit::Bytes.range(4 << 10, 4 << 30);
/// Lengths from which values may be separated: a pointer takes about 15 bytes, its record's head as many.
const BLOB_THRESHOLD_BYTES: NumberRange = Unit::Bytes.range(64, 1 << 30);
/// Space targets of blob files. Below 1.1 each value would be copied ten times.
const BLOB_SPACE_AMP: NumberRange = Unit::Permille.range(1100, 100_000);
/// Runs that start a merge: beyond a thousand the lists of inputs would be costly themselves.
const LEVEL0_TRIGGER_RUNS: NumberRange = Unit::Count.range(1, 1000);
/// Bytes of a job: from the smallest table to more than any disk holds.
const JOB_BYTES: NumberRange = Unit::Bytes.range(4 << 10, 1 << 50);
/// Runs of a job: fewer than two merge nothing.
const JOB_RUNS: NumberRange = Unit::Count.range(2, 1000);
/// With one run writes would wait for every compaction; more than ten thousand would be unreadably slow.
const LEVEL0_STOP_RUNS: NumberRange = Unit::Count.range(2, 10_000);

/// Space targets. Below 1.05 each byte would be rewritten ten times and more.
const MAX_SPACE_AMP: NumberRange = Unit::Permille.range(1050, 100_000);
/// Delete-persistence targets: memtables are sealed after an eighth, and the compaction worker checks every
/// ten seconds.
const DELETE_WITHIN_MS: NumberRange = Unit::Milliseconds.range(120_000, u64::MAX);

/// Windows of automatic tuning: the compaction worker checks every ten seconds.
const ADAPTIVE_WINDOW_MS: NumberRange = Unit::Milliseconds.range(10_000, u64::MAX);

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions {
            memtable: MemtableKind::Art,
            write_buffer_bytes: None,
            write_buffer_entries: None,
            block_layout: PerLevel::all(BlockLayout::Flat),
            block_size_bytes: 4096,
            block_align: false,
            block_restart_interval: 16,
            block_hash_slots_percent: 100,
            block_index: IndexKind::STree,
            block_bounds: BlockBounds::Unfiltered,
            compression: PerLevel::split(Codec::None, Codec::first_available(&[Codec::Lz4])),
            compression_under_pressure: true,
            filter: FilterPolicy::DEFAULT,
            filter_allocation: FilterAllocation::default(),
            strategy: Strategy::default(),
            switch: None,
            table_bytes: None,
            level0_trigger_runs: None,
            level0_slowdown_runs: None,
            level0_stop_runs: None,
            max_job_bytes: None,
            max_job_runs: None,
            default_ttl: None,
            merge_operator: None,
            compaction_filter: None,
            blob_threshold_bytes: None,
            blob_file_bytes: 32 << 20,
            blob_space_amp_permille: 1500,
            max_space_amp_permille: None,
            delete_within: None,
            adaptive_compaction: None,
        }
    }
}

type Own = Row<KeyspaceOptions>;

const ROWS: &[Own] = &[
    Own::text(
        "memtable",
        || {
            let kinds = listed_kinds(MemtableKind::ALL.map(|kind| (kind.name(), kind.is_reference())));
            format!("{kinds}; sharded perhaps with shards, virtual nodes and weights such as sharded:4:64:1,2,1,4")
        },
        |options| options.memtable.to_string(),
        |options, text| assign(&mut options.memtable, text.parse().map_err(reason)),
    )
    .also(&["memtable_factory"])
    .group(OptionGroup::Experiment)
    .help("Structure in memory that takes writes.")
    .changes(OptionChange::NextMemtable)
    .always_stored(),
    Own::number(
        "write_buffer_size",
        WRITE_BUFFER_BYTES,
        |options| options.write_buffer_bytes,
        |options, bytes| options.write_buffer_bytes = bytes,
    )
    .or("auto", "from the memory budget, at most 16 MiB")
    .help("Payload at which the memtable is sealed and written to a table; four of them take at most a quarter of memory.")
    .changes(OptionChange::AtOnce)
    .always_stored(),
    Own::number(
        "write_buffer_entries",
        Unit::Count.range(1, u64::MAX),
        |options| options.write_buffer_entries,
        |options, entries| options.write_buffer_entries = entries,
    )
    .or("none", "no such limit")
    .group(OptionGroup::Experiment)
    .help("Entries at which the memtable is sealed, whatever its bytes.")
    .changes(OptionChange::AtOnce)
    .always_stored(),
    Own::text(
        "block_layout",
        || format!("{}; one for each level from level 0", LAYOUTS()),
        |options| options.block_layout.upper_text(BlockLayout::name),
        |options, text| options.block_layout.set_upper(text, layout),
    )
    .group(OptionGroup::Experiment)
    .help("How entries lie in blocks, above the last level: the last one named holds for deeper levels.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::text(
        "block_layout_last",
        || format!("{}, or same", LAYOUTS()),
        |options| options.block_layout.last_text(BlockLayout::name),
        |options, text| options.block_layout.set_last(text, layout),
    )
    .group(OptionGroup::Experiment)
    .help("How entries lie in blocks of the last level; `same`: as in the level above it.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::number(
        "block_size",
        BLOCK_SIZE_BYTES,
        |options| Some(options.block_size_bytes as u64),
        |options, bytes| options.block_size_bytes = bytes.map_or(0, size),
    )
    .group(OptionGroup::Everyday)
    .help("Bytes of a block before compression.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::flag("block_align", |options| options.block_align, |options, aligns| options.block_align = aligns)
        .group(OptionGroup::Experiment)
        .help("Whether blocks of at most 4 KiB lie in one page of the file each, with zeros before those that would cross.")
        .changes(OptionChange::NewTables),
    Own::number(
        "block_restart_interval",
        RESTART_INTERVAL,
        |options| Some(u64::from(options.block_restart_interval)),
        |options, entries| options.block_restart_interval = entries.map_or(0, short),
    )
    .group(OptionGroup::Experiment)
    .help("Entries from one whole key to the next in blocks of the delta layout.")
    .changes(OptionChange::NewTables),
    Own::number(
        "block_hash_slots_percent",
        HASH_SLOTS_PERCENT,
        |options| Some(u64::from(options.block_hash_slots_percent)),
        |options, percent| options.block_hash_slots_percent = percent.map_or(0, short),
    )
    .group(OptionGroup::Experiment)
    .help("Slots of the hash index in blocks of the delta layout for a hundred entries; 0 for none.")
    .changes(OptionChange::NewTables),
    Own::text(
        "index_type",
        || {
            let kinds = listed(IndexKind::ALL.map(IndexKind::name));
            format!("{kinds}, perhaps with what it goes by such as adaptive:entries=5000,level=64,memory=0,pattern=mixed")
        },
        |options| options.block_index.to_string(),
        |options, text| assign(&mut options.block_index, text.parse().map_err(reason)),
    )
    .also(&["block_index", "fence_pointers"])
    .group(OptionGroup::Experiment)
    .help("How the block that may hold a key is found.")
    .changes(OptionChange::OpenedTables),
    Own::text(
        "block_bounds",
        || listed(BlockBounds::ALL.map(BlockBounds::name)),
        |options| options.block_bounds.to_string(),
        |options, text| assign(&mut options.block_bounds, text.parse().map_err(reason)),
    )
    .group(OptionGroup::Experiment)
    .help("Which tables say where the keys of each block end and begin: a key between two blocks then costs no read.")
    .changes(OptionChange::NewTables),
    Own::text(
        "compression",
        || format!("{CODECS}; one for each level from level 0, such as none,lz4,zstd:3"),
        |options| options.compression.upper_text(|codec| codec),
        |options, text| options.compression.set_upper(text, codec),
    )
    .also(&["compression_per_level"])
    .group(OptionGroup::Everyday)
    .help("Compression of blocks above the last level: the last one named holds for deeper levels.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::text(
        "compression_last",
        || format!("{CODECS}, or same"),
        |options| options.compression.last_text(|codec| codec),
        |options, text| options.compression.set_last(text, codec),
    )
    .also(&["bottommost_compression"])
    .group(OptionGroup::Everyday)
    .help("Compression of blocks in the last level; `same`: as in the level above it.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::flag(
        "compression_under_pressure",
        |options| options.compression_under_pressure,
        |options, downgrades| options.compression_under_pressure = downgrades,
    )
    .stored_as("ease_compression")
    .help("Whether flushes and merges above the last level compress with a fast codec while writers are about to wait.")
    .changes(OptionChange::NewTables),
    Own::text(
        "filter",
        || {
            let kinds = listed_kinds(FilterKind::ALL.iter().map(|kind| (kind.name(), kind.is_reference())));
            format!("{kinds}, perhaps with a size such as blocked-bloom:10 for bits a key")
        },
        |options| options.filter.to_string(),
        |options, text| assign(&mut options.filter, text.parse().map_err(reason)),
    )
    .also(&["filter_policy"])
    .group(OptionGroup::Everyday)
    .help("Filter that keeps lookups of absent keys from tables.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::text(
        "filter_allocation",
        || {
            "uniform, monkey, monkey:READS such as monkey:0.1, proportional, fixed:BITS, dynamic or dynamic:RATE,RATE,...".to_owned()
        },
        |options| options.filter_allocation.to_string(),
        |options, text| assign(&mut options.filter_allocation, text.parse().map_err(reason)),
    )
    .help("How the memory for filters is divided over the levels.")
    .changes(OptionChange::NewTables),
    Own::text(
        "strategy",
        || format!("{}; T from 1.5 to 32, PICK {}", listed(Strategy::FORMS.iter().copied()), listed(CompactionPriority::ALL.map(CompactionPriority::name))),
        |options| options.strategy.to_string(),
        |options, text| assign(&mut options.strategy, text.parse()),
    )
    .also(&["compaction_strategy", "compaction_style"])
    .group(OptionGroup::Everyday)
    .help("How tables are arranged and merged.")
    .changes(OptionChange::AtOnce)
    .always_stored(),
    Own::number(
        "table_size",
        FILE_SIZE_BYTES,
        |options| options.table_bytes,
        |options, bytes| options.table_bytes = bytes,
    )
    .or("auto", "from the size of the keyspace, 16 MiB to 1 GiB, less with a small memory budget")
    .also(&["target_file_size_base"])
    .help("Bytes at which a table is ended.")
    .changes(OptionChange::NewTables)
    .always_stored(),
    Own::text(
        "migration",
        || "none, or the strategy before, a file number and bytes".to_owned(),
        |options| options.switch.as_ref().map_or("none".to_owned(), MigrationRecord::to_string),
        |options, text| {
            options.switch = if text == "none" { None } else { Some(text.parse()?) };
            Ok(())
        },
    )
    .hidden(),
    Own::number(
        "level0_trigger_runs",
        LEVEL0_TRIGGER_RUNS,
        |options| options.level0_trigger_runs.map(u64::from),
        |options, runs| options.level0_trigger_runs = runs.map(narrow),
    )
    .or("auto", "4 for leveled, 8 for partial, 2 for the golden ratio; the others fix it")
    .also(&["level0_file_num_compaction_trigger"])
    .help("Runs in level 0 that start a merge.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "compaction_job_size",
        JOB_BYTES,
        |options| options.max_job_bytes,
        |options, bytes| options.max_job_bytes = bytes,
    )
    .or("auto", "two tables and at least 32 MiB for partitioned and partial, no limit for the others")
    .also(&["max_compaction_bytes"])
    .help("Bytes that one compaction rewrites, about, where the strategy can divide its work.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "compaction_job_runs",
        JOB_RUNS,
        |options| options.max_job_runs.map(u64::from),
        |options, runs| options.max_job_runs = runs.map(narrow),
    )
    .or("auto", "twice those that start a merge in level 0, all in other levels")
    .also(&["max_runs_to_compact", "max_merge_width"])
    .help("Runs of one level that one compaction merges at most.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "level0_slowdown_runs",
        LEVEL0_STOP_RUNS,
        |options| options.level0_slowdown_runs.map(u64::from),
        |options, runs| options.level0_slowdown_runs = runs.map(narrow),
    )
    .or("auto", "half of level0_stop_runs")
    .also(&["level0_slowdown_writes_trigger"])
    .help("Runs in level 0 from which on writes are slowed.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "level0_stop_runs",
        LEVEL0_STOP_RUNS,
        |options| options.level0_stop_runs.map(u64::from),
        |options, runs| options.level0_stop_runs = runs.map(narrow),
    )
    .or("auto", "24, or four more than the strategy leaves there where that is more")
    .absent_stored_as(DEFAULT_LEVEL0_STOP_RUNS as u64)
    .also(&["level0_stop_writes_trigger"])
    .help("Runs in level 0 at which writes wait for compaction.")
    .changes(OptionChange::AtOnce)
    .always_stored(),
    // The first stored form has no word for an unset limit, only the default of that time, so a separate
    // field tells whether it is set.
    Own::flag(
        "level0_stop_runs_is_chosen",
        |options| options.level0_stop_runs == Some(DEFAULT_LEVEL0_STOP_RUNS),
        |options, is_chosen| {
            if is_chosen {
                options.level0_stop_runs = Some(DEFAULT_LEVEL0_STOP_RUNS);
            }
        },
    )
    .hidden(),
    Own::number(
        "default_ttl",
        Unit::Milliseconds.range(1, u64::MAX),
        |options| options.default_ttl.map(super::milliseconds),
        |options, ms| options.default_ttl = ms.map(Duration::from_millis),
    )
    .or("none", "values live for good")
    .stored_as("default_ttl_ms")
    .also(&["ttl"])
    .group(OptionGroup::Everyday)
    .help("Time to live of values that are put without one.")
    .changes(OptionChange::AtOnce),
    Own::text(
        "merge_operator",
        || "none, counter, counter-checked, append:SEPARATOR, set-union, min, max or custom:NAME".to_owned(),
        |options| options.merge_operator.as_ref().map_or("none", MergeOperator::text).to_owned(),
        |options, text| {
            let operator = (text != "none").then(|| parsed(MergeOperator::parse, text)).transpose()?;
            options.merge_operator = operator;
            Ok(())
        },
    )
    .group(OptionGroup::Everyday)
    .help("Merge operator: how operands become a value.")
    .changes(OptionChange::Once),
    Own::number(
        "blob_threshold",
        BLOB_THRESHOLD_BYTES,
        |options| options.blob_threshold_bytes,
        |options, bytes| options.blob_threshold_bytes = bytes,
    )
    .or("none", "all values lie in tables")
    .also(&["min_blob_size"])
    .group(OptionGroup::Everyday)
    .help("Length from which values lie in blob files, apart from the tables.")
    .changes(OptionChange::NewTables),
    Own::number(
        "blob_file_size",
        FILE_SIZE_BYTES,
        |options| Some(options.blob_file_bytes),
        |options, bytes| options.blob_file_bytes = bytes.unwrap_or(0),
    )
    .help("Bytes at which a blob file is ended.")
    .changes(OptionChange::NewTables),
    Own::number(
        "blob_space_amp",
        BLOB_SPACE_AMP,
        |options| Some(u64::from(options.blob_space_amp_permille)),
        |options, permille| options.blob_space_amp_permille = permille.map_or(0, narrow),
    )
    .stored_as("blob_space_amp_permille")
    .help("Space target of blob files, as a multiple of their live values; above it their garbage is collected.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "max_space_amp",
        MAX_SPACE_AMP,
        |options| options.max_space_amp_permille,
        |options, permille| options.max_space_amp_permille = permille,
    )
    .or("none", "each strategy has its own room")
    .stored_as("max_space_amp_permille")
    .help("Space target: most bytes of tables, as a multiple of the live data.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "delete_within",
        DELETE_WITHIN_MS,
        |options| options.delete_within.map(super::milliseconds),
        |options, ms| options.delete_within = ms.map(Duration::from_millis),
    )
    .or("none", "deleted data goes when compactions reach it")
    .stored_as("delete_within_ms")
    .help("Delete-persistence target: time after which deleted and expired data is in no file.")
    .changes(OptionChange::AtOnce),
    Own::number(
        "adaptive_compaction",
        ADAPTIVE_WINDOW_MS,
        |options| options.adaptive_compaction.map(super::milliseconds),
        |options, ms| options.adaptive_compaction = ms.map(Duration::from_millis),
    )
    .or("none", "the strategy stays as it was chosen")
    .stored_as("adaptive_compaction_ms")
    .help("Time in which the workload is observed before strategy and filters follow it, such as 10m.")
    .changes(OptionChange::AtOnce),
];

const CODECS: &str = "none, lz4, lz4hc:1 to lz4hc:12, snappy, zstd:1 to zstd:22, zstd:1+dict to zstd:22+dict, lzma:0 to lzma:9, \
     bit-packing, delta, dictionary or adaptive";
const LAYOUTS: fn() -> String = || listed([BlockLayout::Flat, BlockLayout::Delta].map(BlockLayout::name));

fn layout(text: &str) -> Result<BlockLayout, String> {
    parsed(BlockLayout::parse, text)
}

fn codec(text: &str) -> Result<Codec, String> {
    text.parse().map_err(reason)
}

/// The text of an error beyond its kind.
fn reason(error: Error) -> String {
    match error {
        Error::InvalidArgument(text) => text.to_string(),
        other => other.to_string(),
    }
}

impl Scope for KeyspaceOptions {
    const SCOPE: OptionScope = OptionScope::Keyspace;

    fn rows() -> &'static [Own] {
        ROWS
    }

    fn names_elsewhere() -> Vec<(&'static str, OptionScope)> {
        schema::names::<Options>()
    }

    fn check_more(&self) -> Result<()> {
        if let Some(operator) = &self.merge_operator {
            operator.validate()?;
        }
        self.check_targets()
    }
}
