//! Writable open: phases 2 to 6 in their order.

use super::Opening;
use super::assembly::{Assembly, WritableParts};
use super::clean_reopen::ReopenInputs;
use crate::lifecycle::replay::Replay;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_build::table_factory::TableFactory;
use esker_env::FileLock;
use esker_view::paths;
use esker_wal::KeptHistory;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Opening {
    pub(super) fn open_writable(mut self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<Store>> {
        let (assembly, parts) = match self.recover_writable() {
            Err(Error::Full(cause)) => self.recover_on_full_disk(cause)?,
            recovered => recovered?,
        };
        self.assemble(Assembly { lock, ..assembly }, Some(parts))
    }

    /// Phases 2 to 6 without the workers. After an error they may be tried again (RC2).
    pub(super) fn recover_writable(&mut self) -> Result<(Assembly, WritableParts)> {
        let fs = &*self.env.fs;
        let tables_dir = paths::tables(&self.dir);
        let (mut state, last_edit, closed) = self.read_manifest()?;
        self.phase("manifest read");
        // Both names are durable by the commit point, which syncs their parent directory.
        fs.create_dir_all(&tables_dir)?;
        fs.create_dir_all(&paths::wal(&self.dir))?;
        self.begin_time(&state);
        let is_unchanged = self.complete_state(&mut state, &tables_dir)?;
        let factory = TableFactory::new(
            self.env.clone(),
            self.dir.clone(),
            state.uuid,
            state.next_file,
            state.next_part,
        );
        let files = self.table_files()?;
        let damaged = self.check_files(&state, &files)?;
        self.phase("tables checked");
        let options = self.all_stored_options(&state)?;
        let largest_buffer = options.values().filter_map(|options| options.write_buffer_bytes).max();
        self.memory = self.memory.for_buffers_of(largest_buffer.unwrap_or(0));
        let mut replay = Replay::new(Some(&factory), &self.memory, &self.arenas, &files, state, options);
        let mut report = self.read_log(&mut replay, last_edit)?;
        self.phase("log replayed");
        let found = ReopenInputs { closed, last_edit, is_unchanged, state: &replay.state, report: &report };
        let resumed = self.resume(&found)?;
        self.note_log_time(&report);
        let replayed = replay.entries_applied;
        let (state, manifest, log_id, history) = match resumed {
            Some(manifest) => {
                let state = replay.into_unchanged();
                let (log_id, history) = (state.min_log_id, KeptHistory::none(state.last_seqno));
                (state, manifest, log_id, history)
            }
            None => {
                let (state, manifest, history) =
                    self.begin_manifest(replay, &factory, last_edit, &mut report)?;
                (state, manifest, report.next_log_id, history)
            }
        };
        self.phase("manifest committed");
        self.delete_orphans(&state, manifest.number(), &tables_dir)?;
        let (log, writer) = self.begin_log(&state, manifest.last_edit(), log_id, history)?;
        self.phase("log begun");
        tracing::info!(dir = %self.dir.display(), replayed, warning = report.warning, "database opened");
        let history = KeptHistory::default();
        let assembly = Assembly { state, files, lock: None, memtables: BTreeMap::new(), history, damaged };
        Ok((assembly, WritableParts { manifest, tables: factory, log, writer, report }))
    }
}
