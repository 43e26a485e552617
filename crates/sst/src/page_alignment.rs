//! Page alignment: blocks that fit a page of the file lie in one, so that a read from the device takes one
//! page.
//!
//! Before a block that would cross into the next page the writer puts zeros up to it. They count as part of
//! the block before, whose place in the index ends where the next one begins; a block's own header says how
//! long it is. So every reader finds the blocks, and only verification looks at the padding.
//!
//! * PA1: a block of at most [`PAGE_BYTES`] lies in one page. Larger ones, and the first block if a single
//!   entry makes it longer than what the file header leaves of the first page, begin where the one before
//!   ends.
//! * PA2: padding is zeros, shorter than a page, and ends where a page does.

use crate::decode_error::{DecodeError, damaged};

/// Pages of memory, of the page cache and of most devices.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Zeros to put before a block of `len` bytes that would begin at `offset` (PA1).
pub(crate) fn padding_before(offset: u64, len: usize) -> usize {
    let in_page = (offset % PAGE_BYTES as u64) as usize;
    if len <= PAGE_BYTES && in_page + len > PAGE_BYTES { PAGE_BYTES - in_page } else { 0 }
}

/// Checks what lies between the end of a block, at `offset`, and the next one (PA2).
pub(crate) fn check_padding(offset: u64, padding: &[u8]) -> Result<(), DecodeError> {
    let end = offset + padding.len() as u64;
    if padding.len() >= PAGE_BYTES || !end.is_multiple_of(PAGE_BYTES as u64) {
        let len = padding.len();
        return damaged(format!("{len} bytes between two blocks, which end at {end} and not with a page"));
    }
    match padding.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(at) => damaged(format!(
            "the padding behind a block has {:#04x} at byte {}",
            padding[at],
            offset + at as u64
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_move_to_the_next_page_only_if_they_fit_it() {
        for (offset, len, padding) in [
            (0, 4096, 0),
            (32, 4064, 0),
            (32, 4065, 4064),
            (4096, 4096, 0),
            (4095, 2, 1),
            (4095, 1, 0),
            (5000, 4097, 0),
            (8191, 4096, 1),
        ] {
            assert_eq!(padding_before(offset, len), padding, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn padding_ends_with_a_page_and_is_zeros() {
        assert_eq!(check_padding(4000, &[0; 96]), Ok(()));
        assert!(check_padding(4000, &[0; 95]).is_err() && check_padding(4096, &[0; 4096]).is_err());
        let mut padding = [0; 96];
        padding[95] = 1;
        assert!(check_padding(4000, &padding).is_err());
    }
}
