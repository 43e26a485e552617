//! Size class: the slabs whose pieces have one size, and how many of its bytes come from elsewhere.

use super::sizes::{SLAB_BYTES, THIN_SLABS};
use super::slab::{Released, Slab};
use std::ops::Range;
use std::ptr::NonNull;

/// The slabs of one class with free pieces, and its memory from the global allocator.
pub(super) struct Class {
    with_free_pieces: Vec<NonNull<Slab>>,
    /// Slabs, with and without free pieces.
    slabs: usize,
    /// Allocated by the global allocator.
    pub(super) heap_bytes: usize,
    /// Bytes of the pieces of slabs in use.
    slab_bytes: usize,
    /// Bytes of pages that were returned to the system and are not in use again.
    returned_bytes: usize,
    /// Whether a thread creates a slab (SB6) or returns pages of one (SB8).
    is_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassReply {
    Piece(Piece),
    /// Use the global allocator; it is counted already.
    Elsewhere,
    /// The caller creates a slab now and adds it by [`Class::grow`].
    Grow {
        /// Whether it has small pages (SB9).
        is_thin: bool,
    },
}

/// An allocated piece of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: NonNull<u8>,
    /// Whether the slab should be a huge page again (SB9).
    pub(super) fills_thin_slab: bool,
}

/// A slab that rests, for as long as its pages are returned (SB8).
#[derive(Debug)]
pub(super) struct Resting {
    slab: NonNull<Slab>,
    pub(super) start: NonNull<u8>,
    /// Nothing accesses them until [`Class::wake`].
    pub(super) pages: Vec<Range<usize>>,
}

/// What a look at a slab found.
pub(super) enum Look {
    Nothing,
    Rests(Resting),
    /// It was empty, and is released.
    Empty(Released),
}

// SAFETY: slabs are memory without thread affinity, accessed under the class's lock only (SB1).
unsafe impl Send for Class {}

impl Class {
    pub(super) const fn new() -> Class {
        Class {
            with_free_pieces: Vec::new(),
            slabs: 0,
            heap_bytes: 0,
            slab_bytes: 0,
            returned_bytes: 0,
            is_busy: false,
        }
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.heap_bytes + self.slab_bytes
    }

    /// Bytes of slabs that are in memory and in no allocated piece.
    pub(super) fn idle_bytes(&self) -> usize {
        (self.slabs * SLAB_BYTES).saturating_sub(self.slab_bytes + self.returned_bytes)
    }

    /// Slabs with free pieces.
    pub(super) fn free_len(&self) -> usize {
        self.with_free_pieces.len()
    }

    pub(super) fn request(&mut self, piece_bytes: usize) -> ClassReply {
        if let Some(piece) = self.take() {
            return ClassReply::Piece(piece);
        }
        if !self.is_busy {
            self.is_busy = true;
            return ClassReply::Grow { is_thin: self.slabs < THIN_SLABS };
        }
        self.heap_bytes += piece_bytes;
        ClassReply::Elsewhere
    }

    /// Adds a new slab and allocates from it; `None` without a region: then the piece counts as the heap's.
    pub(super) fn grow(&mut self, slab: Option<NonNull<Slab>>, piece_bytes: usize) -> Option<Piece> {
        self.is_busy = false;
        if let Some(slab) = slab {
            self.slabs += 1;
            // SAFETY: nothing else refers to it.
            self.returned_bytes += unsafe { &*slab.as_ptr() }.returned_bytes();
            self.add(slab);
        }
        let piece = self.take();
        if piece.is_none() {
            self.heap_bytes += piece_bytes;
        }
        piece
    }

    /// Allocates a piece of a slab with free pieces, if there is one.
    fn take(&mut self) -> Option<Piece> {
        let slab = *self.with_free_pieces.last()?;
        // SAFETY: a slab of this class, whose lock is held (SB1).
        let head = unsafe { &mut *slab.as_ptr() };
        let returned_before = head.returned_bytes();
        let offset = head.take();
        self.slab_bytes += head.piece_bytes;
        self.returned_bytes -= returned_before - head.returned_bytes();
        let (is_full, fills_thin_slab) = (head.is_full(), head.has_grown_full());
        if is_full {
            self.with_free_pieces.pop();
        }
        // The head is not used as a reference any more, because the pointer must be derived from the whole
        // region. SAFETY: pieces lie within their slab.
        let start = unsafe { slab.cast::<u8>().add(offset) };
        Some(Piece { start, fills_thin_slab })
    }

    /// Frees a piece; returns the slab's region if the slab is released (SB5).
    ///
    /// # Safety
    /// The piece was allocated from a slab of this class, and is not used any more.
    pub(super) unsafe fn give_back(&mut self, piece: NonNull<u8>) -> Option<Released> {
        // SAFETY: guaranteed by the caller.
        let (slab, offset) = unsafe { Slab::of(piece) };
        // SAFETY: the lock is held (SB1).
        let head = unsafe { &mut *slab.as_ptr() };
        let (was_full, rests) = (head.is_full(), head.rests);
        head.give_back(offset);
        self.slab_bytes -= head.piece_bytes;
        let is_empty = head.used == 0;
        if was_full && !rests {
            self.add(slab);
        }
        if is_empty && !rests && self.with_free_pieces.len() >= 2 { Some(self.release(slab)) } else { None }
    }

    /// Looks at the slab at this place of the list: if pages of it could be returned, it rests from now on;
    /// if no piece of it is allocated, it is released.
    pub(super) fn look_at(&mut self, at: usize) -> Look {
        let Some(&slab) = self.with_free_pieces.get(at).filter(|_| !self.is_busy) else {
            return Look::Nothing;
        };
        // SAFETY: the lock is held (SB1).
        let head = unsafe { &mut *slab.as_ptr() };
        if head.used == 0 {
            return Look::Empty(self.release(slab));
        }
        let pages = head.idle_pages();
        if pages.iter().map(Range::len).sum::<usize>() < head.least_idle_bytes() {
            return Look::Nothing;
        }
        head.rests = true;
        self.remove(slab);
        self.is_busy = true;
        Look::Rests(Resting { slab, start: slab.cast(), pages })
    }

    /// Ends the rest of a slab whose pages were returned.
    pub(super) fn wake(&mut self, resting: Resting) {
        let Resting { slab, pages, .. } = resting;
        self.is_busy = false;
        // SAFETY: the lock is held (SB1), and a resting slab is not released.
        let head = unsafe { &mut *slab.as_ptr() };
        head.rests = false;
        let returned_before = head.returned_bytes();
        head.note_returned(&pages);
        self.returned_bytes += head.returned_bytes() - returned_before;
        self.add(slab);
    }

    /// From now on the fullest slab is allocated from first: so the others become empty.
    pub(super) fn prefer_full_slabs(&mut self) {
        // SAFETY: the lock is held (SB1), here and below.
        self.with_free_pieces.sort_unstable_by_key(|slab| unsafe { (*slab.as_ptr()).used });
        for (at, slab) in self.with_free_pieces.iter().enumerate() {
            // SAFETY: as above.
            unsafe { (*slab.as_ptr()).at = at };
        }
    }

    fn add(&mut self, slab: NonNull<Slab>) {
        // SAFETY: the lock is held (SB1).
        unsafe { (*slab.as_ptr()).at = self.with_free_pieces.len() };
        self.with_free_pieces.push(slab);
    }

    fn remove(&mut self, slab: NonNull<Slab>) {
        // SAFETY: the lock is held (SB1), here and below.
        let at = unsafe { (*slab.as_ptr()).at };
        self.with_free_pieces.swap_remove(at);
        if let Some(moved) = self.with_free_pieces.get(at) {
            // SAFETY: as above.
            unsafe { (*moved.as_ptr()).at = at };
        }
    }

    /// Releases a slab of the list without allocated pieces.
    fn release(&mut self, slab: NonNull<Slab>) -> Released {
        self.remove(slab);
        self.slabs -= 1;
        // SAFETY: the lock is held (SB1).
        self.returned_bytes -= unsafe { &*slab.as_ptr() }.returned_bytes();
        // SAFETY: no piece of the slab is allocated, and the class does not refer to it any more.
        unsafe { Slab::end(slab) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::return_pages;
    use super::*;
    use crate::memory::Region;

    const BYTES: usize = 20_000;

    fn create_slab(is_thin: bool) -> Option<NonNull<Slab>> {
        Slab::create(Region::reserve(SLAB_BYTES).unwrap(), BYTES, is_thin)
    }

    fn take(class: &mut Class) -> NonNull<u8> {
        match class.request(BYTES) {
            ClassReply::Piece(piece) => piece.start,
            ClassReply::Grow { is_thin } => class.grow(create_slab(is_thin), BYTES).unwrap().start,
            ClassReply::Elsewhere => panic!("the class is busy"),
        }
    }

    fn give_back(class: &mut Class, piece: NonNull<u8>) -> Option<Released> {
        // SAFETY: each test frees the pieces that it took, once.
        unsafe { class.give_back(piece) }
    }

    fn end(mut class: Class) {
        while !class.with_free_pieces.is_empty() {
            let Look::Empty(released) = class.look_at(0) else { panic!("a piece is left") };
            drop(released);
        }
        assert_eq!((class.slabs, class.slab_bytes, class.returned_bytes, class.idle_bytes()), (0, 0, 0, 0));
    }

    /// SB5.
    #[test]
    fn of_two_empty_slabs_one_is_released() {
        let mut class = Class::new();
        let mut pieces: Vec<NonNull<u8>> = Vec::new();
        while class.slabs < 2 {
            pieces.push(take(&mut class));
        }
        let released: Vec<Released> =
            pieces.into_iter().filter_map(|piece| give_back(&mut class, piece)).collect();
        assert_eq!((released.len(), class.slabs, class.free_len()), (1, 1, 1));
        end(class);
    }

    /// SB6: the first thread without a free piece creates a slab, and no other waits for it.
    #[test]
    fn other_threads_use_the_heap_while_a_slab_is_created() {
        let mut class = Class::new();
        assert_eq!(class.request(BYTES), ClassReply::Grow { is_thin: true });
        assert_eq!([class.request(BYTES), class.request(BYTES)], [ClassReply::Elsewhere; 2]);
        assert_eq!(class.grow(None, BYTES), None, "the system has no memory");
        assert_eq!(class.heap_bytes, 3 * BYTES);
        assert_eq!(class.request(BYTES), ClassReply::Grow { is_thin: true }, "and is reply again");
        let first = class.grow(create_slab(true), BYTES).unwrap().start;
        let ClassReply::Piece(second) = class.request(BYTES) else { panic!("the slab has room") };
        assert_eq!((first.as_ptr().addr() + BYTES, class.free_len()), (second.start.as_ptr().addr(), 1));
        give_back(&mut class, first);
        give_back(&mut class, second.start);
        end(class);
    }

    /// SB8, SB9: meanwhile pieces come from elsewhere, and may be freed, even the last.
    #[test]
    fn a_slab_whose_pages_are_returned_is_not_allocated_from_and_not_released() {
        let mut class = Class::new();
        let mut pieces: Vec<NonNull<u8>> = Vec::new();
        while class.slabs < 2 {
            pieces.push(take(&mut class));
        }
        // The second slab has one piece; of the first ten stay.
        let second = pieces.pop().unwrap();
        for piece in pieces.drain(10..) {
            assert!(give_back(&mut class, piece).is_none());
        }
        // SAFETY: the piece is a slab's.
        let first = unsafe { Slab::of(pieces[0]) }.0;
        let at = class.with_free_pieces.iter().position(|&slab| slab == first).unwrap();
        let free_before = class.idle_bytes() + class.returned_bytes;
        let Look::Rests(resting) = class.look_at(at) else { panic!("most of it is idle") };
        assert!(matches!(class.look_at(0), Look::Nothing), "one rests at a time");
        let third = take(&mut class);
        // SAFETY: as above.
        assert_ne!(unsafe { Slab::of(third) }.0, first);
        // SAFETY: it rests.
        unsafe { return_pages(resting.start, &resting.pages) };
        let last = pieces.pop().unwrap();
        for piece in pieces {
            assert!(give_back(&mut class, piece).is_none());
        }
        class.wake(resting);
        let returned = class.returned_bytes;
        assert!(returned > SLAB_BYTES / 2 && class.free_len() == 2);
        assert_eq!(class.idle_bytes() + returned, free_before + 9 * BYTES - BYTES);
        // Allocated again, all of its pages count again but those behind the last piece.
        class.prefer_full_slabs();
        let mut again = Vec::new();
        while class.slabs == 2 {
            again.push(take(&mut class));
        }
        assert!(class.returned_bytes < 2 * BYTES, "{}", class.returned_bytes);
        for piece in again.into_iter().chain([last, second, third]) {
            drop(give_back(&mut class, piece));
        }
        end(class);
    }

    #[test]
    fn an_empty_slab_that_rested_is_released_by_the_next_look() {
        let mut class = Class::new();
        let piece = take(&mut class);
        assert!(matches!(class.look_at(0), Look::Nothing), "a thin slab has nothing idle");
        let others: Vec<NonNull<u8>> = (0..20).map(|_| take(&mut class)).collect();
        others.into_iter().for_each(|other| drop(give_back(&mut class, other)));
        let Look::Rests(resting) = class.look_at(0) else { panic!("most of it is idle") };
        assert!(give_back(&mut class, piece).is_none(), "a resting slab is not released");
        class.wake(resting);
        let Look::Empty(released) = class.look_at(0) else { panic!("no piece is left") };
        assert!(released.is_thin && class.slabs == 0);
    }
}
