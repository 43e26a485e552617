//! Options of a keyspace; stored with it.

use super::filtering::OwnFilter;
use super::per_level::PerLevel;
use super::table;
use crate::keyspace::Switch;
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
pub struct KeyspaceOptions {
    pub(crate) memtable: MemtableKind,
    pub(crate) write_buffer_bytes: Option<u64>,
    pub(crate) write_buffer_entries: Option<u64>,
    pub(crate) block_layout: PerLevel<BlockLayout>,
    pub(crate) block_size_bytes: usize,
    pub(crate) block_restart_interval: u16,
    pub(crate) block_hash_slots_percent: u16,
    pub(crate) block_index: IndexKind,
    pub(crate) block_bounds: BlockBounds,
    pub(crate) compression: PerLevel<Codec>,
    pub(crate) ease_compression: bool,
    pub(crate) filter: FilterPolicy,
    pub(crate) filter_allocation: FilterAllocation,
    pub(crate) strategy: Strategy,
    /// A change of strategy that the tree has not been worked through yet. The engine's, and nothing that is
    /// chosen.
    pub(crate) switch: Option<Switch>,
    pub(crate) table_bytes: Option<u64>,
    pub(crate) level0_trigger_runs: Option<u32>,
    pub(crate) level0_slowdown_runs: Option<u32>,
    pub(crate) level0_stop_runs: Option<u32>,
    pub(crate) max_job_bytes: Option<u64>,
    pub(crate) max_job_runs: Option<u32>,
    pub(crate) default_ttl: Option<Duration>,
    pub(crate) merge_operator: Option<MergeOperator>,
    /// Code: not stored.
    pub(crate) compaction_filter: Option<OwnFilter>,
    pub(crate) blob_threshold_bytes: Option<u64>,
    pub(crate) blob_file_bytes: u64,
    pub(crate) blob_space_amp_permille: u32,
    pub(crate) max_space_amp_permille: Option<u64>,
    pub(crate) delete_within: Option<Duration>,
    pub(crate) adaptive_compaction: Option<Duration>,
}

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions {
            memtable: MemtableKind::Art,
            write_buffer_bytes: None,
            write_buffer_entries: None,
            block_layout: PerLevel::all(BlockLayout::Flat),
            block_size_bytes: 4096,
            block_restart_interval: 16,
            block_hash_slots_percent: 100,
            block_index: IndexKind::STree,
            block_bounds: BlockBounds::Unfiltered,
            compression: PerLevel::split(Codec::None, Codec::Lz4),
            ease_compression: true,
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

impl KeyspaceOptions {
    /// The structure of the memtable. Default: the radix tree.
    pub fn memtable(mut self, kind: MemtableKind) -> KeyspaceOptions {
        self.memtable = kind;
        self
    }

    /// Payload bytes (keys and values) at which the memtable is sealed. Default: from the memory budget, at
    /// most 16 MiB.
    pub fn write_buffer_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.write_buffer_bytes = Some(bytes);
        self
    }

    /// Entries at which the memtable is sealed, whatever its bytes. Default: no such limit.
    pub fn write_buffer_entries(mut self, entries: u64) -> KeyspaceOptions {
        self.write_buffer_entries = Some(entries);
        self
    }

    /// How entries are laid out inside blocks. Default: flat everywhere.
    pub fn block_layout(mut self, layout: PerLevel<BlockLayout>) -> KeyspaceOptions {
        self.block_layout = layout;
        self
    }

    /// Bytes of a block before compression, 512 to 65,536. Default: 4096.
    pub fn block_size(mut self, bytes: usize) -> KeyspaceOptions {
        self.block_size_bytes = bytes;
        self
    }

    /// Entries from one whole key to the next in blocks of the delta layout: more of them are smaller and
    /// slower to search. At least 1. Default: 16.
    pub fn block_restart_interval(mut self, entries: u16) -> KeyspaceOptions {
        self.block_restart_interval = entries;
        self
    }

    /// Slots of the hash index in blocks of the delta layout for a hundred entries, a byte each: they lead
    /// lookups to where the key is, unless keys of different places meet in one. At most 400; 0 for no hash
    /// index. Default: 100.
    pub fn block_hash_slots_percent(mut self, percent: u16) -> KeyspaceOptions {
        self.block_hash_slots_percent = percent;
        self
    }

    /// How the block that may hold a key is found. Default: a search tree of key heads.
    ///
    /// A change holds for tables that are opened from then on; nothing is rewritten for it. Kinds that need
    /// something of the file that other tables do not have, index pages or a hash locator, are used for
    /// tables written from then on.
    pub fn block_index(mut self, kind: IndexKind) -> KeyspaceOptions {
        self.block_index = kind;
        self
    }

    /// Which tables say where the keys of their blocks end and begin, at six bytes a block, so that a key
    /// between two blocks costs no read. Default: those without a filter. A change holds for tables written
    /// from then on.
    pub fn block_bounds(mut self, bounds: BlockBounds) -> KeyspaceOptions {
        self.block_bounds = bounds;
        self
    }

    /// Compression of blocks. Default: none above the last level, LZ4 in it.
    pub fn compression(mut self, compression: PerLevel<Codec>) -> KeyspaceOptions {
        self.compression = compression;
        self
    }

    /// Whether flushes, and merges above the last level, compress with a fast codec while writers are about
    /// to wait: LZ4 where LZ4 HC, Zstandard or LZMA was chosen, and the mode `speed` of the adaptive codec.
    /// It begins at four fifths of the memory, of the sealed memtables or of the runs in level 0 at which
    /// writers wait, and ends below three fifths; merges compress as chosen what was written so. Of no
    /// consequence for fast codecs, the defaults among them. Default: yes.
    pub fn ease_compression(mut self, eases: bool) -> KeyspaceOptions {
        self.ease_compression = eases;
        self
    }

    /// The filter of each table. Default: cache-line-blocked Bloom with 10 bits a key.
    pub fn filter(mut self, filter: FilterPolicy) -> KeyspaceOptions {
        self.filter = filter;
        self
    }

    /// How the memory for filters is divided over the tree's levels. Default: [`FilterAllocation::Monkey`],
    /// by which the bits a key of [`KeyspaceOptions::filter`] are the average over the tree, and small runs
    /// have more of them than large ones.
    pub fn filter_allocation(mut self, allocation: FilterAllocation) -> KeyspaceOptions {
        self.filter_allocation = allocation;
        self
    }

    /// The compaction strategy.
    pub fn strategy(mut self, strategy: Strategy) -> KeyspaceOptions {
        self.strategy = strategy;
        self
    }

    /// Bytes at which a table is cut. Default: from the size of the keyspace, 16 MiB to 1 GiB, less with a
    /// small memory budget.
    pub fn table_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.table_bytes = Some(bytes);
        self
    }

    /// Runs in level 0 that start a merge, for strategies that do not fix them: leveled and partial ones.
    /// Default: 4 for leveled, 8 for partial, 2 for the golden ratio.
    pub fn level0_trigger_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_trigger_runs = Some(runs);
        self
    }

    /// About how many bytes one compaction rewrites, where the strategy can divide its work: larger jobs are
    /// done key range by key range, which bounds the room they need meanwhile. Default: two tables and at
    /// least 32 MiB for partitioned and partial strategies, no limit for the others.
    pub fn compaction_job_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.max_job_bytes = Some(bytes);
        self
    }

    /// Most runs of one level that one compaction merges. Default: twice those that start one in level 0, all
    /// in other levels.
    pub fn compaction_job_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.max_job_runs = Some(runs);
        self
    }

    /// Runs in level 0 from which on writes are slowed, the more the nearer level 0 comes to
    /// [`KeyspaceOptions::level0_stop_runs`]. Default: half of those.
    pub fn level0_slowdown_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_slowdown_runs = Some(runs);
        self
    }

    /// Runs in level 0 at which writes wait for compaction. Default: 24, or four more than start a merge if
    /// that is more.
    pub fn level0_stop_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_stop_runs = Some(runs);
        self
    }

    /// How long values live that are put without a time of their own, counted from the put; whole
    /// milliseconds, fractions are rounded up. Default: for good.
    pub fn default_ttl(mut self, ttl: Duration) -> KeyspaceOptions {
        let ttl_ms = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.default_ttl = Some(Duration::from_millis(ttl_ms));
        self
    }

    /// Values of this many bytes and more lie in blob files, apart from the tables: compactions then copy
    /// pointers instead of values, at the price of a read more for each value that is read. 0 keeps all
    /// values in tables. At least 64. Default: 0.
    ///
    /// A change holds for what is written from then on; what lies in tables is separated by the compaction
    /// that meets it.
    pub fn blob_threshold(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_threshold_bytes = (bytes != 0).then_some(bytes);
        self
    }

    /// Bytes at which a blob file is ended, 4 KiB to 4 GiB. Default: 32 MiB.
    pub fn blob_file_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_file_bytes = bytes;
        self
    }

    /// How many times the room of the living large values their files may take, 1.1 to 100, in steps of
    /// 1/1000: when it is more, the values that live on in the files with the most garbage are copied to new
    /// ones. Less room costs more copying: at 1.5, overwriting evenly writes each value less than twice.
    /// Default: 1.5.
    pub fn blob_space_amp(mut self, times: f64) -> KeyspaceOptions {
        // What is out of range is refused where the options are used; the conversion saturates, and takes NaN
        // for 0.
        self.blob_space_amp_permille = (times * 1000.0).round() as u32;
        self
    }

    /// Promises that tables, what running compactions write, and what readers hold of replaced tables take at
    /// most so many times the room of what is alive, 1.05 to 100, in steps of 1/1000. Default: no promise;
    /// each strategy has its own room.
    ///
    /// Compactions begin as early as it takes, in jobs as small as it takes, and writers are slowed when the
    /// room is nearly used up. Steady overwriting costs about `0.75 / (times - 1)` bytes of compaction for
    /// each. What is known to be impossible is refused with the numbers; [`crate::Database::promises`] tells
    /// whether it is kept. Tables only: not the log.
    pub fn max_space_amp(mut self, times: f64) -> KeyspaceOptions {
        // What is out of range is refused where the options are used; the conversion saturates, and takes NaN
        // for 0.
        self.max_space_amp_permille = Some((times * 1000.0).round() as u64);
        self
    }

    /// Promises that what was deleted or has expired is in no file of the database any more after this time,
    /// at least two minutes. Default: no promise; it goes when compactions meet it.
    ///
    /// Memtables are flushed after an eighth of the time at the latest, the log is not kept for reuse, and
    /// tables with deletes are merged down in time. A snapshot that is older than a delete keeps what was
    /// deleted; [`crate::Database::promises`] says so. Backups, checkpoints and log kept for readers of
    /// changes are not covered, nor is time during which the database is closed.
    ///
    /// Deletes may lie all over the keys, so that all tables have to be rewritten in three quarters of this
    /// time. Where compactions were measured to be slower, or are held to a lower rate, setting it is refused
    /// with the numbers; where it becomes so later, [`crate::Database::promises`] says why. Each keyspace is
    /// judged as if it had that rate for itself. With a single compaction thread what is due waits for the
    /// merge that runs, which a strategy that merges whole levels may be at for long: give it two, or a
    /// longer time.
    pub fn delete_within(mut self, time: Duration) -> KeyspaceOptions {
        self.delete_within = Some(time);
        self
    }

    /// Lets the keyspace follow its workload: operations are observed in windows of this length, at least ten
    /// seconds, and when three in a row show that another strategy, size ratio and filter memory would save
    /// 15 %, it changes to them, at most once in six windows. Ten minutes are a good length. Default: it
    /// stays as it was chosen.
    ///
    /// [`crate::Keyspace::adaptation`] tells what it is about to do. The write buffer stays as it is.
    pub fn adaptive_compaction(mut self, window: Duration) -> KeyspaceOptions {
        self.adaptive_compaction = Some(window);
        self
    }

    /// The window in milliseconds.
    pub(crate) fn adaptive_window_ms(&self) -> Option<u64> {
        self.adaptive_compaction.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX))
    }

    /// The promised time in milliseconds.
    pub(crate) fn delete_within_ms(&self) -> Option<u64> {
        self.delete_within.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// An error for promises that no measurement could make possible.
    pub(crate) fn check_promises(&self) -> Result<()> {
        let promise = match (self.max_space_amp_permille, self.delete_within) {
            (None, None) => return Ok(()),
            (Some(_), _) => "max_space_amp",
            (None, Some(_)) => "delete_within",
        };
        if !self.strategy.merges() {
            return Err(Error::invalid(format!(
                "{promise} cannot be promised with strategy {}, by which tables are not merged for it",
                self.strategy
            )));
        }
        if self.delete_within.is_some() && self.blob_threshold_bytes.is_some() {
            return Err(Error::invalid(
                "delete_within cannot be promised with blob_threshold: values in blob files go when their garbage is collected, \
                 which has no deadline",
            ));
        }
        Ok(())
    }

    /// Runs of level 0 at which writes are slowed and at which they stop: what the options say, by default
    /// above what the strategy leaves in level 0 when nothing is amiss, and out of reach where it may have
    /// any number.
    pub(crate) fn level0_limits(&self) -> (u32, u32) {
        let of_strategy =
            StrategyOptions { level0_trigger_runs: self.level0_trigger_runs, ..StrategyOptions::default() };
        level0_limits(&self.strategy, &of_strategy, self.level0_slowdown_runs, self.level0_stop_runs)
    }

    /// The default TTL, if there is one.
    pub fn ttl_by_default(&self) -> Option<Duration> {
        self.default_ttl
    }

    /// The default TTL in milliseconds, 0 if there is none.
    pub(crate) fn default_ttl_ms(&self) -> u64 {
        self.default_ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// The change of strategy that is being worked through, as strategies take it.
    pub(crate) fn migration(&self) -> Option<Migration> {
        self.switch.as_ref().map(Switch::migration)
    }

    /// What was chosen, and nothing else.
    pub(crate) fn without_switch(&self) -> KeyspaceOptions {
        KeyspaceOptions { switch: None, ..self.clone() }
    }

    /// What all tables of the keyspace are written with, wherever they go.
    pub(crate) fn table_options(&self) -> TableOptions {
        TableOptions {
            block_size_bytes: self.block_size_bytes,
            restart_interval: self.block_restart_interval,
            hash_slots_percent: self.block_hash_slots_percent,
            index: self.block_index,
            bounds: self.block_bounds,
            ..TableOptions::default()
        }
    }

    /// What tables of the keyspace are read with.
    pub(crate) fn table_reading(&self) -> TableReading {
        TableReading { index: self.block_index }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        table::check(self)
    }

    /// The bytes stored with the keyspace.
    pub(crate) fn encode(&self) -> Vec<u8> {
        table::encode(self)
    }

    /// Reads what [`KeyspaceOptions::encode`] wrote.
    ///
    /// # Errors
    /// `Unsupported` for an option or a value that this build does not know: guessing would change what is
    /// written.
    pub(crate) fn decode(bytes: &[u8]) -> Result<KeyspaceOptions> {
        table::decode(bytes)
    }
}
