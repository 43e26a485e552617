//! The sequence number of a write, and waiting until it is durable.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::TestDir;
use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, When};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Durability, Error, Options, SeqNo};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

fn write(db: &Database, entries: u64) -> SeqNo {
    let mut batch = db.batch();
    for number in 0..entries {
        batch.put(db.default_keyspace(), number.to_be_bytes(), "1");
    }
    db.write(&batch).unwrap()
}

#[test]
fn a_write_answers_the_sequence_number_of_its_last_operation() {
    let dir = TestDir::new("durable-seqno");
    let db = Database::open(dir.path()).unwrap();
    let first = write(&db, 1);
    assert_eq!(write(&db, 5).get(), first.get() + 5);
    assert_eq!(write(&db, 0), db.snapshot().seqno(), "an empty batch stands behind the last write");
    assert_eq!(db.snapshot().seqno().get(), first.get() + 5);
    let mut changes = db.changes_since(first).unwrap();
    assert_eq!(changes.try_next().unwrap().unwrap().last_seqno().get(), first.get() + 5);
}

#[test]
fn a_wait_ends_when_another_thread_has_made_the_write_durable() {
    let dir = TestDir::new("durable-wait");
    let db = Database::open(dir.path()).unwrap();
    let written = write(&db, 3);
    assert!(db.durable_seqno() < written);
    assert!(!db.wait_durable(written, Duration::from_millis(1)).unwrap(), "nothing has flushed the log");
    for round in 0..50 {
        let written = write(&db, 3);
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| db.wait_durable(written, LONG));
            match round % 2 {
                0 => db.sync().unwrap(),
                _ => db.default_keyspace().put_with("power", "1", Durability::Power).unwrap(),
            }
            assert!(wait.join().unwrap().unwrap());
        });
        assert!(db.durable_seqno() >= written);
        assert!(db.wait_durable(written, Duration::ZERO).unwrap());
    }
}

#[test]
fn a_wait_ends_with_the_database() {
    let dir = TestDir::new("durable-close");
    let db = Database::open(dir.path()).unwrap();
    let future = SeqNo::new(write(&db, 1).get() + 100);
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..3).map(|_| scope.spawn(|| db.wait_durable(future, LONG))).collect();
        db.close().unwrap();
        for wait in waits {
            assert!(matches!(wait.join().unwrap(), Err(Error::Closed)));
        }
    });
    assert!(matches!(db.wait_durable(future, LONG), Err(Error::Closed)));
    let db = Database::open_with(dir.path(), Options::default().read_only(true)).unwrap();
    assert_eq!(db.durable_seqno(), SeqNo::ZERO);
    assert!(matches!(db.wait_durable(SeqNo::new(1), LONG), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_wait_ends_when_the_log_cannot_be_flushed() {
    let dir = TestDir::new("durable-failed");
    let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
    let env = Env { fs: Arc::<FaultFs>::clone(&faults), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let written = write(&db, 1);
    faults.add(Rule::new(Fault::Io, When::From(1)).on(Operation::SyncData));
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| db.wait_durable(written, LONG));
        db.sync().unwrap_err();
        assert!(matches!(wait.join().unwrap(), Err(Error::ReadOnly { .. })));
    });
    assert!(db.durable_seqno() < written);
}
