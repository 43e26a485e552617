//! Closing: workers stop, memtables or the log are made durable, the manifest ends, the directory is
//! released.

use crate::background::flush_group;
use crate::background::install;
use crate::state::figures;
use crate::state::store::{Store, Writing};
use crate::write::commit;
use esker_base::{LogId, ResidentOnly, Result};
use esker_version::{EditOp, VersionEdit};
use std::sync::atomic::Ordering;

/// Closes the database; the second call does nothing.
pub fn close(store: &Store) -> Result<()> {
    if store.process.is_inherited() {
        // The lock of `closing` may never be released here, and the threads to join are not there.
        return store.check_open();
    }
    // The last handle may be dropped anywhere.
    let _files_are_read = ResidentOnly::suspend();
    store.check_may_wait_for_jobs()?;
    let result = close_once(store);
    // Without any lock, because a listener may be in a call that takes one (EV3).
    store.events.finish();
    result
}

fn close_once(store: &Store) -> Result<()> {
    let _one_at_a_time = store.closing.lock();
    if store.closed.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    if let Some(writing) = &store.writing {
        // Writers recheck under the lock, so after this none is between its check and its record.
        writing.commit.lock().closed = true;
        writing.commit_notifier.notify();
    }
    store.scheduler.stop();
    // Foreground flushes and compactions end before the directory lock is released: the next owner must
    // be alone.
    let _alone = store.activity.write();
    let result = match &store.writing {
        Some(writing) => {
            let result = finish_writing(store);
            writing.log.close();
            result
        }
        None => Ok(()),
    };
    store.lock.lock().take();
    result
}

fn finish_writing(store: &Store) -> Result<()> {
    let writing = store.writing()?;
    if store.flush_on_close {
        flush_group::seal_and_flush(store, &store.all_keyspaces())?;
    } else {
        flush_group::seal_and_flush(store, &flush_group::with_unlogged(store))?;
        commit::sync(store)?;
        // The mark tells the next open that nothing before it can be missing.
        writing.commit.lock().log.append_mark()?;
    }
    close_manifest(store, writing)?;
    store.files.delete_obsolete();
    Ok(())
}

/// Stores the time up to which entries were judged expired (TM2), the position up to which the log is
/// durable, and the figures, if any has grown since the last edit. The position is what the next open expects
/// of a log that holds entries, whatever became of its segments meanwhile.
pub(crate) fn store_time_and_position(store: &Store, writing: &Writing) -> Result<()> {
    let mut installed = writing.manifest.lock();
    let (last_ms, durable) = (store.time.last_ms(), writing.log.durable_position());
    let (known_ms, known) = (installed.state.time_floor_ms, installed.state.durable_position);
    let mut edit = VersionEdit::new();
    figures::record(store, writing, &mut installed, &mut edit);
    if !edit.is_empty() || last_ms > known_ms || known < Some((durable.log_id, durable.offset)) {
        edit.push(EditOp::TimeFloor(last_ms)).push(EditOp::DurablePosition(durable.log_id, durable.offset));
        install::make_durable(store, writing, &mut installed, &edit)?;
    }
    Ok(())
}

/// The last edit of a process, and the record that the manifest is complete. Only if all entries are in
/// tables and no history is kept can it be continued; otherwise only the time, the end of the durable log and
/// the figures are stored.
pub(crate) fn close_manifest(store: &Store, writing: &Writing) -> Result<()> {
    let Some(next) = next_life_begins_at(store, writing) else {
        return store_time_and_position(store, writing);
    };
    let mut installed = writing.manifest.lock();
    let mut edit = VersionEdit::new();
    install::add_counters(store, writing, &mut edit, next);
    figures::record(store, writing, &mut installed, &mut edit);
    install::make_durable(store, writing, &mut installed, &edit)?;
    if let Err(error) = installed.manifest.close() {
        tracing::debug!(%error, "the next open will begin a new manifest");
    }
    Ok(())
}

/// The position where the log continues if nothing in it is needed any more.
fn next_life_begins_at(store: &Store, writing: &Writing) -> Option<LogId> {
    let state = writing.commit.lock();
    let mut keyspaces = state.keyspaces.iter().flatten();
    let is_in_tables = keyspaces.all(|active| active.entries == 0 && !active.keyspace.view.has_sealed());
    (is_in_tables && !store.consumers.are_there()).then(|| state.log.next_log_id())
}
