//! Replacement of quarantined files from a copy of the database: a directory of backups, or a checkpoint.
//!
//! A file is found by what the manifest says of it: its identity and its length, which a backup has in the
//! name ([`super::catalog::pool_name`]), and a checkpoint together with the number. Names are only where to
//! look: the bytes are checked before they are used.

use super::catalog::pool_name;
use super::restore::check_file;
use crate::Database;
use esker_base::{Error, FileNumber, Result};
use esker_engine::background::quarantine;
use esker_engine::state::store::Store;
use esker_version::LiveFile;
use esker_view::paths;
use std::path::{Path, PathBuf};

impl Database {
    /// Replaces quarantined files by undamaged copies from a directory of backups, or from a checkpoint, a
    /// restored backup or another copy of this database, while reads and writes go on. A copy has the same
    /// file as long as the database has not rewritten it; it is found by its identity.
    ///
    /// Each copy is read as a whole before it takes the place of the damaged file: identity, length, every
    /// checksum and the order of its entries. Its keys can be read when the call returns, without reopening.
    /// Files that the directory does not have, or has damaged, stay quarantined and are listed. Reads and
    /// writes as many bytes as the files have.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `ReadOnly`, `Full`, `Io`, `Closed`.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// use esker::{Database, Options, RecoveryMode};
    /// let db = Database::open_with("data", Options::default().recovery_mode(RecoveryMode::Quarantine))?;
    /// let report = db.replace_quarantined("/mnt/backups/data")?;
    /// println!("{} files replaced, {} are still missing", report.replaced.len(), report.missing.len());
    /// # Ok(()) }
    /// ```
    #[doc(alias = "repair")]
    pub fn replace_quarantined(&self, from: impl AsRef<Path>) -> Result<ReplaceReport> {
        replace_quarantined(&self.handle().store, from.as_ref())
    }
}

/// The result of [`Database::replace_quarantined`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplaceReport {
    /// The files that were replaced.
    pub replaced: Vec<FileNumber>,
    /// The files that are still quarantined, and why.
    pub missing: Vec<(FileNumber, String)>,
}

/// See [`crate::Database::replace_quarantined`].
fn replace_quarantined(store: &Store, from: &Path) -> Result<ReplaceReport> {
    store.check_open()?;
    let live = store.writing()?.manifest.lock().state.live_files();
    let from = store.env.fs.absolute(from)?;
    if store.env.fs.list(&from).is_err_and(|error| error.is_not_found()) {
        return Err(Error::NotFound(format!("there is no directory {}", from.display()).into()));
    }
    let mut report = ReplaceReport::default();
    for file in store.quarantine.files() {
        let Some(live) = live.get(&file.number) else { continue };
        match replace(store, &from, file.number, live) {
            Ok(()) => report.replaced.push(file.number),
            // Nothing of what is wrong with the source, but with the database.
            Err(error @ (Error::Full(_) | Error::Closed | Error::ReadOnly { .. })) => return Err(error),
            Err(error) => report.missing.push((file.number, error.to_string())),
        }
    }
    Ok(report)
}

/// Tries the places where the directory may have the file.
fn replace(store: &Store, from: &Path, number: FileNumber, live: &LiveFile) -> Result<()> {
    let mut failure = None;
    for source in candidates(from, number, live) {
        if store.env.fs.file_len(&source)?.is_none() {
            continue;
        }
        let check = |path: &Path, live: &LiveFile| check_file(&*store.env.fs, path, live).map(drop);
        match quarantine::replace(store, number, &source, check) {
            Ok(()) => return Ok(()),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let missing = || Error::NotFound(format!("{} does not have this file", from.display()).into());
    Err(failure.unwrap_or_else(missing))
}

fn candidates(from: &Path, number: FileNumber, live: &LiveFile) -> [PathBuf; 2] {
    let tables = paths::tables(from);
    [tables.join(pool_name(live.kind, live.table_uid, live.bytes)), paths::data(from, live.kind, number)]
}
