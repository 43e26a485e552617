//! Reads of a batch over what is stored.

use super::OverlayRange;
use super::batch::IndexedBatch;
use super::writes::Pending;
use crate::{KeyRange, Keyspace, Snapshot, Value, ValueWithExpiry};
use esker_base::Result;
use esker_iter::Bounds;
use esker_view::read::Pinned;
use std::iter::FusedIterator;

/// A keyspace under an [`IndexedBatch`]. Each call reads the present below the batch, unless a snapshot was
/// chosen by [`BatchView::at`].
#[derive(Clone, Copy, Debug)]
#[doc(alias = "BaseDeltaIterator")]
pub struct BatchView<'b> {
    batch: &'b IndexedBatch,
    keyspace: &'b Keyspace,
    snapshot: Option<&'b Snapshot>,
}

/// What a batch says about a key.
enum Own<'b> {
    /// Nothing: what is stored counts.
    Unchanged,
    /// A range delete hides what is stored.
    Deleted,
    /// The key was changed.
    Changed(&'b Pending),
}

impl<'b> BatchView<'b> {
    pub(super) fn new(batch: &'b IndexedBatch, keyspace: &'b Keyspace) -> BatchView<'b> {
        BatchView { batch, keyspace, snapshot: None }
    }

    /// The same over what `snapshot` sees of the keyspace.
    pub fn at(self, snapshot: &'b Snapshot) -> BatchView<'b> {
        BatchView { snapshot: Some(snapshot), ..self }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of [`Keyspace::get`]; `InvalidArgument` for a keyspace or snapshot of another database.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        match self.own(key) {
            Own::Unchanged => self.pin()?.get(key),
            _ => Ok(self.get_with_expiry(key)?.map(|found| found.value)),
        }
    }

    /// The value of `key` and its expiry; see [`Keyspace::get_with_expiry`].
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueWithExpiry>> {
        self.seen(&mut self.pin()?, key.as_ref())
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.own(key) {
            Own::Unchanged => self.pin()?.contains(key),
            _ => Ok(self.get_with_expiry(key)?.is_some()),
        }
    }

    /// The values of several keys, in their order; those that the batch did not change are of one moment and
    /// looked up together, as by [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi(keys, |found| found.value, |pinned, keys| pinned.multi_get(keys))
    }

    /// The values of several keys with their expiries, in the order of the keys.
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.multi(keys, |found| found, |pinned, keys| pinned.multi_get_with_expiry(keys))
    }

    /// The entries in a range of keys, forwards and backwards. If the iterator cannot be created, the error
    /// is its first item.
    pub fn range(&self, range: impl KeyRange) -> BatchRange<'b> {
        self.range_within(&range.into_bounds())
    }

    /// The entries whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> BatchRange<'b> {
        self.range_within(&Bounds::prefix(prefix.as_ref()))
    }

    /// All entries.
    pub fn iter(&self) -> BatchRange<'b> {
        self.range_within(&Bounds::default())
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.iter().next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`BatchView::get`].
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.iter().next_back().transpose()
    }

    fn pin(&self) -> Result<Pinned> {
        self.batch.check_owns(self.keyspace)?;
        match self.snapshot {
            None => self.keyspace.pin(),
            Some(snapshot) => self.keyspace.at(snapshot).pin(),
        }
    }

    fn own(&self, key: &[u8]) -> Own<'b> {
        let (writes, id) = (self.batch.writes(), self.keyspace.id());
        match writes.get(id, key) {
            Some(change) => Own::Changed(change),
            None if writes.is_deleted(id, key) => Own::Deleted,
            None => Own::Unchanged,
        }
    }

    /// What a reader of the batch over `pinned` sees of a key.
    fn seen(&self, pinned: &mut Pinned, key: &[u8]) -> Result<Option<ValueWithExpiry>> {
        match self.own(key) {
            Own::Unchanged => pinned.get_with_expiry(key),
            Own::Deleted => Ok(None),
            Own::Changed(change) => {
                let now_ms = pinned.time.fix(&pinned.view.semantics);
                let is_deleted = || self.batch.writes().is_deleted(self.keyspace.id(), key);
                let below = || if is_deleted() { Ok(None) } else { pinned.get_with_expiry(key) };
                change.seen(self.keyspace, key, now_ms, below)
            }
        }
    }

    fn multi<'k, K: AsRef<[u8]>, V>(
        &self,
        keys: &'k [K],
        form: fn(ValueWithExpiry) -> V,
        stored: impl FnOnce(&Pinned, &[&'k [u8]]) -> Result<Vec<Option<V>>>,
    ) -> Result<Vec<Option<V>>> {
        let mut pinned = self.pin()?;
        // All of one time as well.
        pinned.time.fix(&pinned.view.semantics);
        let mut values = Vec::with_capacity(keys.len());
        let (mut unchanged, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            let key = key.as_ref();
            if let Own::Unchanged = self.own(key) {
                unchanged.push(key);
                places.push(values.len());
                values.push(None);
            } else {
                values.push(self.seen(&mut pinned, key)?.map(form));
            }
        }
        for (at, value) in places.into_iter().zip(stored(&pinned, &unchanged)?) {
            values[at] = value;
        }
        Ok(values)
    }

    fn range_within(&self, bounds: &Bounds) -> BatchRange<'b> {
        let mut pinned = self.pin();
        let now_ms = pinned.as_mut().map_or(0, |pinned| pinned.time.fix(&pinned.view.semantics));
        let stored = self.keyspace.range_of(pinned, bounds.clone());
        let entries = OverlayRange::new(self.keyspace, self.batch.writes(), bounds, stored, now_ms);
        BatchRange { entries, is_finished: false }
    }
}

/// The entries of a range in key order, as a batch over what is stored shows them; [`BatchView::range`] makes
/// one. Lazy, and from both ends. After an error the iterator is at its end.
///
/// The batch cannot be changed while the range is alive.
pub struct BatchRange<'b> {
    entries: OverlayRange<'b>,
    is_finished: bool,
}

impl<'b> BatchRange<'b> {
    /// The entries not returned yet, each value with its expiry. Costs no further read.
    pub fn with_expiry(self) -> BatchRangeWithExpiry<'b> {
        BatchRangeWithExpiry(self)
    }

    fn step(&mut self, from_back: bool) -> Option<Result<(Value, ValueWithExpiry)>> {
        if self.is_finished {
            return None;
        }
        let entry = self.entries.take(from_back).transpose();
        self.is_finished = !matches!(entry, Some(Ok(_)));
        entry
    }
}

fn without_expiry(entry: Result<(Value, ValueWithExpiry)>) -> Result<(Value, Value)> {
    entry.map(|(key, found)| (key, found.value))
}

impl Iterator for BatchRange<'_> {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Result<(Value, Value)>> {
        self.step(false).map(without_expiry)
    }
}

impl DoubleEndedIterator for BatchRange<'_> {
    fn next_back(&mut self) -> Option<Result<(Value, Value)>> {
        self.step(true).map(without_expiry)
    }
}

impl FusedIterator for BatchRange<'_> {}

impl std::fmt::Debug for BatchRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchRange").finish_non_exhaustive()
    }
}

/// The entries of a [`BatchRange`], each value with its expiry.
#[derive(Debug)]
pub struct BatchRangeWithExpiry<'b>(BatchRange<'b>);

impl Iterator for BatchRangeWithExpiry<'_> {
    type Item = Result<(Value, ValueWithExpiry)>;

    fn next(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        self.0.step(false)
    }
}

impl DoubleEndedIterator for BatchRangeWithExpiry<'_> {
    fn next_back(&mut self) -> Option<Result<(Value, ValueWithExpiry)>> {
        self.0.step(true)
    }
}

impl FusedIterator for BatchRangeWithExpiry<'_> {}
