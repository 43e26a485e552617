//! Access to entries: what the transaction has changed, over the store as it is or as it was when it was
//! frozen.

use super::Txn;
use crate::layout::Space;
use esker::{BatchRange, BatchView, IndexedBatch, KeyRange, Result, Value};

impl Txn<'_> {
    fn over<'t>(&'t self, batch: &'t IndexedBatch, space: Space) -> BatchView<'t> {
        let view = batch.over(self.store.space(space));
        match &self.snapshot {
            None => view,
            Some(snapshot) => view.at(snapshot),
        }
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).get(key);
        }
        match (self.changes.get(space, key), &self.snapshot) {
            (Some(changed), _) => Ok(changed.map(Value::copied)),
            (None, None) => self.store.space(space).get(key),
            (None, Some(snapshot)) => self.store.space(space).at(snapshot).get(key),
        }
    }

    /// The values of several entries.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, space: Space, keys: &[K]) -> Result<Vec<Option<Value>>> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).multi_get(keys);
        }
        let stored = |keys: &[&[u8]]| match &self.snapshot {
            None => self.store.space(space).multi_get(keys),
            Some(snapshot) => self.store.space(space).at(snapshot).multi_get(keys),
        };
        if self.changes.is_empty() {
            return stored(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        }
        let mut values = Vec::with_capacity(keys.len());
        let (mut unchanged, mut places) = (Vec::new(), Vec::new());
        for (place, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            let changed = self.changes.get(space, key);
            if changed.is_none() {
                unchanged.push(key);
                places.push(place);
            }
            values.push(changed.flatten().map(Value::copied));
        }
        for (place, value) in places.into_iter().zip(stored(&unchanged)?) {
            values[place] = value;
        }
        Ok(values)
    }

    /// Whether an entry is there.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn contains(&self, space: Space, key: &[u8]) -> Result<bool> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).contains(key);
        }
        match (self.changes.get(space, key), &self.snapshot) {
            (Some(changed), _) => Ok(changed.is_some()),
            (None, None) => self.store.space(space).contains(key),
            (None, Some(snapshot)) => self.store.space(space).at(snapshot).contains(key),
        }
    }

    /// Entries in order, from either end.
    pub fn range(&self, space: Space, range: impl KeyRange) -> BatchRange<'_> {
        self.over(self.changes.ordered(self.store, space), space).range(range)
    }

    /// Shows the entries of a range, from its start or from its end, as long as `show` says so. That is the
    /// fast way to read many: in a keyspace that the transaction has not changed they are not copied.
    ///
    /// # Errors
    /// As [`Txn::get`], and those of `show`.
    pub fn visit(
        &self,
        space: Space,
        range: impl KeyRange,
        from_end: bool,
        mut show: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        if !self.changes.leave_alone(space) {
            let mut entries = self.range(space, range);
            while let Some(entry) = if from_end { entries.next_back() } else { entries.next() } {
                let (key, value) = entry?;
                if !show(&key, &value)? {
                    break;
                }
            }
            return Ok(());
        }
        let mut cursor = match &self.snapshot {
            None => self.store.space(space).cursor_in(range)?,
            Some(snapshot) => self.store.space(space).at(snapshot).cursor_in(range)?,
        };
        match from_end {
            false => cursor.seek_to_first()?,
            true => cursor.seek_to_last()?,
        }
        while let Some((key, value)) = cursor.entry() {
            if !show(key, value)? {
                break;
            }
            match from_end {
                false => cursor.advance()?,
                true => cursor.retreat()?,
            }
        }
        Ok(())
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// As [`Txn::get`]; `InvalidArgument` for a key or value that is too long.
    pub fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.changes.set(self.store, space, key, Some(value))
    }

    /// Deletes an entry.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.changes.set(self.store, space, key, None)
    }

    /// Deletes all entries of a range.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn delete_range(&mut self, space: Space, range: impl KeyRange) -> Result<()> {
        self.changes.delete_range(self.store, space, range)
    }

    /// Whether the transaction has surely not changed a keyspace.
    pub(crate) fn leaves_alone(&self, space: Space) -> bool {
        self.changes.leave_alone(space)
    }
}
