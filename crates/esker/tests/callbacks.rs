//! Calls from inside of callbacks, and beside what is held: each either works or is refused at once; none
//! waits for itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::TestDir;
use esker::compaction_filter::{CompactionFilter, Decision};
use esker::merge::{Merge, MergeError};
use esker::{Database, Error, Keyspace, KeyspaceOptions, MergeOperator, Options};
use std::sync::{Arc, Mutex};

/// What a callback calls, and what came of it.
#[derive(Default)]
struct Caller {
    handles: Mutex<Option<(Database, Keyspace)>>,
    /// Of each call from the callback: its name, and whether it worked.
    outcomes: Mutex<Vec<(&'static str, Result<(), Error>)>>,
}

impl Caller {
    /// Makes each kind of call once.
    fn call(&self) {
        let Some((db, keyspace)) = self.handles.lock().unwrap().take() else { return };
        let mut batch = db.batch();
        batch.put(&keyspace, "batch", "1");
        let snapshot = db.snapshot();
        let outcomes = [
            ("put", keyspace.put("put", "1")),
            ("get", keyspace.get("put").map(drop)),
            ("iter", keyspace.iter().try_for_each(|entry| entry.map(drop))),
            ("snapshot", keyspace.at(&snapshot).get("put").map(drop)),
            ("write", db.write(&batch).map(drop)),
            ("transact", db.transact(|tx| tx.put(&keyspace, "transact", "1"))),
            ("update_options", keyspace.update_options(|options| options.block_size(2048)).map(drop)),
            ("keyspace", db.keyspace("made by a callback").map(drop)),
            ("sync", db.sync()),
            ("flush", keyspace.flush()),
            ("flush all", db.flush()),
            ("compact", keyspace.compact(..)),
            ("drain", db.drain()),
            ("close", db.close()),
        ];
        self.outcomes.lock().unwrap().extend(outcomes);
    }

    fn arm(&self, db: &Database, keyspace: &Keyspace) {
        *self.handles.lock().unwrap() = Some((db.clone(), keyspace.clone()));
    }

    /// Checks that these calls were refused, and all others worked.
    fn check(&self, refused: &[&str]) {
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap());
        assert_eq!(outcomes.len(), 14, "the callback was not called");
        for (call, outcome) in outcomes {
            match outcome {
                Ok(()) => assert!(!refused.contains(&call), "{call} waits for its own job"),
                Err(Error::InvalidArgument(text)) if refused.contains(&call) => {
                    assert!(text.contains("waits for that"), "{call}: {text}");
                }
                Err(error) => panic!("{call}: {error}"),
            }
        }
    }
}

struct CallingFilter(Arc<Caller>);

impl CompactionFilter for CallingFilter {
    fn name(&self) -> &str {
        "calls the database"
    }

    fn filter(&self, _: &[u8], _: &[u8]) -> Decision {
        self.0.call();
        Decision::Keep
    }
}

struct CallingMerge(Arc<Caller>);

impl Merge for CallingMerge {
    fn name(&self) -> &str {
        "calls the database"
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
        self.0.call();
        Ok(operands.last().map(|last| last.to_vec()).unwrap_or_default())
    }
}

#[test]
fn a_compaction_filter_may_call_what_does_not_wait_for_jobs() {
    let dir = TestDir::new("filter-calls");
    let caller = Arc::new(Caller::default());
    let filter = CallingFilter(Arc::clone(&caller));
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let options = KeyspaceOptions::default().compaction_filter(Arc::new(filter));
    let filtered = db.keyspace_with("filtered", options).unwrap();
    let other = db.keyspace("other").unwrap();
    // In the keyspace itself the compaction would wait for the one that calls.
    for (called, refused) in
        [(other, &["drain", "close"][..]), (filtered.clone(), &["compact", "drain", "close"])]
    {
        filtered.put("k", "v").unwrap();
        filtered.flush().unwrap();
        caller.arm(&db, &called);
        filtered.compact(..).unwrap();
        caller.check(refused);
    }
    db.close().unwrap();
}

#[test]
fn a_merge_operator_may_call_what_does_not_wait_for_jobs_and_everything_in_a_read() {
    let dir = TestDir::new("merge-calls");
    let caller = Arc::new(Caller::default());
    let operator: Arc<dyn Merge> = Arc::new(CallingMerge(Arc::clone(&caller)));
    let open = || {
        let options = Options::default().custom_merge(Arc::clone(&operator));
        Database::open_with(dir.path(), options).unwrap()
    };
    let db = open();
    let merged = db.keyspace_with(
        "merged",
        KeyspaceOptions::default().merge_operator(MergeOperator::custom(Arc::clone(&operator))),
    );
    let merged = merged.unwrap();
    merged.put("k", "0").unwrap();
    merged.merge("k", "1").unwrap();
    merged.merge("k", "2").unwrap();
    caller.arm(&db, &db.keyspace("other").unwrap());
    merged.flush().unwrap();
    caller.check(&["flush", "flush all", "compact", "drain", "close"]);
    let snapshot = db.snapshot();
    merged.merge("k", "3").unwrap();
    caller.arm(&db, &db.keyspace("other").unwrap());
    assert_eq!(merged.get("k").unwrap().unwrap(), "3");
    caller.check(&[]);
    drop(snapshot);
}

/// Whatever is held, no call waits for it.
#[test]
fn calls_go_on_while_cursors_snapshots_and_transactions_are_held() {
    let dir = TestDir::new("held-calls");
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("held", "1").unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let snapshot = db.snapshot();
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "written", "1").unwrap();
    let range = keyspace.iter();
    let caller = Caller::default();
    caller.arm(&db, &keyspace);
    caller.call();
    caller.check(&[]);
    assert_eq!(cursor.value(), Some(b"1".as_slice()));
    assert!(matches!(keyspace.at(&snapshot).get("held"), Err(Error::Closed)));
    assert!(matches!(transaction.commit(), Err(Error::Closed)));
    drop((cursor, range, snapshot));
}

#[test]
fn the_closure_of_an_option_change_may_make_other_calls() {
    let dir = TestDir::new("closure-calls");
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let (keyspace, other) = (db.keyspace("k").unwrap(), db.keyspace("other").unwrap());
    keyspace.put("k", "v").unwrap();
    let caller = Caller::default();
    caller.arm(&db, &other);
    let closed = keyspace.update_options(|options| {
        caller.call();
        options.block_size(1024)
    });
    caller.check(&[]);
    assert!(matches!(closed, Err(Error::Closed)), "the closure has closed the database");
}
