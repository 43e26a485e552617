//! A transaction's range scan: its own changes merged with its snapshot.

use super::Transaction;
use super::writes::{Changes, Pending};
use crate::{Keyspace, Range, Value};
use esker_base::Result;
use esker_iter::Bounds;
use std::cmp::Ordering;
use std::collections::btree_map;
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
    stored: PeekedEnds<Range>,
    own: PeekedEnds<btree_map::Range<'t, Box<[u8]>, Pending>>,
    /// The last keys returned, and whether nothing is left.
    front: Option<Value>,
    back: Option<Value>,
    is_finished: bool,
}

/// An iterator with one item of look-ahead at either end.
#[derive(Debug)]
struct PeekedEnds<I: Iterator> {
    items: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> PeekedEnds<I> {
    fn new(items: I) -> PeekedEnds<I> {
        PeekedEnds { items, front: None, back: None }
    }

    /// The slot of the next item of an end, filled if there is one.
    fn peek(&mut self, from_back: bool) -> &mut Option<I::Item> {
        if from_back {
            if self.back.is_none() {
                // The last item may already be the look-ahead of the other end.
                self.back = self.items.next_back().or_else(|| self.front.take());
            }
            &mut self.back
        } else {
            if self.front.is_none() {
                self.front = self.items.next().or_else(|| self.back.take());
            }
            &mut self.front
        }
    }
}

impl<'t> TransactionRange<'t> {
    pub(super) fn new(
        transaction: &'t Transaction,
        keyspace: &'t Keyspace,
        bounds: Bounds,
        place: Option<usize>,
        stored: Range,
        changes: Option<&'t Changes>,
    ) -> TransactionRange<'t> {
        // `BTreeMap::range` panics on a range that ends before it starts.
        let changes = changes.filter(|_| !bounds.is_empty());
        let own = changes.map_or_else(btree_map::Range::default, |changes| {
            changes.range::<[u8], _>((bounds.lower(), bounds.upper()))
        });
        TransactionRange {
            transaction,
            keyspace,
            place,
            stored: PeekedEnds::new(stored),
            own: PeekedEnds::new(own),
            bounds,
            front: None,
            back: None,
            is_finished: false,
        }
    }

    /// The next entry of an end.
    fn take(&mut self, from_back: bool) -> Result<Option<(Value, Value)>> {
        loop {
            let stored = self.stored.peek(from_back);
            if let Some(Err(_)) = stored {
                return stored.take().map_or(Ok(None), |entry| entry.map(Some));
            }
            let own = self.own.peek(from_back);
            let order = match (&*stored, &*own) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (Some(Ok((key, _))), Some((own, _))) => {
                    let order = (**key).cmp(&***own);
                    if from_back { order.reverse() } else { order }
                }
                _ => Ordering::Greater,
            };
            if order == Ordering::Less {
                return stored.take().transpose();
            }
            let hidden = if order == Ordering::Equal { stored.take().transpose()? } else { None };
            let Some((key, change)) = own.take() else { return Ok(None) };
            let value = match change {
                Pending::Put(value, _) => Value::copied(value),
                Pending::Delete => continue,
                Pending::Merge(merge) => {
                    let stored = hidden.as_ref().map(|(_, value)| &**value);
                    match merge.value(self.keyspace, key, stored, self.transaction.time_ms())? {
                        Some(value) => value,
                        None => continue,
                    }
                }
            };
            return Ok(Some((Value::copied(key), value)));
        }
    }

    fn step(&mut self, from_back: bool) -> Option<Result<(Value, Value)>> {
        if self.is_finished {
            return None;
        }
        let entry = self.take(from_back);
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
        self.step(false)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Result<(Value, Value)>> {
        self.step(true)
    }
}

impl FusedIterator for TransactionRange<'_> {}

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
