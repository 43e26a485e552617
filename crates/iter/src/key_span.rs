//! A cursor over the part of another one that lies between two keys: one piece of a job that is divided.
//!
//! Every step compares the key with both ends; readers have their bounds in the loops that need them
//! ([`crate::bounds`]).

use crate::cursor::Cursor;
use esker_base::{Result, SeqNo, Tag};

/// The entries of a cursor with keys from `from` on and before `until`.
#[derive(Debug)]
pub struct KeySpan<C> {
    inner: C,
    from: Option<Box<[u8]>>,
    until: Option<Box<[u8]>>,
    is_inside: bool,
}

impl<C: Cursor> KeySpan<C> {
    /// The entries of `inner` with keys from `from` on and before `until`; without a limit where that is
    /// `None`.
    pub fn new(inner: C, from: Option<Box<[u8]>>, until: Option<Box<[u8]>>) -> KeySpan<C> {
        KeySpan { inner, from, until, is_inside: false }
    }

    fn check(&mut self) {
        self.is_inside = self.inner.is_valid() && {
            let key = self.inner.key();
            self.from.as_deref().is_none_or(|from| key >= from)
                && self.until.as_deref().is_none_or(|until| key < until)
        };
    }
}

impl<C: Cursor> Cursor for KeySpan<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        match &self.from {
            Some(from) => self.inner.seek(from, SeqNo::MAX)?,
            None => self.inner.seek_to_first()?,
        }
        self.check();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &self.until {
            Some(until) => self.inner.seek_before(until)?,
            None => self.inner.seek_to_last()?,
        }
        self.check();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        if self.from.as_deref().is_some_and(|from| key < from) {
            return self.seek_to_first();
        }
        self.inner.seek(key, seqno)?;
        self.check();
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if self.until.as_deref().is_some_and(|until| key > until) {
            return self.seek_to_last();
        }
        self.inner.seek_before(key)?;
        self.check();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()?;
        self.check();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.check();
        Ok(())
    }

    fn is_valid(&self) -> bool {
        self.is_inside
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn tag(&self) -> Tag {
        self.inner.tag()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::{Entry, SliceCursor};
    use esker_base::ValueKind;

    fn keys(cursor: &mut KeySpan<SliceCursor<'_>>) -> (Vec<u8>, Vec<u8>) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        cursor.seek_to_first().unwrap();
        while cursor.is_valid() {
            up.push(cursor.key()[0]);
            cursor.next().unwrap();
        }
        cursor.seek_to_last().unwrap();
        while cursor.is_valid() {
            down.insert(0, cursor.key()[0]);
            cursor.prev().unwrap();
        }
        (up, down)
    }

    #[test]
    fn pieces_hold_every_entry_once_with_all_versions_of_its_key() {
        let mut entries = Vec::new();
        for key in 0..40_u8 {
            for seqno in 0..=u64::from(key % 3) {
                let tag = Tag::new(SeqNo::new(seqno), ValueKind::Put);
                entries.push(Entry { key: vec![key], tag, value: Vec::new() });
            }
        }
        Entry::sort(&mut entries);
        let ends: [Option<u8>; 5] = [None, Some(0), Some(7), Some(39), None];
        let mut all = Vec::new();
        for ends in ends.windows(2) {
            let end = |at: usize| ends[at].map(|key| Box::from([key]));
            let (up, down) = keys(&mut KeySpan::new(SliceCursor::new(&entries), end(0), end(1)));
            assert_eq!(up, down);
            assert!(up.iter().all(|key| ends[0].is_none_or(|from| *key >= from)), "{up:?}");
            all.extend(up);
        }
        assert_eq!(all, entries.iter().map(|entry| entry.key[0]).collect::<Vec<_>>());
        let mut middle = KeySpan::new(SliceCursor::new(&entries), Some(Box::from([5])), Some(Box::from([9])));
        middle.seek(&[2], SeqNo::MAX).unwrap();
        assert_eq!((middle.is_valid(), middle.key()), (true, &[5][..]));
        middle.seek(&[9], SeqNo::MAX).unwrap();
        assert!(!middle.is_valid());
        middle.seek_before(&[30]).unwrap();
        assert_eq!((middle.is_valid(), middle.key()), (true, &[8][..]));
        middle.seek_before(&[5]).unwrap();
        assert!(!middle.is_valid());
    }
}
