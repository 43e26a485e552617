//! A write batch with an index, which can be read over the database before it is written.

use super::view::BatchView;
use super::writes::{MergePart, Pending, Writes, check_sizes};
use crate::{Database, Expiry, KeyRange, Keyspace, WriteBatch};
use esker_base::{Error, Result};
use esker_engine::state::store::Store;
use esker_engine::write::write_options::Ends;
use esker_view::read::HalfOpen;
use esker_view::time;
use std::sync::{Arc, Weak};

impl Database {
    /// An empty batch that can be read: see [`IndexedBatch`].
    #[doc(alias = "WriteBatchWithIndex")]
    pub fn indexed_batch(&self) -> IndexedBatch {
        IndexedBatch { store: Arc::downgrade(self.store()), writes: Writes::default() }
    }
}

/// Changes that are read together with the database before they are written: gets and ranges
/// [over](IndexedBatch::over) a keyspace see the batch first, and below it what is stored.
///
/// Nothing is checked when the batch is written: what was read may have changed meanwhile. It is for callers
/// that keep others from changing the same keys by locks of their own; a [`Transaction`](crate::Transaction)
/// needs no locks, and costs a snapshot, a read set and a validation for that.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("esker-doc-indexed-{}", std::process::id()));
/// let db = esker::Database::open(&dir)?;
/// let carts = db.keyspace("carts")?;
/// carts.put("ada/tea", "1")?;
/// carts.put("alan/tea", "2")?;
///
/// let mut batch = db.indexed_batch();
/// batch.put(&carts, "ada/jam", "3")?;
/// batch.delete_range(&carts, "alan/".."alan0")?;
/// let cart: Vec<_> = batch.over(&carts).prefix("a").collect::<esker::Result<_>>()?;
/// assert_eq!(cart.len(), 2);
/// assert_eq!(cart[0], ("ada/jam".as_bytes().into(), "3".as_bytes().into()));
///
/// assert!(carts.contains("alan/tea")?, "nothing is written yet");
/// db.write(&batch.to_batch()?)?;
/// assert!(!carts.contains("alan/tea")?);
/// # db.close()?;
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok(()) }
/// ```
///
/// Only the last change of each key is kept. A change costs O(log changes) and about 80 bytes beside key and
/// value.
#[derive(Debug)]
#[doc(alias = "WriteBatchWithIndex")]
pub struct IndexedBatch {
    store: Weak<Store>,
    writes: Writes,
}

impl IndexedBatch {
    /// The batch over a keyspace, to read.
    #[doc(alias = "GetFromBatchAndDB")]
    #[doc(alias = "NewIteratorWithBase")]
    pub fn over<'b>(&'b self, keyspace: &'b Keyspace) -> BatchView<'b> {
        BatchView::new(self, keyspace)
    }

    /// Sets `key` to `value`. In a keyspace with a default TTL the value expires by it, counted from this
    /// call.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 65,535 bytes or a value over 512 MiB, or a keyspace of another
    /// database. The batch is as it was before then.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(keyspace, key, value, Expiry::Default)
    }

    /// Sets `key` to `value`, with this expiry, counted from this call. [`Expiry::Keep`] reads the key over
    /// the present.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`]; with [`Expiry::Keep`] those of [`Keyspace::get`].
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_owns(keyspace)?;
        check_sizes(key, value.len())?;
        let expiry_ms = match expiry.resolve(&keyspace.store().time, keyspace.state().default_ttl()) {
            Ends::Never => None,
            Ends::At(expiry_ms) => Some(expiry_ms),
            Ends::AsBefore => match self.over(keyspace).get_with_expiry(key)? {
                Some(before) => before.expiry.map(time::to_ms),
                None => keyspace.default_expiry_ms(),
            },
        };
        self.writes.set(keyspace, key, Pending::Put(value.into(), expiry_ms));
        Ok(())
    }

    /// Deletes `key`; no error if it has no value.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.check_owns(keyspace)?;
        check_sizes(key.as_ref(), 0)?;
        self.writes.set(keyspace, key.as_ref(), Pending::Delete);
        Ok(())
    }

    /// Deletes all keys in `range`, as [`Keyspace::delete_range`] does: those in the batch, and those that
    /// are stored when the batch is written. An empty range changes nothing. Ranges that overlap or touch
    /// become one; what is left counts against [`WriteBatch::MAX_RANGE_DELETES`].
    ///
    /// O(log changes), and O(changes) of the keyspace if it has any behind the range. A scan over the batch
    /// passes each stored entry that a range hides.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        self.check_owns(keyspace)?;
        if let Some(range) = HalfOpen::of(&range.into_bounds()) {
            check_sizes(&range.start, range.end.len())?;
            self.writes.delete_range(keyspace, range);
        }
        Ok(())
    }

    /// Merges an operand into the value of `key`, without reading it; see [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`IndexedBatch::put`]; `InvalidArgument` if the keyspace has no merge operator or rejects the
    /// operand; [`Error::Merge`] if it cannot be merged into a value of the batch.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_with(keyspace, key, operand, Expiry::Default)
    }

    /// Merges an operand into the value of `key`, with this expiry, counted from this call; see
    /// [`Keyspace::merge_with`].
    ///
    /// # Errors
    /// As [`IndexedBatch::merge`]; `InvalidArgument` for [`Expiry::Keep`].
    pub fn merge_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.check_owns(keyspace)?;
        check_sizes(key, operand.len())?;
        let operand = MergePart::operand(keyspace, key, operand, expiry)?;
        let deleted = self.writes.is_deleted(keyspace.id(), key).then_some(&Pending::Delete);
        let before = self.writes.get(keyspace.id(), key).or(deleted);
        let now_ms = keyspace.store().time.now_ms();
        let change = Pending::merged(before, keyspace.state().operand_merger()?, key, operand, now_ms)?;
        self.writes.set(keyspace, key, change);
        Ok(())
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of memory, estimated: keys, values and 80 bytes for each of them. There is no limit of its own;
    /// a batch that is written has at most half of the memory budget.
    #[doc(alias = "GetDataSize")]
    pub fn memory_bytes(&self) -> u64 {
        self.writes.bytes()
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.writes.clear();
    }

    /// The changes as a batch, for [`Database::write`](crate::Database::write). O(changes).
    ///
    /// # Errors
    /// `Closed` if no handle of the database is left. What the batch itself refuses, too many range deletes,
    /// say, is the error of the call that writes it.
    #[doc(alias = "GetWriteBatch")]
    pub fn to_batch(&self) -> Result<WriteBatch> {
        let store = self.store.upgrade().ok_or(Error::Closed)?;
        // The memory of a change is more than its bytes in the log.
        let mut batch = WriteBatch::with_capacity(&store, self.writes.bytes() as usize);
        self.writes.add_to(&mut batch);
        Ok(batch)
    }

    pub(super) fn writes(&self) -> &Writes {
        &self.writes
    }

    pub(super) fn check_owns(&self, keyspace: &Keyspace) -> Result<()> {
        if std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(keyspace.store())) {
            return Ok(());
        }
        let name = keyspace.name();
        Err(Error::invalid(format!("keyspace {name:?} belongs to another database than the batch")))
    }
}
