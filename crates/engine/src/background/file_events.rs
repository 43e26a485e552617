//! File events: which files an edit has added to a keyspace and which have left it, for listeners.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_base::FileNumber;
use esker_build::pending_outputs::Outputs;
use esker_options::{Event, FileInfo, FileReason, JobOutput};
use esker_version::{Applied, EditOp, Version, VersionEdit};
use std::collections::HashSet;

/// Queues the event of an edit that was applied to `before`, if it has changed files. The caller holds the
/// manifest's lock (EV2). Without listeners nothing is computed.
pub fn emit_changes(
    store: &Store,
    keyspace: &KeyspaceState,
    reason: FileReason,
    before: &Version,
    edit: &VersionEdit,
    applied: &Applied,
) {
    if !store.events.is_on() {
        return;
    }
    let (created, deleted) = (created_files(before, edit, applied), deleted_files(before, applied));
    if !created.is_empty() || !deleted.is_empty() {
        store.events.emit(|| Event::FilesChanged {
            keyspace: keyspace.event_ref(),
            reason,
            created,
            deleted,
        });
    }
}

/// What a job has written, for the event of its end.
pub fn output_of(outputs: &Outputs<'_>) -> JobOutput {
    let tables = outputs.parts.iter().map(|part| part.file).collect();
    JobOutput::new(tables, outputs.bytes(), outputs.blob_bytes(), outputs.entries())
}

/// Files of the edit that were not in the tree before: a part that moves, or the remainder of one that was
/// cut, has a file that was.
fn created_files(before: &Version, edit: &VersionEdit, applied: &Applied) -> Vec<FileInfo> {
    let mut known: HashSet<FileNumber, foldhash::fast::FixedState> =
        before.parts().map(|(_, _, part)| part.file).collect();
    let mut created = Vec::new();
    for op in &edit.ops {
        match op {
            EditOp::AddPart { place, part, .. } if known.insert(part.file) => {
                created.push(FileInfo::table(part.file, place.level.get(), part.file_bytes));
            }
            // One that nothing points to has left with the same edit.
            EditOp::AddBlobFile { file, .. } if !applied.obsolete_blobs.contains(&file.number) => {
                created.push(FileInfo::blob(file.number, file.file_bytes));
            }
            _ => {}
        }
    }
    created
}

/// The files that no part refers to any more.
fn deleted_files(before: &Version, applied: &Applied) -> Vec<FileInfo> {
    let mut gone: HashSet<FileNumber, foldhash::fast::FixedState> =
        applied.obsolete_files.iter().copied().collect();
    let tables = before.parts().filter(|(_, _, part)| gone.remove(&part.file));
    let mut deleted: Vec<FileInfo> =
        tables.map(|(level, _, part)| FileInfo::table(part.file, level.get(), part.file_bytes)).collect();
    let blobs = before.blob_files().iter().filter(|blob| applied.obsolete_blobs.contains(&blob.meta.number));
    deleted.extend(blobs.map(|blob| FileInfo::blob(blob.meta.number, blob.meta.file_bytes)));
    deleted
}
