//! Room for writes: the bounds of memtables and log, and which writers must not wait.

use crate::simulated_env::{
    DIR, LOG_BYTES, MEMTABLES_BYTES, SEGMENT_BYTES, SimulatedEnv, live_tables, metrics_of, settle,
};
use esker::options::Strategy;
use esker::parts::env::fault::{Fault, Operation};
use esker::{Database, Error, KeyspaceOptions, WriteBatch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most sealed memtables that a keyspace may queue.
const MAX_SEALED: usize = 3;
/// The log may grow to this many times its share.
const LOG_CAP_FACTOR: u64 = 2;

/// Writes entries of this many bytes until one is refused for lack of room; returns their number.
fn write_until_refused(db: &Database, value_bytes: usize, most: u32) -> u32 {
    let value = vec![7; value_bytes];
    for number in 0..most {
        match db.default_keyspace().put(number.to_be_bytes(), &value) {
            Ok(()) => {}
            Err(Error::Full(_)) => return number,
            Err(error) => panic!("write {number} was refused for another reason: {error}"),
        }
    }
    panic!("{most} writes went through although no memtable was ever flushed");
}

/// A rotation of the log seals memtables without checking the memtables' share; so it must not happen while
/// sealed memtables fill it. Guards the first bound in `rotate_log`: otherwise memory grows by a memtable
/// with every few rotations while flushes fail, or are slower than writers.
#[test]
fn rotations_do_not_seal_more_than_memtables_may_hold() {
    const VALUE_BYTES: usize = 1000;
    for seed in 0..3 {
        let simulated = SimulatedEnv::new(seed);
        // The write buffer never fills, so that only rotations seal.
        let keyspace = KeyspaceOptions::default().write_buffer_size(64 << 20);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(keyspace)).unwrap();
        simulated.inject_faults(Fault::Full, Operation::Create, "tables/");
        let written = write_until_refused(&db, VALUE_BYTES, 16_000);
        let held = u64::from(written) * (4 + VALUE_BYTES as u64);
        assert!(metrics_of(&db, "default").sealed_memtables > 0, "the rotation sealed nothing");
        assert!(held <= MEMTABLES_BYTES + SEGMENT_BYTES, "memtables hold {held} bytes");
        // No writer waits for good: with the disk back, writes go on and nothing is lost.
        simulated.faults.heal();
        settle(&db);
        for number in written..written + 3000 {
            db.default_keyspace().put(number.to_be_bytes(), [7; VALUE_BYTES]).unwrap();
        }
        db.close().unwrap();
        let db = Database::open_with(DIR, simulated.options()).unwrap();
        assert_eq!(db.default_keyspace().iter().count(), written as usize + 3000);
    }
}

/// Entries that are small beside their log records fill the log long before they fill memtables. Guards the
/// two other bounds of a rotation: the log grows to twice its share at most, and the memtables that pin it
/// are sealed only while the queue of sealed memtables has room. Otherwise the log, or the queue, grows
/// without bound.
#[test]
fn rotations_let_neither_the_log_nor_the_queue_of_memtables_grow() {
    let simulated = SimulatedEnv::new(1);
    let db = Database::open_with(DIR, simulated.options()).unwrap();
    simulated.inject_faults(Fault::Full, Operation::Create, "tables/");
    let written = write_until_refused(&db, 0, 400_000);
    let (log_bytes, queued) = (db.metrics().log.live_bytes, metrics_of(&db, "default").sealed_memtables);
    assert!(log_bytes > LOG_BYTES, "the test did not fill the log: {log_bytes} bytes");
    assert!(log_bytes <= LOG_BYTES * LOG_CAP_FACTOR + SEGMENT_BYTES, "the log holds {log_bytes} bytes");
    assert!(queued <= MAX_SEALED, "{queued} memtables are sealed");
    simulated.faults.heal();
    settle(&db);
    for number in written..written + 1000 {
        db.default_keyspace().put(number.to_be_bytes(), b"").unwrap();
    }
    settle(&db);
    assert!(db.metrics().log.live_bytes <= LOG_BYTES, "flushes gave the log nothing back");
}

/// A batch larger than a segment gets one of its own, and may have to wait for memtables after it has rotated
/// to it. If other writers fill that segment meanwhile, the batch needs another one. Guards that a used
/// private segment is forgotten and a new one prepared; otherwise the write fails with an internal error.
#[test]
fn a_large_batch_whose_own_segment_was_filled_by_others_gets_another_one() {
    let mut tried = 0;
    for seed in 0..8 {
        let simulated = SimulatedEnv::new(seed);
        let keyspace = KeyspaceOptions::default().write_buffer_size(600 << 10);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(keyspace)).unwrap();
        let other = db.keyspace("other").unwrap();
        // The first is sealed when the second comes, and with the third that is more than memtables may hold.
        db.write(&batch_of(&db, 0..580)).unwrap();
        db.write(&batch_of(&db, 1000..1300)).unwrap();
        if metrics_of(&db, "default").sealed_memtables == 0 {
            // With this seed the flush came at once, and the large batch would not wait.
            continue;
        }
        tried += 1;
        // While the batch waits for the flush, another writer's record fills the end of its segment.
        let happened = Arc::new(AtomicBool::new(false));
        let (within, flag) = (other.clone(), Arc::clone(&happened));
        simulated.faults.interrupt(Operation::Create, "tables/", move || {
            within.put(b"in between", [2; 6000]).unwrap();
            flag.store(true, Ordering::Relaxed);
        });
        db.write(&batch_of(&db, 10_000..11_500)).unwrap();
        assert!(happened.load(Ordering::Relaxed), "the batch did not wait for a flush");
        settle(&db);
        assert!(
            simulated.files("wal").len() as u64 <= 4 + LOG_BYTES / SEGMENT_BYTES,
            "private segments stayed: {:?}",
            simulated.files("wal")
        );
        db.close().unwrap();
        let db = Database::open_with(DIR, simulated.options()).unwrap();
        assert_eq!(db.default_keyspace().iter().count(), 580 + 300 + 1500);
        assert!(db.open_keyspace("other").unwrap().contains(b"in between").unwrap());
    }
    assert!(tried > 0, "no seed lets the batch wait");
}

/// A batch of entries of a thousand bytes.
fn batch_of(db: &Database, numbers: Range<u32>) -> WriteBatch {
    let mut batch = db.batch();
    numbers.for_each(|number| batch.put(db.default_keyspace(), number.to_be_bytes(), [3; 1000]));
    batch
}

/// Level 0 stops writers so that compaction can catch up. Guards that it does so only if a compaction can: a
/// limit below the strategy's trigger, or a strategy that never merges, would stop writers for good.
#[test]
fn a_stop_limit_below_the_trigger_of_the_strategy_stops_no_writer_for_good() {
    let strategies = [
        "none",
        "partitioned",
        "leveled:10",
        "leveled:1.5",
        "tiered:4",
        "tiered:20",
        "lazy-leveled:8",
        "fluid:10,9,3",
        "partial:10",
        "golden-ratio",
        "fifo:1GiB",
    ];
    for (seed, name) in strategies.into_iter().enumerate() {
        let simulated = SimulatedEnv::new(seed as u64);
        let strategy = name.parse::<Strategy>().unwrap();
        let keyspace =
            KeyspaceOptions::default().strategy(strategy).level0_stop_runs(2).write_buffer_size(4 << 10);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(keyspace)).unwrap();
        for number in 0..2000u32 {
            // Spread over the keys, so that every flush overlaps the tables below.
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let written = db.default_keyspace().put(key, [9; 60]);
            assert!(written.is_ok(), "{name}, write {number}: {written:?}");
        }
        settle(&db);
        assert_eq!(db.default_keyspace().iter().count(), 2000);
        assert!(!live_tables(&db).is_empty());
    }
}
