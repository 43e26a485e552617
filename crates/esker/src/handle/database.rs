//! The database handle.

use super::WriteBatch;
use super::{Handle, Keyspace, Snapshot};
use crate::WriteOptions;
use esker_base::{Error, Result, SeqNo};
use esker_engine::background::compact::manual;
use esker_engine::background::flush_group;
use esker_engine::background::targets::deadline;
use esker_engine::background::workers;
use esker_engine::lifecycle::close;
use esker_engine::lifecycle::keyspace::change;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_engine::write::commit;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::write_control::Stalls;
use esker_engine::write::write_control::stall_report;
use esker_env::BackgroundRates;
use esker_options::KeyspaceOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// An open database.
#[derive(Clone, Debug)]
#[doc(alias = "DB")]
#[doc(alias = "Store")]
#[doc(alias = "Env")]
#[doc(alias = "TxDatabase")]
pub struct Database {
    handle: Arc<Handle>,
    default: Keyspace,
}

impl Database {
    /// The handle of an open database with this default keyspace.
    pub(crate) fn new(handle: Arc<Handle>, default: Arc<KeyspaceState>) -> Database {
        let default = Keyspace::new(Arc::clone(&handle), default);
        Database { handle, default }
    }

    /// Keeps the database open.
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The engine behind the handle.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    /// The directory in which the database was opened, as an absolute path.
    ///
    /// The database holds its directory, not the path: when the directory is renamed, the database goes on in
    /// it, and this path does not lead to it any more.
    pub fn path(&self) -> &Path {
        &self.handle.store.dir
    }

    // ---- keyspaces

    /// The keyspace with this name, created if missing: with the database's default options, and with the
    /// settings of [`Options::set_keyspace`](crate::Options::set_keyspace).
    #[doc(alias = "CreateColumnFamily")]
    #[doc(alias = "open_partition")]
    #[doc(alias = "open_table")]
    #[doc(alias = "open_tree")]
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let store = &self.handle.store;
        self.keyspace_with(name, store.named.applied(name, store.default_options.clone())?)
    }

    /// The keyspaces with these names, in their order, created if missing like by [`Database::keyspace`]. All
    /// that are missing become durable by one sync, and all or none of them: creating a thousand takes as
    /// long as creating one and some tens of microseconds for each.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let tenants: Vec<String> = (0..1_000).map(|number| format!("tenant {number}")).collect();
    /// let keyspaces = db.create_keyspaces(&tenants)?;
    /// keyspaces[7].put("greeting", "hello")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Database::keyspace`], for any of the names.
    #[doc(alias = "CreateColumnFamilies")]
    pub fn create_keyspaces<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<Keyspace>> {
        let store = &self.handle.store;
        store.check_open()?;
        let missing = names.iter().map(AsRef::as_ref).filter(|name| store.find_keyspace(name).is_none());
        let wanted = missing
            .map(|name| Ok((name.into(), store.named.applied(name, store.default_options.clone())?)))
            .collect::<Result<Vec<_>>>()?;
        change::create_keyspaces(store, wanted)?;
        names.iter().map(|name| self.keyspace(name.as_ref())).collect()
    }

    /// The keyspace with this name, created with `options` if missing. An existing one keeps its options,
    /// except a compaction filter, which is attached.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is empty or over 255 bytes long, options out of range, or a merge
    /// operator where an existing keyspace has another.
    #[doc(alias = "CreateColumnFamilyWithOptions")]
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.handle.store.check_open()?;
        let state = match self.handle.store.find_keyspace(name) {
            Some(state) => {
                state.options().check_operator_is(&options, name)?;
                if let Some(filter) = &options.compaction_filter {
                    state.definition.attach_filter(filter);
                }
                state
            }
            None => change::create_keyspace(&self.handle.store, name, options)?,
        };
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The keyspace with this name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    #[doc(alias = "GetColumnFamilyHandle")]
    #[doc(alias = "cf_handle")]
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.handle.store.check_open()?;
        let state = self.handle.store.find_keyspace(name);
        let state = state.ok_or_else(|| Error::NotFound(format!("there is no keyspace {name:?}").into()))?;
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The names of all keyspaces, oldest first.
    #[doc(alias = "ListColumnFamilies")]
    #[doc(alias = "list_partitions")]
    #[doc(alias = "list_tables")]
    pub fn keyspaces(&self) -> Vec<String> {
        self.handle.store.all_keyspaces().iter().map(|keyspace| keyspace.name().to_string()).collect()
    }

    /// Drops a keyspace with everything in it. Durable when it returns; its memory is freed, and its tables
    /// are deleted once no reader uses them. The cost does not depend on its size.
    ///
    /// Open cursors and ranges continue. Every later call through a handle of the keyspace returns
    /// `NotFound`, reads at an older [`Snapshot`] included; so does the write of a batch that names it, which
    /// changes nothing in any keyspace. A keyspace of the same name that is created afterwards is a
    /// different, empty one.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.put(b"17", b"Ada")?;
    /// db.drop_keyspace("sessions")?;
    /// assert!(sessions.get(b"17").is_err());
    /// assert_eq!(db.keyspace("sessions")?.get(b"17")?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such keyspace, `InvalidArgument` for "default", which every database has.
    #[doc(alias = "DropColumnFamily")]
    #[doc(alias = "delete_partition")]
    #[doc(alias = "delete_table")]
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        change::drop_keyspace(&self.handle.store, name)
    }

    /// Renames a keyspace. Durable when it returns. Handles of the keyspace stay valid; its data is not
    /// touched.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let next = db.keyspace("index.new")?;
    /// db.drop_keyspace("index")?;
    /// db.rename_keyspace("index.new", "index")?;
    /// assert_eq!(&*next.name(), "index");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no keyspace `from`; `InvalidArgument` if there is a keyspace `to` already, if
    /// `to` is empty or over 255 bytes long, and for "default", which every database has.
    #[doc(alias = "rename_table")]
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        change::rename_keyspace(&self.handle.store, from, to)
    }

    /// The keyspace "default", which every database has: for a program that needs one ordered map.
    ///
    /// A database has no `put` or `get` of its own. Each call is on a keyspace, so there is one of each.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// let db = esker::Database::open("data")?;
    /// let pairs = db.default_keyspace();
    /// pairs.put("ada", "1815")?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "DefaultColumnFamily")]
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    // ---- writing

    /// An empty batch for this database.
    #[doc(alias = "NewBatch")]
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(&self.handle.store)
    }

    /// Applies a batch with the database's default durability. The batch is unchanged: to reuse its memory
    /// for the next one, [`WriteBatch::clear`] it.
    ///
    /// Returns the sequence number of its last operation; for an empty batch, that of the last operation
    /// before it. [`Database::durable_seqno`] tells when that survives a power cut, a [`Snapshot`] whether it
    /// sees it, and [`Database::changes_since`] what came after it.
    ///
    /// # Errors
    /// The first error of building the batch; `Full` if it is larger than half of the memory budget;
    /// `ReadOnly`, `WouldStall`, `Closed`.
    #[doc(alias = "apply")]
    #[doc(alias = "commit")]
    #[doc(alias = "GetLatestSequenceNumber")]
    pub fn write(&self, batch: &WriteBatch) -> Result<SeqNo> {
        self.write_with(batch, WriteOptions::new())
    }

    /// Applies a batch with these options.
    ///
    /// # Errors
    /// As [`Database::write`]; `InvalidArgument` for an expiry, which the entries of a batch have each.
    #[doc(alias = "WriteOptions")]
    pub fn write_with(&self, batch: &WriteBatch, options: impl Into<WriteOptions>) -> Result<SeqNo> {
        let options = options.into();
        options.check_without_expiry("a batch")?;
        let store = &self.handle.store;
        let WriteMode { durability, stall_policy } = commit::write_mode(store, &options);
        commit::commit(store, &batch.encoded(store)?, durability, stall_policy)
    }

    // ---- moments

    /// A snapshot of the present, over all keyspaces.
    #[doc(alias = "GetSnapshot")]
    #[doc(alias = "begin_read")]
    #[doc(alias = "read_transaction")]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle.store)
    }

    /// The database time, by which expiry is judged. It follows the wall clock as long as that moves forward,
    /// and stands still while the clock is behind a time that was returned before, by this process or an
    /// earlier one.
    pub fn now(&self) -> SystemTime {
        esker_view::time::from_ms(self.handle.store.time.now_ms())
    }

    // ---- maintenance

    /// Makes every acknowledged write survive a power cut. Writes at [`Durability::None`](crate::Durability::None)
    /// are not in the log: the memtables that have some are flushed.
    #[doc(alias = "SyncWAL")]
    #[doc(alias = "FlushWAL")]
    #[doc(alias = "persist")]
    pub fn sync(&self) -> Result<()> {
        let store = &self.handle.store;
        store.check_open()?;
        flush_group::flush_unlogged(store)?;
        commit::sync(store)
    }

    /// Writes all memtables to tables.
    #[doc(alias = "FlushMemTable")]
    #[doc(alias = "rotate_memtable")]
    pub fn flush(&self) -> Result<()> {
        let store = &self.handle.store;
        flush_group::flush_keyspaces(store, &store.all_keyspaces())
    }

    /// Waits until there is no background work left: memtables flushed, the compaction debt zero, and the
    /// files of replaced tables deleted, except for those that an open reader pins.
    #[doc(alias = "WaitForCompact")]
    #[doc(alias = "wait_for_compaction")]
    pub fn drain(&self) -> Result<()> {
        workers::drain(&self.handle.store)
    }

    /// Changes the rate limits of compactions; running ones follow at once. The limits are not stored: the
    /// next open uses its options.
    ///
    /// # Errors
    /// `InvalidArgument` for invalid rates.
    #[doc(alias = "RateLimiter")]
    #[doc(alias = "SetBytesPerSecond")]
    #[doc(alias = "SetDBOptions")]
    pub fn set_background_rates(&self, rates: BackgroundRates) -> Result<()> {
        let store = &self.handle.store;
        store.check_open()?;
        rates.validate()?;
        store.files.rates.set(rates);
        deadline::warn_of_deadlines(store);
        Ok(())
    }

    /// The rate limits of compactions.
    pub fn background_rates(&self) -> BackgroundRates {
        self.handle.store.files.rates.get()
    }

    /// Merges every keyspace into its last level.
    #[doc(alias = "CompactRange")]
    #[doc(alias = "major_compaction")]
    pub fn compact_all(&self) -> Result<()> {
        let store = &self.handle.store;
        let compact = |state| match manual::compact_range(store, state, &Default::default()) {
            Err(_) if state.is_dropped() => Ok(()),
            compacted => compacted,
        };
        store.all_keyspaces().iter().try_for_each(compact)
    }

    /// Why writes take longer at this moment, if they do: how close each queue of background work is to its
    /// limit, the admission rate of writers, the measured rates of flushes and compactions, and recent
    /// changes.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-stalls-{}", std::process::id()));
    /// let db = esker::Database::open(&dir)?;
    /// assert_eq!(db.stalls().to_string(), "default: writes are not slowed\n");
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    #[doc(alias = "WriteStallInfo")]
    #[doc(alias = "is_write_stopped")]
    #[doc(alias = "rocksdb.actual-delayed-write-rate")]
    pub fn stalls(&self) -> Stalls {
        stall_report::stalls(&self.handle.store)
    }

    /// Closes the database: waits for writes in progress, stops background work, flushes (unless switched
    /// off), and releases the directory. Remaining handles return [`Error::Closed`]. Closing twice is
    /// allowed.
    #[doc(alias = "Shutdown")]
    pub fn close(&self) -> Result<()> {
        close::close(&self.handle.store)
    }
}

/// Background work step by step, for tests and simulations: of a database whose
/// [`Background`](esker_env::Background) is stepped, so that one seed gives one interleaving.
pub trait StepBackground {
    /// Runs one step of background work; `false` if there is none, and where threads do the work.
    fn step_background(&self) -> bool;
}

impl StepBackground for Database {
    fn step_background(&self) -> bool {
        let store = &self.handle.store;
        store.scheduler.is_stepped() && store.scheduler.step(&**store)
    }
}
