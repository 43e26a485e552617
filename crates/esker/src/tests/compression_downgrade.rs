//! Compression of flushes and merges while writers are about to wait.

use crate::options::PerLevel;
use crate::{Database, KeyspaceOptions, Options};
use esker_build::compression_downgrade::{Effort, WrittenBy};
use esker_codec::{AdaptiveOptions, Codec};
use esker_engine::background::flush;
use esker_engine::write::write_control;
use esker_env::fault::StrictFs;
use esker_env::{Env, HostPressure, ManualPressure};
use std::sync::Arc;

fn open(options: KeyspaceOptions) -> Database {
    open_in(Env::simulated(Arc::new(StrictFs::new()), 1), options)
}

fn open_in(env: Env, options: KeyspaceOptions) -> Database {
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

/// Processors that are short make flushes faster; a device or memory that is short makes merges denser, for
/// as long as it is, and only with an adaptive codec.
#[test]
fn pressure_on_the_machine_moves_the_mode_both_ways() {
    let pressure = Arc::new(ManualPressure::default());
    let env = Env { pressure: pressure.clone(), ..Env::simulated(Arc::new(StrictFs::new()), 1) };
    let db = open_in(env, KeyspaceOptions::default().strategy("none".parse().unwrap()));
    let keyspace = db.default_keyspace();
    let set = |cpu_permille, io_permille, memory_permille| {
        pressure.set(HostPressure { cpu_permille, io_permille, memory_permille });
    };
    let flushed = |cpu| {
        set(cpu, 1_000, 1_000);
        flush(&db, 1)
    };
    assert_eq!([0, 900, 700, 500].map(flushed), ["zstd:9", "lz4", "lz4", "zstd:9"]);
    let merged = |io, memory| {
        set(0, io, memory);
        // Overwritten in one part, so that the merge is not a move.
        keyspace.put(b"key", [io as u8; 100]).unwrap();
        db.compact_all().unwrap();
        let tree = Arc::clone(&keyspace.state().view.load().tree);
        let table = tree.runs[0].parts[0].file.open(esker_view::tree::Access::Use).unwrap();
        table.properties().codec.clone()
    };
    assert_eq!(merged(900, 0), "lzma:1", "the level that the user chose");
    let adaptive = Codec::Adaptive(AdaptiveOptions::DEFAULT);
    keyspace.update_options(|options| options.compression(PerLevel::split(adaptive, adaptive))).unwrap();
    let codecs = [(0, 0), (900, 0), (700, 0), (0, 0), (0, 900)].map(|(io, memory)| merged(io, memory));
    let ratio = "adaptive:mode=ratio";
    assert_eq!(codecs, ["adaptive", ratio, ratio, "adaptive", ratio]);
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
    let effort = || {
        let modes = &keyspace.tuning.compression_downgrade;
        modes.effort(&keyspace.options(), WrittenBy::Merge, || write_control::load(store, &keyspace))
    };
    assert_eq!(effort(), Effort::Faster);
    db.compact_all().unwrap();
    let tree = Arc::clone(&keyspace.view.load().tree);
    assert_eq!(tree.runs.len(), 1);
    let table = tree.runs[0].parts[0].file.open(esker_view::tree::Access::Use).unwrap();
    assert_eq!(table.properties().codec, "lzma:1");
    assert_eq!(effort(), Effort::Configured, "nothing waits any more");
    drop((table, tree));
    db.close().unwrap();
}
