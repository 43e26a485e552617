//! Compression of flushes and merges while writers are about to wait.

use crate::options::PerLevel;
use crate::{Database, KeyspaceOptions, Options};
use esker_codec::Codec;
use esker_engine::background::flush;
use esker_engine::write::write_control;
use esker_env::Env;
use esker_env::fault::StrictFs;
use std::sync::Arc;

fn open(options: KeyspaceOptions) -> Database {
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let strong = PerLevel::split(Codec::Zstd { level: 9 }, Codec::Lzma { level: 1 });
    let options = options.compression(strong);
    Database::open_with("/db", Options::default().memory_budget(64 << 20).keyspace_options(options).env(env))
        .unwrap()
}

/// Seals this many memtables, flushes them together, and returns the configured codec of the newest table.
fn flush(db: &Database, memtables: usize) -> String {
    let (store, keyspace) = (db.store(), Arc::clone(db.default_keyspace().state()));
    // A put may run a background step, which flushes sealed memtables.
    while keyspace.view.load().sealed.len() < memtables {
        db.default_keyspace().put(b"key", [5; 100]).unwrap();
        flush::seal_if_filled(store, &keyspace).unwrap();
    }
    flush::flush_sealed(store, &keyspace).unwrap();
    let tree = Arc::clone(&keyspace.view.load().tree);
    let table = tree.runs[0].parts[0].file.open(esker_view::tree::Access::Use).unwrap();
    table.properties().codec.clone()
}

/// EC1 and EC2: three queued memtables are the maximum, one is well below.
#[test]
fn flushes_are_downgraded_while_memtables_queue_up() {
    let none = KeyspaceOptions::default().strategy("none".parse().unwrap());
    let db = open(none.clone());
    let codecs = [1, 3, 3, 1, 1].map(|memtables| flush(&db, memtables));
    assert_eq!(codecs, ["zstd:9", "lz4", "lz4", "zstd:9", "zstd:9"]);
    db.close().unwrap();
    let db = open(none.compression_under_pressure(false));
    assert_eq!([1, 3, 3].map(|memtables| flush(&db, memtables)), ["zstd:9"; 3]);
    db.close().unwrap();
}

/// EC3, and the third queue: merges are downgraded while level 0 is nearly full, but not those into the last
/// level.
#[test]
fn merges_into_the_last_level_are_not_downgraded() {
    // Merged at a hundred runs, a number that is never reached.
    let options = KeyspaceOptions::default().strategy("leveled:10".parse().unwrap()).level0_trigger_runs(100);
    let db = open(options.level0_stop_runs(5));
    let codecs = [1; 6].map(|memtables| flush(&db, memtables));
    assert_eq!(
        codecs,
        ["lzma:1", "zstd:9", "zstd:9", "zstd:9", "zstd:9", "lz4"],
        "the first goes to the last level; when the last began there were four runs of five"
    );
    let (store, keyspace) = (db.store(), Arc::clone(db.default_keyspace().state()));
    assert!(
        keyspace
            .tuning
            .compression_downgrade
            .downgrades(&keyspace.options(), || write_control::fullest_queue_permille(store, &keyspace))
    );
    db.compact_all().unwrap();
    let tree = Arc::clone(&keyspace.view.load().tree);
    assert_eq!(tree.runs.len(), 1);
    let table = tree.runs[0].parts[0].file.open(esker_view::tree::Access::Use).unwrap();
    assert_eq!(table.properties().codec, "lzma:1");
    assert!(
        !keyspace
            .tuning
            .compression_downgrade
            .downgrades(&keyspace.options(), || write_control::fullest_queue_permille(store, &keyspace)),
        "nothing waits any more"
    );
    drop((table, tree));
    db.close().unwrap();
}
