//! The database engine: everything between the public API and the building blocks.
//!
//! # Map
//! *Handles* ([`handle`]) are what users hold; behind them one [`store::Store`] has the state.
//!
//! | path | files, in the order a request passes them |
//! |---|---|
//! | write | [`handle`] (encode) → [`commit`] (order, copy, publish) → [`room`] (rotate, seal, wait) |
//! | read | [`handle`] (pin) → [`esker_view`] → [`esker_view::read`] → [`esker_view::tree`] |
//! | transaction | [`transaction`] (snapshot, changes, read set) → [`commit`] (validate, then as a write) |
//! | flush | [`scheduler`] → [`workers`] → [`flush`] → [`table_sink`] → [`install`] |
//! | compaction | [`scheduler`] → [`workers`] → [`picker`] → [`compact`] → [`table_sink`] → [`install`] |
//! | open | [`open`] → [`replay`] → [`install`] |
//! | change stream | [`handle`] → [`changes`], concurrent with writers, from the log's files |
//!
//! The invariants (CP for commit, WL for the log, RV for read views, IN for installs, RC for recovery) are
//! stated at the head of the file that maintains them; ARCHITECTURE.md lists them all.
#![forbid(unsafe_code)]

mod adaptive_state;
mod advice;
mod amplification;
mod batch;
mod cache_warming;
mod changes;
mod commit;
mod commit_notifier;
mod compact;
mod compression_downgrade;
mod consumers;
mod copy;
mod counters;
mod damage;
mod elision;
mod file_transfer;
mod filters;
mod flush;
mod handle;
mod history_recovery;
mod idle_budget;
mod idle_wal;
mod ingest;
mod ingest_commit;
mod ingested_part;
mod install;
mod jobs;
mod keyspace;
mod large;
mod memory_arbiter;
mod metrics;
mod open;
mod overwrite_ratio;
mod pending_outputs;
mod picker;
mod pressure;
mod range_del;
mod read_heat;
mod reader_report;
mod replay;
mod room;
mod scheduler;
mod store;
mod table_eviction;
mod table_sink;
mod target_report;
mod targets;
#[cfg(test)]
mod tests;
mod transaction;
mod verify;
mod workers;
mod write_options;

pub use advice::{AdaptationInfo, AdviceRequest, KeyspaceAdvice, ModelCheck, ModelTerm};
pub use amplification::{
    Amplification, Cause, CauseInfo, LevelAmplification, ReadAmplification, SpaceAmplification,
};
pub use batch::WriteBatch;
pub use changes::{Change, ChangeBatch, ChangeIter, ChangedKeyspace, Changes, Consumer, ConsumerInfo};
pub use copy::{
    BackupId, BackupInfo, BackupReport, BackupVerification, Backups, CheckpointReport, ExportReport,
    ImportReport, RestoreReport, Retention, check_export,
};
pub use damage::Damage;
pub use esker_env::BackgroundRates;
pub use esker_iter::operator::{Merge, MergeError, MergeOperator, set};
pub use esker_iter::{CompactionFilter, Decision};
pub use esker_options::{
    Cs265, DEFAULT_KEYSPACE, Durability, KeyspaceOptions, OptionChange, OptionInfo, OptionScope, OptionValue,
    Options, PerLevel, Preset,
};
pub use esker_view::Value;
pub use esker_view::read::KeyRange;
pub use esker_view::read::cursor::Cursor;
pub use esker_view::read::keys::Keys;
pub use esker_view::read::layer::Layer;
pub use esker_view::read::open_readers::HolderKind;
pub use esker_view::read::range::Range;
pub use file_transfer::CopyProgress;
pub use handle::{Database, Keyspace, Snapshot, Ttl, View};
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
pub use pressure::{
    BlockingWork, KeyspaceStall, Pressure, PressureCause, StallChange, Stalls, WaitingWrites, WriteState,
};
pub use reader_report::Holder;
pub use target_report::{DeletePromise, KeyspacePromises, PromiseState, SpacePromise};
pub use targets::DeleteShortfall;
pub use transaction::{
    CompareAndSet, Isolation, Savepoint, Transaction, TransactionOptions, TransactionRange,
};
pub use verify::VerifyReport;
pub use write_options::{Expiry, WriteOptions};
