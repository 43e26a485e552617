//! A thousand keyspaces: the cost of idle ones, and of a trickle of writes to all of them.

mod common;

use common::key;
use esker::parts::env::Env;
use esker::parts::env::fault::{StrictFs, StrictOptions};
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
