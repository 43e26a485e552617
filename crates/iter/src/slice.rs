//! A cursor over a sorted slice of entries in memory.

use crate::cursor::{BoundOrder, Cursor};
use esker_base::key::head;
use esker_base::{Result, SeqNo, Tag};

/// Entries that count as loaded together, like those of a block.
const BLOCK: usize = 32;

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The user key.
    pub key: Vec<u8>,
    /// Sequence number and kind.
    pub tag: Tag,
    /// The value; empty for tombstones.
    pub value: Vec<u8>,
}

impl Entry {
    /// Sorts entries into internal order, the order that [`SliceCursor`] expects.
    pub fn sort(entries: &mut [Entry]) {
        entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.tag.cmp(&a.tag)));
    }
}

/// A cursor over a slice of entries in internal order. Seeks are binary searches; nothing ever fails.
#[derive(Clone, Debug)]
pub struct SliceCursor<'a> {
    entries: &'a [Entry],
    /// Index of the current entry; `entries.len()` or more when invalid.
    at: usize,
}

impl<'a> SliceCursor<'a> {
    /// A cursor over `entries`, which must be in internal order ([`Entry::sort`]).
    pub fn new(entries: &'a [Entry]) -> SliceCursor<'a> {
        debug_assert!(
            entries.windows(2).all(|w| (&w[0].key, w[1].tag) < (&w[1].key, w[0].tag)),
            "entries must be in internal order without duplicates"
        );
        SliceCursor { entries, at: entries.len() }
    }

    /// Whether entry `at` is the only version of its key.
    fn is_only_version(&self, at: usize) -> bool {
        let key = &self.entries[at].key;
        let is_other = |at: usize| self.entries.get(at).is_none_or(|entry| entry.key != *key);
        is_other(at.wrapping_sub(1)) && is_other(at + 1)
    }

    /// Whether the cursor's entry is hidden by a newer version, or too new, for a reader at `seqno`.
    #[cfg(test)]
    pub(crate) fn is_hidden_at(&self, seqno: SeqNo) -> bool {
        let newest = Tag::visible_at(seqno);
        let is_seen_first = |other: &Entry, key: &[u8]| other.key == key && other.tag <= newest;
        let newer = self.at.checked_sub(1).and_then(|at| self.entries.get(at));
        self.entries.get(self.at).is_some_and(|entry| {
            entry.tag > newest || newer.is_some_and(|newer| is_seen_first(newer, &entry.key))
        })
    }

    /// How an entry compares with a bound, by the first eight bytes of the keys.
    #[inline]
    fn bound_order_of<const BACKWARD: bool>(&self, at: usize, bound: u64) -> BoundOrder {
        BoundOrder::of_words::<BACKWARD>(head(&self.entries[at].key, 0), bound)
    }

    #[inline]
    fn step_back_from(&mut self, at: usize) {
        self.at = if at == 0 { self.entries.len() } else { at - 1 };
    }
}

impl Cursor for SliceCursor<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.step_back_from(self.entries.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let newest = Tag::visible_at(seqno);
        self.at = self.entries.partition_point(|e| {
            let order = e.key.as_slice().cmp(key);
            order.is_lt() || (order.is_eq() && e.tag > newest)
        });
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let at = self.entries.partition_point(|e| e.key.as_slice() < key);
        self.step_back_from(at);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.is_valid());
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.is_valid());
        self.step_back_from(self.at);
        Ok(())
    }

    #[inline]
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        let word = match bound {
            Some(bound) => head(bound, 0),
            None if BACKWARD => 0,
            None => u64::MAX,
        };
        let is_told = self.is_only_version(self.at);
        (if is_told { self.bound_order_of::<BACKWARD>(self.at, word) } else { BoundOrder::Unknown }, word)
    }

    #[inline]
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        let next = if BACKWARD { self.at.wrapping_sub(1) } else { self.at + 1 };
        let is_at_hand = next < self.entries.len() && next / BLOCK == self.at / BLOCK;
        if !is_at_hand || !self.is_only_version(next) {
            return BoundOrder::Unknown;
        }
        self.at = next;
        self.bound_order_of::<BACKWARD>(next, bound)
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.at < self.entries.len()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.entries[self.at].key
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.entries[self.at].tag
    }

    #[inline]
    fn value(&self) -> &[u8] {
        &self.entries[self.at].value
    }
}
