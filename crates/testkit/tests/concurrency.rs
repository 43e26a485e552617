//! Consistency under threads: four writers, four readers and a thread that flushes, compacts and creates
//! keyspaces, on real files.
//!
//! Each key belongs to one writer, which increments its counter in two keyspaces by one batch. So at any time
//! no counter goes back; a snapshot shows the same at two reads and the two keyspaces alike; a writer reads
//! its own last write.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::options::MemtableKind;
use esker::parts::env::{Env, SeededRandom};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use esker_testkit::TestDir;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WRITERS: u64 = 4;
const READERS: u64 = 4;
/// Keys of each writer.
const KEYS: u64 = 60;
/// Writes of each writer.
const WRITES: u64 = 15_000;

struct Shared {
    db: Database,
    left: Keyspace,
    right: Keyspace,
    writing: AtomicUsize,
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    format!("{}/{writer}", number % KEYS).into_bytes()
}

fn value(counter: u64) -> Vec<u8> {
    let mut bytes = counter.to_be_bytes().to_vec();
    bytes.resize(8 + (counter * 37 % 200) as usize, counter as u8);
    bytes
}

/// The counter in a value, which must be whole.
fn counter(bytes: &[u8]) -> u64 {
    let counter = u64::from_be_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, value(counter), "a value was torn");
    counter
}

fn write(shared: &Shared, writer: u64) {
    for number in 0..WRITES {
        let (key, value) = (key(writer, number), value(number / KEYS + 1));
        let mut batch = shared.db.batch();
        batch.put(&shared.left, &key, &value);
        batch.put(&shared.right, &key, &value);
        shared.db.write(&batch).unwrap();
        assert_eq!(
            shared.left.get(&key).unwrap().as_deref(),
            Some(value.as_slice()),
            "a writer missed its own write"
        );
    }
}

/// Reads single keys: none goes back.
fn read_keys(shared: &Shared, random: &SeededRandom) {
    let mut seen = BTreeMap::<Vec<u8>, u64>::new();
    while shared.writing.load(Ordering::Acquire) > 0 {
        let keys: Vec<Vec<u8>> = (0..8).map(|_| key(random.below(WRITERS), random.below(KEYS))).collect();
        let right = keys.iter().map(|key| shared.right.get(key).unwrap());
        let right: Vec<u64> = right.map(|found| found.map_or(0, |found| counter(&found))).collect();
        let left = shared.left.multi_get(&keys).unwrap();
        for ((key, left), right) in keys.into_iter().zip(left).zip(right) {
            let left = left.map_or(0, |found| counter(&found));
            // The left one was read later, so it is at least as far.
            assert!(left >= right, "{}: {right} on the right, then {left} on the left", key.escape_ascii());
            let last = seen.insert(key.clone(), left).unwrap_or(0);
            assert!(left >= last, "{} went back from {last} to {left}", key.escape_ascii());
        }
    }
}

/// Scans everything: a snapshot shows one moment, and a later one no earlier moment.
fn read_moments(shared: &Shared) {
    let mut last = BTreeMap::<Vec<u8>, u64>::new();
    while shared.writing.load(Ordering::Acquire) > 0 {
        let snapshot = shared.db.snapshot();
        let read = |keyspace: &Keyspace, backwards: bool| {
            let entries = keyspace.at(&snapshot).iter();
            let counters = |entry: esker::Result<(esker::Value, esker::Value)>| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), counter(&value))
            };
            match backwards {
                true => entries.rev().map(counters).collect(),
                false => entries.map(counters).collect::<BTreeMap<Vec<u8>, u64>>(),
            }
        };
        let (left, right) = (read(&shared.left, false), read(&shared.right, true));
        assert_eq!(left, right, "half of a batch");
        assert_eq!(left, read(&shared.left, true), "a snapshot changed");
        assert!(
            last.iter().all(|(key, counter)| left[key] >= *counter),
            "a later snapshot shows an earlier moment"
        );
        last = left;
    }
}

fn change_tree(shared: &Shared) {
    for round in 0.. {
        if shared.writing.load(Ordering::Acquire) == 0 {
            break;
        }
        shared.db.flush().unwrap();
        match round % 4 {
            0 => shared.left.compact(..).unwrap(),
            1 => shared.right.compact(b"2".as_slice()..b"5").unwrap(),
            2 => drop(shared.db.keyspace(&format!("extra {round}")).unwrap()),
            _ => shared.db.sync().unwrap(),
        }
    }
}

fn run(kind: MemtableKind, mapped_log: bool, max_open_tables: usize) {
    let dir = TestDir::new("concurrency");
    let tiny = KeyspaceOptions::default().memtable(kind).write_buffer_size(32 << 10);
    let tiny = tiny.table_size(16 << 10).block_size(512);
    let options = Options::default().memory_budget(16 << 20).wal_segment_bytes(64 << 10);
    let options = options.max_open_tables(max_open_tables);
    let db = Database::open_with(dir.path(), options.mapped_log(mapped_log).keyspace_options(tiny)).unwrap();
    let (left, right) = (db.keyspace("left").unwrap(), db.keyspace("right").unwrap());
    let shared = Arc::new(Shared { db, left, right, writing: AtomicUsize::new(WRITERS as usize) });
    let mut threads = Vec::new();
    let mut start = |name: String, work: Box<dyn FnOnce(&Shared) + Send>| {
        let shared = Arc::clone(&shared);
        threads.push(Env::real().spawn(&name, move || work(&shared)).unwrap());
    };
    for writer in 0..WRITERS {
        start(
            format!("writer-{writer}"),
            Box::new(move |shared| {
                // Counted down however the writer ends, or the readers would never stop.
                struct Ends<'a>(&'a Shared);
                impl Drop for Ends<'_> {
                    fn drop(&mut self) {
                        self.0.writing.fetch_sub(1, Ordering::Release);
                    }
                }
                let _ends = Ends(shared);
                write(shared, writer);
            }),
        );
    }
    for reader in 0..READERS {
        start(
            format!("reader-{reader}"),
            Box::new(move |shared| match reader % 2 {
                0 => read_keys(shared, &SeededRandom::new(reader)),
                _ => read_moments(shared),
            }),
        );
    }
    start("turn-over".to_owned(), Box::new(change_tree));
    let panicked = threads.into_iter().map(|thread| thread.join()).filter(Result::is_err).count();
    assert_eq!(panicked, 0, "threads failed");
    for writer in 0..WRITERS {
        for number in WRITES - KEYS..WRITES {
            let found = shared.right.get(key(writer, number)).unwrap().unwrap();
            assert_eq!(counter(&found), number / KEYS + 1);
        }
    }
    assert!(shared.db.verify().unwrap().is_clean());
    shared.db.close().unwrap();
}

#[test]
fn readers_and_writers_agree_on_the_radix_tree_and_the_mapped_log() {
    run(MemtableKind::Art, true, 8);
}

#[test]
fn readers_and_writers_agree_on_the_skiplist_and_the_written_log() {
    run(MemtableKind::Skiplist, false, 100);
}

#[test]
fn readers_and_writers_agree_on_memtables_with_locks() {
    for kind in [MemtableKind::LockedTree, MemtableKind::Vector, MemtableKind::Hash] {
        run(kind, true, 100);
    }
}
