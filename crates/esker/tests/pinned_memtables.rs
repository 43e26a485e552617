//! Memtables that cursors hold: counted, listed, and moved to files beyond a limit (SM1, SM2).
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which waits for a thread")]

mod common;

use common::TestDir;
use esker::{Cursor, Database, Options};
use std::time::Duration;

const BUDGET_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 1000;
/// Entries between two cursors: more than one memtable holds.
const BETWEEN: u64 = 1500;
const CURSORS: u64 = 20;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Entries that a cursor shows, and whether each has the value of its time.
fn count(cursor: &mut Cursor) -> u64 {
    let mut seen = 0;
    cursor.seek_to_first().unwrap();
    while let Some(value) = cursor.value() {
        assert_eq!(value.len(), VALUE_BYTES);
        seen += 1;
        cursor.advance().unwrap();
    }
    seen
}

#[test]
fn cursors_that_stay_open_keep_files_instead_of_memory() {
    let dir = TestDir::new("pinned-memtables");
    let db = Database::open_with(dir.path(), Options::default().memory_budget(BUDGET_BYTES)).unwrap();
    let keyspace = db.default_keyspace();
    let mut cursors = Vec::new();
    for round in 0..CURSORS {
        for number in 0..BETWEEN {
            // Half are new, half replace older ones.
            let number = round * BETWEEN / 2 + number;
            keyspace.put(key(number), vec![round as u8; VALUE_BYTES]).unwrap();
        }
        cursors.push(keyspace.cursor().unwrap());
        keyspace.flush().unwrap();
    }
    db.drain().unwrap();
    let is_within = || db.metrics().memory.pinned_memtable_bytes <= BUDGET_BYTES / 16;
    // The log worker comes to it some time after the last flush.
    for _ in 0..1000 {
        if !is_within() {
            keyspace.put(b"\0", b"").unwrap();
            keyspace.flush().unwrap();
        }
    }
    assert!(is_within() || !cfg!(target_os = "linux"), "{:?}", db.metrics().memory);
    let memory = db.metrics().memory;
    let pinned = memory.pinned_memtable_bytes + memory.spilled_memtable_bytes;
    assert!(pinned > CURSORS * BETWEEN * VALUE_BYTES as u64 / 2, "{memory:?}");
    let readers = db.open_readers();
    let oldest = &readers[0];
    assert!(oldest.memtable_bytes + oldest.spilled_bytes > BETWEEN * VALUE_BYTES as u64, "{oldest:?}");
    for (round, cursor) in cursors.iter_mut().enumerate() {
        assert_eq!(count(cursor), BETWEEN + round as u64 * BETWEEN / 2, "cursor {round}");
    }
    drop(cursors);
    // The log worker may be moving one of them to a file.
    let is_free = || {
        let memory = db.metrics().memory;
        (memory.pinned_memtable_bytes, memory.spilled_memtable_bytes) == (0, 0)
    };
    let is_free_in_time = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_free()
    });
    assert!(is_free_in_time, "{:?}", db.metrics().memory);
}
