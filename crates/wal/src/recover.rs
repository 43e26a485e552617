//! Log recovery: replays the records of earlier lives of the database up to the end of the log, and decides
//! whether that end is a crash or damage.
//!
//! **Guarantee.** The records returned are a prefix of the order of writing, each one whole (WL3), and the
//! prefix holds everything that was acknowledged at its level of durability. Otherwise the open fails with
//! the file and the offset.
//!
//! **Procedure.** Scanning starts at the segment that the manifest names and follows the end records. The
//! first offset without a valid record is the *stop*, at h. Every log has one, because a crash writes no end
//! marker. The verdict depends on the bytes behind the stop and on what is known to have been durable. So the
//! rest of the segment and all later segments are searched for valid records: n of them, and D is the
//! greatest of the marks in any valid record and of the manifest's durable positions.
//!
//! | finding, the first that applies | verdict |
//! |---|---|
//! | D > (segment, h) | corruption: data known durable is gone |
//! | a file is shorter than its header says: same boot, or D is in or behind it (4) | corruption |
//! | a segment is missing, and a file that is not blank has both header copies damaged (1) | corruption |
//! | same boot, and a record behind the stop counted fewer in flight than are between (2) | corruption |
//! | same boot, and an end record names a segment without a header (3) | corruption |
//! | same boot, no such record | a process crash while h was written: cut, h was not acknowledged |
//! | other or unknown boot | a power cut took any subset of unsynced pages: cut, n as a warning |
//!
//! (1) Neither a crash nor a power cut alone damages two sectors. Both together may, in a file whose header
//! is being stored for the first time, and then no record is behind it. (2) So h was complete, and no power
//! was lost since. (3) Headers are stored before end records. (4) Files are allocated before their header is
//! stored; only a power cut before the first flush loses the length.
//!
//! A segment begun after a manifest edit that the manifest does not have is corruption as well. In this
//! version no record is ever in flight (see [`crate::writer`]), so within one boot *any* valid record behind
//! the stop proves damage; the general rule is the format's and costs nothing. [`WalRecovery::PowerCut`]
//! keeps only the first and the last row of the table.
//!
//! Undetected: damage to the very last records if they were never synced and nothing valid follows. It cannot
//! be told from a torn tail.
//!
//! **WL1.** A cut never truncates or overwrites: bytes that recovery has read may exist only in the page
//! cache, and a failed flush may have marked them clean. So nothing is ever appended to a segment that was
//! read; the caller puts what was replayed into tables, begins a new log, commits that, and deletes the old
//! files ([`crate::Log::delete_old`]). Until then recovery writes nothing (RC1), and the same files give the
//! same result however often recovery is interrupted (RC2).
//!
//! **RC3.** Ids and sequence numbers never go back, not even past the cut: the report counts all of them. CP7
//! and the marks give D its meaning: a mark is written only after its flush succeeded.

use crate::batch::{BatchDamage, CarryIter, Entry, EntryIter, Ingest};
use crate::catalog::{Catalog, CatalogedSegment};
use crate::history::{HistorySegment, KeptHistory, SegmentSummary};
use crate::record::{LogPosition, RecordHeader, RecordKind, decode_segment_end};
use crate::scan::{Probe, SegmentReader, StopReason, Window};
use esker_base::planted;
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::FileSystem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How the stop is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "WALRecoveryMode")]
pub enum WalRecovery {
    /// By the boot in which the segment was written.
    #[default]
    Strict,
    /// As after a power cut: for an image of a running host, or a device remounted within one boot.
    PowerCut,
}

/// Input of recovery.
#[derive(Clone, Copy, Debug)]
pub struct RecoverInput<'a> {
    /// The file system.
    pub fs: &'a dyn FileSystem,
    /// The directory of the segments; missing means that there are none.
    pub dir: &'a Path,
    /// The database.
    pub db_uuid: [u8; 16],
    /// The first segment that is needed, from the manifest.
    pub min_log_id: LogId,
    /// The greatest durable position in the manifest.
    pub durable: LogPosition,
    /// The number of the last edit in the manifest.
    pub last_manifest_edit: u64,
    /// How to judge the stop.
    pub mode: WalRecovery,
}

/// Result of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segment files of this database in the directory.
    pub segments_seen: usize,
    /// Those that held a part of the log.
    pub segments_read: usize,
    /// Records returned.
    pub records: u64,
    /// Bytes of all records before the stop, marks, end records, headers and padding included.
    pub bytes: u64,
    /// Valid records behind the cut, lost with a power cut.
    pub dropped_records: u64,
    /// What was dropped and what was left alone, for the operator.
    pub warning: Option<String>,
    /// The id for the next segment: greater than every id seen.
    pub next_log_id: LogId,
    /// The greatest sequence number in any valid record, dropped ones included; zero if there is none.
    pub greatest_seqno: SeqNo,
    /// The latest header time of the read segments, in milliseconds since 1970; 0 if there is none.
    pub latest_wall_ms: u64,
    /// Where the log ended.
    pub end: LogPosition,
    /// Why it ended there; `None` if the first segment does not exist.
    pub end_reason: Option<StopReason>,
    /// Slot and path of every segment file that the new life replaces.
    pub removable: Vec<(u32, PathBuf)>,
    /// The last segment that was read, and the last sequence number before the stop, from an earlier segment
    /// if this one has no record. `None` if no segment was read.
    pub last_read: Option<(LogId, SeqNo)>,
    /// Segment files with both copies of the header damaged.
    pub damaged: Vec<PathBuf>,
    /// All segment files of this database that have a valid header, by log id.
    pub segments: BTreeMap<LogId, SegmentSummary>,
}

impl KeptHistory {
    /// Links the segments that a recovery found to the lives of the log, each given by its last segment and
    /// its last sequence number, oldest first: from the newest back to the first missing segment.
    pub fn link(report: &RecoveryReport, lives: &[(LogId, SeqNo)]) -> KeptHistory {
        let mut segments = Vec::new();
        let mut last_seqno = lives.last().map_or(SeqNo::ZERO, |(_, last)| *last);
        'lives: for &(last_log_id, end) in lives.iter().rev() {
            last_seqno = end;
            let mut log_id = last_log_id;
            loop {
                let Some(found) = report.segments.get(&log_id) else { break 'lives };
                let SegmentSummary { slot, path, size_bytes, first_seqno, prev_end } = found.clone();
                segments.push(HistorySegment { slot, path, log_id, size_bytes, first_seqno, last_seqno });
                last_seqno = SeqNo::new(first_seqno.get().saturating_sub(1)).min(last_seqno);
                if prev_end == LogPosition::ZERO || prev_end.log_id >= log_id {
                    break;
                }
                log_id = prev_end.log_id;
            }
        }
        segments.reverse();
        KeptHistory { segments, gone_upto: last_seqno, ..KeptHistory::default() }
    }
}

/// One record, as recovery returns it.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// The segment file.
    pub file: &'a Path,
    /// Its position.
    pub position: LogPosition,
    /// Its header.
    pub header: &'a RecordHeader,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The entries of a batch or Carry record with their sequence numbers; empty for other kinds.
    ///
    /// A batch with another number of entries than its header says returns an error at its end.
    pub fn entries(&self) -> RecordEntries<'a> {
        let source = match self.header.kind {
            RecordKind::Batch => EntrySource::Batch(EntryIter::new(self.payload)),
            RecordKind::Carry => EntrySource::Carry(CarryIter::new(self.payload)),
            _ => EntrySource::Batch(EntryIter::new(&[])),
        };
        RecordEntries { record: *self, source, given: 0, ended: false }
    }

    /// The files that an Ingest record adds.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the payload is not a list of files.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::decode(self.payload).map_err(|damage| self.damage(damage))
    }

    /// Damage inside the payload as an error with file and offset.
    fn damage(&self, damage: BatchDamage) -> Error {
        let at = self.position.offset + (self.header.encoded_len() + damage.offset) as u64;
        Error::corruption(self.file, at, damage.to_string())
    }
}

/// Entries of one record; see [`RecordView::entries`].
#[derive(Clone, Debug)]
pub struct RecordEntries<'a> {
    record: RecordView<'a>,
    source: EntrySource<'a>,
    given: u32,
    ended: bool,
}

#[derive(Clone, Debug)]
enum EntrySource<'a> {
    Batch(EntryIter<'a>),
    Carry(CarryIter<'a>),
}

impl<'a> Iterator for RecordEntries<'a> {
    type Item = Result<(SeqNo, Entry<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.record.header;
        let next = match &mut self.source {
            EntrySource::Carry(carried) => carried.next(),
            EntrySource::Batch(entries) => {
                let seqno = header.first_seqno.plus(u64::from(self.given));
                entries.next().map(|entry| entry.map(|entry| (seqno, entry)))
            }
        };
        let batch = header.kind == RecordKind::Batch;
        match next {
            Some(Ok(entry)) if !batch || self.given < header.count => {
                self.given += 1;
                Some(Ok(entry))
            }
            Some(Err(damage)) => {
                self.ended = true;
                Some(Err(self.record.damage(damage)))
            }
            None if !batch || self.given == header.count || self.ended => None,
            _ => {
                self.ended = true;
                self.source = EntrySource::Batch(EntryIter::new(&[]));
                let more = if next.is_some() { "more" } else { "fewer" };
                let detail = format!("{} entries expected, the batch has {more}", header.count);
                Some(Err(Error::corruption(self.record.file, self.record.position.offset, detail)))
            }
        }
    }
}

/// Reads the log and passes every batch, Carry and Ingest record to `on_record`, in order, up to the stop.
///
/// Reads each live segment once, through a buffer of about 1 MiB or the largest record; changes nothing. The
/// verdict comes last: the records count only if this returns a report.
///
/// # Errors
/// [`Error::Corruption`] by the verdicts at the head of this file, [`Error::Unsupported`] for what a newer
/// version wrote, [`Error::Io`] from the device, and the errors of `on_record`.
pub fn recover(
    input: &RecoverInput<'_>,
    on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<RecoveryReport> {
    let catalog = Catalog::read(input.fs, input.dir, &input.db_uuid, input.min_log_id)?;
    for segment in catalog.live.values() {
        if segment.header.manifest_edit > input.last_manifest_edit {
            let detail = format!(
                "the log segment was begun after edit {} of the manifest, which ends with edit {}: \
                 the manifest has lost durable edits",
                segment.header.manifest_edit, input.last_manifest_edit
            );
            return Err(Error::corruption(segment.file.path(), 0, detail));
        }
    }
    let mut scan = Scan::new(input, &catalog);
    let stop = scan.follow_chain(on_record)?;
    scan.search_behind(&stop)?;
    scan.judge(&stop)?;
    Ok(scan.report(&stop))
}

#[derive(Debug)]
struct ChainEnd {
    position: LogPosition,
    /// The damaged or missing part, for error messages.
    file: PathBuf,
    file_offset: u64,
    reason: Option<StopReason>,
    what: String,
    /// The boot in which it was written, as far as known.
    boot_id: [u8; 16],
    /// Whether an end record names the segment that is missing.
    header_lost: bool,
}

struct Scan<'a> {
    input: &'a RecoverInput<'a>,
    catalog: &'a Catalog,
    /// D: everything before this is known to have been durable.
    durable: LogPosition,
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
    behind: u64,
    /// Position of a record behind the stop which proves that the stop was complete once.
    proof: Option<LogPosition>,
}

impl<'a> Scan<'a> {
    fn new(input: &'a RecoverInput<'a>, catalog: &'a Catalog) -> Scan<'a> {
        Scan {
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
            behind: 0,
            proof: None,
        }
    }

    /// Returns records from segment to segment until the stop.
    fn follow_chain(&mut self, on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>) -> Result<ChainEnd> {
        let Some(mut segment) = self.catalog.live.get(&self.input.min_log_id) else {
            return Ok(self.first_missing());
        };
        loop {
            let (end, next) = match self.read_segment(segment, on_record)? {
                Ok(chain) => chain,
                Err(stop) => return Ok(stop),
            };
            let Some(follower) = self.catalog.live.get(&next) else {
                return Ok(self.follower_missing(segment, end, next));
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

    /// Reads one segment: the position of its end record and the segment that it names, or the stop.
    fn read_segment(
        &mut self,
        segment: &CatalogedSegment,
        on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
    ) -> Result<Result<(LogPosition, LogId), ChainEnd>> {
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
                Probe::Nothing { reason, .. } => return Ok(Err(ChainEnd::at(segment, position, reason))),
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
                    return Ok(Ok((position, next)));
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
    fn search_behind(&mut self, stop: &ChainEnd) -> Result<()> {
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
                if self.behind >= u64::from(header.in_flight) {
                    self.proof.get_or_insert(position);
                }
                self.behind += 1;
            }
        }
        Ok(())
    }

    /// Applies the table at the head of this file.
    fn judge(&self, stop: &ChainEnd) -> Result<()> {
        let damage = |why: String| Err(Error::corruption(&stop.file, stop.file_offset, why));
        if self.durable > stop.position && !planted!(AcceptsShortLog) {
            let why = format!(
                "{}; everything before {} is known to have been durable, so data is lost and this is not the \
                 end of the log",
                stop.what, self.durable
            );
            // A missing segment is likely the one whose header cannot be read.
            let unreadable = self.catalog.cut.first().or(self.catalog.damaged.first());
            return match unreadable.filter(|_| stop.reason.is_none()) {
                Some(file) => Err(Error::corruption(file, 0, format!("no valid header; {why}"))),
                None => damage(why),
            };
        }
        self.check_lengths()?;
        if self.input.mode == WalRecovery::PowerCut {
            return Ok(());
        }
        if let Some(damaged) = self.catalog.damaged.first()
            && stop.reason.is_none()
        {
            let why = format!("{}, and both copies of the header of this file are damaged", stop.what);
            return Err(Error::corruption(damaged, 0, why));
        }
        let boot = self.input.fs.boot_id();
        if boot != stop.boot_id || boot == [0; 16] {
            return Ok(());
        }
        const ADVICE: &str = "if this is a copy of a running host's disk, or the device was lost and mounted \
                              again, open it with the option WalRecovery::PowerCut";
        if stop.header_lost {
            return damage(format!("{}, and no power was lost since it was written; {ADVICE}", stop.what));
        }
        if let Some(proof) = self.proof {
            return damage(format!(
                "{}; the record at {proof} was written after it and no power was lost since, so this was \
                 complete once; {ADVICE}",
                stop.what
            ));
        }
        Ok(())
    }

    /// A segment shorter than its header says was cut after it was written, unless a power cut lost the
    /// length of a file that was never flushed.
    fn check_lengths(&self) -> Result<()> {
        let boot = self.input.fs.boot_id();
        for segment in self.catalog.live.values() {
            let (Some(found), header) = (segment.short_bytes, &segment.header) else { continue };
            let is_of_this_boot = header.boot_id == boot && boot != [0; 16];
            let may_be_power_cut = !is_of_this_boot || self.input.mode == WalRecovery::PowerCut;
            let was_flushed = self.durable > LogPosition::new(header.log_id, 0);
            if (was_flushed || !may_be_power_cut) && !planted!(AcceptsCutSegment) {
                let detail = format!(
                    "the segment has {} bytes by its header, and the file only {found}: its end is gone, and \
                     records may be with it",
                    header.size_bytes
                );
                return Err(Error::corruption(segment.file.path(), found, detail));
            }
        }
        Ok(())
    }

    fn report(&self, stop: &ChainEnd) -> RecoveryReport {
        let mut warnings = Vec::new();
        if self.behind > 0 {
            warnings.push(format!(
                "the log was cut at {}: {}; {} later records that were never known durable are dropped",
                stop.position, stop.what, self.behind
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
            dropped_records: self.behind,
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
    fn first_missing(&self) -> ChainEnd {
        let log_id = self.input.min_log_id;
        let later = self.catalog.live.values().next();
        ChainEnd {
            position: LogPosition::new(log_id, 0),
            file: self.input.dir.to_path_buf(),
            file_offset: 0,
            reason: None,
            what: format!("no file is log segment {log_id}, where the log should start"),
            boot_id: later.map_or([0; 16], |segment| segment.header.boot_id),
            header_lost: false,
        }
    }

    /// An end record leads to a segment without a valid header.
    fn follower_missing(&self, segment: &CatalogedSegment, end: LogPosition, next: LogId) -> ChainEnd {
        ChainEnd {
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

impl ChainEnd {
    fn at(segment: &CatalogedSegment, position: LogPosition, reason: StopReason) -> ChainEnd {
        ChainEnd {
            position,
            file: segment.file.path().to_path_buf(),
            file_offset: position.offset,
            reason: Some(reason),
            what: reason.to_string(),
            boot_id: segment.header.boot_id,
            header_lost: false,
        }
    }
}
