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
//! | flush | [`scheduler`] → [`lanes`] → [`flush`] → [`output`] → [`install`] |
//! | compaction | [`scheduler`] → [`lanes`] → [`wanted`] → [`compact`] → [`output`] → [`install`] |
//! | open | [`open`] → [`replay`] → [`install`] |
//! | change stream | [`handle`] → [`changes`], concurrent with writers, from the log's files |
//!
//! The invariants (CP for commit, WL for the log, RV for read views, IN for installs, RC for recovery) are
//! stated at the head of the file that maintains them; ARCHITECTURE.md lists them all.
#![forbid(unsafe_code)]

mod advice;
mod amplification;
mod batch;
mod changes;
mod commit;
mod compact;
mod copy;
mod deletes;
mod durability;
mod easing;
mod filters;
mod flush;
mod gaps;
mod handle;
mod heat;
mod heirs;
mod holders;
mod ingest;
mod install;
mod jobs;
mod keyspace;
mod lanes;
mod large;
mod leisure;
mod lending;
mod metrics;
mod older;
mod open;
mod options;
mod output;
mod outputs;
mod paths;
mod pending_deletes;
mod pressure;
mod promises;
mod read;
mod replaced;
mod replay;
mod rest;
mod room;
mod scheduler;
mod semantics;
mod snapshot;
mod store;
mod sweep;
mod time;
mod transaction;
mod tree;
mod value;
mod verify;
mod view;
mod wanted;

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
pub use holders::{Holder, HolderKind};
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
pub use promises::{DeletePromise, DeleteShortfall, KeyspacePromises, PromiseState, SpacePromise};
pub use read::KeyRange;
pub use read::cursor::Cursor;
pub use read::keys::Keys;
pub use read::layer::Layer;
pub use read::range::Range;
pub use transaction::{
    CompareAndSet, Isolation, Savepoint, Transaction, TransactionOptions, TransactionRange,
};
pub use value::Value;
pub use verify::{Damage, VerifyReport};
