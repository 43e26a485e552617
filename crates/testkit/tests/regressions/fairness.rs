//! Fairness of the worker pools: no keyspace keeps others from their flushes and compactions.

use crate::simulated_env::{DIR, SimulatedEnv, live_tables, metrics_of, settle};
use esker::options::{Codec, PerLevel};
use esker::parts::StepBackground;
use esker::parts::env::fault::{Fault, Operation};
use esker::{Database, Error, Keyspace, KeyspaceOptions};
use std::sync::{Arc, Mutex};

/// Puts entries of a hundred bytes with these numbers as keys.
fn put_many(keyspace: &Keyspace, numbers: std::ops::Range<u32>) {
    for number in numbers {
        keyspace.put(number.to_be_bytes(), [b'v'; 96]).unwrap();
    }
}

/// A keyspace whose level 0 takes any number of runs and merges them from five on.
fn lazy_leveled(level0_stop_runs: u32) -> KeyspaceOptions {
    KeyspaceOptions::default().strategy("lazy-leveled:4".parse().unwrap()).level0_stop_runs(level0_stop_runs)
}

/// Flushes until level 0 has this many runs. Nothing is merged meanwhile, because tables cannot be read.
fn build_runs(simulated: &SimulatedEnv, db: &Database, keyspaces: &[&Keyspace], runs: usize) {
    simulated.inject_faults(Fault::Io, Operation::Open, "tables/");
    for keyspace in keyspaces {
        // The first one overlaps nothing and goes to the last level.
        for _ in 0..=runs {
            put_many(keyspace, 0..10);
            keyspace.flush().unwrap();
        }
        assert_eq!(
            (level0_runs(db, &keyspace.name()), metrics_of(db, &keyspace.name()).compactions),
            (runs, 0)
        );
    }
    simulated.faults.heal();
}

/// Has the pools retry what failed, and expects success.
fn try_again(db: &Database) {
    // This wait still returns the error of the last attempt, but it requests another one.
    let _result = db.drain();
    settle(db);
    db.drain().unwrap();
    assert!(db.metrics().background_errors.is_empty());
}

fn level0_runs(db: &Database, name: &str) -> usize {
    let levels = db.levels().into_iter().find(|keyspace| keyspace.name == name).unwrap().levels;
    levels.iter().find(|level| level.number == 0).map_or(0, |level| level.runs.len())
}

/// On a nearly full disk a large flush may find no space while small ones do. Guards that the flush pool goes
/// on to the next keyspace; otherwise the first failure ends the step, and small memtables stay with the
/// large one, and with them the log that they pin.
#[test]
fn a_keyspace_whose_flush_fails_does_not_keep_the_others_from_theirs() {
    for seed in 0..4 {
        let simulated = SimulatedEnv::new(seed);
        // Uncompressed, so that the large flush needs the space that it must not find.
        let plain = KeyspaceOptions::default().compression(PerLevel::all(Codec::None));
        let db = Database::open_with(DIR, simulated.options().keyspace_options(plain)).unwrap();
        let small = [db.keyspace("small").unwrap(), db.keyspace("smaller").unwrap()];
        put_many(db.default_keyspace(), 0..3000);
        small.iter().for_each(|keyspace| put_many(keyspace, 0..20));
        settle(&db);
        simulated.strict.set_capacity_bytes(Some(simulated.strict.used_bytes() + (64 << 10)));
        let drained = db.drain();
        assert!(matches!(drained, Err(Error::Full(_))), "the large flush found room: {drained:?}");
        settle(&db);
        assert_eq!(metrics_of(&db, "default").sealed_memtables, 1);
        for keyspace in &small {
            let metrics = metrics_of(&db, &keyspace.name());
            assert_eq!((metrics.sealed_memtables, metrics.flushes), (0, 1), "{}", metrics.name);
        }
        assert!(!db.metrics().background_errors.is_empty(), "no error is reported");
        simulated.strict.set_capacity_bytes(None);
        try_again(&db);
        assert_eq!(metrics_of(&db, "default").sealed_memtables, 0);
    }
}

/// Guards the order of flushes: the memtable that pins the oldest part of the log first, because nothing of
/// the log is released before, whichever keyspace is older.
#[test]
fn the_flush_that_releases_log_comes_first() {
    let simulated = SimulatedEnv::new(3);
    let db = Database::open_with(DIR, simulated.options()).unwrap();
    let young = db.keyspace("young").unwrap();
    // More than a segment, so that the other memtable begins in a later one.
    put_many(&young, 0..200);
    put_many(db.default_keyspace(), 0..200);
    simulated.inject_faults(Fault::Io, Operation::Create, "tables/");
    assert!(db.drain().is_err(), "both are sealed, and neither is flushed");
    simulated.faults.heal();
    let at_second = Arc::new(Mutex::new(None));
    let (within, noted) = (db.clone(), Arc::clone(&at_second));
    simulated.faults.interrupt(Operation::Create, "tables/", || {});
    simulated.faults.interrupt(Operation::Create, "tables/", move || {
        let sealed = |name| metrics_of(&within, name).sealed_memtables;
        *noted.lock().unwrap() = Some((sealed("default"), sealed("young")));
    });
    try_again(&db);
    let (default, young) = at_second.lock().unwrap().expect("two tables are written");
    assert_eq!((default, young), (1, 0), "memtables left when the second flush began");
}

/// Guards that the compaction pool goes on to the next keyspace when a job fails; otherwise a damaged or
/// unreadable table of one keyspace ends every step, and no other keyspace is ever compacted.
#[test]
fn a_keyspace_whose_compaction_fails_does_not_keep_the_others_from_theirs() {
    for seed in 0..6 {
        let simulated = SimulatedEnv::new(seed);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(lazy_leveled(1000))).unwrap();
        let others = ["a", "b", "c"].map(|name| db.keyspace(name).unwrap());
        let [a, b, c] = &others;
        build_runs(&simulated, &db, &[db.default_keyspace()], 6);
        let broken = live_tables(&db);
        build_runs(&simulated, &db, &[a, b, c], 6);
        broken.iter().for_each(|table| simulated.inject_faults(Fault::Io, Operation::Open, table));
        // One request for all.
        db.flush().unwrap();
        settle(&db);
        for keyspace in &others {
            let metrics = metrics_of(&db, &keyspace.name());
            assert!(metrics.compactions > 0, "seed {seed}: {} was never compacted", metrics.name);
            assert_eq!(metrics.compaction_debt_bytes, 0, "seed {seed}: {}", metrics.name);
        }
        let broken = metrics_of(&db, "default");
        assert!(broken.compactions == 0 && broken.compaction_debt_bytes > 0, "{broken:?}");
        assert!(!db.metrics().background_errors.is_empty(), "no error is reported");
        assert_eq!(simulated.files("tables"), live_tables(&db), "failed jobs left files");
        simulated.faults.heal();
        try_again(&db);
        assert_eq!(metrics_of(&db, "default").compaction_debt_bytes, 0);
    }
}

/// Guards that the keyspace whose level 0 is about to stop its writers goes first.
#[test]
fn the_most_urgent_compaction_of_all_keyspaces_comes_first() {
    // Each of them once, so that the round-robin order is not what brings it to the front.
    for urgent in 0..3 {
        let simulated = SimulatedEnv::new(5);
        let db = Database::open_with(DIR, simulated.options()).unwrap();
        let stop_runs = |at: usize| if at == urgent { 8 } else { 1000 };
        let names = ["a", "b", "c"];
        let [a, b, c] = [0, 1, 2].map(|at| db.keyspace_with(names[at], lazy_leveled(stop_runs(at))).unwrap());
        build_runs(&simulated, &db, &[&a, &b, &c], 7);
        db.flush().unwrap();
        let compactions = || names.map(|name| metrics_of(&db, name).compactions);
        while compactions() == [0; 3] {
            assert!(db.step_background(), "nothing was compacted");
        }
        assert_eq!(compactions()[urgent], 1, "{} was to be first, but was not", names[urgent]);
    }
}

/// Guards that equally urgent keyspaces take turns; otherwise the oldest one is served until it has no plan,
/// which under steady writes is never.
#[test]
fn equally_urgent_keyspaces_take_turns() {
    for seed in 0..4 {
        let simulated = SimulatedEnv::new(seed);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(lazy_leveled(1000))).unwrap();
        let names = ["default", "second", "third"];
        let [first, second, third] = names.map(|name| db.keyspace(name).unwrap());
        build_runs(&simulated, &db, &[&first, &second, &third], 48);
        db.flush().unwrap();
        let compactions = || names.map(|name| metrics_of(&db, name).compactions);
        while compactions().contains(&0) {
            assert!(db.step_background(), "nothing is left to do after {:?} compactions", compactions());
            // No keyspace is finished before all have begun.
            let left = names.map(|name| level0_runs(&db, name));
            assert!(
                !left.contains(&0),
                "seed {seed}: one is done, others wait: {left:?} after {:?}",
                compactions()
            );
        }
    }
}
