//! Quarantine: the files that were found damaged, and what becomes of them, in memory.
//!
//! A database opened with [`RecoveryMode::Quarantine`] does not refuse to open because of a damaged file. A
//! table or blob file that cannot be opened is *refused*: its keys are errors, all others are read. One in
//! which a compaction meets damage is *set aside*: reads go on, and fail at the damage. Either way no merge
//! reads it (SA1), until it is replaced or leaves the tree.
//!
//! The list is made anew at each open: the files themselves are what it is derived from.
//!
//! * QU3. A file is in the list exactly as long as it is refused or set aside, except between its last edit
//!   and the next look at the list, which passes over files that no tree has.

use esker_base::{Error, FileNumber, KeyspaceId};
use esker_options::RecoveryMode;
use esker_strategy::SetAside;
use esker_version::FileKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A quarantined file.
#[derive(Clone, Debug)]
pub struct QuarantinedFile {
    /// Its number.
    pub number: FileNumber,
    /// What it holds.
    pub kind: FileKind,
    /// Its keyspace.
    pub keyspace: KeyspaceId,
    /// Where it is, or should be.
    pub path: PathBuf,
    /// What was found.
    pub cause: Error,
    /// Whether it is not opened at all.
    pub is_refused: bool,
}

/// All quarantined files of a database.
#[derive(Debug)]
pub struct Quarantine {
    mode: RecoveryMode,
    files: Mutex<BTreeMap<FileNumber, QuarantinedFile>>,
    /// Held while a file is replaced.
    pub replacing: Mutex<()>,
}

impl Quarantine {
    /// The files that were found by an open in this mode.
    pub fn new(mode: RecoveryMode, found: impl IntoIterator<Item = QuarantinedFile>) -> Quarantine {
        let files = found.into_iter().map(|file| (file.number, file)).collect();
        Quarantine { mode, files: Mutex::new(files), replacing: Mutex::new(()) }
    }

    /// Whether damage that is met is quarantined.
    pub fn is_on(&self) -> bool {
        self.mode == RecoveryMode::Quarantine
    }

    /// All of them, by number.
    pub fn files(&self) -> Vec<QuarantinedFile> {
        self.files.lock().values().cloned().collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.lock().is_empty()
    }

    /// One of them.
    pub fn file(&self, number: FileNumber) -> Option<QuarantinedFile> {
        self.files.lock().get(&number).cloned()
    }

    /// Adds a file; `false` if it is quarantined already.
    pub fn add(&self, file: QuarantinedFile) -> bool {
        let mut files = self.files.lock();
        let is_new = !files.contains_key(&file.number);
        files.entry(file.number).or_insert(file);
        is_new
    }

    /// Removes a file.
    pub fn remove(&self, number: FileNumber) {
        self.files.lock().remove(&number);
    }

    /// The files that no merge of a keyspace reads.
    pub fn set_aside(&self, keyspace: KeyspaceId) -> SetAside {
        let files = self.files.lock();
        Arc::new(files.values().filter(|file| file.keyspace == keyspace).map(|file| file.number).collect())
    }
}
