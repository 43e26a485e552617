//! Install: makes a change of the tree durable, then visible, then releases what it replaced (protocol 4.1,
//! F4 to F6).
//!
//! One job's edit at a time, under the manifest's lock, one record, one sync. The state is cloned, the edit
//! applied to the clone, the record written and synced, and only then the clone replaces the original; so an
//! edit that violates an invariant never reaches the disk (IN5), and memory never shows what is not durable
//! (IN2). Before that the job has made the tables it names durable, bytes and directory entries (IN1); after
//! it, files and log segments that the new state does not need are released (IN3, WL7).

use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{DataFile, Installed, Store, Writing};
use crate::write::memory_arbiter;
use crate::write::write_control;
use esker_base::planted;
use esker_base::{FileNumber, LogId, Result, SeqNo};
use esker_options::{Event, FileInfo, FileReason};
use esker_strategy::Busy;
use esker_version::{AppendError, Applied, DatabaseState, EditOp, FileKind, Version, VersionEdit};
use esker_view::tree::Tree;
use esker_view::{MemtableView, SuperVersion};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Makes an edit of `keyspace` durable and publishes the resulting view. `flushed` are the memtables
/// whose entries the edit's tables hold; they leave the view together with the tables' arrival. Listeners are
/// told `reason`.
///
/// `make_edit` gets the tree and the running jobs as they are at the install, and both stay so until the
/// new view is published: a placement chosen from them is legal (4.3). No planning happens meanwhile,
/// because it takes the same lock.
pub fn install(
    store: &Store,
    keyspace: &KeyspaceState,
    flushed: &[Arc<MemtableView>],
    reason: FileReason,
    make_edit: impl FnOnce(&Version, &Busy) -> VersionEdit,
) -> Result<()> {
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    // A keyspace is dropped under this lock. `make_edit` drops tables that were not claimed.
    keyspace.check_living()?;
    let busy = keyspace.jobs.busy.lock();
    let before = Arc::clone(&keyspace.view.load().tree.version);
    let mut edit = make_edit(&before, &busy);
    let min_log_id = min_log_id(store, writing, flushed);
    add_counters(store, writing, &mut edit, min_log_id);
    let applied = make_durable(store, writing, &mut installed, &edit)?;
    if let Some(changed) = installed.state.keyspace(keyspace.id) {
        publish_tree(store, keyspace, Arc::clone(&changed.version), flushed);
    }
    emit_changes(store, keyspace, reason, &before, &edit, &applied);
    drop((busy, before));
    drop(installed);
    retire_files(store, &applied);
    let freed: u64 = flushed.iter().map(|memtable| memtable.bytes()).sum();
    store.sealed_bytes.fetch_sub(freed, Ordering::Relaxed);
    let released = writing.log.release_below(min_log_id);
    after_install(store, keyspace);
    released.map(|_| ())
}

/// Everything that follows an install, whichever job made it: memory that memtables released goes to the
/// cache, files and log segments are deleted, the strategies are called again, waiting threads check again,
/// and the pressure on writers is computed anew.
fn after_install(store: &Store, keyspace: &KeyspaceState) {
    memory_arbiter::rebalance_memory(store);
    store.scheduler.request(WorkerPool::Log);
    store.scheduler.request(WorkerPool::Compaction);
    store.scheduler.announce_progress();
    write_control::update_pressure(store, keyspace);
}

/// Appends an edit to the manifest and applies it to the state.
///
/// # Errors
/// The state is unchanged, and the current manifest does not have the edit: after an append whose outcome
/// is unknown it is replaced by one that certainly does not. The tables that the edit would have added
/// are deleted then; until the replacement they stay, and also if it never succeeds and the database
/// turns read-only.
pub fn make_durable(
    store: &Store,
    writing: &Writing,
    installed: &mut Installed,
    edit: &VersionEdit,
) -> Result<Applied> {
    let mut state = installed.state.clone();
    let applied = match state.apply(edit) {
        Ok(applied) => applied,
        Err(error) => {
            discard(store, outputs_of(edit), &installed.state);
            return Err(error.into());
        }
    };
    match installed.manifest.append(edit) {
        Ok(number) => {
            installed.state = state;
            writing.last_edit.store(number, Ordering::Release);
            writing.log.note_manifest_edit(number);
            if installed.manifest.needs_rollover() {
                // The edit is durable either way; a failed rollover is repeated at the next edit.
                roll_over(store, writing, installed);
            }
            Ok(applied)
        }
        Err(failure) => {
            match &failure {
                // Nothing was written: whatever happens to the manifest, nothing refers to the tables.
                AppendError::NotWritten(_) => discard(store, outputs_of(edit), &installed.state),
                AppendError::Unknown(_) => installed.doubtful.extend(outputs_of(edit)),
            }
            if installed.manifest.needs_rollover() {
                roll_over(store, writing, installed);
            }
            Err(failure.error().clone())
        }
    }
}

/// Replaces the manifest by one that holds the present state in one record.
pub fn roll_over(store: &Store, writing: &Writing, installed: &mut Installed) {
    let number = writing.tables.take_file_number();
    match installed.manifest.roll_over(number, &installed.state) {
        Ok(()) => discard(store, std::mem::take(&mut installed.doubtful), &installed.state),
        Err(failure) if failure.fatal => {
            store.fail(format!("the manifest could not be replaced: {failure}"));
        }
        Err(failure) => {
            tracing::warn!(%failure, "the manifest could not be replaced and will be tried again");
        }
    }
}

/// Deletes files that no manifest refers to, unless they are part of the state.
fn discard(store: &Store, outputs: Vec<DataFile>, state: &DatabaseState) {
    if outputs.is_empty() {
        return;
    }
    let live = state.live_files();
    for (kind, file) in outputs.into_iter().filter(|(_, file)| !live.contains_key(file)) {
        match kind {
            FileKind::Table => store.files.retire(file),
            FileKind::Blob => store.files.retire_large(file),
        }
    }
    store.scheduler.request(WorkerPool::Log);
}

/// Releases the files that a durable edit removed.
pub fn retire_files(store: &Store, applied: &Applied) {
    applied.obsolete_files.iter().for_each(|&file| store.files.retire(file));
    applied.obsolete_blobs.iter().for_each(|&file| store.files.retire_large(file));
}

/// Publishes a view with the new tree, derived from the current view: a seal may have changed it since
/// the job began (F5).
fn publish_tree(
    store: &Store,
    keyspace: &KeyspaceState,
    version: Arc<Version>,
    flushed: &[Arc<MemtableView>],
) {
    let publishing = keyspace.publication.lock();
    let tree = Arc::new(Tree::new(keyspace.id, version, &store.files));
    keyspace.view.update(|view| {
        let sealed = view.sealed.iter().filter(|memtable| !is_among(flushed, memtable)).cloned().collect();
        SuperVersion { sealed, tree, ..view.clone() }
    });
    let is_current = |tree: &Tree| tree.parts().all(|part| !part.file.is_superseded());
    debug_assert!(is_current(&keyspace.view.load().tree), "OT5");
    drop(publishing);
    keyspace.note_tree();
}

/// Every edit raises the counters past what it refers to and stores the log's durable position, so that
/// recovery can tell a torn tail from lost data.
pub fn add_counters(store: &Store, writing: &Writing, edit: &mut VersionEdit, min_log_id: LogId) {
    let durable = writing.log.durable_position();
    let (next_file, next_part) = writing.tables.counters();
    edit.push(EditOp::MinLogId(min_log_id))
        .push(EditOp::NextFile(next_file))
        .push(EditOp::NextPart(next_part))
        .push(EditOp::LastSeqno(SeqNo::new(store.visible.load(Ordering::Acquire))))
        .push(EditOp::DurablePosition(durable.log_id, durable.offset))
        .push(EditOp::TimeFloor(store.time.last_ms()));
}

/// The oldest log segment that some memtable still needs, once `flushed` are released. An empty memtable
/// needs none, so an idle keyspace pins nothing (2.5).
pub fn min_log_id(store: &Store, writing: &Writing, flushed: &[Arc<MemtableView>]) -> LogId {
    // Under the commit lock no write can turn an empty memtable into one that needs the active segment.
    let state = writing.commit.lock();
    let current = state.log.position().log_id;
    let mut oldest = current;
    if store.consumers.are_there() {
        // HS6: segments without a durable record may not survive a power cut, and then recovery would
        // know of no segment that shows where the history of this open ends.
        oldest = oldest.min(writing.log.durable_position().log_id);
    }
    for active in state.keyspaces.iter().flatten() {
        oldest = active.memtable.first_log_id().map_or(oldest, |id| oldest.min(LogId(id)));
        if active.keyspace.view.has_sealed() && !planted!(ReleasesNeededLog) {
            let view = active.keyspace.view.load();
            let kept = view.sealed.iter().filter(|memtable| !is_among(flushed, memtable));
            let oldest_kept = kept.filter_map(|memtable| memtable.first_log_id()).min();
            oldest = oldest_kept.map_or(oldest, |id| oldest.min(LogId(id)));
        }
    }
    oldest
}

/// Whether a power cut after this flush could tear a batch over two keyspaces (WL6): some other keyspace
/// has entries at or below `seqno` that are only in the log.
pub fn must_sync_log_before(store: &Store, keyspace: &KeyspaceState, seqno: SeqNo) -> bool {
    let others = store.all_keyspaces();
    let mut others = others.iter().filter(|other| other.id != keyspace.id);
    others.any(|other| other.first_unflushed().is_some_and(|first| first <= seqno))
}

fn is_among(memtables: &[Arc<MemtableView>], memtable: &Arc<MemtableView>) -> bool {
    memtables.iter().any(|other| Arc::ptr_eq(other, memtable))
}

/// The files of the parts that an edit adds and that are deleted if it fails. Ingested files are no job's
/// output: the log refers to them, and the install is repeated.
fn outputs_of(edit: &VersionEdit) -> Vec<DataFile> {
    let added = edit.ops.iter().filter_map(|op| match op {
        EditOp::AddPart { part, .. } => {
            Some((FileKind::Table, part.file)).filter(|_| part.global_seqno.is_none())
        }
        EditOp::AddBlobFile { file, .. } => Some((FileKind::Blob, file.number)),
        _ => None,
    });
    added.collect()
}

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

#[cfg(test)]
mod tests;
