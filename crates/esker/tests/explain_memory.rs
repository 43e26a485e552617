//! Explanation of memory: the parts are what the system tells of the process.
//!
//! A test file of its own, because anonymous memory is that of the whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::TestDir;
use esker::explain::{Figure, Step};
use esker::parts::env::host::anonymous_bytes;
use esker::{Database, Options};

/// Entries of 208 bytes: more than the block cache of the budget holds.
const ENTRIES: u64 = 1_500_000;

fn bytes(step: &Step) -> u64 {
    step.actual(Figure::MemoryBytes).unwrap() as u64
}

#[test]
fn the_parts_are_what_the_system_tells() {
    let Some(before) = anonymous_bytes() else {
        println!("skipped: this system does not tell the anonymous memory of a process");
        return;
    };
    let dir = TestDir::new("explain-memory");
    // So large that what the allocator keeps of ended jobs, a few MiB at any size, is within the twentieth.
    let db = Database::open_with(dir.path(), Options::default().memory_budget(384 << 20)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for number in 0..ENTRIES {
        keyspace.put(key(number), [number as u8; 200]).unwrap();
    }
    db.drain().unwrap();
    // Fills the block cache.
    for number in 0..ENTRIES {
        assert!(keyspace.contains(key(number)).unwrap());
    }
    let told = db.explain_memory();
    let anonymous = bytes(&told.root);
    let [esker, rest] = [&told.root.steps[0], &told.root.steps[1]].map(bytes);
    assert!(esker > 80 << 20, "{told}");
    assert_eq!(esker, told.root.steps[0].steps.iter().map(bytes).sum::<u64>(), "{told}");
    assert!(rest == anonymous.saturating_sub(esker), "{told}");
    let accounted = esker + before;
    assert!(
        accounted.abs_diff(anonymous) * 20 <= anonymous,
        "{before} before, {esker} of Esker, {anonymous} in all: {told}"
    );
    assert!(told.conclusion.contains("block cache"), "{told}");
    db.close().unwrap();
}
