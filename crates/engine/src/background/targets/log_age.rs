//! DW1, DW2 and DW6: bounds the age of memtables, log segments and the manifest under a delete-persistence
//! target.

use super::{MANIFEST_DIVISOR, SEAL_DIVISOR};
use crate::background::flush;
use crate::background::install;
use crate::background::install::FlushedMemtables;
use crate::state::keyspace::KeyspaceState;
use crate::state::log_ages::LogAges;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use crate::write::make_room;
use crate::write::make_room::{RoomCheck, RotationReason};
use crate::write::switch_memtable;
use esker_base::{KeyspaceId, LogId, Result};
use esker_options::{DEFAULT_KEYSPACE, FileReason};
use esker_strategy::write_control::MAX_SEALED;
use esker_version::VersionEdit;
use std::sync::Arc;

/// Seals memtables and leaves log segments that are old enough.
pub(crate) fn age_for_targets(store: &Store) -> Result<()> {
    let keyspaces = store.all_keyspaces();
    let within = keyspaces.iter().filter_map(|keyspace| keyspace.options().delete_within_ms()).min();
    let (Some(within_ms), Some(writing)) = (within, &store.writing) else { return Ok(()) };
    for keyspace in keyspaces.iter() {
        seal_if_old(store, keyspace)?;
    }
    leave_old_manifest(store, writing, within_ms);
    let now_ms = store.time.now_ms();
    let mut ages = store.log_ages.lock();
    let current = writing.commit.lock().log.position().log_id;
    ages.since_ms(current, now_ms);
    let Some(oldest) = writing.log.oldest_log_id() else { return Ok(()) };
    ages.since_ms = ages.since_ms.split_off(&oldest);
    if now_ms.saturating_sub(ages.since_ms(oldest, now_ms)) < within_ms / SEAL_DIVISOR {
        return Ok(());
    }
    if leave_segment(store, writing, oldest, &mut ages)?
        && install::min_log_id(store, writing, &FlushedMemtables::default()) > oldest
    {
        drop(ages);
        release_log(store)?;
    }
    Ok(())
}

/// Begins a new manifest, without the bounds of deleted tables, which are keys, if the present one has
/// been in use long enough.
fn leave_old_manifest(store: &Store, writing: &Writing, within_ms: u64) {
    let mut installed = writing.manifest.lock();
    let (number, now_ms) = (installed.manifest.number(), store.time.now_ms());
    let since_ms = match store.log_ages.lock().manifest {
        Some((known, since_ms)) if known == number && installed.manifest.has_edits() => since_ms,
        _ => now_ms,
    };
    let is_old = now_ms.saturating_sub(since_ms) >= within_ms / MANIFEST_DIVISOR;
    if is_old {
        install::roll_over(store, writing, &mut installed);
    }
    let since_ms = if is_old { now_ms } else { since_ms };
    store.log_ages.lock().manifest = Some((installed.manifest.number(), since_ms));
}

fn seal_if_old(store: &Store, keyspace: &Arc<KeyspaceState>) -> Result<()> {
    let Some(within_ms) = keyspace.options().delete_within_ms() else { return Ok(()) };
    let since_ms = keyspace.view.load().active.since_ms();
    let age_ms = since_ms.map_or(0, |since_ms| store.time.now_ms().saturating_sub(since_ms));
    if age_ms >= within_ms / SEAL_DIVISOR { flush::seal_if_filled(store, keyspace) } else { Ok(()) }
}

/// Seals every memtable that needs the segment, and begins another if it is the active one; `false` if it
/// is empty, or there is no room for it now.
fn leave_segment(store: &Store, writing: &Writing, segment: LogId, ages: &mut LogAges) -> Result<bool> {
    let (last, position) = writing.commit.lock().end();
    if ages.begun == Some((segment, last)) {
        return Ok(false);
    }
    // An idle log has no next segment prepared; and a small one may be enough.
    let mut small = if position.log_id == segment { Some(writing.log.prepare_small()?) } else { None };
    let mut state = writing.commit.lock();
    let (last, position) = state.end();
    if state.closed || (position.log_id == segment && small.is_none()) {
        return Ok(false);
    }
    let active = state.keyspaces.iter().flatten();
    let needing: Vec<KeyspaceId> = active
        .filter(|active| active.memtable.first_log_id().is_some_and(|id| LogId(id) <= segment))
        .filter(|active| active.keyspace.view.load().sealed.len() < MAX_SEALED)
        .map(|active| active.keyspace.id)
        .collect();
    for id in needing {
        switch_memtable::seal(store, &mut state, id, &crate::write::batch::Share::nothing(id))?;
    }
    if position.log_id == segment {
        if let RoomCheck::Wait(wait_for) =
            make_room::rotate_log(store, writing, &mut state, &mut small, RotationReason::Old)?
        {
            drop(state);
            store.scheduler.request(wait_for.pool());
            return Ok(false);
        }
        ages.begun = Some((state.log.position().log_id, last));
    }
    Ok(true)
}

/// Releases unneeded segments by an edit without other changes (WL7).
pub(crate) fn release_log(store: &Store) -> Result<()> {
    let Some(keyspace) = store.find_keyspace(DEFAULT_KEYSPACE) else { return Ok(()) };
    install::install(store, &keyspace, &[], FileReason::Flush, |_, _| VersionEdit::new())?;
    store.scheduler.request(WorkerPool::Log);
    Ok(())
}
