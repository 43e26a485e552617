//! Look-ahead: records and elements that following commands will ask for, read by one multi-get (AH1).

use super::Txn;
use crate::layout::{Space, record_key};
use esker::{Result, Value};

impl Txn<'_> {
    /// Looks the records of several keys up together, in the order in which [`Txn::entry`] will be asked for
    /// them. The caller holds their stripes until the next commit.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn look_ahead<'k>(&mut self, db: u16, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let physical = self.physical(db);
        self.ahead.clear();
        let (mut keys, mut times) = (keys.peekable(), 1);
        while let Some(key) = keys.next() {
            if keys.peek() == Some(&key) {
                times += 1;
            } else {
                self.ahead.want(record_key(physical, key), std::mem::replace(&mut times, 1));
            }
        }
        let found = self.store.space(Space::Keys).multi_get(&self.ahead.keys())?;
        self.ahead.found(found);
        Ok(())
    }

    /// The record of a key, from memory if it was looked up ahead.
    pub(crate) fn record_of(&mut self, record_key: &[u8]) -> Result<Option<Value>> {
        self.looked_up(Space::Keys, record_key)
    }

    /// The value of an entry, from memory if it was looked up ahead and is not changed (AH1).
    fn looked_up(&mut self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        let ahead = if space == Space::Keys { &mut self.ahead } else { &mut self.elements_ahead };
        if ahead.is_empty() || self.snapshot.is_some() || self.changes.indexed().is_some() {
            return self.get(space, key);
        }
        if let Some(changed) = self.changes.get(space, key) {
            return Ok(changed.map(Value::copied));
        }
        match ahead.take(key) {
            Some(found) => Ok(found),
            None => self.get(space, key),
        }
    }

    /// How often the following commands will ask for a record, the next of them in succession, as far as
    /// [`Txn::look_ahead`] was told.
    pub(crate) fn times_ahead(&self, record_key: &[u8]) -> usize {
        self.ahead.times(record_key)
    }

    /// The record of a key if it was looked up ahead and no command has asked for it since.
    pub(crate) fn record_ahead(&self, record_key: &[u8]) -> Option<&Value> {
        self.ahead.peek(record_key)
    }

    /// Looks elements up together, in the order in which [`Txn::element`] will be asked for them. The caller
    /// holds the stripe of their key until the next commit.
    pub(crate) fn look_at_elements(&mut self, keys: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        self.elements_ahead.clear();
        keys.for_each(|key| self.elements_ahead.want(key, 1));
        let found = self.store.space(Space::Elements).multi_get(&self.elements_ahead.keys())?;
        self.elements_ahead.found(found);
        Ok(())
    }

    /// The value of an element, from memory if it was looked up ahead.
    pub(crate) fn element(&mut self, key: &[u8]) -> Result<Option<Value>> {
        self.looked_up(Space::Elements, key)
    }

    /// AH1.
    pub(super) fn forget_ahead(&mut self) {
        self.ahead.clear();
        self.elements_ahead.clear();
    }
}
