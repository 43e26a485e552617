//! Cursors of transactions: what they show of their own changes and of the snapshot, changes while they are
//! scanned, and what the transaction then depends on.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::env::SeededRandom;
use esker::transaction::{Isolation, TransactionCursor};
use esker::{Database, Error, Keyspace, MergeOperator, Options, TransactionOptions};
use std::collections::BTreeMap;
use std::ops::Bound;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(dir: &TestDir) -> (Database, Keyspace) {
    let options = tiny().merge_operator(MergeOperator::append(","));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(options)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn entry(cursor: &TransactionCursor<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// Changes a key in the map as in the transaction.
fn change(cursor: &mut TransactionCursor<'_>, keyspace: &Keyspace, map: &mut Map, random: &SeededRandom) {
    let (key, new) = (key(random.below(45)), value(random.below(100), 2));
    match random.below(6) {
        0 => {
            cursor.transaction().put(keyspace, &key, &new).unwrap();
            map.insert(key, new);
        }
        1 => {
            cursor.transaction().delete(keyspace, &key).unwrap();
            map.remove(&key);
        }
        2 => {
            cursor.transaction().merge(keyspace, &key, &new).unwrap();
            let merged = map.get(&key).map(|old| [old.as_slice(), b",", &new].concat());
            map.insert(key, merged.unwrap_or(new));
        }
        3 if cursor.key().is_some() => {
            map.insert(cursor.key().unwrap().to_vec(), new.clone());
            cursor.put(&new).unwrap();
        }
        4 if cursor.key().is_some() => {
            map.remove(cursor.key().unwrap());
            cursor.delete().unwrap();
        }
        _ => {}
    }
}

#[test]
fn a_cursor_walks_over_what_the_transaction_sees_and_changes() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let dir = TestDir::new("tx-cursor");
        let (db, keyspace) = open(&dir);
        let mut map = Map::new();
        for number in 0..random.below(60) {
            let key = key(random.below(40));
            keyspace.put(&key, value(number, 0)).unwrap();
            map.insert(key, value(number, 0));
        }
        let mut tx = db.transaction();
        keyspace.put(key(7), b"of another writer").unwrap();
        let (lower, upper) = match random.below(3) {
            0 => (Bound::Unbounded, Bound::Unbounded),
            1 => (Bound::Included(key(random.below(20))), Bound::Excluded(key(20 + random.below(20)))),
            _ => (Bound::Excluded(key(random.below(20))), Bound::Included(key(20 + random.below(20)))),
        };
        let mut cursor = tx.cursor_in(&keyspace, (lower.clone(), upper.clone())).unwrap();
        assert!(cursor.delete().is_err(), "there is no entry before the first seek");
        for _ in 0..150 {
            change(&mut cursor, &keyspace, &mut map, &random);
            let within = map.range::<Vec<u8>, _>((lower.clone(), upper.clone()));
            let within: Vec<(Vec<u8>, Vec<u8>)> = within.map(|(k, v)| (k.clone(), v.clone())).collect();
            let at = cursor.key().map(<[u8]>::to_vec);
            let target = key(random.below(45));
            let expected = match (random.below(8), at) {
                (0, _) => (cursor.seek_to_first().unwrap(), within.first()).1,
                (1, _) => (cursor.seek_to_last().unwrap(), within.last()).1,
                (2, _) => {
                    cursor.seek(&target).unwrap();
                    within.iter().find(|(key, _)| *key >= target)
                }
                (3, _) => {
                    cursor.seek_for_prev(&target).unwrap();
                    within.iter().rev().find(|(key, _)| *key <= target)
                }
                (4 | 5, at) => {
                    cursor.advance().unwrap();
                    at.and_then(|at| within.iter().find(|(key, _)| *key > at))
                }
                (_, at) => {
                    cursor.retreat().unwrap();
                    at.and_then(|at| within.iter().rev().find(|(key, _)| *key < at))
                }
            };
            assert_eq!(entry(&cursor).as_ref(), expected, "seed {seed}");
        }
        drop(cursor);
        let seen: Map = tx.iter(&keyspace).map(|e| e.unwrap()).map(|(k, v)| (k.into(), v.into())).collect();
        assert_eq!(seen, map);
    }
}

/// Conflicts by where another writer changed a key: the walk, from the seek to where it ended.
#[test]
fn a_cursor_depends_on_what_it_walked_over() {
    let dir = TestDir::new("tx-cursor");
    let (db, keyspace) = open(&dir);
    for number in (0..100).step_by(10) {
        keyspace.put(key(number), b"v").unwrap();
    }
    let is_free = |walk: &dyn Fn(&mut TransactionCursor<'_>), changed: u64, isolation: Isolation| {
        let mut tx = db.transaction_with(TransactionOptions::default().isolation(isolation));
        walk(&mut tx.cursor_in(&keyspace, key(0)..key(99)).unwrap());
        keyspace.put(key(changed), b"v").unwrap();
        if !changed.is_multiple_of(10) {
            keyspace.delete(key(changed)).unwrap();
        }
        tx.put(&keyspace, b"result", b"").unwrap();
        tx.commit().is_ok()
    };
    type Walk = fn(&mut TransactionCursor<'_>);
    let there_and_back: Walk = |cursor| {
        cursor.seek(key(35)).unwrap();
        cursor.advance().unwrap();
        (0..3).for_each(|_| cursor.retreat().unwrap());
    };
    let two_walks: Walk = |cursor| {
        cursor.seek_to_first().unwrap();
        cursor.advance().unwrap();
        cursor.seek_for_prev(key(75)).unwrap();
    };
    let to_the_end: Walk = |cursor| {
        cursor.seek(key(85)).unwrap();
        while cursor.key().is_some() {
            cursor.advance().unwrap();
        }
    };
    let outside: Walk = |cursor| cursor.seek(key(200)).unwrap();
    for (walk, changed, expected) in [
        (there_and_back, 19, true),
        (there_and_back, 20, false),
        (there_and_back, 33, false),
        (there_and_back, 50, false),
        (there_and_back, 51, true),
        (two_walks, 0, false),
        (two_walks, 10, false),
        (two_walks, 11, true),
        (two_walks, 69, true),
        (two_walks, 72, false),
        (two_walks, 76, true),
        (to_the_end, 84, true),
        (to_the_end, 85, false),
        (to_the_end, 98, false),
        (to_the_end, 99, true),
        (outside, 98, true),
    ] {
        assert_eq!(is_free(&walk, changed, Isolation::Serializable), expected, "{changed}");
        assert!(is_free(&walk, changed, Isolation::Snapshot));
    }
    let forgotten = |cursor: &mut TransactionCursor<'_>| cursor.seek_to_first().unwrap();
    let mut tx = db.transaction();
    let mut cursor = tx.cursor(&keyspace).unwrap();
    forgotten(&mut cursor);
    std::mem::forget(cursor);
    keyspace.put(key(97), b"v").unwrap();
    tx.put(&keyspace, b"result", b"").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict(), "a forgotten cursor depends on its whole range");
}

#[test]
fn a_swapped_transaction_keeps_what_it_depends_on() {
    let dir = TestDir::new("tx-cursor");
    let (db, keyspace) = open(&dir);
    let mut tx = db.transaction();
    let mut cursor = tx.cursor(&keyspace).unwrap();
    cursor.seek_to_first().unwrap();
    let mut first = std::mem::replace(cursor.transaction(), db.transaction());
    drop(cursor);
    keyspace.put(b"x", b"1").unwrap();
    first.put(&keyspace, b"a", b"1").unwrap();
    assert!(first.commit().unwrap_err().is_conflict());
    tx.put(&keyspace, b"a", b"1").unwrap();
    tx.commit().unwrap();
}

#[test]
fn cursors_check_the_keyspace_and_the_limit() {
    let (dir, other_dir) = (TestDir::new("tx-cursor"), TestDir::new("tx-cursor"));
    let ((db, keyspace), (_other, foreign)) = (open(&dir), open(&other_dir));
    assert!(matches!(db.transaction().cursor(&foreign), Err(Error::InvalidArgument(_))));
    keyspace.put("a", "1").unwrap();
    let mut tx = db.transaction_with(TransactionOptions::default().memory_limit(250));
    let mut cursor = tx.cursor(&keyspace).unwrap();
    let refused = (0..10).find_map(|_| cursor.seek("a").err());
    assert!(matches!(refused, Some(Error::Full(_))), "each seek is remembered: {refused:?}");
    assert_eq!(cursor.entry(), None);
}
