//! Index section: the stored form of the block index.
//!
//! ```text
//! blocks varint
//! per block: shared varint | unshared * 2 + continues varint | unshared bytes | [tag 8] | span varint
//! ```
//! A block's *separator* is greater than every key of an earlier block and not greater than any key of the
//! block: the shortest such prefix of the block's first key, coded as its difference from the previous one.
//! That of the first block is empty. If the versions of one key are spread over blocks, no key separates
//! them: the later block *continues* the key, which is its separator in full, and the tag of its first entry
//! is stored. `span` is the block's length in the file, with the
//! padding behind it ([`crate::page_alignment`]); blocks are contiguous.
//!
//! Every form of the index in memory is built from this section at open, so changing the form rewrites
//! nothing.

use crate::decode_error::{DecodeError, damaged};
use esker_base::Tag;
use esker_base::coding::{Reader, put_varint};
use esker_base::key::common_prefix_len;
use esker_env::OffHeapSlice;
use std::ops::Range;

/// A block that starts with an older version of the key that the block before ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    pub(crate) block: u32,
    pub(crate) tag: Tag,
}

#[derive(Debug, Default)]
pub(crate) struct IndexEncoder {
    out: Vec<u8>,
    separator: Vec<u8>,
    /// Where the last span lies in `out`, and the span.
    last_span: (usize, u64),
    blocks: u32,
}

impl IndexEncoder {
    /// Adds the next block. `continued_at` is the tag of its first entry if it continues the key `separator`.
    pub(crate) fn add(&mut self, separator: &[u8], continued_at: Option<Tag>, span: u64) {
        let shared = common_prefix_len(&self.separator, separator);
        let unshared = &separator[shared..];
        put_varint(&mut self.out, shared as u64);
        put_varint(&mut self.out, (unshared.len() as u64) << 1 | u64::from(continued_at.is_some()));
        self.out.extend_from_slice(unshared);
        if let Some(tag) = continued_at {
            self.out.extend_from_slice(&tag.raw().to_le_bytes());
        }
        self.last_span = (self.out.len(), span);
        put_varint(&mut self.out, span);
        self.separator.truncate(shared);
        self.separator.extend_from_slice(unshared);
        self.blocks += 1;
    }

    /// Counts padding behind the last block as part of it; nothing before the first block.
    pub(crate) fn pad_last(&mut self, bytes: u64) {
        if self.blocks > 0 {
            let (at, span) = self.last_span;
            self.out.truncate(at);
            self.last_span.1 = span + bytes;
            put_varint(&mut self.out, span + bytes);
        }
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut section = Vec::with_capacity(self.out.len() + 5);
        put_varint(&mut section, u64::from(self.blocks));
        section.extend_from_slice(&self.out);
        section
    }
}

/// The separator between a block's last key and the next block's first key, which is greater.
pub(crate) fn separator<'a>(last: &[u8], first: &'a [u8]) -> &'a [u8] {
    &first[..(common_prefix_len(last, first) + 1).min(first.len())]
}

#[derive(Debug, Default)]
pub(crate) struct Separators {
    bytes: OffHeapSlice<u8>,
    ends: OffHeapSlice<u32>,
}

impl Separators {
    #[inline]
    pub(crate) fn get(&self, block: usize) -> &[u8] {
        &self.bytes[range_of(&self.ends, block)]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<u32>()
    }
}

#[inline]
fn range_of(ends: &[u32], block: usize) -> Range<usize> {
    let start = if block == 0 { 0 } else { ends[block - 1] as usize };
    start..ends[block] as usize
}

#[derive(Debug, Default)]
pub(super) struct SeparatorsBuilder {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl SeparatorsBuilder {
    fn with_capacity(blocks: usize) -> SeparatorsBuilder {
        SeparatorsBuilder { bytes: Vec::new(), ends: Vec::with_capacity(blocks) }
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.nth_last(0)
    }

    /// The separator added `later` separators ago.
    fn nth_last(&self, later: usize) -> Option<&[u8]> {
        let block = self.ends.len().checked_sub(later + 1)?;
        Some(&self.bytes[range_of(&self.ends, block)])
    }

    /// Appends `shared` bytes of the last separator and `unshared`. `None` if too short, or above 4 GiB.
    pub(super) fn push(&mut self, shared: usize, unshared: &[u8]) -> Option<()> {
        let last = self.ends.len().checked_sub(1).map_or(0..0, |last| range_of(&self.ends, last));
        if shared > last.len() {
            return None;
        }
        self.bytes.extend_from_within(last.start..last.start + shared);
        self.bytes.extend_from_slice(unshared);
        self.ends.push(u32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// All of them, in memory that lasts.
    pub(super) fn finish(&self) -> Separators {
        Separators {
            bytes: OffHeapSlice::lasting(self.bytes.iter().copied()),
            ends: OffHeapSlice::lasting(self.ends.iter().copied()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct DecodedIndex {
    pub(crate) separators: Separators,
    /// Where each block starts in the file, and where the last one ends.
    pub(crate) starts: OffHeapSlice<u64>,
    pub(crate) continuations: Vec<Continuation>,
}

impl DecodedIndex {
    /// Decodes a section for blocks that fill the file from `data_start` to `data_end`.
    ///
    /// Memory is bounded by the section: an entry takes at least three bytes, and separators that share much
    /// are only expanded while they stay in order and below 4 GiB.
    pub(crate) fn decode(
        section: &[u8],
        data_start: u64,
        data_end: u64,
    ) -> Result<DecodedIndex, DecodeError> {
        let mut reader = Reader::new(section);
        let blocks = match reader.varint_u32() {
            Some(blocks) if blocks as usize <= reader.remaining() / 3 => blocks,
            found => {
                let bytes = section.len();
                return damaged(format!("an index of {bytes} bytes cannot have {found:?} blocks"));
            }
        };
        let mut decoder = Decoder {
            separators: SeparatorsBuilder::with_capacity(blocks as usize),
            starts: Vec::with_capacity(blocks as usize + 1),
            continuations: Vec::new(),
        };
        decoder.starts.push(data_start);
        for block in 0..blocks {
            if decoder.entry(&mut reader, block, data_end).is_none() {
                return damaged(format!("entry {block} of the index is not valid"));
            }
        }
        if !reader.is_empty() || decoder.starts.last() != Some(&data_end) {
            return damaged("the index does not cover the blocks");
        }
        Ok(decoder.finish())
    }

    /// The number of blocks that a section states.
    #[cfg(test)]
    pub(crate) fn count(section: &[u8]) -> Option<u64> {
        Reader::new(section).varint()
    }
}

/// The decoded part of a section.
struct Decoder {
    separators: SeparatorsBuilder,
    starts: Vec<u64>,
    continuations: Vec<Continuation>,
}

impl Decoder {
    fn entry(&mut self, reader: &mut Reader<'_>, block: u32, data_end: u64) -> Option<()> {
        let shared = usize::try_from(reader.varint()?).ok()?;
        let length_and_flag = reader.varint()?;
        let unshared = reader.take(usize::try_from(length_and_flag >> 1).ok()?)?;
        let continued_at = if length_and_flag & 1 == 1 { Some(Tag::from_raw(reader.u64()?)) } else { None };
        let start = *self.starts.last()?;
        let end = start.checked_add(reader.varint()?).filter(|&end| end > start && end <= data_end)?;
        self.separators.push(shared, unshared)?;
        self.starts.push(end);
        let separator = self.separators.last()?;
        let Some(before) = self.separators.nth_last(1) else {
            return (separator.is_empty() && continued_at.is_none()).then_some(());
        };
        let Some(tag) = continued_at else { return (before < separator).then_some(()) };
        let newer = self.continuations.last().filter(|last| last.block + 1 == block).map(|last| last.tag);
        // An equal separator is that of a block which starts with, or continues, newer versions of the key.
        let in_order = before < separator || (before == separator && newer.is_none_or(|newer| newer > tag));
        self.continuations.push(Continuation { block, tag });
        in_order.then_some(())
    }

    fn finish(self) -> DecodedIndex {
        DecodedIndex {
            separators: self.separators.finish(),
            starts: OffHeapSlice::lasting(self.starts.iter().copied()),
            continuations: self.continuations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded() -> Vec<u8> {
        let mut encoder = IndexEncoder::default();
        let tag = Tag::from_raw;
        encoder.add(b"", None, 100);
        encoder.add(b"", Some(tag(9)), 90);
        encoder.add(b"apple", None, 4_000);
        encoder.add(b"apply", Some(tag(77)), 4_001);
        encoder.add(b"apply", Some(tag(70)), 4_002);
        encoder.add(b"b", None, 1 << 29);
        encoder.finish()
    }

    #[test]
    fn round_trip() {
        let end = 32 + 190 + 12_003 + (1 << 29);
        let index = DecodedIndex::decode(&encoded(), 32, end).unwrap();
        let separators: Vec<&[u8]> = (0..6).map(|block| index.separators.get(block)).collect();
        assert_eq!(separators, [&b""[..], b"", b"apple", b"apply", b"apply", b"b"]);
        assert_eq!(*index.starts, [32, 132, 222, 4_222, 8_223, 12_225, end]);
        let continued: Vec<u32> = index.continuations.iter().map(|continuation| continuation.block).collect();
        assert_eq!(continued, [1, 3, 4]);
        for cut in 0..encoded().len() {
            assert!(DecodedIndex::decode(&encoded()[..cut], 32, end).is_err());
        }
        assert!(DecodedIndex::decode(&encoded(), 32, end + 1).is_err());
        assert!(DecodedIndex::decode(&encoded(), 33, end).is_err());
    }

    #[test]
    fn damaged_sections_never_panic() {
        let good = encoded();
        let end = 32 + 190 + 12_003 + (1 << 29);
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                // Other bytes may be another valid index; a checksum precedes this decoder.
                let _ = DecodedIndex::decode(&bytes, 32, end);
            }
        }
    }

    #[test]
    fn separators_are_short_and_separate() {
        for (last, first, wanted) in
            [("apple", "b", "b"), ("apple", "apples", "apples"), ("a", "abcdef", "ab"), ("", "a", "a")]
        {
            let found = separator(last.as_bytes(), first.as_bytes());
            assert_eq!(found, wanted.as_bytes());
            assert!(last.as_bytes() < found && found <= first.as_bytes());
        }
    }
}
