//! Cache warming: blocks that readers have in the cache are there after a flush or compaction, too.

mod common;

use common::{TestDir, key};
use esker::options::{Codec, PerLevel, ReadMode, Strategy};
use esker::parts::StepBackground;
use esker::parts::cache::{BlockKind, CacheStats};
use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, When};
use esker::parts::env::{Env, FileSystem, StdFileSystem};
use esker::{Database, KeyspaceOptions, Options};
use std::sync::Arc;

const KEYS: u64 = 60_000;

/// A database of some tables, compacted on request only, over a file system that can be told to fail.
fn database(dir: &TestDir) -> (Database, Arc<FaultFs>) {
    let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
    let db = database_over(dir, Arc::<FaultFs>::clone(&faults), Codec::Lz4, ReadMode::Positioned);
    (db, faults)
}

/// The same over any file system, with a codec for the last level and a read mode.
fn database_over(dir: &TestDir, fs: Arc<dyn FileSystem>, codec: Codec, reads: ReadMode) -> Database {
    let keyspace = KeyspaceOptions::default().table_size(1 << 20).strategy(Strategy::None);
    let keyspace = keyspace.compression(PerLevel::split(Codec::None, codec));
    let options = Options::default().env(Env::simulated(fs, 3)).memory_budget(64 << 20).table_reads(reads);
    let db = Database::open_with(dir.path(), options.keyspace_options(keyspace)).expect("opening");
    for number in 0..KEYS {
        db.default_keyspace().put(key(number), value(number)).expect("a put");
    }
    db.compact_all().expect("compaction");
    settle(&db);
    db
}

/// Incompressible bytes.
fn value(number: u64) -> Vec<u8> {
    (0..13)
        .flat_map(|at| (number * 13 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes())
        .collect()
}

/// Runs all pending background work.
fn settle(db: &Database) {
    while db.step_background() {}
}

fn cache(db: &Database) -> CacheStats {
    db.metrics().cache
}

/// Reads these keys; returns how many blocks were read from files.
fn read(db: &Database, numbers: std::ops::Range<u64>) -> u64 {
    let before = cache(db)[BlockKind::Data].misses;
    for number in numbers {
        assert!(db.default_keyspace().get(key(number)).expect("a get").is_some());
    }
    cache(db)[BlockKind::Data].misses - before
}

/// Every twentieth record is written anew, and lies in a table of its own.
fn overwrite(db: &Database) {
    (0..KEYS)
        .step_by(20)
        .for_each(|number| db.default_keyspace().put(key(number), value(!number >> 8)).expect("a put"));
    db.flush().expect("a flush");
    settle(db);
}

#[test]
fn a_compaction_warms_the_cache() {
    let dir = TestDir::new("cache-warming");
    let (db, _) = database(&dir);
    let blocks = read(&db, 0..KEYS);
    assert!(blocks > 1_000, "{blocks}");
    overwrite(&db);
    let before = cache(&db).warm_inserts;
    let hits = cache(&db)[BlockKind::Data].hits;
    db.compact_all().expect("compaction");
    settle(&db);
    assert_eq!(cache(&db)[BlockKind::Data].hits, hits, "no read has happened");
    let warm_inserts = cache(&db).warm_inserts - before;
    assert!(warm_inserts >= blocks * 95 / 100, "{warm_inserts} of {blocks}");
    let opened = db.metrics().open_tables.opened;
    let misses = read(&db, 0..KEYS);
    assert!(misses * 5 < blocks, "{misses} of {blocks} blocks were read again");
    assert_eq!(db.metrics().open_tables.opened, opened, "the merge opened its outputs");
    let stats = cache(&db);
    let resident = stats.entries as u64;
    assert!(resident <= blocks + blocks / 10, "{resident} blocks, those of the inputs included: {blocks}");
}

/// Flushes warm the cache for keys that are read as well as written, and for no others.
#[test]
fn a_flush_warms_the_cache_for_keys_that_are_read() {
    let dir = TestDir::new("cache-warming");
    let (db, _) = database(&dir);
    overwrite(&db);
    assert_eq!(cache(&db).warm_inserts, 0, "no reads");
    // An occasional get does not count as reading.
    read(&db, 0..KEYS / 200);
    overwrite(&db);
    assert_eq!(cache(&db).warm_inserts, 0, "few reads");
    read(&db, 0..KEYS);
    overwrite(&db);
    let warm_inserts = cache(&db).warm_inserts;
    assert!(warm_inserts > 80, "{warm_inserts} blocks");
    assert_eq!(read(&db, 0..KEYS), 0, "the flush inserted all new blocks");
}

/// Blocks that are read in place in a mapped file are not cached.
#[test]
fn blocks_read_in_place_are_not_cached() {
    let dir = TestDir::new("cache-warming");
    let db = database_over(&dir, Arc::new(StdFileSystem), Codec::None, ReadMode::Mapped);
    for _ in 0..2 {
        read(&db, 0..KEYS);
        overwrite(&db);
    }
    db.compact_all().expect("compaction");
    settle(&db);
    assert_eq!(read(&db, 0..KEYS), 0, "everything is read in place");
    let stats = cache(&db);
    assert_eq!((stats.warm_inserts, stats[BlockKind::Data].inserts), (0, 0), "{stats:?}");
}

/// If only a part of the database is read, the rest stays out of the cache.
#[test]
fn blocks_that_are_not_read_are_not_cached() {
    let dir = TestDir::new("cache-warming");
    let (db, _) = database(&dir);
    overwrite(&db);
    let blocks = read(&db, 0..KEYS / 10);
    db.compact_all().expect("compaction");
    settle(&db);
    let stats = cache(&db);
    assert!(stats.entries as u64 <= blocks * 11 / 10, "{blocks} were there, {} are", stats.entries);
    let misses = read(&db, 0..KEYS / 10);
    assert!(misses * 5 < blocks, "{misses} of {blocks} blocks were read again");
}

/// HO10, at whichever call the merge fails.
#[test]
fn a_failed_merge_leaves_nothing_in_the_cache() {
    let dir = TestDir::new("cache-warming");
    let (db, faults) = database(&dir);
    overwrite(&db);
    read(&db, 0..KEYS);
    let before = cache(&db);
    let at_tables = |nth: u64| Rule::new(Fault::Io, When::Nth(nth)).on(Operation::SyncData).path("tables");
    let at_install = Rule::new(Fault::Io, When::Nth(1)).on(Operation::Write).path("MANIFEST");
    for rule in [at_tables(1), at_tables(2), at_install] {
        let warm_inserts = cache(&db).warm_inserts;
        faults.add(rule);
        db.compact_all().expect_err("a call failed");
        faults.heal();
        settle(&db);
        let after = cache(&db);
        assert!(after.warm_inserts > warm_inserts, "warming had begun");
        assert_eq!((after.entries, after.used_bytes), (before.entries, before.used_bytes));
    }
    assert_eq!(read(&db, 0..KEYS), 0);
}
