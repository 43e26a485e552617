//! Deletions that take long, as where a file system discards freed blocks at once: writers do not wait for
//! them. The unlink of a table is held at a gate.

#![allow(clippy::unwrap_used, reason = "a test")]

use esker::parts::env::fault::{FaultFs, Operation, StrictFs};
use esker::parts::env::{Background, Env};
use esker::{Database, Options};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Bytes of a log segment.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Values of half a segment that are written while the unlink is held: far more than are prepared ahead.
const VALUES: u64 = 40;

/// Writers need the next segment of the log, and no deletion. If the thread that prepares segments were the
/// one in the unlink, the writer would wait for ever, and the test would not end.
#[test]
fn an_unlink_that_takes_long_delays_no_writer() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let options = Options::default().memory_budget(64 << 20).wal_segment_bytes(SEGMENT_BYTES);
    let database = Database::open_with("/db", options.env(env)).unwrap();
    let keyspace = database.default_keyspace();
    let (begun, begins) = channel();
    let (release, released) = channel::<()>();
    faults.interrupt(Operation::Remove, "tables/", move || {
        begun.send(()).unwrap();
        let _released = released.recv();
    });
    for round in 0..2 {
        (0..100_u32).for_each(|key| keyspace.put(key.to_be_bytes(), [round; 100]).unwrap());
        database.flush().unwrap();
    }
    keyspace.compact(..).unwrap();
    begins.recv().expect("the merge has made its inputs obsolete");
    let before = database.metrics().log;
    for key in 0..VALUES {
        keyspace.put(key.to_be_bytes(), vec![7; SEGMENT_BYTES as usize / 2]).unwrap();
    }
    let after = database.metrics().log;
    assert!(after.written_bytes - before.written_bytes >= VALUES * SEGMENT_BYTES / 2);
    drop(release);
    database.close().unwrap();
}
