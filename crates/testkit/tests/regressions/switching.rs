//! Changes of strategy on a keyspace in use.

use crate::simulated_env::{DIR, SimulatedEnv, settle};
use esker::options::Strategy;
use esker::parts::env::SeededRandom;
use esker::parts::env::fault::{Fault, Operation};
use esker::{Database, KeyspaceOptions};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn small(strategy: &str) -> KeyspaceOptions {
    KeyspaceOptions::default()
        .strategy(strategy.parse().unwrap())
        .write_buffer_size(4 << 10)
        .table_size(8 << 10)
        .block_size(512)
}

fn write_some(db: &Database, random: &SeededRandom, count: u32) {
    for number in 0..count {
        db.default_keyspace().put(random.below(2000).to_be_bytes(), [number as u8; 60]).unwrap();
    }
}

fn entries(db: &Database) -> Entries {
    let all = db.default_keyspace().iter().map(|entry| entry.unwrap());
    all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn switch(db: &Database, strategy: &str) {
    let strategy: Strategy = strategy.parse().unwrap();
    db.default_keyspace().update_options(|options| options.strategy(strategy)).unwrap();
}

/// Guards that a change of strategy survives pauses and reopenings, changes no content, ends, and can be
/// reverted.
#[test]
fn a_change_of_strategy_is_worked_through() {
    let pairs = [
        ("tiered:4", "leveled:2"),
        ("none", "partitioned"),
        ("none", "lazy-leveled:2"),
        ("fifo:1GiB", "partial:4,oldest"),
        ("none", "golden-ratio"),
    ];
    for (seed, (from, to)) in pairs.into_iter().enumerate() {
        let (simulated, random) = (SimulatedEnv::new(seed as u64), SeededRandom::new(seed as u64));
        let open = || Database::open_with(DIR, simulated.options().keyspace_options(small(from))).unwrap();
        let mut db = open();
        write_some(&db, &random, 4000);
        db.flush().unwrap();
        settle(&db);
        let mut before = entries(&db);
        assert_eq!(db.default_keyspace().migration(), None);

        switch(&db, to);
        db.default_keyspace().pause_migration().unwrap();
        let begun =
            db.default_keyspace().migration().unwrap_or_else(|| panic!("{from} to {to}: nothing to do"));
        assert_eq!((begun.from.to_string(), begun.to.to_string()), (from.to_owned(), to.to_owned()));
        assert!(begun.is_paused && begun.bytes_left > 0, "{begun:?}");
        settle(&db);
        assert_eq!(db.default_keyspace().migration(), Some(begun), "{from} to {to}: no pause");

        db.close().unwrap();
        drop(db);
        db = open();
        settle(&db);
        assert_eq!(db.default_keyspace().migration(), Some(begun), "{from} to {to}: forgotten");
        assert_eq!(entries(&db), before);

        db.default_keyspace().resume_migration().unwrap();
        let mut least = begun.bytes_left;
        for _ in 0..20 {
            write_some(&db, &random, 20);
            let left = db.default_keyspace().migration().map_or(0, |migration| migration.bytes_left);
            least = least.min(left);
        }
        before = entries(&db);
        db.drain().unwrap();
        settle(&db);
        assert_eq!(db.default_keyspace().migration(), None, "{from} to {to}: does not end");
        assert_eq!(entries(&db), before);
        assert!(least <= begun.bytes_left);

        switch(&db, from);
        db.drain().unwrap();
        settle(&db);
        assert_eq!(db.default_keyspace().migration(), None);
        assert_eq!(entries(&db), before);
    }
}

/// Level 0 may hold any number of runs under one strategy and few under the next. Guards that the runs
/// present at the change stop no writer; otherwise the first seal waits for a compaction of everything.
#[test]
fn runs_from_before_a_change_stop_no_writers() {
    let (simulated, random) = (SimulatedEnv::new(1), SeededRandom::new(1));
    let db = Database::open_with(DIR, simulated.options().keyspace_options(small("none"))).unwrap();
    for _ in 0..30 {
        write_some(&db, &random, 40);
        db.flush().unwrap();
    }
    settle(&db);
    // Nothing can be merged, so a wait for that ends with the error.
    simulated.inject_faults(Fault::Io, Operation::Open, "tables/");
    let keyspace = db.default_keyspace();
    let strategy: Strategy = "leveled:10".parse().unwrap();
    keyspace.update_options(|options| options.strategy(strategy).level0_stop_runs(8)).unwrap();
    assert!(keyspace.migration().is_some_and(|migration| migration.bytes_left > 30_000));
    write_some(&db, &random, 300);
    simulated.faults.heal();
    let _result = db.drain();
    settle(&db);
    db.drain().unwrap();
    settle(&db);
    assert_eq!(keyspace.migration(), None);
}
