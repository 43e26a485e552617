//! LZ4 blocks ([format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)): the encoders are our
//! own, a quick one ([`fast`]) and a thorough one ([`high`]), the decoder is the crate `lz4_flex`, which
//! reads what both write.

pub(crate) mod fast;
mod format;
pub(crate) mod high;
#[cfg(test)]
mod tests;

use crate::decompress::{DecodeError, damaged};
use lz4_flex::block::decompress_into;

/// Decodes a block; answers how long it is.
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    decompress_into(stored, out).map_err(|error| damaged("lz4", &error))
}
