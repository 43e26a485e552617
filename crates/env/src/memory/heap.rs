//! Regions from the global allocator, where there are no maps, and under Miri.

use super::{PageAdvice, REGION_ALIGNMENT_BYTES};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

fn layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len, REGION_ALIGNMENT_BYTES).ok()
}

pub(super) fn reserve(len: usize, _advice: PageAdvice) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero; `Region::reserve_with` checks it.
    NonNull::new(unsafe { alloc_zeroed(layout(len)?) })
}

pub(super) fn page_bytes() -> usize {
    4096
}

/// # Safety
/// None is needed: nothing is done.
pub(super) unsafe fn advise(_start: NonNull<u8>, _bytes: usize, _advice: PageAdvice) {}

/// # Safety
/// As [`super::return_pages`].
pub(super) unsafe fn return_pages(start: NonNull<u8>, bytes: usize) {
    // As where it is zero: tests and interpreters see whether the bytes were in use. SAFETY: guaranteed
    // by the caller.
    unsafe { start.as_ptr().write_bytes(0, bytes) };
}

/// # Safety
/// The range lies within a region at `base` and nothing else refers to it.
pub(super) unsafe fn discard(base: NonNull<u8>, range: Range<usize>) {
    // SAFETY: guaranteed by the caller.
    unsafe { base.as_ptr().add(range.start).write_bytes(0, range.len()) };
}

/// # Safety
/// None is needed: nothing is done.
pub(super) unsafe fn map_over(_base: NonNull<u8>, _len: usize, _fd: i32) -> std::io::Result<bool> {
    Ok(false)
}

/// # Safety
/// `base` and `len` are those of one call of `reserve`, released once.
pub(super) unsafe fn release(base: NonNull<u8>, len: usize) {
    if let Some(layout) = layout(len) {
        // SAFETY: allocated by `reserve` with this layout.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
