//! Accounting of memory: open tables are counted before the cache fills their share.

mod common;

use common::{TestDir, key};
use esker::metrics::MemoryMetrics;
use esker::parts::StepBackground;
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Options};
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
