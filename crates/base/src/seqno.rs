//! Sequence numbers: one total order of all operations of a database.

use crate::kind::ValueKind;
use std::fmt;

/// The position of an operation in the database's total order; every put or delete consumes one.
///
/// 56 bits are used, so that a sequence number and an entry's kind share one word ([`Tag`]). At 10 million
/// operations a second they last 228 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "SequenceNumber")]
pub struct SeqNo(u64);

impl SeqNo {
    /// Before the first operation.
    pub const ZERO: SeqNo = SeqNo(0);
    /// After every operation: a reader at `MAX` sees everything.
    pub const MAX: SeqNo = SeqNo((1 << 56) - 1);
    /// The greatest number that decoders accept from a file. The rest, as many as one log record can consume,
    /// keeps the numbers behind an accepted one countable; no database gets there by writing.
    pub const MAX_STORED: SeqNo = SeqNo(SeqNo::MAX.0 - (1 << 32));

    /// The sequence number with this value, saturating at [`SeqNo::MAX`].
    #[inline]
    pub const fn new(value: u64) -> SeqNo {
        if value > SeqNo::MAX.0 { SeqNo::MAX } else { SeqNo(value) }
    }

    /// The number itself.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number `count` operations later.
    #[inline]
    pub const fn plus(self, count: u64) -> SeqNo {
        SeqNo::new(self.0 + count)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sequence number and an entry's kind byte in one word: `seqno << 8 | kind byte`.
///
/// Among versions of one key the greater tag is the newer version. The kind byte holds a [`ValueKind`] and
/// the two flag bits of [`crate::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u64);

impl Tag {
    /// Sorts before every version of a key (versions are ordered newest first).
    pub const NEWEST: Tag = Tag(u64::MAX);
    /// Sorts after every version of a key.
    pub const OLDEST: Tag = Tag(0);

    /// Joins a sequence number and a kind without flags.
    #[inline]
    pub const fn new(seqno: SeqNo, kind: ValueKind) -> Tag {
        Tag(seqno.0 << 8 | kind as u64)
    }

    /// Joins a sequence number and a raw kind byte, which may carry flag bits.
    #[inline]
    pub const fn from_parts(seqno: SeqNo, kind_byte: u8) -> Tag {
        Tag(seqno.0 << 8 | kind_byte as u64)
    }

    /// The tag with this raw word.
    #[inline]
    pub const fn from_raw(raw: u64) -> Tag {
        Tag(raw)
    }

    /// The raw word.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The greatest tag that a reader at `seqno` may see: a version is visible iff its tag is not greater.
    #[inline]
    pub const fn visible_at(seqno: SeqNo) -> Tag {
        Tag(seqno.0 << 8 | 0xff)
    }

    /// The tag of an entry stored with 0 in a table with this global number; unchanged if that is 0.
    #[inline]
    pub const fn at_global(self, global: SeqNo) -> Tag {
        Tag(self.0 | global.0 << 8)
    }

    /// The sequence number.
    #[inline]
    pub const fn seqno(self) -> SeqNo {
        SeqNo(self.0 >> 8)
    }

    /// The kind byte with its flag bits.
    #[inline]
    pub const fn kind_byte(self) -> u8 {
        self.0 as u8
    }

    /// The kind without flags; `None` for a byte that no version of the format wrote.
    #[inline]
    pub const fn kind(self) -> Option<ValueKind> {
        ValueKind::from_byte(self.0 as u8)
    }

    /// Whether the entry is a plain put: no tombstone, no flag.
    #[inline]
    pub const fn is_plain_put(self) -> bool {
        self.0 as u8 == ValueKind::Put as u8
    }

    /// Whether the entry hides older versions and has no value.
    #[inline]
    pub const fn is_tombstone(self) -> bool {
        matches!(self.kind(), Some(ValueKind::Delete | ValueKind::SingleDelete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_order_by_seqno_first() {
        let older_put = Tag::new(SeqNo::new(7), ValueKind::Put);
        let newer_delete = Tag::new(SeqNo::new(8), ValueKind::Delete);
        assert!(newer_delete > older_put);
        assert!(older_put <= Tag::visible_at(SeqNo::new(7)));
        assert!(newer_delete > Tag::visible_at(SeqNo::new(7)));
        assert_eq!(newer_delete.seqno(), SeqNo::new(8));
        assert!(newer_delete.is_tombstone() && older_put.is_plain_put());
    }

    #[test]
    fn seqno_saturates() {
        assert_eq!(SeqNo::new(u64::MAX), SeqNo::MAX);
        assert_eq!(SeqNo::MAX.plus(1), SeqNo::MAX);
    }
}
