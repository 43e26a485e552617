//! A cursor over entries that lie sorted in memory.

use crate::cursor::Cursor;
use esker_base::{Result, SeqNo, Tag};

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
