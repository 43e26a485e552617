//! Segment catalog: lists the segment files of a directory and reads their headers.

use crate::header_copies::{HEADERS_END, HeaderCopies};
use crate::history::SegmentSummary;
use crate::scan::Window;
use crate::segment::{SegmentHeader, SegmentHeaderFault, parse_slot_file_name};
use esker_base::{Error, LogId, Result};
use esker_env::{File, FileSystem, OpenMode};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct CatalogedSegment {
    pub(crate) file: Arc<dyn File>,
    pub(crate) header: SegmentHeader,
    /// Bytes of the file now, if they are fewer than the header says.
    pub(crate) short_bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Catalog {
    /// By log id.
    pub(crate) live: BTreeMap<LogId, CatalogedSegment>,
    /// Every segment file of this database, live or not.
    pub(crate) files: Vec<(u32, PathBuf)>,
    /// Segments with a valid header, by log id; of two released ones with one id, either.
    pub(crate) segments: BTreeMap<LogId, SegmentSummary>,
    /// Segment files of another database.
    pub(crate) foreign: Vec<PathBuf>,
    /// Segment files with records, perhaps, whose header copies were written and are both damaged.
    pub(crate) damaged: Vec<PathBuf>,
    /// Segment files that end inside of their header.
    pub(crate) cut: Vec<PathBuf>,
    /// Segment files without a part of the log: prepared and never used, or older than the first one needed.
    pub(crate) unneeded: Vec<PathBuf>,
    /// The greatest id in any valid header.
    pub(crate) greatest_log_id: LogId,
}

/// The segment files of a database that hold no part of its log: those before `min_log_id`, and those that
/// were prepared and never used. A file with a damaged header is not among them.
///
/// # Errors
/// As [`recover`](crate::recover()), for headers.
pub fn unneeded_segments(
    fs: &dyn FileSystem,
    dir: &Path,
    db_uuid: &[u8; 16],
    min_log_id: LogId,
) -> Result<Vec<PathBuf>> {
    Catalog::read(fs, dir, db_uuid, min_log_id).map(|catalog| catalog.unneeded)
}

/// Bytes that are looked at together.
const BLANK_PIECE_BYTES: u64 = 64 << 10;

/// Whether a file holds nothing but zeros from `from` on.
///
/// Such a file never held a record, so its header may be damaged twice without any loss: the process is
/// killed while the second copy is stored, and a power cut then takes what the page cache had of the first.
fn is_blank(window: &mut Window, from: u64) -> Result<bool> {
    let mut offset = from;
    while offset < window.file_len() {
        let piece = window.bytes(offset, BLANK_PIECE_BYTES.min(window.file_len() - offset))?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let read = piece.len() as u64;
        if read == 0 {
            break;
        }
        offset += read;
    }
    Ok(true)
}

impl Catalog {
    /// Reads the headers of all segment files in `dir`; a missing directory holds none.
    pub(crate) fn read(
        fs: &dyn FileSystem,
        dir: &Path,
        db_uuid: &[u8; 16],
        min_log_id: LogId,
    ) -> Result<Catalog> {
        let mut catalog = Catalog {
            live: BTreeMap::new(),
            files: Vec::new(),
            segments: BTreeMap::new(),
            foreign: Vec::new(),
            damaged: Vec::new(),
            cut: Vec::new(),
            unneeded: Vec::new(),
            greatest_log_id: LogId(0),
        };
        let names = match fs.list(dir) {
            Err(error) if error.is_not_found() => return Ok(catalog),
            names => names?,
        };
        for entry in names {
            let Some(slot) = parse_slot_file_name(&entry.name) else { continue };
            let path = dir.join(&entry.name);
            let file = fs.open(&path, OpenMode::Read)?;
            catalog.add(slot, path, file, db_uuid, min_log_id)?;
        }
        Ok(catalog)
    }

    fn add(
        &mut self,
        slot: u32,
        path: PathBuf,
        file: Arc<dyn File>,
        db_uuid: &[u8; 16],
        min_log_id: LogId,
    ) -> Result<()> {
        let mut window = Window::on_header(file.clone())?;
        let copies = HeaderCopies::read(&mut window)?;
        match copies.unusable_fault() {
            Some(fault @ SegmentHeaderFault::Unsupported { .. }) => {
                return Err(Error::Unsupported(format!("{}: {fault}", path.display()).into()));
            }
            Some(fault) => return Err(Error::corruption(path, 0, fault.to_string())),
            None => {}
        }
        let Some(header) = copies.valid() else {
            if window.file_len() < HEADERS_END {
                self.cut.push(path.clone());
            } else if copies.damaged() && !is_blank(&mut window, HEADERS_END)? {
                self.damaged.push(path.clone());
            } else {
                self.unneeded.push(path.clone());
            }
            self.files.push((slot, path));
            return Ok(());
        };
        if header.db_uuid != *db_uuid {
            self.foreign.push(path);
            return Ok(());
        }
        self.greatest_log_id = self.greatest_log_id.max(header.log_id);
        let summary = SegmentSummary {
            slot,
            path: path.clone(),
            size_bytes: header.size_bytes,
            first_seqno: header.first_seqno,
            prev_end: header.prev_end,
        };
        self.segments.insert(header.log_id, summary);
        if header.log_id < min_log_id {
            self.unneeded.push(path.clone());
        }
        // A copy made by a recovery that did not commit replaces nothing.
        let uncommitted = header.replaces_upto != LogId(0) && header.replaces_upto >= min_log_id;
        if header.log_id >= min_log_id && !uncommitted {
            let segment = CatalogedSegment {
                file,
                header: header.clone(),
                short_bytes: Some(window.file_len()).filter(|len| *len < header.size_bytes),
            };
            if let Some(twin) = self.live.insert(header.log_id, segment) {
                let twin = twin.file.path().display().to_string();
                let detail = format!("it says it is log segment {}, and so does {twin}", header.log_id);
                return Err(Error::corruption(path, 0, detail));
            }
        }
        self.files.push((slot, path));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LogPosition;
    use esker_base::SeqNo;

    fn header(log_id: u64) -> SegmentHeader {
        SegmentHeader {
            data_start: 4096,
            db_uuid: [1; 16],
            log_id: LogId(log_id),
            salt: log_id,
            size_bytes: 8192,
            prev_end: LogPosition::ZERO,
            first_seqno: SeqNo::new(1),
            manifest_edit: 0,
            boot_id: [0; 16],
            wall_ms: 0,
            replaces_upto: LogId(0),
        }
    }

    #[test]
    fn the_copy_with_the_greater_log_id_counts_wherever_it_stands() {
        let damaged = Err(SegmentHeaderFault::Magic { zeroed: false });
        let zeroed = Err(SegmentHeaderFault::Magic { zeroed: true });
        for copies in [
            [Ok(header(9)), Ok(header(5))],
            [Ok(header(5)), Ok(header(9))],
            [Ok(header(9)), damaged.clone()],
            [zeroed.clone(), Ok(header(9))],
        ] {
            let copies = HeaderCopies(copies);
            assert_eq!(copies.valid(), Some(&header(9)));
            assert!(!copies.damaged());
        }
        assert!(HeaderCopies([damaged.clone(), damaged.clone()]).damaged());
        assert!(!HeaderCopies([damaged, zeroed]).damaged());
    }
}
