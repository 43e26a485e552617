//! A table's own way to those of its blocks that are in memory: one slot a block, found by number.
//!
//! The cache's hash table costs a lookup two cache misses and a lock; a slot costs eight bytes, whose line is prefetched
//! while the index is still being searched. Measured at 60,000 blocks: a fifth off a cached get, a third off a scan.
//!
//! # Invariants
//! * SL1. The pointer in a slot owns one strong count of its block.
//! * SL2. Only the holder of a slot's lock bit turns the pointer into a count of its own, so that the block cannot be
//!   freed in between; and nobody else replaces the pointer meanwhile.
//! * SL3. Nobody waits. A reader that finds the bit taken asks the cache. An evictor that finds it taken leaves a mark,
//!   and the holder empties the slot when it unlocks.
//! * SL4. Once a block has left the cache and all calls about it have returned, no slot holds it: shortcuts do not
//!   exceed the budget.
//!
//! # States of a slot
//! | state | word | to | by |
//! |---|---|---|---|
//! | empty | 0 | full | install: count taken, then compare-exchange |
//! | full | pointer | locked | reader: compare-exchange |
//! | | | empty | removal: compare-exchange, count given back |
//! | locked | pointer + 1 | full | the reader that locked: compare-exchange |
//! | | | doomed | removal: compare-exchange |
//! | doomed | pointer + 3 | empty | the reader that locked: store, count given back |
//!
//! # Entering and leaving (SL4)
//! The cache may evict a block before the thread that loaded it installs it. So residence is a flag of the block:
//! installing is *store the pointer, then read the flag*, leaving is *clear the flag, then look for the pointer*, with
//! a sequentially consistent fence between the two steps of each. Whichever fence comes second, the step behind it
//! sees what was done before the other, and the slot is emptied.
//! A removal names the block it means, and its caller holds that block, so that its address is no other's.
//!
//! # Rejected
//! * Epochs or hazard pointers, which spare the two writes to the slot: they need a registry of threads, and the
//!   writes are 10 ns of 350. To be reconsidered for machines with many cores, where hot slots are shared.
//! * Weak pointers: upgrading writes to the same line as cloning does, and the memory of what was evicted would stay.

use crate::block::BlockRef;
use crate::isa::prefetch;
use esker_base::sync::atomic::{AtomicUsize, Ordering, fence};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The bit of a slot's word that a reader holds while it takes a count.
const LOCKED: usize = 1;
/// The bit that asks the holder of the lock to empty the slot.
const DOOMED: usize = 2;
const FLAGS: usize = LOCKED | DOOMED;

/// Cache lines of a block that are prefetched: the directory of a flat block of 4 KiB ends in the fifth.
pub(crate) const PREFETCHED_LINES: usize = 5;

/// A counted pointer that fits a slot.
///
/// # Safety
/// `into_word` gives an address that is not 0 and a multiple of four. Between `into_word` and `from_word` what it points
/// to stays alive, and `clone_from_word` may be called from any thread.
pub(crate) unsafe trait Pointer: Clone + Send + Sync {
    /// The address, which owns one count from now on.
    fn into_word(self) -> usize;

    /// Takes a count back.
    ///
    /// # Safety
    /// `word` must come from `into_word`, and each count may be taken back once.
    unsafe fn from_word(word: usize) -> Self;

    /// Another count.
    ///
    /// # Safety
    /// `word` must come from `into_word` and its count not have been taken back.
    unsafe fn clone_from_word(word: usize) -> Self;
}

// SAFETY: the address of a block is that of a piece of memory, aligned to its count; the count keeps it alive, and blocks may be shared
// among threads.
unsafe impl Pointer for BlockRef {
    fn into_word(self) -> usize {
        self.into_address()
    }

    #[inline(always)]
    unsafe fn from_word(word: usize) -> BlockRef {
        // SAFETY: the caller's promise.
        unsafe { BlockRef::from_address(word) }
    }

    #[inline(always)]
    unsafe fn clone_from_word(word: usize) -> BlockRef {
        // SAFETY: the caller's promise; the count that is not taken back stays the word's.
        let own = ManuallyDrop::new(unsafe { BlockRef::from_address(word) });
        BlockRef::clone(&own)
    }
}

const _: () = assert!(align_of::<usize>() >= 4, "slots keep flags in the low bits of addresses");

/// The slots of a table, one for each block.
pub(crate) type Slots = Arc<[Slot<BlockRef>]>;

/// Slots for as many blocks, all empty.
pub(crate) fn empty_slots(blocks: usize) -> Slots {
    (0..blocks).map(|_| Slot::new()).collect()
}

/// Slot of one block. Eight make a cache line.
pub(crate) struct Slot<P: Pointer> {
    word: AtomicUsize,
    owned: PhantomData<P>,
}

impl<P: Pointer> Slot<P> {
    /// An empty slot.
    pub(crate) fn new() -> Slot<P> {
        Slot { word: AtomicUsize::new(0), owned: PhantomData }
    }

    /// The block, unless the slot is empty or another thread is just taking it from there.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<P> {
        let word = self.word.load(Ordering::Relaxed);
        if word == 0 || word & FLAGS != 0 {
            return None;
        }
        // Acquire: the block's contents were written before it was installed.
        let locked = self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if locked.is_err() {
            return None;
        }
        // SAFETY: SL1, and SL2: the slot's count is not given back while it is locked.
        let pointer = unsafe { P::clone_from_word(word) };
        // Release: whoever takes the slot's count away does it after the clone.
        let unlocked = self.word.compare_exchange(word | LOCKED, word, Ordering::Release, Ordering::Relaxed);
        if unlocked.is_err() {
            self.empty_doomed(word);
        }
        Some(pointer)
    }

    /// Empties the slot, which this thread has locked and another one has doomed.
    #[cold]
    fn empty_doomed(&self, word: usize) {
        self.word.store(0, Ordering::Release);
        // SAFETY: SL1; the slot gave its count up just now.
        drop(unsafe { P::from_word(word) });
    }

    /// Puts a block into the slot if that is empty and the block is in the cache, which is asked before and afterwards
    /// (see the head of this file).
    pub(crate) fn install(&self, pointer: &P, is_resident: impl Fn(&P) -> bool) {
        if self.word.load(Ordering::Relaxed) != 0 || !is_resident(pointer) {
            return;
        }
        let owned = pointer.clone().into_word();
        // Release: readers that find the pointer here see the block's contents.
        if self.word.compare_exchange(0, owned, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the slot did not take the count.
            drop(unsafe { P::from_word(owned) });
            return;
        }
        fence(Ordering::SeqCst);
        if !is_resident(pointer) {
            self.remove(owned);
        }
    }

    /// Empties the slot if it holds the block with this address, now or as soon as the reader that has locked it
    /// unlocks. The caller holds the block.
    pub(crate) fn remove(&self, pointer: usize) {
        // The block's flag of residence was cleared before.
        fence(Ordering::SeqCst);
        let mut word = self.word.load(Ordering::Relaxed);
        while word & !FLAGS == pointer && word & DOOMED == 0 {
            let next = if word & LOCKED == 0 { 0 } else { word | DOOMED };
            // Acquire: the count is given back after all clones that were made of it.
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if next == 0 => {
                    // SAFETY: SL1; the slot gave its count up just now.
                    drop(unsafe { P::from_word(pointer) });
                    return;
                }
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Where the block begins that the slot holds; 0 if there is none. To ask for its memory, and for nothing else.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.word.load(Ordering::Relaxed) & !FLAGS
    }

    /// Prefetches the first lines of the block that the slot holds, its count among them; `false` if it is empty.
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
        debug_assert!(word & FLAGS == 0, "nobody else has the slot");
        if word != 0 {
            // SAFETY: SL1; the slot is gone.
            drop(unsafe { P::from_word(word) });
        }
    }
}

impl<P: Pointer> std::fmt::Debug for Slot<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.word.load(Ordering::Relaxed) {
            0 => "empty",
            word if word & FLAGS == 0 => "full",
            _ => "locked",
        };
        f.write_str(state)
    }
}

#[cfg(all(test, loom))]
mod model;
