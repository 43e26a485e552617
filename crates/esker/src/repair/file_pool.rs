//! File pool: the table and blob files of a backup, a checkpoint or another copy, by their identity.
//!
//! The identity is a random number that each file states and the manifest repeats, so a file is found
//! whatever its name.

use super::survey::uid_of;
use esker_base::{Result, TableUid};
use esker_env::{Env, OpenMode};
use esker_version::{CURRENT_NAME, DatabaseState, FileKind, Recovery, recover};
use esker_view::paths;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes compared at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The files of a copy.
#[derive(Debug)]
pub(crate) struct FilePool {
    pub(crate) env: Env,
    files: BTreeMap<(bool, TableUid), PathBuf>,
    /// The newest readable metadata in the copy.
    pub(crate) state: Option<DatabaseState>,
}

impl FilePool {
    /// Lists a directory of backups, a checkpoint, or any other database directory.
    ///
    /// # Errors
    /// `NotFound` if there is no `tables` directory in it.
    pub(crate) fn of(env: &Env, dir: &Path) -> Result<FilePool> {
        let tables = paths::tables(dir);
        let mut files = BTreeMap::new();
        for entry in env.fs.list(&tables)? {
            let kind = match Path::new(&entry.name).extension().and_then(|extension| extension.to_str()) {
                Some("sst") => FileKind::Table,
                Some("blob") => FileKind::Blob,
                _ => continue,
            };
            let path = tables.join(&entry.name);
            if let Some(uid) = uid_of(env, kind, &path) {
                files.insert((kind == FileKind::Blob, uid), path);
            }
        }
        Ok(FilePool { env: env.clone(), files, state: state_of(env, dir) })
    }

    /// The file with this identity.
    pub(crate) fn find(&self, kind: FileKind, uid: TableUid) -> Option<&Path> {
        self.files.get(&(kind == FileKind::Blob, uid)).map(PathBuf::as_path)
    }

    /// The offset of the first byte in which two files differ; `None` if they are alike.
    pub(crate) fn first_difference(&self, own_env: &Env, own: &Path, copy: &Path) -> Result<Option<u64>> {
        let (one, other) = (own_env.fs.open(own, OpenMode::Read)?, self.env.fs.open(copy, OpenMode::Read)?);
        let (one_bytes, other_bytes) = (one.len()?, other.len()?);
        let (mut a, mut b) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut at = 0;
        while at < one_bytes.min(other_bytes) {
            let len =
                usize::try_from(one_bytes.min(other_bytes) - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            one.read_exact_at(&mut a[..len], at)?;
            other.read_exact_at(&mut b[..len], at)?;
            if let Some(differs) = a[..len].iter().zip(&b[..len]).position(|(a, b)| a != b) {
                return Ok(Some(at + differs as u64));
            }
            at += len as u64;
        }
        Ok((one_bytes != other_bytes).then_some(at))
    }
}

/// The metadata of a database directory, or of the newest backup in a directory of backups.
fn state_of(env: &Env, dir: &Path) -> Option<DatabaseState> {
    let read = |dir: &Path| match recover(&*env.fs, dir) {
        Ok(Recovery::Database(recovered)) => Some(recovered.state),
        _ => None,
    };
    if env.fs.file_len(&dir.join(CURRENT_NAME)).ok()?.is_some() {
        return read(dir);
    }
    let backups = env.fs.list(dir).ok()?;
    let mut numbered: Vec<(u64, &str)> = backups
        .iter()
        .filter(|entry| entry.is_dir)
        .filter_map(|entry| Some((entry.name.parse().ok()?, entry.name.as_str())))
        .collect();
    numbered.sort_unstable();
    numbered.iter().rev().find_map(|(_, name)| read(&dir.join(name)))
}
