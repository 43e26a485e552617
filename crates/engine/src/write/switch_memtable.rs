//! Memtable switch: seals the active memtable of a keyspace and puts an empty one in its place.
//!
//! The active memtable is sealed when it is full, when it pins the oldest segment of a log that has grown
//! past its share (an idle keyspace must not block a busy one), and when the active memtables of many
//! keyspaces together reach half of the memtables' memory. [`crate::write::make_room`] decides when.

use crate::state::commit_state::{CommitState, MemtableLimits, PostCommit};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use crate::write::batch::Share;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_memtable::{ArenaPool, Inserter, Memtable, MemtableKind};
use esker_strategy::write_control::MAX_SEALED;
use esker_view::{MemtableView, SuperVersion};
use std::sync::Arc;

/// [`Memtable::create`] or one of its siblings.
type CreateMemtable = fn(MemtableKind, &ArenaPool, u64) -> Result<(Arc<Memtable>, Inserter)>;

/// A memtable for a keyspace that may stay idle: it has no room and holds almost no memory.
pub(crate) fn stub_memtable(kind: MemtableKind, arenas: &ArenaPool) -> Result<(Arc<MemtableView>, Inserter)> {
    let (memtable, inserter) = Memtable::create_stub(kind, arenas)?;
    Ok((Arc::new(MemtableView::new(memtable, 0)), inserter))
}

/// An empty memtable is a stub, or too small for an oversized batch: it is replaced by a larger one.
pub(super) fn enlarge_empty(
    store: &Store,
    state: &mut CommitState,
    keyspace: &KeyspaceState,
    share: &Share,
) -> Result<()> {
    let (memtable, inserter) = new_memtable(store, keyspace, share, Memtable::create_sparing)?;
    keyspace.view.update(|view| SuperVersion { active: Arc::clone(&memtable), ..view.clone() });
    let active = state.active(keyspace.id)?;
    active.memtable = memtable;
    active.inserter = inserter;
    Ok(())
}

/// Seals the active memtable of a keyspace and replaces it by an empty one (1.6). RV2: the view with the
/// new one is published before any sequence number is assigned for it.
pub fn seal(store: &Store, state: &mut CommitState, id: KeyspaceId, next: &Share) -> Result<()> {
    let last = SeqNo::new(state.next_seqno.get() - 1);
    let keyspace = Arc::clone(&state.active(id)?.keyspace);
    // Without a pending write the keyspace may stay idle: the first write finds no room and repeats the
    // request.
    let (memtable, inserter) = match next.entries {
        0 => stub_memtable(keyspace.options().memtable, &store.arenas)?,
        _ => new_memtable(store, &keyspace, next, Memtable::create)?,
    };
    let active = state.active(id)?;
    let old = std::mem::replace(&mut active.memtable, Arc::clone(&memtable));
    active.inserter = inserter;
    let bytes = std::mem::take(&mut active.bytes);
    active.entries = 0;
    old.seal(last);
    old.note_bytes(bytes);
    state.active_bytes = state.active_bytes.saturating_sub(bytes);
    store.sealed_memory.note_seal(bytes, store.monotonic_ns());
    keyspace.view.update(|view| {
        let sealed = std::iter::once(&view.active).chain(&view.sealed).cloned().collect();
        SuperVersion { active: memtable, sealed, ..view.clone() }
    });
    state.post_commit.set(PostCommit::UPDATE_PRESSURE, true);
    store.scheduler.request(WorkerPool::Flush);
    Ok(())
}

/// A memtable with room for the usual limit and for `next`, created by `create`.
fn new_memtable(
    store: &Store,
    keyspace: &KeyspaceState,
    next: &Share,
    create: CreateMemtable,
) -> Result<(Arc<MemtableView>, Inserter)> {
    let options = keyspace.options();
    let limit = MemtableLimits::new(&options, &store.memory).bytes;
    let kind = options.memtable;
    let needed = kind.needed_bytes(next.bytes, u64::from(next.entries));
    let (memtable, inserter) = create(kind, &store.arenas, kind.reserve_bytes(limit).max(needed))?;
    Ok((Arc::new(MemtableView::new(memtable, store.time.now_ms())), inserter))
}

/// Keeps the log within its share of the budget.
pub(super) fn seal_memtables_pinning_the_log(
    store: &Store,
    writing: &Writing,
    state: &mut CommitState,
) -> Result<()> {
    if writing.log.live_bytes() <= store.memory.wal_bytes {
        return Ok(());
    }
    let active = state.keyspaces.iter().flatten();
    let Some(oldest) = active.filter_map(|active| active.memtable.first_log_id()).min() else {
        return Ok(());
    };
    let pinning = state.keyspaces.iter().flatten();
    let pinning: Vec<KeyspaceId> = pinning
        .filter(|active| active.memtable.first_log_id() == Some(oldest))
        .filter(|active| active.keyspace.view.load().sealed.len() < MAX_SEALED)
        .map(|active| active.keyspace.id)
        .collect();
    for id in pinning {
        seal(store, state, id, &Share::nothing(id))?;
    }
    Ok(())
}

/// Keeps the active memtables of many keyspaces within the memtables' share: past half of it the largest
/// is sealed, past the whole as many of the largest as necessary.
pub(super) fn seal_for_budget(store: &Store, state: &mut CommitState) -> Result<()> {
    if state.active_bytes <= store.memory.memtables_bytes / 2 {
        return Ok(());
    }
    let active = state.keyspaces.iter().flatten();
    let filled = active.filter(|active| active.entries > 0);
    let mut by_size: Vec<_> = filled.map(|active| (active.bytes, active.keyspace.id)).collect();
    by_size.sort_unstable_by_key(|(bytes, id)| (std::cmp::Reverse(*bytes), *id));
    for (at, (_, id)) in by_size.into_iter().enumerate() {
        if at > 0 && state.active_bytes <= store.memory.memtables_bytes {
            break;
        }
        seal(store, state, id, &Share::nothing(id))?;
    }
    Ok(())
}
