//! Reads from memory alone: complete where they answer, and without any call to the file system.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::env::fault::{FaultFs, Operation};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Error, Keyspace, KeyspaceOptions, Options, Resident, resident_only};
use std::sync::Arc;

const KEYS: u64 = 2_000;

/// A database, and its file system, which counts calls.
fn open_with(dir: &TestDir, options: Options) -> (Database, Arc<FaultFs>) {
    let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
    // No background threads, whose reads would be counted.
    let env = Env::simulated(Arc::<FaultFs>::clone(&faults), 3);
    (Database::open_with(dir.path(), options.env(env)).unwrap(), faults)
}

fn open(dir: &TestDir) -> (Database, Arc<FaultFs>) {
    open_with(dir, Options::default().cache_size(4 << 20))
}

fn fill(keyspace: &Keyspace) {
    for number in 0..KEYS {
        keyspace.put(key(number), value(number, 1)).unwrap();
    }
    keyspace.flush().unwrap();
    for number in (0..KEYS).step_by(5) {
        keyspace.put(key(number), value(number, 2)).unwrap();
    }
    for number in (0..KEYS).step_by(7) {
        keyspace.delete(key(number)).unwrap();
    }
}

fn expected(number: u64) -> Option<Vec<u8>> {
    match number {
        number if number >= KEYS || number % 7 == 0 => None,
        number if number % 5 == 0 => Some(value(number, 2)),
        number => Some(value(number, 1)),
    }
}

/// How many of the keys were answered, and how many were not resident.
fn ask_all(keyspace: &Keyspace) -> (u64, u64) {
    let (mut answered, mut missed) = (0, 0);
    for number in 0..KEYS + 200 {
        match resident_only(|| keyspace.get(key(number))).unwrap() {
            Resident::Answer(found) => {
                assert_eq!(found.map(|value| value.into_vec()), expected(number), "{number}");
                answered += 1;
            }
            Resident::NotResident => missed += 1,
        }
    }
    for first in (0..KEYS).step_by(16) {
        let keys: Vec<_> = (first..first + 16).map(key).collect();
        if let Resident::Answer(found) = resident_only(|| keyspace.multi_get(&keys)).unwrap() {
            for (number, found) in (first..).zip(found) {
                assert_eq!(found.map(|value| value.into_vec()), expected(number));
            }
        }
        let entries = || keyspace.range(key(first)..key(first + 16)).collect::<esker::Result<Vec<_>>>();
        if let Resident::Answer(entries) = resident_only(entries).unwrap() {
            let numbers = (first..(first + 16).min(KEYS)).filter(|&number| expected(number).is_some());
            assert_eq!(entries.len(), numbers.count());
        }
    }
    (answered, missed)
}

fn is_resident<R>(read: impl FnOnce() -> esker::Result<R>) -> bool {
    matches!(resident_only(read).unwrap(), Resident::Answer(_))
}

fn check_with(of_database: &Options, options: KeyspaceOptions, name: &str) {
    let dir = TestDir::new(name);
    {
        let (db, _) = open_with(&dir, of_database.clone());
        fill(&db.keyspace_with("events", options).unwrap());
    }
    let (db, faults) = open_with(&dir, of_database.clone());
    let events = db.open_keyspace("events").unwrap();
    db.drain().unwrap();
    let ask_without_reads = || {
        let calls = || (faults.calls(Operation::Read), faults.calls(Operation::Open));
        let before = calls();
        let counts = ask_all(&events);
        assert_eq!(calls(), before, "{name}: a file was read");
        counts
    };
    // Nothing was read since the open: only absent keys may be answered, by filters and fences.
    let (answered, missed) = ask_without_reads();
    assert!(missed >= KEYS / 2, "{name}: {answered} answered, {missed} missed");
    let half: Vec<_> = (0..KEYS / 2).map(key).collect();
    // Several times, because a doorkeeper may want to see a block again before it caches it.
    for _ in 0..3 {
        half.chunks(32).for_each(|keys| drop(events.multi_get(keys).unwrap()));
    }
    let (warm, cold) = ask_without_reads();
    assert!(warm >= KEYS / 2 && cold > 0, "{name}: {warm} answered, {cold} missed");
    assert_eq!(events.get(key(KEYS - 1)).unwrap().map(|value| value.into_vec()), expected(KEYS - 1));
}

#[test]
fn what_is_resident_is_answered_and_nothing_else_is_read() {
    let plain = Options::default().cache_size(4 << 20);
    check_with(&plain, tiny(), "resident");
    for index in ["b-tree-pages", "hash-locator"] {
        check_with(&plain, tiny().set("index_type", index).unwrap(), index);
    }
    check_with(&plain.cache_filters(true), tiny(), "cached-filters");
}

#[test]
fn large_values_are_not_resident_and_their_keys_are() {
    let dir = TestDir::new("resident-large");
    let (db, _) = open(&dir);
    let images = db.keyspace_with("images", tiny().blob_threshold(100)).unwrap();
    images.put("small", "1").unwrap();
    images.put("large", vec![7; 1_000]).unwrap();
    assert!(is_resident(|| images.get("large")), "in a memtable");
    images.flush().unwrap();
    images.get("small").unwrap();
    images.get("large").unwrap();
    assert!(is_resident(|| images.get("small")));
    assert!(!is_resident(|| images.get("large")));
    assert!(is_resident(|| images.contains("large")));
    assert!(is_resident(|| images.ttl("large")));
}

#[test]
fn errors_that_are_no_reads_stay_errors_and_jobs_are_refused() {
    let dir = TestDir::new("resident-errors");
    let (db, _) = open(&dir);
    let events = db.keyspace_with("events", tiny()).unwrap();
    fill(&events);
    let refused = resident_only(|| events.flush());
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert!(matches!(resident_only(|| events.compact(..)), Err(Error::InvalidArgument(_))));
    let dropped = db.keyspace("dropped").unwrap();
    db.drop_keyspace("dropped").unwrap();
    assert!(matches!(resident_only(|| dropped.get("a")), Err(Error::NotFound(_))));
    // The last handles go inside of the section: the database is closed nevertheless.
    drop(dropped);
    resident_only(move || {
        drop((db, events));
        Ok(())
    })
    .unwrap();
    open(&dir);
}
