//! A range scan that merges pending changes with what is stored.

use super::deleted_ranges::DeletedRanges;
use super::writes::{Changes, Pending, Writes};
use crate::{Keyspace, Range, RangeWithExpiry, Value, ValueWithExpiry};
use esker_base::Result;
use esker_iter::Bounds;
use std::cmp::Ordering;
use std::collections::btree_map;

/// The entries of a range in key order, as pending changes over what is stored make them.
/// Lazy, and from both ends. After an error it must not be used any more.
pub(crate) struct OverlayRange<'o> {
    keyspace: &'o Keyspace,
    /// The time at which pending changes are judged.
    time_ms: u64,
    stored: PeekedEnds<RangeWithExpiry>,
    own: PeekedEnds<btree_map::Range<'o, Box<[u8]>, Pending>>,
    deleted: Option<&'o DeletedRanges>,
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

impl<'o> OverlayRange<'o> {
    /// The entries of `stored`, which has the same bounds, under `writes`.
    pub(crate) fn new(
        keyspace: &'o Keyspace,
        writes: &'o Writes,
        bounds: &Bounds,
        stored: Range,
        time_ms: u64,
    ) -> OverlayRange<'o> {
        // `BTreeMap::range` panics on a range that ends before it starts.
        let changes: Option<&Changes> = writes.of(keyspace.id()).filter(|_| !bounds.is_empty());
        let own = changes.map_or_else(btree_map::Range::default, |changes| {
            changes.range::<[u8], _>((bounds.lower(), bounds.upper()))
        });
        OverlayRange {
            keyspace,
            time_ms,
            stored: PeekedEnds::new(stored.with_expiry()),
            own: PeekedEnds::new(own),
            deleted: writes.deleted(keyspace.id()).filter(|deleted| !deleted.is_empty()),
        }
    }

    /// The next entry of an end.
    pub(crate) fn take(&mut self, from_back: bool) -> Result<Option<(Value, ValueWithExpiry)>> {
        loop {
            let stored = self.stored.peek(from_back);
            match (&*stored, self.deleted) {
                (Some(Err(_)), _) => return stored.take().transpose(),
                (Some(Ok((key, _))), Some(deleted)) if deleted.contains(key) => {
                    *stored = None;
                    continue;
                }
                _ => {}
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
            let below = || Ok(hidden.map(|(_, value)| value));
            if let Some(value) = change.seen(self.keyspace, key, self.time_ms, below)? {
                return Ok(Some((Value::copied(key), value)));
            }
        }
    }
}
