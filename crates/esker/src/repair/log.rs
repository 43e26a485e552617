//! The log of a directory that is not open: how far it can be replayed, and what is missing.
//!
//! If the rules of recovery accept the log, it counts as they say: a torn end after a power cut is no damage.
//! Otherwise every whole record counts, and each gap is reported by its sequence numbers.

use super::finding::{Finding, KeySpan, detail_of};
use super::survey::{Basis, Survey};
use esker_base::{Error, LogId, Result, SeqNo};
use esker_version::DatabaseState;
use esker_wal::{
    LogGap, LogPosition, LogSalvage, RecordView, RecoverInput, SalvageInput, WalRecovery, salvage,
};

/// What is to be said of a log.
#[derive(Debug, Default)]
pub(crate) struct LogVerdict {
    /// Records that can be replayed.
    pub(crate) records: u64,
    /// Set if recovery refuses the log.
    refused: Option<Error>,
    /// Writes that are missing unless the database was interrupted while it was opened.
    pub(crate) maybe: Option<LogGap>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) notes: Vec<String>,
}

impl LogVerdict {
    /// Whether recovery would refuse the log, or lose part of it without a word.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some() || !self.findings.is_empty() || self.maybe.is_some()
    }
}

/// The end of a replay.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    pub(crate) greatest_seqno: SeqNo,
    pub(crate) next_log_id: LogId,
    pub(crate) latest_wall_ms: u64,
    pub(crate) gaps: Vec<LogGap>,
}

/// Reads the log and judges it; changes nothing.
///
/// # Errors
/// [`Error::Unsupported`] if a newer version wrote it.
pub(crate) fn judge(survey: &Survey) -> Result<LogVerdict> {
    let mut verdict = LogVerdict { refused: short_segment(survey), ..LogVerdict::default() };
    let start = missing_start(survey);
    if let Basis::Manifest(manifest) = &survey.basis
        && verdict.refused.is_none()
        && start.is_none()
    {
        let input = recover_input(survey, &manifest.state, manifest.last_edit);
        match esker_wal::recover(&input, &mut check_record) {
            Ok(report) => {
                verdict.records = report.records;
                verdict.notes.extend(report.warning);
                return Ok(verdict);
            }
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Err(error) => verdict.refused = Some(error),
        }
    }
    let salvaged = salvage(&salvage_input(survey), &mut |_| Ok(()))?;
    verdict.records = salvaged.records;
    verdict.findings.extend(salvaged.gaps.iter().map(finding_of_gap));
    match start.filter(|_| salvaged.gaps.is_empty()) {
        Some((gap, true)) => verdict.findings.push(finding_of_gap(&gap)),
        Some((gap, false)) => {
            verdict.notes.push(format!(
                "{}: right if the database was interrupted while it was opened; else the writes since the last \
                 flush are lost",
                gap.what
            ));
            verdict.maybe = Some(gap);
        }
        None => {}
    }
    for segment in survey.segments.iter().filter(|segment| segment.is_damaged) {
        let what = "both copies of the header of this log segment are damaged";
        let meaning = "writes in it that are in no table are lost";
        verdict.findings.push(Finding::new(&segment.path, 0, what, meaning));
    }
    if verdict.findings.is_empty()
        && let Some(error) = &verdict.refused
    {
        let (offset, what) = detail_of(error);
        let meaning = "the database does not open; writes behind this place may be lost";
        let file = match error {
            Error::Corruption(corruption) => corruption.file.clone(),
            _ => survey.log_dir.clone(),
        };
        verdict.findings.push(Finding::new(&file, offset, what, meaning));
    }
    Ok(verdict)
}

/// Passes every record that counts to `on_record`, in order. `refused` as [`judge`] returned it.
pub(crate) fn replay(
    survey: &Survey,
    is_refused: bool,
    on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<LogEnd> {
    if let Basis::Manifest(manifest) = &survey.basis
        && !is_refused
    {
        let report =
            esker_wal::recover(&recover_input(survey, &manifest.state, manifest.last_edit), on_record)?;
        return Ok(LogEnd {
            greatest_seqno: report.greatest_seqno,
            next_log_id: report.next_log_id,
            latest_wall_ms: report.latest_wall_ms,
            gaps: Vec::new(),
        });
    }
    let LogSalvage { greatest_seqno, greatest_log_id, latest_wall_ms, gaps, .. } =
        salvage(&salvage_input(survey), on_record)?;
    Ok(LogEnd { greatest_seqno, next_log_id: greatest_log_id.next(), latest_wall_ms, gaps })
}

fn check_record(record: &RecordView<'_>) -> Result<()> {
    record.entries().try_for_each(|entry| entry.map(|_| ()))
}

fn recover_input<'a>(survey: &'a Survey, state: &DatabaseState, last_edit: u64) -> RecoverInput<'a> {
    RecoverInput {
        fs: &*survey.env.fs,
        dir: &survey.log_dir,
        db_uuid: state.uuid,
        min_log_id: state.min_log_id,
        durable: durable(state),
        last_manifest_edit: last_edit,
        mode: WalRecovery::Strict,
    }
}

fn salvage_input(survey: &Survey) -> SalvageInput<'_> {
    let state = survey.state();
    let own = survey.segments.iter().filter_map(|segment| segment.header.as_ref());
    let oldest = own.filter(|header| header.db_uuid == survey.uuid).map(|header| header.log_id).min();
    SalvageInput {
        files: &survey.segments,
        db_uuid: survey.uuid,
        // Without a manifest the log begins with the oldest segment that is there.
        min_log_id: state.map_or_else(|| oldest.unwrap_or_default(), |state| state.min_log_id),
        durable: state.map_or(LogPosition::ZERO, durable),
        flushed: state.map_or(SeqNo::ZERO, flushed),
    }
}

fn durable(state: &DatabaseState) -> LogPosition {
    state.durable_position.map_or(LogPosition::ZERO, |(id, offset)| LogPosition::new(id, offset))
}

/// Everything up to here is in tables, of whichever keyspace.
fn flushed(state: &DatabaseState) -> SeqNo {
    state.keyspaces.values().map(|keyspace| keyspace.flushed_seqno).min().unwrap_or_default()
}

/// The gap at the beginning, if the segment where the log should start is missing, and whether that is
/// certainly a loss. It is none in a copy that was never opened, and after a close that left everything in
/// tables; and an open that is interrupted leaves a manifest without edits and no segment.
fn missing_start(survey: &Survey) -> Option<(LogGap, bool)> {
    let Basis::Manifest(manifest) = &survey.basis else { return None };
    let state = &manifest.state;
    let mut own = survey.segments.iter().filter_map(|segment| segment.header.as_ref());
    let is_there = own.any(|header| header.db_uuid == state.uuid && header.log_id == state.min_log_id);
    if is_there || manifest.is_closed || manifest.last_edit == 0 {
        return None;
    }
    let what = format!("log segment {}, where the log should start, is missing", state.min_log_id);
    let (file, first) = (survey.log_dir.clone(), flushed(state).plus(1));
    let is_certain = manifest.edits > 1 || !survey.has_log_dir;
    Some((LogGap { file, offset: 0, first, last: None, what }, is_certain))
}

/// A live segment whose file is shorter than its header says.
fn short_segment(survey: &Survey) -> Option<Error> {
    let state = survey.state()?;
    survey.segments.iter().find_map(|segment| {
        let header = segment.header.as_ref()?;
        let is_live = header.db_uuid == state.uuid && header.log_id >= state.min_log_id;
        let (is, said) = (segment.file_bytes, header.size_bytes);
        let what = || format!("the file has {is} bytes, its header says {said}");
        (is_live && is < said).then(|| Error::corruption(&segment.path, is, what()))
    })
}

/// A gap as a finding: which keys it concerns is not known.
pub(crate) fn finding_of_gap(gap: &LogGap) -> Finding {
    let seqnos = match gap.last {
        Some(last) if last == gap.first => format!("the write with sequence number {last} is"),
        Some(last) => format!("the writes with sequence numbers {} to {last} are", gap.first),
        None => format!("writes from sequence number {} on are", gap.first),
    };
    let what = format!("{seqnos} missing from the log: {}", gap.what);
    let meaning = "keys that they changed, of any keyspace, have older values, or deleted ones come back";
    let entries = gap.last.map(|last| last.get().saturating_sub(gap.first.get()) + 1);
    Finding::new(&gap.file, gap.offset, what, meaning).over(KeySpan::everything(), entries)
}
