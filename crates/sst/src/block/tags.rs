//! Tag coding: stores the tags (sequence number and kind) of a block's entries in few bytes.
//!
//! A block stores a base tag, and each entry a distance in a width that is the same for the whole block:
//! `tag = base + (distance << shift)`. The width is zero if all tags are equal, as in the last level, where
//! sequence numbers are zeroed. The shift is 8 if all entries have one kind: 3 bytes for 16 million
//! operations.
//!
//! The distance precedes the entry instead of lying in an array: a lookup has that cache line anyway.

use super::raw;
use crate::decode_error::{DecodeError, damaged};
use esker_base::Tag;

/// Bytes of a stored [`TagCoding`]: base (8), width (1), shift (1).
pub(crate) const TAG_CODING_BYTES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagCoding {
    base: u64,
    width: u8,
    shift: u8,
}

impl TagCoding {
    /// The smallest coding for tags between `min` and `max`; `same_kind` says that all have the same kind
    /// byte.
    pub(crate) fn covering(min: u64, max: u64, same_kind: bool) -> TagCoding {
        let shift = if same_kind { 8 } else { 0 };
        let significant_bits = 64 - ((max - min) >> shift).leading_zeros();
        TagCoding { base: min, width: significant_bits.div_ceil(8) as u8, shift }
    }

    /// Decodes and validates the stored form.
    pub(crate) fn decode(bytes: &[u8; TAG_CODING_BYTES]) -> Result<TagCoding, DecodeError> {
        let coding = TagCoding::from_validated(bytes);
        let (width, shift) = (coding.width, coding.shift);
        if (shift != 0 && shift != 8) || width > 8 - shift / 8 {
            return damaged(format!("tags of {width} bytes shifted by {shift} bits cannot be"));
        }
        Ok(coding)
    }

    /// Decodes a stored form that [`TagCoding::decode`] has accepted before.
    #[inline(always)]
    pub(crate) fn from_validated(bytes: &[u8; TAG_CODING_BYTES]) -> TagCoding {
        let [b0, b1, b2, b3, b4, b5, b6, b7, width, shift] = *bytes;
        TagCoding { base: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]), width, shift }
    }

    pub(crate) fn encode(self) -> [u8; TAG_CODING_BYTES] {
        let mut bytes = [0; TAG_CODING_BYTES];
        bytes[..8].copy_from_slice(&self.base.to_le_bytes());
        bytes[8] = self.width;
        bytes[9] = self.shift;
        bytes
    }

    /// Bytes in front of each entry.
    #[inline(always)]
    pub(crate) fn width(self) -> usize {
        usize::from(self.width)
    }

    /// The distance to store for `tag`: the low [`TagCoding::width`] bytes of the result.
    #[inline(always)]
    pub(crate) fn distance(self, tag: u64) -> u64 {
        (tag - self.base) >> self.shift
    }

    /// The tag whose distance is stored at `at`.
    ///
    /// # Safety
    /// Eight bytes from `base + at` must be readable.
    #[inline(always)]
    pub(crate) unsafe fn tag_at(self, base: *const u8, at: usize) -> Tag {
        if self.width == 0 {
            return Tag::from_raw(self.base);
        }
        // SAFETY: guaranteed by the caller.
        let word = unsafe { raw::u64_at(base, at) };
        let distance = word & (u64::MAX >> (64 - 8 * u32::from(self.width)));
        Tag::from_raw(self.base.wrapping_add(distance << self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{SeqNo, ValueKind};

    fn round_trip(tags: &[Tag], width: usize) {
        let words: Vec<u64> = tags.iter().map(|tag| tag.raw()).collect();
        let (min, max) = (*words.iter().min().unwrap(), *words.iter().max().unwrap());
        let same_kind = tags.iter().all(|tag| tag.kind_byte() == tags[0].kind_byte());
        let coding = TagCoding::covering(min, max, same_kind);
        assert_eq!(coding.width(), width, "{tags:?}");
        assert_eq!(TagCoding::decode(&coding.encode()), Ok(coding));
        for tag in tags {
            let stored = coding.distance(tag.raw()).to_le_bytes();
            assert!(stored[width..].iter().all(|&byte| byte == 0));
            let mut bytes = [0xff; 8];
            bytes[..width].copy_from_slice(&stored[..width]);
            // SAFETY: the array has eight bytes.
            assert_eq!(unsafe { coding.tag_at(bytes.as_ptr(), 0) }, *tag);
        }
    }

    #[test]
    fn widths_follow_the_spread() {
        let put = |seqno| Tag::new(SeqNo::new(seqno), ValueKind::Put);
        let delete = |seqno| Tag::new(SeqNo::new(seqno), ValueKind::Delete);
        round_trip(&[put(0), put(0)], 0);
        round_trip(&[put(77)], 0);
        round_trip(&[put(1_000), put(1_255)], 1);
        round_trip(&[put(1_000), put(1_256)], 2);
        round_trip(&[put(5), put((1 << 24) + 4)], 3);
        round_trip(&[put(5), delete(5 + (1 << 24) - 1)], 4);
        round_trip(&[put(7), delete(7)], 1);
        round_trip(&[put(0), Tag::new(SeqNo::MAX, ValueKind::Put)], 7);
        round_trip(&[Tag::OLDEST, Tag::NEWEST], 8);
    }

    #[test]
    fn impossible_codings_are_refused() {
        for (width, shift) in [(9, 0), (8, 8), (1, 4), (255, 8)] {
            let mut bytes = [0; TAG_CODING_BYTES];
            bytes[8] = width;
            bytes[9] = shift;
            assert!(TagCoding::decode(&bytes).is_err(), "{width} {shift}");
        }
    }
}
