//! Quarantined files: which they are, and what reads of their keys return.

use crate::Database;
use esker_base::FileNumber;
use esker_engine::state::quarantine::QuarantinedFile as Entry;
use esker_engine::state::store::Store;
use esker_version::{FileKind, KeyEnd, PartMeta};
use std::ops::Bound;
use std::path::PathBuf;

impl Database {
    /// The files that are quarantined, by number; empty unless the database was opened with
    /// [`RecoveryMode::Quarantine`](crate::RecoveryMode).
    ///
    /// A file leaves the list when it is replaced ([`Database::replace_quarantined`]), or when it leaves the
    /// database: because newer range deletes hide all of it, or its keyspace is dropped. O(tables).
    ///
    /// ```
    /// use esker::{Database, Options, RecoveryMode};
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-quarantined-{}", std::process::id()));
    /// let db = Database::open_with(&dir, Options::default().recovery_mode(RecoveryMode::Quarantine))?;
    /// for file in db.quarantined() {
    ///     println!("{}: {} ({})", file.path.display(), file.keys, file.cause);
    /// }
    /// # assert!(db.quarantined().is_empty());
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(()) }
    /// ```
    pub fn quarantined(&self) -> Vec<QuarantinedFile> {
        quarantined(&self.handle().store)
    }
}

/// A table or blob file that is quarantined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedFile {
    /// The keyspace it belongs to.
    pub keyspace: String,
    /// Its number.
    pub number: FileNumber,
    /// What it holds.
    pub kind: FileKind,
    /// Where it is, or should be.
    pub path: PathBuf,
    /// The keys that need it, printed: `[first..last]` for each range, in order.
    pub keys: String,
    /// The same as bytes: the first key and the end of each range.
    pub ranges: Vec<(Vec<u8>, Bound<Vec<u8>>)>,
    /// What was found.
    pub cause: String,
    /// What reads of these keys return.
    pub reads: QuarantineReads,
}

/// What reads return that need a quarantined file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuarantineReads {
    /// An error: the file is not opened. For a blob file only reads of its values are errors; their keys can
    /// be listed.
    Refused,
    /// The values, except in the damaged blocks, which are errors: the damage was found after the file was
    /// opened. A scan may return the error one entry of the file before the damaged block.
    DamagedBlocksFail,
}

impl QuarantineReads {
    /// One word for it.
    pub const fn name(self) -> &'static str {
        match self {
            QuarantineReads::Refused => "refused",
            QuarantineReads::DamagedBlocksFail => "damaged blocks fail",
        }
    }
}

pub(crate) fn quarantined(store: &Store) -> Vec<QuarantinedFile> {
    store.quarantine.files().into_iter().filter_map(|file| described(store, file)).collect()
}

/// `None` if no tree has the file any more.
fn described(store: &Store, file: Entry) -> Option<QuarantinedFile> {
    let keyspaces = store.all_keyspaces();
    let keyspace = keyspaces.iter().find(|keyspace| keyspace.id == file.keyspace)?;
    let needs = |part: &PartMeta| match file.kind {
        FileKind::Table => part.file == file.number,
        FileKind::Blob => part.blobs.iter().any(|blob| blob.file == file.number),
    };
    let view = keyspace.view.load();
    let mut parts: Vec<&PartMeta> =
        view.tree.parts().map(|part| &*part.meta).filter(|part| needs(part)).collect();
    parts.sort_by(|a, b| a.range.start.cmp(&b.range.start));
    let end = |part: &PartMeta| match &part.range.end {
        KeyEnd::Included(last) => Bound::Included(last.to_vec()),
        KeyEnd::Excluded(end) => Bound::Excluded(end.to_vec()),
        KeyEnd::Unbounded => Bound::Unbounded,
    };
    let keys: Vec<String> = parts.iter().map(|part| part.range.to_string()).collect();
    (!parts.is_empty()).then(|| QuarantinedFile {
        keyspace: keyspace.name().to_string(),
        number: file.number,
        kind: file.kind,
        path: file.path,
        keys: keys.join(", "),
        ranges: parts.iter().map(|part| (part.range.start.to_vec(), end(part))).collect(),
        cause: file.cause.to_string(),
        reads: if file.is_refused { QuarantineReads::Refused } else { QuarantineReads::DamagedBlocksFail },
    })
}
