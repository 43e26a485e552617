//! Compression of a block, and the check that it is worth it.
//!
//! # Reused state
//! LZ4 needs a hash table of 8 KiB, or of 16 KiB for blocks of more than 64 KiB, its thorough encoder up to
//! 450 KiB; Snappy one of 32 KiB; Zstandard a context, 70 to 270 KiB for blocks of 4 KiB, 0.3 to 1.8 MiB for
//! blocks of 64 KiB (levels 1 to 22, measured). They are kept per thread: compaction compresses millions of
//! blocks on few threads, and creating a context costs more than a 4 KiB block. Each is cleared, or chosen by
//! the length of the block alone, so that the bytes do not depend on earlier blocks of the thread. A context
//! sized for a giant (a value may have 512 MiB, for which high levels take hundreds of MiB) is not kept: see
//! [`LARGEST_REUSED_INPUT`].

use crate::adaptive::History;
use crate::columns::{self, Codings, Rows};
use crate::dictionary::DictionaryEncoder;
use crate::kind::{Codec, id};
use crate::{adaptive, lz4, lzma, snappy, zstd};
use esker_base::large_buffer;

/// A block is kept compressed only if that saves at least one part in this many, here 1/8.
///
/// Decoding a 4 KiB block of LZ4 costs about 1.1 us. That is what a device of 500 MB/s (a common cloud
/// volume) takes for 512 bytes, 1/8 of the block: saving less would cost time on every miss, even from the
/// device, and more so from the page cache.
pub const MIN_SAVED_FRACTION: usize = 8;

/// Blocks longer than this get a Zstandard context of their own: at 1 MiB and level 22 a context has 18 MiB,
/// which is the most a thread keeps.
pub const LARGEST_REUSED_INPUT: usize = 1 << 20;

/// The stored form of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// The id to store beside the bytes; [`id::NONE`] if `bytes` is the raw block.
    pub codec_id: u8,
    /// The bytes to store: borrowed from the raw block or from the scratch buffer.
    pub bytes: &'a [u8],
}

/// The longest compressed form of `raw_len` bytes that is kept.
pub(crate) fn longest_useful(raw_len: usize) -> usize {
    raw_len - raw_len.div_ceil(MIN_SAVED_FRACTION)
}

impl Codec {
    /// Compresses `raw`, or returns it unchanged if that would not save enough.
    ///
    /// `scratch` is memory reused from block to block: it grows to the codec's bound (17 % above the longest
    /// block), and its contents are meaningful through the result only.
    pub fn compress<'a>(&self, raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Compressed<'a> {
        self.compress_with(raw, &[], None, &mut History::default(), scratch)
    }

    /// As [`Codec::compress`], with the caller's knowledge of the block: where rows of equal length lie,
    /// which the codecs of integers must guess otherwise (rows outside of the block are ignored; they affect
    /// the size only); the dictionary for [`Codec::ZstdDictionary`], which the reader will need; and the
    /// history of [`Codec::Adaptive`], which saves trials ([`adaptive`]).
    pub fn compress_with<'a>(
        &self,
        raw: &'a [u8],
        rows: &[Rows],
        dictionary: Option<&DictionaryEncoder>,
        history: &mut History,
        scratch: &'a mut Vec<u8>,
    ) -> Compressed<'a> {
        let limit = longest_useful(raw.len());
        let stored = match *self {
            Codec::None => None,
            Codec::Lz4 => Some((id::LZ4, lz4::fast::compress(raw, scratch))),
            Codec::Lz4Hc { level } => lz4::high::compress(level, raw, scratch).map(|len| (id::LZ4, len)),
            Codec::Snappy => snappy::compress(raw, scratch).map(|len| (id::SNAPPY, len)),
            Codec::Zstd { level } => {
                zstd::compress(level, raw, grown(scratch, limit)).map(|len| (id::ZSTD, len))
            }
            Codec::ZstdDictionary { level } => match dictionary {
                Some(dictionary) => zstd::compress_with(dictionary, raw, grown(scratch, limit))
                    .map(|len| (id::ZSTD_DICTIONARY, len)),
                None => zstd::compress(level, raw, grown(scratch, limit)).map(|len| (id::ZSTD, len)),
            },
            Codec::Lzma { level } => {
                lzma::compress(level, raw, grown(scratch, limit)).map(|len| (id::LZMA, len))
            }
            Codec::BitPacking => integers(id::BIT_PACKING, Codings::PACKED, raw, rows, scratch),
            Codec::Delta => integers(id::DELTA, Codings::DELTA, raw, rows, scratch),
            Codec::Dictionary => integers(id::DICTIONARY, Codings::DICTIONARY, raw, rows, scratch),
            Codec::Adaptive(options) => adaptive::compress(&options, raw, rows, history, scratch),
        };
        match stored {
            Some((codec_id, len)) if len <= limit => Compressed { codec_id, bytes: &scratch[..len] },
            _ => Compressed { codec_id: id::NONE, bytes: raw },
        }
    }
}

fn integers(id: u8, codings: Codings, raw: &[u8], rows: &[Rows], out: &mut Vec<u8>) -> Option<(u8, usize)> {
    columns::compress(codings, raw, rows, longest_useful(raw.len()), out).map(|len| (id, len))
}

/// The first `len` bytes of `buffer`, which grows but never shrinks.
pub(crate) fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        large_buffer::resize(buffer, len);
    }
    &mut buffer[..len]
}
