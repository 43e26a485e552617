//! Writing the manifest: the log of edits, and the protocol that makes a new one count.
//!
//! # Invariants
//! * IN1 is the caller's: files that an edit refers to are durable, with their names, before it is appended.
//! * IN2: [`Manifest::append`] returns success only after the record is durable; the caller then shows the
//!   new state.
//! * At most one record is unsynced at any time. So what a power cut leaves of the last record is a torn end,
//!   and a good record behind a bad one is damage.
//! * A manifest that was read, or whose last append failed, is never appended to again: nobody knows what its
//!   end looks like on the disk. A new one is begun with a snapshot of everything.
//! * The exception is a manifest that was closed ([`Manifest::close`]). Who closes knows that every append
//!   was synced, and says so by a record without fields. Nobody syncs that: if it is lost the manifest is one
//!   that was read, like others. Who goes on writes the next edit in its place ([`Manifest::resume`]), so
//!   nothing is ever durable behind a record that may not be.
//! * RC1: the rename of `CURRENT` is the one moment at which a new manifest begins to count. Everything it
//!   says is durable before; nothing is appended to it before the rename is durable, because until then a
//!   power cut may bring the old one back, which must be equivalent.
//!
//! # Room
//! Extents are allocated a megabyte ahead, without changing the file's length, and an edit is written only
//! into allocated room: an edit that frees space still fits when the disk is full, and a full disk is met
//! before a byte is written.
//!
//! # Failures
//! No room: nothing was written, try again later. A failed write or sync: the edit may or may not be found
//! after a crash, so the files it adds and the files it removes are both kept; the caller rolls over to a new
//! manifest without the edit, after which its outputs are orphans. Retrying a failed sync would prove
//! nothing: the kernel marks pages clean that never reached the disk.

use crate::current::{CURRENT_NAME, CURRENT_TEMPORARY_NAME, Current, manifest_name};
use crate::edit::{EditOp, VersionEdit};
use crate::frame::{FORMAT, ManifestHeader, RECORD_ALIGN, encode_record};
use crate::recover::Closed;
use crate::state::DatabaseState;
use esker_base::{Error, FileNumber, Result};
use esker_env::{Env, File, FileSystem, OpenMode};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Room that is kept allocated behind the last record.
const AHEAD_BYTES: u64 = 1 << 20;
/// A manifest that is longer is not gone on with by the next open unless most of it is the snapshot: reading
/// edits takes time.
const MAX_RESUMED_BYTES: u64 = 128 << 10;
/// A manifest is not replaced for its size before it has this many bytes.
const MIN_ROLLOVER_BYTES: u64 = 4 << 20;
/// It is replaced when it is this many times as large as the snapshot it began with.
const ROLLOVER_FACTOR: u64 = 4;
/// After so many failures in a row the database must stop taking writes.
const MAX_FAILED_ROLLOVERS: u32 = 3;

/// The manifest that counts, open for appending. One holder at a time, under the manifest lock.
#[derive(Debug)]
pub struct Manifest {
    env: Env,
    dir: PathBuf,
    file: Arc<dyn File>,
    header: ManifestHeader,
    /// Where the next record goes.
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
    /// Nothing was written. With [`Error::Full`] it is worth another try once there is room.
    NotWritten(Error),
    /// The edit may or may not survive. Keep the files of both sides and call [`Manifest::roll_over`].
    Unknown(Error),
}

impl AppendError {
    /// What went wrong.
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
    /// What went wrong.
    pub error: Error,
    /// The database must stop taking writes: nobody knows which manifest counts, or it has failed too often.
    /// Else the new manifest was thrown away, the old one still counts, and another try, with another number,
    /// is worthwhile.
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

/// A manifest that is durable but does not count yet.
struct Prepared {
    file: Arc<dyn File>,
    header: ManifestHeader,
    end: u64,
    allocated: u64,
}

/// How far [`switch_to`] came.
enum SwitchError {
    /// The old manifest counts.
    Before(Error),
    /// Either counts.
    Unknown(Error),
}

impl Manifest {
    /// Writes a manifest that begins with all of `state` and makes it count: the last step of creating a
    /// database and of every writable open. `last_edit` is the number of the last edit in the state, zero for
    /// a new database.
    ///
    /// `number` must be above every manifest's in the directory; it is noted in the new manifest as taken.
    /// The directory must exist; making its own name durable in its parent is the caller's affair.
    ///
    /// # Errors
    /// The open has failed. The next one finds the old state or the new one, which are equivalent; only if
    /// the failure is fatal may it be the new one, so only then must files stay that the old state does not
    /// know.
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

    /// Goes on with a manifest that was closed. `None` if it has grown so long that a new one is better.
    ///
    /// # Errors
    /// If the file cannot be opened; nothing has changed.
    pub fn resume(env: &Env, dir: &Path, closed: &Closed, last_edit: u64) -> Result<Option<Manifest>> {
        let Closed { header, end, snapshot_bytes } = *closed;
        if end > MAX_RESUMED_BYTES.max(snapshot_bytes.saturating_mul(2)) {
            return Ok(None);
        }
        let file = env.fs.open(&dir.join(manifest_name(header.number)), OpenMode::ReadWrite)?;
        let prepared = Prepared { file, header, end, allocated: end };
        let manifest = Manifest::begin(env.clone(), dir.to_path_buf(), prepared, last_edit);
        Ok(Some(Manifest { snapshot_bytes, ..manifest }))
    }

    /// Says that all edits are durable, if they are, so that the next open may go on with this manifest.
    /// Nothing can be appended any more.
    ///
    /// # Errors
    /// If that could not be written. The next open then begins a new manifest, which is slower and no worse.
    pub fn close(&mut self) -> Result<()> {
        if let Some(error) = self.broken.replace(Error::Closed) {
            return Err(error);
        }
        let mut record = Vec::new();
        encode_record(&mut record, self.header.salt, self.last_edit + 1, &[]);
        self.make_room(record.len() as u64)?;
        self.file.write_at(&record, self.end)
    }

    fn begin(env: Env, dir: PathBuf, prepared: Prepared, last_edit: u64) -> Manifest {
        let Prepared { file, header, end, allocated } = prepared;
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

    /// The number of the last durable edit: what log segments note at rotation.
    pub fn last_edit(&self) -> u64 {
        self.last_edit
    }

    /// Bytes of all records so far.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Whether anything was appended to the snapshot that it began with.
    pub fn has_edits(&self) -> bool {
        self.end > self.snapshot_bytes
    }

    /// Whether the manifest should be replaced: it has grown long, or its last append failed.
    pub fn needs_rollover(&self) -> bool {
        let limit = MIN_ROLLOVER_BYTES.max(self.snapshot_bytes.saturating_mul(ROLLOVER_FACTOR));
        self.broken.is_some() || self.end > limit
    }

    /// Appends an edit and makes it durable; answers its number. Blocks for one sync.
    ///
    /// # Errors
    /// [`AppendError`] says whether the edit may be found after a crash.
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
            self.broken = Some(error.clone());
            return Err(AppendError::Unknown(error));
        }
        self.end += record.len() as u64;
        self.last_edit = edit_no;
        Ok(edit_no)
    }

    /// Has extents allocated for `bytes` more and, if the disk allows, for what comes after.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let needed = self.end + bytes;
        if self.allocated >= needed + AHEAD_BYTES / 2 {
            return Ok(());
        }
        let wanted = needed + AHEAD_BYTES;
        let from = self.allocated.max(self.end);
        match self.file.allocate(from, wanted - from, true) {
            Ok(true) => self.allocated = wanted,
            // The file system cannot allocate ahead; a full disk will show as a failed write.
            Ok(false) => self.allocated = u64::MAX / 2,
            // There is still enough for this edit, which may be the one that frees space.
            Err(_) if self.allocated >= needed => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Replaces the manifest by a new one that begins with all of `state`, and deletes the old. `number` must
    /// be above every manifest's that was ever tried. After a failed append `state` is the state without that
    /// edit; the edit's number is not used again.
    ///
    /// # Errors
    /// [`RolloverError`] says whether another try is worthwhile.
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
                // If it stays, it is an orphan that the next open deletes.
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

/// Writes a new manifest with one snapshot record and makes it and its name durable. On failure it is
/// removed.
fn prepare(
    env: &Env,
    dir: &Path,
    number: FileNumber,
    state: &DatabaseState,
    last_edit: u64,
) -> Result<Prepared> {
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
        // Nothing refers to it. If it cannot be removed, the next open deletes it.
        let _ = env.fs.remove_file(&path);
    }
    let end = bytes.len() as u64;
    written.map(|allocated| Prepared { file, header, end, allocated })
}

/// Writes a new file and makes it durable; answers up to where extents are allocated.
fn write_new(fs: &dyn FileSystem, dir: &Path, file: &dyn File, bytes: &[u8]) -> Result<u64> {
    let wanted = bytes.len() as u64 + AHEAD_BYTES;
    let allocated = if file.allocate(0, wanted, true)? { wanted } else { u64::MAX / 2 };
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    fs.sync_dir(dir)?;
    Ok(allocated)
}

/// Makes the manifest that `current` names the one that counts.
fn switch_to(fs: &dyn FileSystem, dir: &Path, current: Current) -> Result<(), SwitchError> {
    let temporary = dir.join(CURRENT_TEMPORARY_NAME);
    let written = fs.open(&temporary, OpenMode::CreateOrTruncate).and_then(|file| {
        file.write_at(current.encode().as_bytes(), 0)?;
        file.sync_all()
    });
    let throw_away = |error| {
        let _ = fs.remove_file(&dir.join(manifest_name(current.manifest)));
        SwitchError::Before(error)
    };
    written.map_err(throw_away)?;
    if let Err(error) = fs.rename(&temporary, &dir.join(CURRENT_NAME)) {
        // A rename that reports failure may still have happened. Only if the old file is seen to be there
        // does the old manifest count for sure.
        return Err(match Current::read(fs, dir) {
            Ok(seen) if seen != Some(current) => throw_away(error),
            _ => SwitchError::Unknown(error),
        });
    }
    fs.sync_dir(dir).map_err(SwitchError::Unknown)
}
