//! Zstandard ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878)), by the reference library in C; with and
//! without a dictionary.
//!
//! Contexts are kept per thread ([`crate::compress`] states their sizes). Blocks with a dictionary have
//! contexts of their own, because a prepared dictionary brings its own level.

use crate::compress::LARGEST_REUSED_INPUT;
use crate::decompress::{DecodeError, damaged};
use crate::dictionary::{DictionaryDecoder, DictionaryEncoder};
use crate::kind::Codec;
use esker_base::with_thread_buffer;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CCtx, DCtx, get_error_name};
pub(crate) use zstd::zstd_safe::{CDict, DDict};

/// A dictionary of at most `most` bytes, trained from samples that lie one behind the other.
pub(crate) fn train(samples: &[u8], lengths: &[usize], most: usize) -> Option<Vec<u8>> {
    zstd::dict::from_continuous(samples, lengths, most).ok()
}

struct Context {
    level: i32,
    compressor: Compressor<'static>,
}

thread_local! {
    static ENCODER: RefCell<Option<Context>> = const { RefCell::new(None) };
    static DICTIONARY_ENCODER: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    // About 160 KiB a thread each, whatever the frame says: one-shot decoding needs no window of its own.
    static DECODER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    static DICTIONARY_DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

impl Context {
    fn new(level: i32) -> Option<Context> {
        Some(Context { level, compressor: Compressor::new(level).ok()? })
    }

    /// `None` if `out` is too short, which means that the block does not shrink enough.
    fn compress(&mut self, raw: &[u8], out: &mut [u8]) -> Option<usize> {
        self.compressor.compress_to_buffer(raw, out).ok()
    }
}

/// One frame of `raw` in `out`; `None` if it does not fit.
pub(crate) fn compress(level: i32, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let level = level.clamp(Codec::MIN_ZSTD_LEVEL, Codec::MAX_ZSTD_LEVEL);
    if raw.len() > LARGEST_REUSED_INPUT {
        return Context::new(level)?.compress(raw, out);
    }
    with_thread_buffer(&ENCODER, Option::default, |kept| {
        if kept.as_ref().is_none_or(|context| context.level != level) {
            // A lower level would keep the tables of a higher one, so the old context is dropped first.
            *kept = None;
            *kept = Context::new(level);
        }
        kept.as_mut()?.compress(raw, out)
    })
}

/// As [`compress`], with a dictionary, which knows its level.
pub(crate) fn compress_with(dictionary: &DictionaryEncoder, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let compress = |context: &mut CCtx<'static>, out: &mut [u8]| {
        context.compress_using_cdict(out, raw, dictionary.prepared()).ok()
    };
    if raw.len() > LARGEST_REUSED_INPUT {
        return compress(&mut CCtx::try_create()?, out);
    }
    with_thread_buffer(&DICTIONARY_ENCODER, Option::default, |kept| {
        if kept.is_none() {
            *kept = CCtx::try_create();
        }
        compress(kept.as_mut()?, out)
    })
}

pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    with_thread_buffer(&DECODER, Option::default, |kept| {
        if kept.is_none() {
            *kept = Some(Decompressor::new().map_err(|error| damaged("zstd", &error))?);
        }
        let context = kept.as_mut().expect("it was just made");
        context.decompress_to_buffer(stored, out).map_err(|error| damaged("zstd", &error))
    })
}

/// As [`decompress`], with the frame's dictionary, which it names: another one is refused.
pub(crate) fn decompress_with(
    dictionary: &DictionaryDecoder,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, DecodeError> {
    with_thread_buffer(&DICTIONARY_DECODER, Option::default, |kept| {
        if kept.is_none() {
            *kept = DCtx::try_create();
        }
        let Some(context) = kept else {
            return Err(DecodeError::Damaged("no memory for a context of zstd".to_owned()));
        };
        context
            .decompress_using_ddict(out, stored, dictionary.prepared())
            .map_err(|code| damaged("zstd", &get_error_name(code)))
    })
}
