//! Compressing a block, and deciding that it is not worth it.
//!
//! # Reused state
//! LZ4 needs a hash table of 8 KiB, or of 16 KiB for blocks of 64 KiB and more; Zstandard needs a context, 70 to
//! 270 KiB for blocks of 4 KiB, 0.3 to 1.8 MiB for blocks of 64 KiB (levels 1 to 22, measured). Both are kept per thread: compaction compresses millions of
//! blocks on few threads, and making a context costs more than a 4 KiB block. LZ4's two tables hash differently,
//! so the table is chosen by the length of the block alone; otherwise the bytes would depend on what the thread
//! saw before.
//!
//! A context sized for a giant (a value may have 512 MiB, for which high levels take hundreds of MiB) is not kept: see
//! [`LARGEST_REUSED_INPUT`].

use crate::kind::{Codec, id};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::cell::RefCell;
use zstd::bulk::Compressor;

/// A block is kept compressed only if that saves at least one part in this many, here 1/8.
///
/// Decoding a 4 KiB block of LZ4 costs about 1.1 us. That is what a device of 500 MB/s (a common cloud volume)
/// takes for 512 bytes, 1/8 of the block: saving less would cost time on every miss, even from the device, and
/// more so from the page cache.
pub const MIN_SAVED_FRACTION: usize = 8;

/// Blocks longer than this get a Zstandard context of their own: at 1 MiB and level 22 a context has
/// 18 MiB, which is the most a thread keeps.
pub const LARGEST_REUSED_INPUT: usize = 1 << 20;

/// Length from which LZ4 needs the table with wide entries.
const LZ4_LARGE_TABLE_LEN: usize = u16::MAX as usize;

/// A block as it is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// The id to store beside the bytes; [`id::NONE`] if `bytes` is the raw block.
    pub codec_id: u8,
    /// The bytes to store: borrowed from the raw block or from the scratch buffer.
    pub bytes: &'a [u8],
}

impl Codec {
    /// Compresses `raw`, or gives it back untouched if that would not save enough.
    ///
    /// `scratch` is only memory to be reused from block to block: it grows to the codec's bound (10 % above the
    /// longest block) and its contents mean nothing but through the answer.
    pub fn compress<'a>(&self, raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Compressed<'a> {
        let stored_raw = Compressed { codec_id: id::NONE, bytes: raw };
        let longest_useful = raw.len() - raw.len().div_ceil(MIN_SAVED_FRACTION);
        let compressed_len = match *self {
            Codec::None => return stored_raw,
            Codec::Lz4 => lz4(raw, scratch),
            Codec::Zstd { level } => zstd(level, raw, grown(scratch, longest_useful)),
        };
        match compressed_len {
            Some(len) if len <= longest_useful => Compressed { codec_id: self.id(), bytes: &scratch[..len] },
            _ => stored_raw,
        }
    }
}

/// The first `len` bytes of `buffer`, which grows but never shrinks, so that growing costs nothing in the long run.
fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

/// LZ4's hash tables, each made on first use.
#[derive(Default)]
struct Lz4Tables {
    small: Option<CompressTable>,
    large: Option<CompressTable>,
}

thread_local! {
    static LZ4_TABLES: RefCell<Lz4Tables> = RefCell::default();
    static ZSTD_CONTEXT: RefCell<Option<ZstdContext>> = const { RefCell::new(None) };
}

fn lz4(raw: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
    // The encoder insists on room for its worst case, although anything above `longest_useful` is thrown away.
    let out = grown(scratch, get_maximum_output_size(raw.len()));
    LZ4_TABLES.with_borrow_mut(|tables| {
        let table = if raw.len() < LZ4_LARGE_TABLE_LEN {
            tables.small.get_or_insert_with(CompressTable::small)
        } else {
            tables.large.get_or_insert_with(CompressTable::large)
        };
        compress_into_with_table(raw, out, table).ok()
    })
}

struct ZstdContext {
    level: i32,
    compressor: Compressor<'static>,
}

impl ZstdContext {
    fn new(level: i32) -> Option<ZstdContext> {
        Some(ZstdContext { level, compressor: Compressor::new(level).ok()? })
    }

    /// `None` if `out` is too short, which is how a block that does not shrink enough shows.
    fn compress(&mut self, raw: &[u8], out: &mut [u8]) -> Option<usize> {
        self.compressor.compress_to_buffer(raw, out).ok()
    }
}

fn zstd(level: i32, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let level = level.clamp(Codec::MIN_ZSTD_LEVEL, Codec::MAX_ZSTD_LEVEL);
    if raw.len() > LARGEST_REUSED_INPUT {
        return ZstdContext::new(level)?.compress(raw, out);
    }
    ZSTD_CONTEXT.with_borrow_mut(|kept| {
        if kept.as_ref().is_none_or(|context| context.level != level) {
            // A lower level would keep the tables of a higher one, so the old context goes first.
            *kept = None;
            *kept = ZstdContext::new(level);
        }
        kept.as_mut()?.compress(raw, out)
    })
}
