//! Closing during concurrent calls. The other thread is blocked at a gate inside a call of the file system;
//! the lock it waits for shows whether closing waits, so the tests depend on neither luck nor time.

use crate::backup::Backups;
use crate::parts::StepBackground;
use crate::{Database, Durability, KeyspaceOptions, Options};
use esker_base::{Error, Result};
use esker_env::Env;
use esker_env::fault::{FaultFs, Operation, StrictFs};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

const DIR: &str = "/db";

struct World {
    strict: StrictFs,
    faults: FaultFs,
}

impl World {
    fn new() -> World {
        let strict = StrictFs::new();
        World { faults: FaultFs::over_strict(strict.clone()), strict }
    }

    fn env(&self) -> Env {
        Env::simulated(Arc::new(self.faults.clone()), 1)
    }

    fn open(&self, flush_on_close: bool) -> Result<Database> {
        let keyspace = KeyspaceOptions::default().strategy("none".parse().expect("a strategy"));
        let options = Options::default().memory_budget(8 << 20).wal_segment_bytes(64 << 10);
        Database::open_with(
            DIR,
            options.flush_on_close(flush_on_close).keyspace_options(keyspace).env(self.env()),
        )
    }

    /// Runs a closure on a thread of its own; its result comes through the channel.
    fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (JoinHandle<()>, Receiver<T>) {
        let (sender, receiver) = channel();
        let thread = self.env().spawn("another", move || sender.send(work()).expect("the test waits for it"));
        (thread.expect("a thread"), receiver)
    }

    /// Blocks the next such call until a message is sent, or the test has failed.
    fn hold(&self, operation: Operation, path: &str) -> (Receiver<()>, Sender<()>) {
        let (arrived, arrives) = channel();
        let (open, opened) = channel::<()>();
        self.faults.interrupt(operation, path, move || {
            arrived.send(()).expect("the test waits for it");
            let _ = opened.recv();
        });
        (arrives, open)
    }

    /// The file that was changed last.
    fn last_changed(&self) -> std::path::PathBuf {
        self.strict.events().last().expect("something was done").path().to_path_buf()
    }
}

/// Every method of a handle reports that the database is closed.
fn assert_all_closed(db: &Database) {
    let keyspace = db.default_keyspace();
    let answers = [
        ("put", db.default_keyspace().put(b"k", b"v")),
        ("a large put", db.default_keyspace().put(b"k", vec![0; 100_000])),
        ("a durable put", keyspace.put_with(b"k", b"v", Durability::Power)),
        ("delete", db.default_keyspace().delete(b"k")),
        ("write", {
            let mut batch = db.batch();
            batch.put(keyspace, b"k", b"v");
            db.write(&batch).map(drop)
        }),
        ("flush", db.flush()),
        ("flush of a keyspace", keyspace.flush()),
        ("compact", keyspace.compact(..)),
        ("compact_all", db.compact_all()),
        ("drain", db.drain()),
        ("sync", db.sync()),
        ("keyspace", db.keyspace("new").map(|_| ())),
        ("open_keyspace", db.open_keyspace("default").map(|_| ())),
        ("drop_keyspace", db.drop_keyspace("other")),
        ("rename_keyspace", db.rename_keyspace("other", "renamed")),
        ("set_options", keyspace.update_options(|options| options.block_size(1024)).map(|_| ())),
        ("checkpoint", db.checkpoint("/another").map(|_| ())),
        ("backup", db.backup(&backups(db, "/others")).map(|_| ())),
        ("get", db.default_keyspace().get(b"k").map(|_| ())),
        ("multi_get", keyspace.multi_get(&[b"k"]).map(|_| ())),
        ("cursor", keyspace.cursor().map(|_| ())),
        ("verify", db.verify().map(|_| ())),
    ];
    for (call, answer) in answers {
        assert!(matches!(answer, Err(Error::Closed)), "{call} answers {answer:?}");
    }
    assert!(!db.step_background(), "background work goes on");
}

fn backups(db: &Database, dir: &str) -> Backups {
    Backups::with_env(dir, db.store().env.clone())
}

/// A foreground call that changes files, and where it is blocked.
type Held = (&'static str, fn(&Database) -> Result<()>, Operation, &'static str);

const HELD: [Held; 10] = [
    ("a flush", |db| db.flush(), Operation::Create, "tables/"),
    ("the end of a flush", |db| db.flush(), Operation::SyncData, "MANIFEST"),
    ("a compaction", |db| db.default_keyspace().compact(..), Operation::Open, "tables/"),
    ("a large write", |db| db.default_keyspace().put(b"large", vec![5; 200_000]), Operation::Create, "wal/"),
    ("a new keyspace", |db| db.keyspace("new").map(|_| ()), Operation::Write, "MANIFEST"),
    ("a dropped keyspace", |db| db.drop_keyspace("other"), Operation::Write, "MANIFEST"),
    ("a renamed keyspace", |db| db.rename_keyspace("other", "renamed"), Operation::Write, "MANIFEST"),
    (
        "changed options",
        |db| db.default_keyspace().update_options(|options| options.block_size(512)).map(|_| ()),
        Operation::Write,
        "MANIFEST",
    ),
    ("a checkpoint", |db| db.checkpoint("/copy").map(|_| ()), Operation::Link, "tables/"),
    ("a backup", |db| db.backup(&backups(db, "/backups")).map(|_| ()), Operation::Create, "/backups"),
];

/// Closing waits for foreground calls that access files; otherwise the directory lock would be released while
/// they still write there, and the next owner would not be alone.
#[test]
fn closing_waits_for_calls_that_access_files() {
    for (name, call, operation, path) in HELD {
        let world = World::new();
        let db = world.open(false).unwrap();
        db.keyspace("other").unwrap();
        for value in [b"older", b"newer"] {
            db.flush().unwrap();
            db.default_keyspace().put(b"key", value).unwrap();
        }
        if name == "a compaction" {
            db.flush().unwrap();
        }
        let (arrives, gate) = world.hold(operation, path);
        let within = db.clone();
        let (caller, called) = world.start(move || call(&within));
        arrives.recv().unwrap();
        let closing = db.clone();
        let (closer, closed) = world.start(move || closing.close());
        // Closing has reached its wait, or has passed it.
        let store = Arc::clone(db.store());
        while !store.activity.is_locked_exclusive() && !closer.is_finished() {
            std::thread::yield_now();
        }
        assert!(!closer.is_finished(), "closing did not wait for {name}");
        assert!(matches!(world.open(true), Err(Error::Locked { .. })), "another owner came in during {name}");
        assert_all_closed(&db);
        gate.send(()).unwrap();
        caller.join().unwrap();
        closer.join().unwrap();
        let outcome = called.recv().unwrap();
        assert!(matches!(outcome, Ok(()) | Err(Error::Closed)), "{name} ended with {outcome:?}");
        closed.recv().unwrap().unwrap();
        assert_eq!(
            world.last_changed(),
            Path::new(DIR).join("LOCK"),
            "after {name} the lock was not let go of last"
        );
        assert_all_closed(&db);
        // At once, while the old handles still exist.
        let again = world.open(true).unwrap();
        assert_eq!(
            again.default_keyspace().get(b"key").unwrap().as_deref(),
            Some(b"newer".as_slice()),
            "after {name}"
        );
        assert!(again.verify().unwrap().is_clean());
        again.close().unwrap();
    }
}

/// A second close returns when the first is done and not before; otherwise its caller could not reopen the
/// database.
#[test]
fn a_second_close_returns_when_the_directory_is_free() {
    let world = World::new();
    let db = world.open(true).unwrap();
    db.default_keyspace().put(b"key", b"value").unwrap();
    let (arrives, gate) = world.hold(Operation::Create, "tables/");
    let first = db.clone();
    let (closer, closed) = world.start(move || first.close());
    arrives.recv().unwrap();
    let (second, opening) =
        (db.clone(), World { strict: world.strict.clone(), faults: world.faults.clone() });
    let (other_closer, reopened) = world.start(move || second.close().and_then(|()| opening.open(true)));
    // A close that does not wait returns during these turns, and a reopen fails; one that waits passes.
    for _ in 0..10_000 {
        std::thread::yield_now();
    }
    assert!(!closer.is_finished());
    gate.send(()).unwrap();
    closer.join().unwrap();
    other_closer.join().unwrap();
    closed.recv().unwrap().unwrap();
    let again = reopened.recv().unwrap().unwrap();
    assert!(again.default_keyspace().contains(b"key").unwrap());
    assert_all_closed(&db);
}

/// Nothing of a database happens after it released its lock, not even when its last handles are dropped.
#[test]
fn the_lock_is_released_last() {
    for flush_on_close in [true, false] {
        let world = World::new();
        let db = world.open(flush_on_close).unwrap();
        for number in 0..2000u32 {
            db.default_keyspace().put(number.to_be_bytes(), [1; 100]).unwrap();
        }
        db.compact_all().unwrap();
        db.default_keyspace().put(b"key", b"value").unwrap();
        let snapshot = db.snapshot();
        db.close().unwrap();
        assert_eq!(world.last_changed(), Path::new(DIR).join("LOCK"));
        let events = world.strict.trace_len();
        db.close().unwrap();
        assert!(!db.step_background());
        drop((snapshot, db));
        assert_eq!(world.strict.trace_len(), events);
        assert!(world.open(true).unwrap().default_keyspace().contains(b"key").unwrap());
    }
}

/// A caller that waits for workers gets an error when one of them has panicked: no thread is left to do the
/// work.
#[test]
fn draining_ends_with_a_worker_that_panics() {
    let world = World::new();
    let env = Env { fs: Arc::new(world.faults.clone()), ..Env::real() };
    let options = Options::default().memory_budget(8 << 20).mapped_log(false).env(env);
    let db = Database::open_with(DIR, options).expect("a database");
    db.default_keyspace().put(b"key", b"value").expect("a put");
    world.faults.interrupt(Operation::Create, "tables/", || panic!("a panic that the test makes"));
    let draining = db.clone();
    let (drainer, drained) = world.start(move || draining.drain());
    // Far more than it takes; a hang fails the test instead of blocking it.
    let told = drained.recv_timeout(std::time::Duration::from_secs(60)).expect("an answer");
    assert!(matches!(told, Err(Error::ReadOnly { .. })), "{told:?}");
    drainer.join().expect("no panic there");
    db.close().unwrap_err();
}
