//! The transaction handle: reads, savepoints, commit and rollback.

use super::options::{Isolation, TransactionOptions};
use super::range::TransactionRange;
use super::read_set::Footprint;
use super::reads::Reads;
use super::validate::Validation;
use crate::handle::Handle;
use crate::overlay::{Pending, Writes};
use crate::{Database, KeyRange, Keyspace, Snapshot, Value, ValueWithExpiry, View, WriteBatch};
use esker_base::{Error, Result, SeqNo};
use esker_engine::state::store::Store;
use esker_engine::write::commit;
use esker_engine::write::write_stall::StallPolicy;
use esker_iter::Bounds;
use esker_view::read::open_readers::ReaderKind;
use esker_view::read::range::Range;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Database {
    /// A transaction that begins now, serializable, with the database's default durability.
    ///
    /// Costs a registered snapshot; see [`Transaction`].
    #[doc(alias = "BeginTransaction")]
    #[doc(alias = "begin_write")]
    #[doc(alias = "write_tx")]
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(TransactionOptions::default())
    }

    /// A transaction that begins now, with these options.
    pub fn transaction_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self.handle(), options)
    }
}

/// Reads and changes that belong together: a transaction sees one moment of the database and its own changes,
/// and its changes become visible and durable all at once, or not at all.
///
/// It is optimistic: nothing is locked, and [`Transaction::commit`] fails with [`Error::Conflict`] if data it
/// depends on was changed concurrently; [`Isolation`] defines what it depends on. Then repeat it, or let
/// [`crate::Database::transact`] repeat it. Dropping it is [`Transaction::rollback`].
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Database::open("data")?;
/// let stock = db.keyspace("stock")?;
/// let mut tx = db.transaction();
/// let left: u64 = tx.get(&stock, b"tea")?.map_or(0, |left| left.len() as u64);
/// if left > 0 {
///     tx.put(&stock, b"tea", vec![b'|'; left as usize - 1])?;
///     tx.commit()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[doc(alias = "OptimisticTransaction")]
#[doc(alias = "WriteBatchWithIndex")]
#[doc(alias = "WriteTransaction")]
#[doc(alias = "write_tx")]
pub struct Transaction {
    options: TransactionOptions,
    pub(super) writes: Writes,
    reads: RefCell<Reads>,
    pub(super) snapshot: Snapshot,
    handle: Arc<Handle>,
    /// Distinguishes its savepoints and cursors from those of other transactions; 0 while it has none.
    number: u64,
}

/// The number of the next transaction that sets a savepoint or makes a cursor.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A point in a transaction to roll back to, see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "SetSavePoint")]
pub struct Savepoint {
    /// The transaction it belongs to.
    transaction: u64,
    number: u64,
}

impl Transaction {
    pub(crate) fn new(handle: &Arc<Handle>, options: TransactionOptions) -> Transaction {
        Transaction {
            options,
            writes: Writes::default(),
            reads: RefCell::default(),
            snapshot: Snapshot::of_kind(&handle.store, ReaderKind::Transaction),
            handle: Arc::clone(handle),
            number: 0,
        }
    }

    fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    /// The time at which its reads judge expiry, in milliseconds since 1970.
    pub(super) fn time_ms(&self) -> u64 {
        self.snapshot.time_ms()
    }

    /// Its number, which no other transaction has.
    pub(super) fn number(&mut self) -> u64 {
        if self.number == 0 {
            self.number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        }
        self.number
    }

    /// The sequence number of the last operation it sees.
    pub fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    /// Bytes of memory of its changes and its read set, as they count against
    /// [`TransactionOptions::memory_limit`].
    pub fn memory_bytes(&self) -> u64 {
        self.writes.bytes() + self.reads.borrow().bytes()
    }

    // ---- reading

    /// The value of `key`.
    ///
    /// # Errors
    /// `Full` past the memory limit; `Closed`; those of reading.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_depending(keyspace, key.as_ref(), self.is_serializable())
    }

    /// The value of `key`, which joins the read set at either isolation level.
    pub fn get_for_update(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_depending(keyspace, key.as_ref(), true)
    }

    /// The value of `key` and its expiry; see [`Keyspace::get_with_expiry`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_with_expiry(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueWithExpiry>> {
        let key = key.as_ref();
        let stored = || {
            if self.is_serializable() {
                self.depend_on(keyspace, key)?;
            }
            keyspace.at(&self.snapshot).get_with_expiry(key)
        };
        match self.writes.get(keyspace.id(), key) {
            None => stored(),
            Some(change) => change.seen(keyspace, key, self.time_ms(), stored),
        }
    }

    /// Whether `key` has a value.
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.writes.get(keyspace.id(), key) {
            Some(Pending::Put(..)) => return Ok(true),
            Some(Pending::Delete) => return Ok(false),
            Some(Pending::Merge(_)) => return Ok(self.get(keyspace, key)?.is_some()),
            None => {}
        }
        if self.is_serializable() {
            self.depend_on(keyspace, key)?;
        }
        keyspace.at(&self.snapshot).contains(key)
    }

    /// The values of several keys, in their order. Keys that the transaction has not changed are looked up
    /// together.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi(keyspace, keys, Transaction::get, |keys| keyspace.at(&self.snapshot).multi_get(keys))
    }

    /// The values of several keys with their expiries, in the order of the keys, looked up as by
    /// [`Transaction::multi_get`].
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.multi(keyspace, keys, Transaction::get_with_expiry, |keys| {
            keyspace.at(&self.snapshot).multi_get_with_expiry(keys)
        })
    }

    /// The results for several keys: of `own` for one that the transaction has changed, of `stored` for all
    /// others together.
    fn multi<'k, K: AsRef<[u8]>, V>(
        &self,
        keyspace: &Keyspace,
        keys: &'k [K],
        own: fn(&Transaction, &Keyspace, &'k [u8]) -> Result<Option<V>>,
        stored: impl FnOnce(&[&[u8]]) -> Result<Vec<Option<V>>>,
    ) -> Result<Vec<Option<V>>> {
        let mut values = Vec::with_capacity(keys.len());
        let (mut unchanged, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            let key = key.as_ref();
            if self.writes.get(keyspace.id(), key).is_some() {
                values.push(own(self, keyspace, key)?);
                continue;
            }
            if self.is_serializable() {
                self.depend_on(keyspace, key)?;
            }
            unchanged.push(key);
            places.push(values.len());
            values.push(None);
        }
        for (at, value) in places.into_iter().zip(stored(&unchanged)?) {
            values[at] = value;
        }
        Ok(values)
    }

    /// The entries in a range of keys, forwards and backwards, merged with the transaction's own changes. If
    /// the iterator cannot be created, the error is its first item.
    pub fn range<'t>(&'t self, keyspace: &'t Keyspace, range: impl KeyRange) -> TransactionRange<'t> {
        self.range_within(keyspace, range.into_bounds())
    }

    /// The entries whose keys start with `prefix`.
    pub fn prefix<'t>(&'t self, keyspace: &'t Keyspace, prefix: impl AsRef<[u8]>) -> TransactionRange<'t> {
        self.range_within(keyspace, Bounds::prefix(prefix.as_ref()))
    }

    /// All entries.
    pub fn iter<'t>(&'t self, keyspace: &'t Keyspace) -> TransactionRange<'t> {
        self.range_within(keyspace, Bounds::default())
    }

    /// The keys in a range, as [`Transaction::range`] gives them with their values.
    pub fn keys<'t>(
        &'t self,
        keyspace: &'t Keyspace,
        range: impl KeyRange,
    ) -> impl DoubleEndedIterator<Item = Result<Value>> {
        self.range_within(keyspace, range.into_bounds()).map(|entry| entry.map(|(key, _)| key))
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next_back().transpose()
    }

    fn range_within<'t>(&'t self, keyspace: &'t Keyspace, bounds: Bounds) -> TransactionRange<'t> {
        let (place, stored) = match self.depend_on_range(keyspace, &bounds) {
            Ok(place) => (place, keyspace.at(&self.snapshot).range_within(bounds.clone())),
            Err(error) => (None, Range::new(Err(error), bounds.clone())),
        };
        TransactionRange::new(self, keyspace, bounds, place, stored)
    }

    /// Records a range before it is read; returns its index in the read set if the transaction depends on
    /// it, for [`Transaction::narrow`].
    pub(super) fn depend_on_range(&self, keyspace: &Keyspace, bounds: &Bounds) -> Result<Option<usize>> {
        self.check_limit(Reads::range_cost(bounds))?;
        let depends = self.is_serializable() && !bounds.is_empty();
        Ok(depends.then(|| self.reads.borrow_mut().add_range(keyspace, bounds.clone())))
    }

    pub(super) fn narrow(&self, keyspace: &Keyspace, place: usize, pieces: [Option<Bounds>; 2]) {
        self.reads.borrow_mut().narrow(keyspace, place, pieces);
    }

    pub(super) fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    #[inline]
    fn get_depending(&self, keyspace: &Keyspace, key: &[u8], depends: bool) -> Result<Option<Value>> {
        let stored = || -> Result<View<'_>> {
            if depends {
                self.depend_on(keyspace, key)?;
            }
            Ok(keyspace.at(&self.snapshot))
        };
        let Some(change) = self.writes.get(keyspace.id(), key) else { return stored()?.get(key) };
        let seen = change.seen(keyspace, key, self.time_ms(), || stored()?.get_with_expiry(key))?;
        Ok(seen.map(|seen| seen.value))
    }

    pub(super) fn depend_on(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        match self.check_limit(Reads::point_cost(key)) {
            Ok(()) => self.reads.borrow_mut().add_point(keyspace, key),
            // Nothing new has to be recorded.
            Err(_) if self.reads.borrow().has_point(keyspace.id(), key) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn check_limit(&self, more: u64) -> Result<()> {
        if self.memory_bytes() + more <= self.options.memory_limit_bytes {
            return Ok(());
        }
        self.reads.borrow_mut().remove_repetitions();
        let bytes = self.memory_bytes() + more;
        if bytes > self.options.memory_limit_bytes { Err(self.over_limit(bytes)) } else { Ok(()) }
    }

    #[cold]
    fn over_limit(&self, bytes: u64) -> Error {
        let limit = self.options.memory_limit_bytes;
        Error::Full(format!(
            "the transaction's changes and what it remembers of its reads would take {bytes} bytes, its limit is {limit} bytes"
        ).into())
    }

    /// Sets a savepoint for [`Transaction::rollback_to`]. Costs a few bytes, and from here on each change
    /// also keeps what it replaced.
    #[doc(alias = "SetSavePoint")]
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { transaction: self.number(), number: self.writes.savepoint() }
    }

    /// Reverts the changes since `savepoint`, which stays; later savepoints are removed. Reads since then
    /// stay in the read set, because the caller knows their results.
    ///
    /// # Errors
    /// `InvalidArgument` if the savepoint is of another transaction, or removed.
    #[doc(alias = "RollbackToSavePoint")]
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if savepoint.transaction != self.number {
            return Err(Error::invalid("the savepoint belongs to another transaction"));
        }
        match self.writes.rollback_to(savepoint.number) {
            true => Ok(()),
            false => Err(Error::invalid("the savepoint is gone: an earlier one was rolled back to since")),
        }
    }

    // ---- the end

    /// Discards all changes, which were never visible to others.
    #[doc(alias = "abort")]
    pub fn rollback(self) {}

    /// Makes the changes visible and as durable as the options say, all at once. Returns the sequence number
    /// of the last of them; for a transaction without changes, that of its snapshot, without any check.
    ///
    /// Takes time linear in the number of changes and of the read set, most of it outside of all locks;
    /// nothing is checked if there was no other commit since the transaction began.
    ///
    /// # Errors
    /// [`Error::Conflict`] with the key and the sequence number of a change that the transaction depends on
    /// and has not seen; those of [`crate::Database::write`]. Nothing was written then.
    pub fn commit(self) -> Result<SeqNo> {
        let store = self.store();
        store.check_open()?;
        if self.writes.is_empty() {
            return Ok(self.snapshot.seqno());
        }
        // The memory of a change is more than its bytes in the log.
        let mut batch = WriteBatch::with_capacity(store, self.writes.bytes() as usize);
        self.writes.add_to(&mut batch);
        let reads = self.reads.borrow();
        let footprints = self.footprints(&reads);
        let mut validation = Validation::new(&footprints, self.snapshot.seqno());
        validation.begin(store)?;
        let durability = self.options.durability.unwrap_or(store.durability);
        commit::commit_if(store, &batch.encoded(store)?, durability, StallPolicy::Stall, &mut validation)
    }

    /// What the commit depends on: the changed keys and the read set.
    fn footprints<'t>(&'t self, reads: &'t Reads) -> Vec<Footprint<'t>> {
        let mut footprints = Vec::new();
        for (keyspace, changes) in self.writes.keyspaces() {
            let read = reads.find(keyspace.id());
            let points = changes.keys().map(|key| &**key).chain(read.iter().flat_map(|of| of.points.iter()));
            let points = points.collect();
            let ranges = read.iter().flat_map(|of| of.ranges.iter().flatten().cloned());
            footprints.push(Footprint::new(keyspace.state(), points, ranges.collect()));
        }
        for of in reads.keyspaces() {
            if self.writes.of(of.keyspace.id()).is_none_or(|changes| changes.is_empty()) {
                let points = of.points.iter().collect();
                let ranges = of.ranges.iter().flatten().cloned().collect();
                footprints.push(Footprint::new(of.keyspace.state(), points, ranges));
            }
        }
        footprints
    }

    pub(super) fn attempts(&self) -> u32 {
        self.options.attempts
    }
}
