//! The nouns that every floor of Esker shares.
//!
//! This crate is the bottom floor: it depends on no other crate of the workspace, does no input or output and
//! holds no state. What lives here is either persisted (and therefore has fixed numbers and byte orders) or
//! is used by at least two floors that must not know each other.
//!
//! Reading order: [`seqno`], [`kind`] and [`expiry`] say how operations are ordered and what they mean,
//! [`ids`] gives every number a type of its own, [`coding`] and [`checksum`] turn them into bytes, [`key`]
//! compares keys cheaply, [`limits`] bounds everything, [`error`] says what went wrong.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod coding;
pub mod error;
pub mod expiry;
pub mod ids;
pub mod key;
pub mod kind;
pub mod limits;
pub mod seqno;
pub mod sync;

pub use error::{Conflict, Corruption, Error, HistoryGone, IoFailure, MergeFailure, Result};
pub use ids::{FileNumber, KeyspaceId, LogId, PartId, RunId, TableUid};
pub use kind::ValueKind;
pub use seqno::{SeqNo, Tag};
