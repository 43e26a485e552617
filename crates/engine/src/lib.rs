//! The database engine: everything between the public API and the building blocks.
//!
//! # Map
//! *Handles* ([`handle`]) are what users hold; behind them one [`state::store::Store`] has the state.
//!
//! | path | files, in the order a request passes them |
//! |---|---|
//! | write | [`handle`] (encode) → [`write::commit`] (order, copy, publish) → [`write::room`] (rotate, seal, wait) |
//! | read | [`handle`] (pin) → [`esker_view`] → [`esker_view::read`] → [`esker_view::tree`] |
//! | transaction | [`transaction`] (snapshot, changes, read set) → [`write::commit`] (validate, then as a write) |
//! | flush | [`state::scheduler`] → [`background::workers`] → [`background::flush`] → [`esker_build`] → [`background::install`] |
//! | compaction | [`state::scheduler`] → [`background::workers`] → [`background::picker`] → [`background::compact`] → [`esker_build`] → [`background::install`] |
//! | open | [`lifecycle::open`] → [`lifecycle::replay`] → [`background::install`] |
//! | change stream | [`handle`] → [`changes`], concurrent with writers, from the log's files |
//!
//! The invariants (CP for commit, WL for the log, RV for read views, IN for installs, RC for recovery) are
//! stated at the head of the file that maintains them; ARCHITECTURE.md lists them all.
#![forbid(unsafe_code)]

mod advice;
mod amplification;
mod background;
mod changes;
mod copy;
mod damage;
mod file_transfer;
mod handle;
mod ingest;
mod lifecycle;
mod metrics;
mod reader_report;
mod state;
mod target_report;
#[cfg(test)]
mod tests;
mod transaction;
mod verify;
mod write;

pub use advice::{AdaptationInfo, AdviceRequest, KeyspaceAdvice, ModelCheck, ModelTerm};
pub use amplification::{
    Amplification, Cause, CauseInfo, LevelAmplification, ReadAmplification, SpaceAmplification,
};
pub use background::targets::DeleteShortfall;
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
pub use esker_view::read::open_readers::ReaderKind;
pub use esker_view::read::range::Range;
pub use file_transfer::CopyProgress;
pub use handle::{Database, Keyspace, Snapshot, Ttl, View};
pub use ingest::{
    BulkLoadProgress, BulkLoadReport, BulkLoader, IngestMode, IngestOptions, IngestReport, TableWriter,
    WrittenTable,
};
pub use lifecycle::keyspace::migration::MigrationInfo;
pub use metrics::{
    BlobFileInfo, FilterInfo, FilterTuningInfo, KeyspaceLevels, KeyspaceMetrics, LevelInfo, LogMetrics,
    MemoryMetrics, Metrics, OpenTablesMetrics, RunInfo, TableInfo,
};
pub use reader_report::OpenReader;
pub use state::jobs::JobMetrics;
pub use state::write_control::{Pressure, PressureCause, StallChange, WaitingWrites};
pub use target_report::{DeleteTarget, KeyspaceTargets, SpaceTarget, TargetState};
pub use transaction::{
    CompareAndSet, Isolation, Savepoint, Transaction, TransactionOptions, TransactionRange,
};
pub use verify::VerifyReport;
pub use write::batch::WriteBatch;
pub use write::pressure::{BlockingWork, KeyspaceStall, Stalls, WriteState};
pub use write::write_options::{Expiry, WriteOptions};
