//! Unreferenced files and their blocks in the cache.

use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_env::Env;
use esker_env::fault::StrictFs;
use std::sync::Arc;

/// Blocks of tables that were merged away stay in the cache until removing them is worth a pass: they never
/// exceed a sixteenth of it by much, although the whole contents are replaced again and again.
#[test]
fn blocks_of_deleted_tables_leave_the_cache_in_time() {
    let keyspace = KeyspaceOptions::default().strategy("none".parse().expect("a strategy"));
    let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace);
    let db = Database::open_with("/db", options.env(Env::simulated(Arc::new(StrictFs::new()), 1)))
        .expect("a database");
    let cache = db.store().files.cache();
    // Ranges of 62 KB, of which each round replaces one.
    const RANGES: u32 = 64;
    let key = |range: u32, number: u32| (range << 16 | number).to_be_bytes();
    let replace = |range: u32| {
        (0..62)
            .for_each(|number| db.default_keyspace().put(key(range, number), [range as u8; 1000]).unwrap());
        db.default_keyspace().compact(key(range, 0)..key(range + 1, 0)).unwrap();
        (0..62).for_each(|number| assert!(db.default_keyspace().contains(key(range, number)).unwrap()));
        let steps = (0..1000).take_while(|_| db.step_background()).count();
        assert!(steps < 1000, "work that does not end");
    };
    (0..RANGES).for_each(replace);
    cache.remove_dropped_tables();
    let whole_bytes = cache.used_bytes();
    assert!(whole_bytes > 4_000_000, "{whole_bytes} bytes are cached");
    let mut waits = 0;
    for round in 0..3 * RANGES {
        replace(round % RANGES);
        assert!(!cache.should_remove_dropped(), "round {round}");
        waits += u32::from(cache.has_dropped_tables());
        let (used_bytes, most_bytes) = (cache.used_bytes(), whole_bytes + whole_bytes / 12);
        assert!(used_bytes <= most_bytes, "round {round}: {used_bytes} bytes of {whole_bytes}");
    }
    assert!(waits > RANGES, "a walk for each table: {waits} rounds left something behind");
}
