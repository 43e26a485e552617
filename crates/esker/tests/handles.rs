//! Which handles are Send, Sync and Clone, and what batches and transactions can do beside writing.

mod common;

use common::TestDir;
use esker::{
    BatchEntry, Cursor, Database, Error, Expiry, Keys, Keyspace, KeyspaceOptions, MergeOperator, Options,
    Range, Snapshot, Transaction, Ttl, Value, View, WriteBatch, WriteOptions,
};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

const fn is_shared<T: Send + Sync + Clone>() {}
const fn is_sync<T: Send + Sync>() {}
const fn is_sent<T: Send>() {}
const fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

const _: () = {
    is_shared::<Database>();
    is_shared::<Keyspace>();
    is_shared::<Snapshot>();
    is_shared::<Value>();
    is_shared::<Options>();
    is_shared::<KeyspaceOptions>();
    is_shared::<WriteOptions>();
    is_shared::<Error>();
    is_sync::<View<'static>>();
    is_sync::<WriteBatch>();
    is_sent::<Transaction>();
    is_sent::<Cursor>();
    is_sent::<Range>();
    is_sent::<Keys>();
    is_unwind_safe::<Database>();
    is_unwind_safe::<Keyspace>();
    is_unwind_safe::<View<'static>>();
    is_unwind_safe::<Snapshot>();
    is_unwind_safe::<Value>();
    is_unwind_safe::<WriteBatch>();
};

#[test]
fn a_batch_is_read_and_comes_back_from_bytes() {
    let dir = TestDir::new("batch-bytes");
    let db = Database::open(dir.path()).unwrap();
    let counters = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
    let (plain, counters) = (db.keyspace("plain").unwrap(), db.keyspace_with("counters", counters).unwrap());
    plain.put("z", "1").unwrap();
    let mut batch = db.batch();
    batch.put(&plain, "a", "1");
    batch.put_with(&plain, "b", "2", Expiry::After(Duration::from_secs(3600)));
    batch.delete(&plain, "c");
    batch.delete_range(&plain, "x"..);
    batch.merge(&counters, "n", "41");
    let read: Vec<BatchEntry<'_>> = batch.iter().collect();
    assert_eq!(read.len(), batch.len());
    let id = plain.id();
    assert_eq!(read[0], BatchEntry::Put { keyspace: id, key: b"a", value: b"1", expiry: None });
    assert!(matches!(read[1], BatchEntry::Put { value: b"2", expiry: Some(_), .. }));
    assert_eq!(read[2], BatchEntry::Delete { keyspace: id, key: b"c" });
    assert_eq!(read[3], BatchEntry::DeleteRange { keyspace: id, start: b"x", end: None });
    let merge = BatchEntry::Merge { keyspace: counters.id(), key: b"n", operand: b"41", expiry: None };
    assert_eq!(read[4], merge);

    let bytes = batch.to_bytes().unwrap();
    let again = db.batch_from_bytes(&bytes).unwrap();
    assert!(again.iter().eq(batch.iter()));
    assert_eq!(again.to_bytes().unwrap(), bytes);
    db.write(&again).unwrap();
    assert_eq!(plain.get("a").unwrap().unwrap(), "1");
    assert!(matches!(plain.ttl("b").unwrap(), Some(Ttl::Expires { .. })));
    assert_eq!(plain.get("z").unwrap(), None);
    assert_eq!(counters.get("n").unwrap().unwrap(), "41");

    // Every cut and every changed byte is an error or another batch, never a panic.
    for cut in 0..bytes.len() {
        let _ = db.batch_from_bytes(&bytes[..cut]);
    }
    for at in 0..bytes.len() {
        for flip in [1u8, 0x10, 0x40, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(batch) = db.batch_from_bytes(&damaged) {
                let _ = db.write(&batch);
            }
        }
    }
    assert!(matches!(db.batch_from_bytes(b"nonsense"), Err(Error::InvalidArgument(_) | Error::NotFound(_))));
}

#[test]
fn a_transaction_keeps_and_sets_expiries() {
    let dir = TestDir::new("tx-expiry");
    let db = Database::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    keyspace.put_with("kept", "1", Expiry::After(day)).unwrap();
    keyspace.put_with("updated", "1", Expiry::After(day)).unwrap();
    keyspace.put_with("overwritten", "1", Expiry::After(day)).unwrap();
    db.transact(|tx| {
        tx.put_with(keyspace, "kept", "2", Expiry::Keep)?;
        tx.fetch_update(keyspace, "updated", |value| Some([value.unwrap_or_default(), b"2"].concat()))?;
        tx.put(keyspace, "overwritten", "2")?;
        tx.put_with(keyspace, "new", "2", Expiry::After(hour))?;
        tx.put_with(keyspace, "gone", "2", Expiry::At(std::time::UNIX_EPOCH))?;
        assert_eq!(tx.get(keyspace, "gone")?, None);
        // The second change of a key keeps the expiry of the first.
        tx.fetch_update(keyspace, "new", |_| Some(b"3".to_vec()))?;
        Ok(())
    })
    .unwrap();
    let left = |key: &str| match keyspace.ttl(key).unwrap().expect("a value") {
        Ttl::Forever => None,
        Ttl::Expires { left, .. } => Some(left),
    };
    assert!(left("kept").unwrap() > hour && left("updated").unwrap() > hour);
    assert_eq!(keyspace.get("updated").unwrap().unwrap(), "12");
    assert_eq!(left("overwritten"), None);
    assert!(left("new").unwrap() <= hour);
    assert_eq!(keyspace.get("new").unwrap().unwrap(), "3");
    assert_eq!(keyspace.get("gone").unwrap(), None);
}

#[test]
fn a_transaction_deletes_ranges_and_finds_both_ends() {
    let dir = TestDir::new("tx-ranges");
    let db = Database::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    for key in ["a", "b", "c", "d"] {
        keyspace.put(key, "1").unwrap();
    }
    let mut tx = db.transaction();
    tx.put(keyspace, "bb", "2").unwrap();
    assert_eq!(tx.delete_range(keyspace, "b".."d").unwrap(), 3);
    tx.put(keyspace, "e", "2").unwrap();
    let keys: Vec<Value> = tx.keys(keyspace, ..).collect::<esker::Result<_>>().unwrap();
    assert_eq!(keys, ["a", "d", "e"]);
    assert_eq!(tx.first(keyspace).unwrap().unwrap().0, "a");
    assert_eq!(tx.last(keyspace).unwrap().unwrap().0, "e");
    assert_eq!(tx.iter(keyspace).count(), 3);
    tx.commit().unwrap();
    assert_eq!(keyspace.iter().count(), 3);

    // A key written into a deleted range meanwhile is a conflict.
    let mut tx = db.transaction();
    tx.delete_range(keyspace, ..).unwrap();
    keyspace.put("b", "3").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict());
}

#[test]
fn a_body_may_fail_with_an_error_of_its_own() {
    #[derive(Debug)]
    enum Failure {
        Refused(u32),
        Esker(Error),
    }
    impl From<Error> for Failure {
        fn from(error: Error) -> Failure {
            Failure::Esker(error)
        }
    }
    let dir = TestDir::new("tx-errors");
    let db = Database::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    let refused = db.try_transact(|tx| -> Result<(), Failure> {
        tx.put(keyspace, "k", "1")?;
        Err(Failure::Refused(7))
    });
    assert!(matches!(refused, Err(Failure::Refused(7))));
    assert_eq!(keyspace.get("k").unwrap(), None);
    let mut runs = 0;
    db.try_transact(|tx| -> Result<(), Failure> {
        runs += 1;
        tx.get(keyspace, "k")?;
        if runs == 1 {
            keyspace.put("k", "other")?;
        }
        Ok(tx.put(keyspace, "k", "1")?)
    })
    .unwrap();
    assert_eq!((runs, keyspace.get("k").unwrap().unwrap() == "1"), (2, true));
    let closed = db.try_transact(|tx| -> Result<(), Failure> {
        db.close()?;
        Ok(tx.put(keyspace, "k", "2")?)
    });
    assert!(matches!(closed, Err(Failure::Esker(Error::Closed))), "{closed:?}");
}
