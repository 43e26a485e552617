//! Huge-page heap: memory for long-lived slices of some kibibytes to some mebibytes with random access, that
//! is filters and indexes of open tables.
//!
//! # Why
//! A lookup reads a line anywhere in some filter. With a hundred million keys these have 125 MB, in pages of
//! 4 KiB more than the processor has translations for, so each lookup first waits for a walk through the page
//! tables. With huge pages a get took 7 % less. A filter has at most 1.25 MB in most cases, so separate huge
//! pages for each would waste a third of them.
//!
//! A general allocator has one more waste: that of the C library keeps memory that one thread frees for that
//! thread. Each thread that opened tables leaves as much behind as it once had open, while the next one takes
//! new memory for the same tables merged. Here every thread can reuse a gap.
//!
//! # Design
//! A *shelf* is a region of [`SHELF_BYTES`], advised to be huge pages, that is allocated in pieces of whole
//! [`UNIT_BYTES`]: the first fit over all shelves, oldest first. So gaps of closed tables are filled again by
//! tables of a similar size, and new shelves empty first. A huge page without a used unit is returned to the
//! system at once: tables come and go by the second, not by the microsecond.
//!
//! The first [`SMALL_BYTES`] are not allocated here but counted, so that a small database does not use whole
//! huge pages. Pieces of more than [`LARGEST_PIECE_BYTES`] are not allocated here either.
//!
//! Gaps count in no memory budget: with a hundred million keys and 125 MB of filters they were 8 to 24 MiB.
//! In the worst case one small piece is left in each huge page.
//!
//! # Invariants
//! * SH1. A unit is allocated at most once at a time: its mark in `used` is set when its piece is allocated,
//!   and cleared when that is dropped, both under the lock.
//! * SH2. A shelf is in the list as long as a piece of it is allocated. Its memory does not move with it.
//! * SH3. Allocated memory has undefined contents. The owner of a piece writes all that it will read.
//! * SH4. No gap of a shelf is longer than its `longest_gap`.
//!
//! # Rejected
//! [Slabs](crate::slabs): made for pieces up to 64 KiB, of one size each. *The end of a table that is read
//! and written* in such pieces as well: these come and go with each table, and whole huge pages would be
//! cleared for a moment's use.

use crate::memory::{PageAdvice, REGION_ALIGNMENT_BYTES, Region};
use parking_lot::Mutex;
use std::ops::Range;
use std::ptr::NonNull;

/// Allocation unit; a piece wastes half of one on average.
pub(crate) const UNIT_BYTES: usize = 1 << 10;
/// Half of a shelf, so that it holds at least two.
pub(crate) const LARGEST_PIECE_BYTES: usize = SHELF_BYTES / 2;
/// Bytes allocated elsewhere before the first shelf: two huge pages, as for [slabs](crate::slabs).
const SMALL_BYTES: usize = 2 * HUGE_BYTES;
const SHELF_BYTES: usize = 16 << 20;
const SHELF_UNITS: usize = SHELF_BYTES / UNIT_BYTES;
const HUGE_BYTES: usize = REGION_ALIGNMENT_BYTES;
const HUGE_UNITS: usize = HUGE_BYTES / UNIT_BYTES;

static SHELVES: Mutex<Shelves> = Mutex::new(Shelves { list: Vec::new(), small_bytes: 0 });

struct Shelves {
    /// Oldest first.
    list: Vec<Shelf>,
    /// Bytes counted but allocated elsewhere.
    small_bytes: usize,
}

struct Shelf {
    region: Region,
    used: Marks,
    /// SH4, in units: a longer request need not search.
    longest_gap: usize,
}

/// A bit for each unit of a shelf.
struct Marks([u64; SHELF_UNITS / WORD_BITS]);

const WORD_BITS: usize = u64::BITS as usize;

/// The allocator for memory of some length.
pub(crate) enum Place {
    /// This one.
    Shelf(Piece),
    /// Another one; to be kept as long as the memory.
    Elsewhere(Small),
}

/// A piece of a shelf. Freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    start: NonNull<u8>,
    units: usize,
}

// SAFETY: memory with one owner and no thread affinity.
unsafe impl Send for Piece {}
// SAFETY: exposes only the address.
unsafe impl Sync for Piece {}

/// A count of this many small bytes while it is kept.
#[derive(Debug)]
pub(crate) struct Small(usize);

/// Allocates this many bytes: at least one and at most [`LARGEST_PIECE_BYTES`].
pub(crate) fn place(bytes: usize) -> Place {
    let mut shelves = SHELVES.lock();
    if shelves.small_bytes >= SMALL_BYTES
        && let Some(piece) = shelves.take(bytes.div_ceil(UNIT_BYTES))
    {
        return Place::Shelf(piece);
    }
    shelves.small_bytes += bytes;
    Place::Elsewhere(Small(bytes))
}

impl Shelves {
    /// `None` if the system has no memory for another shelf.
    fn take(&mut self, units: usize) -> Option<Piece> {
        if let Some(piece) = self.list.iter_mut().find_map(|shelf| shelf.take(units)) {
            return Some(piece);
        }
        let region = Region::reserve_with(SHELF_BYTES, PageAdvice::Huge).ok()?;
        self.list.push(Shelf::new(region));
        self.list.last_mut()?.take(units)
    }

    /// Frees a piece; returns the memory of a shelf that has become empty (SH2).
    fn give_back(&mut self, piece: &Piece) -> Option<Region> {
        let address = piece.start.as_ptr().addr();
        let has_it = |shelf: &Shelf| (0..SHELF_BYTES).contains(&address.wrapping_sub(shelf.address()));
        let at = self.list.iter().position(has_it)?;
        let shelf = &mut self.list[at];
        shelf.give_back((address - shelf.address()) / UNIT_BYTES, piece.units);
        shelf.is_empty().then(|| self.list.remove(at).region)
    }
}

impl Shelf {
    fn new(region: Region) -> Shelf {
        Shelf { region, used: Marks([0; SHELF_UNITS / WORD_BITS]), longest_gap: SHELF_UNITS }
    }

    fn address(&self) -> usize {
        self.region.as_ptr().addr()
    }

    fn is_empty(&self) -> bool {
        self.used.next(0, true) == SHELF_UNITS
    }

    /// Allocates the first gap of at least this many units.
    fn take(&mut self, units: usize) -> Option<Piece> {
        if units > self.longest_gap {
            return None;
        }
        let Some(first) = self.used.gap(units) else {
            self.longest_gap = units - 1;
            return None;
        };
        self.used.mark(first..first + units, true);
        // SAFETY: the units lie within the region.
        let start = unsafe { self.region.as_ptr().add(first * UNIT_BYTES) };
        Some(Piece { start: NonNull::new(start)?, units })
    }

    /// Frees units, and returns the huge pages without a used unit to the system.
    fn give_back(&mut self, first: usize, units: usize) {
        self.used.mark(first..first + units, false);
        self.longest_gap = SHELF_UNITS;
        for page in first / HUGE_UNITS..(first + units).div_ceil(HUGE_UNITS) {
            let units = page * HUGE_UNITS..(page + 1) * HUGE_UNITS;
            if self.used.next(units.start, true) >= units.end {
                self.region.discard(units.start * UNIT_BYTES..units.end * UNIT_BYTES);
            }
        }
    }
}

impl Marks {
    /// The first unit from `from` on that is used, or is not; [`SHELF_UNITS`] if there is none.
    fn next(&self, from: usize, is_used: bool) -> usize {
        let wanted = |word: usize| if is_used { self.0[word] } else { !self.0[word] };
        let mut word = from / WORD_BITS;
        let mut ahead = u64::MAX << (from % WORD_BITS);
        while word < self.0.len() {
            let found = wanted(word) & ahead;
            if found != 0 {
                return word * WORD_BITS + found.trailing_zeros() as usize;
            }
            (word, ahead) = (word + 1, u64::MAX);
        }
        SHELF_UNITS
    }

    /// The first unit of the first gap of at least this many.
    fn gap(&self, units: usize) -> Option<usize> {
        let mut start = self.next(0, false);
        while start + units <= SHELF_UNITS {
            let end = self.next(start, true);
            if end - start >= units {
                return Some(start);
            }
            start = self.next(end, false);
        }
        None
    }

    fn mark(&mut self, units: Range<usize>, is_used: bool) {
        for unit in units {
            let bit = 1 << (unit % WORD_BITS);
            let word = &mut self.0[unit / WORD_BITS];
            *word = if is_used { *word | bit } else { *word & !bit };
        }
    }
}

impl Piece {
    /// Its first byte, aligned to [`UNIT_BYTES`]; the requested bytes follow.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let emptied = SHELVES.lock().give_back(self);
        // Unmapped without the lock.
        drop(emptied);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        SHELVES.lock().small_bytes -= self.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    /// SH1: pieces allocated at the same time have no byte in common, whatever was allocated and freed
    /// before; SH2: no shelf is left behind.
    #[test]
    fn pieces_are_nobody_elses_and_shelves_go_with_the_last() {
        let random = SeededRandom::new(5);
        let mut shelves = Shelves { list: Vec::new(), small_bytes: 0 };
        let mut held: Vec<(Piece, u8)> = Vec::new();
        let mut most_shelves = 0;
        let ends = |piece: &Piece| {
            let start = piece.start.as_ptr();
            // SAFETY: within the piece, which is held.
            unsafe { [start, start.add(piece.units * UNIT_BYTES - 1)] }
        };
        for round in 0..4_000u32 {
            if held.len() < 40 && random.below(5) < 3 {
                let piece = shelves.take(1 + random.below(3_000) as usize).unwrap();
                let mark = round as u8;
                for byte in ends(&piece) {
                    // SAFETY: a byte of a piece with a single owner, if SH1 holds.
                    unsafe { byte.write(mark) };
                }
                held.push((piece, mark));
            } else if !held.is_empty() {
                let (piece, mark) = held.swap_remove(random.below(held.len() as u64) as usize);
                // SAFETY: written when it was taken.
                assert_eq!(ends(&piece).map(|byte| unsafe { byte.read() }), [mark; 2], "SH1");
                drop(shelves.give_back(&piece));
                std::mem::forget(piece);
            }
            most_shelves = most_shelves.max(shelves.list.len());
            let used: u32 = shelves.list.iter().flat_map(|shelf| shelf.used.0).map(u64::count_ones).sum();
            assert_eq!(used as usize, held.iter().map(|(piece, _)| piece.units).sum::<usize>());
            assert!(shelves.list.iter().all(|shelf| shelf.used.gap(shelf.longest_gap + 1).is_none()), "SH4");
        }
        assert!(most_shelves > 2, "{most_shelves}");
        for (piece, _) in held {
            drop(shelves.give_back(&piece));
            std::mem::forget(piece);
        }
        assert!(shelves.list.is_empty(), "SH2");
    }

    #[test]
    fn a_gap_is_filled_before_what_is_behind_it() {
        let mut shelves = Shelves { list: Vec::new(), small_bytes: 0 };
        let pieces = [2_000, 3_000, 4_000].map(|units| shelves.take(units).unwrap());
        let middle = pieces[1].start;
        shelves.give_back(&pieces[1]);
        let again = shelves.take(3_000).unwrap();
        assert_eq!(again.start, middle);
        let [first, gone, last] = pieces;
        std::mem::forget(gone);
        for piece in [first, again, last] {
            drop(shelves.give_back(&piece));
            std::mem::forget(piece);
        }
        assert!(shelves.list.is_empty());
    }
}
