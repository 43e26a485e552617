//! First steps with the library: put, get, ranges, batches, snapshots, reopening.

mod common;

use common::{TestDir, key, tiny, value};
use esker::{Database, Durability, Error, Options};

#[test]
fn put_get_delete() {
    let dir = TestDir::new("basic");
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.default_keyspace().get(b"a").unwrap(), None);
    db.default_keyspace().put(b"a", b"1").unwrap();
    db.default_keyspace().put(b"empty", b"").unwrap();
    assert_eq!(db.default_keyspace().get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(
        db.default_keyspace().get(b"empty").unwrap().as_deref(),
        Some(b"".as_slice()),
        "an empty value is a value"
    );
    assert!(db.default_keyspace().contains(b"a").unwrap());
    db.default_keyspace().delete(b"a").unwrap();
    db.default_keyspace().delete(b"never there").unwrap();
    assert_eq!(db.default_keyspace().get(b"a").unwrap(), None);
    let length = db.default_keyspace().get_with(b"empty", |value| value.map(<[u8]>::len)).unwrap();
    assert_eq!(length, Some(0));
    db.close().unwrap();
    assert!(matches!(db.default_keyspace().get(b"a"), Err(Error::Closed)));
    assert!(matches!(db.default_keyspace().put(b"a", b"1"), Err(Error::Closed)));
}

#[test]
fn everything_survives_a_clean_reopen_in_every_state() {
    let dir = TestDir::new("reopen");
    let open = || Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let entries = 3_000u64;
    for round in 0..3 {
        let db = open();
        for number in 0..entries {
            if round > 0 {
                let expected =
                    if (number + round - 1) % 7 == 0 { None } else { Some(value(number, round - 1)) };
                assert_eq!(
                    db.default_keyspace().get(key(number)).unwrap().map(|found| found.to_vec()),
                    expected,
                    "round {round}"
                );
            }
        }
        for number in 0..entries {
            db.default_keyspace().put(key(number), value(number, round)).unwrap();
            if (number + round) % 7 == 0 {
                db.default_keyspace().delete(key(number)).unwrap();
            }
        }
        if round == 1 {
            db.drain().unwrap();
        }
        db.close().unwrap();
    }
    let db = open();
    let live = (0..entries).filter(|number| (number + 2) % 7 != 0).count();
    assert_eq!(db.default_keyspace().iter().count(), live);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn ranges_are_read_from_both_ends_until_they_meet() {
    let dir = TestDir::new("ranges");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let users = db.keyspace("users").unwrap();
    for number in 0..2_000 {
        users.put(key(number), value(number, 0)).unwrap();
    }
    db.flush().unwrap();
    for number in 0..500 {
        users.delete(key(number * 3)).unwrap();
    }
    let expected: Vec<Vec<u8>> =
        (0..2_000u64).filter(|number| number % 3 != 0 || *number >= 1_500).map(key).collect();
    let forward: Vec<Vec<u8>> = users.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(forward, expected);
    let mut backward: Vec<Vec<u8>> = users.iter().rev().map(|entry| entry.unwrap().0.to_vec()).collect();
    backward.reverse();
    assert_eq!(backward, expected);
    let mut both = users.iter();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    while let Some(entry) = both.next() {
        front.push(entry.unwrap().0.to_vec());
        let Some(entry) = both.next_back() else { break };
        back.push(entry.unwrap().0.to_vec());
    }
    back.reverse();
    assert_eq!([front, back].concat(), expected);
    let part: Vec<_> = users.range(key(10)..=key(13)).map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(part, [key(10), key(11), key(13)]);
    assert_eq!(users.prefix(b"key0000199").count(), 10);
    assert_eq!(users.first().unwrap().unwrap().0, key(1));
    assert_eq!(users.last().unwrap().unwrap().0, key(1_999));
    assert_eq!(db.default_keyspace().first().unwrap(), None);
}

#[test]
fn a_cursor_borrows_entries() {
    let dir = TestDir::new("cursor");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    for number in (0..1_000).step_by(2) {
        db.default_keyspace().put(key(number), value(number, 0)).unwrap();
    }
    let mut cursor = db.default_keyspace().cursor().unwrap();
    assert_eq!(cursor.entry(), None);
    cursor.seek(key(501)).unwrap();
    assert_eq!(cursor.key(), Some(key(502).as_slice()));
    cursor.retreat().unwrap();
    assert_eq!(cursor.key(), Some(key(500).as_slice()));
    cursor.seek_for_prev(key(7)).unwrap();
    assert_eq!(cursor.entry(), Some((key(6).as_slice(), value(6, 0).as_slice())));
    cursor.seek_to_last().unwrap();
    cursor.advance().unwrap();
    assert_eq!(cursor.entry(), None);
}

#[test]
fn snapshots_are_unchanged_by_flush_and_compaction() {
    let dir = TestDir::new("snapshots");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let users = db.default_keyspace().clone();
    let mut snapshots = Vec::new();
    for round in 0..5 {
        for number in 0..400 {
            users.put(key(number), value(number, round)).unwrap();
        }
        snapshots.push(db.snapshot());
        if round % 2 == 0 {
            users.delete(key(round)).unwrap();
        }
    }
    db.flush().unwrap();
    users.compact(..).unwrap();
    for (round, snapshot) in snapshots.iter().enumerate() {
        for number in 0..400 {
            let found = users.at(snapshot).get(key(number)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(value(number, round as u64).as_slice()),
                "{number} in round {round}"
            );
        }
        assert_eq!(users.at(snapshot).iter().count(), 400);
    }
    assert_eq!(users.get(key(4)).unwrap(), None);
    drop(snapshots);
    users.compact(..).unwrap();
    let levels = db.levels();
    let entries: u64 = levels[0]
        .levels
        .iter()
        .flat_map(|level| &level.runs)
        .flat_map(|run| &run.tables)
        .map(|table| table.entries)
        .sum();
    assert_eq!(entries, 399, "without snapshots one version of each key is left");
}

#[test]
fn batches_span_keyspaces() {
    let dir = TestDir::new("batches");
    let db = Database::open(dir.path()).unwrap();
    let (one, two) = (db.keyspace("one").unwrap(), db.keyspace("two").unwrap());
    let mut batch = db.batch();
    for number in 0..1_000 {
        batch.put(&one, key(number), b"x");
        batch.put(&two, key(number), b"y");
    }
    batch.delete(&one, key(5));
    assert_eq!(batch.len(), 2_001);
    db.write_with(&batch, Durability::Power).unwrap();
    assert_eq!((one.iter().count(), two.iter().count()), (999, 1_000));
    assert_eq!(db.keyspaces(), ["default", "one", "two"]);
    assert!(matches!(db.open_keyspace("three"), Err(Error::NotFound(_))));
    let mut wrong = db.batch();
    wrong.put(&one, b"fine", b"1");
    wrong.put(&one, vec![0u8; 70_000], b"key too long");
    assert!(matches!(db.write(&wrong), Err(Error::InvalidArgument(_))));
    assert_eq!(one.get(b"fine").unwrap(), None, "a batch with a mistake changes nothing");
}

#[test]
fn multi_get_answers_in_order() {
    let dir = TestDir::new("multi");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    for number in 0..1_000 {
        db.default_keyspace().put(key(number), value(number, 0)).unwrap();
    }
    db.flush().unwrap();
    for number in (0..1_000).step_by(10) {
        db.default_keyspace().put(key(number), value(number, 1)).unwrap();
        db.default_keyspace().delete(key(number + 1)).unwrap();
    }
    let keys: Vec<Vec<u8>> = (0..200).map(|at| key(at * 7 % 1_100)).collect();
    let found = db.default_keyspace().multi_get(&keys).unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, db.default_keyspace().get(key).unwrap(), "{}", key.escape_ascii());
    }
}

#[test]
fn a_directory_is_open_once_and_read_only_opens_change_nothing() {
    let dir = TestDir::new("locks");
    let db = Database::open(dir.path()).unwrap();
    db.default_keyspace().put(b"a", b"1").unwrap();
    let error = Database::open(dir.path()).unwrap_err();
    assert!(matches!(&error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(db);
    let reader = Database::open_with(dir.path(), Options::default().read_only(true)).unwrap();
    assert_eq!(reader.default_keyspace().get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert!(matches!(reader.default_keyspace().put(b"a", b"2"), Err(Error::ReadOnly { .. })));
    drop(reader);
    let missing = TestDir::new("missing");
    assert!(matches!(
        Database::open_with(missing.path(), Options::default().read_only(true)),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        Database::open_with(missing.path(), Options::default().create_if_missing(false)),
        Err(Error::NotFound(_))
    ));
}

/// The key range of a table is known without opening it: a backward walk from the first key of a table opens
/// only the table before it.
#[test]
fn a_walk_backwards_opens_no_table_that_it_does_not_enter() {
    let dir = TestDir::new("backwards");
    let open = || Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let db = open();
    for number in 0..3_000 {
        db.default_keyspace().put(key(number), value(number, 0)).unwrap();
    }
    db.compact_all().unwrap();
    let levels = db.levels();
    let tables = &levels[0].levels.last().unwrap().runs[0].tables;
    assert!(tables.len() > 2, "{tables:?}");
    let (before, border) = (tables[0].largest.clone(), tables[1].smallest.clone());
    db.close().unwrap();
    for border in [&border[..], &border[..border.len() - 1], &[&before[..], b"\0"].concat()] {
        let db = open();
        let opened = db.metrics().open_tables.opened;
        let (found, _) = db.default_keyspace().range(..border).next_back().unwrap().unwrap();
        assert!(*found == before[..] || *found < *border, "{}", found.escape_ascii());
        assert_eq!(db.metrics().open_tables.opened - opened, 1, "{}", border.escape_ascii());
        db.close().unwrap();
    }
}
