//! Open readers: what keeps old versions alive.

mod common;

use common::{TestDir, key, tiny, value};
use esker::metrics::ReaderKind;
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Options};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn every_open_reader_is_listed_until_it_is_dropped() {
    let dir = TestDir::new("open-readers");
    let clock = Arc::new(ManualClock::new(0));
    let env = Env { clock: Arc::clone(&clock) as _, ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny()).env(env)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for number in 0..1_000 {
        keyspace.put(key(number), value(number, 0)).unwrap();
    }
    assert!(db.open_readers().is_empty());
    let snapshot = db.snapshot();
    clock.advance(Duration::from_secs(5));
    let copy = snapshot.clone();
    let tx = db.transaction();
    clock.advance(Duration::from_secs(1));
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let range = keyspace.at(&snapshot).range(key(3)..);
    assert!(keyspace.get(key(3)).unwrap().is_some() && keyspace.first().unwrap().is_some());
    let open_readers = db.open_readers();
    let listed: Vec<_> = open_readers.iter().map(|reader| (reader.kind, reader.age.as_secs())).collect();
    assert_eq!(
        listed,
        [
            (ReaderKind::Snapshot, 6),
            (ReaderKind::Snapshot, 1),
            (ReaderKind::Transaction, 1),
            (ReaderKind::Cursor, 0),
            (ReaderKind::Range, 0)
        ]
    );
    assert!(open_readers.iter().all(|reader| reader.seqno.get() == 1_000 && reader.newer_operations == 0));
    assert!(open_readers[..3].iter().all(|reader| reader.keyspace.is_none()));
    assert!(open_readers[3..].iter().all(|reader| reader.keyspace.as_deref() == Some("k")));
    drop((snapshot.clone(), copy, tx, range));
    assert_eq!(db.open_readers().len(), 2);

    // A cursor pins what its view has and the present one has not.
    db.drain().unwrap();
    drop(keyspace.cursor().unwrap());
    let before: u64 = db.metrics().keyspaces.iter().map(|keyspace| keyspace.table_bytes).sum();
    let mut late = keyspace.cursor().unwrap();
    late.seek_to_first().unwrap();
    for number in 0..1_000 {
        keyspace.put(key(number), value(number, 1)).unwrap();
    }
    db.compact_all().unwrap();
    let open_readers = db.open_readers();
    assert_eq!(open_readers.len(), 3);
    assert_eq!(open_readers[0].newer_operations, 1_000);
    assert_eq!(
        (open_readers[0].memtable_bytes, open_readers[0].table_bytes),
        (0, 0),
        "a snapshot has no view"
    );
    assert!(open_readers[1].memtable_bytes > 0, "the first cursor keeps a memtable that was flushed");
    assert_eq!(open_readers[2].table_bytes, before, "the second one keeps all tables there were");
    drop((snapshot, cursor, late));
    assert!(db.open_readers().is_empty());
}
