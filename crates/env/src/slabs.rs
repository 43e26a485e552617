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
//! The first [`THIN_SLABS`](sizes) of a class have small pages, so that a small cache, or a rare size, does
//! not use 2 MiB. Pieces larger than [`LARGEST_PIECE_BYTES`] come from the global allocator, and from
//! [`LEAST_REGION_BYTES`] on each is a region of its own; therefore [`Origin`], which the owner keeps.
//!
//! A cache that shrinks evicts blocks of all slabs, so that many are partly free and few are empty.
//! [`return_idle_pages`], which background work calls, gives pages without an allocated piece back to the
//! system. That splits huge pages, so it waits until much is idle.
//!
//! Map: `sizes` has the classes, `slab` is one slab and its bitmaps, `class` the slabs of one size, `spare`
//! those without a class.
//!
//! # Invariants
//! * SB1. Only the holder of its class's lock accesses the head of a slab.
//! * SB2. A piece is allocated or free, as the bitmap in the head says.
//! * SB3. All bytes are initialised at all times: regions are zero at first, a freed piece keeps its
//!   contents, and a page that was returned to the system is zero.
//! * SB4. Exactly the slabs with a free piece are in their class's list, at the index in their head, but for
//!   one that rests.
//! * SB5. A slab that becomes empty is released if another with free pieces is left; so a class keeps at most
//!   one empty slab, and allocating and freeing a single piece does not create and release slabs.
//! * SB6. A slab is created outside of its class's lock, by one thread of a class at a time. The kernel
//!   clears its 2 MiB when its head is written, which takes a tenth of a millisecond and more; a thread that
//!   needs a piece meanwhile takes it from the global allocator and does not wait.
//! * SB7. A released slab is spare, for any class that needs one next, while there are no more spare ones
//!   than one and an eighth of those in use. A cache under writes constantly frees blocks of one size and
//!   allocates others, and new memory is expensive: the kernel clears it, 0.1 ms for 2 MiB, and on a virtual
//!   machine whose host reclaims free memory 5 ms, because the host has to find some first.
//! * SB8. Pages are returned outside of the class's lock, of one slab of a class at a time, which *rests*
//!   meanwhile: it is in no list, so none of its pieces is allocated, and it is not released. A page is
//!   returned only if no piece in it was allocated when the rest began; pieces may be freed during it.
//! * SB9. A slab with pages that were returned, or not touched yet, is *thin*: it asks for small pages,
//!   because the kernel would otherwise put a huge page in their place. When it becomes full, it asks for a
//!   huge page.
//!
//! # Rejected
//! A pool for each cache: values that readers keep outlive it, so each block would need a counted pointer to
//! its pool. Huge pages for the whole heap are not the library's decision. Moving blocks together: readers
//! hold their addresses. The first pieces of a class from the global allocator: with a small cache these were
//! most, and what they left between other pieces stayed in memory.

mod class;
mod sizes;
mod slab;
mod spare;

use crate::fork;
use crate::memory::{PageAdvice, Region};
use class::{Class, ClassReply, Look};
use parking_lot::Mutex;
use sizes::{CLASSES, SLAB_BYTES, class_of};
pub use sizes::{LARGEST_PIECE_BYTES, PIECE_ALIGNMENT_BYTES};
use slab::{Released, Slab};
use spare::Spare;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces from this size on are mapped and unmapped one by one. The C library maps such pieces, too, until
/// the first is freed; from then on it takes up to 32 MiB from its arenas, and keeps them there.
const LEAST_REGION_BYTES: usize = 128 << 10;
/// Idle bytes that stay: a part of what is allocated, as for spare slabs (SB7), and some mebibytes.
const KEPT_IDLE_DIVISOR: usize = 16;
const KEPT_IDLE_BYTES: usize = SLAB_BYTES;

static ALL: [Mutex<Class>; CLASSES] = [const { Mutex::new(Class::new()) }; CLASSES];
/// Bytes of the pieces that no class holds. Those of the classes are counted under their locks: one number
/// for all would be a cache line that every core writes whenever a block is read.
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Never locked while a class is locked.
static SPARE: Mutex<Spare> = Mutex::new(Spare::new());
/// Idle bytes after pages were returned last: what lies in pages with an allocated piece. Locked while pages
/// are returned.
static LEFT_IDLE_BYTES: Mutex<usize> = Mutex::new(0);

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
            ClassReply::Grow { is_thin } => {
                let slab = create_slab(bytes, is_thin);
                ALL[class].lock().grow(slab, bytes)
            }
        };
        if let Some(piece) = piece {
            if piece.fills_thin_slab {
                // SAFETY: just allocated from a slab.
                unsafe { slab::advise_huge(piece.start) };
            }
            return (piece.start, Origin::Slab);
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

/// Bytes that slabs have beside allocated pieces: of free ones, and of spare slabs. Takes as long as
/// [`allocated_bytes`].
pub fn idle_bytes() -> usize {
    let spare = SPARE.lock().len() * SLAB_BYTES;
    spare + ALL.iter().map(|class| class.lock().idle_bytes()).sum::<usize>()
}

/// The share of [`idle_bytes`] that belongs to the holder of so many bytes of pieces: caches share the slabs
/// of a process. Takes as long as [`allocated_bytes`].
pub fn idle_bytes_beside(held_bytes: usize) -> usize {
    let allocated = allocated_bytes().max(held_bytes).max(1);
    (idle_bytes() as u128 * held_bytes as u128 / allocated as u128) as usize
}

/// Returns pages without an allocated piece to the system, if many have become idle since it did so last.
/// For threads in the background: it takes some microseconds if there is nothing to do, and about a
/// millisecond for each ten mebibytes that it returns. Returns at once if another thread is at it.
pub fn return_idle_pages() {
    let Some(mut left) = LEFT_IDLE_BYTES.try_lock() else { return };
    let (idle, allocated) = ALL.iter().map(Mutex::lock).fold((0, 0), |(idle, allocated), class| {
        (idle + class.idle_bytes(), allocated + class.allocated_bytes())
    });
    *left = idle.min(*left);
    if idle - *left > KEPT_IDLE_BYTES + allocated / KEPT_IDLE_DIVISOR {
        *left = ALL.iter().map(return_pages_of).sum();
    }
}

/// Returns the idle pages of a class; what stays idle of it, in bytes.
fn return_pages_of(class: &Mutex<Class>) -> usize {
    let slabs = class.lock().free_len();
    // From the end, because a slab that was removed leaves its place to the last one.
    for at in (0..slabs).rev() {
        let look = class.lock().look_at(at);
        match look {
            Look::Nothing => {}
            Look::Empty(released) => release(released),
            Look::Rests(resting) => {
                // SAFETY: the slab rests, so no piece in these pages is allocated until it wakes (SB8).
                unsafe { slab::return_pages(resting.start, &resting.pages) };
                class.lock().wake(resting);
            }
        }
    }
    let mut class = class.lock();
    class.prefer_full_slabs();
    class.idle_bytes()
}

fn create_slab(piece_bytes: usize, is_thin: bool) -> Option<NonNull<Slab>> {
    // Spare ones have been touched.
    let spare = SPARE.lock().take(is_thin);
    let advice = if is_thin { PageAdvice::Small } else { PageAdvice::Huge };
    let region = spare.or_else(|| Region::reserve_with(SLAB_BYTES, advice).ok());
    if region.is_none() {
        SPARE.lock().failed();
    }
    Slab::create(region?, piece_bytes, is_thin)
}

/// Unmaps a region, if it does not become spare, without a lock.
fn release(released: Released) {
    let surplus = SPARE.lock().give_up(released);
    drop(surplus);
}

/// Frees a piece; does nothing in a child of a process that had a database open.
///
/// # Safety
/// It must come from [`allocate`] with this length, be freed once, and not be used any more.
pub unsafe fn free(piece: NonNull<u8>, len: usize, origin: Origin) {
    if fork::was_forked_in_use() {
        // Another thread may have held the lock of the class at the fork.
        return;
    }
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
            emptied.into_iter().for_each(release);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use std::collections::BTreeSet;

    /// A piece in use, and the byte that fills it.
    type Held = (NonNull<u8>, usize, Origin, u8);

    /// Which bytes of a piece are looked at: interpreting all of them takes minutes.
    const STEP: usize = if cfg!(miri) { 509 } else { 1 };

    fn take(len: usize, filling: u8) -> Held {
        let (piece, origin) = allocate(len);
        // SAFETY: `len` bytes of its own; all of them initialised, which Miri checks.
        unsafe {
            let bytes = std::slice::from_raw_parts(piece.as_ptr(), len);
            std::hint::black_box(bytes.iter().step_by(STEP).fold(0u8, |a, &b| a ^ b));
            piece.as_ptr().write_bytes(filling, len);
        }
        assert_eq!(piece.as_ptr().addr() % PIECE_ALIGNMENT_BYTES, 0);
        (piece, len, origin, filling)
    }

    fn give_back((piece, len, origin, filling): Held) {
        // SAFETY: the piece is held.
        let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), len) };
        assert!(bytes.iter().step_by(STEP).all(|&byte| byte == filling), "a piece was overwritten");
        // SAFETY: allocated with this length, and not used any more.
        unsafe { free(piece, len, origin) };
    }

    fn slab_addresses(held: &[Held]) -> BTreeSet<usize> {
        let of = |held: &Held| held.0.as_ptr().addr() / SLAB_BYTES * SLAB_BYTES;
        held.iter().filter(|held| held.2 == Origin::Slab).map(of).collect()
    }

    fn slabs_of(held: &[Held]) -> usize {
        slab_addresses(held).len()
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident_bytes_of(slab: usize) -> usize {
        let page_bytes = crate::memory::page_bytes();
        let mut pages = vec![0_u8; SLAB_BYTES / page_bytes];
        // SAFETY: the call reads no memory of the range, which may have been unmapped, and `pages` has a
        // byte for each of its pages.
        let asked = unsafe {
            let start = std::ptr::without_provenance_mut(slab);
            libc::mincore(start, SLAB_BYTES, pages.as_mut_ptr())
        };
        let count = pages.iter().filter(|&&page| page & 1 == 1).count();
        if asked == 0 { count * page_bytes } else { 0 }
    }

    /// Each test uses its own class: tests run in parallel, and classes belong to the process.
    #[test]
    fn slabs_are_filled_and_released() {
        const LEN: usize = 40_000;
        let count = 5 * SLAB_BYTES / LEN;
        let mut held: Vec<Held> = (0..count).map(|at| take(LEN, at as u8)).collect();
        let (class, bytes) = class_of(LEN).unwrap();
        let per_slab = (SLAB_BYTES - slab::HEAD_BYTES) / bytes;
        assert_eq!(slabs_of(&held), count.div_ceil(per_slab), "slabs are filled");
        assert_eq!(ALL[class].lock().allocated_bytes(), count * bytes);
        // Freed in a random order.
        let random = SeededRandom::new(5);
        while !held.is_empty() {
            give_back(held.swap_remove(random.below(held.len() as u64) as usize));
        }
        let class = ALL[class].lock();
        assert_eq!((class.allocated_bytes(), class.heap_bytes), (0, 0));
        assert!(class.free_len() <= 1, "one empty slab is kept at most");
    }

    #[test]
    fn pieces_are_disjoint() {
        let random = SeededRandom::new(7);
        let mut held = Vec::new();
        // Three classes beside each other, filled, emptied and filled again.
        for round in 0..4 {
            let wanted = if round % 2 == 0 { 900 } else { 40 };
            for step in 0..if cfg!(miri) { 200 } else { 2_000_usize } {
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

    /// SB8: threads allocate and free while pages are returned, and no piece loses its contents.
    #[test]
    fn threads_share_classes() {
        let steps = if cfg!(miri) { 200 } else { 3_000 };
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let random = SeededRandom::new(u64::from(thread));
                    let mut held = Vec::new();
                    for step in 0..steps {
                        // Many at times, few at others.
                        let most = if step / (steps / 4) % 2 == 0 { 120 } else { 10 };
                        if held.len() < most && random.below(3) > 0 {
                            held.push(take(50_000, thread));
                        } else if !held.is_empty() {
                            give_back(held.swap_remove(random.below(held.len() as u64) as usize));
                        }
                    }
                    held.into_iter().for_each(give_back);
                });
            }
            scope.spawn(|| {
                for _ in 0..steps / 10 {
                    return_pages_of(&ALL[class_of(50_000).unwrap().0]);
                    std::thread::yield_now();
                }
            });
        });
    }

    /// SB9, by what the system says of the memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn what_a_cache_leaves_between_its_blocks_returns_to_the_system() {
        const LEN: usize = 10_000;
        let (class, _) = class_of(LEN).unwrap();
        let mut held: Vec<Held> = (0..20 * SLAB_BYTES / LEN).map(|at| take(LEN, at as u8)).collect();
        let random = SeededRandom::new(11);
        let slabs = slab_addresses(&held);
        let resident_bytes = || slabs.iter().map(|&slab| resident_bytes_of(slab)).sum::<usize>();
        let full_bytes = resident_bytes();
        // One of eight stays.
        for _ in 0..held.len() / 8 * 7 {
            give_back(held.swap_remove(random.below(held.len() as u64) as usize));
        }
        return_pages_of(&ALL[class]);
        let left_bytes = resident_bytes();
        assert!(left_bytes < full_bytes / 2, "{left_bytes} of {full_bytes}");
        // They fill again.
        held.extend((0..20 * SLAB_BYTES / LEN).map(|at| take(LEN, at as u8)));
        assert!(ALL[class].lock().idle_bytes() <= 2 * SLAB_BYTES);
        held.into_iter().for_each(give_back);
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
