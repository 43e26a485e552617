//! Writes of a keyspace handle: one entry each, encoded in a buffer of the thread.

use super::Keyspace;
use crate::WriteOptions;
use crate::handle::WriteBatch;
use crate::handle::key_update::KeyUpdate;
use esker_base::with_thread_buffer;
use esker_base::{KeyspaceId, Result, ValueKind};
use esker_engine::write::batch::{EncodedBatch, Share};
use esker_engine::write::commit;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::write_options::Ends;
use esker_view::read::KeyRange;
use esker_wal::BatchEncoder;
use std::cell::RefCell;

thread_local! {
    /// The buffer in which a single put is encoded: reused, so that a put allocates nothing.
    static SCRATCH: RefCell<BatchEncoder> = const { RefCell::new(BatchEncoder::new()) };
}

/// The buffer is dropped past this size, so that a thread does not keep the memory of one huge value.
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

impl Keyspace {
    /// Sets `key` to `value`, with the database's default durability. In a keyspace with a default TTL the
    /// value expires by it.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 65,535 bytes or a value over 512 MiB; `Full` if key and value
    /// together have more than half of the [memory budget](crate::Options::memory_budget), or the disk has no
    /// room; `ReadOnly`, `WouldStall`, `Closed`.
    #[doc(alias = "insert")]
    #[doc(alias = "set")]
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value, mode) =
            (key.as_ref(), value.as_ref(), commit::default_write_mode(&self.handle.store));
        match self.state.default_ttl() {
            None => self.write_one(ValueKind::Put, key, value, mode),
            Some(ttl) => self.write_expiring(key, value, self.handle.store.time.after(ttl), mode),
        }
    }

    /// Sets `key` to `value`, with these options: [`WriteOptions`], or a [`Durability`](crate::Durability)
    /// or an [`Expiry`](crate::Expiry) alone.
    ///
    /// Expiry is exact to the millisecond, by the database's time, which never runs backwards
    /// ([`crate::Database::now`]). Compaction frees the space of what has expired. An expiring entry takes
    /// 8 bytes more.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # use std::time::Duration;
    /// # use esker::{Durability, Expiry};
    /// # let sessions = esker::Database::open("data")?.keyspace("sessions")?;
    /// sessions.put_with("ada", "token", Expiry::After(Duration::from_secs(1800)))?;
    /// sessions.put_with("alan", "token", Durability::Power)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[doc(alias = "put_opt")]
    #[doc(alias = "ttl")]
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, value, options) = (key.as_ref(), value.as_ref(), options.into());
        let mode = commit::write_mode(&self.handle.store, &options);
        match options.expiry.resolve(&self.handle.store.time, self.state.default_ttl()) {
            Ends::Never => self.write_one(ValueKind::Put, key, value, mode),
            Ends::At(expiry_ms) => self.write_expiring(key, value, expiry_ms, mode),
            Ends::AsBefore => {
                self.change_one(key, options, |_| KeyUpdate::Write(Some(value.to_vec()))).map(|_| ())
            }
        }
    }

    /// Deletes `key`; no error if it has no value.
    #[doc(alias = "remove")]
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(ValueKind::Delete, key.as_ref(), &[], commit::default_write_mode(&self.handle.store))
    }

    /// Deletes `key`, with these options.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` for an expiry, which a delete does not have.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: impl Into<WriteOptions>) -> Result<()> {
        let options = options.into();
        options.check_without_expiry("a delete")?;
        self.write_one(ValueKind::Delete, key.as_ref(), &[], commit::write_mode(&self.handle.store, &options))
    }

    /// Deletes all keys in `range`, with the database's default durability. Costs as much as one put,
    /// whatever the range holds: space is freed when the tables in it are dropped or merged. Snapshots keep
    /// what they see; later puts are not affected. An empty range changes nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// events.delete_range("2024-01".."2024-02")?;
    /// events.delete_range(..="2023~")?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "DeleteRange")]
    #[doc(alias = "clear")]
    #[doc(alias = "truncate")]
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::new())
    }

    /// Deletes all keys in `range`, with these options.
    ///
    /// # Errors
    /// As [`Keyspace::delete_with`].
    pub fn delete_range_with(&self, range: impl KeyRange, options: impl Into<WriteOptions>) -> Result<()> {
        let options = options.into();
        options.check_without_expiry("a delete")?;
        let store = &self.handle.store;
        let mut batch = WriteBatch::new(store);
        batch.delete_range(self, range);
        let WriteMode { durability, stall_policy } = commit::write_mode(store, &options);
        commit::commit(store, &batch.encoded(store)?, durability, stall_policy).map(|_| ())
    }

    #[inline]
    fn write_one(&self, kind: ValueKind, key: &[u8], value: &[u8], mode: WriteMode) -> Result<()> {
        let bytes = (key.len() + value.len()) as u64;
        self.write_encoded(mode, bytes, Some((kind as u8, key, value)), |scratch, id| match kind {
            ValueKind::Put => scratch.put(id, key, value),
            _ => scratch.delete(id, key),
        })
    }

    /// Writes the one entry that `encode` puts into an empty batch. `bytes` are those of its key and value;
    /// `single` is the entry itself if it is available in the memtable's form.
    #[inline]
    pub(in crate::handle) fn write_encoded(
        &self,
        mode: WriteMode,
        bytes: u64,
        single: Option<(u8, &[u8], &[u8])>,
        encode: impl FnOnce(&mut BatchEncoder, KeyspaceId) -> Result<()>,
    ) -> Result<()> {
        with_thread_buffer(&SCRATCH, BatchEncoder::new, |scratch| {
            scratch.clear();
            encode(scratch, self.state.id)?;
            let share = Share { keyspace: self.state.id, entries: 1, bytes, range_deletes: 0 };
            let shares = std::slice::from_ref(&share);
            let batch = EncodedBatch { payload: scratch.payload(), count: 1, shares, single };
            let written =
                commit::commit(&self.handle.store, &batch, mode.durability, mode.stall_policy).map(|_| ());
            if scratch.capacity_bytes() > SCRATCH_KEPT_BYTES {
                *scratch = BatchEncoder::new();
            }
            written
        })
    }
}
