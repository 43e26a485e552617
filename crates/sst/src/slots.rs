//! Block slots: per-table pointers to cached blocks, found by block number (pointer swizzling).
//!
//! A cache lookup costs two cache misses and a lock; a slot costs eight bytes, whose line is prefetched
//! during the index search: a fifth off a cached get, a third off a scan (60,000 blocks).
//!
//! # Reserved reference counts
//! Between loading a pointer and incrementing the count of its target, the target may be freed. So the
//! counting is split: a slot owns a reserve of counts, [`RESERVED_COUNTS`] when a block is installed, and its
//! word holds the address and the number of counts taken. One compare-exchange finds the block and takes a
//! count; the block itself, whose line may still be on its way, is not written to. Every count taken is
//! released to the block, like any other. A reader that finds half of the reserve taken replenishes it.
//!
//! # Invariants
//! * SL1. A slot that holds a block owns [`RESERVED_COUNTS`] of its counts less those that its word says were
//!   taken; at least one.
//! * SL2. A count is taken by changing the word from one that has the block, so the block was not freed
//!   before. Only the thread that empties the slot releases the rest of the reserve, by the word it replaced.
//! * SL3. No thread waits: a word that has changed meanwhile was changed by a thread that made progress.
//! * SL4. Once a block has left the cache and all calls about it have returned, no slot holds it: slots do
//!   not exceed the cache's budget.
//!
//! # Installation against eviction (SL4)
//! The cache may evict a block before the thread that loaded it installs it. So residence is a flag of the
//! block. Installing is *store the pointer, then read the flag*; evicting is *clear the flag, then search for
//! the pointer*; a sequentially consistent fence stands between the two steps of each. The step after the
//! later fence sees what was done before the earlier one, and the slot is emptied. A removal names the block
//! by address, and its caller holds that block, so that the address cannot be another block's.
//!
//! # Rejected
//! * A lock bit in the word that a reader holds while it increments the block's count: two more atomic
//!   operations, one of them on the block's line.
//! * Epochs or hazard pointers, which avoid the writes to slot and block: they need a registry of threads. To
//!   be reconsidered for machines with many cores, where hot slots are contended.
//! * Weak pointers: upgrading writes to the same line as cloning, and memory of evicted blocks would stay.

use crate::simd::prefetch;
use esker_base::sync::atomic::{AtomicU64, Ordering, fence};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Counts that a slot owns of a block when it is installed. Loom models use few, so that they run out.
const RESERVED_COUNTS: usize = if cfg!(loom) { 3 } else { 1 << 15 };

/// The bits of a slot's word for the address, as in user space. Blocks at higher addresses are not installed.
const ADDRESS: u64 = (1 << 48) - 1;

/// One taken count.
const ONE_TAKEN: u64 = ADDRESS + 1;

const _: () =
    assert!(RESERVED_COUNTS as u64 <= u64::MAX / ONE_TAKEN, "a word can count all of them as taken");

/// Cache lines of a block that are prefetched: the directory of a flat block of 4 KiB ends in the fifth.
pub(crate) const PREFETCHED_LINES: usize = 5;

/// A counted pointer that fits a slot.
///
/// # Safety
/// The address is not 0 and is that of no other object while there are counts. As long as there is a count,
/// the target stays alive, and counts may be added and released from any thread; releasing has release
/// ordering.
pub(crate) unsafe trait Pointer: Send + Sync {
    /// The address of the target.
    fn address(&self) -> usize;

    /// Adds so many counts, for the caller to own.
    ///
    /// # Safety
    /// The address must be that of a pointer of which the caller owns a count.
    unsafe fn add_counts(address: usize, counts: usize);

    /// Makes a pointer of a count that the caller owns.
    ///
    /// # Safety
    /// The address must be that of the pointer whose count it is, and each count may be used once.
    unsafe fn from_count(address: usize) -> Self;

    /// Releases so many counts.
    ///
    /// # Safety
    /// As for [`Pointer::from_count`].
    unsafe fn release_counts(address: usize, counts: usize);
}

/// The slots of a table, one for each block.
pub(crate) type Slots<P> = Arc<[Slot<P>]>;

/// As many empty slots as there are blocks.
pub(crate) fn empty_slots<P: Pointer>(blocks: usize) -> Slots<P> {
    (0..blocks).map(|_| Slot::new()).collect()
}

/// The slot of one block. Eight make a cache line.
pub(crate) struct Slot<P: Pointer> {
    /// 0 if it is empty, else the address and the counts taken in units of [`ONE_TAKEN`].
    word: AtomicU64,
    owned: PhantomData<P>,
}

#[inline(always)]
fn address_in(word: u64) -> usize {
    (word & ADDRESS) as usize
}

#[inline(always)]
fn taken_in(word: u64) -> usize {
    (word / ONE_TAKEN) as usize
}

impl<P: Pointer> Slot<P> {
    pub(crate) fn new() -> Slot<P> {
        Slot { word: AtomicU64::new(0), owned: PhantomData }
    }

    /// The block, unless the slot is empty or only its last count is left.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<P> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word == 0 || word >= (RESERVED_COUNTS as u64 - 1) * ONE_TAKEN {
                return None;
            }
            // Acquire: the block's contents were written before it was installed.
            let taken =
                self.word.compare_exchange_weak(word, word + ONE_TAKEN, Ordering::Acquire, Ordering::Relaxed);
            match taken {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word >= (RESERVED_COUNTS as u64 / 2) * ONE_TAKEN {
            self.replenish(address_in(word));
        }
        // SAFETY: SL2: the exchange took one of the slot's counts, which this call owns now.
        Some(unsafe { P::from_count(address_in(word)) })
    }

    /// Adds the taken counts to the reserve. The caller holds the block.
    #[cold]
    #[inline(never)]
    fn replenish(&self, address: usize) {
        let word = self.word.load(Ordering::Relaxed);
        let given = taken_in(word);
        if address_in(word) != address || given <= RESERVED_COUNTS / 2 {
            return;
        }
        // SAFETY: the caller holds the block, so the address is that of a living one.
        unsafe { P::add_counts(address, given) };
        // Release: the counts were added before, for the thread that will release them.
        let filled = self.word.compare_exchange(word, word & ADDRESS, Ordering::Release, Ordering::Relaxed);
        if filled.is_err() {
            // Another thread took a count meanwhile, or emptied the slot; half of the reserve is left for
            // further attempts. SAFETY: the counts were added above, and the slot did not take them over.
            unsafe { P::release_counts(address, given) };
        }
    }

    /// Puts a block into the slot if the slot is empty and the block is resident, which is checked before and
    /// after (see the head of this file).
    pub(crate) fn install(&self, pointer: &P, is_resident: impl Fn(&P) -> bool) {
        let address = pointer.address();
        let fits = address as u64 <= ADDRESS;
        if !fits || self.word.load(Ordering::Relaxed) != 0 || !is_resident(pointer) {
            return;
        }
        // SAFETY: the caller holds the block, so the address is that of a living one.
        unsafe { P::add_counts(address, RESERVED_COUNTS) };
        // Release: readers that find the pointer here see the block's contents, and its count with what was
        // added.
        if self.word.compare_exchange(0, address as u64, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the counts were added above, and the slot did not take them over.
            unsafe { P::release_counts(address, RESERVED_COUNTS) };
            return;
        }
        fence(Ordering::SeqCst);
        if !is_resident(pointer) {
            self.remove(address);
        }
    }

    /// Moves another slot's content into this empty one. The caller holds evictions off, so it is alone.
    pub(crate) fn take_from(&self, other: Slot<P>) {
        debug_assert_eq!(self.address(), 0, "only an empty slot takes over another's block");
        // SL1 holds on: the reserve moves with the word, and the other slot is not dropped.
        let word = ManuallyDrop::new(other).word.load(Ordering::Relaxed);
        // Release: a reader that finds the block here sees its contents.
        self.word.store(word, Ordering::Release);
    }

    /// Empties the slot if it holds the block with this address. The caller holds the block.
    pub(crate) fn remove(&self, address: usize) {
        // The block's residence flag was cleared before.
        fence(Ordering::SeqCst);
        let mut word = self.word.load(Ordering::Relaxed);
        while address_in(word) == address {
            // Acquire: the counts released below were added before.
            match self.word.compare_exchange_weak(word, 0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: SL1, SL2: the exchange emptied the slot, and its remaining counts are released
                    // once, here.
                    unsafe { P::release_counts(address, RESERVED_COUNTS - taken_in(word)) };
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// The address of the block that the slot holds; 0 if it is empty. For prefetching only.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        address_in(self.word.load(Ordering::Relaxed))
    }

    /// Prefetches the first lines of the slot's block, its count among them; `false` if the slot is empty.
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
            // SAFETY: SL1: the slot owned these counts and is gone.
            unsafe { P::release_counts(address_in(word), RESERVED_COUNTS - taken_in(word)) };
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
