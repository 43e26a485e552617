//! Memory budget: what lies idle between the blocks of the process counts as the cache's. In a process of its
//! own, because slabs are the whole process's.

mod common;

use common::{TestDir, key};
use esker::parts::env::{Clock, SystemClock, slabs};
use esker::{Database, Options};
use std::time::Duration;

/// Longer than a few wake-ups of the background threads.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const KEYS: u64 = 60_000;
const MEBIBYTE: u64 = 1 << 20;

/// Overwrites the same records, so that log segments fill, behind each of which the cache is resized, until
/// its capacity is as `wanted`; returns it. The store's size stays.
fn overwrite_until(db: &Database, mut wanted: impl FnMut(u64) -> bool) -> u64 {
    let clock = SystemClock::new();
    let deadline_ns = clock.monotonic_ns() + LONGEST_WAIT.as_nanos() as u64;
    loop {
        (0..8_000).for_each(|number| db.default_keyspace().put(key(number), [7; 1_000]).expect("a put"));
        read_all(db);
        let memory = db.metrics().memory;
        if wanted(memory.cache_capacity_bytes) {
            return memory.cache_capacity_bytes;
        }
        assert!(clock.monotonic_ns() < deadline_ns, "{memory:?}");
    }
}

fn read_all(db: &Database) {
    for number in 0..KEYS {
        assert!(db.default_keyspace().get(key(number)).expect("a get").is_some());
    }
}

#[test]
fn the_cache_leaves_room_for_what_lies_idle_between_blocks() {
    const PIECE_BYTES: usize = 3_000;
    let dir = TestDir::new("idle-blocks");
    let db = Database::open_with(dir.path(), Options::default().memory_budget(128 << 20)).expect("opening");
    (0..KEYS).for_each(|number| db.default_keyspace().put(key(number), [3; 1_000]).expect("a put"));
    let mut rounds = 0..10;
    let before = overwrite_until(&db, |_| rounds.next().is_none());
    let cached = db.metrics().memory.cache_bytes;
    assert!(cached > 20 * MEBIBYTE, "the cache is filled: {cached}");

    // Every other piece is free, so no page can be returned.
    let pieces: Vec<_> = (0..40_000).map(|_| slabs::allocate(PIECE_BYTES)).collect();
    let (freed, held): (Vec<_>, Vec<_>) = pieces.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    for (_, (piece, origin)) in freed {
        // SAFETY: allocated above with this length, and freed once.
        unsafe { slabs::free(piece, PIECE_BYTES, origin) };
    }
    let idle = slabs::idle_bytes();
    assert!(idle as u64 > 50 * MEBIBYTE, "{idle}");
    let with_idle = overwrite_until(&db, |capacity| capacity + 4 * MEBIBYTE < before);
    assert!(with_idle > before / 2, "at most a quarter of the blocks: {with_idle} of {before}");

    for (_, (piece, origin)) in held {
        // SAFETY: as above.
        unsafe { slabs::free(piece, PIECE_BYTES, origin) };
    }
    overwrite_until(&db, |capacity| capacity + 2 * MEBIBYTE > before);
    db.close().expect("closing");
}
