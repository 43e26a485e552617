//! Off-heap slices of fixed length, whose memory returns to the system when they are dropped: filters and
//! indexes of tables, and buffers for the end of a table.
//!
//! # Why
//! Such slices have a mebibyte and more, and come and go with tables, each in the thread that opens or writes
//! one. The allocator of the C library keeps freed memory for the arena of the thread: once a piece of some
//! size was freed, pieces up to that size are not mapped separately any more, and a small allocation behind
//! them keeps all of them. Beside a budget of 92 MiB that was up to 44 MiB of unused memory.
//!
//! # Design
//! From [`LONG_BYTES`] on a slice has its own [`Region`] with small pages, so that no page is committed
//! beyond its last one; shorter ones are boxed. A [lasting](OffHeapSlice::lasting) slice with random access
//! is allocated in huge pages shared with others ([`crate::huge_page_heap`]), from [`LASTING_BYTES`] on, once
//! there is enough of them; or, if it is very long, in a region whose inner pages are huge.
//!
//! * LS1. `first` points to `len` initialised values with this slice as the only owner: in its memory, or in
//!   a leaked box.

use crate::huge_page_heap::{self, Allocation, HeapPiece, SmallBytes};
use crate::memory::{PageAdvice, Region};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Least bytes of a slice with its own region: below, an allocator is better.
const LONG_BYTES: usize = 128 << 10;
/// Least bytes of a lasting slice in shared huge pages, which have whole units.
const LASTING_BYTES: usize = 2 * huge_page_heap::UNIT_BYTES;

/// An off-heap slice; see the head of this file.
pub struct OffHeapSlice<T> {
    first: NonNull<T>,
    len: usize,
    memory: SliceMemory,
}

enum SliceMemory {
    /// A leaked box.
    Box { _counted: Option<SmallBytes> },
    /// Its own pages.
    Region { _region: Region, _counted: Option<SmallBytes> },
    /// A piece of shared huge pages.
    SharedHuge { _piece: HeapPiece },
}

// SAFETY: memory with one owner and no thread affinity, as a box is.
unsafe impl<T: Send> Send for OffHeapSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for OffHeapSlice<T> {}

impl<T: Copy> OffHeapSlice<T> {
    /// `len` times the same value. Aborts when out of memory, as all allocation does.
    pub fn filled(value: T, len: usize) -> OffHeapSlice<T> {
        OffHeapSlice::collect(std::iter::repeat_n(value, len))
    }

    /// The iterator's values.
    ///
    /// # Panics
    /// If the iterator has fewer values than its length.
    pub fn collect(values: impl ExactSizeIterator<Item = T>) -> OffHeapSlice<T> {
        OffHeapSlice::alone(values, PageAdvice::Small, None)
    }

    /// The same for a long-lived slice with random access: in huge pages if there is enough of such memory.
    ///
    /// # Panics
    /// As [`OffHeapSlice::collect`].
    pub fn lasting(values: impl ExactSizeIterator<Item = T>) -> OffHeapSlice<T> {
        let len = values.len();
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes < LASTING_BYTES || align_of::<T>() > huge_page_heap::UNIT_BYTES {
            return OffHeapSlice::collect(values);
        }
        if bytes > huge_page_heap::LARGEST_PIECE_BYTES {
            // Its own huge pages except for its ends, where they would be used only in part.
            return OffHeapSlice::alone(values, PageAdvice::HugeInside, None);
        }
        match huge_page_heap::allocate(bytes) {
            Allocation::Shared(piece) => {
                let first = piece.start().cast::<T>();
                // SAFETY: the piece has at least as many bytes, is aligned for the type, and has no other
                // owner (SH1).
                unsafe { OffHeapSlice::write(first, values, len, SliceMemory::SharedHuge { _piece: piece }) }
            }
            Allocation::Elsewhere(counted) => OffHeapSlice::alone(values, PageAdvice::Small, Some(counted)),
        }
    }

    /// In its own memory: a region if it is long.
    fn alone(
        values: impl ExactSizeIterator<Item = T>,
        advice: PageAdvice,
        counted: Option<SmallBytes>,
    ) -> OffHeapSlice<T> {
        let len = values.len();
        let bytes = len.saturating_mul(size_of::<T>());
        // If the system refuses a region, the allocator may still succeed.
        let region = if bytes < LONG_BYTES { None } else { Region::reserve_with(bytes, advice).ok() };
        let mapped = region.and_then(|region| Some((NonNull::new(region.as_ptr().cast::<T>())?, region)));
        let Some((first, region)) = mapped else { return OffHeapSlice::leaked(values.collect(), counted) };
        // SAFETY: the region has at least as many bytes, is aligned for any type, and has no other user.
        unsafe {
            OffHeapSlice::write(
                first,
                values,
                len,
                SliceMemory::Region { _region: region, _counted: counted },
            )
        }
    }

    fn leaked(values: Box<[T]>, counted: Option<SmallBytes>) -> OffHeapSlice<T> {
        let len = values.len();
        let first = NonNull::from(Box::leak(values)).cast();
        OffHeapSlice { first, len, memory: SliceMemory::Box { _counted: counted } }
    }

    /// # Safety
    /// From `first` on there are `len` values of memory without another user, which `memory` keeps alive.
    unsafe fn write(
        first: NonNull<T>,
        values: impl Iterator<Item = T>,
        len: usize,
        memory: SliceMemory,
    ) -> OffHeapSlice<T> {
        let mut written = 0;
        for value in values.take(len) {
            // SAFETY: guaranteed by the caller.
            unsafe { first.add(written).write(value) };
            written += 1;
        }
        assert_eq!(written, len, "an iterator that knows its length");
        OffHeapSlice { first, len, memory }
    }
}

impl<T: Copy> From<Box<[T]>> for OffHeapSlice<T> {
    fn from(values: Box<[T]>) -> OffHeapSlice<T> {
        OffHeapSlice::leaked(values, None)
    }
}

impl<T: Copy> Default for OffHeapSlice<T> {
    fn default() -> OffHeapSlice<T> {
        OffHeapSlice::from(Box::default())
    }
}

impl<T> Deref for OffHeapSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: LS1.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for OffHeapSlice<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: LS1.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for OffHeapSlice<T> {
    fn drop(&mut self) {
        if let SliceMemory::Box { .. } = self.memory {
            let values = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
            // SAFETY: LS1; the values are those of a leaked box.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

impl<T: Copy> Clone for OffHeapSlice<T> {
    fn clone(&self) -> OffHeapSlice<T> {
        OffHeapSlice::collect(self.iter().copied())
    }
}

impl<T: PartialEq> PartialEq for OffHeapSlice<T> {
    fn eq(&self, other: &OffHeapSlice<T>) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for OffHeapSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of them for huge regions, dropped and allocated again, so that memory is reused.
    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of values")]
    fn lasting_slices_hold_their_values() {
        let value = |slice: usize, at: usize| ((slice << 32 | at) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lens = [100_000, 300, 160_000, 20_000, 400_000, 5_000, 1_500_000, 7];
        let mut slices: Vec<(usize, OffHeapSlice<u64>)> = Vec::new();
        for number in 0..60 {
            let len = lens[number % lens.len()];
            slices.push((number, OffHeapSlice::lasting((0..len).map(|at| value(number, at)))));
            if number % 3 == 2 {
                slices.swap_remove(number % slices.len());
            }
        }
        assert!(slices.iter().any(|(_, slice)| matches!(slice.memory, SliceMemory::SharedHuge { .. })));
        for (number, slice) in &slices {
            assert!(slice.iter().enumerate().all(|(at, &seen)| seen == value(*number, at)), "slice {number}");
        }
    }

    #[test]
    fn slices_of_every_length_hold_their_values() {
        let longest = if cfg!(miri) { LONG_BYTES / 8 + 1 } else { 3 << 20 };
        for len in [0, 1, 7, LONG_BYTES / 8 - 1, LONG_BYTES / 8, longest] {
            let value = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut slice = OffHeapSlice::collect((0..len).map(value));
            assert!(slice.len() == len && slice.iter().copied().eq((0..len).map(value)));
            assert_eq!(!matches!(slice.memory, SliceMemory::Box { .. }), len * 8 >= LONG_BYTES, "LS1");
            let other = slice.clone();
            assert!(other == slice);
            if let Some(last) = slice.last_mut() {
                *last ^= 1;
                assert!(other != slice);
            }
            let filled = OffHeapSlice::filled(7u8, len);
            assert!(filled.len() == len && filled.iter().all(|&byte| byte == 7));
        }
    }
}
