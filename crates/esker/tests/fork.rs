//! A child after `fork` that inherits open handles: every call answers an error that names the fork, and
//! neither calls nor drops change anything of the parent's database.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![allow(clippy::disallowed_methods, reason = "a child tells its parent through a plain file")]
#![allow(unsafe_code, reason = "the C library's functions have no safe wrapper in the standard library")]

mod common;

use common::TestDir;
use esker::repair::{VerifyOptions, verify_directory};
use esker::{Database, Durability, Error, Keyspace, Options};
use std::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(code: c_int) -> !;
    fn alarm(seconds: c_uint) -> c_uint;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
}

/// Runs `work` in a child; panics with what it returns as an error. The child ends without destructors other
/// than those that `work` runs.
fn in_child(dir: &TestDir, work: impl FnOnce() -> Result<(), String>) {
    let told = dir.path().with_extension("told");
    // SAFETY: the child runs `work` and ends; it takes no lock of the library that another thread may hold,
    // and the C library makes its allocator usable.
    let process = unsafe { fork() };
    assert!(process >= 0, "no child");
    if process == 0 {
        // A child that waits for ever ends by the signal, and the test fails.
        // SAFETY: it only sets a timer.
        unsafe { alarm(60) };
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it panicked".into()));
        let code = match outcome {
            Ok(()) => 0,
            Err(text) => {
                let _ = std::fs::write(&told, text);
                1
            }
        };
        // SAFETY: ends the process.
        unsafe { _exit(code) }
    }
    let mut status = 0;
    // SAFETY: the status is a variable of this function.
    assert_eq!(unsafe { waitpid(process, &raw mut status, 0) }, process);
    let text = std::fs::read_to_string(&told).unwrap_or_default();
    assert_eq!(status, 0, "in the child: {text}");
}

/// Tests of this file fork one at a time: databases of other tests count as open ones of the parent.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(dir: &TestDir) -> (Database, Keyspace) {
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("flushed", "1").unwrap();
    db.flush().unwrap();
    keyspace.put("logged", "2").unwrap();
    (db, keyspace)
}

/// The parent goes on as if there had been no child, and so does the next open.
fn check_parent(dir: &TestDir, db: Database, keyspace: Keyspace) {
    let holds = |keyspace: &Keyspace| {
        let entries: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
        assert_eq!(entries, [b"flushed".to_vec(), b"later".to_vec(), b"logged".to_vec()]);
    };
    keyspace.put("later", "3").unwrap();
    holds(&keyspace);
    db.drain().unwrap();
    assert!(matches!(Database::open(dir.path()), Err(Error::Locked { .. })), "the lock is still held");
    assert!(db.verify().unwrap().damage.is_empty());
    db.close().unwrap();
    drop((db, keyspace));
    let db = Database::open(dir.path()).unwrap();
    holds(&db.open_keyspace("k").unwrap());
    db.close().unwrap();
}

fn expect_fork<T>(call: &str, outcome: Result<T, Error>) -> Result<(), String> {
    match outcome {
        Ok(_) => Err(format!("{call} succeeded")),
        Err(error) if error.to_string().contains("forked") => Ok(()),
        Err(error) => Err(format!("{call}: {error}")),
    }
}

#[test]
fn calls_in_a_child_are_refused_and_change_nothing() {
    let _alone = alone();
    let dir = TestDir::new("fork-calls");
    let (db, keyspace) = open(&dir);
    let snapshot = db.snapshot();
    let mut batch = db.batch();
    batch.put(&keyspace, "child", "1");
    let copy: PathBuf = dir.path().with_extension("copy");
    in_child(&dir, || {
        expect_fork("get", keyspace.get("logged"))?;
        expect_fork("get at a snapshot", keyspace.at(&snapshot).get("logged"))?;
        expect_fork("multi_get", keyspace.multi_get(&["logged"]))?;
        expect_fork("cursor", keyspace.cursor())?;
        expect_fork("iter", keyspace.iter().next().unwrap_or(Err(Error::Closed)))?;
        expect_fork("put", keyspace.put("child", "1"))?;
        expect_fork("delete", keyspace.delete("logged"))?;
        expect_fork("delete_range", keyspace.delete_range("a".."z"))?;
        expect_fork("write", db.write(&batch))?;
        expect_fork("write durably", db.write_with(&batch, Durability::Power))?;
        expect_fork("transact", db.transact(|tx| tx.put(&keyspace, "child", "1")))?;
        expect_fork("keyspace", db.keyspace("new"))?;
        expect_fork("open_keyspace", db.open_keyspace("k"))?;
        expect_fork("drop_keyspace", db.drop_keyspace("k"))?;
        expect_fork("update_options", keyspace.update_options(|options| options.block_size(1024)))?;
        expect_fork("bulk_load", keyspace.bulk_load())?;
        expect_fork("flush", keyspace.flush())?;
        expect_fork("flush of all", db.flush())?;
        expect_fork("compact", keyspace.compact(..))?;
        expect_fork("drain", db.drain())?;
        expect_fork("sync", db.sync())?;
        expect_fork("checkpoint", db.checkpoint(&copy))?;
        expect_fork("verify", db.verify())?;
        expect_fork("close", db.close())
    });
    assert!(!copy.exists());
    drop((snapshot, batch));
    check_parent(&dir, db, keyspace);
}

/// Dropping the handles would close the database: release its lock, end its log, delete its files.
#[test]
fn drops_in_a_child_change_nothing() {
    let _alone = alone();
    let dir = TestDir::new("fork-drops");
    let (db, keyspace) = open(&dir);
    let snapshot = db.snapshot();
    let cursor = keyspace.cursor().unwrap();
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "child", "1").unwrap();
    let mut loader = keyspace.bulk_load().unwrap();
    loader.add("bulk", "1").unwrap();
    let moved = std::cell::RefCell::new(Some((db, keyspace, snapshot, cursor, transaction, loader)));
    in_child(&dir, || {
        drop(moved.take());
        Ok(())
    });
    let (db, keyspace, snapshot, cursor, transaction, loader) = moved.into_inner().unwrap();
    drop((cursor, transaction, loader, snapshot));
    check_parent(&dir, db, keyspace);
}

/// Another thread may have held a lock at the moment of the fork, which no thread of the child releases.
#[test]
fn a_child_of_a_process_with_an_open_database_opens_none() {
    let _alone = alone();
    let (dir, own) = (TestDir::new("fork-own"), TestDir::new("fork-childs"));
    drop(Database::open(own.path()).unwrap());
    let (db, keyspace) = open(&dir);
    in_child(&dir, || {
        expect_fork("open", Database::open(own.path()))?;
        expect_fork("open of the parent's", Database::open(dir.path()))?;
        expect_fork("open to read", Database::open_with(own.path(), Options::default().read_only(true)))?;
        expect_fork("verify", verify_directory(own.path(), &VerifyOptions::default()))?;
        // A child of the child is no better off.
        in_child(&own, || expect_fork("open", Database::open(own.path())));
        Ok(())
    });
    check_parent(&dir, db, keyspace);
    drop(Database::open(own.path()).unwrap());
}

#[test]
fn a_child_forked_while_no_database_is_open_opens_its_own() {
    let _alone = alone();
    let (closed, dir) = (TestDir::new("fork-closed"), TestDir::new("fork-first"));
    let (db, keyspace) = open(&closed);
    db.close().unwrap();
    drop((db, keyspace));
    in_child(&dir, || {
        for path in [closed.path(), dir.path()] {
            let db = Database::open(path).map_err(|error| error.to_string())?;
            db.default_keyspace().put("k", "v").map_err(|error| error.to_string())?;
            db.close().map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    for path in [closed.path(), dir.path()] {
        let db = Database::open(path).unwrap();
        assert_eq!(db.default_keyspace().get("k").unwrap().unwrap(), "v");
    }
}
