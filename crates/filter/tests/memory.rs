//! A build takes no more memory than it predicts: measured by a counting allocator.

mod common;

use common::{key, kinds};
use esker_filter::{Filter, FilterBuilder, FilterKind, FilterPolicy};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes of this thread, now and at most since it was last set.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counted;

fn note(bytes: isize) {
    // The thread-local is gone while the thread ends; then nothing is counted.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of this method, which is the other's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Most bytes that `finish` took, and its prediction.
fn measured(policy: FilterPolicy, keys: u64) -> (usize, usize) {
    let mut builder = FilterBuilder::new(policy);
    (0..keys).for_each(|number| builder.add(key(number)));
    let said = builder.finish_bytes();
    let before = HELD.get().0;
    HELD.set((before, before));
    let bytes = builder.finish();
    let taken = (HELD.get().1 - before).cast_unsigned();
    drop(bytes);
    (taken, said)
}

#[test]
fn finishing_takes_at_most_the_stated_memory() {
    for kind in kinds() {
        for (keys, bits) in
            [(0, 10.0), (1, 2.0), (1000, 10.0), (60_000, 6.0), (700_000, 10.0), (1_100_000, 4.0)]
        {
            let policy = kind.policy(bits);
            let (taken, said) = measured(policy, keys);
            assert!(taken <= said, "{kind:?}, {keys} keys: {taken} bytes taken, {said} said");
            // Solved filters are built in lists on the heap; many lines lie outside of it.
            let is_of_heap = said < 200 << 10 || matches!(kind, FilterKind::Ribbon | FilterKind::BinaryFuse);
            let least = if is_of_heap { said / 2 } else { 0 };
            let most = if is_of_heap { said } else { 1024 };
            assert!(
                keys < 60_000 || (least..=most).contains(&taken),
                "{kind:?}, {keys} keys: {taken} bytes of the heap taken, {said} said"
            );
        }
    }
    assert_eq!(measured(FilterPolicy::None, 1000), (0, 0));
}

/// The pieces of an off-heap list below 128 KiB, where the heap is the better place: 4, 8, 16, 32 and 64 KiB.
const SMALL_PIECES_BYTES: usize = 124 << 10;

/// Hashes are not on the heap: of a million keys it has the first small pieces and a list of pieces.
#[test]
fn hashes_take_nothing_of_the_heap_and_are_given_back() {
    const KEYS: u64 = 1_000_000;
    for kind in kinds() {
        let before = HELD.get().0;
        let mut builder = FilterBuilder::new(kind.policy(9.0));
        for _ in 0..2 {
            HELD.set((HELD.get().0, HELD.get().0));
            (0..KEYS).for_each(|number| builder.add(key(number)));
            let most = (HELD.get().1 - before).cast_unsigned();
            assert!(most <= SMALL_PIECES_BYTES + 2048, "{kind:?}: {most} bytes of the heap");
            let bytes = 8 * KEYS as usize;
            assert!((bytes..bytes + (2 << 20)).contains(&builder.memory_bytes()), "{kind:?}");
            drop(builder.finish());
            assert_eq!((builder.memory_bytes(), builder.len()), (0, 0), "{kind:?}");
        }
    }
}

/// A large filter in memory is not on the heap: its memory goes back to the system.
#[test]
fn a_large_filter_takes_nothing_of_the_heap() {
    for kind in kinds().filter(|kind| !matches!(kind, FilterKind::Ribbon | FilterKind::BinaryFuse)) {
        let mut builder = FilterBuilder::new(kind.policy(10.0));
        (0..1_000_000).for_each(|number| builder.add(key(number)));
        let stored = builder.finish().expect("the policy has a filter");
        let before = HELD.get().0;
        HELD.set((before, before));
        let filter = Filter::decode(&stored).expect("a filter");
        let taken = (HELD.get().1 - before).cast_unsigned();
        assert!(taken <= 1024, "{kind:?}: {taken} bytes of the heap");
        assert!(filter.memory_bytes() > 1_000_000 && (0..1_000_000).all(|n| filter.may_contain(key(n))));
    }
}
