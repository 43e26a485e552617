//! LZ4's format for both encoders: its limits, and how its numbers are written.

pub(super) const MIN_MATCH: usize = 4;
pub(super) const MAX_DISTANCE: usize = 65_535;
/// The last so many bytes are literals,
pub(super) const LAST_LITERALS: usize = 5;
/// and no match starts later than this before the end: decoders copy more than they need.
pub(super) const LAST_MATCH_START: usize = 12;
/// Largest value of a length field in the token, and of one further byte.
pub(super) const TOKEN_MAX: usize = 15;
pub(super) const EXTRA_MAX: usize = 255;

/// The longest form of `len` bytes: literals, their length, and a token. A match never takes more than it
/// replaces, since it replaces four bytes by at most three, and takes one more from 19 bytes on and for each
/// 255 beyond.
pub(super) fn longest_len(len: usize) -> usize {
    len + len / EXTRA_MAX + 16
}

/// The first byte of a sequence: both lengths, as far as they fit it.
pub(super) fn token(literals: usize, match_len: usize) -> u8 {
    // Both halves are at most 15.
    ((literals.min(TOKEN_MAX) << 4) | (match_len - MIN_MATCH).min(TOKEN_MAX)) as u8
}

/// Pushes the bytes for the part of a length that does not fit the token.
#[inline(always)]
pub(super) fn write_extra(len: usize, mut push: impl FnMut(u8)) {
    if let Some(mut beyond) = len.checked_sub(TOKEN_MAX) {
        while beyond >= EXTRA_MAX {
            push(EXTRA_MAX as u8);
            beyond -= EXTRA_MAX;
        }
        push(beyond as u8);
    }
}
