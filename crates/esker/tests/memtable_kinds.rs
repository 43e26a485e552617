//! For every memtable kind, a thread that reads, writes and commits at the same time never deadlocks.
//!
//! Some kinds have a lock ([`MemtableKind::LockedTree`], and those that sort on demand). Readers take it
//! alone; writers and the validation of transactions take it under the commit lock. A reader that kept it
//! while taking the commit lock would deadlock, so these tests fail by not ending.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key};
use esker::options::MemtableKind;
use esker::transaction::Isolation;
use esker::{Database, Keyspace, KeyspaceOptions, Options, TransactionOptions};

fn open(dir: &TestDir, kind: MemtableKind, write_buffer_bytes: u64) -> (Database, Keyspace) {
    let keyspaces = KeyspaceOptions::default().memtable(kind).write_buffer_size(write_buffer_bytes);
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(keyspaces)).unwrap();
    let keyspace = db.default_keyspace().clone();
    (db, keyspace)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// One thread with all kinds of readers open: if any held a lock, the next write would wait forever.
#[test]
fn open_readers_hold_no_lock() {
    for kind in MemtableKind::ALL {
        let dir = TestDir::new("kinds-open");
        let (db, keyspace) = open(&dir, kind, 1 << 20);
        for number in 0..300u64 {
            keyspace.put(key(number * 2), number.to_be_bytes()).unwrap();
        }
        let held = keyspace.get(key(8)).unwrap().unwrap();
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek(key(100)).unwrap();
        let mut forward = keyspace.iter();
        let mut backward = keyspace.iter().rev();
        let mut transaction = db.transaction();
        let mut seen = 0;
        for number in 0..100u64 {
            assert!(forward.next().unwrap().is_ok() && backward.next().unwrap().is_ok());
            seen += transaction.range(&keyspace, key(0)..key(50)).count();
            keyspace.put(key(number * 2 + 1), number.to_be_bytes()).unwrap();
            cursor.advance().unwrap();
        }
        assert_eq!(seen, 25 * 100, "{kind}: a transaction sees one moment");
        assert_eq!(held.as_ref(), 4u64.to_be_bytes());
        transaction.put(&keyspace, key(1), b"").unwrap();
        // The key was written meanwhile.
        assert!(transaction.commit().is_err(), "{kind}");
        assert_eq!((forward.count(), backward.count()), (200, 200), "{kind}: ranges see one moment");
        db.close().unwrap();
    }
}

/// Transactions that read a range, plain writers and readers, at once on a memtable that is sealed
/// repeatedly.
#[test]
fn transactions_writers_and_readers_work_concurrently() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 150;
    for kind in MemtableKind::ALL {
        let dir = TestDir::new("kinds-threads");
        let (db, keyspace) = open(&dir, kind, 16 << 10);
        for thread in 0..THREADS {
            keyspace.put(key(thread), 0u64.to_be_bytes()).unwrap();
        }
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || {
                    let serializable = TransactionOptions::default().isolation(Isolation::Serializable);
                    for round in 0..ROUNDS {
                        let raise = |tx: &mut esker::Transaction| {
                            let counters = tx.range(keyspace, key(0)..key(THREADS));
                            let counters = counters.collect::<esker::Result<Vec<_>>>()?;
                            let sum: u64 = counters.iter().map(|(_, value)| number(value)).sum();
                            let own = number(&counters[thread as usize].1);
                            tx.put(keyspace, key(thread), (own + 1).to_be_bytes())?;
                            Ok(sum)
                        };
                        // If other threads win more often than a transaction is retried, this one starts
                        // again.
                        while db.transact_with(serializable, raise).is_err() {}
                        keyspace.put(key(1_000 + round * THREADS + thread), [7; 100]).unwrap();
                    }
                });
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..ROUNDS {
                        let entries = keyspace.iter().map(|entry| entry.unwrap());
                        let counters = entries.filter(|(_, value)| value.len() == 8);
                        let sum: u64 = counters.map(|(_, value)| number(&value)).sum();
                        assert!(sum >= last, "{kind}: time ran backwards");
                        last = sum;
                        assert!(keyspace.iter().rev().count() as u64 >= THREADS);
                    }
                });
            }
        });
        let counters = (0..THREADS).map(|thread| number(&keyspace.get(key(thread)).unwrap().unwrap()));
        assert_eq!(counters.sum::<u64>(), THREADS * ROUNDS, "{kind}: an increment was lost");
        assert_eq!(keyspace.iter().count() as u64, THREADS * (1 + ROUNDS), "{kind}");
        db.close().unwrap();
    }
}
