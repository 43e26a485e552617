//! Log salvage: every whole record of a damaged log, and the places where records are missing.
//!
//! Recovery ends at the first unreadable place, because what follows it may never have been acknowledged, or
//! fails because it was. Salvage goes on behind it: records are found again by their headers, whose checksums
//! are bound to segment, life and offset. It is for repair, which reports each gap.
//!
//! Segments are read in the order of their log ids. A record whose sequence number goes back is not returned,
//! so records come in the order of writing (WL2).

use crate::batch::count_entries;
use crate::header_copies::HeaderCopies;
use crate::record::{LogPosition, RecordHeader, RecordKind};
use crate::recover::RecordView;
use crate::scan::{Probe, SegmentReader, Window};
use crate::segment::{SegmentHeader, SegmentHeaderFault, parse_slot_file_name};
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::{File, FileSystem, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment file, by its header.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub file_bytes: u64,
    /// The copy of its header in force; `None` if there is none.
    pub header: Option<SegmentHeader>,
    /// Whether both copies of the header were written and are damaged.
    pub is_damaged: bool,
    file: Arc<dyn File>,
}

/// The segment files in a directory, by name; a missing directory has none.
///
/// # Errors
/// [`Error::Io`], and [`Error::Unsupported`] if a newer version wrote a header.
pub fn segment_files(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<LogFile>> {
    let names = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        names => names?,
    };
    let mut files = Vec::new();
    for entry in names.iter().filter(|entry| parse_slot_file_name(&entry.name).is_some()) {
        let path = dir.join(&entry.name);
        let file = fs.open(&path, OpenMode::Read)?;
        let file_bytes = file.len()?;
        let copies = HeaderCopies::read(&mut Window::on_header(Arc::clone(&file))?);
        let (header, is_damaged) = match &copies {
            Ok(copies) => {
                if let Some(fault @ SegmentHeaderFault::Unsupported { .. }) = copies.unusable_fault() {
                    return Err(Error::Unsupported(format!("{}: {fault}", path.display()).into()));
                }
                (copies.valid().cloned(), copies.damaged() || copies.unusable_fault().is_some())
            }
            // The device cannot read it.
            Err(_) => (None, true),
        };
        files.push(LogFile { path, file_bytes, header, is_damaged, file });
    }
    Ok(files)
}

/// Records that are missing between two others, or at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogGap {
    /// The segment file, or the directory for a whole segment.
    pub file: PathBuf,
    /// The first byte without a record.
    pub offset: u64,
    /// The first sequence number that is missing.
    pub first: SeqNo,
    /// The last one; `None` if that is not known.
    pub last: Option<SeqNo>,
    /// Why they cannot be read, as a sentence.
    pub what: String,
}

/// What a salvage read.
#[derive(Clone, Debug, Default)]
pub struct LogSalvage {
    /// Records with entries or ingested tables.
    pub records: u64,
    /// Segments of the log.
    pub segments: u64,
    /// What is missing, in order.
    pub gaps: Vec<LogGap>,
    /// The greatest sequence number in a valid record.
    pub greatest_seqno: SeqNo,
    /// The greatest log id in a valid header.
    pub greatest_log_id: LogId,
    /// The latest header time, in milliseconds since 1970.
    pub latest_wall_ms: u64,
}

/// What is known of the log that is salvaged.
#[derive(Clone, Copy, Debug)]
pub struct SalvageInput<'a> {
    /// The segment files, from [`segment_files`].
    pub files: &'a [LogFile],
    /// The database: segments of others are not read.
    pub db_uuid: [u8; 16],
    /// The first segment that is needed.
    pub min_log_id: LogId,
    /// The log should go up to here at least.
    pub durable: LogPosition,
    /// Everything up to this is in tables.
    pub flushed: SeqNo,
}

/// Passes every whole record to `on_record`, in order.
///
/// Reads each segment once, through a buffer of about 1 MiB or the largest record; changes nothing.
///
/// # Errors
/// The errors of `on_record`. Damage is no error, nor is what the device cannot read: it becomes a gap.
pub fn salvage(
    input: &SalvageInput<'_>,
    on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<LogSalvage> {
    let mut live: Vec<(&LogFile, &SegmentHeader)> = input
        .files
        .iter()
        .filter_map(|file| Some((file, file.header.as_ref()?)))
        .filter(|(_, header)| header.db_uuid == input.db_uuid && header.log_id >= input.min_log_id)
        // A copy made by a recovery that did not commit replaces nothing.
        .filter(|(_, header)| header.replaces_upto == LogId(0) || header.replaces_upto < input.min_log_id)
        .collect();
    live.sort_by_key(|(_, header)| header.log_id);
    let mut walk = Walk {
        found: LogSalvage::default(),
        expected: input.flushed.get() + 1,
        in_order: 0,
        durable: input.durable,
        end: LogPosition::ZERO,
        cut: None,
    };
    let mut before: Option<LogId> = None;
    for (file, header) in live {
        if before == Some(header.log_id) {
            let what = format!("a second file says that it is log segment {}", header.log_id);
            walk.gap(&file.path, 0, None, what);
            continue;
        }
        let prev = header.prev_end.log_id;
        let follows = prev == LogId(0) || Some(prev) == before || prev < input.min_log_id;
        if !follows {
            let what =
                format!("log segment {prev}, which comes before segment {}, is missing", header.log_id);
            walk.gap(&file.path, 0, Some(header.first_seqno), what);
        }
        before = Some(header.log_id);
        walk.read_segment(file, header, on_record)?;
    }
    walk.finish(input.files);
    Ok(walk.found)
}

struct Walk {
    found: LogSalvage,
    /// The least sequence number that is not known to be in tables or read.
    expected: u64,
    /// The next sequence number of a record.
    in_order: u64,
    /// The greatest position known to have been durable.
    durable: LogPosition,
    /// Behind the last valid record.
    end: LogPosition,
    /// The end of the segment before, if it has no end record.
    cut: Option<CutEnd>,
}

/// The first unreadable place at the end of a segment.
struct CutEnd {
    file: PathBuf,
    offset: u64,
    what: String,
    /// The file has fewer bytes than its header says.
    is_short: bool,
}

impl Walk {
    /// Records that something is missing before the sequence number `next`. Nothing is if that is the
    /// expected one.
    fn gap(&mut self, file: &Path, offset: u64, next: Option<SeqNo>, what: String) {
        if next.is_some_and(|next| next.get() <= self.expected) {
            return;
        }
        let first = SeqNo::new(self.expected.min(SeqNo::MAX.get()));
        let last = next.map(|next| SeqNo::new(next.get() - 1));
        self.found.gaps.push(LogGap { file: file.to_path_buf(), offset, first, last, what });
    }

    fn read_segment(
        &mut self,
        file: &LogFile,
        header: &SegmentHeader,
        on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(cut) = self.cut.take() {
            self.gap(&cut.file, cut.offset, Some(header.first_seqno), cut.what);
        }
        let found = &mut self.found;
        found.segments += 1;
        found.greatest_log_id = found.greatest_log_id.max(header.log_id);
        found.latest_wall_ms = found.latest_wall_ms.max(header.wall_ms);
        self.expected = self.expected.max(header.first_seqno.get());
        let mut reader = SegmentReader::new(Window::new(Arc::clone(&file.file))?, header);
        let mut at = u64::from(header.data_start);
        // Where the unreadable place that is being passed began, and what is wrong with it.
        let mut unreadable: Option<(u64, String)> = None;
        loop {
            let what = match reader.probe(at) {
                Ok(Probe::Record { header: record, payload }) => {
                    let position = LogPosition::new(header.log_id, at);
                    let view = RecordView { file: &file.path, position, header: &record, payload };
                    self.take(&view, &mut unreadable, on_record)?;
                    at += record.record_len();
                    self.end = LogPosition::new(header.log_id, at);
                    if record.kind == RecordKind::SegmentEnd {
                        return Ok(());
                    }
                    continue;
                }
                Ok(Probe::Nothing { reason, .. }) => reason.to_string(),
                Err(error) => error.to_string(),
            };
            unreadable.get_or_insert((at, what));
            match reader.next_candidate(at + 1) {
                Ok(Some(candidate)) => at = candidate,
                Ok(None) | Err(_) => break,
            }
        }
        let (offset, what) = unreadable.unwrap_or((at, String::new()));
        let (is, said) = (file.file_bytes, header.size_bytes);
        let is_short = is < said;
        let what = if is_short { format!("the file has {is} bytes, its header says {said}") } else { what };
        self.cut = Some(CutEnd { file: file.path.clone(), offset, what, is_short });
        Ok(())
    }

    /// Judges the end of the last segment: usually just the end of the log.
    fn finish(&mut self, files: &[LogFile]) {
        let cut = self.cut.take();
        if self.durable > self.end {
            let file = cut.map(|cut| cut.file).or_else(|| files.first().map(|file| file.path.clone()));
            let what = format!("everything before {} is known to have been durable", self.durable);
            self.gap(&file.unwrap_or_default(), self.end.offset, None, what);
        } else if let Some(cut) = cut.filter(|cut| cut.is_short) {
            self.gap(&cut.file, cut.offset, None, cut.what);
        }
    }

    /// Passes one valid record on, after the gap in front of it.
    fn take(
        &mut self,
        record: &RecordView<'_>,
        unreadable: &mut Option<(u64, String)>,
        on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        let header = record.header;
        let first = header.first_seqno.get();
        if first < self.in_order {
            // Not behind what was read: left over, or made up.
            return Ok(());
        }
        if let Some((offset, what)) = unreadable.take() {
            self.gap(record.file, offset, Some(header.first_seqno), what);
        }
        if let Some(mark) = header.mark {
            self.durable = self.durable.max(mark);
        }
        self.in_order = first + u64::from(header.count);
        self.expected = self.expected.max(self.in_order);
        self.found.greatest_seqno = self.found.greatest_seqno.max(header.last_seqno());
        match header.kind {
            RecordKind::Mark | RecordKind::SegmentEnd => return Ok(()),
            RecordKind::Batch if !is_whole(header, record.payload) => {
                let what = "its entries are malformed although its checksum matches".to_owned();
                let (last, first) = (Some(header.last_seqno()), header.first_seqno);
                let (file, offset) = (record.file.to_path_buf(), record.position.offset);
                self.found.gaps.push(LogGap { file, offset, first, last, what });
                return Ok(());
            }
            RecordKind::Batch | RecordKind::Carry | RecordKind::Ingest => {}
        }
        self.found.records += 1;
        on_record(record)
    }
}

fn is_whole(header: &RecordHeader, payload: &[u8]) -> bool {
    count_entries(payload).is_ok_and(|count| count == header.count)
}
