//! The database handle.

use super::{Handle, Keyspace, Snapshot};
use crate::WriteBatch;
use crate::WriteOptions;
use crate::changes::{Changes, Consumer, ConsumerInfo};
use crate::copy::{BackupReport, Backups, CheckpointReport};
use crate::metrics::{KeyspaceLevels, Metrics};
use crate::report::readers::OpenReader;
use crate::report::targets::KeyspaceTargets;
use crate::report::verify::VerifyReport;
use crate::transaction::{Transaction, TransactionOptions};
use esker_base::{Error, Result, SeqNo};
use esker_engine::file_transfer::CopyProgress;
use esker_engine::lifecycle::open;
use esker_engine::state::store::Store;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::pressure::Stalls;
use esker_env::BackgroundRates;
use esker_options::{DEFAULT_KEYSPACE, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// An open database.
#[derive(Clone, Debug)]
pub struct Database {
    handle: Arc<Handle>,
    default: Keyspace,
}

impl Database {
    /// Opens the database in a directory with default options, creating it if it is missing.
    ///
    /// # Errors
    /// See [`Database::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, Options::default())
    }

    /// Opens the database in a directory; opening is recovery.
    ///
    /// A process opens a database once and shares the handle. The directory is free again when
    /// [`Database::close`] has returned, or when the last handle of the database, of a [`Keyspace`] of it
    /// included, is dropped.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// use esker::{Database, Options};
    /// let db = Database::open_with("data", Options::default().memory_budget(512 << 20))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Locked` if it is open elsewhere, `Corruption` if stored bytes are damaged, `NotFound` if it is
    /// missing and must not be created, `InvalidArgument` for options that contradict each other.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let path = path.as_ref();
        options.validate()?;
        let store = open::open(path, options, crate::advice::adapt::adapt)?;
        let handle = Arc::new(Handle { store });
        handle.store.apply_named_options()?;
        let state = handle.store.find_keyspace(DEFAULT_KEYSPACE);
        let state = state.ok_or_else(|| Error::internal("the default keyspace is missing after opening"))?;
        let default = Keyspace::new(Arc::clone(&handle), state);
        Ok(Database { handle, default })
    }

    /// What is behind the handle.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    // ---- keyspaces

    /// The keyspace with this name, created if it is missing: with the database's default options, and with
    /// what [`Options::set_keyspace`] said of it.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let store = &self.handle.store;
        self.keyspace_with(name, store.named.applied(name, store.default_options.clone())?)
    }

    /// The keyspace with this name, created with `options` if it is missing. An existing one keeps its
    /// options, but for a compaction filter, which is attached.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is empty or over 255 bytes long, options out of range, or a merge
    /// operator where an existing keyspace has another.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.handle.store.check_open()?;
        let state = match self.handle.store.find_keyspace(name) {
            Some(state) => {
                state.options().check_operator_is(&options, name)?;
                if let Some(filter) = &options.compaction_filter {
                    state.attach_filter(filter);
                }
                state
            }
            None => self.handle.store.create_keyspace(name, options)?,
        };
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The keyspace with this name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.handle.store.check_open()?;
        let state = self.handle.store.find_keyspace(name);
        let state = state.ok_or_else(|| Error::NotFound(format!("there is no keyspace {name:?}").into()))?;
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The names of all keyspaces, oldest first.
    pub fn keyspaces(&self) -> Vec<String> {
        self.handle.store.all_keyspaces().iter().map(|keyspace| keyspace.name().to_string()).collect()
    }

    /// Drops a keyspace with everything in it. Durable when it returns; its memory and, once nobody reads
    /// them any more, its tables are given back. The cost does not depend on how much it holds.
    ///
    /// Cursors and ranges that are open read on. Every later call through a handle of the keyspace answers
    /// `NotFound`, reads at an older [`Snapshot`] included; so does the write of a batch that names it, which
    /// changes nothing in any keyspace. A keyspace of the same name that is created afterwards is another
    /// one, and empty.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
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
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.store.drop_keyspace(name)
    }

    /// Gives a keyspace another name. Durable when it returns. Handles of the keyspace follow; nothing of its
    /// data is touched.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
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
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        self.handle.store.rename_keyspace(from, to)
    }

    /// The keyspace "default", which every database has: for a program that needs one ordered map.
    ///
    /// A database has no `put` or `get` of its own. Each call is on a keyspace, so there is one of each.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// let db = esker_engine::Database::open("data")?;
    /// let pairs = db.default_keyspace();
    /// pairs.put("ada", "1815")?;
    /// # Ok(()) }
    /// ```
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    // ---- writing

    /// An empty batch for this database.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(&self.handle.store)
    }

    /// Applies a batch with the database's default durability. The batch stays as it is: to use its memory
    /// for the next one, [`WriteBatch::clear`] it.
    ///
    /// # Errors
    /// What was wrong while the batch was built; `Full` if it is larger than half of the memory budget;
    /// `ReadOnly`, `WouldStall`, `Closed`.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::new())
    }

    /// Applies a batch with these options.
    ///
    /// # Errors
    /// As [`Database::write`]; `InvalidArgument` for an expiry, which the entries of a batch have each.
    pub fn write_with(&self, batch: &WriteBatch, options: impl Into<WriteOptions>) -> Result<()> {
        let options = options.into();
        options.check_without_expiry("a batch")?;
        let store = &self.handle.store;
        let WriteMode { durability, stall_policy } = store.write_mode(&options);
        store.commit(&batch.encoded(store)?, durability, stall_policy).map(|_| ())
    }

    // ---- moments

    /// A transaction that begins now, serializable, with the database's default durability.
    ///
    /// Costs a registered snapshot; see [`Transaction`].
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(TransactionOptions::default())
    }

    /// A transaction that begins now, with these options.
    pub fn transaction_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(&self.handle, options)
    }

    /// Who keeps the past alive: snapshots, transactions, cursors and ranges, streams and consumers of
    /// changes, oldest first, each with its age and what it pins. Of the handles of this process only. Takes
    /// time linear in their number and in the tables that their views name.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// for holder in db.holders() {
    ///     println!("{} since {} s", holder.kind, holder.age.as_secs());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn open_readers(&self) -> Vec<OpenReader> {
        crate::report::readers::list_open_readers(&self.handle.store)
    }

    /// A snapshot of the present, over all keyspaces.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle.store)
    }

    /// The database's time, which decides what has expired. It follows the wall clock as long as that moves
    /// forward, and stands still while the clock is behind a time that was given out before, by this process
    /// or an earlier one.
    pub fn now(&self) -> SystemTime {
        esker_view::time::from_ms(self.handle.store.time.now_ms())
    }

    // ---- changes

    /// The committed batches after a sequence number, in order: those that are there, and then each new one
    /// as it comes. Each batch is whole and comes once. The log is read, so what is there goes back as far as
    /// the log does; while the stream lives, and is not slower than the writers by more than
    /// [`Options::change_history_limit`], nothing behind it is let go of. For a reader that goes away and
    /// comes back there are named consumers ([`Database::create_consumer`]).
    ///
    /// Batches are given out when they are durable: the stream flushes the log where nobody else has; see
    /// [`Changes::with_durability`]. Reading does not hold writers up.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use esker::Change;
    ///
    /// // A copy, and everything that happens after it.
    /// let copied = db.snapshot();
    /// // ... read everything at `copied` ...
    /// for batch in db.changes_since(copied.seqno())? {
    ///     for change in &batch? {
    ///         if let Change::Put { keyspace, key, value, .. } = change {
    ///             println!("{:?}: {key:?} = {value:?}", keyspace.name);
    ///         }
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A number in the middle of a batch gives that batch, whole.
    ///
    /// # Errors
    /// [`Error::HistoryGone`] if batches after `seqno` are not in the log any more; `InvalidArgument` for a
    /// number that was not given out yet; `Closed`.
    pub fn changes_since(&self, seqno: SeqNo) -> Result<Changes> {
        Changes::new(&self.handle.store, seqno, None)
    }

    /// Creates a consumer of changes, which begins with the next write: from now on the log is kept until it
    /// has acknowledged it, also while nobody reads and over reopenings, up to
    /// [`Options::change_history_limit`]. Durable when it returns.
    ///
    /// While there are consumers, each flush of a memtable first makes the log durable, which costs it one
    /// flush of the device.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let audit = db.create_consumer("audit")?;
    /// db.default_keyspace().put(b"k", b"v")?;
    /// if let Some(batch) = audit.changes()?.try_next()? {
    ///     assert_eq!(batch.len(), 1);
    ///     audit.acknowledge(batch.last_seqno())?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if there is one of this name already, or if the name is empty or over 255 bytes
    /// long; `Full`, `Io`, `ReadOnly`, `Closed`.
    pub fn create_consumer(&self, name: &str) -> Result<Consumer> {
        crate::changes::consumer::create_consumer(&self.handle.store, name, None)?;
        Consumer::new(&self.handle, name)
    }

    /// As [`Database::create_consumer`], beginning after `seqno`.
    ///
    /// # Errors
    /// As [`Database::create_consumer`]; [`Error::HistoryGone`] if batches after `seqno` are not in the log
    /// any more.
    pub fn create_consumer_at(&self, name: &str, seqno: SeqNo) -> Result<Consumer> {
        crate::changes::consumer::create_consumer(&self.handle.store, name, Some(seqno))?;
        Consumer::new(&self.handle, name)
    }

    /// The consumer of this name.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Closed`.
    pub fn consumer(&self, name: &str) -> Result<Consumer> {
        Consumer::new(&self.handle, name)
    }

    /// All consumers by name: how far behind each is, and what is kept for it.
    pub fn consumers(&self) -> Vec<ConsumerInfo> {
        crate::changes::consumer::list_consumers(&self.handle.store)
    }

    /// Drops a consumer; nothing is kept for it any more. Streams that were made of it go on.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Full`, `Io`, `ReadOnly`, `Closed`.
    pub fn drop_consumer(&self, name: &str) -> Result<()> {
        crate::changes::consumer::drop_consumer(&self.handle.store, name)
    }

    // ---- maintenance

    /// Makes every acknowledged write survive a power cut.
    pub fn sync(&self) -> Result<()> {
        self.handle.store.check_open()?;
        self.handle.store.sync()
    }

    /// Writes all memtables to tables.
    pub fn flush(&self) -> Result<()> {
        let store = &self.handle.store;
        store.flush_keyspaces(&store.all_keyspaces())
    }

    /// Waits until nothing is left to do in the background: memtables flushed, the strategies' debt zero.
    pub fn drain(&self) -> Result<()> {
        self.handle.store.drain()
    }

    /// Changes how many bytes a second compactions may read and write; those that run follow at once. Nothing
    /// of it is stored: the next open goes by its options.
    ///
    /// # Errors
    /// `InvalidArgument` for rates that make no sense.
    pub fn set_background_rates(&self, rates: BackgroundRates) -> Result<()> {
        let store = &self.handle.store;
        store.check_open()?;
        rates.validate()?;
        store.files.rates.set(rates);
        store.warn_of_deadlines();
        Ok(())
    }

    /// How many bytes a second compactions may read and write.
    pub fn background_rates(&self) -> BackgroundRates {
        self.handle.store.files.rates.get()
    }

    /// Merges every keyspace into its last level.
    pub fn compact_all(&self) -> Result<()> {
        let store = &self.handle.store;
        let compact = |state| match store.compact_range(state, &Default::default()) {
            Err(_) if state.is_dropped() => Ok(()),
            compacted => compacted,
        };
        store.all_keyspaces().iter().try_for_each(compact)
    }

    /// Runs one piece of background work; `false` if there is none. Only for databases whose
    /// [`esker_env::Background`] is stepped: elsewhere threads do it.
    pub fn step_background(&self) -> bool {
        let store = &self.handle.store;
        store.scheduler.is_stepped() && store.scheduler.step(&**store)
    }

    /// Counters, sizes and states.
    pub fn metrics(&self) -> Metrics {
        crate::report::metrics::metrics(&self.handle.store)
    }

    /// Why writes take longer at this moment, if they do: which queue of background work is how near to its
    /// limit, at which rate writers are let through, what is measured of flushes and compactions, and what
    /// changed lately.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-stalls-{}", std::process::id()));
    /// let db = esker_engine::Database::open(&dir)?;
    /// assert_eq!(db.stalls().to_string(), "default: writes go through freely\n");
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    pub fn stalls(&self) -> Stalls {
        self.handle.store.stalls()
    }

    /// The promises that keyspaces make by `max_space_amp` and `delete_within`, and whether they are kept;
    /// none of keyspaces without.
    pub fn targets(&self) -> Vec<KeyspaceTargets> {
        crate::report::targets::targets(&self.handle.store)
    }

    /// The shape of the tree of every keyspace.
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        crate::report::metrics::levels(&self.handle.store)
    }

    /// Reads every table and checks every checksum, the order of all entries, and what the manifest says of
    /// them. Reports what is damaged instead of stopping at the first damage. The log and the manifest are
    /// checked by opening.
    pub fn verify(&self) -> Result<VerifyReport> {
        crate::report::verify::verify(&self.handle.store)
    }

    // ---- copies

    /// Makes a copy of the database in another directory, which must be missing or empty, while reads and
    /// writes go on. The copy is a database of its own that shows one moment: every write that was
    /// acknowledged before the call, and atomic batches whole.
    ///
    /// Tables get a second name where the file system allows it, so it takes milliseconds and hardly any
    /// room; what is in memory is written. On another device everything is copied.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// let db = esker_engine::Database::open("data")?;
    /// let report = db.checkpoint("data-before-the-migration")?;
    /// println!("{} tables linked, {} written", report.linked_tables, report.written_tables);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the directory is not empty, `Full`, `Io`, `ReadOnly`, `Closed`; nothing is left
    /// there then.
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(to, |_| {})
    }

    /// As [`Database::checkpoint`], telling how far it is.
    pub fn checkpoint_with(
        &self,
        to: impl AsRef<Path>,
        mut told: impl FnMut(CopyProgress),
    ) -> Result<CheckpointReport> {
        crate::copy::checkpoint::checkpoint(&self.handle.store, to.as_ref(), &mut told)
    }

    /// Adds a backup of the present to a directory of backups, while reads and writes go on. Tables that an
    /// earlier backup has are not copied again. See [`Backups`].
    ///
    /// # Errors
    /// `InvalidArgument` if the directory holds backups of another database, `Locked` if another backup is
    /// being made there, `Full`, `Io`, `ReadOnly`, `Closed`.
    pub fn backup(&self, to: &Backups) -> Result<BackupReport> {
        self.backup_with(to, |_| {})
    }

    /// As [`Database::backup`], telling how far it is.
    pub fn backup_with(&self, to: &Backups, mut told: impl FnMut(CopyProgress)) -> Result<BackupReport> {
        crate::copy::backup::backup(&self.handle.store, to, &mut told)
    }

    /// Closes the database: waits for writes in progress, stops background work, flushes (unless switched
    /// off), and lets go of the directory. Handles that remain answer [`Error::Closed`]. Closing twice is
    /// fine.
    pub fn close(&self) -> Result<()> {
        self.handle.store.close()
    }
}
