//! Several keyspaces at one moment: batches over them are seen whole, while memtables change and are flushed.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, tiny};
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Error, Expiry, Keyspace, Options, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn number(value: Option<Value>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// Values so large that a memtable is sealed every few batches.
fn write_rounds(db: &Database, keyspaces: &[Keyspace], rounds: u64) {
    for round in 1..=rounds {
        let mut batch = db.batch();
        let value = [round.to_le_bytes().as_slice(), &[0; 500]].concat();
        for keyspace in keyspaces {
            batch.put(keyspace, "counter", &value);
        }
        db.write(&batch).unwrap();
        // Keyspaces are sealed at different times.
        let some = &keyspaces[round as usize % keyspaces.len()];
        some.put(round.to_be_bytes(), &value).unwrap();
    }
}

#[test]
fn a_batch_over_keyspaces_is_seen_whole() {
    let dir = TestDir::new("pinned-whole");
    let db = Database::open(dir.path()).unwrap();
    let keyspaces: Vec<_> =
        ["a", "b", "c"].iter().map(|name| db.keyspace_with(name, tiny()).unwrap()).collect();
    let [a, b, c] = keyspaces.as_slice() else { panic!("three") };
    // The reader expects the counters from its first round on.
    let mut first = db.batch();
    keyspaces.iter().for_each(|keyspace| first.put(keyspace, "counter", [0; 8]));
    db.write(&first).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut last, mut reads) = (0, 0u64);
            while !is_done.load(Ordering::Relaxed) || reads == 0 {
                let found = db
                    .pinned([c, a, b], |[c, a, b]| {
                        let range = b.range("counter"..="counter").next().unwrap()?;
                        Ok([number(c.get("counter")?), number(a.get("counter")?), number(Some(range.1))])
                    })
                    .unwrap();
                assert!(
                    found.iter().all(|&other| other == found[0] && other >= last),
                    "{found:?} after {last}"
                );
                let keys = [(a, "counter"), (b, "counter"), (c, "none"), (c, "counter"), (a, "counter")];
                let mut several = db.multi_get(&keys).unwrap();
                assert_eq!(several.remove(2), None);
                let several: Vec<_> = several.into_iter().map(number).collect();
                assert!(several.iter().all(|&other| other == several[0]), "{several:?}");
                assert!(several[0] >= found[0]);
                last = several[0];
                reads += 1;
            }
        });
        write_rounds(&db, &keyspaces, 1_500);
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn keyspaces_are_judged_at_one_time_and_ranges_live_on() {
    let dir = TestDir::new("pinned-time");
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let (a, b) = (db.keyspace("a").unwrap(), db.keyspace("b").unwrap());
    let end = db.now() + Duration::from_secs(10);
    for keyspace in [&a, &b] {
        keyspace.put_with("key", "1", Expiry::At(end)).unwrap();
    }
    let range = db
        .pinned([&a, &b], |[a, b]| {
            assert_eq!(a.get_with_expiry("key")?.unwrap().expiry, Some(end));
            clock.advance(Duration::from_secs(11));
            assert!(a.contains("key")? && b.contains("key")?, "the moment has not passed");
            assert_eq!(b.multi_get(&["key", "other"])?, [Some("1".as_bytes().into()), None]);
            assert_eq!(b.multi_get_with_expiry(&["key"])?[0].as_ref().unwrap().expiry, Some(end));
            assert_eq!(a.get_with("key", |value| value.map(<[u8]>::len))?, Some(1));
            Ok(b.prefix("k"))
        })
        .unwrap();
    b.delete("key").unwrap();
    b.compact(..).unwrap();
    assert_eq!(range.map(|entry| entry.unwrap().1).collect::<Vec<_>>(), ["1"]);
    assert_eq!(db.multi_get_with_expiry(&[(&a, "key"), (&b, "key")]).unwrap(), [None, None]);
}

#[test]
fn what_cannot_be_pinned_is_an_error() {
    let (dir, other_dir) = (TestDir::new("pinned-errors"), TestDir::new("pinned-other"));
    let (db, other) = (Database::open(dir.path()).unwrap(), Database::open(other_dir.path()).unwrap());
    let (kept, dropped) = (db.keyspace("kept").unwrap(), db.keyspace("dropped").unwrap());
    let theirs = other.default_keyspace();
    let outcome = db.pinned([&kept, theirs], |_| Ok(()));
    assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
    db.drop_keyspace("dropped").unwrap();
    assert!(matches!(db.multi_get(&[(&kept, "a"), (&dropped, "a")]), Err(Error::NotFound(_))));
    assert_eq!(db.multi_get::<&str>(&[]).unwrap(), []);
    db.close().unwrap();
    assert!(matches!(db.pinned([&kept], |_| Ok(())), Err(Error::Closed)));
}
