//! A thousand keyspaces: the cost of idle ones, and of a trickle of writes to all of them.

mod common;

use common::key;
use esker::parts::env::Env;
use esker::parts::env::FileSystem;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, StrictOptions, When};
use esker::{Database, Keyspace, Options};
use std::sync::Arc;

const KEYSPACES: usize = 1_000;
/// Memory that an idle keyspace may take.
const IDLE_BYTES: u64 = 64 << 10;
/// Of the smallest budget, 8 MiB, memtables may take a quarter, and the log half as much again.
const MEMTABLES_BYTES: u64 = 2 << 20;
const LOG_BYTES: u64 = 3 << 20;
const SEGMENT_BYTES: u64 = 256 << 10;

fn open(fs: &StrictFs, budget: u64) -> Database {
    let env = Env::simulated(Arc::new(fs.clone()), 5);
    Database::open_with("/db", Options::default().env(env).memory_budget(budget)).expect("opening")
}

fn file_system() -> StrictFs {
    StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() })
}

fn create(db: &Database) -> Vec<Keyspace> {
    (0..KEYSPACES).map(|number| db.keyspace(&format!("space {number}")).expect("creating")).collect()
}

fn flushes(db: &Database) -> u64 {
    db.metrics().keyspaces.iter().map(|keyspace| keyspace.flushes).sum()
}

#[test]
fn an_idle_keyspace_takes_little_memory() {
    let fs = file_system();
    let db = open(&fs, 256 << 20);
    // Recycled memory, which nearly empty keyspaces must not keep.
    for number in 0..20_000 {
        db.default_keyspace().put(key(number), [7; 200]).unwrap();
    }
    db.flush().unwrap();
    let before = db.metrics().memory.memtable_bytes;
    let keyspaces = create(&db);
    let created = db.metrics().memory.memtable_bytes - before;
    assert!(created < KEYSPACES as u64 * 1024, "{created} bytes before the first write");
    keyspaces.iter().for_each(|keyspace| keyspace.put(b"k", b"v").unwrap());
    let written = db.metrics().memory.memtable_bytes - before;
    assert!(written < KEYSPACES as u64 * 4096, "{written} bytes with an entry in each");
    db.flush().unwrap();
    let idle = db.metrics().memory.memtable_bytes.saturating_sub(before);
    assert!(idle < KEYSPACES as u64 * IDLE_BYTES, "{idle} bytes after a flush");
    db.close().unwrap();
    let db = open(&fs, 256 << 20);
    let opened = db.metrics().memory;
    assert!(opened.memtable_bytes + opened.table_metadata_bytes < KEYSPACES as u64 * 1024, "{opened:?}");
    assert_eq!(keyspaces.len() + 1, db.keyspaces().len());
    assert_eq!(db.open_keyspace("space 999").unwrap().get(b"k").unwrap().as_deref(), Some(b"v".as_slice()));
}

/// Memory that a busy keyspace could reuse must not stay in memtables of a few entries.
#[test]
fn small_memtables_do_not_keep_recycled_memory() {
    let db = open(&file_system(), 16 << 20);
    let keyspaces = create(&db);
    for (number, keyspace) in keyspaces[..100].iter().enumerate() {
        // Returns a filled arena to the pool, then a first write elsewhere takes one.
        for entry in 0..200 {
            db.default_keyspace().put(key(entry), [number as u8; 4_000]).unwrap();
        }
        db.default_keyspace().flush().unwrap();
        keyspace.put(b"k", b"v").unwrap();
    }
    let held = db.metrics().memory.memtable_bytes;
    assert!(held < 16 << 20, "{held} bytes, more than the whole budget, with 100 entries in memtables");
}

#[test]
fn a_trickle_to_many_keyspaces_makes_no_tables() {
    let db = open(&file_system(), 64 << 20);
    let keyspaces = create(&db);
    for round in 0..20 {
        keyspaces.iter().for_each(|keyspace| keyspace.put(key(round), [1; 100]).unwrap());
    }
    assert_eq!(flushes(&db), 0);
}

/// Beside a busy keyspace, each rarely written one is flushed at most once per log capacity.
#[test]
fn a_trickle_beside_a_busy_keyspace_makes_few_tables() {
    let db = open(&file_system(), 8 << 20);
    let keyspaces = create(&db);
    let mut written = 0;
    for number in 0..15_000u64 {
        db.default_keyspace().put(key(number), [7; 200]).unwrap();
        keyspaces[number as usize % KEYSPACES].put(b"k", [1; 20]).unwrap();
        // Record headers and lengths included, rounded up.
        written += 320;
    }
    let most = written / LOG_BYTES + 1;
    let metrics = db.metrics();
    for keyspace in metrics.keyspaces.iter().filter(|keyspace| keyspace.name != "default") {
        assert!(keyspace.flushes <= most, "{} of {}, {most} expected", keyspace.flushes, keyspace.name);
    }
}

/// The active memtables of all keyspaces together stay within the memtable budget plus one log segment.
#[test]
fn active_memtables_of_many_keyspaces_stay_within_the_budget() {
    let db = open(&file_system(), 8 << 20);
    let keyspaces = create(&db);
    let mut most = 0;
    for number in 0..30_000u64 {
        keyspaces[number as usize % KEYSPACES].put(key(number), [7; 200]).unwrap();
        if number % 250 == 0 {
            let entries: u64 = db.metrics().keyspaces.iter().map(|keyspace| keyspace.memtable_entries).sum();
            most = most.max(entries * 211);
        }
    }
    assert!(most < MEMTABLES_BYTES + 2 * SEGMENT_BYTES, "{most} bytes in memtables");
    assert!(most > MEMTABLES_BYTES / 2, "{most} bytes in memtables: sealed too early");
}

/// A file system that counts syncs, with a database of so many keyspaces that have an entry each.
fn with_an_entry_each(keyspaces: usize) -> (FaultFs, StrictFs, Database) {
    let strict = file_system();
    let faults = FaultFs::over_strict(strict.clone());
    let env = Env::simulated(Arc::new(faults.clone()), 5);
    let db = Database::open_with("/db", Options::default().env(env)).expect("opening");
    for number in 0..keyspaces {
        let keyspace = db.keyspace(&format!("space {number}")).expect("creating");
        keyspace.put(b"k", number.to_string()).expect("putting");
    }
    (faults, strict, db)
}

/// Calls that wait for the device.
fn syncs(faults: &FaultFs) -> u64 {
    Operation::ALL.into_iter().filter(|operation| operation.is_sync()).map(|sync| faults.calls(sync)).sum()
}

fn check_an_entry_each(strict: &StrictFs, keyspaces: usize) {
    let db = open(strict, 64 << 20);
    for number in 0..keyspaces {
        let keyspace = db.open_keyspace(&format!("space {number}")).expect("it was created");
        let found = keyspace.get(b"k").expect("reading");
        assert_eq!(found.as_deref(), Some(number.to_string().as_bytes()));
    }
}

/// Flushed or closed, all keyspaces share one sync of their tables, one record of the manifest, and its sync.
#[test]
fn the_syncs_of_a_flush_and_of_a_close_do_not_grow_with_the_keyspaces() {
    let costs = |keyspaces: usize, end: fn(&Database)| {
        let (faults, strict, db) = with_an_entry_each(keyspaces);
        let (before, shared) = (syncs(&faults), faults.calls(Operation::SyncShared));
        end(&db);
        assert_eq!(faults.calls(Operation::SyncShared) - shared, 1);
        let cost = syncs(&faults) - before;
        drop(db);
        check_an_entry_each(&strict.crash(Crash::PowerAllLost), keyspaces);
        cost
    };
    for end in [|db: &Database| db.flush().unwrap(), |db: &Database| db.close().unwrap()] {
        let few = costs(20, end);
        assert_eq!(few, costs(300, end));
        assert!(few <= 6, "{few} syncs");
    }
}

/// A group of keyspaces whose shared sync failed is written anew: what the failed sync left is not trusted.
#[test]
fn keyspaces_are_flushed_one_by_one_after_a_failure_of_all() {
    for operation in [Operation::SyncShared, Operation::Create] {
        let (faults, strict, db) = with_an_entry_each(20);
        faults.add(Rule::new(Fault::LostSync, When::Nth(1)).on(operation).path("tables"));
        db.flush().unwrap();
        assert_eq!(faults.injected(), 1);
        check_an_entry_each(&strict.crash(Crash::PowerAllLost), 20);
        let tables: usize = db.metrics().keyspaces.iter().map(|keyspace| keyspace.tables).sum();
        db.drain().unwrap();
        let files = faults.list("/db/tables".as_ref()).unwrap();
        assert_eq!(files.len(), tables, "tables of the failed attempt were left behind");
    }
}

/// A full disk is not met once for each of a thousand keyspaces.
#[test]
fn a_flush_on_a_full_disk_gives_up_early() {
    let (faults, _, db) = with_an_entry_each(100);
    faults.add(Rule::new(Fault::Full, When::From(1)).on(Operation::Create).path("tables"));
    assert!(db.flush().is_err());
    assert!(faults.injected() <= 4, "{} attempts", faults.injected());
    faults.heal();
    db.flush().unwrap();
    assert_eq!(flushes(&db), 100);
}

/// What a batch wrote to two keyspaces is there as a whole, though one of them was flushed with others.
#[test]
fn a_batch_is_not_torn_by_a_flush_of_a_group() {
    let (_, strict, db) = with_an_entry_each(20);
    let [one, other] = [3, 7].map(|number| db.open_keyspace(&format!("space {number}")).unwrap());
    let mut batch = db.batch();
    batch.put(&one, b"both", b"1");
    batch.put(&other, b"both", b"1");
    db.write(&batch).unwrap();
    one.flush().unwrap();
    let after = open(&strict.crash(Crash::PowerAllLost), 64 << 20);
    for number in [3, 7] {
        let keyspace = after.open_keyspace(&format!("space {number}")).unwrap();
        assert_eq!(keyspace.get(b"both").unwrap().as_deref(), Some(b"1".as_slice()), "space {number}");
    }
}

/// A list of names costs one sync, also where some exist and some are named twice.
#[test]
fn many_keyspaces_are_created_by_one_sync() {
    let strict = file_system();
    let faults = FaultFs::over_strict(strict.clone());
    let env = Env::simulated(Arc::new(faults.clone()), 5);
    let db = Database::open_with("/db", Options::default().env(env)).unwrap();
    db.keyspace("7").unwrap();
    let names: Vec<String> = (0..300).chain([3, 299]).map(|number| number.to_string()).collect();
    let before = syncs(&faults);
    let created = db.create_keyspaces(&names).unwrap();
    assert_eq!(syncs(&faults) - before, 1);
    assert!(created.iter().zip(&names).all(|(keyspace, name)| *keyspace.name() == **name));
    assert_eq!((created[300].id(), created[301].id()), (created[3].id(), created[299].id()));
    assert_eq!(db.keyspaces().len(), 301);
    created[299].put(b"k", b"v").unwrap();
    let after = open(&strict.crash(Crash::PowerAllLost), 64 << 20);
    assert_eq!(after.keyspaces().len(), 301, "durable when the call returns");
    let before = syncs(&faults);
    db.create_keyspaces(&names).unwrap();
    assert_eq!(syncs(&faults), before, "all of them exist");
    assert!(db.create_keyspaces(&["new", ""]).is_err());
    assert!(db.open_keyspace("new").is_err(), "all or none");
}
