//! Flush groups: keyspaces whose memtables are written to tables together.
//!
//! Every flush waits for the device four times: for the table, its directory, the log and the manifest. A
//! thousand keyspaces with an entry each, flushed one by one, wait four thousand times; as one group, four
//! times. So keyspaces with little to flush are flushed in groups: by the flush worker, by a flush of all
//! keyspaces, and when the database closes.
//!
//! # Invariants
//! * FG1: a group holds at most [`MAX_GROUP_BYTES`] and one segment of the log, or one keyspace. Nothing of
//!   it is released before all of it is installed, so a group must not keep much memory and log from writers
//!   that wait for it.
//! * FG2: each step of a flush visits the keyspaces of the database a fixed number of times for each group,
//!   not for each keyspace of it.
//! * FG3: a failure that lies in one keyspace prevents the flush of no other one: the group is then flushed
//!   one by one.
//! * FG4: keyspaces of a group are locked in the order of their ids. Other threads hold one such lock at a
//!   time.

use crate::background::flush::{FlushShare, flush_memtables, flush_sealed, oldest_group, seal_if_filled};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_view::MemtableView;
use std::sync::Arc;

/// Payload of the sealed memtables of one group. Writing so many bytes takes about as long as the waits that
/// each further group costs.
const MAX_GROUP_BYTES: u64 = 8 << 20;

/// After so many keyspaces of a group have failed one by one, the rest waits for the next attempt: on a full
/// disk one attempt for each of thousands would take minutes.
const MAX_GROUP_FAILURES: u32 = 3;

/// Keyspaces of one group. Each adds some hundred bytes to the edit that installs the group.
const MAX_GROUP_KEYSPACES: usize = 1 << 14;

/// Flushes the keyspace whose sealed memtables pin the oldest part of the log, and those next to it that fit
/// a group; `false` if there are none. A failed flush of one keyspace does not prevent those of others.
pub(crate) fn flush_some(store: &Store) -> Result<bool> {
    let oldest = |keyspace: &Arc<KeyspaceState>| {
        let view = keyspace.view.load();
        view.sealed.last().map(|memtable| memtable.first_log_id().unwrap_or(0))
    };
    let keyspaces = store.all_keyspaces();
    let with_sealed = keyspaces.iter().filter(|keyspace| keyspace.view.has_sealed());
    let mut waiting: Vec<_> =
        with_sealed.filter_map(|keyspace| Some((oldest(keyspace)?, keyspace))).collect();
    waiting.sort_by_key(|(oldest, _)| *oldest);
    let mut failure = None;
    for group in groups(store, waiting.into_iter().map(|(_, keyspace)| keyspace)) {
        let outcome = flush_group(store, &group);
        if outcome.has_flushed {
            return Ok(true);
        }
        failure = failure.or(outcome.failure);
    }
    failure.map_or(Ok(false), Err)
}

/// Seals and flushes keyspaces, and waits until everything they held at the call is in tables.
pub fn flush_keyspaces(store: &Store, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
    store.check_may_flush()?;
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    store.writing()?;
    seal_and_flush(store, keyspaces)?;
    store.scheduler.request(WorkerPool::Compaction);
    Ok(())
}

/// Flushes the entries that are not in the log (UL4), if there are any.
pub fn flush_unlogged(store: &Store) -> Result<()> {
    match with_unlogged(store).as_slice() {
        [] => Ok(()),
        keyspaces => flush_keyspaces(store, keyspaces),
    }
}

/// The keyspaces whose memtables have entries that are not in the log.
pub(crate) fn with_unlogged(store: &Store) -> Vec<Arc<KeyspaceState>> {
    let has_unlogged = |keyspace: &&Arc<KeyspaceState>| {
        keyspace.view.load().memtables().any(|memtable| memtable.has_unlogged())
    };
    store.all_keyspaces().iter().filter(has_unlogged).cloned().collect()
}

/// Seals and flushes keyspaces.
pub fn seal_and_flush(store: &Store, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
    for keyspace in keyspaces {
        seal_if_filled(store, keyspace)?;
    }
    // The flush worker may be doing it already; a memtable leaves the view when it is installed.
    let with_sealed = keyspaces.iter().filter(|keyspace| keyspace.view.has_sealed());
    let outcomes = groups(store, with_sealed).into_iter().map(|group| flush_group(store, &group).failure);
    outcomes.flatten().next().map_or(Ok(()), Err)
}

/// Divides keyspaces into groups, in their order (FG1).
fn groups<'a>(
    store: &Store,
    keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>,
) -> Vec<Vec<&'a Arc<KeyspaceState>>> {
    let max_bytes = MAX_GROUP_BYTES.min(store.memory.wal_segment_bytes);
    let mut groups: Vec<Vec<_>> = Vec::new();
    let mut group_bytes = 0;
    for keyspace in keyspaces {
        let bytes: u64 = keyspace.view.load().sealed.iter().map(|memtable| memtable.bytes()).sum();
        match groups.last_mut() {
            Some(group) if group.len() < MAX_GROUP_KEYSPACES && group_bytes + bytes <= max_bytes => {
                group.push(keyspace);
                group_bytes += bytes;
            }
            _ => {
                groups.push(vec![keyspace]);
                group_bytes = bytes;
            }
        }
    }
    groups
}

/// What became of a group.
#[derive(Debug, Default)]
struct FlushOutcome {
    /// Whether some keyspace was flushed.
    has_flushed: bool,
    /// The first failure of one.
    failure: Option<Error>,
}

/// Flushes a group together, and one by one if that fails (FG3).
fn flush_group(store: &Store, group: &[&Arc<KeyspaceState>]) -> FlushOutcome {
    if group.len() > 1 && flush_together(store, group).is_ok() {
        return FlushOutcome { has_flushed: true, failure: None };
    }
    let (mut outcome, mut failures) = (FlushOutcome::default(), 0);
    for keyspace in group {
        match flush_sealed(store, keyspace) {
            Ok(()) => outcome.has_flushed = true,
            Err(error) => {
                outcome.failure = outcome.failure.or(Some(error));
                failures += 1;
                if failures == MAX_GROUP_FAILURES || store.writing().is_err() {
                    break;
                }
            }
        }
    }
    outcome
}

/// Flushes the sealed memtables of a group by one sync and one edit. Keyspaces with ingested tables follow
/// one by one: those divide the memtables into several edits (IN4).
fn flush_together(store: &Store, group: &[&Arc<KeyspaceState>]) -> Result<()> {
    let writing = store.writing()?;
    let mut by_id = group.to_vec();
    by_id.sort_by_key(|keyspace| keyspace.id);
    // FG4.
    let locked: Vec<_> = by_id.iter().map(|keyspace| keyspace.jobs.flushing.lock()).collect();
    let sealed: Vec<(&Arc<KeyspaceState>, Vec<Arc<MemtableView>>)> =
        by_id.iter().map(|keyspace| (*keyspace, keyspace.view.load().sealed.clone())).collect();
    let mut shares = Vec::with_capacity(sealed.len());
    let mut ingested = Vec::new();
    for (keyspace, sealed) in &sealed {
        match oldest_group(sealed) {
            None => {}
            Some(([], memtables)) if memtables[0].ingested.is_none() => {
                shares.push(FlushShare { keyspace, memtables });
            }
            Some(_) => ingested.push(*keyspace),
        }
    }
    if !shares.is_empty() {
        flush_memtables(store, writing, &shares)?;
    }
    drop(locked);
    ingested.into_iter().try_for_each(|keyspace| flush_sealed(store, keyspace))
}
