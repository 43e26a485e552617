//! Writes at [`Durability::None`]: no bytes of log, and in everything that is made of a database.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::backup::Backups;
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, StrictFs, StrictOptions};
use esker::{Database, Durability, Error, Keyspace, Options, SeqNo};
use std::sync::Arc;

fn put(keyspace: &Keyspace, numbers: std::ops::Range<u64>, durability: Durability) {
    for number in numbers {
        keyspace.put_with(key(number), value(number, 0), durability).unwrap();
    }
}

fn numbers(keyspace: &Keyspace) -> Vec<u64> {
    (0..1_000).filter(|&number| keyspace.get(key(number)).unwrap().is_some()).collect()
}

fn open(fs: &StrictFs) -> Database {
    let options = Options::default().env(Env::simulated(Arc::new(fs.clone()), 5));
    Database::open_with("/db", options.flush_on_close(false)).unwrap()
}

#[test]
fn they_leave_nothing_in_the_log_and_survive_a_close_and_a_sync() {
    let fs = StrictFs::with_options(StrictOptions::default());
    let db = open(&fs);
    db.sync().unwrap();
    put(db.default_keyspace(), 0..1, Durability::None);
    let before = fs.trace_len();
    put(db.default_keyspace(), 1..30, Durability::None);
    // Each record of the log is a change of a file; background steps make a few.
    assert!(fs.trace_len() < before + 10, "{} changes of files", fs.trace_len() - before);
    put(db.default_keyspace(), 50..51, Durability::Process);
    put(db.default_keyspace(), 30..50, Durability::None);
    put(db.default_keyspace(), 51..60, Durability::None);
    let found = |crash| numbers(open(&fs.crash(crash)).default_keyspace());
    assert_eq!(found(Crash::Process), [50], "what was logged, and nothing else without a flush");
    db.sync().unwrap();
    assert_eq!(found(Crash::PowerAllLost), (0..60).collect::<Vec<_>>());
    put(db.default_keyspace(), 60..70, Durability::None);
    db.close().unwrap();
    assert_eq!(found(Crash::PowerAllLost), (0..70).collect::<Vec<_>>());
}

#[test]
fn they_are_in_checkpoints_and_backups() {
    let (dir, copies) = (TestDir::new("unlogged"), TestDir::new("unlogged-copies"));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    put(db.default_keyspace(), 0..20, Durability::None);
    db.checkpoint(copies.path().join("checkpoint")).unwrap();
    let copy = Database::open(copies.path().join("checkpoint")).unwrap();
    assert_eq!(numbers(copy.default_keyspace()).len(), 20);
    let backups = Backups::new(copies.path().join("backups"));
    let id = db.backup(&backups).unwrap().id;
    backups.restore(id, copies.path().join("restored")).unwrap();
    let copy = Database::open(copies.path().join("restored")).unwrap();
    assert_eq!(numbers(copy.default_keyspace()).len(), 20);
}

#[test]
fn a_stream_from_before_them_is_told_that_they_are_gone() {
    let fs = StrictFs::new();
    let db = open(&fs);
    let keyspace = db.default_keyspace();
    put(keyspace, 0..5, Durability::Process);
    let before = db.snapshot().seqno();
    put(keyspace, 5..10, Durability::None);
    let behind = db.snapshot().seqno();
    put(keyspace, 10..15, Durability::Process);
    let gone = |seqno: SeqNo| matches!(db.changes_since(seqno), Err(Error::HistoryGone(_)));
    assert!(gone(before) && gone(SeqNo::ZERO));
    let mut changes = db.changes_since(behind).unwrap();
    // While there is a reader, every batch is logged.
    put(keyspace, 15..20, Durability::None);
    let count = std::iter::from_fn(|| changes.try_next().unwrap()).map(|batch| batch.len()).sum::<usize>();
    assert_eq!(count, 10);
    drop(changes);
    put(keyspace, 20..25, Durability::None);
    assert!(gone(behind));
    // A consumer keeps the log, and reads behind the numbers that were skipped also after a reopen.
    let consumer = db.create_consumer("audit").unwrap();
    put(keyspace, 25..30, Durability::None);
    drop(consumer);
    let db = open(&fs.crash(Crash::Process));
    assert_eq!(numbers(db.default_keyspace()), (0..30).collect::<Vec<_>>(), "flushed by the new consumer");
    let mut changes = db.consumer("audit").unwrap().changes().unwrap();
    let count = std::iter::from_fn(|| changes.try_next().unwrap()).map(|batch| batch.len()).sum::<usize>();
    assert_eq!(count, 5);
}

/// Filled log segments are what keeps the memtables of many keyspaces within their share, and unlogged
/// writes fill none.
#[test]
fn many_keyspaces_stay_within_the_share_of_memtables() {
    /// Of the smallest budget, 8 MiB, memtables may take a quarter, and two segments more.
    const MEMTABLES_BYTES: u64 = (2 << 20) + 2 * (256 << 10);
    let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let env = Env::simulated(Arc::new(fs), 5);
    let db = Database::open_with("/db", Options::default().env(env).memory_budget(8 << 20)).unwrap();
    let keyspaces: Vec<Keyspace> =
        (0..200).map(|number| db.keyspace(&format!("space {number}")).unwrap()).collect();
    for round in 0..60 {
        for keyspace in &keyspaces {
            keyspace.put_with(key(round), [7; 1_000], Durability::None).unwrap();
        }
        let entries: u64 = db.metrics().keyspaces.iter().map(|keyspace| keyspace.memtable_entries).sum();
        let held = entries * 1_011;
        assert!(held <= MEMTABLES_BYTES, "{held} bytes in memtables in round {round}");
    }
}
