//! Reads and copies without bounds checks, for bytes that were validated once.
//!
//! Every function states its contract; debug builds check it where they can.

use std::mem::MaybeUninit;

/// The byte at `at`.
///
/// # Safety
/// `base + at` must be readable.
#[inline(always)]
pub(crate) unsafe fn u8_at(base: *const u8, at: usize) -> u8 {
    // SAFETY: guaranteed by the caller.
    unsafe { base.add(at).read() }
}

/// The little-endian number at `at`.
///
/// # Safety
/// Two bytes from `base + at` must be readable.
#[inline(always)]
pub(crate) unsafe fn u16_at(base: *const u8, at: usize) -> u16 {
    // SAFETY: guaranteed by the caller; byte arrays need no alignment.
    u16::from_le_bytes(unsafe { base.add(at).cast::<[u8; 2]>().read() })
}

/// The little-endian number at `at`.
///
/// # Safety
/// Four bytes from `base + at` must be readable.
#[inline(always)]
pub(crate) unsafe fn u32_at(base: *const u8, at: usize) -> u32 {
    // SAFETY: guaranteed by the caller; byte arrays need no alignment.
    u32::from_le_bytes(unsafe { base.add(at).cast::<[u8; 4]>().read() })
}

/// The little-endian number at `at`.
///
/// # Safety
/// Eight bytes from `base + at` must be readable.
#[inline(always)]
pub(crate) unsafe fn u64_at(base: *const u8, at: usize) -> u64 {
    // SAFETY: guaranteed by the caller; byte arrays need no alignment.
    u64::from_le_bytes(unsafe { base.add(at).cast::<[u8; 8]>().read() })
}

/// Up to eight bytes at `at` as a big-endian number, zero-padded after `len` bytes.
///
/// # Safety
/// Eight bytes from `base + at` must be readable, whatever `len` is.
#[inline(always)]
pub(crate) unsafe fn head_at(base: *const u8, at: usize, len: usize) -> u64 {
    // SAFETY: guaranteed by the caller.
    let head = unsafe { u64_at(base, at) }.swap_bytes();
    if len >= 8 { head } else { head & !(u64::MAX >> (8 * len)) }
}

/// The `len` bytes at `at`.
///
/// # Safety
/// They must be readable and not be written to for as long as `'a`.
#[inline(always)]
pub(crate) unsafe fn slice_at<'a>(base: *const u8, at: usize, len: usize) -> &'a [u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(base.add(at), len) }
}

/// Decodes a varint of at most 32 bits that validation has accepted: the value and where it ends.
///
/// # Safety
/// The bytes at `at` must hold a whole varint of at most five bytes.
#[inline(always)]
pub(crate) unsafe fn varint_at(base: *const u8, at: usize) -> (usize, usize) {
    // SAFETY: the varint has at least one byte.
    let first = unsafe { u8_at(base, at) };
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { long_varint_at(base, at) }
}

/// # Safety
/// As [`varint_at`].
#[inline(never)]
unsafe fn long_varint_at(base: *const u8, mut at: usize) -> (usize, usize) {
    let (mut value, mut shift) = (0usize, 0);
    loop {
        // SAFETY: the varint continues: its previous byte said so, and it was validated.
        let byte = unsafe { u8_at(base, at) };
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        at += 1;
        // The second condition never decides for validated bytes; it bounds the shift.
        if byte < 0x80 || shift > 28 {
            return (value, at);
        }
    }
}

/// Bytes that a step of a copy moves: a register of AVX2.
pub(crate) const STEP_BYTES: usize = 32;

/// Copies so many steps.
///
/// # Safety
/// `STEPS * STEP_BYTES` bytes must lie within one allocation behind each pointer (the source's may be
/// uninitialised), and the two must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_steps<const STEPS: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller; any bytes are valid. A copy of constant length compiles to no call.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<Steps<STEPS>>(), to.cast::<Steps<STEPS>>(), 1) };
}

/// Any bytes of so many steps.
type Steps<const STEPS: usize> = MaybeUninit<[[u8; STEP_BYTES]; STEPS]>;

/// Bytes that [`copy_in_steps`] may touch behind the end of both sides.
pub(crate) const COPY_SLACK: usize = 31;

/// Copies `len` bytes, in steps of 32 where that beats a call: for the lengths of keys and small values.
///
/// # Safety
/// `len` rounded up to a multiple of 32 bytes must lie within one allocation behind each pointer (the
/// source's may be uninitialised behind `len`), and the two must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_in_steps(from: *const u8, to: *mut u8, len: usize) {
    const LONGEST_IN_STEPS: usize = 512;
    if len > LONGEST_IN_STEPS {
        // SAFETY: guaranteed by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        return;
    }
    let mut at = 0;
    while at < len {
        // SAFETY: guaranteed by the caller. `MaybeUninit` copies uninitialised bytes as well.
        unsafe {
            let step = from.add(at).cast::<MaybeUninit<[u8; 32]>>().read();
            to.add(at).cast::<MaybeUninit<[u8; 32]>>().write(step);
        }
        at += 32;
    }
}

/// Copies all of `from` without a call for the lengths of keys and small values, and without touching a byte
/// behind either side: pieces from the front and from the back, which may overlap. Without a loop, because
/// the compiler would turn that into a call.
///
/// # Safety
/// `from.len()` bytes must be writable at `to`, and must not overlap `from`.
#[inline(always)]
pub(crate) unsafe fn copy_exactly(from: &[u8], to: *mut u8) {
    let (at, len) = (from.as_ptr(), from.len());
    // SAFETY: every piece lies within `len` bytes, which are readable at `from` and writable at `to`.
    unsafe {
        match len {
            16..=32 => {
                copy_piece::<16>(at, to);
                copy_piece::<16>(at.add(len - 16), to.add(len - 16));
            }
            33..=128 => {
                copy_piece::<32>(at, to);
                if len > 64 {
                    copy_piece::<32>(at.add(32), to.add(32));
                    copy_piece::<32>(at.add(len - 64), to.add(len - 64));
                }
                copy_piece::<32>(at.add(len - 32), to.add(len - 32));
            }
            _ => copy_other_length(from, to),
        }
    }
}

/// As [`copy_exactly`], for a key. Keys of up to two words are copied by words: a cursor has just written
/// them to its buffer by words, and a wider read of bytes just written stalls.
///
/// # Safety
/// As [`copy_exactly`].
#[inline(always)]
pub(crate) unsafe fn copy_key(from: &[u8], to: *mut u8) {
    let (at, len) = (from.as_ptr(), from.len());
    if let 8..=16 = len {
        // SAFETY: both pieces lie within `len` bytes.
        unsafe {
            copy_piece::<8>(at, to);
            copy_piece::<8>(at.add(len - 8), to.add(len - 8));
        }
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { copy_exactly(from, to) };
    }
}

/// # Safety
/// `N` bytes must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy_piece<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller; byte arrays need no alignment.
    unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
}

/// # Safety
/// As [`copy_exactly`].
#[inline(never)]
unsafe fn copy_other_length(from: &[u8], to: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

/// Equality without a call for up to 16 bytes, the common lengths of keys.
#[inline(always)]
pub(crate) fn bytes_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(x), Some(y), Some(u), Some(v)) =
        (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>())
        && a.len() <= 16
    {
        let first = u64::from_ne_bytes(*x) ^ u64::from_ne_bytes(*y);
        let last = u64::from_ne_bytes(*u) ^ u64::from_ne_bytes(*v);
        return first | last == 0;
    }
    if a.len() < 8 {
        return a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0;
    }
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_copies_touch_nothing_else() {
        let from: Vec<u8> = (0..1000u32).map(|at| (at % 251) as u8 + 1).collect();
        for len in 0..700 {
            let mut to = vec![0; len + 64];
            // SAFETY: `to` has room behind its first 32 bytes.
            unsafe { copy_exactly(&from[7..7 + len], to.as_mut_ptr().add(32)) };
            assert_eq!(to[32..32 + len], from[7..7 + len]);
            to.fill(0);
            // SAFETY: as above.
            unsafe { copy_key(&from[7..7 + len], to.as_mut_ptr().add(32)) };
            assert_eq!(to[32..32 + len], from[7..7 + len]);
            assert!(to[..32].iter().chain(&to[32 + len..]).all(|&byte| byte == 0), "{len} bytes");
        }
    }
}
