//! A slice of fixed length whose memory is the system's again when it goes: filters and indexes of tables,
//! and what is read and written at the end of a table.
//!
//! # Why
//! Such pieces have a mebibyte and more, and come and go with tables, each in whichever thread opens or
//! writes one. The allocator of the C library keeps what was freed for the arena of the thread: once a piece
//! of some size was freed, pieces up to that size are not mapped one by one any more, and a small allocation
//! behind them keeps all of them. Beside a budget of 92 MiB that was up to 44 MiB, of which nothing was in
//! use.
//!
//! # Design
//! From [`LONG_BYTES`] on a slice has a [`Region`] of its own, with small pages, so that no page is committed
//! beyond its last one; shorter ones are boxed. One that [stays](LongSlice::lasting) and is looked at here
//! and there lies with others of its kind in huge pages ([`crate::shelves`]), from [`LASTING_BYTES`] on, as
//! soon as there is enough of them; or, if it is very long, in a region whose inner pages are huge.
//!
//! * LS1. `first` is that of `len` initialised values, which are this slice's alone: in its memory, or in a
//!   box that was leaked.

use crate::memory::{PageAdvice, Region};
use crate::shelves::{self, Piece, Place, Small};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes from which a slice has a region: an allocator has smaller ones at hand, and the last page and the
/// system's calls weigh less here.
const LONG_BYTES: usize = 128 << 10;
/// Bytes from which one that stays lies with others: it takes whole units there.
const LASTING_BYTES: usize = 2 * shelves::UNIT_BYTES;

/// See the file's head.
pub struct LongSlice<T> {
    first: NonNull<T>,
    len: usize,
    memory: Memory,
}

/// Where the values of a slice lie.
enum Memory {
    /// In a box that was leaked.
    Box { _counted: Option<Small> },
    /// In pages of their own.
    Region { _region: Region, _counted: Option<Small> },
    /// Among others'.
    Shelf { _piece: Piece },
}

// SAFETY: memory with one owner and no thread affinity, as a box is.
unsafe impl<T: Send> Send for LongSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LongSlice<T> {}

impl<T: Copy> LongSlice<T> {
    /// `len` times the same value.
    ///
    /// Ends the process, as all allocation does, when there is no memory.
    pub fn filled(value: T, len: usize) -> LongSlice<T> {
        LongSlice::collect(std::iter::repeat_n(value, len))
    }

    /// As many values as the iterator says.
    ///
    /// # Panics
    /// If it has said too many.
    pub fn collect(values: impl ExactSizeIterator<Item = T>) -> LongSlice<T> {
        LongSlice::alone(values, PageAdvice::Small, None)
    }

    /// The same, for what will stay for long and be looked at here and there: huge pages if there is much of
    /// it.
    ///
    /// # Panics
    /// As [`LongSlice::collect`].
    pub fn lasting(values: impl ExactSizeIterator<Item = T>) -> LongSlice<T> {
        let len = values.len();
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes < LASTING_BYTES || align_of::<T>() > shelves::UNIT_BYTES {
            return LongSlice::collect(values);
        }
        if bytes > shelves::LARGEST_PIECE_BYTES {
            // Huge pages of its own, but for its ends, where they would be for a part.
            return LongSlice::alone(values, PageAdvice::HugeInside, None);
        }
        match shelves::place(bytes) {
            Place::Shelf(piece) => {
                let first = piece.start().cast::<T>();
                // SAFETY: the piece has so many bytes, is aligned for the type, and is ours alone (SH1).
                unsafe { LongSlice::write(first, values, len, Memory::Shelf { _piece: piece }) }
            }
            Place::Elsewhere(counted) => LongSlice::alone(values, PageAdvice::Small, Some(counted)),
        }
    }

    /// In memory of its own: a region if it is long.
    fn alone(
        values: impl ExactSizeIterator<Item = T>,
        advice: PageAdvice,
        counted: Option<Small>,
    ) -> LongSlice<T> {
        let len = values.len();
        let bytes = len.saturating_mul(size_of::<T>());
        // What the system does not map the allocator may have.
        let region = if bytes < LONG_BYTES { None } else { Region::reserve_with(bytes, advice).ok() };
        let mapped = region.and_then(|region| Some((NonNull::new(region.as_ptr().cast::<T>())?, region)));
        let Some((first, region)) = mapped else { return LongSlice::leaked(values.collect(), counted) };
        // SAFETY: the region has so many bytes, is aligned for any type, and nobody else knows it.
        unsafe { LongSlice::write(first, values, len, Memory::Region { _region: region, _counted: counted }) }
    }

    fn leaked(values: Box<[T]>, counted: Option<Small>) -> LongSlice<T> {
        let len = values.len();
        let first = NonNull::from(Box::leak(values)).cast();
        LongSlice { first, len, memory: Memory::Box { _counted: counted } }
    }

    /// # Safety
    /// From `first` on there is room for `len` values, which nobody else knows and `memory` keeps.
    unsafe fn write(
        first: NonNull<T>,
        values: impl Iterator<Item = T>,
        len: usize,
        memory: Memory,
    ) -> LongSlice<T> {
        let mut written = 0;
        for value in values.take(len) {
            // SAFETY: the caller's promise.
            unsafe { first.add(written).write(value) };
            written += 1;
        }
        assert_eq!(written, len, "an iterator that knows its length");
        LongSlice { first, len, memory }
    }
}

impl<T: Copy> From<Box<[T]>> for LongSlice<T> {
    fn from(values: Box<[T]>) -> LongSlice<T> {
        LongSlice::leaked(values, None)
    }
}

impl<T: Copy> Default for LongSlice<T> {
    fn default() -> LongSlice<T> {
        LongSlice::from(Box::default())
    }
}

impl<T> Deref for LongSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: LS1.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for LongSlice<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: LS1.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for LongSlice<T> {
    fn drop(&mut self) {
        if let Memory::Box { .. } = self.memory {
            let values = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
            // SAFETY: LS1; the values are those of a box that was leaked.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

impl<T: Copy> Clone for LongSlice<T> {
    fn clone(&self) -> LongSlice<T> {
        LongSlice::collect(self.iter().copied())
    }
}

impl<T: PartialEq> PartialEq for LongSlice<T> {
    fn eq(&self, other: &LongSlice<T>) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for LongSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of them for shelves, dropped and made again, so that what is given out was written to before.
    #[test]
    fn lasting_values_are_those_that_were_given() {
        let value = |slice: usize, at: usize| ((slice << 32 | at) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lens = [100_000, 300, 160_000, 20_000, 400_000, 5_000, 1_500_000, 7];
        let mut slices: Vec<(usize, LongSlice<u64>)> = Vec::new();
        for number in 0..60 {
            let len = lens[number % lens.len()];
            slices.push((number, LongSlice::lasting((0..len).map(|at| value(number, at)))));
            if number % 3 == 2 {
                slices.swap_remove(number % slices.len());
            }
        }
        assert!(slices.iter().any(|(_, slice)| matches!(slice.memory, Memory::Shelf { .. })));
        for (number, slice) in &slices {
            assert!(slice.iter().enumerate().all(|(at, &seen)| seen == value(*number, at)), "slice {number}");
        }
    }

    #[test]
    fn values_are_those_that_were_given_whatever_their_number() {
        for len in [0, 1, 7, LONG_BYTES / 8 - 1, LONG_BYTES / 8, 3 << 20] {
            let value = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut slice = LongSlice::collect((0..len).map(value));
            assert!(slice.len() == len && slice.iter().copied().eq((0..len).map(value)));
            assert_eq!(!matches!(slice.memory, Memory::Box { .. }), len * 8 >= LONG_BYTES, "LS1");
            let other = slice.clone();
            assert!(other == slice);
            if let Some(last) = slice.last_mut() {
                *last ^= 1;
                assert!(other != slice);
            }
            let filled = LongSlice::filled(7u8, len);
            assert!(filled.len() == len && filled.iter().all(|&byte| byte == 7));
        }
    }
}
