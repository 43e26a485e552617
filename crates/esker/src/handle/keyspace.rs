//! A keyspace handle.

use super::key_update::KeyUpdate;
use super::option_update::OptionUpdate;
use super::snapshot::{Snapshot, View};
use super::{Handle, WriteBatch};
use crate::{Value, WriteOptions};
use esker_base::with_thread_buffer;
use esker_base::{KeyspaceId, Result, SeqNo, ValueKind};
use esker_engine::background::compact::manual;
use esker_engine::background::flush_group;
use esker_engine::background::kept_tables::KeptTables;
use esker_engine::background::migration;
use esker_engine::background::migration::MigrationInfo;
use esker_engine::lifecycle::keyspace::change;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_engine::write::batch::{EncodedBatch, Share};
use esker_engine::write::commit;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::write_options::Ends;
use esker_iter::Bounds;
use esker_options::KeyspaceOptions;
use esker_view::read::open_readers::ReaderKind;
use esker_view::read::scan_tally::ScanTally;
use esker_view::read::{KeyRange, Pinned};
use esker_view::read::{cursor::Cursor, keys::Keys, range::Range};
use esker_view::semantics::ReadTime;
use esker_wal::BatchEncoder;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

thread_local! {
    /// The buffer in which a single put is encoded: reused, so that a put allocates nothing.
    static SCRATCH: RefCell<BatchEncoder> = const { RefCell::new(BatchEncoder::new()) };
}

/// The buffer is dropped past this size, so that a thread does not keep the memory of one huge value.
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// A named, ordered map from keys to values inside a database.
#[doc(alias = "column family")]
#[derive(Clone, Debug)]
#[doc(alias = "ColumnFamily")]
#[doc(alias = "ColumnFamilyHandle")]
#[doc(alias = "Partition")]
#[doc(alias = "PartitionHandle")]
#[doc(alias = "Table")]
#[doc(alias = "Tree")]
#[doc(alias = "bucket")]
pub struct Keyspace {
    handle: Arc<Handle>,
    state: Arc<KeyspaceState>,
}

impl Keyspace {
    pub(crate) fn new(handle: Arc<Handle>, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { handle, state }
    }

    /// Its parts, for calls in other modules.
    pub(crate) fn parts(&self) -> (&Arc<Handle>, &Arc<KeyspaceState>) {
        (&self.handle, &self.state)
    }

    /// Its present name; [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    pub fn name(&self) -> Arc<str> {
        self.state.name()
    }

    /// Its id, which is never reused.
    pub fn id(&self) -> KeyspaceId {
        self.state.id
    }

    /// Its present options.
    #[doc(alias = "GetOptions")]
    #[doc(alias = "GetDescriptor")]
    pub fn options(&self) -> KeyspaceOptions {
        self.state.options().without_switch()
    }

    /// Changes its options: `change` gets the present ones and returns the new ones. Durable when it returns.
    /// Every option may be changed. The sizes at which a memtable is sealed and the limit of level 0 apply
    /// from the next write on; the kind of memtable to the next memtable; everything else to tables, and
    /// plans of compactions, that are made from now on. Existing tables stay as they are until a compaction
    /// rewrites them: the answer says which of the changed options they keep, and how many tables of how many
    /// bytes that are, and so does the log. An `index_type` that is made in memory holds as soon as a table
    /// is opened; `b-tree-pages` and `hash-locator` must have been written with the table.
    ///
    /// O(tables).
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// let kept = events.update_options(|options| options.block_size(16 << 10).level0_stop_runs(40))?;
    /// if !kept.is_empty() {
    ///     println!("{kept}"); // 12 tables of 402653184 bytes keep their block_size until they are merged
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// `change` may be called again if another thread changes options at the same time. It must not change
    /// the options of the same keyspace itself.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option, for one out of range; nothing is changed then. `InvalidArgument`
    /// for a call inside of `change`. `NotFound` if the keyspace was dropped, `ReadOnly`, `Closed`.
    #[doc(alias = "SetOptions")]
    #[doc(alias = "DisableAutoCompactions")]
    pub fn update_options(&self, change: impl Fn(KeyspaceOptions) -> KeyspaceOptions) -> Result<KeptTables> {
        let _update = OptionUpdate::begin(&self.state)?;
        loop {
            let before = self.state.options();
            let after = change(before.without_switch());
            if let Some(kept) = change::replace_options(&self.handle.store, &self.state, &before, after)? {
                return Ok(kept);
            }
        }
    }

    /// The progress of a change of strategy: `None` when it is finished, or if nothing had to be rewritten.
    ///
    /// The strategy and its size ratio may be changed at any time, by [`Keyspace::update_options`]. Reads and
    /// writes continue; existing data is rewritten step by step, in jobs of limited size, at lower priority
    /// than the work that writes need. The change is durable and continues after a reopen. To revert it, set
    /// the previous strategy; data that was rewritten stays legal.
    ///
    /// O(tables).
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// events.update_options(|options| options.set("strategy", "leveled:10").expect("a strategy"))?;
    /// if let Some(migration) = events.migration() {
    ///     println!("from {} to {}: {} %", migration.from, migration.to, migration.percent_done());
    /// }
    /// events.pause_migration()?;
    /// # Ok(()) }
    /// ```
    pub fn migration(&self) -> Option<MigrationInfo> {
        migration::migration(&self.handle.store, &self.state)
    }

    /// Pauses the migration of the tree, except for work that writes need. Durable; nothing happens if there
    /// is no migration.
    ///
    /// # Errors
    /// `NotFound` if the keyspace was dropped, `ReadOnly`, `Closed`, and those of writing the manifest.
    pub fn pause_migration(&self) -> Result<()> {
        migration::pause_migration(&self.handle.store, &self.state, true)
    }

    /// Resumes a paused migration.
    ///
    /// # Errors
    /// As [`Keyspace::pause_migration`].
    pub fn resume_migration(&self) -> Result<()> {
        migration::pause_migration(&self.handle.store, &self.state, false)
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    pub(crate) fn state(&self) -> &Arc<KeyspaceState> {
        &self.state
    }

    // ---- writing

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
    pub(super) fn write_encoded(
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

    // ---- reading

    /// The present, pinned. The view first, then the sequence number (RV1); the view also before the mark of
    /// a dropped keyspace, which is set before the view is emptied.
    #[inline(always)]
    pub(crate) fn pin(&self) -> Result<Pinned> {
        let store = &self.handle.store;
        store.check_open()?;
        let view = self.state.view.pin();
        self.state.check_living()?;
        let seqno = SeqNo::new(store.visible.load(Ordering::Acquire));
        Ok(Pinned { view, seqno, time: ReadTime::PRESENT })
    }

    /// The value of `key`.
    #[inline]
    #[doc(alias = "GetPinnableSlice")]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.pin()?.get(key.as_ref())
    }

    /// Passes the value of `key`, or `None`, to `read` without copying or allocating.
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.pin()?.get_with(key.as_ref(), read)
    }

    /// Whether `key` has a value.
    #[inline]
    #[doc(alias = "KeyMayExist")]
    #[doc(alias = "contains_key")]
    #[doc(alias = "exists")]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.pin()?.contains(key.as_ref())
    }

    /// The values of several keys, in their order, all of one moment. The cache misses of the keys overlap,
    /// so this is several times faster than as many calls of [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.pin()?.multi_get(keys)
    }

    /// The entries in a range of keys, forwards and backwards. If the iterator cannot be created, the error
    /// is its first item.
    #[doc(alias = "iterator")]
    #[doc(alias = "NewIterator")]
    #[doc(alias = "scan")]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_of(self.pin(), range.into_bounds())
    }

    /// The entries whose keys start with `prefix`.
    #[doc(alias = "prefix_iterator")]
    #[doc(alias = "scan_prefix")]
    #[doc(alias = "prefix_same_as_start")]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range_of(self.pin(), Bounds::prefix(prefix.as_ref()))
    }

    /// All entries.
    #[doc(alias = "iterator")]
    #[doc(alias = "NewIterator")]
    #[doc(alias = "full_iterator")]
    pub fn iter(&self) -> Range {
        self.range_of(self.pin(), Bounds::default())
    }

    /// The keys in a range, without their values: large values, which are stored in separate files, are not
    /// read.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let images = db.keyspace("images")?;
    /// for key in images.keys("2024-"..) {
    ///     println!("{}", key?.escape_ascii());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn keys(&self, range: impl KeyRange) -> Keys {
        self.keys_of(self.pin(), range.into_bounds())
    }

    /// The entry with the smallest key.
    #[doc(alias = "first_key_value")]
    #[doc(alias = "SeekToFirst")]
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.first()
    }

    /// The entry with the greatest key.
    #[doc(alias = "last_key_value")]
    #[doc(alias = "SeekToLast")]
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.last()
    }

    /// A cursor over all entries.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// # let users = db.keyspace("users")?;
    /// let mut cursor = users.cursor()?;
    /// cursor.seek(b"b")?;
    /// while let Some((key, value)) = cursor.entry() {
    ///     println!("{} {}", key.escape_ascii(), value.len());
    ///     cursor.advance()?;
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "NewIterator")]
    #[doc(alias = "raw_iterator")]
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(self.cursor_of(self.pin()?, Bounds::default()))
    }

    /// A cursor that shows the entries in a range only.
    #[doc(alias = "iterate_lower_bound")]
    #[doc(alias = "iterate_upper_bound")]
    pub fn cursor_in(&self, range: impl KeyRange) -> Result<Cursor> {
        Ok(self.cursor_of(self.pin()?, range.into_bounds()))
    }

    /// A cursor over a pinned view, listed among the open readers.
    pub(crate) fn cursor_of(&self, pinned: Pinned, bounds: Bounds) -> Cursor {
        let pinned = pinned.kept();
        let reader_slot =
            self.handle.store.open_readers.hold_view(ReaderKind::Cursor, self.state.id, &pinned);
        Cursor::new(pinned, bounds, reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// A range over a pinned view, listed among the open readers.
    pub(crate) fn range_of(&self, pinned: Result<Pinned>, bounds: Bounds) -> Range {
        let pinned = pinned.map(Pinned::kept);
        let open_readers = &self.handle.store.open_readers;
        let reader_slot =
            pinned.as_ref().map(|pinned| open_readers.hold_view(ReaderKind::Range, self.state.id, pinned));
        let reader_slot = reader_slot.ok();
        Range::new(pinned, bounds).held(reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// As [`Keyspace::range_of`], of keys alone.
    pub(crate) fn keys_of(&self, pinned: Result<Pinned>, bounds: Bounds) -> Keys {
        let pinned = pinned.map(Pinned::kept);
        let open_readers = &self.handle.store.open_readers;
        let reader_slot =
            pinned.as_ref().map(|pinned| open_readers.hold_view(ReaderKind::Range, self.state.id, pinned));
        let reader_slot = reader_slot.ok();
        Keys::new(pinned, bounds).held(reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// This keyspace as `snapshot` sees it.
    #[doc(alias = "ReadOptions")]
    #[doc(alias = "snapshot_at")]
    pub fn at<'a>(&'a self, snapshot: &'a Snapshot) -> View<'a> {
        View { keyspace: self, snapshot }
    }

    // ---- maintenance

    /// Writes the memtables to tables.
    #[doc(alias = "FlushMemTable")]
    #[doc(alias = "rotate_memtable")]
    pub fn flush(&self) -> Result<()> {
        flush_group::flush_keyspaces(&self.handle.store, &[Arc::clone(&self.state)])?;
        self.state.check_living()
    }

    /// Merges everything in a range of keys into the last level, and waits until it is done. Overwritten
    /// versions and deletes that no snapshot needs are dropped.
    #[doc(alias = "CompactRange")]
    #[doc(alias = "major_compaction")]
    pub fn compact(&self, range: impl KeyRange) -> Result<()> {
        manual::compact_range(&self.handle.store, &self.state, &range.into_bounds())
    }
}
