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
use crate::home::TableHome;
use crate::isa::{Kernel, LANE_BYTES};
use delta::Delta;
use esker_base::Tag;
use esker_cache::Charge;
use esker_codec::{Codec, DictionaryEncoder, id};
use flat::Flat;
pub use header::{BlockHeader, BlockLayout};
use header::{HEADER_BYTES, TRAILER_BYTES};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Bytes behind the payload of a block in memory, so that vectors can be loaded from any position in it.
pub(crate) const SLACK_BYTES: usize = LANE_BYTES;

/// A validated block in memory: header, decompressed payload, [`SLACK_BYTES`] of anything.
#[repr(transparent)]
pub(crate) struct BlockBytes([u8]);

/// A block in memory of its own, behind an `Arc`: what the cache holds.
///
/// Reference count, housekeeping and bytes are one allocation, so a lookup that has found the block's address touches no
/// memory between it and the block's directory. Block sizes vary, so the directories of blocks do not all fall into
/// the same sets of the first-level cache, as they would at strides of 4096 bytes.
///
/// Invariant: `bytes` has [`BlockBytes::memory_len`] of the header's raw length, so that the address alone tells the
/// length (see [`Block::from_address`]).
#[repr(C)]
pub struct Block {
    /// The home of its table, which knows the slot that may point to it.
    home: Weak<TableHome>,
    /// Used by a lookup that the cache did not see.
    used: AtomicBool,
    /// In the cache.
    resident: AtomicBool,
    bytes: BlockBytes,
}

/// Where [`Block::bytes`] starts.
const BYTES_AT: usize = size_of::<Weak<TableHome>>() + 2;

/// Memory for a block, to be filled: what will be an `Arc<Block>` once it is validated.
pub(crate) struct BlockBuffer {
    /// [`BYTES_AT`] bytes for housekeeping, then `len` bytes, then nothing or padding.
    words: Arc<[u64]>,
    len: usize,
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

impl BlockBuffer {
    /// Memory for a block whose payload has `raw_len` bytes, zeroed.
    pub(crate) fn new(raw_len: usize) -> BlockBuffer {
        let len = BlockBytes::memory_len(raw_len);
        let words = Arc::new_zeroed_slice((BYTES_AT + len).div_ceil(size_of::<u64>()));
        // SAFETY: zero is a valid number.
        BlockBuffer { words: unsafe { words.assume_init() }, len }
    }

    /// The bytes to fill: header, payload and slack.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let words = Arc::get_mut(&mut self.words).expect("nobody else knows the buffer yet");
        // SAFETY: `new` made room for `len` bytes behind the housekeeping; numbers are bytes, all of them initialised.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>().add(BYTES_AT), self.len) }
    }

    /// The block, if its header and payload are valid and the header states the length that the buffer was made for.
    /// The checksum has been verified before.
    pub(crate) fn finish(mut self, home: Weak<TableHome>) -> Result<Arc<Block>, Flaw> {
        let (len, header) = (self.len, check(self.bytes_mut())?);
        if len != BlockBytes::memory_len(header.raw_len as usize) {
            return damaged(format!("a block of {} bytes does not fit its memory", header.raw_len));
        }
        let block = std::ptr::slice_from_raw_parts_mut(Arc::into_raw(self.words).cast_mut().cast::<u8>(), len)
            as *mut Block;
        // SAFETY: nobody else knows the buffer. `Block` has `BYTES_AT` bytes of housekeeping and `len` bytes, is aligned
        // like a word, and padded to whole words as the buffer is, so the allocation is what an `Arc<Block>` has; its
        // first fields are written here, and its bytes were validated.
        unsafe {
            (&raw mut (*block).home).write(home);
            (&raw mut (*block).used).write(AtomicBool::new(false));
            (&raw mut (*block).resident).write(AtomicBool::new(false));
            Ok(Arc::from_raw(block))
        }
    }
}

impl Block {
    /// The fat pointer of a block from its address.
    ///
    /// # Safety
    /// A block must be alive at `address`, whose provenance must be exposed.
    #[inline(always)]
    pub(crate) unsafe fn from_address(address: usize) -> *const Block {
        let base = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the block is alive, and its bytes start with a header.
        let raw_len = unsafe { raw::u32_at(base, BYTES_AT + header::RAW_LEN_AT) };
        std::ptr::slice_from_raw_parts(base, BlockBytes::memory_len(raw_len as usize)) as *const Block
    }

    /// Whether it is in the cache.
    #[inline]
    pub(crate) fn is_resident(&self) -> bool {
        self.resident.load(Ordering::Relaxed)
    }

    /// Notes that a lookup used it by its slot.
    #[inline(always)]
    pub(crate) fn note_use(&self) {
        // Stored only if it changes, so that a hot block's line is not written to more than needed.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
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

    fn entered(&self) {
        self.resident.store(true, Ordering::Relaxed);
    }

    fn left(&self) {
        self.resident.store(false, Ordering::Relaxed);
        if let Some(home) = self.home.upgrade() {
            home.empty_slot(self.header().number as usize, std::ptr::from_ref(self).addr());
        }
    }

    fn take_use(&self) -> bool {
        self.used.load(Ordering::Relaxed) && self.used.swap(false, Ordering::Relaxed)
    }
}

impl BlockBytes {
    /// Bytes that a block with a payload of `raw_len` bytes needs in memory.
    pub(crate) fn memory_len(raw_len: usize) -> usize {
        HEADER_BYTES + raw_len + SLACK_BYTES
    }

    /// Validates `bytes`, which start with the header of a block and its decompressed payload. The checksum has been
    /// verified before. What follows the payload may be anything, but [`SLACK_BYTES`] of it must be there.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<&BlockBytes, Flaw> {
        check(bytes)?;
        // SAFETY: `BlockBytes` is a transparent wrapper of `[u8]`, and the bytes were just validated.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const BlockBytes) })
    }

    /// Bytes that [`BlockBytes::from_bytes`] took before.
    ///
    /// # Safety
    /// They must have been validated, and not have changed since.
    #[inline(always)]
    pub(crate) unsafe fn validated(bytes: &[u8]) -> &BlockBytes {
        // SAFETY: as in `from_bytes`; the caller has had them validated.
        unsafe { &*(std::ptr::from_ref(bytes) as *const BlockBytes) }
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
fn check(bytes: &[u8]) -> Result<BlockHeader, Flaw> {
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

/// The file image of the block made of the staged entries, which must not be empty, without its checksum: header and
/// stored bytes, appended to `out`.
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
        let header = append_payload(staged, layout, number, &mut raw);
        let header = append_stored(header, &raw, compression, scratch, out);
        scratch.raw = raw;
        return header;
    }
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let header = append_payload(staged, layout, number, out);
    out[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.encode());
    out.reserve(TRAILER_BYTES);
    header
}

/// The payload of the staged entries, which must not be empty, appended to `out`; and the header that it has uncompressed.
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

/// As [`append_image`], for a payload with the header that it has uncompressed.
pub(crate) fn append_stored(
    mut header: BlockHeader,
    payload: &[u8],
    compression: &Compression<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
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
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(compressed.bytes);
    out.reserve(TRAILER_BYTES);
    header
}

/// How blocks are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compression<'a> {
    pub(crate) codec: Codec,
    pub(crate) dictionary: Option<&'a DictionaryEncoder>,
}

/// Buffers recycled from block to block of a table, and what is remembered of them.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    raw: Vec<u8>,
    compressed: Vec<u8>,
    /// For the adaptive choice of codecs: a table's own, so that its bytes do not depend on other tables.
    history: esker_codec::History,
}

impl Scratch {
    /// Memory to compress into.
    pub(crate) fn compressed(&mut self) -> &mut Vec<u8> {
        &mut self.compressed
    }
}
