//! The trees of keyspaces as JSON, with their promises.

use super::amplification::amplification;
use super::{hex, milliseconds};
use esker::metrics::{BlobFileInfo, KeyspaceLevels, KeyspaceTargets, LevelInfo, MigrationInfo, TableInfo};
use serde_json::{Value, json};

/// A tree: its levels, runs and tables.
pub fn tree(tree: &KeyspaceLevels) -> Value {
    let table = |table: &TableInfo| {
        let mut object = json!({
            "file": table.file.get(),
            "bytes": table.bytes,
            "entries": table.entries,
            "tombstones": table.tombstones,
            "range_deletes": table.range_deletes,
        });
        // As bytes in any case: the bounds of a part need not be keys that were ever written.
        for (name, bytes) in [("smallest", &table.smallest), ("largest", &table.largest)] {
            object[format!("{name}_hex")] = hex(bytes).into();
        }
        object
    };
    let level = |level: &LevelInfo| {
        let runs: Vec<Vec<Value>> =
            level.runs.iter().map(|run| run.tables.iter().map(table).collect()).collect();
        let filters = &level.filters;
        let tuning = filters.tuning.map(|tuning| {
            json!({
                "target_rate": tuning.target_rate,
                "bits_per_key": tuning.bits_per_key,
                "expected_rate": tuning.expected_rate,
                "is_in_reach": tuning.is_in_reach,
            })
        });
        json!({
            "level": level.number,
            "label": level.label(),
            "bytes": level_bytes(level),
            "max_bytes": level.limit.bytes,
            "max_runs": level.limit.runs,
            "runs": runs,
            "filter_probes": filters.probes,
            "filter_false_positives": filters.false_positives,
            "filter_expected_false_positives": filters.expected_false_positives,
            "filter_tuning": tuning,
        })
    };
    let blob = |blob: &BlobFileInfo| {
        json!({
            "file": blob.file.get(),
            "bytes": blob.bytes,
            "values": blob.values,
            "garbage_bytes": blob.garbage_bytes,
        })
    };
    json!({
        "keyspace": tree.name,
        "strategy": tree.strategy,
        "migration": tree.migration.as_ref().map(migration),
        "memtable_entries": tree.memtable_entries,
        "levels": tree.levels.iter().map(level).collect::<Vec<_>>(),
        "blob_files": tree.blob_files.iter().map(blob).collect::<Vec<_>>(),
        "amplification": amplification(&tree.amplification),
    })
}

fn level_bytes(level: &LevelInfo) -> u64 {
    level.runs.iter().flat_map(|run| &run.tables).map(|table| table.bytes).sum()
}

/// A migration to the form of another strategy.
pub fn migration(migration: &MigrationInfo) -> Value {
    json!({
        "from": migration.from.to_string(),
        "bytes_at_switch": migration.bytes_at_switch,
        "bytes_left": migration.bytes_left,
        "paused": migration.is_paused,
    })
}

/// The promises of a keyspace, and whether they are kept.
pub fn targets(targets: &KeyspaceTargets) -> Value {
    let space = targets.space.as_ref().map(|space| {
        json!({
            "target": space.target,
            "taken": space.taken(),
            "live_bytes": space.live_bytes,
            "table_bytes": space.table_bytes,
            "blob_bytes": space.blob_bytes,
            "running_bytes": space.running_bytes,
            "held_bytes": space.held_bytes,
            "state": space.state.to_string(),
        })
    });
    let deletes = targets.deletes.as_ref().map(|deletes| {
        json!({
            "within_ms": milliseconds(deletes.within),
            "oldest_ms": deletes.oldest.map(milliseconds),
            "held_by_snapshot_ms": deletes.held_by_snapshot.map(milliseconds),
            "state": deletes.state.to_string(),
            "shortfall": deletes.shortfall.as_ref().map(ToString::to_string),
        })
    });
    json!({ "space": space, "deletes": deletes })
}
