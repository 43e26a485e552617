//! Blocks: a few dozen entries, the unit of reading, compression and caching.
//!
//! [`header`] is the frame around every block; [`flat`] and [`delta`] are the two ways to arrange the entries, each
//! with an encoder beside it; [`staged`] collects the entries of the block being written; [`cursor`] walks.
//!
//! [`BlockBytes`] are bytes that were validated. Their layout's search code then reads without bounds checks; the
//! argument why that is sound is written at the head of [`flat`] and [`delta`]. It rests on two facts that this
//! file establishes for all `BlockBytes`: the payload passed its layout's validation, and at least [`SLACK_BYTES`]
//! readable bytes follow it. A [`Block`] owns such bytes, for the cache; a compaction reads them in place.

pub(crate) mod cursor;
pub(crate) mod delta;
pub(crate) mod delta_encode;
pub(crate) mod flat;
pub(crate) mod flat_encode;
pub(crate) mod header;
pub(crate) mod raw;
pub(crate) mod staged;
pub(crate) mod tags;
#[cfg(test)]
mod tests;

use crate::flaw::{Flaw, damaged};
use crate::isa::{Kernel, LANE_BYTES, prefetch};
use delta::Delta;
use esker_base::Tag;
use esker_cache::Charge;
use flat::Flat;
pub use header::{BlockHeader, BlockLayout};
use header::{HEADER_BYTES, TRAILER_BYTES};
use std::ops::Range;
use std::sync::Arc;

/// Bytes behind the payload of a block in memory, so that vectors can be loaded from any position in it.
pub(crate) const SLACK_BYTES: usize = LANE_BYTES;

/// A validated block in memory: header, decompressed payload, [`SLACK_BYTES`] of anything.
#[repr(transparent)]
pub(crate) struct BlockBytes([u8]);

/// A block in memory of its own, behind an `Arc`: what the cache holds.
///
/// The reference count and the bytes are one allocation, so a lookup that has found the pointer in the cache touches no
/// memory between it and the block's directory. Block sizes vary, so the directories of blocks do not all fall into
/// the same sets of the first-level cache, as they would at strides of 4096 bytes.
#[repr(transparent)]
pub struct Block {
    bytes: BlockBytes,
}

/// An entry found: its tag, and where its value lies in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) tag: Tag,
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Found {
    #[inline(always)]
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// The view that fits a block's layout.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View {
    Flat(Flat),
    Delta(Delta),
}

impl Block {
    /// Validates `bytes`, which start with the header of a block and its decompressed payload. The checksum has been
    /// verified before. What follows the payload may be anything, but [`SLACK_BYTES`] of it must be there.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Arc<Block>, Flaw> {
        check(&bytes)?;
        let bytes: Arc<[u8]> = Arc::from(bytes);
        // SAFETY: `Block` is a transparent wrapper of `[u8]`, and the bytes were just validated.
        Ok(unsafe { Arc::from_raw(Arc::into_raw(bytes) as *const Block) })
    }

    /// What the block says of itself.
    pub fn header(&self) -> BlockHeader {
        self.bytes.header()
    }

    /// Its contents.
    #[inline(always)]
    pub(crate) fn contents(&self) -> &BlockBytes {
        &self.bytes
    }

    /// Bytes of memory that the block takes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self)
    }
}

impl Charge for Block {
    fn charge_bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl BlockBytes {
    /// Bytes that a block with a payload of `raw_len` bytes needs in memory.
    pub(crate) fn memory_len(raw_len: usize) -> usize {
        HEADER_BYTES + raw_len + SLACK_BYTES
    }

    /// As [`Block::new`], for bytes that stay where they are.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<&BlockBytes, Flaw> {
        check(bytes)?;
        // SAFETY: `BlockBytes` is a transparent wrapper of `[u8]`, and the bytes were just validated.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const BlockBytes) })
    }

    /// What the block says of itself.
    #[inline(always)]
    pub(crate) fn header(&self) -> BlockHeader {
        let bytes: &[u8; HEADER_BYTES] = self.0.first_chunk().expect("a block has a header");
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        BlockHeader {
            layout: if bytes[5] == BlockLayout::Flat.number() {
                BlockLayout::Flat
            } else {
                BlockLayout::Delta
            },
            codec_id: bytes[6],
            flags: bytes[7],
            raw_len: word(8),
            stored_len: word(12),
            entries: word(16),
            number: word(20),
        }
    }

    /// Bytes of the block, by a range that [`Found`] or a cursor gave.
    #[inline(always)]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View {
        let header = self.header();
        match header.layout {
            BlockLayout::Flat => View::Flat(Flat::new(&header, &self.0[HEADER_BYTES..])),
            BlockLayout::Delta => View::Delta(Delta::new(&header, &self.0[HEADER_BYTES..])),
        }
    }

    /// The newest version of `key` whose tag is at most `newest`.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn find<K: Kernel>(&self, key: &[u8], hash: u64, newest: Tag) -> Option<Found> {
        // SAFETY: the block is alive, being borrowed, and validated; the caller has the instructions.
        unsafe {
            match self.view() {
                View::Flat(flat) => flat.find::<K>(key, hash, newest),
                View::Delta(delta) => delta.find(key, hash, newest),
            }
        }
    }

    /// Prefetches the lines that hold the block's directory, without touching the block.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        // The directory of a flat block of 4 KiB ends in the fourth line.
        for line in 0..4 {
            prefetch(self.0.as_ptr().wrapping_add(64 * line));
        }
    }

    /// Prefetches what a search looks at after the directory, which should have been prefetched.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_found<K: Kernel>(&self, hash: u64) {
        // SAFETY: as in `find`.
        unsafe {
            match self.view() {
                View::Flat(flat) => flat.prefetch_found::<K>(hash),
                View::Delta(delta) => delta.prefetch_found(hash),
            }
        }
    }

    /// Prefetches what lies elsewhere than the first lines but is looked at before the entries.
    #[inline(always)]
    pub(crate) fn prefetch_directory(&self, hash: u64) {
        if let View::Delta(delta) = self.view() {
            // SAFETY: the block is alive and validated.
            unsafe { delta.prefetch_directory(hash) };
        }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Block").field(&self.header()).finish()
    }
}

/// Validates header and payload.
fn check(bytes: &[u8]) -> Result<(), Flaw> {
    let Some(front) = bytes.first_chunk::<HEADER_BYTES>() else {
        return damaged(format!("a block of {} bytes has no header", bytes.len()));
    };
    let header = BlockHeader::decode(front)?;
    let raw_len = header.raw_len as usize;
    let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + raw_len);
    let (Some(payload), true) = (payload, bytes.len() >= BlockBytes::memory_len(raw_len)) else {
        return damaged(format!("a block of {raw_len} bytes does not fit {} bytes", bytes.len()));
    };
    match header.layout {
        BlockLayout::Flat => Flat::validate(&header, payload),
        BlockLayout::Delta => Delta::validate(&header, payload),
    }
}

/// The file image of the block made of the staged entries, which must not be empty, without its checksum: header and
/// stored bytes, appended to `out`.
pub(crate) fn append_image(
    staged: &mut staged::Staged,
    layout: BlockLayout,
    number: u32,
    codec: esker_codec::Codec,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> BlockHeader {
    let entries = staged.entries().len() as u32;
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let mut header = BlockHeader {
        layout,
        codec_id: esker_codec::id::NONE,
        flags: 0,
        raw_len: 0,
        stored_len: 0,
        entries,
        number,
    };
    if codec == esker_codec::Codec::None {
        header.flags = staged.encode(out);
        header.raw_len = (out.len() - header_at - HEADER_BYTES) as u32;
        header.stored_len = header.raw_len;
    } else {
        scratch.raw.clear();
        header.flags = staged.encode(&mut scratch.raw);
        let compressed = codec.compress(&scratch.raw, &mut scratch.compressed);
        header.codec_id = compressed.codec_id;
        header.raw_len = scratch.raw.len() as u32;
        header.stored_len = compressed.bytes.len() as u32;
        out.extend_from_slice(compressed.bytes);
    }
    out[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.encode());
    out.reserve(TRAILER_BYTES);
    header
}

/// Buffers recycled from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    raw: Vec<u8>,
    compressed: Vec<u8>,
}
