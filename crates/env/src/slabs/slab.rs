//! Slab: a region cut into pieces of one size, with a bitmap of the allocated ones in its head.
//!
//! The lowest free piece is allocated first, so what is allocated gathers at the start, and whole pages
//! become free behind it. The head also marks the pages that were returned to the system: the next piece
//! that lies in one brings it back by touching it.
//!
//! # Rejected
//! A list of free pieces, linked by their first bytes: each page with a free piece is then in use by the
//! list, and none can be returned before the whole slab is empty. The bitmap is also faster: the next link
//! was a cache miss for each piece that was allocated.

use super::sizes::{SHORTEST_CLASS_BYTES, SLAB_BYTES};
use crate::memory::{self, PageAdvice, Region};
use std::ops::Range;
use std::ptr::NonNull;

/// Offset of the first piece of a slab.
pub(super) const HEAD_BYTES: usize = size_of::<Slab>().next_multiple_of(64);

const WORD_BITS: usize = u64::BITS as usize;
const PIECE_WORDS: usize = (SLAB_BYTES / SHORTEST_CLASS_BYTES).div_ceil(WORD_BITS);
/// No system has smaller pages.
const LEAST_PAGE_BYTES: usize = 4 << 10;
/// Of a slab with small pages less than this is not worth the calls.
const LEAST_IDLE_BYTES: usize = 16 << 10;
const PAGE_WORDS: usize = SLAB_BYTES / LEAST_PAGE_BYTES / WORD_BITS;

/// The head of a slab, at its start.
pub(super) struct Slab {
    /// The memory that contains this head.
    region: Region,
    pub(super) piece_bytes: usize,
    pieces: u32,
    pub(super) used: u32,
    /// No word of `allocated` before this one has a free piece.
    first_word: usize,
    /// Index in the class's list, if it is there.
    pub(super) at: usize,
    /// Whether its pages are being returned (SB8).
    pub(super) rests: bool,
    /// Whether it has small pages (SB9).
    is_thin: bool,
    /// A bit for each piece, set if it is allocated; those past the last piece are set, too.
    allocated: [u64; PIECE_WORDS],
    /// A bit for each page of the system, set if it was returned, or never touched, and no piece in it was
    /// allocated since.
    returned: [u64; PAGE_WORDS],
    returned_pages: u32,
}

impl Slab {
    /// Puts the head of a slab without allocated pieces into a region of [`SLAB_BYTES`]: a thin one, if it
    /// was reserved with small pages and never used.
    pub(super) fn create(region: Region, piece_bytes: usize, is_thin: bool) -> Option<NonNull<Slab>> {
        let slab = NonNull::new(region.as_ptr().cast::<Slab>())?;
        let pieces = (SLAB_BYTES - HEAD_BYTES) / piece_bytes;
        let mut allocated = [u64::MAX; PIECE_WORDS];
        for (at, word) in allocated.iter_mut().enumerate() {
            let free = pieces.saturating_sub(at * WORD_BITS).min(WORD_BITS);
            *word = u64::MAX.checked_shl(free as u32).unwrap_or(0);
        }
        let mut head = Slab {
            region,
            piece_bytes,
            pieces: pieces as u32,
            used: 0,
            first_word: 0,
            at: 0,
            rests: false,
            is_thin: false,
            allocated,
            returned: [0; PAGE_WORDS],
            returned_pages: 0,
        };
        if is_thin {
            let untouched = HEAD_BYTES.next_multiple_of(memory::page_bytes())..SLAB_BYTES;
            head.note_returned(&[untouched]);
        }
        // SAFETY: the region is aligned beyond the needs of a head, and has no other user.
        unsafe { slab.write(head) };
        Some(slab)
    }

    /// Ends a slab. Its region, and whether it is still advised to be one huge page.
    ///
    /// # Safety
    /// No piece of the slab is allocated, and nothing refers to it any more.
    pub(super) unsafe fn end(slab: NonNull<Slab>) -> Released {
        // SAFETY: guaranteed by the caller: this is the last use of the head.
        let head = unsafe { slab.read() };
        Released { region: head.region, is_thin: head.is_thin }
    }

    /// The slab of a piece, and the piece's offset from its start.
    ///
    /// # Safety
    /// The piece is allocated from a slab.
    pub(super) unsafe fn of(piece: NonNull<u8>) -> (NonNull<Slab>, usize) {
        let offset = piece.as_ptr().addr() % SLAB_BYTES;
        // SAFETY: slabs are aligned to their size, so this is the head of the piece's slab.
        (unsafe { piece.byte_sub(offset) }.cast::<Slab>(), offset)
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.pieces
    }

    /// Bytes of pages that were returned and are not in use again, or not in use yet.
    pub(super) fn returned_bytes(&self) -> usize {
        self.returned_pages as usize * memory::page_bytes()
    }

    /// Allocates the lowest free piece; returns its offset. The slab is not full.
    pub(super) fn take(&mut self) -> usize {
        let mut word = self.first_word;
        while self.allocated[word] == u64::MAX {
            word += 1;
        }
        self.first_word = word;
        let bit = self.allocated[word].trailing_ones();
        self.allocated[word] |= 1 << bit;
        self.used += 1;
        let offset = self.offset(word * WORD_BITS + bit as usize);
        if self.returned_pages > 0 {
            self.bring_back(offset);
        }
        offset
    }

    /// Frees the piece at this offset.
    pub(super) fn give_back(&mut self, offset: usize) {
        let index = (offset - HEAD_BYTES) / self.piece_bytes;
        let word = index / WORD_BITS;
        debug_assert!(self.allocated[word] >> (index % WORD_BITS) & 1 == 1, "a piece is freed once");
        self.allocated[word] &= !(1 << (index % WORD_BITS));
        self.first_word = self.first_word.min(word);
        self.used -= 1;
    }

    /// The bytes of pages that are not in use, were not returned yet, and have neither the head nor an
    /// allocated piece in them.
    pub(super) fn idle_pages(&self) -> Vec<Range<usize>> {
        let page_bytes = memory::page_bytes();
        let mut kept = self.returned;
        mark(&mut kept, 0..HEAD_BYTES, page_bytes);
        for index in self.allocated_pieces() {
            let offset = self.offset(index);
            mark(&mut kept, offset..offset + self.piece_bytes, page_bytes);
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for page in (0..SLAB_BYTES / page_bytes).filter(|&page| !is_marked(&kept, page)) {
            let start = page * page_bytes;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += page_bytes,
                _ => ranges.push(start..start + page_bytes),
            }
        }
        ranges
    }

    /// Notes that these pages were returned to the system.
    pub(super) fn note_returned(&mut self, pages: &[Range<usize>]) {
        let page_bytes = memory::page_bytes();
        for range in pages {
            mark(&mut self.returned, range.clone(), page_bytes);
            self.returned_pages += (range.len() / page_bytes) as u32;
        }
        self.is_thin = true;
    }

    /// The least bytes of idle pages that are returned: a huge page is not split for less than a sixteenth.
    pub(super) fn least_idle_bytes(&self) -> usize {
        if self.is_thin { LEAST_IDLE_BYTES } else { SLAB_BYTES / 16 }
    }

    /// Whether a thin slab is full, and thin no more; `true` once.
    pub(super) fn has_grown_full(&mut self) -> bool {
        let is_news = self.is_thin && self.is_full();
        self.is_thin &= !is_news;
        is_news
    }

    #[cold]
    fn bring_back(&mut self, offset: usize) {
        let page_bytes = memory::page_bytes();
        for page in offset / page_bytes..(offset + self.piece_bytes).div_ceil(page_bytes) {
            if is_marked(&self.returned, page) {
                self.returned[page / WORD_BITS] &= !(1 << (page % WORD_BITS));
                self.returned_pages -= 1;
            }
        }
    }

    fn offset(&self, index: usize) -> usize {
        HEAD_BYTES + index * self.piece_bytes
    }

    fn allocated_pieces(&self) -> impl Iterator<Item = usize> + '_ {
        let is_allocated = |index: &usize| is_marked(&self.allocated, *index);
        (0..self.pieces as usize).filter(is_allocated)
    }
}

/// What is left of a slab.
pub(super) struct Released {
    pub(super) region: Region,
    pub(super) is_thin: bool,
}

/// Returns pages of a slab to the system, and asks for small ones in their place: a kernel that gathers
/// small pages into huge ones would bring all of them back.
///
/// # Safety
/// The ranges are whole pages of a slab that starts at `start`, none of its head. Nothing accesses them
/// meanwhile, and the slab stays.
pub(super) unsafe fn return_pages(start: NonNull<u8>, pages: &[Range<usize>]) {
    // SAFETY: guaranteed by the caller.
    unsafe { memory::advise(start, SLAB_BYTES, PageAdvice::Small) };
    for range in pages {
        // SAFETY: guaranteed by the caller.
        unsafe { memory::return_pages(start.byte_add(range.start), range.len()) };
    }
}

/// Asks for a huge page again.
///
/// # Safety
/// The piece is allocated from a slab.
pub(super) unsafe fn advise_huge(piece: NonNull<u8>) {
    // SAFETY: guaranteed by the caller; the piece keeps the slab.
    unsafe { memory::advise(Slab::of(piece).0.cast(), SLAB_BYTES, PageAdvice::Huge) };
}

/// Marks the pages that the bytes lie in.
fn mark(pages: &mut [u64; PAGE_WORDS], bytes: Range<usize>, page_bytes: usize) {
    for page in bytes.start / page_bytes..bytes.end.div_ceil(page_bytes) {
        pages[page / WORD_BITS] |= 1 << (page % WORD_BITS);
    }
}

fn is_marked(words: &[u64], at: usize) -> bool {
    words[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use std::collections::BTreeSet;

    #[test]
    fn a_thin_slab_takes_the_pages_that_its_pieces_touch() {
        let region = Region::reserve_with(SLAB_BYTES, PageAdvice::Small).unwrap();
        let slab = Slab::create(region, 4_224, true).unwrap();
        // SAFETY: the slab belongs to this test.
        let head = unsafe { &mut *slab.as_ptr() };
        let page_bytes = memory::page_bytes();
        assert_eq!(SLAB_BYTES - head.returned_bytes(), page_bytes);
        for count in 1..100 {
            head.take();
            let touched = (HEAD_BYTES + count * 4_224).next_multiple_of(page_bytes);
            assert_eq!(SLAB_BYTES - head.returned_bytes(), touched);
        }
        // SAFETY: no piece is used any more.
        assert!(unsafe { Slab::end(slab) }.is_thin);
    }

    /// SB2 and SB9 against lists of the allocated pieces and of the returned pages, for several sizes.
    #[test]
    fn a_slab_is_as_its_model() {
        let steps = if cfg!(miri) { 300 } else { 6_000 };
        for piece_bytes in [SHORTEST_CLASS_BYTES, 4_224, 9_984, 65_536] {
            let random = SeededRandom::new(piece_bytes as u64);
            let slab = Slab::create(Region::reserve(SLAB_BYTES).unwrap(), piece_bytes, false).unwrap();
            // SAFETY: the slab belongs to this test.
            let head = unsafe { &mut *slab.as_ptr() };
            let (mut held, mut returned) = (Vec::new(), BTreeSet::new());
            for step in 0..steps {
                // Fills up and empties by turns.
                let grows = random.below(10) < if step / (steps / 4) % 2 == 0 { 8 } else { 2 };
                if grows && !head.is_full() {
                    let offset = head.take();
                    assert!(!held.contains(&offset) && offset + piece_bytes <= SLAB_BYTES, "SB2");
                    returned.retain(|&page| !overlaps(page, offset, piece_bytes));
                    held.push(offset);
                } else if !held.is_empty() {
                    head.give_back(held.swap_remove(random.below(held.len() as u64) as usize));
                }
                assert_eq!(head.used as usize, held.len());
                if random.below(40) == 0 {
                    check_pages(head, &held, &mut returned);
                }
                assert_eq!(head.returned_pages as usize, returned.len());
            }
            while !head.is_full() {
                head.take();
            }
            assert!(head.has_grown_full() && !head.has_grown_full(), "huge pages are asked for once");
            // SAFETY: no piece is used any more.
            drop(unsafe { Slab::end(slab) });
        }
    }

    fn overlaps(page: usize, offset: usize, len: usize) -> bool {
        page < offset + len && offset < page + memory::page_bytes()
    }

    fn check_pages(head: &mut Slab, held: &[usize], returned: &mut BTreeSet<usize>) {
        let pages = head.idle_pages();
        let idle: Vec<usize> =
            pages.iter().flat_map(|range| range.clone().step_by(memory::page_bytes())).collect();
        let is_idle = |page: usize| {
            page >= HEAD_BYTES
                && !returned.contains(&page)
                && !held.iter().any(|&offset| overlaps(page, offset, head.piece_bytes))
        };
        let expected: Vec<usize> =
            (0..SLAB_BYTES).step_by(memory::page_bytes()).filter(|&page| is_idle(page)).collect();
        assert_eq!(idle, expected);
        head.note_returned(&pages);
        returned.extend(idle);
        assert!(head.idle_pages().is_empty());
    }
}
