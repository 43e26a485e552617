//! What readers have in the cache is there after a merge, too.

mod common;

use common::{TestDir, key};
use esker::options::{Codec, PerLevel, ReadMode, Strategy};
use esker::parts::cache::{BlockKind, CacheStats};
use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, When};
use esker::parts::env::{Env, FileSystem, StdFileSystem};
use esker::{Database, KeyspaceOptions, Options};
use std::sync::Arc;

const KEYS: u64 = 60_000;

/// A database of some tables, merged when it is asked to, over a file system that may be told to fail,
/// settled.
fn database(dir: &TestDir) -> (Database, Arc<FaultFs>) {
    let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
    let db = database_over(dir, Arc::<FaultFs>::clone(&faults), Codec::Lz4, ReadMode::Positioned);
    (db, faults)
}

/// The same over any file system, with what comes to rest compressed, and files read, in a certain way.
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

/// Bytes that no codec makes shorter.
fn value(number: u64) -> Vec<u8> {
    (0..13)
        .flat_map(|at| (number * 13 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes())
        .collect()
}

/// Does what the pools want to do.
fn settle(db: &Database) {
    while db.step_background() {}
}

fn cache(db: &Database) -> CacheStats {
    db.metrics().cache
}

/// Reads so much of the data; how many blocks were read from files.
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
fn what_was_in_the_cache_is_there_after_a_merge() {
    let dir = TestDir::new("handing-over");
    let (db, _) = database(&dir);
    let blocks = read(&db, 0..KEYS);
    assert!(blocks > 1_000, "{blocks}");
    overwrite(&db);
    let handed_before = cache(&db).warm_inserts;
    let hits = cache(&db)[BlockKind::Data].hits;
    db.compact_all().expect("compaction");
    settle(&db);
    assert_eq!(cache(&db)[BlockKind::Data].hits, hits, "nobody has asked for anything");
    let warm_inserts = cache(&db).warm_inserts - handed_before;
    assert!(warm_inserts >= blocks * 95 / 100, "{warm_inserts} of {blocks}");
    let opened = db.metrics().open_tables.opened;
    let misses = read(&db, 0..KEYS);
    assert!(misses * 5 < blocks, "{misses} of {blocks} blocks were read again");
    assert_eq!(db.metrics().open_tables.opened, opened, "the merge has opened its tables");
    let stats = cache(&db);
    let resident = stats.entries as u64;
    assert!(resident <= blocks + blocks / 10, "{resident} are there, the inputs' among them: {blocks}");
}

/// Flushes, too, of what is read as well as written, and of nothing else.
#[test]
fn what_is_flushed_is_in_the_cache_if_it_is_read() {
    let dir = TestDir::new("handing-over");
    let (db, _) = database(&dir);
    overwrite(&db);
    assert_eq!(cache(&db).warm_inserts, 0, "nobody reads");
    // A look at a key now and then is none.
    read(&db, 0..KEYS / 200);
    overwrite(&db);
    assert_eq!(cache(&db).warm_inserts, 0, "few read");
    read(&db, 0..KEYS);
    overwrite(&db);
    let warm_inserts = cache(&db).warm_inserts;
    assert!(warm_inserts > 80, "{warm_inserts} blocks");
    assert_eq!(read(&db, 0..KEYS), 0, "a flush has brought in what hides the blocks before");
}

/// Blocks that are read where they lie in a mapped file would fill the cache without use.
#[test]
fn what_is_read_in_place_stays_out() {
    let dir = TestDir::new("handing-over");
    let db = database_over(&dir, Arc::new(StdFileSystem), Codec::None, ReadMode::Mapped);
    for _ in 0..2 {
        read(&db, 0..KEYS);
        overwrite(&db);
    }
    db.compact_all().expect("compaction");
    settle(&db);
    assert_eq!(read(&db, 0..KEYS), 0, "everything is there where it lies");
    let stats = cache(&db);
    assert_eq!((stats.warm_inserts, stats[BlockKind::Data].inserts), (0, 0), "{stats:?}");
}

/// Of a database of which a part is read the rest stays out.
#[test]
fn what_nobody_reads_is_not_brought_in() {
    let dir = TestDir::new("handing-over");
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

/// HO10, whichever call the merge fails at.
#[test]
fn a_merge_that_fails_leaves_nothing_in_the_cache() {
    let dir = TestDir::new("handing-over");
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
        assert!(after.warm_inserts > warm_inserts, "it had begun");
        assert_eq!((after.entries, after.used_bytes), (before.entries, before.used_bytes));
    }
    assert_eq!(read(&db, 0..KEYS), 0);
}
