//! Manifest of an open: the state that it starts from (phase 2), and the one commit point (phase 5).

use super::Opening;
use super::log::flushed_seqno;
use crate::lifecycle::history_recovery::settle_history;
use crate::lifecycle::replay::Replay;
use esker_base::{Error, Result};
use esker_build::pending_outputs::UnclaimedFiles;
use esker_build::table_factory::TableFactory;
use esker_options::DEFAULT_KEYSPACE;
use esker_version::{
    CURRENT_NAME, ClosedManifest, DatabaseState, EditOp, Manifest, Recovered, Recovery, VersionEdit,
};
use esker_view::paths;
use esker_wal::{KeptHistory, RecoveryReport};
use std::path::Path;

impl Opening {
    /// The state in the manifest with the number of its last edit, and the end of it if it was closed; or an
    /// empty state.
    pub(super) fn read_manifest(&self) -> Result<(DatabaseState, u64, Option<ClosedManifest>)> {
        match esker_version::recover(&*self.env.fs, &self.dir)? {
            Recovery::Database(recovered) => {
                self.check_log_directory(&recovered)?;
                Ok((recovered.state, recovered.last_edit, recovered.closed))
            }
            Recovery::Nothing | Recovery::NoCurrent { .. } => {
                self.check_nothing_to_lose()?;
                Ok((DatabaseState::new(self.new_uuid()), 0, None))
            }
        }
    }

    /// No CURRENT: fine if there is nothing, or if a creation was interrupted; corruption if there is data. A
    /// creation writes CURRENT before the first table and the first log segment.
    fn check_nothing_to_lose(&self) -> Result<()> {
        for (dir, what) in [(paths::tables(&self.dir), "tables"), (paths::wal(&self.dir), "log segments")] {
            let entries = match self.env.fs.list(&dir) {
                Err(error) if error.is_not_found() => continue,
                listed => listed?,
            };
            if let Some(entry) = entries.first() {
                let detail = format!("the file is missing, but there are {what} ({} for one)", entry.name);
                return Err(Error::corruption(self.dir.join(CURRENT_NAME), None, detail));
            }
        }
        Ok(())
    }

    /// A log directory that is missing is no empty log: it is created before the first manifest of an open. A
    /// copy, whose manifest begins with edit 0, has none; and after an orderly close nothing in it is needed.
    pub(super) fn check_log_directory(&self, recovered: &Recovered) -> Result<()> {
        let dir = paths::wal(&self.dir);
        let is_needed = recovered.last_edit > 0 && recovered.closed.is_none();
        match self.env.fs.list(&dir) {
            Err(error) if error.is_not_found() && is_needed => {
                let detail = "the directory of the log is missing, and the database was not closed with all of \
                              its entries in tables: entries that only the log had are lost. Put the directory \
                              back; an empty one in its place opens the database without these entries if none \
                              of them was known to be durable";
                Err(Error::corruption(dir, None, detail))
            }
            Err(error) if error.is_not_found() => Ok(()),
            listed => listed.map(|_| ()),
        }
    }

    fn new_uuid(&self) -> [u8; 16] {
        let mut uuid = [0u8; 16];
        uuid[..8].copy_from_slice(&self.env.random.next_u64().to_le_bytes());
        uuid[8..].copy_from_slice(&self.env.random.next_u64().to_le_bytes());
        uuid
    }

    /// Adds to a state what it lacks: the default keyspace, and file numbers past every name in the directory
    /// (RC3). `true` if the state equals the manifest still.
    pub(super) fn complete_state(&mut self, state: &mut DatabaseState, tables_dir: &Path) -> Result<bool> {
        let is_complete = !self.add_default_keyspace(state)? && !self.options.believe_clock;
        let above_names = self.above_all_names(tables_dir)?.max(self.above_seen);
        self.above_seen = above_names;
        let is_unchanged = is_complete && above_names <= state.next_file;
        state.next_file = state.next_file.max(above_names);
        Ok(is_unchanged)
    }

    /// `true` if it was missing.
    fn add_default_keyspace(&self, state: &mut DatabaseState) -> Result<bool> {
        if state.keyspace_named(DEFAULT_KEYSPACE).is_some() {
            return Ok(false);
        }
        let mut edit = VersionEdit::new();
        edit.push(EditOp::CreateKeyspace {
            id: state.next_keyspace,
            name: DEFAULT_KEYSPACE.into(),
            options: self.options.default_keyspace()?.encode().into(),
        });
        state.apply(&edit)?;
        Ok(true)
    }

    /// Time goes on where the manifest says that it stopped, or begins with the clock (TM2, TM5).
    pub(super) fn begin_time(&self, state: &DatabaseState) {
        if !self.options.believe_clock {
            self.time.raise(state.time_floor_ms);
        }
    }

    /// Writes replayed data to tables, and a manifest with the result.
    pub(super) fn begin_manifest(
        &self,
        replay: Replay<'_>,
        factory: &TableFactory,
        last_edit: u64,
        report: &mut RecoveryReport,
    ) -> Result<(DatabaseState, Manifest, KeptHistory)> {
        let (flushed, min_log_id) = (flushed_seqno(&replay.state), replay.state.min_log_id);
        let (mut state, written) = replay.finish(report.greatest_seqno)?;
        self.phase("log in tables");
        state.time_floor_ms = self.time.now_ms();
        state.min_log_id = state.min_log_id.max(report.next_log_id);
        state.durable_position = None;
        let history = settle_history(&*self.env.fs, &mut state, report, flushed, min_log_id)?;
        let manifest = self.commit(factory, &mut state, last_edit, written)?;
        Ok((state, manifest, history))
    }

    /// The one commit point: a manifest with all of `state` becomes current, and with it the `written`
    /// tables. They are deleted only if it certainly does not become current.
    fn commit(
        &self,
        factory: &TableFactory,
        state: &mut DatabaseState,
        last_edit: u64,
        written: Option<UnclaimedFiles<'_>>,
    ) -> Result<Manifest> {
        let number = factory.take_file_number();
        (state.next_file, state.next_part) = factory.counters();
        let created = Manifest::create(&self.env, &self.dir, number, state, last_edit + 1);
        let may_count = created.as_ref().map_or_else(|failure| failure.fatal, |_| true);
        if may_count {
            written.into_iter().for_each(UnclaimedFiles::claim);
        }
        Ok(created?)
    }
}
