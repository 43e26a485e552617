//! Block frame: the header before every block and the checksum after it.
//!
//! A block describes itself, so that a repair can find the blocks of a table whose index is lost. The
//! checksum covers header and stored bytes and is bound to the table and to the offset: a block that was
//! swapped, moved or left over from another file does not verify (BS6).

use crate::decode_error::{DecodeError, damaged, unsupported};
use crate::simd::block_hash;
use esker_base::TableUid;
use esker_base::checksum::xxh3_64;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::planted;

pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"EsBk";
/// The format of blocks that this build writes, and the newest that it reads.
pub(crate) const BLOCK_VERSION: u8 = 1;
/// Bytes in front of the stored bytes.
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const CODEC_AT: usize = 6;
pub(crate) const FLAGS_AT: usize = 7;
pub(crate) const RAW_LEN_AT: usize = 8;
/// Bytes behind the stored bytes: the checksum.
pub(crate) const TRAILER_BYTES: usize = 8;
pub(crate) const FRAME_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;

/// Largest block before compression: one entry of the greatest key and value, with room for its directory.
pub(crate) const MAX_RAW_BYTES: usize = MAX_VALUE_LEN + MAX_KEY_LEN + 1024;

/// Flag of both layouts: offsets have four bytes instead of two.
pub(crate) const FLAG_WIDE_OFFSETS: u8 = 1;
/// Flag of the flat layout: all suffixes have the length that the payload's header states.
pub(crate) const FLAG_FIXED_SUFFIX: u8 = 2;
/// Flag of the flat layout: all entries have the length in the payload's header; there are no offsets.
pub(crate) const FLAG_EQUAL_ENTRIES: u8 = 4;

/// Flag of both layouts: the entries are an index of blocks or pages, not the table's entries.
pub(crate) const FLAG_INDEX_PAGE: u8 = 0x80;

/// Arrangement of a block's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockLayout {
    /// Common prefix once, a directory, then the entries: the fastest to read.
    #[default]
    Flat,
    /// Each key as its difference from the one before, with restart points: the smallest.
    Delta,
}

impl BlockLayout {
    /// Its stored number.
    pub const fn number(self) -> u8 {
        match self {
            BlockLayout::Flat => 0,
            BlockLayout::Delta => 1,
        }
    }

    /// The layout with this stored number.
    pub const fn from_number(number: u8) -> Option<BlockLayout> {
        match number {
            0 => Some(BlockLayout::Flat),
            1 => Some(BlockLayout::Delta),
            _ => None,
        }
    }

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            BlockLayout::Flat => "flat",
            BlockLayout::Delta => "delta",
        }
    }

    /// The layout with this name.
    pub fn parse(name: &str) -> Option<BlockLayout> {
        [BlockLayout::Flat, BlockLayout::Delta].into_iter().find(|layout| layout.name() == name)
    }

    const fn known_flags(self) -> u8 {
        match self {
            BlockLayout::Flat => FLAG_WIDE_OFFSETS | FLAG_FIXED_SUFFIX | FLAG_EQUAL_ENTRIES | FLAG_INDEX_PAGE,
            BlockLayout::Delta => FLAG_WIDE_OFFSETS | FLAG_INDEX_PAGE,
        }
    }
}

impl std::fmt::Display for BlockLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Arrangement of the entries.
    pub layout: BlockLayout,
    /// How the payload is compressed (ids of `esker_codec`).
    pub codec_id: u8,
    /// Flags of the layout.
    pub flags: u8,
    /// Bytes of the payload once decompressed.
    pub raw_len: u32,
    /// Bytes of the payload in the file.
    pub stored_len: u32,
    /// Number of entries, at least one.
    pub entries: u32,
    /// Position among the blocks of the table, from 0.
    pub number: u32,
}

impl BlockHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4..8].copy_from_slice(&[BLOCK_VERSION, self.layout.number(), self.codec_id, self.flags]);
        bytes[RAW_LEN_AT..12].copy_from_slice(&self.raw_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.entries.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Decodes a header whose magic and checksum were verified. The codec is not checked here.
    pub(crate) fn decode(header: &[u8; HEADER_BYTES]) -> Result<BlockHeader, DecodeError> {
        let [version, layout, codec_id, flags] = [header[4], header[5], header[6], header[7]];
        if version != BLOCK_VERSION {
            return unsupported(format!("a block has format {version}, this build reads {BLOCK_VERSION}"));
        }
        let Some(layout) = BlockLayout::from_number(layout) else {
            return unsupported(format!("a block has layout {layout}"));
        };
        if flags & !layout.known_flags() != 0 {
            return unsupported(format!("a {layout} block has flags {flags:#04x}"));
        }
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (raw_len, stored_len, entries, number) = (word(RAW_LEN_AT), word(12), word(16), word(20));
        let is_raw = codec_id == esker_codec::id::NONE;
        if entries == 0
            || raw_len as usize > MAX_RAW_BYTES
            || stored_len > raw_len
            || (is_raw && stored_len != raw_len)
        {
            return damaged(format!(
                "a block cannot have {entries} entries in {raw_len} bytes stored as {stored_len}"
            ));
        }
        Ok(BlockHeader { layout, codec_id, flags, raw_len, stored_len, entries, number })
    }

    /// Bytes of the block in the file, with header and checksum.
    pub fn file_len(&self) -> usize {
        FRAME_BYTES + self.stored_len as usize
    }

    pub(crate) fn is_index_page(&self) -> bool {
        self.flags & FLAG_INDEX_PAGE != 0
    }

    #[inline(always)]
    pub(crate) fn wide_offsets(&self) -> bool {
        self.flags & FLAG_WIDE_OFFSETS != 0
    }
}

/// The number that binds checksums to one offset of one table.
pub(crate) fn place_of(uid: TableUid, offset: u64) -> u64 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&uid.get().to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    xxh3_64(&place)
}

/// Checksum of `bytes` at `offset` of the table `uid`.
///
/// The offset is folded in after hashing: a seed would cost 30 ns a block to expand, and an exclusive-or
/// tells a moved block as surely.
pub(crate) fn placed_checksum(uid: TableUid, offset: u64, bytes: &[u8]) -> u64 {
    block_hash(bytes) ^ place_of(uid, offset)
}

/// Verifies the block whose file image `image` starts with, at `offset` of the table `uid`.
///
/// Magic, stored length and checksum lie in the same place in all versions of the format, so the checksum is
/// checked first: a damaged version number is damage and not a newer version.
pub(crate) fn verify_image(image: &[u8], uid: TableUid, offset: u64) -> Result<BlockHeader, DecodeError> {
    let Some(header) = image.first_chunk::<HEADER_BYTES>() else {
        return damaged(format!("a block header of {HEADER_BYTES} bytes expected, {} found", image.len()));
    };
    if header[..4] != BLOCK_MAGIC {
        return damaged(format!("no block starts here: {:02x?} found", &header[..4]));
    }
    let stored_len = u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize;
    let covered = HEADER_BYTES.saturating_add(stored_len);
    let (Some(body), Some(trailer)) =
        (image.get(..covered), image.get(covered..).and_then(|rest| rest.first_chunk()))
    else {
        return damaged(format!("a block of {stored_len} stored bytes does not fit {} bytes", image.len()));
    };
    let (stored, computed) = (u64::from_le_bytes(*trailer), placed_checksum(uid, offset, body));
    if stored != computed && !planted!(BlocksNotVerified) {
        return damaged(format!("block checksum {stored:016x} expected, {computed:016x} computed"));
    }
    BlockHeader::decode(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(uid: TableUid, offset: u64) -> Vec<u8> {
        let header = BlockHeader {
            layout: BlockLayout::Delta,
            codec_id: 1,
            flags: FLAG_WIDE_OFFSETS,
            raw_len: 100,
            stored_len: 10,
            entries: 3,
            number: 7,
        };
        let mut image = header.encode().to_vec();
        image.extend_from_slice(b"0123456789");
        let checksum = placed_checksum(uid, offset, &image);
        image.extend_from_slice(&checksum.to_le_bytes());
        assert_eq!(verify_image(&image, uid, offset), Ok(header));
        image
    }

    #[test]
    fn every_changed_bit_and_every_other_place_is_noticed() {
        let image = image(TableUid(5), 4096);
        for byte in 0..image.len() {
            for bit in 0..8 {
                let mut flipped = image.clone();
                flipped[byte] ^= 1 << bit;
                assert!(verify_image(&flipped, TableUid(5), 4096).is_err(), "byte {byte} bit {bit}");
            }
            assert!(verify_image(&image[..byte], TableUid(5), 4096).is_err(), "cut at {byte}");
        }
        assert!(verify_image(&image, TableUid(6), 4096).is_err());
        assert!(verify_image(&image, TableUid(5), 4097).is_err());
    }

    #[test]
    fn what_is_newer_is_unsupported_and_not_damage() {
        for (at, value) in [(4, 2), (5, 2), (7, 4)] {
            let mut newer = image(TableUid(5), 0);
            newer[at] = value;
            assert!(
                matches!(verify_image(&newer, TableUid(5), 0), Err(DecodeError::Damaged(_))),
                "byte {at}"
            );
            let end = newer.len() - TRAILER_BYTES;
            let checksum = placed_checksum(TableUid(5), 0, &newer[..end]);
            newer[end..].copy_from_slice(&checksum.to_le_bytes());
            assert!(
                matches!(verify_image(&newer, TableUid(5), 0), Err(DecodeError::Unsupported(_))),
                "byte {at}"
            );
        }
    }
}
