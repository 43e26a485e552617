//! Sizes of slabs and pieces, and the size classes.

use crate::memory::REGION_ALIGNMENT_BYTES;

/// Alignment of all pieces.
pub const PIECE_ALIGNMENT_BYTES: usize = 16;
/// Larger pieces come from the global allocator, or are mapped.
pub const LARGEST_PIECE_BYTES: usize = 1 << LARGEST_DOUBLING;
/// So many slabs of a class have small pages: a rare size takes what it uses, and a nearly empty huge page is
/// a third of the memory of its class at most.
pub(super) const THIN_SLABS: usize = 2;
pub(super) const SLAB_BYTES: usize = REGION_ALIGNMENT_BYTES;
/// The smallest class is the first above 512 bytes: shorter blocks are rare.
pub(super) const SMALLEST_DOUBLING: u32 = 9;
pub(super) const LARGEST_DOUBLING: u32 = 16;
pub(super) const STEPS: usize = 32;
pub(super) const CLASSES: usize = (LARGEST_DOUBLING - SMALLEST_DOUBLING) as usize * STEPS;
/// Bytes of the pieces of the smallest class.
pub(super) const SHORTEST_CLASS_BYTES: usize = (1 << SMALLEST_DOUBLING) + PIECE_ALIGNMENT_BYTES;

const _: () = assert!((1 << SMALLEST_DOUBLING) / STEPS == PIECE_ALIGNMENT_BYTES);

/// The class for pieces of `len` bytes, and their size; `None` if slabs do not hold such pieces.
pub(super) fn class_of(len: usize) -> Option<(usize, usize)> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
