//! Read-only open: replayed data stays in private memory, and no file is changed.

use super::Opening;
use super::assembly::Assembly;
use super::log::flushed_seqno;
use crate::lifecycle::history_recovery::history_for_reading;
use crate::lifecycle::replay::Replay;
use crate::state::store::Store;
use esker_base::{Error, Result, planted};
use esker_env::FileLock;
use esker_version::Recovery;
use std::sync::Arc;

impl Opening {
    pub(super) fn open_read_only(self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<Store>> {
        let fs = &*self.env.fs;
        let Recovery::Database(recovered) = esker_version::recover(fs, &self.dir)? else {
            return Err(Error::NotFound(format!("there is no database in {}", self.dir.display()).into()));
        };
        self.check_log_directory(&recovered)?;
        let (state, last_edit) = (recovered.state, recovered.last_edit);
        self.begin_time(&state);
        let files = self.table_files()?;
        let damaged = self.check_files(&state, &files)?;
        let options = self.all_stored_options(&state)?;
        let mut replay = Replay::new(None, &self.memory, &self.arenas, &files, state, options);
        let report = self.read_log(&mut replay, last_edit)?;
        let (flushed, min_log_id) = (flushed_seqno(&replay.state), replay.state.min_log_id);
        let history = history_for_reading(&replay.state, &report, flushed, min_log_id);
        self.note_log_time(&report);
        let (mut state, last_seqno, memtables) = replay.into_memtables();
        let replayed_to = last_seqno.max(report.greatest_seqno);
        state.last_seqno =
            if planted!(StaleReadOnlyOpen) { state.last_seqno } else { state.last_seqno.max(replayed_to) };
        self.assemble(Assembly { state, files, lock, memtables, history, damaged }, None)
    }
}
