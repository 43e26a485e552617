//! Durability of manifest edits: which files a manifest needs, whichever of its ends a power cut leaves.
//!
//! A record that recovery has read may exist only in the page cache, and so may the name `CURRENT`. What only
//! the last state of the manifest does not need may therefore be needed after a power cut. Two facts prove
//! that something is durable:
//! * an edit is written after the one before it was synced, so every record but the last is durable;
//! * nothing is appended before the rename of `CURRENT` is durable, and an older manifest is removed only
//!   after that, so a manifest with edits, or without another one beside it, is current for good.

use crate::current::{CURRENT_TEMPORARY_NAME, Current, manifest_name, parse_manifest_name};
use crate::recover::ManifestFile;
use crate::state::DatabaseState;
use esker_base::{FileNumber, LogId, Result};
use esker_env::FileSystem;
use std::collections::BTreeSet;
use std::path::Path;

/// What the two states that a manifest may be found in need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededFiles {
    /// Tables and blob files.
    pub files: BTreeSet<FileNumber>,
    /// The first log segment.
    pub min_log_id: LogId,
    /// Whether segments before that one are kept for readers of changes.
    pub keeps_history: bool,
    /// Names in the directory that are manifests, or the beginning of a `CURRENT`, and not needed.
    pub unneeded_names: Vec<String>,
}

/// What the manifest in force needs; `None` if nothing proves that it is in force for good.
///
/// # Errors
/// If the directory or the manifest cannot be read, or is damaged.
pub fn needed_files(fs: &dyn FileSystem, dir: &Path) -> Result<Option<NeededFiles>> {
    let Some(current) = Current::read(fs, dir)? else { return Ok(None) };
    let file = ManifestFile::read(fs, &dir.join(manifest_name(current.manifest)))?;
    let records = file.records().collect::<Result<Vec<_>>>()?;
    let names = fs.list(dir)?.into_iter().map(|entry| entry.name);
    let others: Vec<String> = names
        .filter(|name| {
            let other = parse_manifest_name(name).is_some_and(|number| number != current.manifest);
            other || name == CURRENT_TEMPORARY_NAME
        })
        .collect();
    let has_other_manifest = others.iter().any(|name| name != CURRENT_TEMPORARY_NAME);
    if records.is_empty() || (records.len() == 1 && has_other_manifest) {
        return Ok(None);
    }
    let mut state = DatabaseState { uuid: file.header.uuid, ..DatabaseState::default() };
    let mut needed = NeededFiles {
        files: BTreeSet::new(),
        min_log_id: LogId(u64::MAX),
        keeps_history: false,
        unneeded_names: others,
    };
    for (at, record) in records.iter().enumerate() {
        // An edit without fields says that the database was closed.
        if !record.edit.is_empty() && state.apply(&record.edit).is_err() {
            return Ok(None);
        }
        if at + 2 >= records.len() {
            needed.add(&state);
        }
    }
    Ok(Some(needed))
}

impl NeededFiles {
    fn add(&mut self, state: &DatabaseState) {
        self.files.extend(state.live_files().into_keys());
        self.min_log_id = self.min_log_id.min(state.min_log_id);
        self.keeps_history |= !state.consumers.is_empty() || !state.log_lives.is_empty();
    }
}
