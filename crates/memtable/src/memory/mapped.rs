//! The real memory: a reserved address range, committed by first touch.

use super::Site;
use esker_base::{Error, Result};
use esker_env::memory::{prefetch, prefetch_start_to_write};
use esker_env::{File, PageAdvice, Region};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The memory of one arena. See the module above for the meaning of its calls.
///
/// Word accesses are checked against the length of the range: a wrong reference is a panic, never a stray
/// access.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    words: usize,
    /// Bytes at either end that an earlier use of this arena has touched.
    touched: (usize, usize),
    /// Boxed: with atomics inside, every reader would load address and size again after each of its steps, a
    /// tenth of a get's instructions.
    state: Box<State>,
    /// Owns the range; `None` for stubs and for the memory left behind by a returned one.
    region: Option<Region>,
    /// Owns the range of a stub.
    _stub: Vec<u64>,
}

/// What happened to the bytes.
#[derive(Debug, Default)]
struct State {
    /// Nothing is written any more (MT7).
    is_sealed: AtomicBool,
    /// The bytes are in a file, and the pages are that file's.
    is_spilled: AtomicBool,
}

// SAFETY: the range belongs to this value alone. Words are accessed atomically; bytes are written before they
// are published and never while they can be read (the contracts of `write_bytes` and `bytes`).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            base: NonNull::<u64>::dangling().cast(),
            words: 0,
            touched: (0, 0),
            state: Box::default(),
            region: None,
            _stub: Vec::new(),
        }
    }
}

impl Memory {
    pub(crate) fn reserve(bytes: usize) -> Result<Memory> {
        // An arena fills from both ends: huge pages in between make first touch five times as fast.
        let region = Region::reserve_with(bytes, PageAdvice::HugeInside)?;
        let base = NonNull::new(region.as_ptr())
            .ok_or_else(|| esker_base::Error::internal("the reserved memory has no address"))?;
        Ok(Memory { base, words: region.len() / 4, region: Some(region), ..Memory::default() })
    }

    pub(crate) fn stub(bytes: usize) -> Memory {
        let mut stub = vec![0u64; bytes / 8];
        let base = NonNull::from(stub.as_mut_slice()).cast::<u8>();
        Memory { base, words: stub.len() * 2, _stub: stub, ..Memory::default() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.words * 4
    }

    /// Bytes at the low and at the high end that hold pages of earlier uses.
    #[inline]
    pub(crate) fn touched(&self) -> (usize, usize) {
        self.touched
    }

    /// Ends a use of `low` and `high` bytes of the two ends.
    pub(crate) fn retire(&mut self, low: usize, high: usize) {
        self.touched = (self.touched.0.max(low), self.touched.1.max(high));
        *self.state.is_sealed.get_mut() = false;
        if cfg!(debug_assertions) {
            self.poison(low, high);
        }
    }

    /// Ends all writing: the inserter calls this last (MT7).
    pub(crate) fn seal(&self) {
        self.state.is_sealed.store(true, Ordering::Release);
    }

    /// Whether all writing has ended, and the caller sees all that was written.
    pub(crate) fn is_sealed(&self) -> bool {
        self.state.is_sealed.load(Ordering::Acquire)
    }

    /// Writes the `low` and `high` bytes at the two ends to an empty file and puts its pages in the place of
    /// the memory; `false` if it is not sealed, there is nothing to gain, or the platform cannot.
    pub(crate) fn spill(&self, low: usize, high: usize, file: &dyn File) -> Result<bool> {
        let (Some(region), Some(descriptor)) = (&self.region, file.descriptor()) else { return Ok(false) };
        if !self.is_sealed() {
            return Ok(false);
        }
        if self.is_spilled() || low.checked_add(high).is_none_or(|both| both > region.len()) {
            return Ok(false);
        }
        let high_at = region.len() - high;
        for (at, len) in [(0, low), (high_at, high)] {
            // SAFETY: inside of the region by the check above. Its bytes are initialised, and no thread
            // writes them any more: only the inserter does, and its last act was seen above.
            let bytes = unsafe { std::slice::from_raw_parts(region.as_ptr().add(at), len) };
            file.write_at(bytes, at as u64)?;
        }
        file.set_len(region.len() as u64)?;
        // SAFETY: the file is open and has the region's length and the bytes in use; no reader reaches what
        // lies between, and no thread writes.
        let replaced = unsafe { region.replace_by_file(descriptor.fd) };
        let replaced = replaced.map_err(|source| Error::io("map", file.path(), source))?;
        self.state.is_spilled.store(replaced, Ordering::Release);
        Ok(replaced)
    }

    /// Whether the bytes are in a file.
    #[inline]
    pub(crate) fn is_spilled(&self) -> bool {
        self.state.is_spilled.load(Ordering::Acquire)
    }

    /// Returns the pages of earlier uses to the system; the address space stays.
    pub(crate) fn discard(&mut self) {
        if let Some(region) = &mut self.region {
            region.discard(0..region.len());
            self.touched = (0, 0);
        }
    }

    /// Fills what the ended use wrote, so that a field read before it is written shows.
    fn poison(&mut self, low: usize, high: usize) {
        assert!(low + high <= self.len());
        // SAFETY: both ranges lie inside the region, and `&mut self` excludes every other access.
        unsafe {
            std::ptr::write_bytes(self.base.as_ptr(), 0xde, low);
            std::ptr::write_bytes(self.base.as_ptr().add(self.len() - high), 0xde, high);
        }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        if at >= self.words {
            out_of_range();
        }
        // SAFETY: the word lies inside the range, which is aligned to pages and lives as long as `self`;
        // words are accessed through this function only.
        unsafe { &*self.base.as_ptr().cast::<AtomicU32>().add(at) }
    }

    /// `N` neighbouring words, checked together.
    #[inline(always)]
    pub(crate) fn view<const N: usize>(&self, at: usize) -> View<'_, N> {
        if N > self.words || at > self.words - N {
            out_of_range();
        }
        // SAFETY: the words lie inside the range by the check above; the rest as in `word`.
        View { words: unsafe { &*self.base.as_ptr().cast::<AtomicU32>().add(at).cast::<[AtomicU32; N]>() } }
    }

    #[inline(always)]
    pub(crate) fn init(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn put(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn publish(&self, _site: Site, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn load(&self, _site: Site, at: usize) -> u32 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn peek(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Copies `from` to the byte address `at`.
    ///
    /// # Safety
    /// The caller has allocated `[at, at + from.len())` from this memory and has not published it.
    #[inline(always)]
    pub(crate) unsafe fn write_bytes(&self, at: usize, from: &[u8]) {
        if from.len() > self.len() || at > self.len() - from.len() {
            out_of_range();
        }
        // SAFETY: inside the range by the check above; `from` cannot overlap a range that no other code can
        // reach.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr().add(at), from.len()) }
    }

    /// The `len` bytes at the byte address `at`.
    ///
    /// # Safety
    /// The bytes were written by `write_bytes`; the caller found them through a `load` that saw their
    /// publication, or under the lock under which they were published (or is the writer); and nothing writes
    /// there before this memory is retired.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        if at.checked_add(len).is_none_or(|end| end > self.len()) {
            out_of_range();
        }
        // SAFETY: inside the range by the check above, initialised and immutable by contract.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) }
    }

    /// `count` words from the word `at` on, as plain numbers.
    ///
    /// # Safety
    /// They were written by `init`, the caller found them through a `load` that saw their publication (or is
    /// the writer), and nothing writes them before this memory is retired.
    #[inline(always)]
    pub(crate) unsafe fn words(&self, at: usize, count: usize) -> &[u32] {
        if count > self.words || at > self.words - count {
            out_of_range();
        }
        // SAFETY: inside the range by the check above, initialised and immutable by contract.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast::<u32>().add(at), count) }
    }

    /// `count` numbers of two words each from the even word `at` on.
    ///
    /// # Safety
    /// As for `words`.
    #[inline(always)]
    pub(crate) unsafe fn numbers(&self, at: usize, count: usize) -> &[u64] {
        if count > self.words / 2 || at > self.words - 2 * count || !at.is_multiple_of(2) {
            out_of_range();
        }
        // SAFETY: inside the range by the check above, aligned because the range begins at a page or at a
        // `u64`, initialised and immutable by contract.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast::<u32>().add(at).cast::<u64>(), count) }
    }

    /// Prefetches the two cache lines from the word `at` on.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        let address = self.base.as_ptr().cast::<u32>().wrapping_add(at).cast::<u8>();
        prefetch(address);
        prefetch(address.wrapping_add(64));
    }

    /// Prefetches, for writing, the first cache lines from this byte on.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, at_byte: usize) {
        prefetch_start_to_write(self.base.as_ptr().wrapping_add(at_byte));
    }

    #[inline(always)]
    pub(crate) fn prefetch_line(&self, at: usize) {
        prefetch(self.base.as_ptr().cast::<u32>().wrapping_add(at).cast::<u8>());
    }
}

/// Some adjacent words: the same calls, by the number within the view.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, const N: usize> {
    words: &'a [AtomicU32; N],
}

impl<const N: usize> View<'_, N> {
    #[inline(always)]
    pub(crate) fn init(self, values: [u32; N]) {
        for (word, value) in self.words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn load(self, _site: Site, index: usize) -> u32 {
        self.words[index].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn peek(self, index: usize) -> u32 {
        self.words[index].load(Ordering::Relaxed)
    }
}

/// Out of line, so that a check is a comparison and a jump that is never taken.
#[cold]
#[inline(never)]
fn out_of_range() -> ! {
    panic!("a reference leads out of the memtable's arena");
}
