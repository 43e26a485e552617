//! Regions as private anonymous maps without swap reservation.

use super::{PageAdvice, REGION_ALIGNMENT_BYTES};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Largest page of common Linux machines (arm64, POWER: 64 KiB): ranges are rounded inwards to it.
const PAGE_BYTES: usize = 64 << 10;

pub(super) fn reserve(len: usize, advice: PageAdvice) -> Option<NonNull<u8>> {
    // The kernel aligns to small pages only: map more than requested, then cut off both ends.
    let mapped = len + REGION_ALIGNMENT_BYTES;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new private map at an address of the kernel's choice touches no existing memory.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, protection, flags) }.ok()?;
    let start = start.cast::<u8>();
    let head = start.addr().next_multiple_of(REGION_ALIGNMENT_BYTES) - start.addr();
    let tail = REGION_ALIGNMENT_BYTES - head;
    // SAFETY: `head <= REGION_ALIGNMENT_BYTES`, so `head + len` lies within the map.
    let (base, end) = unsafe { (start.add(head), start.add(head + len)) };
    for (piece, bytes) in [(start, head), (end, tail)] {
        if bytes > 0 {
            // SAFETY: the piece is page-aligned, part of the map just made, and not referenced yet. If
            // the kernel refuses to split the map, some address space stays reserved, nothing else.
            let _ = unsafe { munmap(piece.cast::<c_void>(), bytes) };
        }
    }
    let base = NonNull::new(base)?;
    let kept = if advice == PageAdvice::HugeInside { REGION_ALIGNMENT_BYTES } else { 0 };
    if len > 2 * kept {
        // SAFETY: a part of the region.
        unsafe { super::advise(base.byte_add(kept), len - 2 * kept, advice) };
    }
    Some(base)
}

pub(super) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// # Safety
/// As [`super::advise`].
pub(super) unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: PageAdvice) {
    let hint = match advice {
        PageAdvice::System => return,
        PageAdvice::Huge | PageAdvice::HugeInside => Advice::LinuxHugepage,
        PageAdvice::Small => Advice::LinuxNoHugepage,
    };
    // SAFETY: guaranteed by the caller. The hint changes page sizes, not contents; a kernel without huge
    // pages refuses it without harm.
    let _ = unsafe { madvise(start.as_ptr().cast::<c_void>(), bytes, hint) };
}

/// # Safety
/// As [`super::return_pages`].
pub(super) unsafe fn return_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: guaranteed by the caller; for private anonymous memory this advice means that the next
    // touch finds zeros. If the kernel refuses it, the pages stay as they are.
    let _ = unsafe { madvise(start.as_ptr().cast::<c_void>(), bytes, Advice::LinuxDontNeed) };
}

/// # Safety
/// The range lies within a region at `base` and nothing else refers to it.
pub(super) unsafe fn discard(base: NonNull<u8>, range: Range<usize>) {
    let first = range.start.next_multiple_of(PAGE_BYTES);
    let last = range.end / PAGE_BYTES * PAGE_BYTES;
    if first < last {
        // SAFETY: whole pages inside of the range; for private anonymous memory this advice means that
        // the next touch finds zeros.
        let advised = unsafe {
            madvise(base.as_ptr().add(first).cast::<c_void>(), last - first, Advice::LinuxDontNeed)
        };
        if advised.is_ok() {
            // SAFETY: both edges lie within the range.
            unsafe {
                zero(base, range.start..first);
                zero(base, last..range.end);
            }
            return;
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { zero(base, range) };
}

/// # Safety
/// The range lies within a region at `base` and nothing else refers to it.
unsafe fn zero(base: NonNull<u8>, range: Range<usize>) {
    // SAFETY: guaranteed by the caller.
    unsafe { base.as_ptr().add(range.start).write_bytes(0, range.len()) };
}

/// # Safety
/// As [`Region::replace_by_file`](super::Region::replace_by_file).
pub(super) unsafe fn map_over(base: NonNull<u8>, len: usize, fd: i32) -> std::io::Result<bool> {
    // SAFETY: the caller has the file open.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let address = base.as_ptr().cast::<c_void>();
    // SAFETY: exactly the pages of the region, which this replaces in one step: a thread that reads
    // meanwhile finds either page, and both have the same bytes. What can be refused is refused before
    // the old pages leave.
    unsafe { mmap(address, len, ProtFlags::READ, flags, file, 0) }?;
    Ok(true)
}

/// # Safety
/// `base` and `len` are those of one call of `reserve`, released once.
pub(super) unsafe fn release(base: NonNull<u8>, len: usize) {
    // SAFETY: guaranteed by the caller. Unmapping an existing map fails only for lack of kernel memory to
    // split a map, and then the address space is lost and nothing else.
    let _ = unsafe { munmap(base.as_ptr().cast::<c_void>(), len) };
}
