//! Cursors over a fully compacted tree: they walk the single run without a merge and see what every other
//! reader sees.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::env::{Env, ManualClock};
use esker::{Cursor, Database, Expiry, Options};
use std::sync::Arc;
use std::time::Duration;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The entries of a cursor, checked to be the same in both directions.
fn shown(cursor: &mut Cursor) -> Pairs {
    let pair = |cursor: &Cursor| cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
    let (mut forward, mut backward) = (Pairs::new(), Pairs::new());
    cursor.seek_to_first().unwrap();
    while let Some(pair) = pair(cursor) {
        forward.push(pair);
        cursor.advance().unwrap();
    }
    cursor.seek_to_last().unwrap();
    while let Some(pair) = pair(cursor) {
        backward.push(pair);
        cursor.retreat().unwrap();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

#[test]
fn a_cursor_over_one_run_keeps_its_snapshot() {
    let dir = TestDir::new("cursors-one-run");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let keyspace = db.default_keyspace().clone();
    let pairs = |numbers: &[u64], round| -> Pairs {
        numbers.iter().map(|number| (key(*number), value(*number, round))).collect()
    };
    let numbers: Vec<u64> = (0..1_000).collect();
    let put_all = |round| {
        numbers.iter().for_each(|number| keyspace.put(key(*number), value(*number, round)).unwrap());
        keyspace.compact(..).unwrap();
    };
    put_all(0);
    let first = db.snapshot();
    let mut of_first = keyspace.at(&first).cursor().unwrap();
    let mut early = keyspace.cursor().unwrap();
    // Newer entries in memory, then a newer run with a version that the snapshot must not see.
    keyspace.put(key(5), b"newer").unwrap();
    keyspace.delete(key(6)).unwrap();
    let mut late = keyspace.cursor().unwrap();
    assert_eq!(shown(&mut early), pairs(&numbers, 0));
    assert_eq!(shown(&mut late).len(), 999);
    late.seek(key(5)).unwrap();
    assert_eq!(late.value(), Some(b"newer".as_slice()));
    put_all(1);
    assert_eq!(shown(&mut keyspace.at(&first).cursor().unwrap()), pairs(&numbers, 0));
    assert_eq!(shown(&mut of_first), pairs(&numbers, 0));
    assert_eq!(shown(&mut keyspace.cursor().unwrap()), pairs(&numbers, 1));
    assert_eq!(shown(&mut keyspace.cursor_in(key(10)..key(20)).unwrap()), pairs(&numbers[10..20], 1));
    // One version again, once no reader needs the other.
    drop((first, of_first, early, late));
    keyspace.compact(..).unwrap();
    assert_eq!(shown(&mut keyspace.cursor().unwrap()), pairs(&numbers, 1));
    db.close().unwrap();
}

#[test]
fn expired_entries_of_one_run_are_hidden() {
    let dir = TestDir::new("cursors-expiring");
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let keyspace = db.default_keyspace().clone();
    keyspace.put(key(1), b"stays").unwrap();
    keyspace.put_with(key(2), b"goes", Expiry::After(Duration::from_secs(10))).unwrap();
    keyspace.compact(..).unwrap();
    let mut before = keyspace.cursor().unwrap();
    clock.advance(Duration::from_secs(11));
    let mut after = keyspace.cursor().unwrap();
    let stays = (key(1), b"stays".to_vec());
    assert_eq!(shown(&mut after), std::slice::from_ref(&stays));
    assert_eq!(shown(&mut before), [stays, (key(2), b"goes".to_vec())], "a cursor keeps its time");
    drop((before, after));
    db.close().unwrap();
}
