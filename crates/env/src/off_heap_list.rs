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
//! Pieces of a fixed number of numbers ([`PIECE_NUMBERS`]), each an [`OffHeapSlice`]: nothing is copied when
//! the list grows, and all memory returns to the system when it is dropped. Smaller pieces come first,
//! because most lists are short.

use crate::OffHeapSlice;

/// Numbers of the first piece: a page. Each further piece has twice as many, up to [`PIECE_NUMBERS`].
const FIRST_NUMBERS: usize = 512;
/// Numbers of all large pieces: 2 MiB.
const PIECE_NUMBERS: usize = 256 << 10;

/// An off-heap list of numbers; see the head of this file.
#[derive(Debug, Default)]
pub struct OffHeapList {
    /// All full but the last.
    pieces: Vec<OffHeapSlice<u64>>,
    used: usize,
    /// Numbers in all pieces before it.
    before: usize,
}

impl OffHeapList {
    /// Adds a number at the end. Aborts when out of memory, as all allocation does.
    #[inline]
    pub fn push(&mut self, number: u64) {
        if let Some(piece) = self.pieces.last_mut()
            && let Some(place) = piece.get_mut(self.used)
        {
            *place = number;
            self.used += 1;
        } else {
            self.push_to_new_piece(number);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_to_new_piece(&mut self, number: u64) {
        let last = self.pieces.last().map_or(FIRST_NUMBERS / 2, |piece| piece.len());
        let mut piece = OffHeapSlice::filled(0, (last * 2).min(PIECE_NUMBERS));
        piece[0] = number;
        self.before += self.used;
        self.used = 1;
        self.pieces.push(piece);
    }

    /// The last number added.
    #[inline]
    pub fn last(&self) -> Option<u64> {
        self.pieces.last().and_then(|piece| piece.get(self.used - 1)).copied()
    }

    /// The number of numbers.
    #[inline]
    pub fn len(&self) -> usize {
        self.before + self.used
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All numbers in order, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u64]> {
        let last = self.pieces.len().saturating_sub(1);
        self.pieces
            .iter()
            .enumerate()
            .map(move |(at, piece)| if at == last { &piece[..self.used] } else { piece })
    }

    /// All numbers in one piece of ordinary memory, and an empty list.
    pub fn take(&mut self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        self.clear();
        all
    }

    /// Empties the list and releases its memory.
    pub fn clear(&mut self) {
        *self = OffHeapList::default();
    }

    /// Bytes of memory used.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| size_of_val(&piece[..])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of values")]
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
            assert!(list.memory_bytes() >= 8 * count && list.memory_bytes() <= 8 * count + 8 * PIECE_NUMBERS);
            assert!(list.take().into_iter().eq((0..count).map(number)));
            assert_eq!((list.len(), list.memory_bytes(), list.last()), (0, 0, None));
            list.push(3);
            assert_eq!(list.take(), [3]);
        }
    }
}
