//! Esker is an embedded, ordered key-value store: a log-structured merge-tree with a write-ahead log,
//! snapshots, atomic batches over many keyspaces, and background compaction.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-{}", std::process::id()));
//! # let path = dir.clone();
//! let db = esker::Database::open(path)?;
//! let users = db.keyspace("users")?;
//!
//! users.put(b"ada", b"1815")?;
//! assert_eq!(users.get(b"ada")?.as_deref(), Some(b"1815".as_slice()));
//!
//! // Several changes at once, over several keyspaces: all or nothing, also after a crash.
//! let by_year = db.keyspace("users by year")?;
//! let mut batch = db.batch();
//! batch.put(&users, b"alan", b"1912");
//! batch.put(&by_year, b"1912", b"alan");
//! batch.delete(&users, b"ada");
//! db.write(&batch)?;
//!
//! // Ranges are lazy and go both ways.
//! for entry in users.range(b"a".as_slice()..b"b").rev() {
//!     let (key, value) = entry?;
//!     println!("{} was born in {}", key.escape_ascii(), value.escape_ascii());
//! }
//!
//! // A snapshot is one moment of the whole database.
//! let before = db.snapshot();
//! users.delete(b"alan")?;
//! assert!(users.at(&before).contains(b"alan")?);
//! db.close()?;
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok(()) }
//! ```
//!
//! # Transactions
//!
//! [`Database::transaction`] reads one moment and its own changes, and commits all or nothing, unless
//! something it depends on was changed meanwhile: then [`Transaction::commit`] is an [`Error::Conflict`] that
//! says what, and [`Database::transact`] tries again. [`Isolation`](transaction::Isolation) says what is
//! depended on. For one key there are [`Keyspace::compare_and_set`], [`Keyspace::put_if_absent`],
//! [`Keyspace::fetch_update`] and [`Keyspace::change`], which tells the sequence number of its write.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-tx-{}", std::process::id()));
//! # let path = dir.clone();
//! let db = esker::Database::open(path)?;
//! let seats = db.keyspace("seats")?;
//!
//! // Two want the last seat.
//! let (mut ada, mut alan) = (db.transaction(), db.transaction());
//! for (tx, name) in [(&mut ada, "ada"), (&mut alan, "alan")] {
//!     if tx.range(&seats, ..).count() < 1 {
//!         tx.put(&seats, name, b"booked")?;
//!     }
//! }
//! ada.commit()?;
//! let refused = alan.commit().unwrap_err();
//! assert!(refused.is_conflict());
//! assert!(refused.to_string().starts_with(r#"conflict on key "ada" in keyspace "seats""#));
//!
//! // What is done again sees the present.
//! let is_booked = db.transact(|tx| {
//!     if tx.range(&seats, ..).count() >= 1 {
//!         return Ok(false);
//!     }
//!     tx.put(&seats, b"alan", b"booked")?;
//!     Ok(true)
//! })?;
//! assert!(!is_booked);
//!
//! // What was changed since a savepoint can be taken back.
//! let mut tx = db.transaction();
//! tx.delete(&seats, b"ada")?;
//! let savepoint = tx.savepoint();
//! tx.put(&seats, b"alan", b"booked")?;
//! tx.rollback_to(savepoint)?;
//! tx.commit()?;
//! assert_eq!(seats.iter().count(), 0);
//!
//! assert_eq!(seats.put_if_absent(b"grace", b"booked")?, None);
//! assert!(seats.compare_and_set(b"grace", Some(b"booked"), None)?.is_set());
//! seats.fetch_update(b"sold", |sold| Some([sold.unwrap_or_default(), b"|"].concat()))?;
//! # db.close()?;
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok(()) }
//! ```
//!
//! # Changes
//!
//! [`Database::changes_since`] gives every committed batch in order, and waits for the next one; a
//! [`Consumer`](changes::Consumer) is a reader with a name, for which the log is kept while it is away.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-changes-{}", std::process::id()));
//! # let path = dir.clone();
//! use esker::changes::Change;
//!
//! let db = esker::Database::open(&path)?;
//! let audit = db.create_consumer("audit")?;
//! db.default_keyspace().put(b"ada", b"1815")?;
//! db.default_keyspace().delete(b"ada")?;
//! db.close()?;
//!
//! // Later, in another process: everything that it has not acknowledged.
//! let db = esker::Database::open(&path)?;
//! let audit = db.consumer("audit")?;
//! let mut changes = audit.changes()?;
//! let first = changes.try_next()?.expect("a put was committed");
//! assert!(matches!(first.iter().next(), Some(Change::Put { key: b"ada", value: b"1815", .. })));
//! audit.acknowledge(first.last_seqno())?;
//!
//! // As an iterator it waits for what comes.
//! let second = changes.next().expect("the database is open")?;
//! assert!(matches!(second.iter().next(), Some(Change::Delete { key: b"ada", .. })));
//! assert!(changes.try_next()?.is_none());
//! # db.close()?;
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok(()) }
//! ```
//!
//! # What an acknowledged write survives
//!
//! A write is acknowledged when its call returns. [`Durability::Process`], the default, survives the death of
//! the process at any instruction; [`Durability::Power`] survives a power cut; what survives is always a
//! prefix of the order of acknowledgement, with batches whole. [`Durability::None`] is for data that can be
//! made again: it skips the log, and a crash loses what was not flushed. Concurrent writers that ask for
//! `Power` share one flush of the device. [`Database::sync`] makes everything acknowledged so far survive a
//! power cut.
//!
//! # What a read sees
//!
//! A read sees one moment: a get the present, a [`Range`] or [`Cursor`] the moment it was made,
//! [`Keyspace::at`] the moment of a [`Snapshot`]. Readers never wait for writers, flushes or compactions.
//!
//! # Errors
//!
//! One enum, [`Error`], sorted by what the caller can do. No panic is reachable from file contents or
//! arguments. A damaged block fails the reads that need it and no others; a full disk fails writes until
//! there is room again; a failed flush of the log makes the database read-only until it is reopened, because
//! a second flush would prove nothing.
//!
//! # Concurrency
//!
//! [`Database`] and [`Keyspace`] are cheap to clone, and may be shared and used by any number of threads at
//! once. [`Snapshot`], [`WriteBatch`], [`Transaction`], [`Cursor`], [`Range`] and [`Keys`] may be sent to
//! another thread, and are used by one at a time. None of them borrows from another, but [`View`] and the
//! ranges and cursors of a transaction.
//!
//! * A get, a range or a cursor waits for no lock of a writer; it takes as long as reading the blocks that
//!   the caches do not have.
//! * A write takes the commit lock for as long as its bytes are copied. It waits longer while writes are held
//!   back because flushes or compactions are behind: at most [`Options::stall_limit`], and not at all with
//!   [`WriteOptions::no_stall`]. [`Durability::Power`] waits for the device, once for all that wait together.
//! * Opening waits for recovery; [`Database::close`], [`Database::flush`], [`Database::drain`],
//!   [`Keyspace::compact`], backups and loads wait until their work is done.
//! * [`Changes`](changes::Changes) waits for the next batch.
//!
//! # From async code
//!
//! The calls are synchronous. Gets and writes without `Power` usually take microseconds and may be made where
//! a millisecond now and then does no harm; durable writes, scans and everything that waits belong on a
//! thread for blocking work, such as tokio's `spawn_blocking`. A stream of changes needs a thread of its own.
//! [`resident_only`] answers a read from memory or says that it would wait for a device.
//!
//! # Left out on purpose
//!
//! Keys are ordered by their bytes, always: there is no comparator, so that every tool can read every
//! database. There is no second process that writes or reads beside the one that has the database open, no
//! typed tables, and no replication; the stream of changes is what to build that on.
//!
//! # Memory
//!
//! One number, [`Options::memory_budget`], covers memtables, block cache, indexes, filters and the log's
//! mapped pages. [`Database::metrics`] reports what is used of it. The allocator of the C library keeps freed
//! memory beside that; a program that owns its process limits it by [`parts::env::c_heap::keep_little`].
//!
//! # Observing
//!
//! [`Database::metrics`] counts, [`Database::stalls`] says why writes take longer, and a listener
//! ([`Options::listener`]) is told of each flush, compaction, stall and error: see [`events`].
//! [`Keyspace::explain_get`] says how a value was found, [`Database::explain_space`] where bytes are: see
//! [`explain`].
#![forbid(unsafe_code)]

mod copy;
mod damage;
mod handle;
mod open;
mod overlay;
mod report;
mod resident;
#[cfg(test)]
mod tests;

#[doc(inline)]
pub use crate::handle::{BatchEntry, Database, Keyspace, PinnedKeyspace, Snapshot, Ttl, View, WriteBatch};
#[doc(inline)]
pub use crate::overlay::{BatchRange, BatchRangeWithExpiry, BatchView, IndexedBatch};
#[doc(inline)]
pub use crate::resident::{Resident, resident_only};
#[doc(inline)]
pub use crate::transaction::{Transaction, TransactionOptions};
#[doc(inline)]
pub use esker_base::{Error, KeyspaceId, Result, SeqNo};
#[doc(inline)]
pub use esker_engine::write::write_options::{Expiry, WriteOptions};
#[doc(inline)]
pub use esker_iter::operator::MergeOperator;
#[doc(inline)]
pub use esker_options::{DEFAULT_KEYSPACE, Durability, KeyspaceOptions, Options, RecoveryMode};
#[doc(inline)]
pub use esker_view::read::KeyRange;
#[doc(inline)]
pub use esker_view::read::cursor::Cursor;
#[doc(inline)]
pub use esker_view::read::keys::Keys;
#[doc(inline)]
pub use esker_view::read::range::{Range, RangeWithExpiry};
#[doc(inline)]
pub use esker_view::{Value, ValueWithExpiry};

pub mod advice;

/// Copies of a database: checkpoints, backups and the portable export.
pub mod backup {
    pub use crate::copy::{
        BackupId, BackupInfo, BackupReport, BackupVerification, Backups, CheckpointReport, ExportReport,
        ImportReport, ReplaceReport, RestoreReport, Retention, check_export,
    };
    pub use esker_engine::file_transfer::CopyProgress;
}

#[doc(alias = "change data capture")]
pub mod changes;

/// Filters that compactions apply to what they write.
pub mod compaction_filter {
    pub use esker_iter::{CompactionFilter, Decision};
}

/// The details that an [`Error`] carries.
pub mod error {
    pub use esker_base::{
        Conflict, Corruption, Error, HistoryGone, IoFailure, MergeFailure, QuarantinedRange, Result,
    };
}

pub mod events;

pub mod explain;

pub mod ingest;

/// Merge operators: those that are built in, and the trait for one of your own.
pub mod merge {
    pub use esker_iter::operator::{Merge, MergeError, MergeOperator, set};
}

/// What a database reports about itself: counters, the shape of its trees, sizes of ranges, open readers, why
/// writes are held back, amplification, targets, and what a verification found.
#[doc(alias = "statistics")]
pub mod metrics {
    pub use crate::damage::Damage;
    pub use crate::report::levels::{
        BlobFileInfo, FilterInfo, FilterTuningInfo, KeyspaceLevels, LevelInfo, RunInfo, TableInfo,
    };
    pub use crate::report::metrics::{
        KeyspaceMetrics, LogMetrics, MemoryMetrics, Metrics, OpenTablesMetrics,
    };
    pub use crate::report::quarantine::{QuarantineReads, QuarantinedFile};
    pub use crate::report::readers::OpenReader;
    pub use crate::report::targets::{DeleteTarget, KeyspaceTargets, SpaceTarget, TargetState};
    pub use crate::report::verify::VerifyReport;
    pub use esker_base::DurationCounts;
    pub use esker_engine::amplification::{
        Amplification, Cause, CauseInfo, LevelAmplification, ReadAmplification, SpaceAmplification,
    };
    pub use esker_engine::background::migration::MigrationInfo;
    pub use esker_engine::background::targets::DeleteShortfall;
    pub use esker_engine::state::counters::StallCause;
    pub use esker_engine::state::events::ListenerMetrics;
    pub use esker_engine::state::jobs::JobMetrics;
    pub use esker_engine::state::write_control::{StallChange, WaitingWrites};
    pub use esker_engine::write::write_control::{BlockingWork, KeyspaceStall, Stalls};
    pub use esker_strategy::LevelLimit;
    pub use esker_strategy::write_control::{Pressure, PressureCause, WriteState};
    pub use esker_view::read::layer::Layer;
    pub use esker_view::read::open_readers::ReaderKind;
    pub use esker_view::read::range_size::RangeSize;
}

/// The values that options take. [`Options`] and [`KeyspaceOptions`]
/// are at the root.
pub mod options {
    pub use esker_cache::CacheKind;
    pub use esker_codec::Codec;
    pub use esker_engine::background::kept_tables::KeptTables;
    pub use esker_env::BackgroundRates;
    pub use esker_env::{AsyncReads, ReadMode};
    pub use esker_filter::{FilterAllocation, FilterPolicy};
    pub use esker_memtable::{MemtableKind, ShardPlan};
    pub use esker_options::{
        OptionChange, OptionGroup, OptionInfo, OptionScope, OptionValue, PerLevel, Preset,
    };
    pub use esker_sst::{AccessPattern, AdaptiveIndex, BlockBounds, BlockLayout, IndexKind};
    pub use esker_strategy::{CompactionPriority, FifoLimits, RunsPerLevel, SizeRatio, Strategy};
    pub use esker_wal::WalRecovery;
}

#[doc(alias = "RepairDB")]
pub mod repair;

pub mod transaction;

/// The building blocks, for inspection, experiments and tests. Outside of the stability promise: names and
/// signatures here may change in any release.
pub mod parts {
    pub use crate::handle::StepBackground;
    pub use esker_base as base;
    pub use esker_blob as blob;
    pub use esker_cache as cache;
    pub use esker_codec as codec;
    pub use esker_env as env;
    pub use esker_filter as filter;
    pub use esker_iter as iter;
    pub use esker_memtable as memtable;
    pub use esker_model as model;
    pub use esker_options::Cs265;
    pub use esker_sst as sst;
    pub use esker_strategy as strategy;
    pub use esker_version as version;
    pub use esker_wal as wal;
}

/// The README's example, compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
