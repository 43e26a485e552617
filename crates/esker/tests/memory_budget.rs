//! Accounting of memory: open tables are counted before the cache fills their share.

mod common;

use common::{TestDir, key};
use esker::metrics::MemoryMetrics;
use esker::parts::StepBackground;
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Error, Options};
use std::sync::Arc;

/// Runs all pending background work.
fn settle(db: &Database) {
    while db.step_background() {}
}

fn memory(db: &Database) -> MemoryMetrics {
    db.metrics().memory
}

#[test]
fn the_cache_shrinks_for_tables_that_lookups_open() {
    const KEYS: u64 = 200_000;
    let dir = TestDir::new("memory-budget");
    let open = || {
        let env = Env::simulated(Arc::new(StdFileSystem), 3);
        Database::open_with(dir.path(), Options::default().env(env).memory_budget(16 << 20)).expect("opening")
    };
    let db = open();
    (0..KEYS).for_each(|number| db.default_keyspace().put(key(number), b"some value").expect("a put"));
    db.compact_all().expect("compaction");
    db.close().expect("closing");
    let db = open();
    settle(&db);
    let before = memory(&db);
    assert_eq!(before.table_metadata_bytes, 0, "no table is open before the first read");
    for number in (0..KEYS).step_by(100) {
        assert!(db.default_keyspace().get(key(number)).expect("a get").is_some());
    }
    settle(&db);
    let after = memory(&db);
    assert!(after.table_metadata_bytes > 250 << 10, "{after:?}");
    let given = before.cache_capacity_bytes - after.cache_capacity_bytes;
    let log = after.log_mapped_bytes - before.log_mapped_bytes;
    let untold = (after.table_metadata_bytes + log).abs_diff(given);
    let tolerated = db.metrics().open_tables.max_metadata_bytes / 32;
    assert!(
        untold <= tolerated,
        "{untold} bytes of tables that the cache knows nothing of: {before:?}\n{after:?}"
    );
    assert!(after.used_bytes() <= after.budget_bytes, "{after:?}");
}

/// Cursors over several runs, flushes, merges, blobs and a bulk load: what they hold is counted, bounded
/// where it only saves time, and nothing of it is left when they are done.
#[test]
fn buffers_are_counted_and_given_back() {
    const BUDGET: u64 = 16 << 20;
    let dir = TestDir::new("memory-accounts");
    let env = Env::simulated(Arc::new(StdFileSystem), 3);
    let db =
        Database::open_with(dir.path(), Options::default().env(env).memory_budget(BUDGET)).expect("opening");
    let blobs = esker::KeyspaceOptions::default().blob_threshold(1 << 20);
    let blobs = db.keyspace_with("blobs", blobs).expect("a keyspace");
    for number in 0..5u64 {
        for keyspace in [db.default_keyspace(), &blobs] {
            keyspace.put(key(number), vec![number as u8; 1 << 20]).expect("a put of a large value");
        }
        for small in 0..4_000 {
            let number = 10 + small * 5 + number;
            db.default_keyspace().put(key(number), [number as u8; 400]).expect("a put");
        }
        db.flush().expect("a flush");
        settle(&db);
    }
    let mut cursors: Vec<_> = (0..20).map(|_| db.default_keyspace().cursor().expect("a cursor")).collect();
    for cursor in &mut cursors {
        cursor.seek_to_first().expect("a seek");
        for _ in 0..8_000 {
            cursor.advance().expect("a step");
        }
    }
    let read_ahead = memory(&db).read_ahead_bytes;
    assert!(read_ahead > 0 && read_ahead <= BUDGET / 16 + (2 << 20), "{read_ahead}");
    drop(cursors);
    let mut loader = db.default_keyspace().bulk_load().expect("a load");
    for number in (0..30_000u64).rev() {
        loader.add(key(number), [7; 100]).expect("an entry");
    }
    assert_eq!(memory(&db).loading_bytes, BUDGET / 8);
    loader.finish().expect("the load");
    db.compact_all().expect("compaction");
    settle(&db);
    let after = memory(&db);
    let left = [after.read_ahead_bytes, after.job_bytes, after.large_value_bytes, after.loading_bytes];
    assert_eq!(left, [0; 4], "{after:?}");
    for number in 0..5u64 {
        let value = blobs.get(key(number)).expect("a get").expect("a value");
        assert!(value.len() == 1 << 20 && value.iter().all(|&byte| byte == number as u8));
    }
}

/// A value that the format permits may be too much for a small budget: the error names what the batch has,
/// what it may have, and the budget that this follows from.
#[test]
fn a_batch_beyond_the_budget_is_refused_with_both_numbers() {
    const BUDGET: u64 = 8 << 20;
    let dir = TestDir::new("batch-beyond-budget");
    let db = Database::open_with(dir.path(), Options::default().memory_budget(BUDGET)).expect("opening");
    let keyspace = db.default_keyspace();
    let value = vec![7u8; (BUDGET / 2) as usize];
    let mut batch = db.batch();
    for part in 0..2 {
        batch.put(keyspace, key(part), &value[..value.len() / 2]);
    }
    for refused in [keyspace.put(b"large", &value), db.write(&batch).map(drop)] {
        let refused = refused.expect_err("more than half of the budget");
        assert!(matches!(refused, Error::Full(_)), "{refused}");
        let text = refused.to_string();
        let numbers: Vec<u64> = text.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
        assert_eq!(numbers[1..3], [BUDGET / 2, BUDGET], "{text}");
        assert!((BUDGET / 2..BUDGET / 2 + 1000).contains(&numbers[0]), "{text}");
    }
    keyspace.put(b"large", &value[..value.len() - 1000]).expect("half of the budget");
    assert_eq!(keyspace.iter().count(), 1);
}

/// The length alone decides, so the bytes, which are never touched, take no memory.
#[test]
fn a_value_beyond_the_longest_is_refused_with_its_length() {
    const LEN: usize = 513 << 20;
    let dir = TestDir::new("longest-value");
    let db = Database::open_with(dir.path(), Options::default().memory_budget(2 << 30)).expect("opening");
    let keyspace = db.default_keyspace();
    let value = vec![0u8; LEN];
    let refused =
        [keyspace.put(b"k", &value), db.transact(|transaction| transaction.put(keyspace, b"k", &value))];
    for (call, refused) in refused.into_iter().enumerate() {
        let refused = refused.expect_err("longer than the longest");
        assert!(matches!(refused, Error::InvalidArgument(_)), "call {call}: {refused}");
        let text = refused.to_string();
        let numbers: Vec<usize> = text.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
        assert!(numbers.contains(&LEN) && numbers.contains(&(512 << 20)), "call {call}: {text}");
    }
    assert_eq!(keyspace.iter().count(), 0);
}
