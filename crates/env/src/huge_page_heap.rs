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
//! A *huge region* is a region of [`HUGE_REGION_BYTES`], advised to be huge pages, that is allocated in
//! pieces of whole
//! [`UNIT_BYTES`]: the first fit over all regions, oldest first. So gaps of closed tables are filled again by
//! tables of a similar size, and new regions empty first. A huge page without a used unit is returned to the
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
//! * SH2. A region is in the list as long as a piece of it is allocated. Its memory does not move with it.
//! * SH3. Allocated memory has undefined contents. The owner of a piece writes all that it will read.
//! * SH4. No gap of a region is longer than its `longest_gap`.
//!
//! # Rejected
//! [Slabs](crate::slabs): made for pieces up to 64 KiB, of one size each. *The end of a table that is read
//! and written* in such pieces as well: these come and go with each table, and whole huge pages would be
//! cleared for a moment's use.

use crate::fork;
use crate::memory::{PageAdvice, REGION_ALIGNMENT_BYTES, Region};
use parking_lot::Mutex;
use std::ops::Range;
use std::ptr::NonNull;

/// Allocation unit; a piece wastes half of one on average.
pub(crate) const UNIT_BYTES: usize = 1 << 10;
/// Half of a region, so that it holds at least two.
pub(crate) const LARGEST_PIECE_BYTES: usize = HUGE_REGION_BYTES / 2;
/// Bytes allocated elsewhere before the first region: two huge pages, as for [slabs](crate::slabs).
const SMALL_BYTES: usize = 2 * HUGE_BYTES;
const HUGE_REGION_BYTES: usize = 16 << 20;
const HUGE_REGION_UNITS: usize = HUGE_REGION_BYTES / UNIT_BYTES;
const HUGE_BYTES: usize = REGION_ALIGNMENT_BYTES;
const HUGE_UNITS: usize = HUGE_BYTES / UNIT_BYTES;

static HEAP: Mutex<HugePageHeap> = Mutex::new(HugePageHeap { list: Vec::new(), small_bytes: 0 });

struct HugePageHeap {
    /// Oldest first.
    list: Vec<HugeRegion>,
    /// Bytes counted but allocated elsewhere.
    small_bytes: usize,
}

struct HugeRegion {
    region: Region,
    used: UnitMarks,
    /// SH4, in units: a longer request need not search.
    longest_gap: usize,
}

/// A bit for each unit of a region.
struct UnitMarks([u64; HUGE_REGION_UNITS / WORD_BITS]);

const WORD_BITS: usize = u64::BITS as usize;

pub(crate) enum Allocation {
    Shared(HeapPiece),
    /// Another one; to be kept as long as the memory.
    Elsewhere(SmallBytes),
}

/// A piece of a huge region. Freed when it is dropped.
#[derive(Debug)]
pub(crate) struct HeapPiece {
    start: NonNull<u8>,
    units: usize,
}

// SAFETY: memory with one owner and no thread affinity.
unsafe impl Send for HeapPiece {}
// SAFETY: exposes only the address.
unsafe impl Sync for HeapPiece {}

/// A count of this many small bytes while it is kept.
#[derive(Debug)]
pub(crate) struct SmallBytes(usize);

/// Allocates this many bytes: at least one and at most [`LARGEST_PIECE_BYTES`].
pub(crate) fn allocate(bytes: usize) -> Allocation {
    let mut heap = HEAP.lock();
    if heap.small_bytes >= SMALL_BYTES
        && let Some(piece) = heap.take(bytes.div_ceil(UNIT_BYTES))
    {
        return Allocation::Shared(piece);
    }
    heap.small_bytes += bytes;
    Allocation::Elsewhere(SmallBytes(bytes))
}

impl HugePageHeap {
    /// `None` if the system has no memory for another region.
    fn take(&mut self, units: usize) -> Option<HeapPiece> {
        if let Some(piece) = self.list.iter_mut().find_map(|huge| huge.take(units)) {
            return Some(piece);
        }
        let region = Region::reserve_with(HUGE_REGION_BYTES, PageAdvice::Huge).ok()?;
        self.list.push(HugeRegion::new(region));
        self.list.last_mut()?.take(units)
    }

    /// Frees a piece; returns the memory of a region that has become empty (SH2).
    fn give_back(&mut self, piece: &HeapPiece) -> Option<Region> {
        let address = piece.start.as_ptr().addr();
        let has_it =
            |huge: &HugeRegion| (0..HUGE_REGION_BYTES).contains(&address.wrapping_sub(huge.address()));
        let at = self.list.iter().position(has_it)?;
        let huge = &mut self.list[at];
        huge.give_back((address - huge.address()) / UNIT_BYTES, piece.units);
        huge.is_empty().then(|| self.list.remove(at).region)
    }
}

impl HugeRegion {
    fn new(region: Region) -> HugeRegion {
        HugeRegion {
            region,
            used: UnitMarks([0; HUGE_REGION_UNITS / WORD_BITS]),
            longest_gap: HUGE_REGION_UNITS,
        }
    }

    fn address(&self) -> usize {
        self.region.as_ptr().addr()
    }

    fn is_empty(&self) -> bool {
        self.used.next(0, true) == HUGE_REGION_UNITS
    }

    fn take(&mut self, units: usize) -> Option<HeapPiece> {
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
        Some(HeapPiece { start: NonNull::new(start)?, units })
    }

    /// Frees units, and returns the huge pages without a used unit to the system.
    fn give_back(&mut self, first: usize, units: usize) {
        self.used.mark(first..first + units, false);
        self.longest_gap = HUGE_REGION_UNITS;
        for page in first / HUGE_UNITS..(first + units).div_ceil(HUGE_UNITS) {
            let units = page * HUGE_UNITS..(page + 1) * HUGE_UNITS;
            if self.used.next(units.start, true) >= units.end {
                self.region.discard(units.start * UNIT_BYTES..units.end * UNIT_BYTES);
            }
        }
    }
}

impl UnitMarks {
    /// The first unit from `from` on that is used, or is not; [`HUGE_REGION_UNITS`] if there is none.
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
        HUGE_REGION_UNITS
    }

    /// The first unit of the first gap of at least this many.
    fn gap(&self, units: usize) -> Option<usize> {
        let mut start = self.next(0, false);
        while start + units <= HUGE_REGION_UNITS {
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

impl HeapPiece {
    /// Its first byte, aligned to [`UNIT_BYTES`]; the requested bytes follow.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HeapPiece {
    fn drop(&mut self) {
        if fork::was_forked_in_use() {
            // Another thread may have held the lock at the fork.
            return;
        }
        let emptied = HEAP.lock().give_back(self);
        // Unmapped without the lock.
        drop(emptied);
    }
}

impl Drop for SmallBytes {
    fn drop(&mut self) {
        if fork::was_forked_in_use() {
            return;
        }
        HEAP.lock().small_bytes -= self.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    /// SH1: allocated pieces never overlap; SH2: no region is left behind.
    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn pieces_are_disjoint_and_regions_go_with_the_last() {
        let random = SeededRandom::new(5);
        let mut heap = HugePageHeap { list: Vec::new(), small_bytes: 0 };
        let mut held: Vec<(HeapPiece, u8)> = Vec::new();
        let mut most_regions = 0;
        let ends = |piece: &HeapPiece| {
            let start = piece.start.as_ptr();
            // SAFETY: within the piece, which is held.
            unsafe { [start, start.add(piece.units * UNIT_BYTES - 1)] }
        };
        for round in 0..4_000u32 {
            if held.len() < 40 && random.below(5) < 3 {
                let piece = heap.take(1 + random.below(3_000) as usize).unwrap();
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
                drop(heap.give_back(&piece));
                std::mem::forget(piece);
            }
            most_regions = most_regions.max(heap.list.len());
            let used: u32 = heap.list.iter().flat_map(|huge| huge.used.0).map(u64::count_ones).sum();
            assert_eq!(used as usize, held.iter().map(|(piece, _)| piece.units).sum::<usize>());
            assert!(heap.list.iter().all(|huge| huge.used.gap(huge.longest_gap + 1).is_none()), "SH4");
        }
        assert!(most_regions > 2, "{most_regions}");
        for (piece, _) in held {
            drop(heap.give_back(&piece));
            std::mem::forget(piece);
        }
        assert!(heap.list.is_empty(), "SH2");
    }

    #[test]
    fn the_first_gap_is_filled_first() {
        let mut heap = HugePageHeap { list: Vec::new(), small_bytes: 0 };
        let pieces = [2_000, 3_000, 4_000].map(|units| heap.take(units).unwrap());
        let middle = pieces[1].start;
        heap.give_back(&pieces[1]);
        let again = heap.take(3_000).unwrap();
        assert_eq!(again.start, middle);
        let [first, gone, last] = pieces;
        std::mem::forget(gone);
        for piece in [first, again, last] {
            drop(heap.give_back(&piece));
            std::mem::forget(piece);
        }
        assert!(heap.list.is_empty());
    }
}
