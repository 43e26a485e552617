//! LZ4 blocks ([format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)): the encoders are our
//! own, a fast one ([`fast`]) and a thorough one ([`high`]); the decoder of the crate `lz4_flex` reads both.

pub(crate) mod fast;
mod format;
pub(crate) mod high;
#[cfg(test)]
mod tests;

use crate::decompress::DecodeError;
#[cfg(feature = "lz4")]
use crate::decompress::damaged;

#[cfg(feature = "lz4")]
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    lz4_flex::block::decompress_into(stored, out).map_err(|error| damaged("lz4", &error))
}

/// In a build without the feature `lz4` stored blocks are refused before they come here.
#[cfg(not(feature = "lz4"))]
pub(crate) fn decompress(_: &[u8], _: &mut [u8]) -> Result<usize, DecodeError> {
    Err(DecodeError::missing(crate::kind::id::LZ4))
}
