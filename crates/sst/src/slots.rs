//! A table's own way to those of its blocks that are in memory: one slot a block, found by number.
//!
//! The cache's hash table costs a lookup two cache misses and a lock; a slot costs eight bytes, whose line is
//! prefetched while the index is still being searched. Measured at 60,000 blocks: a fifth off a cached get, a
//! third off a scan.
//!
//! # Counts in stock
//! Between reading a pointer and counting it, what it points to may be freed. So a slot has a stock of
//! counts, [`STOCK`] when a block is installed, and its word has the address and how many of these it has
//! given out: one compare-exchange finds the block and takes a count, and the block itself, whose line may
//! still be on its way, is not written to. Whoever took a count gives it back to the block, as any other. A
//! slot that has given out half has its stock filled up by the reader who notices.
//!
//! # Invariants
//! * SL1. A slot that holds a block owns [`STOCK`] of its counts less those that its word says were given
//!   out; at least one.
//! * SL2. A count is given out by changing the word from one that has the block, so the block was not freed
//!   before. Who empties the slot takes what is left of the stock from the word that it replaced, and nobody
//!   else does.
//! * SL3. Nobody waits: a word that has changed meanwhile has been changed by somebody who came further.
//! * SL4. Once a block has left the cache and all calls about it have returned, no slot holds it: shortcuts
//!   do not exceed the budget.
//!
//! # Entering and leaving (SL4)
//! The cache may evict a block before the thread that loaded it installs it. So residence is a flag of the
//! block: installing is *store the pointer, then read the flag*, leaving is *clear the flag, then look for
//! the pointer*, with a sequentially consistent fence between the two steps of each. Whichever fence comes
//! second, the step behind it sees what was done before the other, and the slot is emptied. A removal names
//! the block it means, and its caller holds that block, so that its address is no other's.
//!
//! # Rejected
//! * A bit of the word that a reader holds while it takes a count of the block: two atomic operations more,
//!   one of them on the block's line.
//! * Epochs or hazard pointers, which spare the writes to slot and block: they need a registry of threads. To
//!   be reconsidered for machines with many cores, where hot slots are shared.
//! * Weak pointers: upgrading writes to the same line as cloning does, and the memory of what was evicted
//!   would stay.

use crate::block::BlockRef;
use crate::simd::prefetch;
use esker_base::sync::atomic::{AtomicU64, Ordering, fence};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Counts that a slot owns of the block that is installed in it. Models have few, so that they run out.
const STOCK: usize = if cfg!(loom) { 3 } else { 1 << 15 };

/// The part of a slot's word that is the address: so many bits have addresses of processes. What has a higher
/// one is not installed.
const ADDRESS: u64 = (1 << 48) - 1;

/// One count that was given out.
const GIVEN: u64 = ADDRESS + 1;

const _: () = assert!(STOCK as u64 <= u64::MAX / GIVEN, "a word can say that all were given out");

/// Cache lines of a block that are prefetched: the directory of a flat block of 4 KiB ends in the fifth.
pub(crate) const PREFETCHED_LINES: usize = 5;

/// A counted pointer that fits a slot.
///
/// # Safety
/// The address is not 0 and is that of no other object while there are counts. As long as there is a count,
/// what it points to stays alive, and counts may be added and given back from any thread; giving them back
/// releases.
pub(crate) unsafe trait Pointer: Send + Sync {
    /// Where it points to.
    fn address(&self) -> usize;

    /// Adds so many counts, which nobody has yet.
    ///
    /// # Safety
    /// The address must be that of a pointer which the caller has a count of.
    unsafe fn add_counts(address: usize, counts: usize);

    /// Takes over a count that somebody has.
    ///
    /// # Safety
    /// The address must be that of a pointer whose count it is, and each count may be taken over once.
    unsafe fn from_count(address: usize) -> Self;

    /// Gives back so many counts.
    ///
    /// # Safety
    /// As for [`Pointer::from_count`].
    unsafe fn give_back(address: usize, counts: usize);
}

// SAFETY: the address of a block is that of a piece of memory; a count keeps it alive, and blocks may be
// shared among threads.
unsafe impl Pointer for BlockRef {
    #[inline]
    fn address(&self) -> usize {
        self.exposed_address()
    }

    unsafe fn add_counts(address: usize, counts: usize) {
        // SAFETY: the caller's promise; the reference is not given back, because its count is the caller's.
        unsafe { ManuallyDrop::new(BlockRef::from_address(address)).add_counts(counts) };
    }

    #[inline(always)]
    unsafe fn from_count(address: usize) -> BlockRef {
        // SAFETY: the caller's promise.
        unsafe { BlockRef::from_address(address) }
    }

    unsafe fn give_back(address: usize, counts: usize) {
        // SAFETY: the caller's promise.
        unsafe { BlockRef::give_back(address, counts) };
    }
}

/// The slots of a table, one for each block.
pub(crate) type Slots = Arc<[Slot<BlockRef>]>;

/// Slots for as many blocks, all empty.
pub(crate) fn empty_slots(blocks: usize) -> Slots {
    (0..blocks).map(|_| Slot::new()).collect()
}

/// Slot of one block. Eight make a cache line.
pub(crate) struct Slot<P: Pointer> {
    /// 0 if it is empty, else the address and what was given out in units of [`GIVEN`].
    word: AtomicU64,
    owned: PhantomData<P>,
}

/// The address in a word.
#[inline(always)]
fn address_in(word: u64) -> usize {
    (word & ADDRESS) as usize
}

/// How many counts a word says were given out.
#[inline(always)]
fn given_in(word: u64) -> usize {
    (word / GIVEN) as usize
}

impl<P: Pointer> Slot<P> {
    /// An empty slot.
    pub(crate) fn new() -> Slot<P> {
        Slot { word: AtomicU64::new(0), owned: PhantomData }
    }

    /// The block, unless the slot is empty, or has no count left but its own last one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<P> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word == 0 || word >= (STOCK as u64 - 1) * GIVEN {
                return None;
            }
            // Acquire: the block's contents were written before it was installed.
            let taken =
                self.word.compare_exchange_weak(word, word + GIVEN, Ordering::Acquire, Ordering::Relaxed);
            match taken {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word >= (STOCK as u64 / 2) * GIVEN {
            self.fill_up(address_in(word));
        }
        // SAFETY: SL2: the count was the slot's and is this call's now.
        Some(unsafe { P::from_count(address_in(word)) })
    }

    /// Adds what was given out to the stock, as far as it is known to the word that is replaced. The caller
    /// holds the block.
    #[cold]
    #[inline(never)]
    fn fill_up(&self, address: usize) {
        let word = self.word.load(Ordering::Relaxed);
        let given = given_in(word);
        if address_in(word) != address || given <= STOCK / 2 {
            return;
        }
        // SAFETY: the caller holds the block.
        unsafe { P::add_counts(address, given) };
        // Release: the counts were added before, for whoever gives them back.
        let filled = self.word.compare_exchange(word, word & ADDRESS, Ordering::Release, Ordering::Relaxed);
        if filled.is_err() {
            // Somebody took a count meanwhile, or emptied the slot; there is half a stock of opportunities
            // more. SAFETY: the counts were added above, and the slot did not take them.
            unsafe { P::give_back(address, given) };
        }
    }

    /// Puts a block into the slot if that is empty and the block is in the cache, which is asked before and
    /// afterwards (see the head of this file).
    pub(crate) fn install(&self, pointer: &P, is_resident: impl Fn(&P) -> bool) {
        let address = pointer.address();
        let fits = address as u64 <= ADDRESS;
        if !fits || self.word.load(Ordering::Relaxed) != 0 || !is_resident(pointer) {
            return;
        }
        // SAFETY: the caller holds the block.
        unsafe { P::add_counts(address, STOCK) };
        // Release: readers that find the pointer here see the block's contents, and its count with what was
        // added.
        if self.word.compare_exchange(0, address as u64, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the counts were added above, and the slot did not take them.
            unsafe { P::give_back(address, STOCK) };
            return;
        }
        fence(Ordering::SeqCst);
        if !is_resident(pointer) {
            self.remove(address);
        }
    }

    /// Takes what another slot holds. This one is empty, and neither is known to anybody else: who looks for
    /// the block meanwhile is kept waiting by the caller.
    pub(crate) fn take_from(&self, other: Slot<P>) {
        debug_assert_eq!(self.address(), 0, "an empty slot takes over");
        // SL1 goes on to hold: the stock goes with the word, and the other slot gives nothing back.
        let word = ManuallyDrop::new(other).word.load(Ordering::Relaxed);
        // Release: whoever finds the block here sees its contents.
        self.word.store(word, Ordering::Release);
    }

    /// Empties the slot if it holds the block with this address. The caller holds the block.
    pub(crate) fn remove(&self, address: usize) {
        // The block's flag of residence was cleared before.
        fence(Ordering::SeqCst);
        let mut word = self.word.load(Ordering::Relaxed);
        while address_in(word) == address {
            // Acquire: the counts given back were added before.
            match self.word.compare_exchange_weak(word, 0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: SL1, SL2; the slot gave up what it had left just now.
                    unsafe { P::give_back(address, STOCK - given_in(word)) };
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Where the block begins that the slot holds; 0 if there is none. To ask for its memory, and for nothing
    /// else.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        address_in(self.word.load(Ordering::Relaxed))
    }

    /// Prefetches the first lines of the block that the slot holds, its count among them; `false` if it is
    /// empty.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self) -> bool {
        let start = self.address();
        if start == 0 {
            return false;
        }
        for line in 0..PREFETCHED_LINES {
            prefetch(std::ptr::without_provenance(start.wrapping_add(64 * line)));
        }
        true
    }
}

impl<P: Pointer> Drop for Slot<P> {
    fn drop(&mut self) {
        let word = self.word.load(Ordering::Acquire);
        if word != 0 {
            // SAFETY: SL1; the slot is gone.
            unsafe { P::give_back(address_in(word), STOCK - given_in(word)) };
        }
    }
}

impl<P: Pointer> std::fmt::Debug for Slot<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.address() == 0 { "empty" } else { "full" })
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests;
