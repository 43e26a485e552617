//! LZ4 blocks ([format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)): the encoders are our
//! own, a fast one ([`fast`]) and a thorough one ([`high`]); the decoder of the crate `lz4_flex` reads both.

pub(crate) mod fast;
mod format;
pub(crate) mod high;
#[cfg(test)]
mod tests;

use crate::decompress::{DecodeError, damaged};
use lz4_flex::block::decompress_into;

/// Decodes a block; returns its length.
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    decompress_into(stored, out).map_err(|error| damaged("lz4", &error))
}
