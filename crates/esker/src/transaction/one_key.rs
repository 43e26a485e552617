//! Single-key transactions: one key is read and, if unchanged meanwhile, written.
//!
//! Each takes a snapshot, reads the key, and commits a batch of one with that key as its read set. On a
//! conflict it begins again, and then another writer's change has been committed: in any case some writer
//! makes progress (lock-freedom).

use super::read_set::Footprint;
use super::retry::pause;
use super::validate::Validation;
use crate::WriteBatch;
use crate::handle::KeyUpdate;
use crate::{Expiry, Keyspace, Snapshot, Value, WriteOptions};
use esker_base::planted;
use esker_base::{Result, SeqNo};
use esker_engine::write::commit;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::write_options::Ends;
use esker_view::read::resolve::End;

/// The outcome of a [`Keyspace::compare_and_set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareAndSet {
    /// The key had the expected value, and has the new one.
    Set,
    /// The key has this value, or none, which differs from the expected one. Nothing was changed.
    Differs(Option<Value>),
}

impl CompareAndSet {
    /// Whether the new value was set.
    pub fn is_set(&self) -> bool {
        matches!(self, CompareAndSet::Set)
    }
}

/// What [`Keyspace::change`] does with the value that it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDecision {
    /// Nothing is written.
    Keep,
    /// The key gets this value.
    Put(Vec<u8>),
    /// The key is deleted.
    Delete,
}

/// What a [`Keyspace::change`] found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// The value that the key had before, which is what the decision was about.
    pub before: Option<Value>,
    /// The sequence number of the write; `None` if nothing was written.
    pub seqno: Option<SeqNo>,
}

impl Keyspace {
    /// Sets `key` to `new` (`None` removes it) if its value is `expected` (`None`: if it has none),
    /// atomically. A value that replaces another keeps its expiry; one that is new takes the keyspace's
    /// default TTL.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let locks = db.keyspace("locks")?;
    /// if locks.compare_and_set(b"door", None, Some(b"held by 7"))?.is_set() {
    ///     locks.compare_and_set(b"door", Some(b"held by 7"), None)?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::get`] and [`Keyspace::put`]; nothing was changed then.
    #[doc(alias = "compare_and_swap")]
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSet> {
        self.compare_and_set_with(key, expected, new, WriteOptions::new())
    }

    /// As [`Keyspace::compare_and_set`], with these options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<CompareAndSet> {
        let mut is_expected = false;
        let changed = self.change_one(key.as_ref(), options.into(), |value| {
            is_expected = (value == expected) != planted!(CompareAndSetReversed);
            match (is_expected, value, new) {
                (false, _, _) | (true, None, None) => KeyUpdate::Keep,
                (true, _, new) => KeyUpdate::Write(new.map(<[u8]>::to_vec)),
            }
        })?;
        Ok(if is_expected { CompareAndSet::Set } else { CompareAndSet::Differs(changed.before) })
    }

    /// Sets `key` to `value` if it has no value, atomically. Returns the existing value, `None` if `value`
    /// was set.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    #[doc(alias = "get_or_insert")]
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.put_if_absent_with(key, value, WriteOptions::new())
    }

    /// As [`Keyspace::put_if_absent`], with these options: for a lock, say, that ends by itself.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # use std::time::Duration;
    /// # use esker::Expiry;
    /// # let locks = esker::Database::open("data")?.keyspace("locks")?;
    /// let lease = Expiry::After(Duration::from_secs(30));
    /// let is_mine = locks.put_if_absent_with("door", "held by 7", lease)?.is_none();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<Option<Value>> {
        match self.compare_and_set_with(key, None, Some(value.as_ref()), options)? {
            CompareAndSet::Set => Ok(None),
            CompareAndSet::Differs(current) => Ok(current),
        }
    }

    /// Sets `key` to the result of `update` on its value, atomically; `None` stands for no value on both
    /// sides. Returns the value that the key had before. A value that replaces another keeps its expiry; one
    /// that is new takes the keyspace's default TTL. `update` may run several times, and its last run counts.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
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
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        self.fetch_update_with(key, WriteOptions::new(), update)
    }

    /// As [`Keyspace::fetch_update`], with these options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn fetch_update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let changed =
            self.change_one(key.as_ref(), options.into(), |value| match (value, update(value)) {
                (None, None) => KeyUpdate::Keep,
                (_, new) => KeyUpdate::Write(new),
            })?;
        Ok(changed.before)
    }

    /// Does with `key` what `decide` says about its value, atomically, and tells the value that it had and
    /// the sequence number of the write. The other operations on one key are decisions of this kind. A value
    /// that replaces another keeps its expiry; one that is new takes the keyspace's default TTL. `decide` may
    /// run several times, and its last run counts.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use esker::transaction::KeyDecision;
    ///
    /// let jobs = db.keyspace("jobs")?;
    /// // Takes the job if it is open.
    /// let changed = jobs.change(b"job 7", |state| match state {
    ///     Some(b"open") => KeyDecision::Put(b"mine".to_vec()),
    ///     _ => KeyDecision::Keep,
    /// })?;
    /// if let Some(seqno) = changed.seqno {
    ///     println!("readers of changes get it as {seqno}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn change(
        &self,
        key: impl AsRef<[u8]>,
        decide: impl FnMut(Option<&[u8]>) -> KeyDecision,
    ) -> Result<Changed> {
        self.change_with(key, WriteOptions::new(), decide)
    }

    /// As [`Keyspace::change`], with these options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    pub fn change_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
        mut decide: impl FnMut(Option<&[u8]>) -> KeyDecision,
    ) -> Result<Changed> {
        self.change_one(key.as_ref(), options.into(), |value| match decide(value) {
            KeyDecision::Keep => KeyUpdate::Keep,
            KeyDecision::Put(new) => KeyUpdate::Write(Some(new)),
            KeyDecision::Delete => KeyUpdate::Write(None),
        })
    }

    /// Applies the decision of `decide` about the value of `key`. Repeats if another
    /// writer changed the key meanwhile. A value that replaces another keeps its expiry unless `options` name
    /// one.
    pub(crate) fn change_one(
        &self,
        key: &[u8],
        options: WriteOptions,
        mut decide: impl FnMut(Option<&[u8]>) -> KeyUpdate,
    ) -> Result<Changed> {
        let store = self.store();
        let WriteMode { durability, stall_policy } = commit::write_mode(store, &options);
        let mut batch = WriteBatch::new(store);
        let mut retries = 0;
        loop {
            let snapshot = Snapshot::unlisted(store);
            let value = self.at(&snapshot).get(key)?;
            let new = match decide(value.as_deref()) {
                KeyUpdate::Keep => return Ok(Changed { before: value, seqno: None }),
                KeyUpdate::Write(new) => new,
                KeyUpdate::Rewrite => match &value {
                    None => return Ok(Changed { before: value, seqno: None }),
                    Some(value) => Some(value.to_vec()),
                },
            };
            match new {
                Some(new) => {
                    let ends = self.resolve_over(key, &snapshot, value.is_some(), options.expiry)?;
                    batch.put_until(self, key, &new, ends);
                }
                None => batch.delete(self, key),
            }
            let footprints = [Footprint::new(self.state(), vec![key], Vec::new())];
            let mut validation = Validation::new(&footprints, snapshot.seqno());
            let encoded = batch.encoded(store)?;
            match commit::commit_if(store, &encoded, durability, stall_policy, &mut validation) {
                Ok(seqno) => return Ok(Changed { before: value, seqno: Some(seqno) }),
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

    /// The expiry of a value that overwrites what `snapshot` shows of `key`; `None` for never.
    fn resolve_over(
        &self,
        key: &[u8],
        snapshot: &Snapshot,
        has_value: bool,
        expiry: Expiry,
    ) -> Result<Option<u64>> {
        let expiry = match expiry {
            Expiry::Default if has_value && !planted!(UpdateDropsExpiry) => Expiry::Keep,
            Expiry::Keep if !has_value => Expiry::Default,
            other => other,
        };
        Ok(match expiry.resolve(&self.store().time, self.state().default_ttl()) {
            Ends::Never => None,
            Ends::At(expiry_ms) => Some(expiry_ms),
            Ends::AsBefore => match self.at(snapshot).end(key)? {
                End::At(expiry_ms) => Some(expiry_ms),
                End::Never | End::Past => None,
            },
        })
    }
}
