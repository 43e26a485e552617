//! A transaction against a map: gets, ranges and range deletes see the changes before them, commits keep and
//! roll-backs forget them.

#![allow(clippy::disallowed_methods, reason = "tests use files directly")]

use esker::Database;
use esker_redis_store::layout::Space;
use esker_redis_store::locks::{Access, Held};
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::string;
use esker_redis_store::{Store, Txn};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Keys of the model are few, so that changes meet.
const KEYS: usize = 300;

type Model = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

const SPACES: [Space; 2] = [Space::Elements, Space::Orders];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.below(KEYS)).into_bytes()
    }
}

fn open(name: &str) -> (PathBuf, Store) {
    let directory = std::env::temp_dir().join(format!("esker-txn-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let database = Database::open(&directory).expect("the database opens");
    (directory, Store::open(database, 4).expect("the store opens"))
}

fn step(txn: &mut Txn<'_>, model: &mut Model, random: &mut Random) {
    let which = random.below(2) as u8;
    let (space, key) = (SPACES[usize::from(which)], random.key());
    match random.below(40) {
        0 => {
            let (start, end) = (random.key(), random.key());
            txn.delete_range(space, start.as_slice()..end.as_slice()).expect("it is deleted");
            model.retain(|(in_space, key), _| *in_space != which || *key < start || *key >= end);
        }
        1 => {
            let end = random.key();
            let found: Vec<_> = txn
                .range(space, key.as_slice()..end.as_slice())
                .map(|entry| entry.expect("it is read"))
                .collect();
            let expected: Vec<_> = model
                .iter()
                .filter(|((in_space, other), _)| *in_space == which && *other >= key && *other < end)
                .collect();
            assert_eq!(found.len(), expected.len());
            for ((found_key, found), ((_, key), value)) in found.iter().zip(expected) {
                assert!(**found_key == **key && **found == **value);
            }
        }
        2..10 => {
            txn.delete(space, &key).expect("it is deleted");
            model.remove(&(which, key));
        }
        10..25 => {
            let value = vec![random.below(256) as u8; random.below(50)];
            txn.put(space, &key, &value).expect("it is put");
            model.insert((which, key), value);
        }
        25..30 => {
            let keys: Vec<_> = (0..5).map(|_| random.key()).collect();
            let found = txn.multi_get(space, &keys).expect("they are read");
            for (key, found) in keys.into_iter().zip(found) {
                assert_eq!(found.as_deref(), model.get(&(which, key)).map(Vec::as_slice));
            }
        }
        _ => {
            let expected = model.get(&(which, key.clone()));
            assert_eq!(txn.contains(space, &key).expect("it is read"), expected.is_some());
            assert_eq!(txn.get(space, &key).expect("it is read").as_deref(), expected.map(Vec::as_slice));
        }
    }
}

#[test]
fn a_transaction_sees_its_own_changes() {
    let (directory, store) = open("model");
    let (mut random, mut model) = (Random(3), Model::new());
    let mut txn = Txn::new(&store, Interest::default());
    for _ in 0..1500 {
        let before = model.clone();
        for _ in 0..random.below(200) {
            step(&mut txn, &mut model, &mut random);
        }
        if random.below(4) == 0 {
            txn.roll_back();
            model = before;
        } else {
            txn.commit(Stalls::Wait).expect("it is written");
        }
        assert!(txn.is_empty());
    }
    drop(txn);
    drop(store);
    std::fs::remove_dir_all(&directory).ok();
}

#[test]
fn records_that_were_looked_up_ahead_give_way_to_changes_and_end_with_the_commit() {
    let (directory, store) = open("ahead");
    let keys: [&[u8]; 5] = [b"a", b"b", b"a", b"c", b"b"];
    let mut txn = Txn::new(&store, Interest::default());
    let mut held = Held::new(&store.stripes);
    held.wait_for(&mut keys.iter().map(|key| store.stripes.of(0, key)).collect(), Access::Exclusive);
    let value = |txn: &mut Txn<'_>, key: &[u8]| {
        let entry = txn.entry(0, key).expect("it is read");
        entry.record().map(|record| record.payload().to_vec())
    };
    txn.look_ahead(0, keys.iter().copied()).expect("they are read");
    let mut entry = txn.entry(0, b"a").expect("it is read");
    string::set(&mut txn, &mut entry, b"1", None).expect("it is set");
    // The lookup of `b` is passed over; the one of `a` is older than the change.
    assert_eq!(value(&mut txn, b"a"), Some(b"1".to_vec()));
    assert_eq!(value(&mut txn, b"c"), None);
    assert_eq!(value(&mut txn, b"b"), None);
    txn.commit(Stalls::Wait).expect("it is written");
    txn.look_ahead(0, keys.iter().copied()).expect("they are read");
    let mut other = Txn::new(&store, Interest::default());
    txn.commit(Stalls::Wait).expect("nothing is written");
    held.free();
    let mut entry = other.entry(0, b"a").expect("it is read");
    string::set(&mut other, &mut entry, b"2", None).expect("it is set");
    other.commit(Stalls::Wait).expect("it is written");
    assert_eq!(value(&mut txn, b"a"), Some(b"2".to_vec()));
    drop((txn, other, held));
    drop(store);
    std::fs::remove_dir_all(&directory).ok();
}
