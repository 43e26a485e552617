//! Snappy ([format](https://github.com/google/snappy/blob/main/format_description.txt)), by the crate `snap`.
//!
//! The raw format states its own length in front; it must be the stated one.

use crate::compress::grown;
use crate::decompress::{DecodeError, damaged};
use esker_base::with_thread_buffer;
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};
use std::cell::RefCell;

thread_local! {
    // Hash tables of at most 32 KiB, cleared for each 64 KiB of input.
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
}

/// The block in Snappy's raw format at the start of `scratch`; `None` beyond 4 GiB.
pub(crate) fn compress(raw: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
    // The encoder requires room for its worst case.
    let out = grown(scratch, max_compress_len(raw.len()));
    with_thread_buffer(&ENCODER, Option::default, |kept| {
        kept.get_or_insert_with(Encoder::new).compress(raw, out).ok()
    })
}

pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    let found = decompress_len(stored).map_err(|error| damaged("snappy", &error))?;
    if found != out.len() {
        let expected = out.len();
        return Err(DecodeError::Damaged(format!("a block of {expected} bytes expected, {found} found")));
    }
    Decoder::new().decompress(stored, out).map_err(|error| damaged("snappy", &error))
}
