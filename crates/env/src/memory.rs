//! Anonymous memory in large regions: arenas of memtables, block memory of caches.
//!
//! A [`Region`] costs address space when it is reserved and physical memory only where it was touched. First
//! touch is slow (0.35-1.8 GB/s against 27 GB/s for memory that was touched before), so owners keep and reuse
//! regions; [`Region::discard`] is for a shrinking memory budget or an arena that stays unused.
//!
//! On Linux a region is a private anonymous map without swap reservation. Elsewhere, and under Miri, it comes
//! from the global allocator, which has the same contract but may keep discarded memory.

#[cfg_attr(not(all(any(target_os = "linux", target_os = "android"), not(miri))), path = "memory/heap.rs")]
mod mapped;

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
        let base = len.and_then(|len| mapped::reserve(len, advice));
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
        unsafe { mapped::discard(self.base, range) };
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
        unsafe { mapped::map_over(self.base, self.len, fd) }
    }
}

/// The size of the system's pages: the least that [`return_pages`] returns.
pub fn page_bytes() -> usize {
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();
    *PAGE_BYTES.get_or_init(mapped::page_bytes)
}

/// Returns whole pages of a region to the system, where the platform can; they are zero then, and come back
/// when they are touched. Both ends are multiples of [`page_bytes`].
///
/// # Safety
/// The bytes lie within a region that stays meanwhile, and nothing accesses them meanwhile.
pub unsafe fn return_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { mapped::return_pages(start, bytes) };
}

/// Changes the advice for whole pages of a region, which the kernel may ignore.
///
/// # Safety
/// The bytes lie within a region that stays meanwhile.
pub unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: PageAdvice) {
    // SAFETY: guaranteed by the caller.
    unsafe { mapped::advise(start, bytes, advice) };
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of `mapped::reserve`, and this is the only release.
        unsafe { mapped::release(self.base, self.len) };
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("base", &self.base).field("len", &self.len).finish()
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
        const LEN: usize = if cfg!(miri) { 8 << 10 } else { 512 << 10 };
        let mut region = Region::reserve(1).unwrap();
        for at in 0..LEN {
            set(&region, at, 1);
        }
        let range = 1_000..LEN / 4 * 3 + 1;
        region.discard(range.clone());
        for at in 0..LEN {
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
        // Miri ends the program where its own memory is short.
        #[cfg(not(miri))]
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
