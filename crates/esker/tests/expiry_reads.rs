//! Value and expiry in one read: every kind of read answers both, wherever the entry lies.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, tiny};
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Expiry, Keyspace, MergeOperator, Options, Result, Ttl, Value, ValueWithExpiry};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);
const KEYS: u64 = 60;

struct Fixture {
    db: Database,
    clock: Arc<ManualClock>,
    keyspace: Keyspace,
}

/// Values from a hundred bytes on are in blob files once they are flushed.
fn open(dir: &TestDir) -> Fixture {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let options = tiny().blob_threshold(100).merge_operator(MergeOperator::append(","));
    let keyspace = db.keyspace_with("sessions", options).unwrap();
    Fixture { db, clock, keyspace }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:03}").into_bytes()
}

/// Every fourth key never expires, one in four is merged, one in three is large, some have no value.
fn fill(fixture: &Fixture, start: SystemTime) {
    let Fixture { keyspace, .. } = fixture;
    for number in 0..KEYS {
        let key = key(number);
        let value = if number % 3 == 0 { vec![b'v'; 300] } else { b"v".to_vec() };
        let expiry = match number % 4 {
            0 => Expiry::Never,
            _ => Expiry::At(start + SECOND * (number as u32 + 1)),
        };
        keyspace.put_with(&key, &value, expiry).unwrap();
        if number % 4 == 2 {
            let later = Expiry::At(start + SECOND * (number as u32 + 10));
            keyspace.merge_with(&key, "m", if number % 8 == 2 { later } else { Expiry::Never }).unwrap();
        }
        if number % 11 == 5 {
            keyspace.delete(&key).unwrap();
        }
    }
}

/// What the calls for one thing each say about a key.
fn expected(keyspace: &Keyspace, key: &[u8]) -> Option<ValueWithExpiry> {
    let value = keyspace.get(key).unwrap()?;
    let expiry = match keyspace.ttl(key).unwrap().unwrap() {
        Ttl::Forever => None,
        Ttl::Expires { at, .. } => Some(at),
    };
    Some(ValueWithExpiry { value, expiry })
}

type Entries = Vec<(Value, ValueWithExpiry)>;

/// Takes from the front and the back in turns, by the bits of `turns`.
fn both_ends(
    mut range: impl DoubleEndedIterator<Item = Result<(Value, ValueWithExpiry)>>,
    mut turns: u64,
) -> Entries {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        turns = turns.rotate_right(1);
        let next = if turns & 1 == 0 { range.next() } else { range.next_back() };
        match next {
            Some(entry) if turns & 1 == 0 => front.push(entry.unwrap()),
            Some(entry) => back.push(entry.unwrap()),
            None => break,
        }
    }
    front.extend(back.into_iter().rev());
    front
}

fn check_all_reads(fixture: &Fixture) {
    let Fixture { db, keyspace, .. } = fixture;
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let expected: Vec<_> = keys.iter().map(|key| expected(keyspace, key)).collect();
    let entries: Entries = std::iter::zip(&keys, &expected)
        .filter_map(|(key, found)| Some((key.as_slice().into(), found.clone()?)))
        .collect();
    let (snapshot, transaction) = (db.snapshot(), db.transaction());
    let view = keyspace.at(&snapshot);
    assert_eq!(keyspace.multi_get_with_expiry(&keys).unwrap(), expected);
    assert_eq!(view.multi_get_with_expiry(&keys).unwrap(), expected);
    assert_eq!(transaction.multi_get_with_expiry(keyspace, &keys).unwrap(), expected);
    for (key, expected) in std::iter::zip(&keys, &expected) {
        assert_eq!(&keyspace.get_with_expiry(key).unwrap(), expected, "{}", key.escape_ascii());
        assert_eq!(&view.get_with_expiry(key).unwrap(), expected);
        assert_eq!(&transaction.get_with_expiry(keyspace, key).unwrap(), expected);
    }
    for turns in [0, u64::MAX, 0x5555_5555_5555_5555, 0x1234_5678_9abc_def0] {
        assert_eq!(both_ends(keyspace.range(..).with_expiry(), turns), entries);
        assert_eq!(both_ends(view.iter().with_expiry(), turns), entries);
        assert_eq!(both_ends(transaction.iter(keyspace).with_expiry(), turns), entries);
    }
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for (key, found) in &entries {
        assert_eq!(cursor.entry(), Some((&**key, &*found.value)));
        assert_eq!(cursor.expiry(), found.expiry);
        cursor.advance().unwrap();
    }
}

#[test]
fn every_read_answers_the_expiry_wherever_the_entry_lies() {
    let dir = TestDir::new("expiry-reads");
    let fixture = open(&dir);
    let start = fixture.db.now();
    fill(&fixture, start);
    check_all_reads(&fixture);
    fixture.keyspace.flush().unwrap();
    check_all_reads(&fixture);
    // Newer entries above, and then some have expired.
    for number in (0..KEYS).step_by(7) {
        let expiry = Expiry::At(start + SECOND * 500);
        fixture.keyspace.put_with(key(number), "newer", expiry).unwrap();
    }
    fixture.clock.advance(SECOND * 25);
    check_all_reads(&fixture);
    fixture.keyspace.compact(..).unwrap();
    check_all_reads(&fixture);
    assert!(fixture.keyspace.get_with_expiry(key(1)).unwrap().is_none(), "it has expired");
    assert!(fixture.keyspace.get_with_expiry(key(57)).unwrap().is_some_and(|found| found.expiry.is_some()));
}

#[test]
fn a_transaction_answers_the_expiry_of_its_own_changes() {
    let dir = TestDir::new("expiry-reads-tx");
    let Fixture { db, keyspace, .. } = open(&dir);
    let at = |seconds: u32| db.now() + SECOND * seconds;
    for name in ["a", "b", "c", "d"] {
        keyspace.put_with(name, "stored", Expiry::At(at(10))).unwrap();
    }
    let mut tx = db.transaction();
    tx.put(&keyspace, "a", "own").unwrap();
    tx.put_with(&keyspace, "b", "own", Expiry::Keep).unwrap();
    tx.merge_with(&keyspace, "c", "own", Expiry::At(at(20))).unwrap();
    tx.delete(&keyspace, "d").unwrap();
    tx.merge_with(&keyspace, "e", "own", Expiry::At(at(5))).unwrap();
    let expected: Entries = [
        ("a", "own", None),
        ("b", "own", Some(at(10))),
        ("c", "stored,own", Some(at(20))),
        ("e", "own", Some(at(5))),
    ]
    .map(|(key, value, expiry)| {
        let value = Value::from(value.as_bytes());
        (key.as_bytes().into(), ValueWithExpiry { value, expiry })
    })
    .into();
    for (key, found) in &expected {
        assert_eq!(tx.get_with_expiry(&keyspace, key).unwrap().as_ref(), Some(found));
    }
    assert_eq!(tx.get_with_expiry(&keyspace, "d").unwrap(), None);
    let keys = ["e", "d", "c"];
    let several = tx.multi_get_with_expiry(&keyspace, &keys).unwrap();
    assert_eq!(several, [Some(expected[3].1.clone()), None, Some(expected[2].1.clone())]);
    for turns in [0, u64::MAX, 0x5555_5555_5555_5555] {
        assert_eq!(both_ends(tx.iter(&keyspace).with_expiry(), turns), expected);
    }
    let mut cursor = tx.cursor(&keyspace).unwrap();
    cursor.seek_to_last().unwrap();
    for (key, found) in expected.iter().rev() {
        assert_eq!((cursor.entry(), cursor.expiry()), (Some((&**key, &*found.value)), found.expiry));
        cursor.retreat().unwrap();
    }
    drop(cursor);
    tx.commit().unwrap();
    assert_eq!(both_ends(keyspace.iter().with_expiry(), 0), expected, "the commit keeps what was seen");
}
