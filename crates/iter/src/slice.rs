//! A cursor over entries that lie sorted in memory.

use crate::cursor::{Cursor, Lead, Then};
use esker_base::{Result, SeqNo, Tag};
use std::cmp::Ordering;

/// Entries that are counted at once as a stretch: as many as a block may hold.
const MOST_IN_STRETCH: usize = 32;

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

    /// Whether the cursor stands on an entry that a reader at `seqno` does not see for a newer version, or because it is too new itself.
    #[cfg(test)]
    pub(crate) fn is_hidden_at(&self, seqno: SeqNo) -> bool {
        let newest = Tag::visible_at(seqno);
        let is_seen_first = |other: &Entry, key: &[u8]| other.key == key && other.tag <= newest;
        let newer = self.at.checked_sub(1).and_then(|at| self.entries.get(at));
        self.entries.get(self.at).is_some_and(|entry| {
            entry.tag > newest || newer.is_some_and(|newer| is_seen_first(newer, &entry.key))
        })
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

    fn stretch<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> Lead {
        let against = |at: usize| {
            let key = self.entries[at].key.as_slice();
            bound.map(|bound| if BACKWARD { bound.cmp(key) } else { key.cmp(bound) })
        };
        let belongs = |at: &usize| against(*at).is_none_or(Ordering::is_lt) && self.is_only_version(*at);
        let (counted, follower) = if BACKWARD {
            let counted = (0..=self.at).rev().take(MOST_IN_STRETCH).take_while(belongs).count();
            (counted, self.at.checked_sub(counted))
        } else {
            let counted = (self.at..self.entries.len()).take(MOST_IN_STRETCH).take_while(belongs).count();
            (counted, Some(self.at + counted).filter(|at| *at < self.entries.len()))
        };
        let then = match follower.and_then(against) {
            Some(Ordering::Equal) if follower.is_some_and(|at| self.is_only_version(at)) => Then::OnBound,
            Some(Ordering::Greater) => Then::Behind,
            _ => Then::Unknown,
        };
        Lead { entries: counted as u32, then }
    }

    #[inline]
    fn step_in_stretch<const BACKWARD: bool>(&mut self) {
        self.at = if BACKWARD { self.at - 1 } else { self.at + 1 };
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
