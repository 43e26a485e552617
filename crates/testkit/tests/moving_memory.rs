//! The memory arbiter under readers: memory moves between memtables and the block cache while cursors pin
//! blocks, on real files and threads.
//!
//! A burst of writes takes the memtables' share back, so that the cache releases whole slabs; after a manual
//! compaction a full cache gets it again. Each value depends on its key, so a reader of reused memory finds a
//! wrong value, or none.

use esker::parts::env::{Env, SeededRandom};
use esker::{Database, Options};
use esker_testkit::TestDir;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of 500 bytes each: more than the cache holds while the memtables have their share.
const KEYS: u64 = 90_000;
/// Puts of a burst, which fill some log segments.
const BURST: u64 = 16_000;
const ROUNDS: u64 = 8;
/// Most scans of all keys in a round, until the cache has grown.
const MOST_SCANS: u64 = 5;
/// Growth by this much is the share and not the index of a table.
const SHARE_BYTES: u64 = 4 << 20;

fn value(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(500, number as u8);
    bytes
}

fn check(key: &[u8], found: &[u8]) {
    let number = u64::from_be_bytes(key.try_into().expect("keys have eight bytes"));
    assert!(found == value(number), "key {number} has the value of another key");
}

fn check_present(db: &Database, number: u64) {
    let key = number.to_be_bytes();
    check(&key, &db.default_keyspace().get(key).expect("a get").expect("it is there"));
}

/// Walks from random keys, by cursors that stay in place for a while, and gets single keys between.
fn read(db: &Database, seed: u64, is_over: &AtomicBool) {
    let random = SeededRandom::new(seed);
    while !is_over.load(Ordering::Acquire) {
        let mut cursors: Vec<_> = (0..8).map(|_| db.default_keyspace().cursor().expect("a cursor")).collect();
        for _ in 0..300 {
            let cursor = &mut cursors[random.below(8) as usize];
            match random.below(3) {
                0 => cursor.seek(random.below(KEYS).to_be_bytes()).expect("a seek"),
                1 => (0..40).for_each(|_| cursor.advance().expect("a step")),
                _ => (0..40).for_each(|_| cursor.retreat().expect("a step")),
            }
            cursors.iter().filter_map(|cursor| cursor.entry()).for_each(|(key, found)| check(key, found));
            check_present(db, random.below(KEYS));
        }
    }
}

#[test]
fn readers_keep_their_blocks_while_memory_moves() {
    let dir = TestDir::new("moving-memory");
    let db = Arc::new(
        Database::open_with(dir.path(), Options::default().memory_budget(64 << 20)).expect("a database"),
    );
    let put = |number: u64| db.default_keyspace().put(number.to_be_bytes(), value(number)).expect("a put");
    (0..KEYS).for_each(put);
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|seed| {
            let (db, is_over) = (Arc::clone(&db), Arc::clone(&is_over));
            Env::real().spawn("reader", move || read(&db, seed, &is_over)).expect("a thread")
        })
        .collect();
    let random = SeededRandom::new(9);
    let capacity = || db.metrics().memory.cache_capacity_bytes;
    for _ in 0..ROUNDS {
        db.compact_all().expect("a compaction");
        let before = capacity();
        let is_lent = || capacity() >= before + SHARE_BYTES;
        for _ in (0..MOST_SCANS).take_while(|_| !is_lent()) {
            (0..KEYS).for_each(|number| check_present(&db, number));
        }
        (0..BURST).for_each(|_| put(random.below(KEYS)));
        db.flush().expect("a flush");
    }
    is_over.store(true, Ordering::Release);
    let failed = readers.into_iter().map(|thread| thread.join()).filter(Result::is_err).count();
    assert_eq!(failed, 0, "readers failed");
    // When the share moves depends on the worker pools; that it does, the tests of the memory arbiter check
    // step by step.
    let evicted = db.metrics().cache.total().evictions;
    assert!(evicted > 0, "the cache released nothing");
    db.close().expect("a close");
}
