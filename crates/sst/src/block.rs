//! Blocks: a few dozen entries each, the unit of reading, compression and caching.
//!
//! [`header`] is the frame of every block; [`flat`] and [`delta`] are the two layouts, each with an encoder;
//! [`staged`] collects entries to be written; [`cursor`] walks.
//!
//! [`BlockBytes`] are validated bytes, which the layouts search without bounds checks. The safety arguments
//! of [`flat`] and [`delta`] rest on two facts that this file establishes for all of them: the payload passed
//! its layout's validation, and at least [`SLACK_BYTES`] readable bytes follow it. A [`Block`] owns such
//! bytes, for the cache; a compaction reads them in place.

pub(crate) mod cursor;
pub(crate) mod delta;
pub(crate) mod delta_encode;
pub(crate) mod flat;
pub(crate) mod flat_encode;
pub(crate) mod header;
pub(crate) mod raw;
pub(crate) mod shared;
pub(crate) mod staged;
pub(crate) mod tags;
#[cfg(test)]
mod tests;

use crate::decode_error::{DecodeError, damaged};
use crate::simd::{Kernel, LANE_BYTES};
use delta::Delta;
use esker_base::{Tag, large_buffer};
use esker_codec::{Codec, DictionaryEncoder, id};
use flat::Flat;
pub use header::{BlockHeader, BlockLayout};
use header::{HEADER_BYTES, TRAILER_BYTES};
pub(crate) use shared::BlockBuffer;
pub use shared::{Block, BlockRef};
use std::ops::Range;

/// Bytes behind the payload of a block in memory, so that vectors can be loaded from any position in it.
pub(crate) const SLACK_BYTES: usize = LANE_BYTES;

/// A validated block in memory: header, decompressed payload, [`SLACK_BYTES`] of anything.
#[repr(transparent)]
pub(crate) struct BlockBytes([u8]);

/// A found entry: its tag, and where its value lies in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) tag: Tag,
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl FoundEntry {
    #[inline(always)]
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LayoutView {
    Flat(Flat),
    Delta(Delta),
}

impl BlockBytes {
    /// Bytes that a block with a payload of `raw_len` bytes needs in memory.
    pub(crate) fn memory_len(raw_len: usize) -> usize {
        HEADER_BYTES + raw_len + SLACK_BYTES
    }

    /// Validates `bytes`: the header of a block, its decompressed payload and at least [`SLACK_BYTES`] of
    /// anything. The checksum has been verified before.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<&BlockBytes, DecodeError> {
        check(bytes)?;
        // SAFETY: `BlockBytes` is a transparent wrapper of `[u8]`, and the bytes were just validated.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const BlockBytes) })
    }

    /// The block in bytes that [`BlockBytes::from_bytes`] accepted before.
    ///
    /// # Safety
    /// They must have been validated, and not have changed since.
    #[inline(always)]
    pub(crate) unsafe fn validated(bytes: &[u8]) -> &BlockBytes {
        // SAFETY: `BlockBytes` is a transparent wrapper of `[u8]`, and the caller has had the bytes
        // validated.
        unsafe { &*(std::ptr::from_ref(bytes) as *const BlockBytes) }
    }

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

    /// Bytes of the block, by a range from [`FoundEntry`] or a cursor.
    #[inline(always)]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> LayoutView {
        let header = self.header();
        match header.layout {
            BlockLayout::Flat => LayoutView::Flat(Flat::new(&header, &self.0[HEADER_BYTES..])),
            BlockLayout::Delta => LayoutView::Delta(Delta::new(&header, &self.0[HEADER_BYTES..])),
        }
    }

    /// The newest version of `key` whose tag is at most `newest`.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn find<K: Kernel>(&self, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
        // SAFETY: the block is alive, being borrowed, and validated; the caller has the instructions.
        unsafe {
            match self.view() {
                LayoutView::Flat(flat) => flat.find::<K>(key, hash, newest),
                LayoutView::Delta(delta) => delta.find(key, hash, newest),
            }
        }
    }

    /// Prefetches what a search reads after the directory, which should have been prefetched.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_found<K: Kernel>(&self, hash: u64) {
        // SAFETY: as in `find`.
        unsafe {
            match self.view() {
                LayoutView::Flat(flat) => flat.prefetch_found::<K>(hash),
                LayoutView::Delta(delta) => delta.prefetch_found(hash),
            }
        }
    }

    /// Prefetches what a search reads before the entries, if it lies outside the first lines.
    #[inline(always)]
    pub(crate) fn prefetch_directory(&self, hash: u64) {
        if let LayoutView::Delta(delta) = self.view() {
            // SAFETY: the block is alive and validated.
            unsafe { delta.prefetch_directory(hash) };
        }
    }
}

fn check(bytes: &[u8]) -> Result<BlockHeader, DecodeError> {
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
        BlockLayout::Flat => Flat::validate(&header, payload)?,
        BlockLayout::Delta => Delta::validate(&header, payload)?,
    }
    Ok(header)
}

/// What the encoding of a block with few entries adds to their keys and values, generously. Only where that
/// is much does it matter that the buffer grows once ([`large_buffer`]).
const ENCODING_BYTES: usize = 1024;

/// Appends the file image of the staged entries, at least one, without checksum: header and stored bytes.
///
/// A large value is in memory twice at most while this runs: the payload of a compressed block is freed
/// before the compressed bytes are appended, unless [`Scratch::keeps_payload`] asks for it.
pub(crate) fn append_image(
    staged: &mut staged::Staged,
    layout: BlockLayout,
    number: u32,
    compression: &Compression<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> BlockHeader {
    if compression.codec != Codec::None {
        let mut raw = std::mem::take(&mut scratch.raw);
        raw.clear();
        large_buffer::reserve(&mut raw, staged.bytes().len() + ENCODING_BYTES);
        let header = append_payload(staged, layout, number, &mut raw);
        let header = compress(header, &raw, compression, scratch);
        if header.codec_id == id::NONE {
            append_parts(&header, &raw, out);
        } else {
            // By its room, not by its length: a buffer grows by halves at least.
            if !scratch.keeps_payload {
                large_buffer::free_if_large(&mut raw);
            }
            append_parts(&header, &scratch.compressed[..header.stored_len as usize], out);
        }
        scratch.raw = raw;
        return header;
    }
    large_buffer::reserve(out, HEADER_BYTES + staged.bytes().len() + ENCODING_BYTES);
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let header = append_payload(staged, layout, number, out);
    out[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.encode());
    out.reserve(TRAILER_BYTES);
    header
}

/// Appends the payload of the staged entries, at least one; returns the header of the uncompressed block.
pub(crate) fn append_payload(
    staged: &mut staged::Staged,
    layout: BlockLayout,
    number: u32,
    out: &mut Vec<u8>,
) -> BlockHeader {
    let entries = staged.entries().len() as u32;
    let start = out.len();
    let flags = staged.encode(out);
    let raw_len = (out.len() - start) as u32;
    BlockHeader { layout, codec_id: id::NONE, flags, raw_len, stored_len: raw_len, entries, number }
}

/// As [`append_image`], for a payload with the header of the uncompressed block.
pub(crate) fn append_stored(
    header: BlockHeader,
    payload: &[u8],
    compression: &Compression<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> BlockHeader {
    let header = compress(header, payload, compression, scratch);
    let is_raw = header.codec_id == id::NONE;
    let stored = if is_raw { payload } else { &scratch.compressed[..header.stored_len as usize] };
    append_parts(&header, stored, out);
    header
}

/// Compresses the payload into the scratch buffer if that saves enough; the header says whether it did.
fn compress(
    mut header: BlockHeader,
    payload: &[u8],
    compression: &Compression<'_>,
    scratch: &mut Scratch,
) -> BlockHeader {
    let codec = compression.codec;
    let known = match header.layout {
        BlockLayout::Flat if codec.uses_rows() => Some(flat_encode::rows(&header, payload)),
        _ => None,
    };
    let rows = known.as_ref().map_or(&[][..], |(rows, count)| &rows[..*count]);
    let compressed = codec.compress_with(
        payload,
        rows,
        compression.dictionary,
        &mut scratch.history,
        &mut scratch.compressed,
    );
    header.codec_id = compressed.codec_id;
    header.stored_len = compressed.bytes.len() as u32;
    header
}

fn append_parts(header: &BlockHeader, stored: &[u8], out: &mut Vec<u8>) {
    large_buffer::reserve(out, HEADER_BYTES + stored.len() + TRAILER_BYTES);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(stored);
    out.reserve(TRAILER_BYTES);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Compression<'a> {
    pub(crate) codec: Codec,
    pub(crate) dictionary: Option<&'a DictionaryEncoder>,
}

/// Buffers and statistics that are reused from block to block of a table.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    raw: Vec<u8>,
    /// Whether the next payload is wanted behind [`append_image`], by [`Scratch::raw`].
    pub(crate) keeps_payload: bool,
    compressed: Vec<u8>,
    /// For the adaptive choice of codecs: the table's own, so that its bytes do not depend on other tables.
    history: esker_codec::History,
}

impl Scratch {
    /// The payload of the block that was compressed last, if it was to be kept.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Frees what a giant value made the buffers grow to.
    pub(crate) fn free_if_large(&mut self) {
        large_buffer::free_if_large(&mut self.raw);
        large_buffer::free_if_large(&mut self.compressed);
    }

    pub(crate) fn compressed(&mut self) -> &mut Vec<u8> {
        &mut self.compressed
    }
}
