//! Scans the log of a directory before it is opened: what numbers were given out there.

use crate::Outcome;
use esker::SeqNo;
use esker::parts::env::FileSystem;
use esker::parts::version::{self, Recovery};
use esker::parts::wal::{LogPosition, RecoverInput, WalRecovery, recover};
use std::path::Path;

/// The greatest sequence number in any valid record of the log, also behind the place where the log was cut.
/// Zero if there is no database yet, or its log is damaged, which opening it reports.
pub(crate) fn greatest_seqno(fs: &dyn FileSystem, dir: &Path) -> Outcome<SeqNo> {
    let Recovery::Database(found) = version::recover(fs, dir)? else { return Ok(SeqNo::ZERO) };
    let (state, mode) = (&found.state, WalRecovery::Strict);
    let durable =
        state.durable_position.map_or(LogPosition::ZERO, |(id, offset)| LogPosition::new(id, offset));
    let input = RecoverInput {
        fs,
        dir: &dir.join("wal"),
        db_uuid: state.uuid,
        min_log_id: state.min_log_id,
        durable,
        last_manifest_edit: found.last_edit,
        mode,
    };
    Ok(recover(&input, &mut |_| Ok(())).map_or(SeqNo::ZERO, |report| report.greatest_seqno))
}
