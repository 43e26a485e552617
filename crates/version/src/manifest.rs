//! Manifest writer: appends version edits durably, and switches to a new manifest atomically.
//!
//! # Invariants
//! * IN1, kept by the caller: files that an edit refers to are durable, with their names, before the edit is
//!   appended.
//! * IN2: [`Manifest::append`] returns success only after the record is durable; the caller then publishes
//!   the new state.
//! * At most one record is unsynced at any time. So what a power failure leaves of the last record is a torn
//!   tail, and a good record after a bad one is damage.
//! * A manifest that was read, or whose last append failed, is never appended to again, because the state of
//!   its tail on disk is unknown. A new one is begun with a snapshot of everything.
//! * The exception is a manifest that was closed ([`Manifest::close`]). Closing happens after every append
//!   was synced, and records that by a record without fields. That record is not synced: if it is lost, the
//!   manifest is like one that was read. The next writer writes its first edit over it
//!   ([`Manifest::resume`]), so nothing is ever durable after a record that may not be.
//! * RC1: the rename of `CURRENT` is the one moment at which a new manifest becomes current. Its content is
//!   durable before. Nothing is appended to it before the rename is durable, because until then a power
//!   failure may bring back the old one, which must be equivalent.
//!
//! # Space
//! Extents are allocated a megabyte ahead, without changing the file's length, and an edit is written only
//! into allocated space: an edit that frees space still fits when the disk is full, and a full disk is
//! detected before a byte is written. A manifest that is begun or resumed on a disk without a megabyte has
//! less ahead, but never less than [`LEAST_AHEAD_BYTES`].
//!
//! # Failures
//! No space: nothing was written, and a retry is possible. A failed write or sync: the edit may or may not be
//! found after a crash, so the files it adds and the files it removes are both kept; the caller rolls over to
//! a new manifest without the edit, after which its outputs are orphans. Retrying a failed sync would prove
//! nothing: the kernel marks pages clean that never reached the disk.

use crate::current::{CURRENT_NAME, CURRENT_TEMPORARY_NAME, Current, manifest_name};
use crate::edit::{EditOp, VersionEdit};
use crate::frame::{FORMAT, ManifestHeader, RECORD_ALIGN, encode_record};
use crate::recover::ClosedManifest;
use crate::state::DatabaseState;
use esker_base::planted;
use esker_base::{Error, FileNumber, Result};
use esker_env::{Env, File, FileSystem, OpenMode};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Space that is kept allocated behind the last record.
const AHEAD_BYTES: u64 = 1 << 20;
/// Space ahead without which no manifest is begun or resumed: a few hundred edits of compactions, or the drop
/// of every keyspace of a hundred.
pub const LEAST_AHEAD_BYTES: u64 = 64 << 10;
/// Stands for the end of the allocated extents where the file system cannot allocate ahead: a full disk shows
/// as a failed write.
const UNKNOWN_ALLOCATION: u64 = u64::MAX / 2;
/// Longest manifest that the next open resumes, unless most of it is the snapshot.
const MAX_RESUMED_BYTES: u64 = 128 << 10;
/// Smaller manifests are not replaced for their size.
const MIN_ROLLOVER_BYTES: u64 = 4 << 20;
/// A manifest is replaced when it is this many times as large as the snapshot it began with.
const ROLLOVER_FACTOR: u64 = 4;
/// After so many failures in a row the database must refuse writes.
const MAX_FAILED_ROLLOVERS: u32 = 3;

/// The current manifest, open for appending. Used under the manifest lock.
#[derive(Debug)]
pub struct Manifest {
    env: Env,
    dir: PathBuf,
    file: Arc<dyn File>,
    header: ManifestHeader,
    end: u64,
    /// Extents are allocated up to here.
    allocated: u64,
    last_edit: u64,
    snapshot_bytes: u64,
    broken: Option<Error>,
    failed_rollovers: u32,
}

/// Why an edit was not appended.
#[derive(Clone, Debug)]
pub enum AppendError {
    /// Nothing was written. [`Error::Full`] may be retried when there is space.
    NotWritten(Error),
    /// The edit may or may not survive. Keep the files of both sides and call [`Manifest::roll_over`].
    Unknown(Error),
}

impl AppendError {
    /// The cause.
    pub fn error(&self) -> &Error {
        match self {
            AppendError::NotWritten(error) | AppendError::Unknown(error) => error,
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::NotWritten(error) => write!(f, "the edit was not written: {error}"),
            AppendError::Unknown(error) => write!(f, "the edit may or may not have been written: {error}"),
        }
    }
}

/// Why a manifest was not replaced.
#[derive(Clone, Debug)]
pub struct RolloverError {
    /// The cause.
    pub error: Error,
    /// The database must refuse writes: it is unknown which manifest is current, or replacing it has failed
    /// too often. If `false`, the new manifest was discarded, the old one is still current, and a retry with
    /// another number is possible.
    pub fatal: bool,
}

impl fmt::Display for RolloverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fatal = if self.fatal { ", for good" } else { "" };
        write!(f, "the manifest could not be replaced{fatal}: {}", self.error)
    }
}

impl From<RolloverError> for Error {
    fn from(error: RolloverError) -> Error {
        error.error
    }
}

/// A manifest that is durable but not current yet.
struct PreparedManifest {
    file: Arc<dyn File>,
    header: ManifestHeader,
    end: u64,
    allocated: u64,
}

/// State after a failure of [`switch_to`].
enum SwitchError {
    /// The old manifest is current.
    Before(Error),
    /// Either may be current.
    Unknown(Error),
}

impl Manifest {
    /// Writes a manifest that begins with all of `state` and makes it current: the last step of creating a
    /// database and of every writable open. `last_edit` is the number of the last edit in the state, zero for
    /// a new database.
    ///
    /// `number` must be above every manifest's in the directory; the new manifest records it as taken. The
    /// directory must exist; the caller makes its own name durable in its parent.
    ///
    /// # Errors
    /// The open has failed. The next one finds the old state or the new one, which are equivalent; only after
    /// a fatal failure may it be the new one, so only then must files stay that the old state does not know.
    pub fn create(
        env: &Env,
        dir: &Path,
        number: FileNumber,
        state: &DatabaseState,
        last_edit: u64,
    ) -> Result<Manifest, RolloverError> {
        let prepared = prepare(env, dir, number, state, last_edit)
            .map_err(|error| RolloverError { error, fatal: false })?;
        let current = Current { manifest: number, uuid: state.uuid };
        match switch_to(&*env.fs, dir, current) {
            Ok(()) => Ok(Manifest::begin(env.clone(), dir.to_path_buf(), prepared, last_edit)),
            Err(SwitchError::Before(error)) => Err(RolloverError { error, fatal: false }),
            Err(SwitchError::Unknown(error)) => Err(RolloverError { error, fatal: true }),
        }
    }

    /// Resumes a manifest that was closed. `None` if it is so long that a new one is better.
    ///
    /// # Errors
    /// If the file cannot be opened, or the disk has no room for later edits; nothing has changed.
    pub fn resume(
        env: &Env,
        dir: &Path,
        closed: &ClosedManifest,
        last_edit: u64,
    ) -> Result<Option<Manifest>> {
        let ClosedManifest { header, end, snapshot_bytes } = *closed;
        if end > MAX_RESUMED_BYTES.max(snapshot_bytes.saturating_mul(2)) {
            return Ok(None);
        }
        let file = env.fs.open(&dir.join(manifest_name(header.number)), OpenMode::ReadWrite)?;
        // The extents of the last writer are mostly still there; those of a copied file are not.
        let allocated = allocate_ahead(&*file, end, end)?;
        let prepared = PreparedManifest { file, header, end, allocated };
        let manifest = Manifest::begin(env.clone(), dir.to_path_buf(), prepared, last_edit);
        Ok(Some(Manifest { snapshot_bytes, ..manifest }))
    }

    /// Records that all edits are durable, if they are, so that the next open may resume this manifest.
    /// Nothing can be appended afterwards.
    ///
    /// # Errors
    /// If the record could not be written. The next open then begins a new manifest, which is only slower.
    pub fn close(&mut self) -> Result<()> {
        if let Some(error) = self.broken.replace(Error::Closed) {
            return Err(error);
        }
        let mut record = Vec::new();
        encode_record(&mut record, self.header.salt, self.last_edit + 1, &[]);
        self.make_room(record.len() as u64)?;
        self.file.write_at(&record, self.end)
    }

    fn begin(env: Env, dir: PathBuf, prepared: PreparedManifest, last_edit: u64) -> Manifest {
        let PreparedManifest { file, header, end, allocated } = prepared;
        Manifest {
            env,
            dir,
            file,
            header,
            end,
            allocated,
            last_edit,
            snapshot_bytes: end,
            broken: None,
            failed_rollovers: 0,
        }
    }

    /// The number of the file.
    pub fn number(&self) -> FileNumber {
        self.header.number
    }

    /// The number of the last durable edit, which log segments record at rotation.
    pub fn last_edit(&self) -> u64 {
        self.last_edit
    }

    /// Bytes of all records so far.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Whether edits were appended to the initial snapshot.
    pub fn has_edits(&self) -> bool {
        self.end > self.snapshot_bytes
    }

    /// Whether the manifest should be replaced: it is long, or its last append failed.
    pub fn needs_rollover(&self) -> bool {
        let limit = MIN_ROLLOVER_BYTES.max(self.snapshot_bytes.saturating_mul(ROLLOVER_FACTOR));
        self.broken.is_some() || self.end > limit
    }

    /// Appends an edit and makes it durable; returns its number. Blocks for one sync.
    ///
    /// # Errors
    /// [`AppendError`] tells whether the edit may be found after a crash.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<u64, AppendError> {
        if let Some(error) = &self.broken {
            return Err(AppendError::NotWritten(error.clone()));
        }
        debug_assert!(!edit.is_empty(), "an edit without fields says that the database was closed");
        let edit_no = self.last_edit + 1;
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        let mut record = Vec::with_capacity(payload.len() + 32);
        if !encode_record(&mut record, self.header.salt, edit_no, &payload) {
            let error = Error::internal(format!("an edit of {} bytes does not fit a record", payload.len()));
            return Err(AppendError::NotWritten(error));
        }
        self.make_room(record.len() as u64).map_err(AppendError::NotWritten)?;
        let written = self.file.write_at(&record, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            if planted!(TornRecordInManifest) {
                self.end += record.len() as u64;
                return Err(AppendError::NotWritten(error));
            }
            self.broken = Some(error.clone());
            return Err(AppendError::Unknown(error));
        }
        self.end += record.len() as u64;
        self.last_edit = edit_no;
        Ok(edit_no)
    }

    /// Allocates extents for `bytes` more and, if the disk allows, for later edits.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let needed = self.end + bytes;
        if self.allocated >= needed + AHEAD_BYTES / 2 {
            return Ok(());
        }
        let wanted = needed + AHEAD_BYTES;
        let from = self.allocated.max(self.end);
        match self.file.allocate(from, wanted - from, true) {
            Ok(true) => self.allocated = wanted,
            Ok(false) => self.allocated = UNKNOWN_ALLOCATION,
            // There is enough for this edit, which may be the one that frees space.
            Err(_) if self.allocated >= needed => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Replaces the manifest by a new one that begins with all of `state`, and deletes the old one. `number`
    /// must be above every manifest's that was ever tried. After a failed append, `state` is the state
    /// without that edit; the edit's number is not reused.
    ///
    /// # Errors
    /// [`RolloverError`] tells whether a retry is possible.
    pub fn roll_over(&mut self, number: FileNumber, state: &DatabaseState) -> Result<(), RolloverError> {
        let last_edit = self.last_edit + u64::from(self.broken.is_some());
        let before = |error| SwitchError::Before(error);
        let switched =
            prepare(&self.env, &self.dir, number, state, last_edit).map_err(before).and_then(|new| {
                let current = Current { manifest: number, uuid: state.uuid };
                switch_to(&*self.env.fs, &self.dir, current)?;
                Ok(new)
            });
        match switched {
            Ok(prepared) => {
                let old = self.dir.join(manifest_name(self.header.number));
                *self = Manifest::begin(self.env.clone(), self.dir.clone(), prepared, last_edit);
                // If removal fails, the next open deletes it as an orphan.
                let _ = self.env.fs.remove_file(&old);
                Ok(())
            }
            Err(SwitchError::Before(error)) => {
                self.failed_rollovers += u32::from(!matches!(error, Error::Full(_)));
                let fatal = self.failed_rollovers >= MAX_FAILED_ROLLOVERS;
                Err(RolloverError { error, fatal })
            }
            Err(SwitchError::Unknown(error)) => {
                self.broken = Some(error.clone());
                Err(RolloverError { error, fatal: true })
            }
        }
    }
}

/// Writes a new manifest with one snapshot record and makes it and its name durable. Removes it on failure.
fn prepare(
    env: &Env,
    dir: &Path,
    number: FileNumber,
    state: &DatabaseState,
    last_edit: u64,
) -> Result<PreparedManifest> {
    let header = ManifestHeader { format: FORMAT, uuid: state.uuid, number, salt: env.random.next_u64() };
    let mut snapshot = state.to_snapshot_edit();
    snapshot.push(EditOp::NextFile(FileNumber(number.get().saturating_add(1))));
    let mut payload = Vec::new();
    snapshot.encode(&mut payload);
    let mut bytes = header.encode().to_vec();
    if !encode_record(&mut bytes, header.salt, last_edit, &payload) {
        return Err(Error::internal(format!("a snapshot of {} bytes does not fit a record", payload.len())));
    }
    debug_assert_eq!(bytes.len() % RECORD_ALIGN, 0);
    let path = dir.join(manifest_name(number));
    let file = env.fs.open(&path, OpenMode::CreateNew)?;
    let written = write_new(&*env.fs, dir, &*file, &bytes);
    if written.is_err() {
        // Nothing refers to it. If removal fails, the next open deletes it.
        let _ = env.fs.remove_file(&path);
    }
    let end = bytes.len() as u64;
    written.map(|allocated| PreparedManifest { file, header, end, allocated })
}

/// Writes a new file and makes it durable; returns the end of its allocated extents.
fn write_new(fs: &dyn FileSystem, dir: &Path, file: &dyn File, bytes: &[u8]) -> Result<u64> {
    let allocated = allocate_ahead(file, 0, bytes.len() as u64)?;
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    fs.sync_dir(dir)?;
    Ok(allocated)
}

/// Allocates the extents from `from` to `end` and for edits behind it, fewer of these on a disk that is
/// nearly full; returns the end of the allocated extents.
fn allocate_ahead(file: &dyn File, from: u64, end: u64) -> Result<u64> {
    let allocate = |ahead: u64| {
        let allocated = file.allocate(from, end + ahead - from, true)?;
        Ok(if allocated { end + ahead } else { UNKNOWN_ALLOCATION })
    };
    match allocate(AHEAD_BYTES) {
        Err(Error::Full(_)) => allocate(LEAST_AHEAD_BYTES),
        allocated => allocated,
    }
}

/// Makes the manifest that `current` names the current one.
fn switch_to(fs: &dyn FileSystem, dir: &Path, current: Current) -> Result<(), SwitchError> {
    let temporary = dir.join(CURRENT_TEMPORARY_NAME);
    let written = fs.open(&temporary, OpenMode::CreateOrTruncate).and_then(|file| {
        file.write_at(current.encode().as_bytes(), 0)?;
        if planted!(CurrentNotSynced) { Ok(()) } else { file.sync_all() }
    });
    let throw_away = |error| {
        let _ = fs.remove_file(&dir.join(manifest_name(current.manifest)));
        SwitchError::Before(error)
    };
    written.map_err(throw_away)?;
    if let Err(error) = fs.rename(&temporary, &dir.join(CURRENT_NAME)) {
        // A rename that reports failure may have happened: the old manifest is current only if it is named.
        return Err(match Current::read(fs, dir) {
            Ok(seen) if seen != Some(current) => throw_away(error),
            _ => SwitchError::Unknown(error),
        });
    }
    fs.sync_dir(dir).map_err(SwitchError::Unknown)
}
