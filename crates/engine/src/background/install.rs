//! Install: makes a change of the tree durable, then visible, then releases what it replaced (protocol 4.1,
//! F4 to F6).
//!
//! One edit at a time, under the manifest's lock, one record, one sync; it may change many keyspaces. The
//! edit is prepared from the state, the record written and synced, and only then the state changed; so an
//! edit that violates an invariant never reaches the disk (IN5), and memory never shows what is not durable
//! (IN2). Before that the job has made the tables it names durable, bytes and directory entries (IN1); after
//! it, files and log segments that the new state does not need are released (IN3, WL7).

use crate::state::figures;
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
use parking_lot::MutexGuard;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What an install changes in one keyspace.
#[derive(Clone, Copy, Debug)]
pub struct InstallShare<'a> {
    /// The keyspace.
    pub keyspace: &'a KeyspaceState,
    /// The memtables whose entries the edit's tables hold; they leave the view together with the tables'
    /// arrival.
    pub flushed: &'a [Arc<MemtableView>],
}

/// Makes an edit of `keyspace` durable and publishes the resulting view; see [`install_together`].
pub fn install(
    store: &Store,
    keyspace: &KeyspaceState,
    flushed: &[Arc<MemtableView>],
    reason: FileReason,
    make_edit: impl FnOnce(&Version, &Busy) -> VersionEdit,
) -> Result<()> {
    let mut make_edit = Some(make_edit);
    install_together(store, &[InstallShare { keyspace, flushed }], reason, |_, version, busy| {
        make_edit.take().map_or_else(VersionEdit::new, |make_edit| make_edit(version, busy))
    })
}

/// Makes edits of several keyspaces durable as one, by one record and one sync, and publishes the resulting
/// views. `shares` are in the order of their keyspaces' ids; those of dropped keyspaces are left out.
/// Listeners are told `reason`.
///
/// `make_edit` gets the number of a share, and the tree and the running jobs of its keyspace as they are at
/// the install, and both stay so until the new view is published: a placement chosen from them is legal
/// (4.3). No planning happens meanwhile, because it takes the same lock.
///
/// # Errors
/// If every keyspace was dropped, the error that says so; otherwise those of [`make_durable`].
pub(crate) fn install_together(
    store: &Store,
    shares: &[InstallShare<'_>],
    reason: FileReason,
    mut make_edit: impl FnMut(usize, &Version, &Busy) -> VersionEdit,
) -> Result<()> {
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    // A keyspace is dropped under this lock. `make_edit` drops tables that were not claimed.
    let is_living = |share: &&InstallShare<'_>| !share.keyspace.is_dropped();
    if !shares.iter().any(|share| is_living(&share)) {
        return shares.first().map_or(Ok(()), |share| share.keyspace.check_living());
    }
    let mut changes = Vec::with_capacity(shares.len());
    for (at, share) in shares.iter().enumerate().filter(|(_, share)| is_living(share)) {
        let busy = share.keyspace.jobs.busy.lock();
        let before = Arc::clone(&share.keyspace.view.load().tree.version);
        let edit = make_edit(at, &before, &busy);
        changes.push(Change { share, _busy: busy, before, edit });
    }
    let mut edit = VersionEdit::new();
    edit.ops.extend(changes.iter().flat_map(|change| &change.edit.ops).cloned());
    let flushed = FlushedMemtables::of(shares);
    let min_log_id = min_log_id(store, writing, &flushed);
    add_counters(store, writing, &mut edit, min_log_id);
    figures::record_if_due(store, writing, &mut installed, &mut edit);
    let applied = make_durable(store, writing, &mut installed, &edit)?;
    for Change { share: InstallShare { keyspace, .. }, before, edit, .. } in &changes {
        if let Some(changed) = installed.state.keyspace(keyspace.id) {
            publish_tree(store, keyspace, Arc::clone(&changed.version), &flushed);
        }
        emit_changes(store, keyspace, reason, before, edit, &applied);
    }
    // A drop has subtracted the memtables of its keyspace itself.
    let freed: u64 =
        changes.iter().flat_map(|change| change.share.flushed).map(|memtable| memtable.bytes()).sum();
    changes.iter().for_each(|change| store.pinned_memtables.add(change.share.flushed));
    drop(changes);
    drop(installed);
    retire_files(store, &applied);
    store.sealed_memory.note_release(freed, store.monotonic_ns());
    let released = writing.log.release_below(min_log_id);
    after_install(store, shares);
    released.map(|_| ())
}

/// One keyspace's part of an install under way.
struct Change<'a> {
    share: &'a InstallShare<'a>,
    /// Held until the views are published.
    _busy: MutexGuard<'a, Busy>,
    before: Arc<Version>,
    edit: VersionEdit,
}

/// Memtables that an install removes from the views.
#[derive(Debug, Default)]
pub struct FlushedMemtables(HashSet<*const MemtableView, foldhash::fast::FixedState>);

impl FlushedMemtables {
    /// The memtables of these shares.
    pub fn of(shares: &[InstallShare<'_>]) -> FlushedMemtables {
        FlushedMemtables(shares.iter().flat_map(|share| share.flushed).map(Arc::as_ptr).collect())
    }

    fn has(&self, memtable: &Arc<MemtableView>) -> bool {
        self.0.contains(&Arc::as_ptr(memtable))
    }
}

/// Everything that follows an install, whichever job made it: memory that memtables released goes to the
/// cache, files and log segments are deleted, the strategies are called again, waiting threads check again,
/// and the pressure on writers is computed anew.
fn after_install(store: &Store, shares: &[InstallShare<'_>]) {
    memory_arbiter::rebalance_memory(store);
    store.scheduler.request(WorkerPool::Log);
    store.scheduler.request(WorkerPool::Compaction);
    store.scheduler.announce_progress();
    shares.iter().for_each(|share| write_control::update_pressure(store, share.keyspace));
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
    let prepared = match installed.state.prepare(edit) {
        Ok(prepared) => prepared,
        Err(error) => {
            discard(store, outputs_of(edit), &installed.state);
            return Err(error.into());
        }
    };
    match installed.manifest.append(edit) {
        Ok(number) => {
            let applied = installed.state.commit(prepared);
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
pub(crate) fn retire_files(store: &Store, applied: &Applied) {
    applied.obsolete_files.iter().for_each(|&file| store.files.retire(file));
    applied.obsolete_blobs.iter().for_each(|&file| store.files.retire_large(file));
}

/// Publishes a view with the new tree, derived from the current view: a seal may have changed it since
/// the job began (F5).
fn publish_tree(store: &Store, keyspace: &KeyspaceState, version: Arc<Version>, flushed: &FlushedMemtables) {
    let publishing = keyspace.publication.lock();
    let tree = Arc::new(Tree::new(keyspace.id, version, &store.files));
    keyspace.view.update(|view| {
        let sealed = view.sealed.iter().filter(|memtable| !flushed.has(memtable)).cloned().collect();
        SuperVersion { sealed, tree, ..view.clone() }
    });
    let is_current = |tree: &Tree| tree.parts().all(|part| !part.file.is_superseded());
    debug_assert!(is_current(&keyspace.view.load().tree), "OT5");
    drop(publishing);
    keyspace.note_tree();
}

/// Every edit raises the counters past what it refers to and stores the log's durable position, so that
/// recovery can tell a torn tail from lost data.
pub(crate) fn add_counters(store: &Store, writing: &Writing, edit: &mut VersionEdit, min_log_id: LogId) {
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
pub fn min_log_id(store: &Store, writing: &Writing, flushed: &FlushedMemtables) -> LogId {
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
            let kept = view.sealed.iter().filter(|memtable| !flushed.has(memtable));
            let oldest_kept = kept.filter_map(|memtable| memtable.first_log_id()).min();
            oldest = oldest_kept.map_or(oldest, |id| oldest.min(LogId(id)));
        }
    }
    oldest
}

/// Whether a power cut after this flush could tear a batch over two keyspaces (WL6): some keyspace has other
/// entries at or below `seqno` that are only in the log.
pub(crate) fn must_sync_log_before(store: &Store, flushed: &FlushedMemtables, seqno: SeqNo) -> bool {
    store.all_keyspaces().iter().any(|keyspace| {
        let view = keyspace.view.load();
        let mut left = view.memtables().filter(|memtable| !flushed.has(memtable));
        left.any(|memtable| memtable.first_seqno().is_some_and(|first| first <= seqno))
    })
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
pub(crate) fn emit_changes(
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
