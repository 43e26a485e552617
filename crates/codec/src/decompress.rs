//! Decompression of a block from bytes that may be damaged or hostile.
//!
//! Memory beyond the raw length is the decoder's own and does not depend on the bytes: nothing for LZ4,
//! Snappy and the codecs of integers, 160 KiB a thread for Zstandard (twice that with dictionaries), a window
//! of the raw length and 30 KiB for LZMA, freed at once.

use crate::dictionary::DictionaryDecoder;
use crate::kind::id;
use crate::{columns, lz4, lzma, snappy, zstd};
use esker_base::{Error, large_buffer};
use std::path::Path;

/// Why a block could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// This build does not know the id: the file comes from a newer version.
    #[error("{0}")]
    Unsupported(String),
    /// The bytes are not what the codec wrote, or not of the stated length.
    #[error("{0}")]
    Damaged(String),
}

impl DecodeError {
    /// A block of a codec that this build is without.
    pub(crate) fn missing(codec_id: u8) -> DecodeError {
        let name = id::name(codec_id).unwrap_or("unknown");
        let feature = id::missing_feature(codec_id).unwrap_or(name);
        DecodeError::Unsupported(format!(
            "a block is compressed with {name}, which needs the Cargo feature \"{feature}\""
        ))
    }

    /// The error with the file and the offset of the block.
    pub fn into_error(self, file: &Path, offset: u64) -> Error {
        match self {
            DecodeError::Unsupported(detail) => {
                Error::Unsupported(format!("{} at byte {offset}: {detail}", file.display()).into())
            }
            DecodeError::Damaged(detail) => Error::corruption(file, offset, detail),
        }
    }
}

/// Decompresses `stored` into `out`, replacing its contents by exactly `raw_len` bytes.
///
/// Allocates at most `raw_len` bytes for `out`, and nothing if `out` has the capacity. The caller must have
/// bounded `raw_len`, since a damaged header can state any. After an error `out` is empty.
///
/// # Errors
/// [`DecodeError::Unsupported`] for an id that this build does not know, [`DecodeError::Damaged`] for
/// everything else, also for a raw length beyond the available memory.
pub fn decompress(codec_id: u8, stored: &[u8], raw_len: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    // Refused before anything is allocated for it.
    supported(codec_id)?;
    if large_buffer::try_reserve(out, raw_len.saturating_sub(out.len())).is_err() {
        out.clear();
        return Err(DecodeError::Damaged(format!("no memory for a block of {raw_len} bytes")));
    }
    // Old contents stay as memory; only growth has to be zeroed.
    out.resize(raw_len, 0);
    let outcome = decompress_into(codec_id, stored, out);
    if outcome.is_err() {
        out.clear();
    }
    outcome
}

/// Decompresses `stored` into a buffer whose length is the raw length. After an error its contents are
/// undefined.
///
/// # Errors
/// As [`decompress`].
pub fn decompress_into(codec_id: u8, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    decompress_with(codec_id, None, stored, out)
}

/// As [`decompress_into`], with the dictionary of the block's table, if there is one.
///
/// # Errors
/// As [`decompress`]; a block that needs a dictionary is [`DecodeError::Damaged`] without the one it was
/// written with.
pub fn decompress_with(
    codec_id: u8,
    dictionary: Option<&DictionaryDecoder>,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), DecodeError> {
    supported(codec_id)?;
    let written = match codec_id {
        id::LZ4 => lz4::decompress(stored, out)?,
        id::SNAPPY => snappy::decompress(stored, out)?,
        id::ZSTD => zstd::decompress(stored, out)?,
        id::LZMA => lzma::decompress(stored, out)?,
        id::ZSTD_DICTIONARY => match dictionary {
            Some(dictionary) => zstd::decompress_with(dictionary, stored, out)?,
            None => return Err(DecodeError::Damaged("the dictionary of a block is not there".to_owned())),
        },
        id::BIT_PACKING | id::DELTA | id::DICTIONARY => {
            columns::decompress(stored, out)?;
            out.len()
        }
        _ => {
            if stored.len() == out.len() {
                out.copy_from_slice(stored);
            }
            stored.len()
        }
    };
    if written == out.len() {
        return Ok(());
    }
    Err(DecodeError::Damaged(format!("a block of {} bytes expected, {written} found", out.len())))
}

fn supported(codec_id: u8) -> Result<(), DecodeError> {
    match (id::name(codec_id), id::missing_feature(codec_id)) {
        (Some(_), None) => Ok(()),
        (Some(_), Some(_)) => Err(DecodeError::missing(codec_id)),
        (None, _) => Err(DecodeError::Unsupported(format!("a block is compressed with codec {codec_id}"))),
    }
}

#[cfg(any(feature = "lz4", feature = "snappy", feature = "zstd", feature = "lzma"))]
pub(crate) fn damaged(codec: &str, error: &dyn std::fmt::Display) -> DecodeError {
    DecodeError::Damaged(format!("{codec} cannot decode a block: {error}"))
}
