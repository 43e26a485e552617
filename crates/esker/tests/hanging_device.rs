//! A device that hangs: neither a flush nor the preparation of a log segment gets on, and writers go on as
//! far as memtables have room.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use esker::parts::env::fault::{FaultFs, Operation, StrictFs};
use esker::parts::env::{Background, Env};
use esker::{Database, Options};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Memtables may hold two mebibytes of it, and the log's share is three.
const BUDGET_BYTES: u64 = 8 << 20;
/// Bytes of a log segment.
const SEGMENT_BYTES: u64 = 64 << 10;
/// The log's share in segments.
const SEGMENTS: u64 = (3 << 20) / SEGMENT_BYTES;
/// Values of a kibibyte: three quarters of what memtables may hold.
const WRITTEN_WHILE_IT_HANGS: u32 = 1_536;

/// The log never held more than two segments at once before, so none but those prepared ahead are there.
/// With two ahead the writer would wait for the third, for ever.
#[test]
fn writers_go_on_as_far_as_memtables_have_room() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let options = Options::default().memory_budget(BUDGET_BYTES).wal_segment_bytes(SEGMENT_BYTES);
    let database = Database::open_with("/db", options.env(env)).unwrap();
    let keyspace = database.default_keyspace();
    let put = |key: u32| keyspace.put(key.to_be_bytes(), vec![7; 1 << 10]).unwrap();
    for _ in 0..2 * SEGMENTS {
        (0..64).for_each(put);
        database.flush().unwrap();
    }
    let are_prepared = || database.metrics().log.segments_prepared >= SEGMENTS;
    let in_time = (0..3_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        are_prepared()
    });
    assert!(in_time, "{} of {SEGMENTS} segments", database.metrics().log.segments_prepared);
    let releases = ["tables/", "wal/"].map(|directory| {
        let (release, released) = channel::<()>();
        faults.interrupt(Operation::Create, directory, move || {
            let _released = released.recv();
        });
        release
    });
    (0..WRITTEN_WHILE_IT_HANGS).for_each(put);
    let stopped = database.metrics().stall_causes.into_iter().filter(|stall| stall.is_stop);
    assert_eq!(stopped.map(|stall| stall.time).sum::<Duration>(), Duration::ZERO);
    drop(releases);
    database.close().unwrap();
}
