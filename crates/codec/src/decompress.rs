//! Getting a block back, from bytes that may be damaged or hostile.

use crate::kind::id;
use esker_base::Error;
use std::cell::RefCell;
use std::path::Path;
use zstd::bulk::Decompressor;

/// Why a block could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The id means nothing to this build: the file comes from a newer version.
    #[error("{0}")]
    Unsupported(String),
    /// The bytes are not what the codec wrote, or not of the stated length.
    #[error("{0}")]
    Damaged(String),
}

impl DecodeError {
    /// The error for the caller of the library, naming the file and the offset of the block.
    pub fn into_error(self, file: &Path, offset: u64) -> Error {
        match self {
            DecodeError::Unsupported(detail) => {
                Error::Unsupported(format!("{} at byte {offset}: {detail}", file.display()).into())
            }
            DecodeError::Damaged(detail) => Error::corruption(file, offset, detail),
        }
    }
}

thread_local! {
    // About 160 KiB a thread, whatever the frame says: one-shot decoding needs no window of its own.
    static ZSTD_CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses `stored` into `out`, replacing its contents by exactly `raw_len` bytes.
///
/// Allocates at most `raw_len` bytes and nothing if `out` has the capacity. The caller must have bounded `raw_len`,
/// since damaged headers state anything. After an error `out` is empty.
///
/// # Errors
/// [`DecodeError::Unsupported`] for an id that this build does not know, [`DecodeError::Damaged`] for everything
/// else, also for a raw length that memory does not suffice for.
pub fn decompress(codec_id: u8, stored: &[u8], raw_len: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    // Refused before anything is allocated for it.
    supported(codec_id)?;
    if out.try_reserve_exact(raw_len.saturating_sub(out.len())).is_err() {
        out.clear();
        return Err(DecodeError::Damaged(format!("no memory for a block of {raw_len} bytes")));
    }
    // What `out` held stays in place as mere memory; only growth has to be zeroed.
    out.resize(raw_len, 0);
    let outcome = decompress_into(codec_id, stored, out);
    if outcome.is_err() {
        out.clear();
    }
    outcome
}

/// Decompresses `stored` into a buffer whose length is the raw length. After an error its contents mean nothing.
///
/// # Errors
/// As [`decompress`].
pub fn decompress_into(codec_id: u8, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    supported(codec_id)?;
    let written = match codec_id {
        id::LZ4 => lz4_flex::block::decompress_into(stored, out).map_err(|error| damaged("lz4", &error))?,
        id::ZSTD => zstd(stored, out)?,
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
    match codec_id {
        id::NONE | id::LZ4 | id::ZSTD => Ok(()),
        _ => Err(DecodeError::Unsupported(match id::name(codec_id) {
            Some(name) => format!("a block is compressed with {name} (codec {codec_id})"),
            None => format!("a block is compressed with codec {codec_id}"),
        })),
    }
}

fn damaged(codec: &str, error: &dyn std::fmt::Display) -> DecodeError {
    DecodeError::Damaged(format!("{codec} cannot decode a block: {error}"))
}

fn zstd(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    ZSTD_CONTEXT.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Some(Decompressor::new().map_err(|error| damaged("zstd", &error))?);
        }
        let context = kept.as_mut().expect("it was just made");
        context.decompress_to_buffer(stored, out).map_err(|error| damaged("zstd", &error))
    })
}
