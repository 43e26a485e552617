//! Log of an open: replayed from where the manifest says (phase 4), and begun anew (phase 6).

use super::Opening;
use crate::lifecycle::replay::Replay;
use esker_base::{LogId, Result, SeqNo, planted};
use esker_version::DatabaseState;
use esker_view::paths;
use esker_wal::{
    KeptHistory, Log, LogOptions, LogPosition, LogStart, LogWriter, RecoverInput, RecoveryReport,
};
use std::path::Path;
use std::sync::Arc;

impl Opening {
    /// The input of a recovery of the log in `dir`, for a state of the manifest.
    pub(super) fn recover_input<'a>(
        &'a self,
        dir: &'a Path,
        state: &DatabaseState,
        last_edit: u64,
    ) -> RecoverInput<'a> {
        let durable = state.durable_position;
        RecoverInput {
            fs: &*self.env.fs,
            dir,
            db_uuid: state.uuid,
            min_log_id: state.min_log_id,
            durable: durable.map_or(LogPosition::ZERO, |(id, offset)| LogPosition::new(id, offset)),
            last_manifest_edit: last_edit,
            mode: self.options.wal_recovery,
        }
    }

    /// Applies the records of the log.
    pub(super) fn read_log(&self, replay: &mut Replay<'_>, last_edit: u64) -> Result<RecoveryReport> {
        let dir = paths::wal(&self.dir);
        let input = self.recover_input(&dir, &replay.state, last_edit);
        let report = esker_wal::recover(&input, &mut |record| replay.apply(record))?;
        for (_, path) in report.removable.iter().filter(|_| planted!(DeletesLogTooEarly)) {
            self.env.fs.remove_file(path)?;
        }
        Ok(report)
    }

    /// Headers of log segments may be later than the manifest.
    pub(super) fn note_log_time(&self, report: &RecoveryReport) {
        if !self.options.believe_clock {
            self.time.raise_if_near(report.latest_wall_ms);
        }
    }

    pub(super) fn begin_log(
        &self,
        state: &DatabaseState,
        manifest_edit: u64,
        log_id: LogId,
        history: KeptHistory,
    ) -> Result<(Arc<Log>, LogWriter)> {
        let start = LogStart {
            db_uuid: state.uuid,
            log_id,
            last_seqno: state.last_seqno,
            manifest_edit,
            wall_ms: self.time.now_ms(),
            history,
        };
        let options = LogOptions {
            segment_bytes: self.memory.wal_segment_bytes,
            mapped: self.options.mapped_log,
            kept_segments: self.memory.kept_segments(),
            history_limit_bytes: self.options.change_history_bytes,
        };
        Log::create(&self.env, &paths::wal(&self.dir), &start, options)
    }
}

/// The greatest sequence number that is in tables, according to the manifest.
pub(super) fn flushed_seqno(state: &DatabaseState) -> SeqNo {
    state.keyspaces.values().map(|keyspace| keyspace.flushed_seqno).max().unwrap_or_default()
}
