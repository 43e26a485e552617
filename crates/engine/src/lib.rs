//! The database engine: everything between the public API and the building blocks.
//!
//! # Map
//! *Handles* ([`handle`]) are what users hold; behind them one [`store::Store`] has the state.
//!
//! | path | files, in the order a request passes them |
//! |---|---|
//! | write | [`handle`] (encode) → [`commit`] (order, copy, publish) → [`room`] (rotate, seal, wait) |
//! | read | [`handle`] (pin) → [`view`] → [`read`] → [`tree`] |
//! | transaction | [`transaction`] (snapshot, changes, read set) → [`commit`] (validate, then as a write) |
//! | flush | [`scheduler`] → [`workers`] → [`flush`] → [`table_sink`] → [`install`] |
//! | compaction | [`scheduler`] → [`workers`] → [`picker`] → [`compact`] → [`table_sink`] → [`install`] |
//! | open | [`open`] → [`replay`] → [`install`] |
//! | change stream | [`handle`] → [`changes`], concurrent with writers, from the log's files |
//!
//! The invariants (CP for commit, WL for the log, RV for read views, IN for installs, RC for recovery) are
//! stated at the head of the file that maintains them; ARCHITECTURE.md lists them all.
#![forbid(unsafe_code)]

mod advice;
mod amplification;
mod batch;
mod cache_warming;
mod changes;
mod commit;
mod compact;
mod compression_downgrade;
mod copy;
mod durability;
mod elision;
mod filters;
mod flush;
mod handle;
mod idle_budget;
mod idle_wal;
mod ingest;
mod install;
mod jobs;
mod keyspace;
mod large;
mod memory_arbiter;
mod metrics;
mod open;
mod options;
mod overwrite_ratio;
mod paths;
mod pending_outputs;
mod picker;
mod pressure;
mod range_del;
mod read;
mod read_heat;
mod reader_report;
mod replay;
mod room;
mod scheduler;
mod semantics;
mod snapshot;
mod store;
mod table_eviction;
mod table_sink;
mod targets;
mod time;
mod tombstone_span_cache;
mod transaction;
mod tree;
mod value;
mod verify;
mod view;
mod workers;

pub use advice::{AdaptationInfo, AdviceRequest, KeyspaceAdvice, ModelCheck, ModelTerm};
pub use amplification::{
    Amplification, Cause, CauseInfo, LevelAmplification, ReadAmplification, SpaceAmplification,
};
pub use batch::WriteBatch;
pub use changes::{Change, ChangeBatch, ChangeIter, ChangedKeyspace, Changes, Consumer, ConsumerInfo};
pub use copy::{
    BackupId, BackupInfo, BackupReport, BackupVerification, Backups, CheckpointReport, CopyProgress,
    ExportReport, ImportReport, RestoreReport, Retention, check_export,
};
pub use durability::Durability;
pub use esker_env::BackgroundRates;
pub use esker_iter::operator::{Merge, MergeError, MergeOperator, set};
pub use esker_iter::{CompactionFilter, Decision};
pub use handle::{DEFAULT_KEYSPACE, Database, Keyspace, Snapshot, Ttl, View};
pub use ingest::{
    BulkLoadProgress, BulkLoadReport, BulkLoader, IngestMode, IngestOptions, IngestReport, TableWriter,
    WrittenTable,
};
pub use jobs::JobMetrics;
pub use keyspace::MigrationInfo;
pub use metrics::{
    BlobFileInfo, FilterInfo, FilterTuningInfo, KeyspaceLevels, KeyspaceMetrics, LevelInfo, LogMetrics,
    MemoryMetrics, Metrics, OpenTablesMetrics, RunInfo, TableInfo,
};
pub use options::{
    Cs265, KeyspaceOptions, OptionChange, OptionInfo, OptionScope, OptionValue, Options, PerLevel, Preset,
};
pub use pressure::{
    BlockingWork, KeyspaceStall, Pressure, PressureCause, StallChange, Stalls, WaitingWrites, WriteState,
};
pub use read::KeyRange;
pub use read::cursor::Cursor;
pub use read::keys::Keys;
pub use read::layer::Layer;
pub use read::open_readers::HolderKind;
pub use read::range::Range;
pub use reader_report::Holder;
pub use targets::{DeletePromise, DeleteShortfall, KeyspacePromises, PromiseState, SpacePromise};
pub use transaction::{
    CompareAndSet, Isolation, Savepoint, Transaction, TransactionOptions, TransactionRange,
};
pub use value::Value;
pub use verify::{Damage, VerifyReport};
