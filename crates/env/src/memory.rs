//! Anonymous memory in large regions: arenas of memtables, block memory of caches.
//!
//! A [`Region`] costs address space when it is reserved and physical memory only where it was touched. First
//! touch is slow (0.35-1.8 GB/s against 27 GB/s for memory that was touched before), so owners keep and reuse
//! regions; [`Region::discard`] is for a shrinking memory budget or an arena that stays unused.
//!
//! On Linux a region is a private anonymous map without swap reservation. Elsewhere, and under Miri, it comes
//! from the global allocator, which has the same contract but may keep discarded memory.

use esker_base::{Error, Result};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Alignment and granularity of a region: a huge page of x86-64 and of arm64 with 4 KiB pages.
pub const REGION_ALIGNMENT_BYTES: usize = 2 << 20;

/// Prefetches the cache line at `place`, where the platform can. Any address is allowed.
#[inline(always)]
pub fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it accesses nothing and cannot fault, whatever the address. SSE is part
    // of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = place;
}

const LINE_BYTES: usize = 64;

/// Prefetches all cache lines of a value for writing, exclusively for this core; does nothing where the
/// platform has no such hint. Lines that another core wrote last arrive in one round instead of one by one.
#[inline(always)]
pub fn prefetch_to_write<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for line in 0..size_of::<T>().div_ceil(LINE_BYTES) {
        prefetch_line_to_write(start.wrapping_add(line * LINE_BYTES));
    }
    // A value that is not aligned to a line may end in one more.
    if align_of::<T>() < LINE_BYTES.min(size_of::<T>()) {
        prefetch_line_to_write(start.wrapping_add(size_of::<T>() - 1));
    }
}

/// As [`prefetch_to_write`], for the bytes from `start` on: the lines of the first 129, which cover an entry
/// of a hundred bytes and start the hardware prefetcher. Any address is allowed.
#[inline(always)]
pub fn prefetch_start_to_write(start: *const u8) {
    for line in 0..3 {
        prefetch_line_to_write(start.wrapping_add(line * LINE_BYTES));
    }
}

#[inline(always)]
fn prefetch_line_to_write(place: *const u8) {
    // `_mm_prefetch` compiles to the instruction for reading unless the whole program is compiled for
    // processors with this one. Processors of the last decade have it; on older ones it is a no-operation.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it accesses nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}

/// Advice to the kernel about the page size of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAdvice {
    /// None: the machine's setting decides.
    #[default]
    System,
    /// Huge pages where possible: fewer translation misses, but first touch zeroes 2 MiB at once.
    Huge,
    /// Huge pages except for the first and last [`REGION_ALIGNMENT_BYTES`]: a region that fills from its ends
    /// stays small while it holds little, and is touched at the speed of zeroing once it grows.
    HugeInside,
    /// Small pages: memory grows with what is touched, also on machines set to huge pages.
    Small,
}

/// A contiguous range of zeroed, writable, private memory, reserved at once and committed by first touch.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is plain memory with one owner and no thread affinity. It hands out only a raw pointer;
// code that dereferences it must prevent races.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` exposes only the address and the length.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves at least `bytes`, rounded up to a multiple of [`REGION_ALIGNMENT_BYTES`], aligned to the
    /// same.
    ///
    /// [`Error::Full`] if the address space or the process's limit does not hold it,
    /// [`Error::InvalidArgument`] for zero bytes.
    pub fn reserve(bytes: usize) -> Result<Region> {
        Region::reserve_with(bytes, PageAdvice::System)
    }

    /// Like [`Region::reserve`], with advice about the page size, which the kernel may ignore.
    pub fn reserve_with(bytes: usize, advice: PageAdvice) -> Result<Region> {
        if bytes == 0 {
            return Err(Error::invalid("a memory region of zero bytes"));
        }
        let len = bytes.checked_next_multiple_of(REGION_ALIGNMENT_BYTES);
        // Rust's pointer arithmetic ends at `isize::MAX`; leave room for the alignment.
        let len = len.filter(|&len| len <= isize::MAX as usize - REGION_ALIGNMENT_BYTES);
        let base = len.and_then(|len| platform::reserve(len, advice));
        match (base, len) {
            (Some(base), Some(len)) => Ok(Region { base, len }),
            _ => Err(Error::Full(format!("cannot reserve {bytes} bytes of memory").into())),
        }
    }

    /// The first byte, valid for [`Region::len`] bytes for the region's life; unwritten bytes are zero.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes reserved.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always `false`: an empty region cannot be reserved.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives the memory away; [`Region::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).base
    }

    /// The region whose memory [`Region::into_raw`] gave away; `bytes` are those it was reserved with.
    ///
    /// # Safety
    /// `base` came from there, is taken back once, and no other use of the memory follows.
    pub unsafe fn from_raw(base: NonNull<u8>, bytes: usize) -> Region {
        Region { base, len: bytes.next_multiple_of(REGION_ALIGNMENT_BYTES) }
    }

    /// Sets a range to zero and frees its physical memory where the platform can: on Linux all whole pages of
    /// the range, which are committed again by the next touch.
    ///
    /// Takes `&mut self` because no thread may read meanwhile; references made from [`Region::as_ptr`] must
    /// not exist any more.
    ///
    /// # Panics
    /// If the range does not lie within the region.
    pub fn discard(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "discarding outside of the region");
        // SAFETY: the range lies within the region, to which this call has exclusive access.
        unsafe { platform::discard(self.base, range) };
    }

    /// Puts the pages of a file in the place of the region's memory, which returns to the system: from then
    /// on the bytes are in the page cache, where the system may drop them and read them again. The addresses
    /// stay valid throughout. The file may be closed and its name removed; its room is freed with the region.
    ///
    /// `false` where the platform has no such call.
    ///
    /// # Errors
    /// `Io` if the kernel refuses; then the memory is as before.
    ///
    /// # Safety
    /// `fd` is an open file whose first [`len`](Region::len) bytes are those of the region. No thread writes
    /// to the region any more, and nothing changes the file. A device that fails to read the file back kills
    /// the process by a signal, as for [every mapped file](crate::OpenMode::ReadMapped).
    pub unsafe fn replace_by_file(&self, fd: i32) -> std::io::Result<bool> {
        // SAFETY: guaranteed by the caller; the region has `len` bytes at `base`.
        unsafe { platform::map_over(self.base, self.len, fd) }
    }
}

/// The size of the system's pages: the least that [`return_pages`] returns.
pub fn page_bytes() -> usize {
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();
    *PAGE_BYTES.get_or_init(platform::page_bytes)
}

/// Returns whole pages of a region to the system, where the platform can; they are zero then, and come back
/// when they are touched. Both ends are multiples of [`page_bytes`].
///
/// # Safety
/// The bytes lie within a region that stays meanwhile, and nothing accesses them meanwhile.
pub unsafe fn return_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { platform::return_pages(start, bytes) };
}

/// Changes the advice for whole pages of a region, which the kernel may ignore.
///
/// # Safety
/// The bytes lie within a region that stays meanwhile.
pub unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: PageAdvice) {
    // SAFETY: guaranteed by the caller.
    unsafe { platform::advise(start, bytes, advice) };
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of `platform::reserve`, and this is the only release.
        unsafe { platform::release(self.base, self.len) };
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("base", &self.base).field("len", &self.len).finish()
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod platform {
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
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
mod platform {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(region: &Region, at: usize) -> u8 {
        assert!(at < region.len());
        // SAFETY: within the region, and no other thread refers to it.
        unsafe { region.as_ptr().add(at).read() }
    }

    fn set(region: &Region, at: usize, to: u8) {
        assert!(at < region.len());
        // SAFETY: within the region, and no other thread refers to it.
        unsafe { region.as_ptr().add(at).write(to) };
    }

    #[test]
    fn a_region_is_aligned_zeroed_and_writable_to_its_end() {
        for advice in [PageAdvice::System, PageAdvice::Huge, PageAdvice::HugeInside, PageAdvice::Small] {
            let region = Region::reserve_with(3 << 20, advice).unwrap();
            assert_eq!(region.len(), 4 << 20);
            assert_eq!(region.as_ptr().addr() % REGION_ALIGNMENT_BYTES, 0);
            let last = region.len() - 1;
            assert_eq!((byte(&region, 0), byte(&region, last)), (0, 0));
            set(&region, last, 7);
            assert_eq!(byte(&region, last), 7);
        }
    }

    #[test]
    fn discarded_bytes_are_zero_and_their_neighbours_are_not() {
        let mut region = Region::reserve(1).unwrap();
        for at in 0..512 << 10 {
            set(&region, at, 1);
        }
        let range = 1_000..400_001;
        region.discard(range.clone());
        for at in 0..512 << 10 {
            assert_eq!(byte(&region, at), u8::from(!range.contains(&at)), "byte {at}");
        }
        region.discard(5..9);
        assert_eq!([4, 5, 8, 9].map(|at| byte(&region, at)), [1, 0, 0, 1]);
        region.discard(3..3);
        assert_eq!(byte(&region, 3), 1);
    }

    #[test]
    #[should_panic(expected = "outside of the region")]
    fn discarding_past_the_end_is_a_mistake() {
        let mut region = Region::reserve(1).unwrap();
        let end = region.len() + 1;
        region.discard(0..end);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(Region::reserve(0), Err(Error::InvalidArgument(_))));
        assert!(matches!(Region::reserve(usize::MAX), Err(Error::Full(_))));
        assert!(matches!(Region::reserve(isize::MAX as usize - (4 << 20)), Err(Error::Full(_))));
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn memory_is_committed_by_touch_and_given_back_by_discard() {
        // Of the region alone: the process's resident size changes with every other test.
        fn resident_bytes(region: &Region) -> usize {
            let mut pages = vec![0_u8; region.len() / PAGE_BYTES];
            let base = region.as_ptr().cast::<libc::c_void>();
            // SAFETY: the range is one map that lives as long as `region`, and `pages` has a byte for each of
            // its pages.
            let asked = unsafe { libc::mincore(base, region.len(), pages.as_mut_ptr()) };
            assert_eq!(asked, 0);
            pages.iter().filter(|&&page| page & 1 == 1).count() * PAGE_BYTES
        }
        const PAGE_BYTES: usize = 4096;
        const TOUCHED_BYTES: usize = 64 << 20;
        let mut region = Region::reserve_with(4 * TOUCHED_BYTES, PageAdvice::Small).unwrap();
        assert_eq!(resident_bytes(&region), 0, "reserving must not commit");
        for at in (0..TOUCHED_BYTES).step_by(PAGE_BYTES) {
            set(&region, at, 1);
        }
        let touched = resident_bytes(&region);
        assert!(
            touched > TOUCHED_BYTES / 2,
            "{touched} bytes, where at most some of {TOUCHED_BYTES} may be in swap"
        );
        region.discard(0..TOUCHED_BYTES);
        assert_eq!(resident_bytes(&region), 0);
    }
}
