//! Off-heap list of numbers that are appended by the million and read in order: hashes of a table's keys
//! until its filter is built.
//!
//! # Why
//! A list that doubles in the program's heap takes up to three times its contents while it grows, and its
//! memory does not return to the system: the allocator of the C library keeps freed memory for the arena of
//! the thread, and an arena takes no memory of another. Four threads that write tables of a million keys left
//! fifty mebibytes behind, beside a budget of ninety.
//!
//! # Design
//! Pieces of fixed size ([`PIECE_BYTES`]), each a [`Region`]: nothing is copied, and all memory returns to
//! the system when the list is dropped. The first piece commits small pages, because most lists are short; a
//! list with a second piece will have more, in huge pages, whose first touch costs a fifth.
//!
//! * NL1. All numbers of each piece except the last are written; of the last the first `used`.

use crate::memory::{PageAdvice, REGION_ALIGNMENT_BYTES, Region};
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a piece.
const PIECE_BYTES: usize = REGION_ALIGNMENT_BYTES;
/// Numbers per piece.
const PIECE_NUMBERS: usize = PIECE_BYTES / size_of::<u64>();
/// Granularity in which the first piece is counted.
const PAGE_BYTES: usize = 4096;

/// An off-heap list of numbers; see the head of this file.
#[derive(Debug)]
pub struct OffHeapList {
    pieces: Vec<Region>,
    /// The last piece; dangling while there is none.
    last: NonNull<u64>,
    /// Numbers in the last piece.
    used: usize,
    /// Capacity of the last piece: 0 while there is none.
    room: usize,
}

// SAFETY: memory with one owner and no thread affinity.
unsafe impl Send for OffHeapList {}
// SAFETY: a shared reference only reads numbers.
unsafe impl Sync for OffHeapList {}

impl Default for OffHeapList {
    fn default() -> OffHeapList {
        OffHeapList { pieces: Vec::new(), last: NonNull::dangling(), used: 0, room: 0 }
    }
}

impl OffHeapList {
    /// Adds a number at the end.
    ///
    /// Ends the process, as all allocation does, when there is no memory.
    #[inline]
    pub fn push(&mut self, number: u64) {
        if self.used == self.room {
            self.add_piece();
        }
        // SAFETY: the piece has room for one more, and this list is its only owner.
        unsafe { self.last.add(self.used).write(number) };
        self.used += 1;
    }

    #[cold]
    #[inline(never)]
    fn add_piece(&mut self) {
        let advice = if self.pieces.is_empty() { PageAdvice::Small } else { PageAdvice::Huge };
        let region = Region::reserve_with(PIECE_BYTES, advice).ok();
        let last = region.as_ref().and_then(|region| NonNull::new(region.as_ptr().cast::<u64>()));
        let (Some(region), Some(last)) = (region, last) else {
            handle_alloc_error(Layout::new::<[u64; PIECE_NUMBERS]>())
        };
        self.pieces.push(region);
        (self.last, self.used, self.room) = (last, 0, PIECE_NUMBERS);
    }

    /// The number appended last.
    #[inline]
    pub fn last(&self) -> Option<u64> {
        let at = self.used.checked_sub(1)?;
        // SAFETY: NL1.
        Some(unsafe { self.last.add(at).read() })
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.pieces.len().saturating_sub(1) * PIECE_NUMBERS + self.used
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// All numbers in order, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u64]> {
        self.pieces.iter().enumerate().map(|(at, piece)| {
            let used = if at + 1 == self.pieces.len() { self.used } else { PIECE_NUMBERS };
            // SAFETY: the first `used` are written (NL1), and the list is not changed while it is borrowed.
            unsafe { std::slice::from_raw_parts(piece.as_ptr().cast::<u64>().cast_const(), used) }
        })
    }

    /// Moves all numbers into ordinary memory and empties the list.
    pub fn take(&mut self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        self.clear();
        all
    }

    /// Empties the list and frees its memory.
    pub fn clear(&mut self) {
        *self = OffHeapList::default();
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        match self.pieces.len() {
            0 | 1 => (self.used * size_of::<u64>()).next_multiple_of(PAGE_BYTES),
            pieces => pieces * PIECE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_in_order_across_pieces() {
        for count in [0, 1, 7, PIECE_NUMBERS - 1, PIECE_NUMBERS, PIECE_NUMBERS + 1, 2 * PIECE_NUMBERS + 5] {
            let mut list = OffHeapList::default();
            assert_eq!((list.last(), list.memory_bytes()), (None, 0));
            let number = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for at in 0..count {
                list.push(number(at));
                assert_eq!(list.last(), Some(number(at)));
            }
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            assert!(list.pieces().flatten().copied().eq((0..count).map(number)), "{count}");
            assert!(list.memory_bytes() >= 8 * count && list.memory_bytes() <= 8 * count + PIECE_BYTES);
            assert!(list.take().into_iter().eq((0..count).map(number)));
            assert_eq!((list.len(), list.memory_bytes(), list.last()), (0, 0, None));
            list.push(3);
            assert_eq!(list.take(), [3]);
        }
    }
}
