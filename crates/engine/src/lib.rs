//! The database engine: everything between what users hold and the building blocks.
//!
//! # Map
//! What users hold is in the facade crate; behind it one [`state::store::Store`] has the state of a database.
//!
//! The files of each path, in the order a request passes them:
//!
//! * write: handle (encode) → [`write::commit`] (order, copy, publish) → [`write::make_room`] (rotate, seal,
//!   wait)
//! * read: handle (pin) → [`esker_view`] → [`esker_view::read`] → [`esker_view::tree`]
//! * transaction: transaction (snapshot, changes, read set) → [`write::commit`] (validate, then as a write)
//! * flush: [`state::scheduler`] → [`background::workers`] → [`background::flush`] → [`esker_build`] →
//!   [`background::install`]
//! * compaction: [`state::scheduler`] → [`background::workers`] → [`background::picker`] →
//!   [`background::compact`] → [`esker_build`] → [`background::install`]
//! * open: [`lifecycle::open`] → [`lifecycle::replay`] → [`background::install`]
//! * change stream: handle → changes, concurrent with writers, from the log's files
//!
//! The invariants (CP for commit, WL for the log, RV for read views, IN for installs, RC for recovery) are
//! stated at the head of the file that maintains them; ARCHITECTURE.md lists them all.
#![forbid(unsafe_code)]

pub mod amplification;
pub mod background;
pub mod file_transfer;
pub mod lifecycle;
pub mod state;
pub mod write;
