//! Options of a keyspace, stored with it.

use super::own_filter::OwnFilter;
use super::per_level::PerLevel;
use super::schema::{self, OptionChange};
use crate::migration_record::MigrationRecord;
use esker_base::{Error, Result};
use esker_codec::Codec;
use esker_filter::{FilterAllocation, FilterPolicy};
use esker_iter::operator::MergeOperator;
use esker_memtable::MemtableKind;
use esker_sst::{BlockBounds, BlockLayout, IndexKind, TableOptions, TableReading};
use esker_strategy::write_control::level0_limits;
use esker_strategy::{Migration, Strategy, StrategyOptions};
use std::time::Duration;

/// Options of a keyspace. They are stored with it when it is created; opening it again uses the stored ones.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[doc(alias = "ColumnFamilyOptions")]
#[doc(alias = "PartitionCreateOptions")]
#[doc(alias = "KeyspaceCreateOptions")]
pub struct KeyspaceOptions {
    #[doc(hidden)]
    pub memtable: MemtableKind,
    #[doc(hidden)]
    pub write_buffer_bytes: Option<u64>,
    #[doc(hidden)]
    pub write_buffer_entries: Option<u64>,
    #[doc(hidden)]
    pub block_layout: PerLevel<BlockLayout>,
    #[doc(hidden)]
    pub block_size_bytes: usize,
    #[doc(hidden)]
    pub block_align: bool,
    #[doc(hidden)]
    pub block_restart_interval: u16,
    #[doc(hidden)]
    pub block_hash_slots_percent: u16,
    #[doc(hidden)]
    pub block_index: IndexKind,
    #[doc(hidden)]
    pub block_bounds: BlockBounds,
    #[doc(hidden)]
    pub compression: PerLevel<Codec>,
    #[doc(hidden)]
    pub compression_under_pressure: bool,
    #[doc(hidden)]
    pub filter: FilterPolicy,
    #[doc(hidden)]
    pub filter_allocation: FilterAllocation,
    #[doc(hidden)]
    pub strategy: Strategy,
    /// An unfinished change of strategy. Set by the engine, not by users.
    #[doc(hidden)]
    pub switch: Option<MigrationRecord>,
    #[doc(hidden)]
    pub table_bytes: Option<u64>,
    #[doc(hidden)]
    pub level0_trigger_runs: Option<u32>,
    #[doc(hidden)]
    pub level0_slowdown_runs: Option<u32>,
    #[doc(hidden)]
    pub level0_stop_runs: Option<u32>,
    #[doc(hidden)]
    pub max_job_bytes: Option<u64>,
    #[doc(hidden)]
    pub max_job_runs: Option<u32>,
    #[doc(hidden)]
    pub default_ttl: Option<Duration>,
    #[doc(hidden)]
    pub merge_operator: Option<MergeOperator>,
    /// Code: not stored.
    #[doc(hidden)]
    pub compaction_filter: Option<OwnFilter>,
    #[doc(hidden)]
    pub blob_threshold_bytes: Option<u64>,
    #[doc(hidden)]
    pub blob_file_bytes: u64,
    #[doc(hidden)]
    pub blob_space_amp_permille: u32,
    #[doc(hidden)]
    pub max_space_amp_permille: Option<u64>,
    #[doc(hidden)]
    pub delete_within: Option<Duration>,
    #[doc(hidden)]
    pub adaptive_compaction: Option<Duration>,
}

impl KeyspaceOptions {
    /// The structure of the memtable. Default: the radix tree.
    #[doc(alias = "memtable_factory")]
    pub fn memtable(mut self, kind: MemtableKind) -> KeyspaceOptions {
        self.memtable = kind;
        self
    }

    /// Payload bytes (keys and values) at which the memtable is sealed. Default: from the memory budget, at
    /// most 16 MiB.
    #[doc(alias = "max_memtable_size")]
    pub fn write_buffer_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.write_buffer_bytes = Some(bytes);
        self
    }

    /// Entries at which the memtable is sealed, whatever its bytes. Default: no such limit.
    pub fn write_buffer_entries(mut self, entries: u64) -> KeyspaceOptions {
        self.write_buffer_entries = Some(entries);
        self
    }

    /// The layout of entries inside blocks. Default: flat everywhere.
    pub fn block_layout(mut self, layout: PerLevel<BlockLayout>) -> KeyspaceOptions {
        self.block_layout = layout;
        self
    }

    /// Bytes of a block before compression, 512 to 65,536. Default: 4096.
    pub fn block_size(mut self, bytes: usize) -> KeyspaceOptions {
        self.block_size_bytes = bytes;
        self
    }

    /// Whether a block of at most 4 KiB in the file lies in one page of it: zeros come before it where it
    /// would cross into the next. A read past the system's page cache then takes one page instead of two;
    /// blocks that compress to less than half a page leave some of it empty. Tables that are written from
    /// then on. Default: no.
    #[doc(alias = "block_align")]
    pub fn align_blocks(mut self, aligns: bool) -> KeyspaceOptions {
        self.block_align = aligns;
        self
    }

    /// Entries from one whole key to the next in blocks of the delta layout: a greater distance makes blocks
    /// smaller and slower to search. At least 1. Default: 16.
    #[doc(alias = "data_block_restart_interval")]
    pub fn block_restart_interval(mut self, entries: u16) -> KeyspaceOptions {
        self.block_restart_interval = entries;
        self
    }

    /// Slots of the hash index in blocks of the delta layout for a hundred entries, a byte each: they lead
    /// lookups directly to the key, unless two keys collide. At most 400; 0 for no hash index. Default: 100.
    #[doc(alias = "data_block_hash_table_util_ratio")]
    #[doc(alias = "hash_ratio")]
    pub fn block_hash_slots_percent(mut self, percent: u16) -> KeyspaceOptions {
        self.block_hash_slots_percent = percent;
        self
    }

    /// How the block that may hold a key is found. Default: a search tree of key heads.
    ///
    /// A change applies to tables that are opened from then on; nothing is rewritten. Kinds that need
    /// additional parts of the file, index pages or a hash locator, apply to tables written from then on.
    pub fn block_index(mut self, kind: IndexKind) -> KeyspaceOptions {
        self.block_index = kind;
        self
    }

    /// Which tables store where the keys of their blocks begin and end, at six bytes a block, so that a
    /// lookup of a key between two blocks reads none. Default: those without a filter. A change applies to
    /// tables written from then on.
    pub fn block_bounds(mut self, bounds: BlockBounds) -> KeyspaceOptions {
        self.block_bounds = bounds;
        self
    }

    /// Compression of blocks. Default: none above the last level, LZ4 in it.
    #[doc(alias = "compression_per_level")]
    pub fn compression(mut self, compression: PerLevel<Codec>) -> KeyspaceOptions {
        self.compression = compression;
        self
    }

    /// Compression downgrade: whether flushes, and merges above the last level, compress with a fast codec
    /// while writers are about to wait: LZ4 in place of LZ4 HC, Zstandard or LZMA, and the mode `speed` of
    /// the adaptive codec. It begins at four fifths of the memory, of the sealed memtables or of the runs in
    /// level 0 at which writers wait, and ends below three fifths; later merges recompress the output as
    /// configured. A processor for which some task waits four fifths of the time has the same effect. Where
    /// the device or memory is as short, merges use the mode `ratio` of the adaptive codec. No effect with
    /// fast codecs, such as the defaults. Default: yes.
    pub fn compression_under_pressure(mut self, downgrades: bool) -> KeyspaceOptions {
        self.compression_under_pressure = downgrades;
        self
    }

    /// The filter of each table. Default: cache-line-blocked Bloom with 10 bits a key.
    #[doc(alias = "filter_policy")]
    #[doc(alias = "BloomFilter")]
    #[doc(alias = "bloom_bits_per_key")]
    pub fn filter(mut self, filter: FilterPolicy) -> KeyspaceOptions {
        self.filter = filter;
        self
    }

    /// How the memory for filters is divided over the tree's levels. Default: [`FilterAllocation::Monkey`],
    /// by which the bits a key of [`KeyspaceOptions::filter`] are the average over the tree, and small runs
    /// have more of them than large ones.
    #[doc(alias = "Monkey")]
    #[doc(alias = "optimize_filters_for_hits")]
    pub fn filter_allocation(mut self, allocation: FilterAllocation) -> KeyspaceOptions {
        self.filter_allocation = allocation;
        self
    }

    /// The compaction strategy.
    #[doc(alias = "compaction_style")]
    #[doc(alias = "CompactionStrategy")]
    pub fn strategy(mut self, strategy: Strategy) -> KeyspaceOptions {
        self.strategy = strategy;
        self
    }

    /// The size of tables in bytes. Default: from the size of the keyspace, 16 MiB to 1 GiB, less with a
    /// small memory budget.
    #[doc(alias = "target_file_size_base")]
    #[doc(alias = "max_output_file_size")]
    pub fn table_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.table_bytes = Some(bytes);
        self
    }

    /// Runs in level 0 that start a merge, for strategies that do not fix them: leveled and partial ones.
    /// Default: 4 for leveled, 8 for partial, 2 for the golden ratio.
    #[doc(alias = "level0_file_num_compaction_trigger")]
    pub fn level0_trigger_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_trigger_runs = Some(runs);
        self
    }

    /// The approximate limit of bytes that one compaction rewrites, where the strategy can divide its work:
    /// larger jobs are done key range by key range, which bounds their transient space. Default: two tables
    /// and at least 32 MiB for partitioned and partial strategies, no limit for the others.
    #[doc(alias = "max_compaction_bytes")]
    pub fn compaction_job_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.max_job_bytes = Some(bytes);
        self
    }

    /// The most runs of one level that one compaction merges. Default: twice the trigger in level 0, all in
    /// other levels.
    pub fn compaction_job_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.max_job_runs = Some(runs);
        self
    }

    /// Runs in level 0 from which on writes are slowed, increasingly towards
    /// [`KeyspaceOptions::level0_stop_runs`]. Default: half of those.
    #[doc(alias = "level0_slowdown_writes_trigger")]
    pub fn level0_slowdown_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_slowdown_runs = Some(runs);
        self
    }

    /// Runs in level 0 at which writes wait for compaction. Default: 24, or four more than start a merge if
    /// that is more.
    #[doc(alias = "level0_stop_writes_trigger")]
    pub fn level0_stop_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_stop_runs = Some(runs);
        self
    }

    /// The time to live of values that are put without one, counted from the put; in whole milliseconds,
    /// fractions are rounded up. Default: no expiry.
    #[doc(alias = "DBWithTTL")]
    pub fn default_ttl(mut self, ttl: Duration) -> KeyspaceOptions {
        let ttl_ms = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.default_ttl = Some(Duration::from_millis(ttl_ms));
        self
    }

    /// Values of this many bytes and more are stored in blob files, outside the tables: compactions then copy
    /// pointers instead of values, at the price of an additional read for each value that is read. 0 keeps
    /// all values in tables. At least 64. Default: 0.
    ///
    /// A change applies to data written from then on; values in tables are separated by their next
    /// compaction.
    #[doc(alias = "min_blob_size")]
    #[doc(alias = "enable_blob_files")]
    #[doc(alias = "KvSeparationOptions")]
    #[doc(alias = "separation_threshold")]
    pub fn blob_threshold(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_threshold_bytes = (bytes != 0).then_some(bytes);
        self
    }

    /// Bytes at which a blob file is ended, 4 KiB to 4 GiB. Default: 32 MiB.
    pub fn blob_file_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_file_bytes = bytes;
        self
    }

    /// The space target of blob files as a multiple of their live bytes, 1.1 to 100, in steps of 1/1000:
    /// above it, the live values of the files with the most garbage are copied to new ones. Less space costs
    /// more copying: at 1.5, uniform overwrites write each value less than twice. Default: 1.5.
    pub fn blob_space_amp(mut self, times: f64) -> KeyspaceOptions {
        // A value out of range is refused where the options are used; the conversion saturates, and maps NaN
        // to 0.
        self.blob_space_amp_permille = (times * 1000.0).round() as u32;
        self
    }

    /// Space target: tables, the output of running compactions, and replaced tables held by readers take at
    /// most this multiple of the live bytes, 1.05 to 100, in steps of 1/1000. Default: no target; each
    /// strategy has a space amplification of its own.
    ///
    /// Compactions begin as early and are as small as necessary, and writers are slowed close to the limit.
    /// Steady overwriting costs about `0.75 / (times - 1)` bytes of compaction for each. An infeasible target
    /// is refused with the numbers; `Database::targets` reports whether it is met. Tables only: not
    /// the log.
    #[doc(alias = "max_size_amplification_percent")]
    pub fn max_space_amp(mut self, times: f64) -> KeyspaceOptions {
        // A value out of range is refused where the options are used; the conversion saturates, and maps NaN
        // to 0.
        self.max_space_amp_permille = Some((times * 1000.0).round() as u64);
        self
    }

    /// Delete-persistence target: deleted or expired data is in no file of the database after this time, at
    /// least two minutes. Default: no target; it is dropped when compactions reach it.
    ///
    /// Memtables are flushed after an eighth of the time at the latest, the log is not kept for reuse, and
    /// tables with deletes are merged down in time. A snapshot older than a delete keeps the deleted data;
    /// `Database::targets` reports it. Backups, checkpoints and log kept for readers of changes are
    /// not covered, nor is time during which the database is closed.
    ///
    /// Deletes may affect all tables, so that all of them have to be rewritten in three quarters of this
    /// time. Where the measured rate of compactions, or their rate limit, is too low for that, setting it is
    /// refused with the numbers; where it becomes so later, `Database::targets` says why. Each
    /// keyspace is judged as if it had that rate for itself. With a single compaction thread due work waits
    /// for the running merge, which may take long in strategies that merge whole levels: use two threads, or
    /// a longer time.
    #[doc(alias = "periodic_compaction_seconds")]
    #[doc(alias = "CompactOnDeletionCollector")]
    #[doc(alias = "delete persistence")]
    pub fn delete_within(mut self, time: Duration) -> KeyspaceOptions {
        self.delete_within = Some(time);
        self
    }

    /// Automatic tuning: operations are observed in windows of this length, at least ten seconds, and when
    /// three consecutive windows show that another strategy, size ratio and filter memory would save 15 %,
    /// the keyspace changes to them, at most once in six windows. Ten minutes are a good length. Default: no
    /// automatic changes.
    ///
    /// `Keyspace::adaptation` shows the state. The write buffer stays as it is.
    pub fn adaptive_compaction(mut self, window: Duration) -> KeyspaceOptions {
        self.adaptive_compaction = Some(window);
        self
    }

    /// The window in milliseconds.
    pub fn adaptive_window_ms(&self) -> Option<u64> {
        self.adaptive_compaction.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX))
    }

    /// The delete-persistence target in milliseconds.
    pub fn delete_within_ms(&self) -> Option<u64> {
        self.delete_within.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// An error for targets that no measurement could make feasible.
    pub fn check_targets(&self) -> Result<()> {
        let option = match (self.max_space_amp_permille, self.delete_within) {
            (None, None) => return Ok(()),
            (Some(_), _) => "max_space_amp",
            (None, Some(_)) => "delete_within",
        };
        if !self.strategy.merges() {
            return Err(Error::invalid(format!(
                "{option} cannot be met with strategy {}, which does not merge tables for it",
                self.strategy
            )));
        }
        if self.delete_within.is_some() && self.blob_threshold_bytes.is_some() {
            return Err(Error::invalid(
                "delete_within cannot be met with blob_threshold: values in blob files go when their garbage is collected, \
                 which has no deadline",
            ));
        }
        Ok(())
    }

    /// Runs of level 0 at which writes are slowed and at which they stop: the configured values; by default
    /// above what the strategy leaves in level 0 in normal operation, and unreachable where that is
    /// unbounded.
    pub fn level0_limits(&self) -> (u32, u32) {
        let of_strategy =
            StrategyOptions { level0_trigger_runs: self.level0_trigger_runs, ..StrategyOptions::default() };
        level0_limits(&self.strategy, &of_strategy, self.level0_slowdown_runs, self.level0_stop_runs)
    }

    /// The default TTL, if there is one.
    pub fn ttl_by_default(&self) -> Option<Duration> {
        self.default_ttl
    }

    /// The default TTL in milliseconds, 0 if there is none.
    pub fn default_ttl_ms(&self) -> u64 {
        self.default_ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// The unfinished change of strategy, in the form that strategies take.
    pub fn migration(&self) -> Option<Migration> {
        self.switch.as_ref().map(MigrationRecord::migration)
    }

    /// The options without the engine's record of a migration.
    pub fn without_switch(&self) -> KeyspaceOptions {
        KeyspaceOptions { switch: None, ..self.clone() }
    }

    /// The options that differ in `after` and that existing tables keep until they are merged. An index that
    /// is made when a table is opened is none of them.
    pub fn kept_by_tables(&self, after: &KeyspaceOptions) -> Vec<&'static str> {
        let is_kept = |change| match change {
            OptionChange::NewTables => true,
            // Only the index is of this kind.
            OptionChange::OpenedTables => after.block_index.is_stored(),
            _ => false,
        };
        schema::differing(self, after, is_kept)
    }

    /// The options for writing tables of the keyspace, at any level.
    pub fn table_options(&self) -> TableOptions {
        TableOptions {
            block_size_bytes: self.block_size_bytes,
            aligns_blocks: self.block_align,
            restart_interval: self.block_restart_interval,
            hash_slots_percent: self.block_hash_slots_percent,
            index: self.block_index,
            bounds: self.block_bounds,
            ..TableOptions::default()
        }
    }

    /// The options for reading tables of the keyspace.
    pub fn table_reading(&self) -> TableReading {
        TableReading { index: self.block_index }
    }

    /// Checks all options.
    ///
    /// # Errors
    /// `InvalidArgument` for options that are out of bounds or contradict each other.
    pub fn validate(&self) -> Result<()> {
        schema::check(self)
    }

    /// The bytes stored with the keyspace.
    pub fn encode(&self) -> Vec<u8> {
        schema::encode(self)
    }

    /// Reads what [`KeyspaceOptions::encode`] wrote.
    ///
    /// # Errors
    /// `Unsupported` for an option or a value unknown to this build: guessing would change the output.
    pub fn decode(bytes: &[u8]) -> Result<KeyspaceOptions> {
        schema::decode(bytes)
    }
}
