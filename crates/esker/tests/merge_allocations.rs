//! A compaction allocates by table, block and window, never by entry: measured by a counting allocator.

mod common;

use common::TestDir;
use esker::options::{Codec, PerLevel, Strategy};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Allocations of the whole process, this binary's only test; reallocations count.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: both methods pass their arguments to the system's allocator unchanged, so its guarantees hold. The
// trait's provided methods call these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this method, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RUNS: u64 = 4;
const VALUE_BYTES: usize = 100;
const BLOCK_BYTES: usize = 4096;

/// Length of the key with this number.
type KeyBytes = fn(u64) -> usize;

/// Writes [`RUNS`] interleaved runs of `entries` entries in all; every eighth key is in two of them.
fn write_runs(keyspace: &Keyspace, entries: u64, key_bytes: KeyBytes) {
    for run in 0..RUNS {
        let mut loader = keyspace.bulk_load().expect("a loader");
        for number in (0..entries).filter(|n| n % RUNS == run || (n % 8 == 0 && run == 1)) {
            let mut key = format!("{:016x}", number.wrapping_mul(0x0123_4567));
            key.extend(std::iter::repeat_n('k', key_bytes(number) - key.len()));
            loader.add(key, [run as u8; VALUE_BYTES]).expect("an entry");
        }
        loader.finish().expect("a run");
        keyspace.flush().expect("installing");
    }
}

/// Allocations during a compaction of `entries` entries, and the number of output blocks.
fn merging(entries: u64, key_bytes: KeyBytes) -> (u64, u64) {
    let dir = TestDir::new("merge-allocations");
    let env = Env::simulated(Arc::new(StdFileSystem), 3);
    let options = KeyspaceOptions::default().strategy(Strategy::None).compression(PerLevel::all(Codec::None));
    let options = options.block_size(BLOCK_BYTES);
    let db = Database::open_with(dir.path(), Options::default().env(env).keyspace_options(options))
        .expect("opening");
    let keyspace = db.default_keyspace();
    write_runs(keyspace, entries, key_bytes);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    keyspace.compact(..).expect("a merge");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let metrics = db.metrics();
    let here = &metrics.keyspaces[0];
    assert_eq!(here.runs, 1, "all was merged");
    (allocations, here.table_bytes / BLOCK_BYTES as u64)
}

#[test]
fn merging_more_entries_allocates_by_block_at_most() {
    // Keys of one length, and of many, some longer than a cursor's inline buffer.
    let shapes: [(KeyBytes, &str); 2] = [(|_| 16, "equal"), (|n| 16 + (n % 150) as usize, "varied")];
    for (key_bytes, name) in shapes {
        let (few, few_blocks) = merging(10_000, key_bytes);
        let (many, many_blocks) = merging(60_000, key_bytes);
        let (more, more_blocks) = (many - few, many_blocks - few_blocks);
        assert!(more_blocks > 1_000, "{name}: {more_blocks} blocks more are no measure");
        assert!(
            more < more_blocks,
            "{name}: {more} allocations more for 50,000 entries more, which are {more_blocks} blocks"
        );
    }
}
