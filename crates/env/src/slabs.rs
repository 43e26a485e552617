//! Slab allocator for cached blocks: pieces of a few kilobytes, by the hundred thousand, with random access.
//!
//! # Why
//! A lookup reads a block anywhere in the cache. General allocators grow by pages of 4 KiB, so that nearly
//! every access misses the processor's translations as well as its caches, and the page-table walk comes
//! first. With three dependent accesses for each visit of 57,000 blocks (Zen 4, virtual machine) a visit
//! takes 760 ns with small pages and 540 ns with huge ones.
//!
//! # Design
//! A *slab* (after Bonwick's allocator, USENIX Summer 1994) is a region of 2 MiB, advised to be one huge
//! page, cut into pieces of one *size class*. Classes are a thirty-second of a doubling apart, so at most 3 %
//! of a piece is unused, 1.5 on average. The slab's head is at its start: a piece's address determines its
//! slab. Each class has a lock, held for a few instructions when a block is read or freed, either of which
//! takes microseconds anyway.
//!
//! The first [`SMALL_BYTES`] of a class come from the global allocator, so that a small cache, or a rare
//! size, does not use 2 MiB; therefore [`Origin`], which the owner keeps. Pieces larger than
//! [`LARGEST_PIECE_BYTES`] come from there as well, and from [`LEAST_REGION_BYTES`] on each is a region of
//! its own.
//!
//! # Invariants
//! * SB1. Only the holder of its class's lock accesses the head of a slab, its free pieces included.
//! * SB2. A piece is either allocated or free; free pieces are those from `fresh` on, and those of the list
//!   that starts at `free`.
//! * SB3. All bytes are initialised at all times: regions are zero at first, and a freed piece keeps its
//!   contents, except for its first four bytes, which link the list.
//! * SB4. Exactly the slabs with a free piece are in their class's list, at the index in their head.
//! * SB5. A slab that becomes empty is released if another with free pieces is left; so a class keeps at most
//!   one empty slab, and allocating and freeing a single piece does not create and release slabs.
//! * SB6. A slab is created outside of its class's lock, by one thread of a class at a time. The kernel
//!   clears its 2 MiB when its head is written, which takes a tenth of a millisecond and more; a thread that
//!   needs a piece meanwhile takes it from the global allocator and does not wait.
//! * SB7. A released slab is spare, for any class that needs one next, while there are no more spare ones
//!   than one and an eighth of those in use. A cache under writes constantly frees blocks of one size and
//!   allocates others, and new memory is expensive: the kernel clears it, 0.1 ms for 2 MiB, and on a virtual
//!   machine whose host reclaims free memory 5 ms, because the host has to find some first.
//!
//! # Rejected
//! A pool for each cache: values that readers keep outlive it, so each block would need a counted pointer to
//! its pool. Huge pages for the whole heap are not the library's decision.

use crate::memory::{PageAdvice, REGION_ALIGNMENT_BYTES, Region, prefetch};
use parking_lot::Mutex;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of all pieces.
pub const PIECE_ALIGNMENT_BYTES: usize = 16;
/// Larger pieces come from the global allocator, or are mapped.
pub const LARGEST_PIECE_BYTES: usize = 1 << LARGEST_DOUBLING;
/// Pieces from this size on are mapped and unmapped one by one. The C library maps such pieces, too, until
/// the first is freed; from then on it takes up to 32 MiB from its arenas, and keeps them there.
const LEAST_REGION_BYTES: usize = 128 << 10;
/// Bytes a class has from the global allocator first: a nearly empty slab is a third of its memory at most.
pub const SMALL_BYTES: usize = 2 * SLAB_BYTES;

const SLAB_BYTES: usize = REGION_ALIGNMENT_BYTES;
/// Offset of the first piece of a slab.
const HEAD_BYTES: usize = size_of::<Slab>().next_multiple_of(64);
/// The smallest class is the first above 512 bytes: shorter blocks are rare.
const SMALLEST_DOUBLING: u32 = 9;
const LARGEST_DOUBLING: u32 = 16;
const STEPS: usize = 32;
const CLASSES: usize = (LARGEST_DOUBLING - SMALLEST_DOUBLING) as usize * STEPS;
/// The end of a list of free pieces.
const NO_PIECE: u32 = u32::MAX;

const _: () = assert!((1 << SMALLEST_DOUBLING) / STEPS == PIECE_ALIGNMENT_BYTES);

static ALL: [Mutex<Class>; CLASSES] = [const { Mutex::new(Class::new()) }; CLASSES];
/// Bytes of the pieces that no class holds. Those of the classes are counted under their locks: one number
/// for all would be a cache line that every core writes whenever a block is read.
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Never locked while a class is locked.
static SPARE: Mutex<Spare> = Mutex::new(Spare::new());

/// The source of a piece, needed to free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// The global allocator.
    Heap,
    /// A slab.
    Slab,
    /// A region of its own.
    Region,
}

/// The slabs of one class with free pieces, and its memory from the global allocator.
struct Class {
    with_free_pieces: Vec<NonNull<Slab>>,
    /// Allocated by the global allocator.
    heap_bytes: usize,
    /// Bytes of the pieces of slabs in use.
    slab_bytes: usize,
    /// Whether a thread creates a slab (SB6).
    is_growing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClassReply {
    Piece(NonNull<u8>),
    /// Use the global allocator; it is counted already.
    Elsewhere,
    /// The caller creates a slab now and adds it by [`Class::grow`].
    Grow,
}

// SAFETY: slabs are memory without thread affinity, accessed under the class's lock only (SB1).
unsafe impl Send for Class {}

/// Memory of released slabs, and the number of slabs in use (SB7).
struct Spare {
    regions: Vec<Region>,
    in_use: usize,
}

struct Slab {
    /// The memory that contains this head.
    region: Region,
    piece_bytes: usize,
    pieces: u32,
    used: u32,
    /// No piece from this one on was ever allocated.
    fresh: u32,
    /// First piece of the free list.
    free: u32,
    /// Index in the class's list, if it is there.
    at: usize,
}

/// The class for pieces of `len` bytes, and their size; `None` if slabs do not hold such pieces.
fn class_of(len: usize) -> Option<(usize, usize)> {
    if len > LARGEST_PIECE_BYTES {
        return None;
    }
    let len = len.max((1 << SMALLEST_DOUBLING) + 1);
    let doubling = (len - 1).ilog2();
    let floor = 1 << doubling;
    let step = floor / STEPS;
    let steps = (len - floor).div_ceil(step);
    Some(((doubling - SMALLEST_DOUBLING) as usize * STEPS + steps - 1, floor + steps * step))
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len.max(1), PIECE_ALIGNMENT_BYTES).expect("pieces are shorter than memory")
}

/// Allocates at least `len` initialised bytes with undefined contents, aligned to [`PIECE_ALIGNMENT_BYTES`];
/// the caller owns them until [`free`].
///
/// Ends the process, as all allocation does, when there is no memory.
pub fn allocate(len: usize) -> (NonNull<u8>, Origin) {
    if let Some((class, bytes)) = class_of(len) {
        let reply = ALL[class].lock().request(bytes);
        let piece = match reply {
            ClassReply::Piece(piece) => Some(piece),
            ClassReply::Elsewhere => None,
            ClassReply::Grow => {
                let slab = Slab::create(bytes);
                ALL[class].lock().grow(slab, bytes)
            }
        };
        if let Some(piece) = piece {
            return (piece, Origin::Slab);
        }
    } else {
        LARGE_BYTES.fetch_add(len, Ordering::Relaxed);
    }
    if len >= LEAST_REGION_BYTES
        && let Ok(region) = Region::reserve_with(len, PageAdvice::Small)
    {
        return (region.into_raw(), Origin::Region);
    }
    // SAFETY: the layout is not empty.
    let piece = NonNull::new(unsafe { alloc_zeroed(layout(len)) });
    (piece.unwrap_or_else(|| handle_alloc_error(layout(len))), Origin::Heap)
}

/// Bytes of all pieces that are allocated in this process, rounded up to their classes. Takes a lock for each
/// class, so some microseconds.
pub fn allocated_bytes() -> usize {
    let in_classes = ALL.iter().map(|class| class.lock().allocated_bytes()).sum::<usize>();
    in_classes + LARGE_BYTES.load(Ordering::Relaxed)
}

/// Frees a piece.
///
/// # Safety
/// It must come from [`allocate`] with this length, be freed once, and not be used any more.
pub unsafe fn free(piece: NonNull<u8>, len: usize, origin: Origin) {
    let class = class_of(len);
    if class.is_none() {
        LARGE_BYTES.fetch_sub(len, Ordering::Relaxed);
    }
    if origin == Origin::Region {
        // SAFETY: the piece is a region of this length, by the caller's word.
        return drop(unsafe { Region::from_raw(piece, len) });
    }
    match (class, origin) {
        (Some((class, _)), Origin::Slab) => {
            // SAFETY: guaranteed by the caller.
            let emptied = unsafe { ALL[class].lock().give_back(piece) };
            if let Some(region) = emptied {
                let surplus = SPARE.lock().give_up(region);
                // Unmapped without the lock.
                drop(surplus);
            }
        }
        (class, _) => {
            if let Some((class, bytes)) = class {
                ALL[class].lock().heap_bytes -= bytes;
            }
            // SAFETY: allocated with this layout.
            unsafe { dealloc(piece.as_ptr(), layout(len)) };
        }
    }
}

impl Class {
    const fn new() -> Class {
        Class { with_free_pieces: Vec::new(), heap_bytes: 0, slab_bytes: 0, is_growing: false }
    }

    fn allocated_bytes(&self) -> usize {
        self.heap_bytes + self.slab_bytes
    }

    fn request(&mut self, piece_bytes: usize) -> ClassReply {
        if self.heap_bytes >= SMALL_BYTES {
            if let Some(piece) = self.take() {
                return ClassReply::Piece(piece);
            }
            if !self.is_growing {
                self.is_growing = true;
                return ClassReply::Grow;
            }
        }
        self.heap_bytes += piece_bytes;
        ClassReply::Elsewhere
    }

    /// Adds a new slab and allocates from it; `None` without a region: then the piece counts as the heap's.
    fn grow(&mut self, slab: Option<NonNull<Slab>>, piece_bytes: usize) -> Option<NonNull<u8>> {
        self.is_growing = false;
        if let Some(slab) = slab {
            self.add(slab);
        }
        let piece = self.take();
        if piece.is_none() {
            self.heap_bytes += piece_bytes;
        }
        piece
    }

    /// Allocates a piece of a slab with free pieces, if there is one.
    fn take(&mut self) -> Option<NonNull<u8>> {
        let slab = *self.with_free_pieces.last()?;
        // SAFETY: a slab of this class, whose lock is held (SB1), with a free piece (SB4).
        let (piece, head) = unsafe { (Slab::take(slab), &*slab.as_ptr()) };
        self.slab_bytes += head.piece_bytes;
        let is_full = head.is_full();
        if is_full {
            self.with_free_pieces.pop();
        }
        Some(piece)
    }

    /// Frees a piece; returns the slab's region if the slab is released (SB5).
    ///
    /// # Safety
    /// The piece was allocated from a slab of this class, and is not used any more.
    unsafe fn give_back(&mut self, piece: NonNull<u8>) -> Option<Region> {
        // SAFETY: guaranteed by the caller.
        let (slab, offset) = unsafe { Slab::of(piece) };
        // SAFETY: the lock is held (SB1).
        let head = unsafe { &mut *slab.as_ptr() };
        let was_full = head.is_full();
        let index = ((offset - HEAD_BYTES) / head.piece_bytes) as u32;
        // SAFETY: the piece is the slab's again, is aligned, and large enough for a number.
        unsafe { piece.cast::<u32>().write(head.free) };
        head.free = index;
        head.used -= 1;
        self.slab_bytes -= head.piece_bytes;
        let is_empty = head.used == 0;
        if was_full {
            self.add(slab);
        }
        if !is_empty || self.with_free_pieces.len() < 2 {
            return None;
        }
        self.remove(slab);
        // SAFETY: no piece of the slab is allocated, and the class does not refer to it any more.
        Some(unsafe { slab.read() }.region)
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
}

impl Spare {
    const fn new() -> Spare {
        Spare { regions: Vec::new(), in_use: 0 }
    }

    /// Most spare slabs.
    fn limit(&self) -> usize {
        1 + self.in_use / 8
    }

    /// Memory for a slab: a spare one, or `None` for the system's. Either way one more is in use.
    fn take(&mut self) -> Option<Region> {
        self.in_use += 1;
        self.regions.pop()
    }

    /// Counts one less in use; returns the regions that return to the system.
    fn give_up(&mut self, region: Region) -> Vec<Region> {
        self.in_use -= 1;
        self.regions.push(region);
        // The ones released first are returned first: the others may still be in the processor's caches.
        let beyond = self.regions.len().saturating_sub(self.limit());
        self.regions.drain(..beyond).collect()
    }
}

impl Slab {
    fn create(piece_bytes: usize) -> Option<NonNull<Slab>> {
        let spare = SPARE.lock().take();
        let region = match spare {
            Some(region) => region,
            None => {
                let made = Region::reserve_with(SLAB_BYTES, PageAdvice::Huge).ok();
                if made.is_none() {
                    SPARE.lock().in_use -= 1;
                }
                made?
            }
        };
        let slab = NonNull::new(region.as_ptr().cast::<Slab>())?;
        let pieces = ((SLAB_BYTES - HEAD_BYTES) / piece_bytes) as u32;
        let head = Slab { region, piece_bytes, pieces, used: 0, fresh: 0, free: NO_PIECE, at: 0 };
        // SAFETY: the region is aligned beyond the needs of a head, and has no other user.
        unsafe { slab.write(head) };
        Some(slab)
    }

    /// The slab of a piece, and the piece's offset from its start.
    ///
    /// # Safety
    /// The piece is allocated from a slab.
    unsafe fn of(piece: NonNull<u8>) -> (NonNull<Slab>, usize) {
        let offset = piece.as_ptr().addr() % SLAB_BYTES;
        // SAFETY: slabs are aligned to their size, so this is the head of the piece's slab.
        (unsafe { piece.byte_sub(offset) }.cast::<Slab>(), offset)
    }

    fn is_full(&self) -> bool {
        self.used == self.pieces
    }

    /// Allocates a free piece.
    ///
    /// # Safety
    /// The class's lock must be held, and the slab not be full.
    unsafe fn take(slab: NonNull<Slab>) -> NonNull<u8> {
        // SAFETY: the caller holds the lock (SB1).
        let head = unsafe { &mut *slab.as_ptr() };
        let is_fresh = head.free == NO_PIECE;
        let index = if is_fresh { head.fresh } else { head.free };
        let piece_bytes = head.piece_bytes;
        head.used += 1;
        if is_fresh {
            head.fresh += 1;
        }
        // The head is not used as a reference below, because the returned pointer must be derived from the
        // whole region. SAFETY: the slab is not full, so the index is less than `pieces`, and the piece lies
        // within the slab.
        unsafe {
            let piece = slab.cast::<u8>().add(HEAD_BYTES + index as usize * piece_bytes);
            if !is_fresh {
                let next = piece.cast::<u32>().read();
                (*slab.as_ptr()).free = next;
                if next != NO_PIECE {
                    // Its next owner reads the link in it first, and pieces are freed in any order.
                    prefetch(
                        slab.cast::<u8>().as_ptr().wrapping_add(HEAD_BYTES + next as usize * piece_bytes),
                    );
                }
            }
            piece
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use std::collections::BTreeMap;

    #[test]
    fn classes_are_close_and_hold_their_lengths() {
        let mut before = (0, 0);
        for len in 1..=LARGEST_PIECE_BYTES {
            let (class, bytes) = class_of(len).unwrap();
            assert!(bytes >= len && bytes % PIECE_ALIGNMENT_BYTES == 0 && class < CLASSES, "{len}: {class}");
            assert!(len <= 512 || (bytes - len) * 33 <= bytes + 33, "{len} takes {bytes}");
            assert!((class, bytes) == before || (class > before.0 || before.1 == 0), "{len}");
            before = (class, bytes);
        }
        assert_eq!(class_of(LARGEST_PIECE_BYTES), Some((CLASSES - 1, LARGEST_PIECE_BYTES)));
        assert_eq!(class_of(LARGEST_PIECE_BYTES + 1), None);
    }

    /// A piece in use, and the byte that fills it.
    type Held = (NonNull<u8>, usize, Origin, u8);

    fn take(len: usize, filling: u8) -> Held {
        let (piece, origin) = allocate(len);
        // SAFETY: `len` bytes of its own; all of them initialised, which Miri checks.
        unsafe {
            let sum = std::slice::from_raw_parts(piece.as_ptr(), len).iter().fold(0u8, |a, &b| a ^ b);
            std::hint::black_box(sum);
            piece.as_ptr().write_bytes(filling, len);
        }
        assert_eq!(piece.as_ptr().addr() % PIECE_ALIGNMENT_BYTES, 0);
        (piece, len, origin, filling)
    }

    fn give_back((piece, len, origin, filling): Held) {
        // SAFETY: the piece is held.
        let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), len) };
        assert!(bytes.iter().all(|&byte| byte == filling), "a piece was overwritten");
        // SAFETY: allocated with this length, and not used any more.
        unsafe { free(piece, len, origin) };
    }

    fn slabs_of(held: &[Held]) -> usize {
        let of = |held: &Held| held.0.as_ptr().addr() / SLAB_BYTES;
        let slabs = held.iter().filter(|held| held.2 == Origin::Slab).map(of);
        slabs
            .fold(BTreeMap::new(), |mut all, slab| {
                *all.entry(slab).or_insert(0) += 1;
                all
            })
            .len()
    }

    /// SB7.
    #[test]
    fn an_eighth_of_the_slabs_in_use_may_be_spare() {
        let region = || Region::reserve(SLAB_BYTES).unwrap();
        let mut spare = Spare::new();
        let mut used: Vec<Region> = (0..32).map(|_| spare.take().unwrap_or_else(region)).collect();
        assert_eq!((spare.in_use, spare.regions.len()), (32, 0));
        let mut returned = 0;
        for _ in 0..8 {
            returned += spare.give_up(used.pop().unwrap()).len();
        }
        assert_eq!((spare.in_use, spare.regions.len(), returned), (24, 4, 4));
        let last = spare.regions.last().unwrap().as_ptr();
        assert_eq!(spare.take().map(|region| region.as_ptr()), Some(last), "the latest serves first");
        assert_eq!((spare.in_use, spare.regions.len()), (25, 3));
        // Spare slabs are returned as slabs in use become fewer.
        while let Some(region) = used.pop() {
            drop(spare.give_up(region));
        }
        assert_eq!((spare.in_use, spare.regions.len()), (1, 1));
    }

    /// SB5: of two empty slabs a class releases one, for others to use.
    #[test]
    fn a_slab_that_is_given_up_may_be_spare() {
        let mut class = Class::new();
        let slab = Slab::create(20_000).unwrap();
        class.add(slab);
        class.add(Slab::create(20_000).unwrap());
        // SAFETY: both slabs are this class's, and the piece has no other user.
        let region = unsafe {
            let piece = Slab::take(slab);
            class.slab_bytes = 20_000;
            class.give_back(piece).unwrap()
        };
        assert_eq!(region.as_ptr(), slab.as_ptr().cast());
        let [other] = class.with_free_pieces[..] else { panic!("one is left") };
        // SAFETY: the class, the only owner of the slab, is forgotten, and no piece of it is in use.
        drop(unsafe { other.read() });
    }

    /// Each test uses its own class: tests run in parallel, and classes belong to the process.
    #[test]
    fn small_use_stays_on_the_heap_and_large_use_fills_slabs() {
        const LEN: usize = 40_000;
        let count = 5 * SLAB_BYTES / LEN;
        let mut held: Vec<Held> = (0..count).map(|at| take(LEN, at as u8)).collect();
        let on_heap = held.iter().filter(|held| held.2 == Origin::Heap).count();
        let (class, bytes) = class_of(LEN).unwrap();
        assert_eq!(on_heap, SMALL_BYTES.div_ceil(bytes));
        let in_slabs = count - on_heap;
        let per_slab = (SLAB_BYTES - HEAD_BYTES) / bytes;
        assert_eq!(slabs_of(&held), in_slabs.div_ceil(per_slab), "slabs are filled");
        assert_eq!(ALL[class].lock().allocated_bytes(), count * bytes);
        // Freed in a random order.
        let random = SeededRandom::new(5);
        while !held.is_empty() {
            give_back(held.swap_remove(random.below(held.len() as u64) as usize));
        }
        let class = ALL[class].lock();
        assert_eq!(class.allocated_bytes(), 0);
        assert_eq!((class.heap_bytes, class.with_free_pieces.len()), (0, 1), "one empty slab is kept");
    }

    /// SB6: the first thread without a free piece creates a slab, and no other waits for it.
    #[test]
    fn other_threads_use_the_heap_while_a_slab_is_created() {
        const BYTES: usize = 4096;
        let mut class = Class { heap_bytes: SMALL_BYTES, ..Class::new() };
        assert_eq!(class.request(BYTES), ClassReply::Grow);
        assert_eq!([class.request(BYTES), class.request(BYTES)], [ClassReply::Elsewhere; 2]);
        assert_eq!(class.grow(None, BYTES), None, "the system has no memory");
        assert_eq!(class.heap_bytes, SMALL_BYTES + 3 * BYTES);
        assert_eq!(class.request(BYTES), ClassReply::Grow, "and is reply again");
        let first = class.grow(Slab::create(BYTES), BYTES).unwrap();
        let ClassReply::Piece(second) = class.request(BYTES) else { panic!("the slab has room") };
        assert_eq!(
            (first.as_ptr().addr() + BYTES, class.with_free_pieces.len()),
            (second.as_ptr().addr(), 1)
        );
        let slab = class.with_free_pieces[0];
        // SAFETY: the class, the only owner of the slab, is forgotten, and the pieces are not used.
        drop(unsafe { slab.read() });
    }

    #[test]
    fn pieces_are_disjoint() {
        let random = SeededRandom::new(7);
        let mut held = Vec::new();
        // Three classes beside each other, filled, emptied and filled again.
        for round in 0..4 {
            let wanted = if round % 2 == 0 { 900 } else { 40 };
            for step in 0..2_000usize {
                let grows = held.len() < wanted / 2 || (held.len() < wanted && random.below(2) == 0);
                if grows {
                    held.push(take(17_000 + 1_000 * random.below(3) as usize, step as u8));
                } else {
                    give_back(held.swap_remove(random.below(held.len() as u64) as usize));
                }
            }
        }
        held.into_iter().for_each(give_back);
    }

    #[test]
    fn threads_share_classes() {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let random = SeededRandom::new(u64::from(thread));
                    let mut held = Vec::new();
                    for _ in 0..3_000 {
                        if held.len() < 60 && random.below(3) > 0 {
                            held.push(take(50_000, thread));
                        } else if let Some(last) = held.pop() {
                            give_back(last);
                        }
                    }
                    held.into_iter().for_each(give_back);
                });
            }
        });
    }

    #[test]
    fn pieces_too_large_for_a_slab_come_from_the_heap() {
        let large = take(LARGEST_PIECE_BYTES + 1, 9);
        assert_eq!(large.2, Origin::Heap);
        give_back(large);
        give_back(take(1, 3));
    }

    #[test]
    fn very_large_pieces_are_mapped_one_by_one() {
        for len in [LEAST_REGION_BYTES, 3 << 20] {
            let large = take(len, 7);
            assert_eq!(large.2, Origin::Region);
            give_back(large);
        }
    }
}
