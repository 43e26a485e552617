//! Large buffers: room of some mebibytes in a `Vec<u8>`, such that its memory returns to the system with it.
//!
//! # Why
//! A value of ten mebibytes passes through five buffers on its way into a table and out of it. The C library
//! of GNU systems maps each allocation of 128 KiB and more by itself and unmaps it when it is freed, but only
//! until the first: the bound for mapping is then raised to what was freed, up to 32 MiB, and from then on
//! such buffers come from arenas, one for each thread, which keep up to twice as much when they are freed.
//! Values of up to 30 MiB left 420 MiB behind, beside a budget of 256.
//!
//! # Design
//! What is larger than 32 MiB is always mapped, and raises nothing. So a large buffer reserves a little more
//! than that. Pages count when they are touched, so it takes no more memory than one of the right size. Other
//! allocators map such buffers as well.
//!
//! # Rejected
//! * `mallopt`, `malloc_trim`: they are about the whole process, which is the program's and not a library's.
//! * Memory that is mapped by ourselves: codecs, files and batches take a `Vec<u8>`.

use std::collections::TryReserveError;

/// Least bytes of a large buffer. Below, what an arena keeps is little.
pub const LARGE_BYTES: usize = 1 << 20;
/// More than the greatest bound up to which the C library takes allocations from arenas.
const MAPPED_BYTES: usize = (32 << 20) + (64 << 10);

/// As [`Vec::reserve`], for a buffer that may become large.
#[inline]
pub fn reserve(buffer: &mut Vec<u8>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        grow(buffer, more);
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, more: usize) {
    let needed = buffer.len().saturating_add(more);
    let mut mapped = Vec::new();
    // Twice as much each time: what is appended in small pieces is copied once on average, not once a piece.
    let bytes = needed.max(MAPPED_BYTES).max(buffer.capacity().saturating_mul(2));
    // Without the address space it is an allocation like any other.
    if needed < LARGE_BYTES || mapped.try_reserve_exact(bytes).is_err() {
        return buffer.reserve(more);
    }
    mapped.extend_from_slice(buffer);
    *buffer = mapped;
}

/// As [`Vec::try_reserve_exact`], for a buffer that may become large.
///
/// # Errors
/// The allocator's, if there is no memory for it.
pub fn try_reserve(buffer: &mut Vec<u8>, more: usize) -> Result<(), TryReserveError> {
    let needed = buffer.len().saturating_add(more);
    if buffer.capacity() < needed && needed >= LARGE_BYTES {
        // Without the address space it is an allocation like any other.
        let _ = buffer.try_reserve_exact(needed.max(MAPPED_BYTES) - buffer.len());
    }
    buffer.try_reserve_exact(more)
}

/// As [`Vec::resize`] with zeros, for a buffer that may become large.
#[inline]
pub fn resize(buffer: &mut Vec<u8>, len: usize) {
    if buffer.capacity() < len && len >= LARGE_BYTES {
        grow_zeroed(buffer, len);
    }
    buffer.resize(len, 0);
}

/// Grows with pages that the system keeps at zero until they are written: a codec asks for more than its
/// result mostly needs, and what it does not write is in memory nowhere.
#[cold]
fn grow_zeroed(buffer: &mut Vec<u8>, len: usize) {
    let bytes = len.max(MAPPED_BYTES);
    // Zeroed memory has no call that may fail: whether there is room is asked before.
    if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return;
    }
    let mut zeroed = vec![0; bytes];
    zeroed[..buffer.len()].copy_from_slice(buffer);
    zeroed.truncate(len);
    *buffer = zeroed;
}

/// `len` zeros.
pub fn zeroed(len: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    resize(&mut buffer, len);
    buffer
}

/// Frees a buffer that became large, instead of keeping it for reuse.
#[inline]
pub fn free_if_large(buffer: &mut Vec<u8>) {
    if buffer.capacity() >= LARGE_BYTES {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_let_a_large_buffer_grow_by_halves_at_least() {
        let (mut buffer, mut moves) = (Vec::new(), 0);
        while buffer.len() < 4 * MAPPED_BYTES {
            let before = buffer.capacity();
            reserve(&mut buffer, 64 << 10);
            moves += usize::from(buffer.capacity() != before);
            buffer.resize(buffer.len() + (64 << 10), 1);
        }
        // Doublings up to a mebibyte, one to what is mapped, two or three more.
        assert!(moves <= 10, "{moves} moves for {} bytes", buffer.len());
    }

    #[test]
    fn a_buffer_keeps_its_bytes_while_it_grows() {
        let mut buffer = b"begin".to_vec();
        for len in [10, LARGE_BYTES - 1, LARGE_BYTES, MAPPED_BYTES + 1] {
            resize(&mut buffer, len);
            assert_eq!((&buffer[..5], buffer.len()), (&b"begin"[..], len));
            assert!(len < LARGE_BYTES || buffer.capacity() >= MAPPED_BYTES, "{len}");
        }
        free_if_large(&mut buffer);
        assert_eq!(buffer.capacity(), 0);
        let mut shrunk = vec![7; LARGE_BYTES];
        resize(&mut shrunk, 3);
        resize(&mut shrunk, 2 * LARGE_BYTES);
        assert_eq!((&shrunk[..4], shrunk.len()), (&[7, 7, 7, 0][..], 2 * LARGE_BYTES));
        assert!(shrunk[3..].iter().all(|&byte| byte == 0));
        let mut small = vec![1; 9];
        free_if_large(&mut small);
        assert_eq!(small.len(), 9);
        try_reserve(&mut small, LARGE_BYTES).unwrap();
        assert!(small.capacity() >= MAPPED_BYTES && small.len() == 9);
        assert!(try_reserve(&mut small, usize::MAX).is_err());
        assert!(zeroed(LARGE_BYTES).iter().all(|&byte| byte == 0));
    }
}
