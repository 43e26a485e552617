//! Sweeps of expired keys: each key whose time has come is deleted, wherever the sweep before it ended.

#![allow(clippy::disallowed_methods, reason = "a directory of the test's own")]

use esker_redis_store::locks::{Access, Held};
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::string;
use esker_redis_store::{Store, Txn};
use std::path::PathBuf;

/// More keys than one sweep deletes of a database.
const MANY: usize = 10_000;
/// Times that have passed.
const PAST_MS: u64 = 1_000;
/// What a sweep is told as the present.
const NOW_MS: u64 = 1_000_000;
/// A time that has not come when the test runs.
const FAR_MS: u64 = 4_000_000_000_000;

struct TestStore(PathBuf, Option<Store>);

impl TestStore {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("esker-redis-expiry-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        let database = esker::Database::open(&directory).expect("a database");
        Self(directory, Some(Store::open(database, 2).expect("a store")))
    }

    fn store(&self) -> &Store {
        self.1.as_ref().expect("it is open")
    }

    /// Sets keys in one batch, each with its time.
    fn set(&self, db: u16, keys: impl Iterator<Item = (String, u64)>) {
        let mut txn = Txn::new(self.store(), Interest::default());
        for (key, expiry_ms) in keys {
            let mut entry = txn.entry(db, key.as_bytes()).expect("a read");
            string::set(&mut txn, &mut entry, b"1", Some(expiry_ms)).expect("a change");
        }
        txn.commit(Stalls::Wait).expect("a commit");
    }

    fn sweep(&self) -> u64 {
        self.store().sweep_expired(NOW_MS, Interest::default(), &mut |_| {}).expect("a sweep")
    }

    /// Sweeps until nothing is due. Returns how often, and when the next key is.
    fn sweep_all(&self) -> (usize, u64) {
        for sweeps in 1..100 {
            let next_ms = self.sweep();
            if next_ms > NOW_MS {
                return (sweeps, next_ms);
            }
        }
        panic!("there is no end: {:?}", (self.store().keys(0), self.store().keys(1)));
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        self.1 = None;
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn sweeps_delete_all_keys_that_are_due_and_no_others() {
    let test = TestStore::new("all");
    // Half of them have one time.
    let time = |n: usize| PAST_MS + n.saturating_sub(MANY / 2) as u64;
    test.set(0, (0..MANY).map(|n| (format!("key{n}"), time(n))));
    test.set(1, (0..300).map(|n| (format!("key{n}"), PAST_MS + n)));
    test.set(1, std::iter::once(("later".to_owned(), FAR_MS)));
    let (sweeps, next_ms) = test.sweep_all();
    assert!(sweeps > 1, "one sweep deletes {MANY} keys");
    assert_eq!((next_ms, test.store().keys(0), test.store().keys(1)), (FAR_MS, 0, 1));
    // What is set behind the place at which sweeps go on is met.
    test.set(0, (0..3).map(|n| (format!("early{n}"), 1 + n)));
    assert_eq!((test.sweep_all(), test.store().keys(0)), ((1, FAR_MS), 0));
    assert_eq!(test.store().check().expect("a check"), [""; 0]);
}

#[test]
fn a_key_whose_stripe_is_held_is_met_again() {
    let test = TestStore::new("held");
    let name = |n: usize| format!("key{n}");
    test.set(0, (0..1000).map(|n| (name(n), PAST_MS + n as u64)));
    let stripes = &test.store().stripes;
    let mut held = Held::new(stripes);
    held.wait_for(&mut vec![stripes.of(0, name(7).as_bytes())], Access::Exclusive);
    let next_ms = test.sweep();
    assert_eq!(next_ms, PAST_MS + 7);
    assert!((1..1000).contains(&test.store().keys(0)));
    held.free();
    assert_eq!((test.sweep_all().1, test.store().keys(0)), (u64::MAX, 0));
}

/// The key of the database that takes the place of one that was swept already.
#[test]
fn a_key_whose_database_is_exchanged_during_a_sweep_is_met_again() {
    let test = TestStore::new("exchanged");
    test.set(0, std::iter::once(("first".to_owned(), PAST_MS + 5)));
    test.set(1, std::iter::once(("second".to_owned(), PAST_MS)));
    let mut exchanges = 0;
    let exchange = &mut |_| {
        if exchanges == 0 {
            let mut txn = Txn::new(test.store(), Interest::default());
            txn.swap_databases(0, 1).expect("a change");
            txn.commit(Stalls::Wait).expect("a commit");
        }
        exchanges += 1;
    };
    test.store().sweep_expired(NOW_MS, Interest::default(), exchange).expect("a sweep");
    assert_eq!((exchanges, test.store().keys(0), test.store().keys(1)), (1, 1, 0), "the second was passed");
    assert_eq!((test.sweep_all().1, test.store().keys(0)), (u64::MAX, 0));
}
