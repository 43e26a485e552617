//! Transactions, and the one-key operations built on them.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::env::SeededRandom;
use esker::transaction::{CompareAndSet, Isolation, KeyDecision};
use esker::{Database, Durability, Error, Keyspace, Options, Result, Transaction, TransactionOptions};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(dir: &TestDir) -> (Database, Keyspace) {
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn at_snapshot(db: &Database) -> Transaction {
    db.transaction_with(TransactionOptions::default().isolation(Isolation::Snapshot))
}

fn conflicting_key(outcome: Result<esker::SeqNo>) -> Vec<u8> {
    match outcome {
        Err(Error::Conflict(conflict)) => conflict.key.to_vec(),
        other => panic!("a conflict was expected: {other:?}"),
    }
}

#[test]
fn a_transaction_alone_sees_its_own_changes() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    keyspace.put(b"a", b"1").unwrap();
    keyspace.put(b"b", b"1").unwrap();
    let mut tx = db.transaction();
    tx.put(&keyspace, b"a", b"2").unwrap();
    tx.delete(&keyspace, b"b").unwrap();
    tx.put(&keyspace, b"c", b"2").unwrap();
    assert_eq!(tx.get(&keyspace, b"a").unwrap().as_deref(), Some(b"2".as_slice()));
    assert!(!tx.contains(&keyspace, b"b").unwrap());
    let several = tx.multi_get(&keyspace, &[b"c", b"b", b"a", b"d"]).unwrap();
    let several: Vec<_> = several.iter().map(Option::as_deref).collect();
    assert_eq!(several, [Some(b"2".as_slice()), None, Some(b"2"), None]);
    assert_eq!(keyspace.get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(keyspace.iter().count(), 2);
    let last = tx.commit().unwrap();
    assert_eq!(last, db.snapshot().seqno());
    let found: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().0.into_vec()).collect();
    assert_eq!(found, [b"a", b"c"]);
}

/// Own changes over stored entries, in gets and in ranges from both ends, compared with a map.
#[test]
fn ranges_merge_changes_with_the_snapshot() {
    for seed in 0..40 {
        let random = SeededRandom::new(seed);
        let dir = TestDir::new("tx");
        let (db, keyspace) = open(&dir);
        let mut expected = BTreeMap::new();
        for number in 0..random.below(60) {
            let key = key(random.below(40));
            keyspace.put(&key, value(number, 0)).unwrap();
            expected.insert(key, value(number, 0));
        }
        let mut tx = db.transaction();
        keyspace.put(key(7), b"of another writer").unwrap();
        for number in 0..random.below(40) {
            let key = key(random.below(45));
            if random.below(3) == 0 {
                tx.delete(&keyspace, &key).unwrap();
                expected.remove(&key);
            } else {
                tx.put(&keyspace, &key, value(number, 1)).unwrap();
                expected.insert(key, value(number, 1));
            }
        }
        for _ in 0..20 {
            let (low, high) = (random.below(46), random.below(46));
            let bounds = match random.below(4) {
                0 => (Bound::Unbounded, Bound::Excluded(key(high))),
                1 => (Bound::Excluded(key(low.min(high))), Bound::Included(key(low.max(high) + 1))),
                2 => (Bound::Included(key(low.min(high))), Bound::Unbounded),
                _ => (Bound::Included(key(low)), Bound::Excluded(key(high))),
            };
            let is_empty = matches!(&bounds, (Bound::Included(low), Bound::Excluded(high)) if low >= high);
            let mut wanted: Vec<_> =
                if is_empty { Vec::new() } else { expected.range(bounds.clone()).collect() };
            let mut range = tx.range(&keyspace, bounds);
            while !wanted.is_empty() {
                let (entry, (key, value)) = match random.below(2) {
                    0 => (range.next(), wanted.remove(0)),
                    _ => (range.next_back(), wanted.pop().unwrap()),
                };
                let entry = entry.unwrap().unwrap();
                assert_eq!((entry.0.as_ref(), entry.1.as_ref()), (key.as_slice(), value.as_slice()));
            }
            assert!(range.next().is_none() && range.next_back().is_none() && range.next().is_none());
        }
        let prefixed = tx.prefix(&keyspace, "key0000001").count();
        assert_eq!(prefixed, expected.keys().filter(|key| key.starts_with(b"key0000001")).count());
        tx.rollback();
    }
}

#[test]
fn savepoints_take_back_what_came_after_them() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    keyspace.put(b"a", b"0").unwrap();
    let mut tx = db.transaction();
    tx.put(&keyspace, b"a", b"1").unwrap();
    let bytes = tx.memory_bytes();
    let first = tx.savepoint();
    tx.delete(&keyspace, b"a").unwrap();
    tx.put(&keyspace, b"b", b"2").unwrap();
    let second = tx.savepoint();
    tx.put(&keyspace, b"b", b"3").unwrap();
    tx.put(&keyspace, b"b", b"4").unwrap();
    tx.rollback_to(second).unwrap();
    assert_eq!(tx.get(&keyspace, b"b").unwrap().as_deref(), Some(b"2".as_slice()));
    tx.rollback_to(first).unwrap();
    assert_eq!(tx.get(&keyspace, b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(tx.memory_bytes(), bytes, "what was taken back is not counted any more");
    assert!(!tx.contains(&keyspace, b"b").unwrap());
    assert!(
        matches!(tx.rollback_to(second), Err(Error::InvalidArgument(_))),
        "it went with what it followed"
    );
    tx.put(&keyspace, b"c", b"5").unwrap();
    tx.rollback_to(first).unwrap();
    let mut other = db.transaction();
    let strange = other.savepoint();
    assert!(matches!(tx.rollback_to(strange), Err(Error::InvalidArgument(_))));
    tx.commit().unwrap();
    let found: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().1.into_vec()).collect();
    assert_eq!(found, [b"1"]);
}

#[test]
fn memory_is_bounded_and_a_refused_call_changes_nothing() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    keyspace.put(b"a", b"1").unwrap();
    let mut tx = db.transaction_with(TransactionOptions::default().memory_limit(1_000));
    tx.put(&keyspace, b"k", b"v").unwrap();
    assert!(matches!(tx.put(&keyspace, b"big", vec![0; 1_000]), Err(Error::Full(_))));
    assert_eq!(tx.get(&keyspace, b"big").unwrap(), None);
    let mut reads = 0u64;
    while tx.get(&keyspace, key(reads)).is_ok() {
        reads += 1;
        assert!(reads < 20, "reads are remembered, and counted");
    }
    let refused = tx.get(&keyspace, b"a").unwrap_err().to_string();
    assert!(refused.contains("its limit is 1000 bytes"), "{refused}");
    assert!(matches!(tx.range(&keyspace, ..).next(), Some(Err(Error::Full(_)))));
    assert!(tx.get(&keyspace, b"k").unwrap().is_some(), "what is known already can be read");
    assert!(tx.memory_bytes() <= 1_000);
    tx.commit().unwrap();
    assert_eq!(keyspace.iter().count(), 2);
    let again = db.transaction_with(TransactionOptions::default().memory_limit(1_000));
    for _ in 0..10_000 {
        again.get(&keyspace, b"a").unwrap();
        again.get(&keyspace, b"k").unwrap();
    }
    assert!(again.memory_bytes() <= 1_000, "a key that is read again costs nothing more");
    let unlimited = at_snapshot(&db);
    for number in 0..10_000 {
        unlimited.get(&keyspace, key(number)).unwrap();
    }
    assert_eq!(unlimited.memory_bytes(), 0, "a snapshot transaction remembers no reads");
}

#[test]
fn arguments_are_checked() {
    let (dir, other) = (TestDir::new("tx"), TestDir::new("tx"));
    let (db, keyspace) = open(&dir);
    let (_strange_db, strange) = open(&other);
    let mut tx = db.transaction();
    assert!(matches!(tx.put(&strange, b"a", b"1"), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.get(&strange, b"a"), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.put(&keyspace, vec![0; 70_000], b""), Err(Error::InvalidArgument(_))));
    db.close().unwrap();
    assert!(matches!(tx.get(&keyspace, b"a"), Err(Error::Closed)));
    assert!(matches!(tx.commit(), Err(Error::Closed)));
}

/// The read set of a range is the part that was walked.
#[test]
fn a_range_that_was_walked_in_part_is_depended_on_in_part() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    for number in (0..100).step_by(10) {
        keyspace.put(key(number), b"v").unwrap();
    }
    let walk = |forward: usize, backward: usize, changed: u64| {
        let mut tx = db.transaction();
        {
            let mut range = tx.range(&keyspace, key(0)..key(99));
            for _ in 0..forward {
                range.next().unwrap().unwrap();
            }
            for _ in 0..backward {
                range.next_back().unwrap().unwrap();
            }
        }
        keyspace.put(key(changed), b"changed").unwrap();
        keyspace.delete(key(changed)).unwrap();
        if changed.is_multiple_of(10) {
            keyspace.put(key(changed), b"v").unwrap();
        }
        tx.put(&keyspace, b"result", b"").unwrap();
        tx.commit().is_ok()
    };
    // Walked: 0, 10, 20 from the front; 90, 80 from the back.
    for (changed, is_free) in
        [(0, false), (5, false), (20, false), (21, true), (79, true), (80, false), (85, false)]
    {
        assert_eq!(walk(3, 2, changed), is_free, "{changed}");
    }
    assert!(walk(0, 0, 50), "a range that was not walked is not depended on");
    assert!(!walk(10, 0, 50));
    // Beyond the last entry: in the read set only if the walk reached the end.
    assert!(walk(10, 0, 97));
    let tx_all = |changed: u64| {
        let mut tx = db.transaction();
        assert_eq!(tx.range(&keyspace, key(0)..key(99)).count(), 10);
        keyspace.put(key(changed), b"v").unwrap();
        keyspace.delete(key(changed)).unwrap();
        tx.put(&keyspace, b"result", b"").unwrap();
        tx.commit().is_ok()
    };
    assert!(!tx_all(97));
    assert!(tx_all(99), "the upper bound is excluded");
}

/// A range iterator that is forgotten instead of dropped leaves its whole range in the read set.
#[test]
fn a_forgotten_range_is_depended_on_as_a_whole() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let mut tx = db.transaction();
    std::mem::forget(tx.range(&keyspace, ..));
    keyspace.put(b"x", b"1").unwrap();
    tx.put(&keyspace, b"a", b"1").unwrap();
    assert_eq!(conflicting_key(tx.commit()), b"x");
}

/// A conflicting change is found wherever it is: in the active memtable, a sealed one, a table above, the
/// last level.
#[test]
fn a_change_is_found_in_memtables_and_at_every_level() {
    type Move = fn(&Database);
    let moves: [Move; 4] = [
        |_| (),
        |db| db.flush().unwrap(),
        |db| db.compact_all().unwrap(),
        |db| {
            db.compact_all().unwrap();
            for number in 0..2_000 {
                db.default_keyspace().put(key(number), value(number, 1)).unwrap();
            }
            db.drain().unwrap();
        },
    ];
    for (at, upheaval) in moves.iter().enumerate() {
        for is_delete in [false, true] {
            let dir = TestDir::new("tx");
            let (db, keyspace) = open(&dir);
            for number in 0..500 {
                keyspace.put(key(number), value(number, 0)).unwrap();
            }
            db.compact_all().unwrap();
            let (mut point, mut range, mut blind) = (db.transaction(), db.transaction(), at_snapshot(&db));
            let mut free = db.transaction();
            point.get(&keyspace, key(250)).unwrap();
            assert_eq!(range.range(&keyspace, key(240)..key(260)).count(), 20);
            blind.put(&keyspace, key(250), b"blind").unwrap();
            free.get(&keyspace, key(251)).unwrap();
            assert_eq!(free.range(&keyspace, key(0)..key(250)).count(), 250);
            for tx in [&mut point, &mut range, &mut free] {
                tx.put(&keyspace, format!("result {}", tx.memory_bytes()), b"").unwrap();
            }
            if is_delete {
                keyspace.delete(key(250)).unwrap();
            } else {
                keyspace.put(key(250), b"changed").unwrap();
            }
            upheaval(&db);
            for tx in [point, range, blind] {
                assert_eq!(conflicting_key(tx.commit()), key(250), "move {at}, delete {is_delete}");
            }
            free.commit().unwrap();
        }
    }
}

/// Read sets of far more entries than may be validated under the commit lock.
#[test]
fn large_read_sets_are_validated_outside_of_the_lock() {
    let dir = TestDir::new("tx");
    let db = Database::open(dir.path()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for number in 0..30_000 {
        keyspace.put(key(number), b"v").unwrap();
    }
    let mut scan = db.transaction();
    assert_eq!(scan.range(&keyspace, ..key(29_000)).count(), 29_000);
    let mut points = db.transaction();
    for number in 0..29_000 {
        points.get(&keyspace, key(number)).unwrap();
    }
    for tx in [&mut scan, &mut points] {
        tx.put(&keyspace, key(29_500), b"result").unwrap();
    }
    let mut beaten = db.transaction();
    assert_eq!(beaten.range(&keyspace, ..).count(), 30_000);
    beaten.put(&keyspace, b"z", b"").unwrap();
    keyspace.put(key(29_001), b"changed").unwrap();
    scan.commit().unwrap();
    assert_eq!(conflicting_key(points.commit()), key(29_500));
    assert_eq!(conflicting_key(beaten.commit()), key(29_001));
}

#[test]
fn a_transaction_that_changed_nothing_always_commits() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    keyspace.put(b"a", b"1").unwrap();
    let tx = db.transaction();
    let before = tx.seqno();
    assert!(tx.get_for_update(&keyspace, b"a").unwrap().is_some());
    keyspace.put(b"a", b"2").unwrap();
    assert_eq!(tx.commit().unwrap(), before);
}

#[test]
fn commits_survive_reopening_over_all_keyspaces() {
    let dir = TestDir::new("tx");
    {
        let db = Database::open_with(dir.path(), Options::default().flush_on_close(false)).unwrap();
        let (left, right) = (db.keyspace("left").unwrap(), db.keyspace("right").unwrap());
        let options = TransactionOptions::default().durability(Durability::Power);
        let mut tx = db.transaction_with(options);
        tx.put(&left, b"a", b"1").unwrap();
        tx.put(&right, b"a", b"2").unwrap();
        tx.commit().unwrap();
        let metrics = db.metrics();
        assert_eq!(metrics.durable_seqno, metrics.visible_seqno);
        let mut lost = db.transaction();
        lost.put(&left, b"b", b"1").unwrap();
        drop(lost);
    }
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.keyspace("left").unwrap().iter().count(), 1);
    assert!(db.keyspace("right").unwrap().contains(b"a").unwrap());
}

#[test]
fn keyspaces_that_are_dropped_or_renamed_under_a_transaction() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let other = db.keyspace("other").unwrap();
    let (mut writer, mut reader, mut renamed) = (db.transaction(), db.transaction(), db.transaction());
    writer.put(&other, b"a", b"1").unwrap();
    assert!(!reader.contains(&other, b"a").unwrap());
    reader.put(&keyspace, b"a", b"1").unwrap();
    renamed.get(&keyspace, b"b").unwrap();
    renamed.put(&keyspace, b"c", b"1").unwrap();
    db.drop_keyspace("other").unwrap();
    assert!(matches!(reader.get(&other, b"b"), Err(Error::NotFound(_))));
    for tx in [writer, reader] {
        assert!(matches!(tx.commit(), Err(Error::NotFound(_))), "what it depends on is gone");
    }
    db.rename_keyspace("k", "new name").unwrap();
    keyspace.put(b"b", b"2").unwrap();
    assert!(renamed.commit().unwrap_err().to_string().contains("keyspace \"new name\""));
    assert_eq!(keyspace.iter().count(), 1);
}

#[test]
fn transact_tries_again_and_gives_up_at_its_limit() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let mut runs = 0u64;
    let options = TransactionOptions::default().attempts(4);
    let outcome = db.transact_with(options, |tx| {
        runs += 1;
        tx.get(&keyspace, b"a")?;
        keyspace.put(b"a", runs.to_be_bytes())?;
        tx.put(&keyspace, b"b", b"")
    });
    assert!(outcome.unwrap_err().is_conflict());
    assert_eq!((runs, keyspace.contains(b"b").unwrap()), (4, false));
    let outcome = db.transact(|tx| {
        runs += 1;
        let seen = tx.get(&keyspace, b"a")?;
        if runs < 7 {
            keyspace.put(b"a", runs.to_be_bytes())?;
        }
        tx.put(&keyspace, b"b", seen.unwrap_or_else(|| panic!("it was put above")))?;
        Ok(runs)
    });
    assert_eq!(outcome.unwrap(), 7);
    assert_eq!(keyspace.get(b"b").unwrap().as_deref(), Some(6u64.to_be_bytes().as_slice()));
    let refused = db.transact(|tx| {
        tx.put(&keyspace, b"c", b"")?;
        Err::<(), _>(Error::invalid("no"))
    });
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    assert!(!keyspace.contains(b"c").unwrap());
}

#[test]
fn one_key_operations() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let text = |found: Option<esker::Value>| found.map(|found| String::from_utf8(found.to_vec()).unwrap());
    let differs = |outcome: CompareAndSet| match outcome {
        CompareAndSet::Differs(found) => text(found),
        CompareAndSet::Set => panic!("it was set"),
    };
    for upheaval in [false, true] {
        let turn = || {
            if upheaval {
                db.compact_all().unwrap();
            }
        };
        assert!(keyspace.compare_and_set(b"a", None, Some(b"1")).unwrap().is_set());
        turn();
        assert_eq!(differs(keyspace.compare_and_set(b"a", None, Some(b"2")).unwrap()), Some("1".into()));
        assert_eq!(
            differs(keyspace.compare_and_set(b"a", Some(b"3"), Some(b"2")).unwrap()),
            Some("1".into())
        );
        assert!(keyspace.compare_and_set(b"a", Some(b"1"), Some(b"2")).unwrap().is_set());
        assert_eq!(text(keyspace.put_if_absent(b"a", b"x").unwrap()), Some("2".into()));
        turn();
        assert!(keyspace.compare_and_set(b"a", Some(b"2"), None).unwrap().is_set());
        assert_eq!(differs(keyspace.compare_and_set(b"a", Some(b"2"), None).unwrap()), None);
        assert!(keyspace.compare_and_set(b"a", None, None).unwrap().is_set());
        turn();
        assert_eq!(keyspace.put_if_absent(b"a", b"x").unwrap(), None);
        let old = keyspace.fetch_update(b"a", |value| value.map(|value| [value, b"y"].concat())).unwrap();
        assert_eq!((text(old), text(keyspace.get(b"a").unwrap())), (Some("x".into()), Some("xy".into())));
        assert_eq!(text(keyspace.fetch_update(b"a", |_| None).unwrap()), Some("xy".into()));
        assert_eq!(keyspace.fetch_update(b"a", |value| value.map(<[u8]>::to_vec)).unwrap(), None);
        assert!(!keyspace.contains(b"a").unwrap());
    }
}

/// The number that a change tells is that of its batch among the changes; one that writes nothing has none.
#[test]
fn a_change_of_one_key_tells_its_sequence_number() {
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    keyspace.put(b"other", b"1").unwrap();
    let before = db.snapshot().seqno();
    let put = |value: &[u8]| KeyDecision::Put(value.to_vec());
    let kept = keyspace.change(b"a", |_| KeyDecision::Keep).unwrap();
    assert_eq!((kept.before, kept.seqno, db.snapshot().seqno()), (None, None, before));
    let mut told = Vec::new();
    let mut runs = 0;
    let mut change = |decision: &dyn Fn(Option<&[u8]>) -> KeyDecision| {
        let changed = keyspace.change(b"a", |value| {
            runs += 1;
            decision(value)
        });
        let changed = changed.unwrap();
        told.extend(changed.seqno);
        changed.before.map(|before| before.to_vec())
    };
    assert_eq!(change(&|_| put(b"1")), None);
    assert_eq!(change(&|value| put(&[value.unwrap(), b"2"].concat())), Some(b"1".to_vec()));
    assert_eq!(change(&|_| KeyDecision::Delete), Some(b"12".to_vec()));
    // A delete of nothing is a write as well.
    assert_eq!(change(&|_| KeyDecision::Delete), None);
    assert_eq!(runs, 4, "nothing came between");
    assert!(told.is_sorted() && told[0] > before, "{told:?}");
    let mut changes = db.changes_since(before).unwrap();
    for seqno in &told {
        let batch = changes.try_next().unwrap().unwrap();
        assert_eq!((batch.first_seqno(), batch.last_seqno()), (*seqno, *seqno));
    }
}

/// Of two changes that meet, the one that is decided anew sees the other's value, and has the later number.
#[test]
fn a_change_that_is_decided_anew_tells_the_number_of_what_it_wrote() {
    let dir = TestDir::new("tx");
    let (_db, keyspace) = open(&dir);
    let mut between = None;
    let changed = keyspace.change(b"a", |value| {
        if value.is_none() {
            between = keyspace.change(b"a", |_| KeyDecision::Put(b"b".to_vec())).unwrap().seqno;
        }
        KeyDecision::Put([value.unwrap_or_default(), b"c"].concat())
    });
    let changed = changed.unwrap();
    assert_eq!(changed.before.as_deref(), Some(b"b".as_slice()));
    assert!(between.is_some() && changed.seqno > between, "{changed:?} {between:?}");
    assert_eq!(keyspace.get(b"a").unwrap().as_deref(), Some(b"bc".as_slice()));
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

/// No increment is lost, and no two see the same number: the returned numbers are all distinct.
#[test]
fn counters_by_fetch_update() {
    const THREADS: u64 = 4;
    const UPDATES: u64 = 3_000;
    const COUNTERS: u64 = 3;
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let seen: Vec<AtomicU64> = (0..COUNTERS * THREADS * UPDATES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (keyspace, seen, db) = (&keyspace, &seen, &db);
            scope.spawn(move || {
                let mut last = [None; COUNTERS as usize];
                for update in 0..UPDATES {
                    let counter = (update + thread) % COUNTERS;
                    let old = keyspace
                        .fetch_update(key(counter), |value| Some((number(value) + 1).to_be_bytes().to_vec()));
                    let old = number(old.unwrap().as_deref());
                    assert!(last[counter as usize] < Some(old), "a counter went back");
                    last[counter as usize] = Some(old);
                    seen[(counter * THREADS * UPDATES + old) as usize].fetch_add(1, Ordering::Relaxed);
                    if update % 1_000 == 999 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    let mut total = 0;
    for counter in 0..COUNTERS {
        let count = number(keyspace.get(key(counter)).unwrap().as_deref());
        let of = &seen[(counter * THREADS * UPDATES) as usize..][..count as usize];
        assert!(of.iter().all(|times| times.load(Ordering::Relaxed) == 1), "each number is given once");
        total += count;
    }
    assert_eq!(total, THREADS * UPDATES);
}

/// Transfers between accounts keep the sum at every moment: for snapshots, and for scans inside a transaction
/// that also writes what it found.
#[test]
fn transfers_keep_the_sum() {
    const THREADS: u64 = 4;
    const TRANSFERS: u64 = 2_000;
    const ACCOUNTS: u64 = 12;
    let dir = TestDir::new("tx");
    let (db, keyspace) = open(&dir);
    let sums = db.keyspace("sums").unwrap();
    for account in 0..ACCOUNTS {
        keyspace.put(key(account), 100u64.to_be_bytes()).unwrap();
    }
    let moved = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, keyspace, sums, moved) = (&db, &keyspace, &sums, &moved);
            scope.spawn(move || {
                let random = SeededRandom::new(thread);
                for transfer in 0..TRANSFERS {
                    if transfer % 50 == 7 {
                        let sum = db.transact(|tx| {
                            let entries = tx.range(keyspace, ..).collect::<Result<Vec<_>>>()?;
                            let sum: u64 = entries.iter().map(|(_, value)| number(Some(value))).sum();
                            tx.put(sums, key(thread), sum.to_be_bytes())?;
                            Ok(sum)
                        });
                        assert_eq!(sum.unwrap(), 100 * ACCOUNTS);
                    }
                    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                    let amount = random.below(30);
                    let is_moved = db.transact(|tx| {
                        let held = number(tx.get(keyspace, key(from))?.as_deref());
                        if held < amount || from == to {
                            return Ok(false);
                        }
                        let other = number(tx.get(keyspace, key(to))?.as_deref());
                        tx.put(keyspace, key(from), (held - amount).to_be_bytes())?;
                        tx.put(keyspace, key(to), (other + amount).to_be_bytes())?;
                        Ok(true)
                    });
                    moved.fetch_add(u64::from(is_moved.unwrap()), Ordering::Relaxed);
                    if transfer % 500 == 499 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    let sum: u64 = keyspace.iter().map(|entry| number(Some(&entry.unwrap().1))).sum();
    assert_eq!(sum, 100 * ACCOUNTS);
    assert!(moved.load(Ordering::Relaxed) > TRANSFERS);
}
