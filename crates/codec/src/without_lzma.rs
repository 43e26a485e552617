//! The codec `lzma` in a build without the feature of that name: nothing compresses, and stored blocks are
//! refused by name before they come here.

use crate::decompress::DecodeError;
use crate::kind::id;

pub(crate) fn compress(_: u8, _: &[u8], _: &mut [u8]) -> Option<usize> {
    None
}

pub(crate) fn decompress(_: &[u8], _: &mut [u8]) -> Result<usize, DecodeError> {
    Err(DecodeError::missing(id::LZMA))
}
