//! A transaction's range scan: its own changes merged with its snapshot.

use super::Transaction;
use crate::overlay::OverlayRange;
use crate::{Keyspace, Range, Value, ValueWithExpiry};
use esker_base::Result;
use esker_iter::Bounds;
use std::iter::FusedIterator;
use std::ops::Bound;

/// The entries of a range in key order, as the transaction sees them: its own changes over its snapshot.
/// Lazy, and from both ends. After an error the iterator is at its end.
///
/// The transaction cannot be written to while the range is alive. A serializable transaction depends on the
/// part of the range that was iterated, up to the last key returned from either end, and on the whole range
/// once the ends have met.
pub struct TransactionRange<'t> {
    transaction: &'t Transaction,
    keyspace: &'t Keyspace,
    bounds: Bounds,
    /// The index of the range in the read set.
    place: Option<usize>,
    entries: OverlayRange<'t>,
    /// The last keys returned, and whether nothing is left.
    front: Option<Value>,
    back: Option<Value>,
    is_finished: bool,
}

impl<'t> TransactionRange<'t> {
    pub(super) fn new(
        transaction: &'t Transaction,
        keyspace: &'t Keyspace,
        bounds: Bounds,
        place: Option<usize>,
        stored: Range,
    ) -> TransactionRange<'t> {
        let entries =
            OverlayRange::new(keyspace, &transaction.writes, &bounds, stored, transaction.time_ms());
        TransactionRange {
            transaction,
            keyspace,
            place,
            entries,
            bounds,
            front: None,
            back: None,
            is_finished: false,
        }
    }

    /// The entries not returned yet, each value with its expiry. Costs no further read.
    pub fn with_expiry(self) -> TransactionRangeWithExpiry<'t> {
        TransactionRangeWithExpiry(self)
    }

    fn step(&mut self, from_back: bool) -> Option<Result<(Value, ValueWithExpiry)>> {
        if self.is_finished {
            return None;
        }
        let entry = self.entries.take(from_back);
        match &entry {
            Ok(Some((key, _))) if self.place.is_some() => {
                let last = if from_back { &mut self.back } else { &mut self.front };
                *last = Some(key.clone());
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => self.is_finished = true,
        }
        entry.transpose()
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Result<(Value, Value)>> {
        self.step(false).map(without_expiry)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Result<(Value, Value)>> {
        self.step(true).map(without_expiry)
    }
}

impl FusedIterator for TransactionRange<'_> {}

fn without_expiry(entry: Result<(Value, ValueWithExpiry)>) -> Result<(Value, Value)> {
    entry.map(|(key, value)| (key, value.value))
}

/// The entries of a [`TransactionRange`], each value with its expiry.
#[derive(Debug)]
pub struct TransactionRangeWithExpiry<'t>(TransactionRange<'t>);

impl Iterator for TransactionRangeWithExpiry<'_> {
    type Item = Result<(Value, ValueWithExpiry)>;

    fn next(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        self.0.step(false)
    }
}

impl DoubleEndedIterator for TransactionRangeWithExpiry<'_> {
    fn next_back(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        self.0.step(true)
    }
}

impl FusedIterator for TransactionRangeWithExpiry<'_> {}

impl std::fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionRange").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Drop for TransactionRange<'_> {
    /// The whole range was recorded at creation, in case this is never dropped; now it is narrowed to the
    /// part that was seen.
    fn drop(&mut self) {
        let Some(place) = self.place.filter(|_| !self.is_finished) else { return };
        let upto = |key: &Value| Bounds::new(self.bounds.lower(), Bound::Included(key));
        let from = |key: &Value| Bounds::new(Bound::Included(key), self.bounds.upper());
        let pieces = [self.front.as_ref().map(upto), self.back.as_ref().map(from)];
        self.transaction.narrow(self.keyspace, place, pieces);
    }
}
