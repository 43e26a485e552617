//! Recovery of the log's history when a database is opened (HS6).
//!
//! A writable open writes everything in the log to tables and begins a new log; the old segments have served
//! recovery. If there are consumers behind them they are made durable, because recovery may have read them
//! from the page cache alone, and the manifest that commits the open records the end of the previous run.
//! Records behind that end do not count: if a later open finds some there, they are not read.

use esker_base::{LogId, Result, SeqNo};
use esker_env::fs::parent_dir;
use esker_env::{FileSystem, OpenMode};
use esker_version::{DatabaseState, LogLife};
use esker_wal::{KeptHistory, RecoveryReport};

/// Decides what is kept of the old log, before the open's commit point, and enters it into `state`. `flushed`
/// is the greatest sequence number that was in tables before the log was read. Kept segments are removed from
/// the `removable` files.
pub(crate) fn settle_history(
    fs: &dyn FileSystem,
    state: &mut DatabaseState,
    report: &mut RecoveryReport,
    flushed: SeqNo,
    min_log_id: LogId,
) -> Result<KeptHistory> {
    let mut lives = lives_of(state, report);
    let end = report.last_read.map_or(flushed, |(_, last)| last);
    let mut history = link(report, &lives, end, flushed);
    let behind = state.consumers.values().copied().filter(|seqno| *seqno >= history.gone_upto).min();
    history.drop_segments_through(behind.unwrap_or(SeqNo::MAX));
    lives = history.lives(&lives);
    keep_damaged(state, report, &history);
    let mut dir = None;
    for segment in history.segments.iter().filter(|segment| segment.log_id >= min_log_id) {
        fs.open(&segment.path, OpenMode::ReadWrite)?.sync_data()?;
        dir = Some(parent_dir(&segment.path));
    }
    // A run without any flush may not have made the name of its first segment durable (WL4).
    dir.map_or(Ok(()), |dir| fs.sync_dir(&dir))?;
    // A consumer that has read everything that survived has read everything before the next write, whatever
    // its number.
    for seqno in state.consumers.values_mut().filter(|seqno| **seqno >= end.max(flushed)) {
        *seqno = state.last_seqno;
    }
    state.log_lives =
        lives.iter().map(|&(last_log_id, last_seqno)| LogLife { last_log_id, last_seqno }).collect();
    report.removable.retain(|(slot, _)| !history.segments.iter().any(|segment| segment.slot == *slot));
    Ok(history)
}

/// A segment with a damaged header may be the one a consumer needs: it is kept for inspection, and the
/// affected consumers are logged.
fn keep_damaged(state: &DatabaseState, report: &mut RecoveryReport, history: &KeptHistory) {
    let cut_off = state.consumers.iter().filter(|(_, seqno)| **seqno < history.gone_upto);
    let cut_off: Vec<&str> = cut_off.map(|(name, _)| &**name).collect();
    if cut_off.is_empty() {
        return;
    }
    for path in &report.damaged {
        let (path, consumers) = (path.display(), cut_off.join(", "));
        tracing::warn!(%path, %consumers, "a log segment is damaged; it may have held changes that these consumers need");
    }
    report.removable.retain(|(_, path)| !report.damaged.contains(path));
}

/// The history that a read-only database can show: the files do not change.
pub(crate) fn history_for_reading(
    state: &DatabaseState,
    report: &RecoveryReport,
    flushed: SeqNo,
    min_log_id: LogId,
) -> KeptHistory {
    let lives = lives_of(state, report);
    let end = report.last_read.map_or(flushed, |(_, last)| last);
    let mut history = link(report, &lives, end, flushed);
    history.needed_from = min_log_id;
    // Older segments without a consumer were released, and may be half overwritten.
    let before = |first: SeqNo| SeqNo::new(first.get().saturating_sub(1));
    let needed = report.segments.get(&min_log_id).map_or(end, |segment| before(segment.first_seqno));
    let behind = state.consumers.values().copied().filter(|seqno| *seqno >= history.gone_upto);
    history.drop_segments_through(behind.fold(needed, SeqNo::min));
    history
}

/// The runs of the log with their last segments and last sequence numbers, the one that has just ended
/// included.
fn lives_of(state: &DatabaseState, report: &RecoveryReport) -> Vec<(LogId, SeqNo)> {
    let mut lives: Vec<_> = state.log_lives.iter().map(|life| (life.last_log_id, life.last_seqno)).collect();
    if let Some(ended) = report.last_read
        && lives.last().is_none_or(|before| before.0 < ended.0 && before.1 <= ended.1)
    {
        let has_batches = |history: KeptHistory| {
            history.segments.iter().any(|segment| segment.first_seqno <= segment.last_seqno)
        };
        if has_batches(KeptHistory::link(report, &[ended])) {
            lives.push(ended);
        }
    }
    lives
}

/// The segments of these runs, unless tables hold entries that the log does not: then there is a hole, and
/// nothing before it is usable.
fn link(report: &RecoveryReport, lives: &[(LogId, SeqNo)], end: SeqNo, flushed: SeqNo) -> KeptHistory {
    if end < flushed {
        return KeptHistory::none(flushed);
    }
    let mut history = KeptHistory::link(report, lives);
    if history.segments.is_empty() {
        history.gone_upto = end;
    }
    history
}
