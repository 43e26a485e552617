//! LZMA2 without a container, by liblzma (the library of XZ Utils).
//!
//! The reader knows the raw length, and from it the window of both sides, so no header is stored and hostile
//! bytes cannot request memory. A decoder has a window of the raw length, rounded up to 4 KiB, and about 30
//! KiB of state; liblzma's own limit guards formats that state their window, which this one does not.
//!
//! An encoder takes some hundred KiB for a block of 4 KiB and is created for each block: negligible beside
//! the compression.

use crate::decompress::{DecodeError, damaged};
use crate::kind::Codec;
use liblzma::stream::{Action, Filters, LzmaOptions, Status, Stream};

const MIN_WINDOW_BYTES: usize = 4096;

/// Greatest window, level 9's and the decoders' limit; longer blocks find no match further back.
const MAX_WINDOW_BYTES: usize = 64 << 20;

/// Both sides choose the window by the raw length alone: the level is not stored.
fn filters(level: u8, raw_len: usize) -> Option<Filters> {
    let mut options = LzmaOptions::new_preset(u32::from(level.min(Codec::MAX_LZMA_LEVEL))).ok()?;
    options.dict_size(window_bytes(raw_len) as u32);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    Some(filters)
}

fn window_bytes(raw_len: usize) -> usize {
    raw_len.clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES)
}

/// The block in `out`; `None` if it does not fit.
pub(crate) fn compress(level: u8, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut stream = Stream::new_raw_encoder(&filters(level, raw.len())?).ok()?;
    match stream.process(raw, out, Action::Finish) {
        Ok(Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
        // The buffer is full, or memory is exhausted.
        _ => None,
    }
}

pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    let refused = |what: &str| DecodeError::Damaged(format!("lzma cannot decode a block: {what}"));
    let filters = filters(0, out.len()).ok_or_else(|| refused("no memory"))?;
    let mut stream = Stream::new_raw_decoder(&filters).map_err(|error| damaged("lzma", &error))?;
    let status = stream.process(stored, out, Action::Finish).map_err(|error| damaged("lzma", &error))?;
    if status != Status::StreamEnd {
        return Err(refused("it ends too early, or is longer than stated"));
    }
    if stream.total_in() != stored.len() as u64 {
        return Err(refused("something follows its end"));
    }
    // Not longer than `out`.
    Ok(stream.total_out() as usize)
}
