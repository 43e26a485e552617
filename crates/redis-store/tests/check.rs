//! The check of the store: a sound one has no findings, and each broken invariant is named.

#![allow(clippy::disallowed_methods, reason = "a directory of the test's own")]

use esker_redis_store::layout::{PhysicalDb, expiry_key, object_key, record_key};
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::{self, string};
use esker_redis_store::{Kind, Space, Store, Txn};
use std::path::PathBuf;

struct TestStore(PathBuf, Option<Store>);

impl TestStore {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("esker-redis-store-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        Self(directory, None).reopened()
    }

    fn reopened(mut self) -> Self {
        self.1 = None;
        let database = esker::Database::open(&self.0).expect("a database");
        self.1 = Some(Store::open(database, 4).expect("a store"));
        self
    }

    fn store(&self) -> &Store {
        self.1.as_ref().expect("it is open")
    }

    fn write(&self, change: impl FnOnce(&mut Txn<'_>) -> esker::Result<()>) {
        let mut txn = Txn::new(self.store(), Interest::default());
        change(&mut txn).expect("a change");
        txn.commit(Stalls::Wait).expect("a commit");
    }

    fn findings(&self) -> Vec<String> {
        self.store().check().expect("a check")
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        self.1 = None;
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A key with an object of two elements.
fn put_object(txn: &mut Txn<'_>, db: u16, key: &[u8]) -> esker::Result<u64> {
    let mut entry = txn.entry(db, key)?;
    types::delete_key(txn, &mut entry)?;
    let object = txn.store().new_object(entry.physical())?;
    txn.set_record(&mut entry, Kind::Hash, 8, None, &object.to_le_bytes())?;
    for space in [Space::Elements, Space::Orders] {
        txn.put(space, &object_key(object, b"element"), b"1")?;
    }
    Ok(object)
}

fn filled(name: &str) -> (TestStore, u64) {
    let (test, mut object) = (TestStore::new(name), 0);
    let far_ms = 4_000_000_000_000;
    test.write(|txn| {
        for (key, expiry_ms) in [("a", None), ("b", Some(far_ms)), ("c", Some(far_ms + 1))] {
            let mut entry = txn.entry(0, key.as_bytes())?;
            string::set(txn, &mut entry, b"1", expiry_ms)?;
        }
        object = put_object(txn, 0, b"object")?;
        put_object(txn, 1, b"object")?;
        put_object(txn, 1, b"object").map(drop)
    });
    (test, object)
}

#[test]
fn a_sound_store_has_no_findings() {
    let (mut test, _) = filled("check-sound");
    assert_eq!(test.findings(), [""; 0]);
    test.write(|txn| txn.swap_databases(0, 1));
    test.write(|txn| {
        txn.flush_database(0)?;
        put_object(txn, 0, b"behind the flush").map(drop)
    });
    assert_eq!((test.store().keys(0), test.store().keys(1)), (1, 4));
    for _ in 0..2 {
        assert_eq!(test.findings(), [""; 0]);
        test = test.reopened();
    }
    assert_eq!((test.store().keys(0), test.store().keys(1), test.store().expiring_keys(1)), (1, 4, 2));
    while test.store().collect_garbage().expect("a collection") {}
    assert_eq!(test.store().garbage_objects(), 0);
    test.write(|txn| {
        txn.flush_database(0)?;
        txn.flush_database(1).map(drop)
    });
    assert_eq!(test.findings(), [""; 0]);
    for space in [Space::Keys, Space::Elements, Space::Orders, Space::Expiries] {
        assert_eq!(test.store().space(space).iter().count(), 0, "{}", space.name());
    }
}

#[test]
fn every_broken_invariant_is_named() {
    type Break = fn(&mut Txn<'_>, u64) -> esker::Result<()>;
    let breaks: [(&str, Break); 9] = [
        ("(KR1)", |txn, _| txn.delete(Space::Expiries, &expiry_key(PhysicalDb(0), 4_000_000_000_000, b"b"))),
        ("(KR1)", |txn, _| txn.put(Space::Expiries, &expiry_key(PhysicalDb(0), 5, b"a"), b"")),
        ("(KR2)", |txn, _| txn.delete(Space::Keys, &record_key(PhysicalDb(0), b"a"))),
        ("(KR2)", |txn, _| txn.put(Space::Keys, &record_key(PhysicalDb(3), b"a"), &[0x10])),
        ("(KR3)", |txn, object| {
            let mut entry = txn.entry(0, b"other")?;
            txn.set_record(&mut entry, Kind::Hash, 8, None, &object.to_le_bytes())
        }),
        ("(KR4)", |txn, object| txn.discard_object(object)),
        ("(KR4)", |txn, _| {
            let mut entry = txn.entry(0, b"object")?;
            txn.remove_record(&mut entry)
        }),
        ("never given out", |txn, _| {
            let mut entry = txn.entry(0, b"other")?;
            txn.set_record(&mut entry, Kind::Hash, 8, None, &(1_u64 << 40).to_le_bytes())
        }),
        ("no record", |txn, _| txn.put(Space::Keys, &record_key(PhysicalDb(0), b"a"), &[0])),
    ];
    for (number, (name, change)) in breaks.into_iter().enumerate() {
        let (test, object) = filled(&format!("check-broken-{number}"));
        test.write(|txn| change(txn, object));
        let findings = test.findings();
        assert!(findings.iter().any(|finding| finding.contains(name)), "{number} {name}: {findings:?}");
    }
}
