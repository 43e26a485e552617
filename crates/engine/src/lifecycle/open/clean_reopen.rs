//! Reopening after an orderly close without waiting for a device flush.
//!
//! An open begins a new manifest, because it cannot trust the end of the old one, and records in it where the
//! new log begins. That is four flushes of the device, one after the other. After a close with everything in
//! tables, all of it is recorded already: the last edit of the close names the next segment of the log as the
//! first that is needed, and the manifest ends with a record that all of it is durable
//! ([`esker_version::Manifest::close`]). So the open continues with that manifest.
//!
//! # The condition (RC6)
//! The directory is as the manifest says, and nothing is entered into the state that the manifest does not
//! have. So there is no commit point: an interrupted open has changed nothing, and the next one finds what
//! this one found, or the log that this one began. In particular
//! * no segment has the id at which the new log begins, or a later one: ids are not reused (RC3);
//! * no file has a number that the manifest does not count: leftovers of an interrupted process are
//!   distinguished from new files (RC3);
//! * no consumer is behind in the history of the log, which an open settles in a manifest (HS6).
//!
//! Otherwise the open takes the slower path, and loses nothing but time.

use super::Opening;
use esker_base::Result;
use esker_version::{ClosedManifest, DatabaseState, Manifest};
use esker_wal::{LogPosition, RecoveryReport};

/// The inputs of the decision.
pub(super) struct ReopenInputs<'a> {
    pub(super) closed: Option<ClosedManifest>,
    pub(super) last_edit: u64,
    /// Whether the state equals the manifest in every field.
    pub(super) is_unchanged: bool,
    pub(super) state: &'a DatabaseState,
    pub(super) report: &'a RecoveryReport,
}

impl Opening {
    /// The closed manifest to continue with, if the state equals it; else `None`.
    pub(super) fn resume(&self, found: &ReopenInputs<'_>) -> Result<Option<Manifest>> {
        let ReopenInputs { closed: Some(closed), last_edit, is_unchanged: true, state, report } = found
        else {
            return Ok(None);
        };
        let is_log_empty = report.segments_seen > 0
            && report.end == LogPosition::new(state.min_log_id, 0)
            && report.end_reason.is_none()
            && report.next_log_id == state.min_log_id.next()
            && report.damaged.is_empty();
        if !is_log_empty || !state.consumers.is_empty() || !state.log_lives.is_empty() {
            return Ok(None);
        }
        Manifest::resume(&self.env, &self.dir, closed, *last_edit)
    }
}
