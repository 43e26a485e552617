//! One slot and one thread: counts taken and released.

use super::{ADDRESS, ONE_TAKEN, Pointer, RESERVED_COUNTS, Slot, taken_in};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of blocks, which outlive all tests.
static COUNTS: [AtomicUsize; 8] = [const { AtomicUsize::new(1) }; 8];
/// How many of them are in use.
static USED_COUNTS: AtomicUsize = AtomicUsize::new(0);

/// Stands for a block: its count.
struct CountedPointer(&'static AtomicUsize);

impl CountedPointer {
    fn new() -> CountedPointer {
        CountedPointer(&COUNTS[USED_COUNTS.fetch_add(1, Ordering::Relaxed)])
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: the count is static, so the address stays valid.
unsafe impl Pointer for CountedPointer {
    fn address(&self) -> usize {
        std::ptr::from_ref(self.0).expose_provenance()
    }

    unsafe fn add_counts(address: usize, counts: usize) {
        // SAFETY: the address of a static count.
        let own = ManuallyDrop::new(unsafe { CountedPointer::from_count(address) });
        own.0.fetch_add(counts, Ordering::Relaxed);
    }

    unsafe fn from_count(address: usize) -> CountedPointer {
        // SAFETY: the address of a static count.
        CountedPointer(unsafe { &*std::ptr::with_exposed_provenance(address) })
    }

    unsafe fn release_counts(address: usize, counts: usize) {
        // SAFETY: the address of a static count.
        let own = ManuallyDrop::new(unsafe { CountedPointer::from_count(address) });
        assert!(own.0.fetch_sub(counts, Ordering::Relaxed) >= counts, "more than there are");
    }
}

impl Drop for CountedPointer {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Ordering::Relaxed) >= 1, "more than there are");
    }
}

/// SL1, however often a block is taken, and however many references exist at once.
#[test]
fn reserved_counts_are_replenished_in_time() {
    let (block, slot) = (CountedPointer::new(), Slot::new());
    slot.install(&block, |_| true);
    assert_eq!(block.count(), 1 + RESERVED_COUNTS);
    let stock = || RESERVED_COUNTS - taken_in(slot.word.load(Ordering::Relaxed));
    for _ in 0..RESERVED_COUNTS * 2 {
        assert!(slot.get().is_some());
        assert_eq!(block.count(), 1 + stock());
    }
    let held: Vec<CountedPointer> =
        (0..RESERVED_COUNTS * 2).map(|_| slot.get().expect("the block")).collect();
    assert_eq!(block.count(), 1 + stock() + held.len());
    slot.remove(block.address());
    assert!(slot.get().is_none());
    assert_eq!(block.count(), 1 + held.len(), "references outlive the slot");
    drop(held);
    assert_eq!(block.count(), 1);
    slot.install(&block, |_| true);
    drop(slot);
    assert_eq!(block.count(), 1, "a slot that goes gives back what it has");
}

/// The last count is the slot's own: taken, the block could be freed while the slot has its address.
#[test]
fn the_last_count_stays() {
    let (block, slot) = (CountedPointer::new(), Slot::new());
    slot.install(&block, |_| true);
    let others = RESERVED_COUNTS - 1;
    slot.word.fetch_add(others as u64 * ONE_TAKEN, Ordering::Relaxed);
    assert!(slot.get().is_none());
    assert_eq!(slot.address(), block.address());
    // SAFETY: these counts were taken above.
    unsafe { CountedPointer::release_counts(block.address(), others) };
    slot.remove(block.address());
    assert_eq!((block.count(), slot.address()), (1, 0));
}

#[test]
fn only_what_is_resident_and_meant_is_installed_and_removed() {
    let (block, other, slot) = (CountedPointer::new(), CountedPointer::new(), Slot::new());
    slot.install(&block, |_| false);
    assert!(slot.get().is_none());
    // The block is evicted while it is installed.
    let asked = std::cell::Cell::new(0);
    slot.install(&block, |_| asked.replace(asked.get() + 1) == 0);
    assert!(slot.get().is_none());
    slot.install(&block, |_| true);
    slot.install(&other, |_| true);
    slot.remove(other.address());
    assert_eq!(slot.address(), block.address());
    assert_eq!((block.count(), other.count()), (1 + RESERVED_COUNTS, 1));
    assert!(block.address() as u64 <= ADDRESS);
}
