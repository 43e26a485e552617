//! The smallest transactions: one key is read and, if nobody changed it meanwhile, written.
//!
//! Each takes a snapshot, reads the key, and commits a batch of one with that key as its footprint. If
//! somebody was faster it begins again, and then somebody else's change has been made: whatever happens,
//! somebody gets on.

use super::read_set::Footprint;
use super::retry::pause;
use super::validate::Validation;
use crate::batch::WriteBatch;
use crate::commit::Patience;
use crate::{Keyspace, Snapshot, Value};
use esker_base::Result;

/// What became of a [`Keyspace::compare_and_set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareAndSet {
    /// The key had the expected value, and has the new one.
    Set,
    /// The key has this value, or none, which is not what was expected. Nothing was changed.
    Differs(Option<Value>),
}

impl CompareAndSet {
    /// Whether the new value was set.
    pub fn is_set(&self) -> bool {
        matches!(self, CompareAndSet::Set)
    }
}

/// What to do with a key once its value is known.
pub(crate) enum Next {
    /// To leave it alone.
    Keep,
    /// To set it, or to remove it.
    Write(Option<Vec<u8>>),
    /// It keeps its value, if it has one, until this time in milliseconds since 1970; `None` for good.
    End(Option<u64>),
}

impl Keyspace {
    /// Sets `key` to `new` (`None` removes it) if its value is `expected` (`None`: if it has none),
    /// atomically.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker_engine::Database::open("data")?;
    /// let locks = db.keyspace("locks")?;
    /// if locks.compare_and_set(b"door", None, Some(b"held by 7"))?.is_set() {
    ///     locks.compare_and_set(b"door", Some(b"held by 7"), None)?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::get`] and [`Keyspace::put`]; nothing was changed then.
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSet> {
        let mut is_expected = false;
        let found = self.change_one(key.as_ref(), |value| {
            is_expected = value == expected;
            match (is_expected, value, new) {
                (false, _, _) | (true, None, None) => Next::Keep,
                (true, _, new) => Next::Write(new.map(<[u8]>::to_vec)),
            }
        })?;
        Ok(if is_expected { CompareAndSet::Set } else { CompareAndSet::Differs(found) })
    }

    /// Sets `key` to `value` if it has none, atomically. Returns the value that it has already, `None` if
    /// `value` was set.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        match self.compare_and_set(key, None, Some(value.as_ref()))? {
            CompareAndSet::Set => Ok(None),
            CompareAndSet::Differs(current) => Ok(current),
        }
    }

    /// Sets `key` to what `update` makes of its value, atomically; `None` stands for no value on both sides.
    /// Returns the value that the key had before. `update` may run several times, and what it saw last
    /// counts.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker_engine::Database::open("data")?;
    /// let visits = db.keyspace("visits")?;
    /// visits.fetch_update(b"today", |count| {
    ///     let count = count.and_then(|count| count.try_into().ok()).map_or(0, u64::from_be_bytes);
    ///     Some((count + 1).to_be_bytes().to_vec())
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        self.change_one(key.as_ref(), |value| match (value, update(value)) {
            (None, None) => Next::Keep,
            (_, new) => Next::Write(new),
        })
    }

    /// Does with `key` what `decide` says of its value, which is returned; again if somebody changed it
    /// meanwhile.
    pub(crate) fn change_one(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Next,
    ) -> Result<Option<Value>> {
        let store = self.store();
        let mut batch = WriteBatch::new(store);
        let mut retries = 0;
        loop {
            let snapshot = Snapshot::unlisted(store);
            let value = self.at(&snapshot).get(key)?;
            match decide(value.as_deref()) {
                Next::Keep => return Ok(value),
                Next::Write(Some(new)) => batch.put(self, key, new),
                Next::Write(None) => batch.delete(self, key),
                Next::End(end) => match (&value, end) {
                    (None, _) => return Ok(value),
                    (Some(value), Some(expiry_ms)) => batch.put_with_expiry(self, key, value, expiry_ms),
                    (Some(value), None) => batch.put_for_good(self, key, value),
                },
            }
            let footprints = [Footprint::new(self.state(), vec![key], Vec::new())];
            let mut validation = Validation::new(&footprints, snapshot.seqno());
            let encoded = batch.encoded(store)?;
            match store.commit_if(&encoded, store.durability, Patience::Stall, &mut validation) {
                Ok(_) => return Ok(value),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
            drop(snapshot);
            batch.clear();
            if retries > 0 {
                pause(store, retries);
            }
            retries += 1;
        }
    }
}
