//! Opening again what was closed in order, without writing anything that somebody has to wait for.
//!
//! An open begins a new manifest, because it cannot trust the end of the old one, and says in it where the
//! new log begins. That is four flushes of the device, one after the other. After a close that ended with
//! everything in tables, all of it was said already: the last edit of the close names the next segment of the
//! log as the first that is needed, and the manifest ends with the word that all of it is durable
//! ([`esker_version::Manifest::close`]). So the open goes on where that life ended.
//!
//! # What holds (RC6)
//! The directory is as the manifest says, and nothing is entered into the state that the manifest does not
//! have. So there is no commit point: an open that is interrupted has changed nothing, and the next one sees
//! what this one saw, or the log that this one began. In particular
//! * no segment has the id at which the new log begins, or a later one: ids are not used twice (RC3);
//! * no file has a number that the manifest does not count: what an interrupted life left is told apart from
//!   what comes (RC3);
//! * nobody is behind in the history of the log, which an open settles in a manifest (HS6).
//!
//! Else the open takes the long way, and loses nothing but time.

use super::Opening;
use crate::store::{Store, Writing};
use esker_base::{LogId, Result};
use esker_version::{Closed, DatabaseState, Manifest, VersionEdit};
use esker_wal::{LogPosition, RecoveryReport};

/// What an open knows when it has to decide.
pub(super) struct Found<'a> {
    pub(super) closed: Option<Closed>,
    pub(super) last_edit: u64,
    /// Whether the state is what the manifest says, to the last field.
    pub(super) is_unchanged: bool,
    pub(super) state: &'a DatabaseState,
    pub(super) report: &'a RecoveryReport,
}

impl Opening {
    /// The manifest that was closed, to go on with, if the state is what it says; else `None`.
    pub(super) fn resume(&self, found: &Found<'_>) -> Result<Option<Manifest>> {
        let Found { closed: Some(closed), last_edit, is_unchanged: true, state, report } = found else {
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

impl Store {
    /// The last edit of a life, and the word that the manifest is whole. Only a life whose entries are all in
    /// tables and that keeps no history can be gone on with; of others the time is stored.
    pub(crate) fn close_manifest(&self, writing: &Writing) -> Result<()> {
        let Some(next) = self.next_life_begins_at(writing) else { return self.store_time(writing) };
        let mut installed = writing.manifest.lock();
        let mut edit = VersionEdit::new();
        self.add_counters(writing, &mut edit, next);
        self.make_durable(writing, &mut installed, &edit)?;
        if let Err(error) = installed.manifest.close() {
            tracing::debug!(%error, "the next open will begin a new manifest");
        }
        Ok(())
    }

    /// Where the log goes on if nothing in it is needed any more.
    fn next_life_begins_at(&self, writing: &Writing) -> Option<LogId> {
        let state = writing.commit.lock();
        let mut keyspaces = state.keyspaces.iter().flatten();
        let is_in_tables = keyspaces.all(|active| active.entries == 0 && !active.keyspace.view.has_sealed());
        (is_in_tables && !self.consumers.are_there()).then(|| state.log.next_log_id())
    }
}
