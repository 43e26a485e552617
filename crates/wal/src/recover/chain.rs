//! Log chain: follows the segments by their end records to the stop, the first offset without a valid record,
//! and searches for valid records behind it.
//!
//! What it reads on the way decides the [tail check](super::tail) and fills the report.

use super::RecoverInput;
use super::record_view::RecordView;
use super::report::RecoveryReport;
use crate::catalog::{Catalog, CatalogedSegment};
use crate::record::{LogPosition, RecordHeader, RecordKind, decode_segment_end};
use crate::scan::{Probe, SegmentReader, StopReason, Window};
use esker_base::{Error, LogId, Result, SeqNo};
use std::path::{Path, PathBuf};

/// The first offset without a valid record, or the segment that is missing there.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) position: LogPosition,
    /// The damaged or missing part, for error messages.
    pub(super) file: PathBuf,
    pub(super) file_offset: u64,
    pub(super) reason: Option<StopReason>,
    pub(super) what: String,
    /// The boot in which it was written, as far as known.
    pub(super) boot_id: [u8; 16],
    /// Whether an end record names the segment that is missing.
    pub(super) header_lost: bool,
}

/// How the records of one segment end.
enum SegmentEnd {
    /// With the end record at `end`, which names the segment `next`.
    Follower {
        end: LogPosition,
        next: LogId,
    },
    Stop(Stop),
}

/// What was read so far. See the head of [`super`] for D and n.
pub(super) struct Chain<'a> {
    pub(super) input: &'a RecoverInput<'a>,
    pub(super) catalog: &'a Catalog,
    /// D: everything before this is known to have been durable.
    pub(super) durable: LogPosition,
    /// The smallest sequence number that the next record may have.
    expected: u64,
    greatest_seqno: u64,
    greatest_log_id: LogId,
    latest_wall_ms: u64,
    segments_read: usize,
    last_read: Option<(LogId, SeqNo)>,
    records: u64,
    bytes: u64,
    /// n: valid records behind the stop that have sequence numbers.
    records_behind: u64,
    /// Position of a record behind the stop that was written after the stop was complete.
    pub(super) written_after: Option<LogPosition>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(input: &'a RecoverInput<'a>, catalog: &'a Catalog) -> Chain<'a> {
        Chain {
            input,
            catalog,
            durable: input.durable,
            expected: 0,
            greatest_seqno: 0,
            greatest_log_id: catalog.greatest_log_id.max(input.min_log_id).max(input.durable.log_id),
            latest_wall_ms: 0,
            segments_read: 0,
            last_read: None,
            records: 0,
            bytes: 0,
            records_behind: 0,
            written_after: None,
        }
    }

    /// Returns records from segment to segment until the stop.
    pub(super) fn follow(
        &mut self,
        on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
    ) -> Result<Stop> {
        let Some(mut segment) = self.catalog.live.get(&self.input.min_log_id) else {
            return Ok(self.first_missing());
        };
        loop {
            let (end, next) = match self.read_segment(segment, on_record)? {
                SegmentEnd::Follower { end, next } => (end, next),
                SegmentEnd::Stop(stop) => return Ok(stop),
            };
            let Some(follower) = self.catalog.live.get(&next) else {
                return Ok(Stop::at_missing_follower(segment, end, next));
            };
            if follower.header.prev_end != end {
                let detail = format!(
                    "log segment {next} says that it continues {}, but it was reached from {end}",
                    follower.header.prev_end
                );
                return Err(Error::corruption(follower.file.path(), 0, detail));
            }
            segment = follower;
        }
    }

    /// Returns the records of one segment.
    fn read_segment(
        &mut self,
        segment: &CatalogedSegment,
        on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
    ) -> Result<SegmentEnd> {
        let header = &segment.header;
        let file = segment.file.path();
        let mut reader = SegmentReader::new(Window::new(segment.file.clone())?, header);
        self.segments_read += 1;
        self.latest_wall_ms = self.latest_wall_ms.max(header.wall_ms);
        self.expected = self.expected.max(header.first_seqno.get());
        self.last_read = Some((header.log_id, SeqNo::new(self.expected.saturating_sub(1))));
        let mut position = LogPosition::new(header.log_id, u64::from(header.data_start));
        loop {
            let (record, payload) = match reader.probe(position.offset)? {
                Probe::Record { header, payload } => (header, payload),
                Probe::Nothing { reason, .. } => {
                    return Ok(SegmentEnd::Stop(Stop::at(segment, position, reason)));
                }
            };
            self.check_order(&record, file, position)?;
            self.note(&record);
            self.bytes += record.record_len();
            match record.kind {
                RecordKind::Batch | RecordKind::Carry | RecordKind::Ingest => {
                    self.records += 1;
                    on_record(&RecordView { file, position, header: &record, payload })?;
                }
                RecordKind::Mark => {}
                RecordKind::SegmentEnd => {
                    let next = self.end_record(payload, file, position)?;
                    return Ok(SegmentEnd::Follower { end: position, next });
                }
            }
            position.offset += record.record_len();
        }
    }

    /// The follower that an end record names: always a later id, so that the chain terminates.
    fn end_record(&mut self, payload: &[u8], file: &Path, at: LogPosition) -> Result<LogId> {
        match decode_segment_end(payload) {
            Some(next) if next > at.log_id && next <= LogId::MAX_STORED => {
                self.greatest_log_id = self.greatest_log_id.max(next);
                Ok(next)
            }
            _ => Err(Error::corruption(file, at.offset, "an end record that names no later segment")),
        }
    }

    /// WL2; a valid checksum over a number that goes back is not a torn write.
    fn check_order(&mut self, record: &RecordHeader, file: &Path, at: LogPosition) -> Result<()> {
        let first = record.first_seqno.get();
        if first < self.expected {
            let detail = format!("sequence number {first} in a record, at least {} expected", self.expected);
            return Err(Error::corruption(file, at.offset, detail));
        }
        self.expected = first + u64::from(record.count);
        if let Some((_, last_seqno)) = &mut self.last_read {
            *last_seqno = SeqNo::new(self.expected.saturating_sub(1));
        }
        Ok(())
    }

    /// Collects sequence numbers and marks of every valid record, before and behind the stop.
    fn note(&mut self, record: &RecordHeader) {
        self.greatest_seqno = self.greatest_seqno.max(record.last_seqno().get());
        if let Some(mark) = record.mark {
            self.durable = self.durable.max(mark);
            self.greatest_log_id = self.greatest_log_id.max(mark.log_id);
        }
    }

    /// Searches for valid records behind the stop, in its segment and in all later ones.
    pub(super) fn search_behind(&mut self, stop: &Stop) -> Result<()> {
        let catalog = self.catalog;
        for (&log_id, segment) in catalog.live.range(stop.position.log_id..) {
            let start = u64::from(segment.header.data_start);
            let here = log_id == stop.position.log_id && stop.position.offset > 0;
            let from = if here { stop.position.offset + 1 } else { start };
            self.search_segment(segment, from)?;
        }
        Ok(())
    }

    fn search_segment(&mut self, segment: &CatalogedSegment, from: u64) -> Result<()> {
        let mut reader = SegmentReader::new(Window::new(segment.file.clone())?, &segment.header);
        let mut at = from;
        while let Some(candidate) = reader.next_candidate(at)? {
            let Probe::Record { header, payload } = reader.probe(candidate)? else {
                at = candidate + 1;
                continue;
            };
            let position = LogPosition::new(segment.header.log_id, candidate);
            if header.kind == RecordKind::SegmentEnd {
                self.end_record(payload, segment.file.path(), position)?;
            }
            at = candidate + header.record_len();
            self.note(&header);
            if header.count > 0 {
                // If the stop had been incomplete at this offset, it and all valid records between were in
                // flight.
                if self.records_behind >= u64::from(header.in_flight) {
                    self.written_after.get_or_insert(position);
                }
                self.records_behind += 1;
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, stop: &Stop) -> RecoveryReport {
        let mut warnings = Vec::new();
        if self.records_behind > 0 {
            warnings.push(format!(
                "the log was cut at {}: {}; {} later records that were never known durable are dropped",
                stop.position, stop.what, self.records_behind
            ));
        }
        for path in &self.catalog.foreign {
            warnings.push(format!("{} belongs to another database and is left alone", path.display()));
        }
        RecoveryReport {
            segments_seen: self.catalog.files.len(),
            segments_read: self.segments_read,
            records: self.records,
            bytes: self.bytes,
            dropped_records: self.records_behind,
            warning: (!warnings.is_empty()).then(|| warnings.join("; ")),
            next_log_id: self.greatest_log_id.next(),
            greatest_seqno: SeqNo::new(self.greatest_seqno),
            latest_wall_ms: self.latest_wall_ms,
            end: stop.position,
            end_reason: stop.reason,
            removable: self.catalog.files.clone(),
            last_read: self.last_read,
            damaged: self.catalog.damaged.clone(),
            segments: self.catalog.segments.clone(),
        }
    }

    /// The segment named by the manifest is missing: never begun, or its first header lost with the power.
    fn first_missing(&self) -> Stop {
        let log_id = self.input.min_log_id;
        let later = self.catalog.live.values().next();
        Stop {
            position: LogPosition::new(log_id, 0),
            file: self.input.dir.to_path_buf(),
            file_offset: 0,
            reason: None,
            what: format!("no file is log segment {log_id}, where the log should start"),
            boot_id: later.map_or([0; 16], |segment| segment.header.boot_id),
            header_lost: false,
        }
    }
}

impl Stop {
    fn at(segment: &CatalogedSegment, position: LogPosition, reason: StopReason) -> Stop {
        Stop {
            position,
            file: segment.file.path().to_path_buf(),
            file_offset: position.offset,
            reason: Some(reason),
            what: reason.to_string(),
            boot_id: segment.header.boot_id,
            header_lost: false,
        }
    }

    /// An end record leads to a segment without a valid header.
    fn at_missing_follower(segment: &CatalogedSegment, end: LogPosition, next: LogId) -> Stop {
        Stop {
            position: LogPosition::new(next, 0),
            file: segment.file.path().to_path_buf(),
            file_offset: end.offset,
            reason: None,
            what: format!(
                "the log goes on in segment {next}, and no file has a valid header of that segment"
            ),
            boot_id: segment.header.boot_id,
            header_lost: true,
        }
    }
}
