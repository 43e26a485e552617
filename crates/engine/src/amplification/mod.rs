//! Measured amplification: bytes written, tables read and bytes stored for each byte and each lookup of a
//! user.
//!
//! * **Write**: bytes of tables and blob files that flushes, ingests and compactions wrote, by cause and by
//!   level ([`crate::state::traffic`]), over user bytes. The log is not included; it writes each byte once,
//!   plus record headers.
//! * **Read**: one lookup in 64 is traced through memtables and runs ([`esker_view::lookup_tracer`]). The
//!   observed values are reported beside the rates expected of the present filters, and the worst case by the
//!   formula of the strategy.
//! * **Space**: bytes of tables and blob files over an estimate of their size after a full compaction
//!   ([`space`]).
//!
//! Everything is counted over the database's life ([`crate::state::figures`]), without the writes of opens
//! themselves, and costs the put path nothing, a lookup one comparison, and a background job some additions
//! under a lock of its own.

pub mod space;

pub use crate::state::traffic::{Cause, CauseInfo};
pub use esker_view::lookup_tracer::ReadAmplification;
pub use space::SpaceAmplification;

use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::store::Store;
use esker_version::{Level, LevelIndex};
use esker_view::SuperVersion;
use esker_view::lookup_tracer::FilterRates;

/// The amplification of a keyspace.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Amplification {
    /// Key and value bytes that users put.
    pub put_bytes: u64,
    /// Bytes of keys and values in tables that users ingested or loaded in bulk.
    pub ingested_bytes: u64,
    /// Bytes written and read in the background, by cause; most written first.
    pub causes: Vec<CauseInfo>,
    /// Levels with tables or with writes, newest data first.
    pub levels: Vec<LevelAmplification>,
    /// The read amplification.
    pub reads: ReadAmplification,
    /// The space amplification.
    pub space: SpaceAmplification,
}

/// The amplification of one level.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelAmplification {
    /// Its number; the last level is always 63.
    pub number: u8,
    /// Bytes of tables written for this level.
    pub written_bytes: u64,
    /// Bytes of tables of this level that compactions read.
    pub read_bytes: u64,
    /// Bytes of its tables.
    pub table_bytes: u64,
    /// Its runs.
    pub runs: usize,
    /// Tables of this level that a lookup of an absent key is expected to search because of false positives,
    /// by their filters.
    pub expected_misses: f64,
    /// Runs of this level in which sampled lookups found a table that spans their key.
    pub probed: u64,
    /// Tables of it that they searched, because the filter passed or there is none.
    pub searched: u64,
    /// Searches that found the key, or its tombstone.
    pub found: u64,
}

impl Amplification {
    /// User bytes: the denominator of write amplification.
    pub fn user_bytes(&self) -> u64 {
        self.put_bytes + self.ingested_bytes
    }

    /// Bytes written to tables and blob files.
    pub fn written_bytes(&self) -> u64 {
        self.causes.iter().map(|cause| cause.written_bytes + cause.blob_bytes).sum()
    }

    /// Write amplification without the log: bytes written over user bytes; `None` without user bytes. Data in
    /// memtables counts as user bytes, so the value is too small until it is flushed.
    pub fn write(&self) -> Option<f64> {
        self.over_user_bytes(self.written_bytes())
    }

    /// `bytes` over user bytes.
    pub fn over_user_bytes(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes() > 0).then(|| bytes as f64 / self.user_bytes() as f64)
    }
}

impl LevelAmplification {
    /// The usual label: `L0`, `L1`, ..., `Llast`.
    pub fn label(&self) -> String {
        level_label(self.number)
    }
}

/// The name of a level.
pub fn level_label(number: u8) -> String {
    if number == LevelIndex::LAST.get() { "Llast".to_owned() } else { format!("L{number}") }
}

/// Key and value bytes that users put.
pub fn user_bytes(store: &Store, keyspace: &KeyspaceState) -> u64 {
    let earlier = keyspace.jobs.traffic.earlier_put_bytes();
    let Some(writing) = &store.writing else { return earlier };
    let mut state = writing.commit.lock();
    earlier + state.active(keyspace.id).map_or(0, |active| active.user_bytes)
}

/// The amplification of a keyspace with `put_bytes` of user writes.
pub fn amplification(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &SuperVersion,
    put_bytes: u64,
) -> Amplification {
    let options = keyspace.options();
    let book = keyspace.jobs.traffic.book();
    let rates = FilterRates::of(&view.tree, options.filter);
    let mut levels: Vec<LevelIndex> = view.tree.version.levels().iter().map(|level| level.index).collect();
    levels.extend(book.levels());
    levels.sort_unstable();
    levels.dedup();
    let level = |index: LevelIndex| {
        let (present, moved) = (view.tree.version.level(index), book.level(index));
        let seen = view.tree.watch.level(index);
        LevelAmplification {
            number: index.get(),
            written_bytes: moved.written_bytes,
            read_bytes: moved.read_bytes,
            table_bytes: present.map_or(0, Level::bytes),
            runs: present.map_or(0, |level| level.runs().len()),
            expected_misses: rates.of_level(index),
            probed: seen.probed,
            searched: seen.searched,
            found: seen.found,
        }
    };
    let levels_with_tables = view.tree.version.levels().iter().filter(|level| !level.runs().is_empty());
    let of_strategy = shape::strategy_options(store, &options);
    let mut reads = view.tree.watch.seen(&rates);
    reads.memtables = view.memtables().count();
    reads.runs = view.tree.runs.len();
    reads.worst_case = options.strategy.worst_case_reads(levels_with_tables.count() as u64, &of_strategy);
    Amplification {
        put_bytes,
        ingested_bytes: book.ingested_bytes(),
        levels: levels.into_iter().map(level).collect(),
        reads,
        space: space::estimate(&view.tree.version, book.overwritten_share()),
        causes: book.into_causes(),
    }
}
