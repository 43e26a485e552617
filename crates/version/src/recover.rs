//! Manifest recovery: reads the manifest, as the first step of an open and of inspection.
//!
//! Recovery changes no file, so it may be interrupted and repeated (RC1, RC2). A manifest that was read is
//! not appended to, because its tail may be torn: a writable open ends by writing a new one
//! ([`crate::Manifest::create`]). Only a closed one may be resumed ([`ClosedManifest`]).

use crate::current::{CURRENT_NAME, Current, LOCK_NAME, manifest_name};
use crate::edit::VersionEdit;
use crate::encode::DecodeError;
use crate::frame::{HeaderError, ManifestHeader, RawRecords, Tail};
use crate::state::DatabaseState;
use esker_base::{Error, FileNumber, Result};
use esker_env::{DirEntry, FileSystem, OpenMode};
use std::path::{Path, PathBuf};

/// The greatest number of an edit that is accepted: edits are counted on from the last.
const MAX_EDIT: u64 = u64::MAX / 2;

/// The content of a directory.
#[derive(Debug)]
pub enum Recovery {
    /// The directory is missing or empty but for a lock file. A database may be created.
    Nothing,
    /// Files, but no `CURRENT`: an interrupted creation if there is neither a table nor a live log record,
    /// else damage. Only the caller knows those files.
    NoCurrent {
        /// Everything in the directory but the lock file.
        entries: Vec<DirEntry>,
    },
    /// A database.
    Database(Box<Recovered>),
}

/// The content of a manifest.
#[derive(Debug)]
pub struct Recovered {
    /// The sum of its edits.
    pub state: DatabaseState,
    /// The manifest that was read.
    pub manifest: FileNumber,
    /// The number of the last edit in it.
    pub last_edit: u64,
    /// Bytes at its end that were being written at a power failure, and are ignored.
    pub torn_bytes: u64,
    /// Set if its writer recorded that all of it is durable: [`crate::Manifest::resume`] continues it.
    pub closed: Option<ClosedManifest>,
    /// Everything in the directory but the lock file, as listed before the manifest was read.
    pub entries: Vec<DirEntry>,
}

/// A manifest whose last record has no fields. The writer appended it when the database was closed; it
/// records that every record before it is durable. The record itself was not synced, so the next edit is
/// written over it. A manifest with several such records, closed again without edits between, is right as
/// well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedManifest {
    pub(crate) header: ManifestHeader,
    pub(crate) end: u64,
    pub(crate) snapshot_bytes: u64,
}

/// Classifies a directory and, if it is a database, reads its manifest.
///
/// # Errors
/// Corruption with file and offset if `CURRENT` or the manifest it names is damaged or missing (an older
/// manifest is never used instead); [`Error::Unsupported`] if a newer version wrote something that must be
/// understood.
pub fn recover(fs: &dyn FileSystem, dir: &Path) -> Result<Recovery> {
    let entries = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Recovery::Nothing),
        listed => listed?,
    };
    let entries: Vec<DirEntry> = entries.into_iter().filter(|entry| entry.name != LOCK_NAME).collect();
    let Some(current) = Current::read(fs, dir)? else {
        return Ok(if entries.is_empty() { Recovery::Nothing } else { Recovery::NoCurrent { entries } });
    };
    let path = dir.join(manifest_name(current.manifest));
    let file = match ManifestFile::read(fs, &path) {
        Err(error) if error.is_not_found() => {
            let detail = format!("it names {}, which does not exist", manifest_name(current.manifest));
            return Err(Error::corruption(dir.join(CURRENT_NAME), None, detail));
        }
        read => read?,
    };
    if file.header.uuid != current.uuid || file.header.number != current.manifest {
        return Err(Error::corruption(
            path,
            0,
            "the manifest belongs to another database or has another number",
        ));
    }
    let ReplayedState { state, last_edit, torn_bytes, closed } = file.replay()?;
    let manifest = current.manifest;
    Ok(Recovery::Database(Box::new(Recovered { state, manifest, last_edit, torn_bytes, closed, entries })))
}

/// The bytes of a manifest file: one snapshot and at most three times as much in edits.
#[derive(Debug)]
pub struct ManifestFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The file's header.
    pub header: ManifestHeader,
}

struct ReplayedState {
    state: DatabaseState,
    last_edit: u64,
    torn_bytes: u64,
    closed: Option<ClosedManifest>,
}

/// A record of a manifest, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRecord {
    /// Where it starts in the file.
    pub offset: u64,
    /// The number of the edit; a snapshot has the number of the last edit it contains.
    pub edit_no: u64,
    /// Bytes of the encoded edit.
    pub payload_bytes: u64,
    /// The edit.
    pub edit: VersionEdit,
}

impl ManifestFile {
    /// Reads a manifest file.
    ///
    /// # Errors
    /// If it cannot be read, is not a manifest, or is of a newer format.
    pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<ManifestFile> {
        let file = fs.open(path, OpenMode::Read)?;
        let len = usize::try_from(file.len()?)
            .map_err(|_| Error::corruption(path, None, "the file is too large"))?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        let header = ManifestHeader::decode(&bytes).map_err(|error| match error {
            HeaderError::Damaged(reason) => Error::corruption(path, 0, reason),
            HeaderError::Newer(format) => {
                let path = path.display();
                Error::Unsupported(format!("{path} has format {format}, this version reads up to 1").into())
            }
        })?;
        Ok(ManifestFile { path: path.to_path_buf(), bytes, header })
    }

    /// The records, decoded one by one; damage is an error at the end, a torn tail just ends them.
    pub fn records(&self) -> ManifestRecords<'_> {
        ManifestRecords { file: self, raw: RawRecords::new(&self.bytes, self.header.salt), ended: false }
    }

    /// How the records end.
    pub fn tail(&self) -> Tail {
        let mut raw = RawRecords::new(&self.bytes, self.header.salt);
        raw.by_ref().for_each(drop);
        raw.tail()
    }

    fn replay(&self) -> Result<ReplayedState> {
        let mut state = DatabaseState { uuid: self.header.uuid, ..DatabaseState::default() };
        let mut last_edit = None;
        let mut snapshot_bytes = None;
        // Offset of the first edit without fields behind the last one with fields.
        let mut end = None;
        for record in self.records() {
            let record = record?;
            let damaged = |detail: String| Error::corruption(&self.path, record.offset, detail);
            if record.edit_no > MAX_EDIT {
                return Err(damaged(format!("no manifest has as many edits as {}", record.edit_no)));
            }
            if last_edit.is_none() != record.edit.is_snapshot() {
                return Err(damaged(format!("edit {} is not where a snapshot belongs", record.edit_no)));
            }
            if last_edit.is_some() {
                snapshot_bytes.get_or_insert(record.offset);
            }
            if record.edit.is_empty() {
                end.get_or_insert(record.offset);
                continue;
            }
            let applied = state.apply(&record.edit);
            applied.map_err(|error| damaged(format!("edit {} does not fit: {error}", record.edit_no)))?;
            (last_edit, end) = (Some(record.edit_no), None);
        }
        let Some(last_edit) = last_edit else {
            let start = crate::frame::HEADER_LEN as u64;
            return Err(Error::corruption(&self.path, start, "the manifest does not begin with a snapshot"));
        };
        let tail = self.tail();
        let torn_bytes = if let Tail::Torn { bytes, .. } = tail { bytes } else { 0 };
        let closed = end.zip(snapshot_bytes).filter(|_| tail == Tail::Clean);
        let closed =
            closed.map(|(end, snapshot_bytes)| ClosedManifest { header: self.header, end, snapshot_bytes });
        Ok(ReplayedState { state, last_edit, torn_bytes, closed })
    }
}

/// Iterates over the records of a [`ManifestFile`].
#[derive(Debug)]
pub struct ManifestRecords<'a> {
    file: &'a ManifestFile,
    raw: RawRecords<'a>,
    ended: bool,
}

impl ManifestRecords<'_> {
    fn end(&self) -> Option<Result<ManifestRecord>> {
        let Tail::Damaged { offset, valid_at } = self.raw.tail() else { return None };
        let detail =
            format!("the record is damaged, and the one at byte {valid_at} is not: this is no torn tail");
        Some(Err(Error::corruption(&self.file.path, offset, detail)))
    }
}

impl Iterator for ManifestRecords<'_> {
    type Item = Result<ManifestRecord>;

    fn next(&mut self) -> Option<Result<ManifestRecord>> {
        if self.ended {
            return None;
        }
        let Some(raw) = self.raw.next() else {
            self.ended = true;
            return self.end();
        };
        let payload_bytes = raw.payload.len() as u64;
        let decoded = VersionEdit::decode(raw.payload);
        self.ended = decoded.is_err();
        Some(match decoded {
            Ok(edit) => Ok(ManifestRecord { offset: raw.offset, edit_no: raw.edit_no, payload_bytes, edit }),
            Err(DecodeError::Damaged(detail)) => Err(Error::corruption(&self.file.path, raw.offset, detail)),
            Err(DecodeError::Unsupported(detail)) => {
                let path = self.file.path.display();
                Err(Error::Unsupported(format!("{detail} ({path}, byte {})", raw.offset).into()))
            }
        })
    }
}
