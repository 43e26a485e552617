//! Shared basic types: ids, sequence numbers, kinds, errors, limits, encoding and checksums.
//!
//! The bottom floor: depends on no other crate of the workspace, does no input or output and holds no state.
//! Its contents are persisted (with fixed numbers and byte orders) or used by at least two floors that must
//! not depend on each other.
//!
//! Reading order: [`seqno`], [`kind`] and [`expiry`] define how operations are ordered and what they mean,
//! [`ids`] gives every number its own type, [`coding`] and [`checksum`] turn them into bytes, [`key`]
//! compares keys cheaply, [`limits`] bounds everything, [`error`] describes failures.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod coding;
mod duration_counts;
pub mod error;
pub mod expiry;
pub mod ids;
mod inside_job;
pub mod key;
pub mod kind;
pub mod large_buffer;
pub mod limits;
pub mod planted;
mod resident_only;
pub mod seqno;
pub mod sync;
mod thread_buffer;
mod unwinding;

pub use duration_counts::DurationCounts;
pub use error::{
    Conflict, Corruption, Error, HistoryGone, IoFailure, MergeFailure, QuarantinedRange, Result,
};
pub use ids::{FileNumber, KeyspaceId, LogId, PartId, RunId, TableUid};
pub use inside_job::{InsideJob, JobSection};
pub use kind::ValueKind;
pub use resident_only::ResidentOnly;
pub use seqno::{SeqNo, Tag};
pub use thread_buffer::with_thread_buffer;
pub use unwinding::Unwinding;
