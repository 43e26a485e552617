//! Range iterator: owned entries, from both ends.

use crate::read::cursor::visible;
use crate::read::open_readers::ReaderSlot;
use crate::read::pinned::Pinned;
use crate::read::scan_tally::ScanTally;
use crate::read::source::Source;
use crate::value::{Value, ValueWithExpiry};
use esker_base::{Error, Result};
use esker_iter::{Bounds, DoubleEnded, MergingCursor, Reader, Visible};
use std::iter::FusedIterator;

/// The entries of a range in key order, as at the creation of the iterator. Lazy: nothing is read before the
/// first call. After an error the iterator is at its end.
///
/// Items are copies; a [`Cursor`](crate::read::cursor::Cursor) lends entries instead and is several times
/// faster for small values.
#[derive(Debug)]
#[doc(alias = "Iterator")]
#[doc(alias = "DBIterator")]
pub struct Range {
    entries: Result<DoubleEnded<RangeView>, Option<Error>>,
    /// Its slot among the open readers.
    _reader_slot: Option<ReaderSlot>,
    /// Counts the returned entries.
    tally: ScanTally,
}

/// Creates the readers of both ends.
#[derive(Debug)]
struct RangeView {
    pinned: Pinned,
    reader: Reader,
    bounds: Bounds,
}

impl esker_iter::ReaderFactory for RangeView {
    type Cursor = MergingCursor<Source>;

    fn open(&self) -> Result<Visible<MergingCursor<Source>>> {
        Ok(visible(&self.pinned, self.reader.clone(), self.bounds.clone()))
    }
}

impl Pinned {
    /// The entries within bounds.
    pub fn range(self, bounds: Bounds) -> Range {
        Range::new(Ok(self), bounds)
    }

    /// The entry with the least key.
    pub fn first(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next().transpose()
    }

    /// The entry with the greatest key.
    pub fn last(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next_back().transpose()
    }
}

impl Range {
    /// The entries of a pinned view within `bounds`. An error becomes the first item, so that a loop over a
    /// range handles errors in one place.
    pub fn new(pinned: Result<Pinned>, bounds: Bounds) -> Range {
        Range::of(pinned.map(|mut pinned| RangeView { reader: pinned.reader(), pinned, bounds }))
    }

    /// The same, but large values are empty: for keys alone.
    pub fn without_large(pinned: Result<Pinned>, bounds: Bounds) -> Range {
        Range::of(pinned.map(|mut pinned| RangeView { reader: pinned.reader_of_keys(), pinned, bounds }))
    }

    fn of(view: Result<RangeView>) -> Range {
        Range {
            entries: view.map(DoubleEnded::new).map_err(Some),
            _reader_slot: None,
            tally: ScanTally::default(),
        }
    }

    /// This range, listed among the open readers while it lives, and counted.
    pub fn held(self, reader_slot: Option<ReaderSlot>, tally: ScanTally) -> Range {
        Range { _reader_slot: reader_slot, tally, ..self }
    }

    fn take<T>(
        &mut self,
        next: impl for<'a> FnOnce(&'a mut DoubleEnded<RangeView>) -> Result<Option<(&'a [u8], &'a [u8])>>,
        copy: impl FnOnce((&[u8], &[u8])) -> T,
    ) -> Option<Result<T>> {
        match &mut self.entries {
            Ok(entries) => {
                let taken = next(entries).map(|entry| entry.map(copy)).transpose();
                self.tally.returned(taken.is_some());
                taken
            }
            Err(error) => error.take().map(Err),
        }
    }

    /// The key of the next entry from the front.
    pub fn next_key(&mut self) -> Option<Result<Value>> {
        self.take(DoubleEnded::next_front, |(key, _)| Value::copied(key))
    }

    /// The key of the next entry from the back.
    pub fn next_key_back(&mut self) -> Option<Result<Value>> {
        self.take(DoubleEnded::next_back, |(key, _)| Value::copied(key))
    }
}

fn both((key, value): (&[u8], &[u8])) -> (Value, Value) {
    (Value::copied(key), Value::copied(value))
}

impl Iterator for Range {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Result<(Value, Value)>> {
        self.take(DoubleEnded::next_front, both)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<(Value, Value)>> {
        self.take(DoubleEnded::next_back, both)
    }
}

impl FusedIterator for Range {}

/// The entries of a [`Range`], each value with its expiry; [`Range::with_expiry`] makes one.
#[derive(Debug)]
pub struct RangeWithExpiry(Range);

impl Range {
    /// The entries not returned yet, each value with its expiry. Costs no further read.
    pub fn with_expiry(self) -> RangeWithExpiry {
        RangeWithExpiry(self)
    }
}

impl RangeWithExpiry {
    fn item(
        &self,
        entry: Result<(Value, Value)>,
        expiry_ms: fn(&DoubleEnded<RangeView>) -> Option<u64>,
    ) -> Result<(Value, ValueWithExpiry)> {
        let (key, value) = entry?;
        let expiry_ms = self.0.entries.as_ref().ok().and_then(expiry_ms);
        Ok((key, ValueWithExpiry::new(value, expiry_ms)))
    }
}

impl Iterator for RangeWithExpiry {
    type Item = Result<(Value, ValueWithExpiry)>;

    fn next(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        let entry = self.0.next()?;
        Some(self.item(entry, DoubleEnded::front_expiry_ms))
    }
}

impl DoubleEndedIterator for RangeWithExpiry {
    fn next_back(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        let entry = self.0.next_back()?;
        Some(self.item(entry, DoubleEnded::back_expiry_ms))
    }
}

impl FusedIterator for RangeWithExpiry {}
