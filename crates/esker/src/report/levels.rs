//! Levels: the shape of the tree of every keyspace.

use crate::Database;
use esker_base::FileNumber;
use esker_engine::amplification;
use esker_engine::amplification::{Amplification, level_label};
use esker_engine::background::migration;
use esker_engine::background::migration::MigrationInfo;
use esker_engine::background::picker;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_strategy::LevelLimit;
use esker_version::{Level, LevelIndex, LiveBlob, PartMeta, Run};
use std::sync::Arc;

impl Database {
    /// The shape of the tree of every keyspace.
    #[doc(alias = "GetLiveFilesMetaData")]
    #[doc(alias = "GetColumnFamilyMetaData")]
    #[doc(alias = "SSTables")]
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        levels(&self.handle().store)
    }
}

/// The tree of a keyspace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceLevels {
    /// Name of the keyspace.
    pub name: String,
    /// The compaction strategy.
    pub strategy: String,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Levels that hold tables, newest data first.
    pub levels: Vec<LevelInfo>,
    /// Blob files, oldest first.
    pub blob_files: Vec<BlobFileInfo>,
    /// The migration to the form of a new strategy; `None` if there is none.
    pub migration: Option<MigrationInfo>,
    /// The amplification.
    pub amplification: Amplification,
}

/// A blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileInfo {
    /// Number of the file: `tables/NNNNNN.blob`.
    pub file: FileNumber,
    /// Bytes.
    pub bytes: u64,
    /// Values in it.
    pub values: u64,
    /// Bytes that no table points to.
    pub garbage_bytes: u64,
}

/// A level of a tree.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LevelInfo {
    /// Its number; the last level is always 63.
    pub number: u8,
    /// Its runs, newest first.
    pub runs: Vec<RunInfo>,
    /// How many runs and bytes it holds before the strategy compacts it.
    pub limit: LevelLimit,
    /// Statistics of the filters of tables made for this level, over the database's life.
    pub filters: FilterInfo,
}

impl LevelInfo {
    /// The usual label: `L0`, `L1`, ..., `Llast`.
    pub fn label(&self) -> String {
        level_label(self.number)
    }
}

/// Statistics of the filters of a level. Lookups of keys that a table does not hold are counted, one in 64 of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FilterInfo {
    /// Probes with such keys.
    pub probes: u64,
    /// False positives: probes that passed, so that a block was searched for nothing.
    pub false_positives: u64,
    /// The expected number of these.
    pub expected_false_positives: f64,
    /// The target with [`FilterAllocation::Dynamic`](esker_filter::FilterAllocation::Dynamic).
    pub tuning: Option<FilterTuningInfo>,
}

/// Target and choice of a level with tuned filters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterTuningInfo {
    /// The target rate of false positives.
    pub target_rate: f64,
    /// Bits a key of new tables.
    pub bits_per_key: f64,
    /// Their expected rate.
    pub expected_rate: f64,
    /// Whether the bounds of the bits allow the target.
    pub is_in_reach: bool,
}

/// A run: tables with disjoint key ranges, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its tables.
    pub tables: Vec<TableInfo>,
}

/// A table, or a slice of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "SstFileMetaData")]
#[doc(alias = "LiveFileMetaData")]
pub struct TableInfo {
    /// Number of the file: `tables/NNNNNN.sst`.
    pub file: FileNumber,
    /// Bytes.
    pub bytes: u64,
    /// Entries, superseded versions and tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Range tombstones; one that overlaps others counts several times.
    pub range_deletes: u64,
    /// First key.
    pub smallest: Vec<u8>,
    /// Last key, or the border where its range tombstones end; empty if they have no end.
    pub largest: Vec<u8>,
}

fn levels(store: &Store) -> Vec<KeyspaceLevels> {
    let of = |keyspace: &Arc<KeyspaceState>| KeyspaceLevels {
        migration: migration::migration(store, keyspace),
        amplification: amplification::amplification(
            store,
            keyspace,
            &keyspace.view.load(),
            amplification::user_bytes(store, keyspace),
        ),
        ..levels_of(store, keyspace)
    };
    store.all_keyspaces().iter().map(of).collect()
}

fn levels_of(store: &Store, keyspace: &KeyspaceState) -> KeyspaceLevels {
    let (view, options) = (keyspace.view.load(), keyspace.options());
    let watch = store.files.watch_of(keyspace.id);
    let limits = picker::level_limits(store, keyspace, &view);
    let limit_of = |level| limits.iter().find(|(index, _)| *index == level).map(|(_, limit)| *limit);
    let table = |part: &Arc<PartMeta>| TableInfo {
        file: part.file,
        bytes: part.bytes,
        entries: part.entries,
        tombstones: part.tombstones,
        range_deletes: part.range_tombstones,
        smallest: part.smallest().to_vec(),
        largest: part.largest().to_vec(),
    };
    let run = |run: &Arc<Run>| RunInfo { tables: run.parts().iter().map(table).collect() };
    let filters_of = |level: LevelIndex| {
        let seen = watch.observed(level.get());
        let tuning = keyspace.tuning.filters.present(&options, &view.tree.version, level);
        FilterInfo {
            probes: seen.probes,
            false_positives: seen.false_positives,
            expected_false_positives: seen.expected_false_positives,
            tuning: tuning.map(|(target_rate, tuned)| FilterTuningInfo {
                target_rate,
                bits_per_key: tuned.bits,
                expected_rate: tuned.rate,
                is_in_reach: tuned.is_in_reach,
            }),
        }
    };
    let level = |level: &Level| LevelInfo {
        number: level.index.get(),
        runs: level.runs().iter().map(run).collect(),
        limit: limit_of(level.index).unwrap_or_default(),
        filters: filters_of(level.index),
    };
    let blob_file = |blob: &LiveBlob| BlobFileInfo {
        file: blob.meta.number,
        bytes: blob.meta.file_bytes,
        values: blob.meta.records,
        garbage_bytes: blob.garbage_bytes(),
    };
    KeyspaceLevels {
        name: keyspace.name().to_string(),
        strategy: options.strategy.to_string(),
        memtable_entries: view.memtables().map(|view| view.memtable.len()).sum(),
        levels: view.tree.version.levels().iter().map(level).collect(),
        blob_files: view.tree.version.blob_files().iter().map(blob_file).collect(),
        migration: None,
        amplification: Amplification::default(),
    }
}
