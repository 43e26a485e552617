//! Phase 3 of an open: the tables and blob files of the manifest are there.
//!
//! A strict open looks at names and lengths, and refuses the first file that is wrong. One that quarantines
//! damage also opens each file, which checks its ends, its identity and the sections that are kept in memory,
//! and passes over what is wrong: such a file is refused to all readers before the first tree refers to it
//! (QU2). Blocks are not read: that would take as long as reading the database.

use super::Opening;
use crate::background::quarantine;
use crate::state::quarantine::QuarantinedFile;
use crate::state::store::Store;
use esker_base::{Error, FileNumber, KeyspaceId, QuarantinedRange, Result};
use esker_options::RecoveryMode;
use esker_version::{DatabaseState, FileKind, KeyRange, KeyspaceState, PartMeta};
use esker_view::tree::blob_files::LargeFile;
use esker_view::tree::{Access, TableFiles, TableHandle};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The damaged files of an open, held so that they stay refused until trees refer to them.
#[derive(Default)]
pub(super) struct DamagedFiles(Vec<(QuarantinedFile, Held)>);

/// What keeps a file known.
#[expect(dead_code, reason = "held, not used")]
enum Held {
    Table(Arc<TableHandle>),
    Blob(Arc<LargeFile>),
}

impl DamagedFiles {
    /// The files without what held them; trees do that by now.
    pub(super) fn into_files(self) -> Vec<QuarantinedFile> {
        self.0.into_iter().map(|(file, _)| file).collect()
    }
}

/// Tells of the files that an open has quarantined.
pub(super) fn announce_all(store: &Store) {
    let keyspaces = store.all_keyspaces();
    for file in store.quarantine.files() {
        if let Some(keyspace) = keyspaces.iter().find(|keyspace| keyspace.id == file.keyspace) {
            quarantine::announce(store, keyspace, &file);
        }
    }
}

impl Opening {
    /// Checks all tables and blob files of a state. Returns the damaged ones, refused, if damage is
    /// quarantined.
    pub(super) fn check_files(&self, state: &DatabaseState, files: &Arc<TableFiles>) -> Result<DamagedFiles> {
        let mut damaged = DamagedFiles::default();
        for keyspace in state.keyspaces.values() {
            self.check_files_of(keyspace, files, &mut damaged)
                .map_err(|error| error.in_keyspace(&keyspace.name))?;
        }
        Ok(damaged)
    }

    fn check_files_of(
        &self,
        keyspace: &KeyspaceState,
        files: &Arc<TableFiles>,
        damaged: &mut DamagedFiles,
    ) -> Result<()> {
        let is_strict = self.options.recovery_mode == RecoveryMode::Strict;
        let mut passed = BTreeSet::new();
        for (_, _, part) in keyspace.version.parts() {
            let file = files.file_of(keyspace.id, part);
            if is_strict {
                file.check_presence()?;
                continue;
            }
            // A file with several parts is checked once.
            if !passed.insert(part.file) {
                continue;
            }
            let checked = file.check_presence().and_then(|()| file.table(Access::Once).map(drop));
            if let Some(cause) = damage(checked)? {
                let of_file = |other: &PartMeta| other.file == part.file;
                let keys = keys_of(keyspace, of_file).unwrap_or_else(|| part.range.clone());
                file.identity().refuse(self.refused(keyspace, file.path(), &keys, &cause));
                let found = quarantined(FileKind::Table, part.file, keyspace.id, file.path(), cause);
                damaged.0.push((found, Held::Table(file)));
            }
        }
        for blob in keyspace.version.blob_files().iter() {
            let file = files.large_file(keyspace.id, &blob.meta);
            if is_strict {
                file.check_presence()?;
                continue;
            }
            let checked = file.check_presence().and_then(|()| file.reader().map(drop));
            if let Some(cause) = damage(checked)? {
                let number = blob.meta.number;
                let points_to = |part: &PartMeta| part.blobs.iter().any(|blob| blob.file == number);
                // A blob file is in the manifest only while some part points to it (BF2).
                let Some(keys) = keys_of(keyspace, points_to) else { continue };
                file.refuse(self.refused(keyspace, file.path(), &keys, &cause));
                let found = quarantined(FileKind::Blob, number, keyspace.id, file.path(), cause);
                damaged.0.push((found, Held::Blob(file)));
            }
        }
        Ok(())
    }

    fn refused(
        &self,
        keyspace: &KeyspaceState,
        path: &Path,
        keys: &KeyRange,
        cause: &Error,
    ) -> Arc<QuarantinedRange> {
        let cause = match cause {
            Error::Corruption(corruption) => corruption.detail.clone().into(),
            other => other.to_string().into(),
        };
        Arc::new(QuarantinedRange {
            file: path.to_path_buf(),
            keyspace: Arc::clone(&keyspace.name),
            keys: keys.to_string().into(),
            cause,
        })
    }
}

fn quarantined(
    kind: FileKind,
    number: FileNumber,
    keyspace: KeyspaceId,
    path: &Path,
    cause: Error,
) -> QuarantinedFile {
    let path: PathBuf = path.to_path_buf();
    QuarantinedFile { number, kind, keyspace, path, cause, is_refused: true }
}

/// From the first to the last key of the parts.
fn keys_of(keyspace: &KeyspaceState, is_meant: impl Fn(&PartMeta) -> bool) -> Option<KeyRange> {
    let parts = keyspace.version.parts().filter(|(_, _, part)| is_meant(part));
    parts.map(|(_, _, part)| part.range.clone()).reduce(|all, range| all.hull(&range))
}

/// The error if it says that this file cannot be used; others, such as a lack of descriptors or a codec that
/// this build is without, say nothing of the file.
fn damage(checked: Result<()>) -> Result<Option<Error>> {
    match checked {
        Ok(()) | Err(Error::Unsupported(_)) => Ok(None),
        Err(error) if error.is_corruption() || error.is_not_found() => Ok(Some(error)),
        Err(error) => Err(error),
    }
}
