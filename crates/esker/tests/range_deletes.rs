//! Range deletes where stores tend to fail: between snapshots, at flushes and compactions, at table bounds,
//! over reopening, backwards, overlapping, and under later writes.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny};
use esker::options::MemtableKind;
use esker::{Database, Error, Keyspace, Options, Snapshot, WriteBatch};
use std::ops::Bound;

fn open(dir: &TestDir) -> Database {
    Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap()
}

/// Puts the numbers of a range, with a text for the round.
fn fill(db: &Database, numbers: std::ops::Range<u64>, round: &str) {
    for number in numbers {
        db.default_keyspace().put(key(number), format!("{number} {round}")).unwrap();
    }
}

fn number_of(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[3..]).unwrap().parse().unwrap()
}

/// The numbers that a reader finds, by every kind of read.
fn numbers(keyspace: &Keyspace, snapshot: Option<&Snapshot>, up_to: u64) -> Vec<u64> {
    let range = || match snapshot {
        None => keyspace.iter(),
        Some(snapshot) => keyspace.at(snapshot).iter(),
    };
    let forward: Vec<u64> = range().map(|entry| number_of(&entry.unwrap().0)).collect();
    let mut backward: Vec<u64> = range().rev().map(|entry| number_of(&entry.unwrap().0)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let keys: Vec<Vec<u8>> = (0..up_to).map(key).collect();
    let found = match snapshot {
        None => keyspace.multi_get(&keys),
        Some(snapshot) => keyspace.at(snapshot).multi_get(&keys),
    };
    let found: Vec<bool> = found.unwrap().iter().map(Option::is_some).collect();
    for (number, found) in found.iter().enumerate() {
        let got = match snapshot {
            None => keyspace.get(&keys[number]),
            Some(snapshot) => keyspace.at(snapshot).get(&keys[number]),
        };
        assert_eq!(
            (got.unwrap().is_some(), *found),
            (*found, forward.contains(&(number as u64))),
            "{number}"
        );
    }
    let mut cursor = match snapshot {
        None => keyspace.cursor().unwrap(),
        Some(snapshot) => keyspace.at(snapshot).cursor().unwrap(),
    };
    for number in (0..up_to).step_by(37) {
        cursor.seek(key(number)).unwrap();
        let next = forward.iter().copied().find(|&found| found >= number);
        assert_eq!(cursor.key().map(number_of), next, "seek {number}");
        cursor.seek_for_prev(key(number)).unwrap();
        let before = forward.iter().copied().rfind(|&found| found <= number);
        assert_eq!(cursor.key().map(number_of), before, "seek back {number}");
    }
    forward
}

fn without(all: std::ops::Range<u64>, gone: std::ops::Range<u64>) -> Vec<u64> {
    all.filter(|number| !gone.contains(number)).collect()
}

#[test]
fn a_snapshot_in_between_is_unchanged() {
    let dir = TestDir::new("ranges-snapshot");
    let db = open(&dir);
    let ks = db.default_keyspace();
    fill(&db, 0..400, "old");
    let before = db.snapshot();
    ks.delete_range(key(100)..key(300)).unwrap();
    let between = db.snapshot();
    fill(&db, 150..160, "new");
    let left: Vec<u64> = (0..100).chain(150..160).chain(300..400).collect();
    let check = |state: &str| {
        assert_eq!(numbers(ks, None, 400), left, "{state}");
        assert_eq!(numbers(ks, Some(&between), 400), without(0..400, 100..300), "{state}");
        assert_eq!(numbers(ks, Some(&before), 400), (0..400).collect::<Vec<_>>(), "{state}");
        assert_eq!(&*ks.get(key(155)).unwrap().unwrap(), b"155 new");
        assert_eq!(&*ks.at(&before).get(key(155)).unwrap().unwrap(), b"155 old");
    };
    check("in memory");
    db.flush().unwrap();
    check("flushed");
    ks.compact(..).unwrap();
    check("compacted");
    drop(before);
    ks.compact(..).unwrap();
    assert_eq!(numbers(ks, Some(&between), 400), without(0..400, 100..300));
    drop(between);
    ks.compact(..).unwrap();
    assert_eq!(numbers(ks, None, 400), left);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_compaction_removes_deleted_ranges_and_their_tombstones() {
    let dir = TestDir::new("ranges-compact");
    let db = open(&dir);
    let ks = db.default_keyspace();
    fill(&db, 0..1000, "old");
    db.drain().unwrap();
    ks.delete_range(key(10)..=key(989)).unwrap();
    assert_eq!(numbers(ks, None, 1000), without(0..1000, 10..990));
    db.flush().unwrap();
    assert!(db.metrics().keyspaces[0].range_deletes > 0);
    ks.compact(..).unwrap();
    let metrics = db.metrics();
    let (ranges, entries) = (metrics.keyspaces[0].range_deletes, metrics.keyspaces[0].table_entries);
    assert_eq!((ranges, entries), (0, 20));
    assert_eq!(numbers(ks, None, 1000), without(0..1000, 10..990));
}

#[test]
fn tables_are_cut_through_range_deletes() {
    let dir = TestDir::new("ranges-borders");
    let db = open(&dir);
    let ks = db.default_keyspace();
    fill(&db, 0..2000, "old");
    db.drain().unwrap();
    // Older than the snapshot, so that compactions keep it, over the bounds of many tables.
    let snapshot = db.snapshot();
    ks.delete_range(key(100)..key(1900)).unwrap();
    for number in (0..2000).step_by(3) {
        db.default_keyspace().put(key(number), b"new").unwrap();
    }
    ks.compact(..).unwrap();
    let expected: Vec<u64> =
        (0..2000).filter(|number| number % 3 == 0 || !(100..1900).contains(number)).collect();
    assert_eq!(numbers(ks, None, 2000), expected);
    assert_eq!(numbers(ks, Some(&snapshot), 2000).len(), 2000);
    let levels = db.levels();
    let runs = levels[0].levels.iter().flat_map(|level| &level.runs);
    let holding = runs.flat_map(|run| &run.tables).filter(|table| table.range_deletes > 0).count();
    assert!(holding > 3, "{holding} tables hold a piece");
    assert!(db.verify().unwrap().is_clean());
    drop(snapshot);
    // Parts of the key space, so that tables are consumed in slices.
    for from in (0..2000).step_by(170) {
        ks.compact(key(from)..key(from + 90)).unwrap();
        assert_eq!(numbers(ks, None, 2000), expected);
    }
}

#[test]
fn every_state_survives_reopening() {
    for kind in MemtableKind::ALL {
        for (flush_on_close, flush_before) in [(false, false), (false, true), (true, false)] {
            let dir = TestDir::new("ranges-reopen");
            let options =
                || Options::default().keyspace_options(tiny().memtable(kind)).flush_on_close(flush_on_close);
            let expected = without(0..500, 50..450);
            {
                let db = Database::open_with(dir.path(), options()).unwrap();
                fill(&db, 0..500, "old");
                if flush_before {
                    db.flush().unwrap();
                }
                db.default_keyspace().delete_range(key(50)..key(450)).unwrap();
                assert_eq!(numbers(db.default_keyspace(), None, 500), expected);
                db.close().unwrap();
            }
            {
                let db = Database::open_with(dir.path(), options().read_only(true)).unwrap();
                assert_eq!(numbers(db.default_keyspace(), None, 500), expected, "read-only");
                assert!(matches!(
                    db.default_keyspace().delete_range(key(0)..key(1)),
                    Err(Error::ReadOnly { .. })
                ));
            }
            let db = Database::open_with(dir.path(), options()).unwrap();
            assert_eq!(numbers(db.default_keyspace(), None, 500), expected);
            db.default_keyspace().compact(..).unwrap();
            assert_eq!(numbers(db.default_keyspace(), None, 500), expected);
        }
    }
}

#[test]
fn a_table_of_range_deletes_alone() {
    let dir = TestDir::new("ranges-alone");
    {
        let db = open(&dir);
        let ks = db.default_keyspace();
        fill(&db, 0..300, "old");
        db.drain().unwrap();
        let snapshot = db.snapshot();
        ks.delete_range(key(20)..).unwrap();
        db.flush().unwrap();
        let levels = db.levels();
        let table = &levels[0].levels[0].runs[0].tables[0];
        assert_eq!((table.entries, table.range_deletes, table.largest.len()), (0, 1, 0));
        assert_eq!(numbers(ks, None, 300), (0..20).collect::<Vec<_>>());
        assert_eq!(numbers(ks, Some(&snapshot), 300).len(), 300);
        assert!(db.verify().unwrap().is_clean());
    }
    let db = open(&dir);
    assert_eq!(numbers(db.default_keyspace(), None, 300), (0..20).collect::<Vec<_>>());
    // A compaction leaves nothing below it.
    db.default_keyspace().compact(..).unwrap();
    assert_eq!(db.metrics().keyspaces[0].range_deletes, 0);
    assert_eq!(numbers(db.default_keyspace(), None, 300), (0..20).collect::<Vec<_>>());
}

#[test]
fn range_deletes_over_each_other_and_under_later_writes() {
    let dir = TestDir::new("ranges-overlap");
    let db = open(&dir);
    let ks = db.default_keyspace();
    fill(&db, 0..600, "first");
    ks.delete_range(key(100)..key(300)).unwrap();
    db.flush().unwrap();
    fill(&db, 200..400, "second");
    ks.delete_range(key(250)..key(350)).unwrap();
    ks.delete_range(key(240)..key(260)).unwrap();
    fill(&db, 245..250, "third");
    let mut batch = db.batch();
    batch.put(ks, key(500), "lost");
    batch.delete_range(ks, key(490)..=key(510));
    batch.put(ks, key(505), "kept");
    batch.delete_range(ks, "z".."a");
    assert_eq!(batch.len(), 3, "an empty range writes nothing");
    db.write(&batch).unwrap();
    let expected: Vec<u64> =
        (0..100).chain(200..240).chain(245..250).chain(350..490).chain([505]).chain(511..600).collect();
    let check = || {
        assert_eq!(numbers(ks, None, 600), expected);
        assert_eq!(&*ks.get(key(505)).unwrap().unwrap(), b"kept");
        assert_eq!(&*ks.get(key(246)).unwrap().unwrap(), b"246 third");
        assert_eq!(&*ks.get(key(390)).unwrap().unwrap(), b"390 second");
    };
    check();
    db.flush().unwrap();
    check();
    ks.compact(..).unwrap();
    check();
}

#[test]
fn every_kind_of_bound() {
    let dir = TestDir::new("ranges-bounds");
    let db = open(&dir);
    let ks = db.default_keyspace();
    let reset = || fill(&db, 0..10, "x");
    let excluded = (Bound::Excluded(key(3)), Bound::Included(key(5)));
    reset();
    ks.delete_range(excluded).unwrap();
    assert_eq!(numbers(ks, None, 10), [0, 1, 2, 3, 6, 7, 8, 9]);
    reset();
    ks.delete_range(..key(3)).unwrap();
    assert_eq!(numbers(ks, None, 10), [3, 4, 5, 6, 7, 8, 9]);
    reset();
    ks.delete_range(key(4)..).unwrap();
    assert_eq!(numbers(ks, None, 10), [0, 1, 2, 3]);
    ks.put("", "the least key").unwrap();
    ks.delete_range(.."").unwrap();
    assert!(ks.contains("").unwrap());
    ks.delete_range(..).unwrap();
    assert!(ks.first().unwrap().is_none() && ks.last().unwrap().is_none());
    let long = vec![0xff; 65_535];
    ks.put(&long, "the greatest key").unwrap();
    ks.delete_range(key(0)..=long.clone()).unwrap();
    assert!(!ks.contains(&long).unwrap());
    ks.put(&long, "again").unwrap();
    ks.delete_range(..long.clone()).unwrap();
    assert!(ks.contains(&long).unwrap());
    db.flush().unwrap();
    assert!(ks.contains(&long).unwrap());
    let too_long = vec![1; 65_536];
    assert!(matches!(ks.delete_range(too_long..), Err(Error::InvalidArgument(_))));
    let mut batch = db.batch();
    for number in 0..1025 {
        batch.delete_range(ks, key(number)..key(number + 1));
    }
    assert!(matches!(db.write(&batch), Err(Error::InvalidArgument(_))));
}

/// More range deletes than fit one memtable.
#[test]
fn many_range_deletes_seal_memtables() {
    let dir = TestDir::new("ranges-many");
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let ks = db.default_keyspace();
    fill(&db, 0..3000, "x");
    for number in (0..3000).step_by(2) {
        ks.delete_range(key(number)..key(number + 1)).unwrap();
    }
    let odd: Vec<u64> = (0..3000).filter(|number| number % 2 == 1).collect();
    assert_eq!(ks.iter().map(|entry| number_of(&entry.unwrap().0)).collect::<Vec<_>>(), odd);
    db.drain().unwrap();
    assert_eq!(ks.iter().map(|entry| number_of(&entry.unwrap().0)).collect::<Vec<_>>(), odd);
}

/// A batch takes as many as the constant says; one more is refused by the error that names it.
#[test]
fn a_batch_takes_the_range_deletes_that_the_constant_says() {
    let dir = TestDir::new("ranges-batch");
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let ks = db.default_keyspace();
    let most = WriteBatch::MAX_RANGE_DELETES;
    fill(&db, 0..2 * most, "x");
    let mut batch = db.batch();
    for number in 0..most {
        batch.delete_range(ks, key(2 * number)..key(2 * number + 1));
    }
    db.write(&batch).unwrap();
    assert_eq!(ks.iter().count() as u64, most);
    batch.delete_range(ks, key(1)..key(2));
    let refused = db.write(&batch).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)));
    let text = refused.to_string();
    assert!(text.contains("MAX_RANGE_DELETES") && text.contains(&most.to_string()), "{text}");
    assert_eq!(ks.iter().count() as u64, most, "nothing of a refused batch is written");
}

/// For transactions, too, a range delete changes every key in its range.
#[test]
fn transactions_notice_range_deletes() {
    let dir = TestDir::new("ranges-transactions");
    let db = open(&dir);
    let ks = db.default_keyspace();
    fill(&db, 0..100, "x");
    for flushed in [false, true] {
        for (from, to, conflicts) in [(10, 20, true), (15, 16, true), (20, 30, false)] {
            let mut reader = db.transaction();
            reader.get(ks, key(15)).unwrap();
            reader.put(ks, key(1000), b"1").unwrap();
            let mut scanner = db.transaction();
            assert!(scanner.range(ks, key(12)..key(18)).count() <= 6);
            scanner.put(ks, key(1001), b"1").unwrap();
            ks.delete_range(key(from)..key(to)).unwrap();
            if flushed {
                db.flush().unwrap();
            }
            for tx in [reader, scanner] {
                let found = tx.commit();
                assert_eq!(matches!(found, Err(Error::Conflict(_))), conflicts, "{from} to {to}: {found:?}");
            }
        }
    }
}
