//! Live files: the tables and blob files that parts refer to.

use super::DatabaseState;
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use std::collections::BTreeMap;

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Entries: a table file.
    Table,
    /// Large values: a blob file.
    Blob,
}

/// A file that parts refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// What it holds.
    pub kind: FileKind,
    /// The keyspace of its parts.
    pub keyspace: KeyspaceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its identity.
    pub table_uid: esker_base::TableUid,
    /// The sequence number it was ingested with, if it was.
    pub global_seqno: Option<SeqNo>,
    /// Number of parts that refer to it.
    pub parts: u32,
}

impl DatabaseState {
    /// Files of parts, blob files included, with length and number of parts. O(parts).
    pub fn live_files(&self) -> BTreeMap<FileNumber, LiveFile> {
        let mut files = BTreeMap::new();
        for keyspace in self.keyspaces.values() {
            for (_, _, part) in keyspace.version.parts() {
                let file = files.entry(part.file).or_insert(LiveFile {
                    kind: FileKind::Table,
                    keyspace: keyspace.id,
                    bytes: part.file_bytes,
                    table_uid: part.table_uid,
                    global_seqno: part.global_seqno,
                    parts: 0,
                });
                file.parts += 1;
            }
            for blob in keyspace.version.blob_files().iter() {
                let file = LiveFile {
                    kind: FileKind::Blob,
                    global_seqno: None,
                    keyspace: keyspace.id,
                    bytes: blob.meta.file_bytes,
                    table_uid: blob.meta.uid,
                    parts: u32::try_from(blob.parts).unwrap_or(u32::MAX),
                };
                files.insert(blob.meta.number, file);
            }
        }
        files
    }
}
