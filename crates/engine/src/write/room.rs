//! Room for a write: rotates the log, seals memtables, and decides when writers wait.
//!
//! All back pressure is applied here, before a write consumes anything. A writer waits
//! * for the log worker, if no prepared segment is available, or if the memory for it is still lent to the
//!   block cache ([`crate::write::memory_arbiter`]);
//! * for the flush worker, if sealed memtables hold all the memory that memtables may have, or if the log has
//!   grown to twice its share while some are sealed;
//! * for compaction, if level 0 has as many runs as the keyspace allows, or blob garbage collection is due.
//!   Only sealing waits for that: a write that still fits the active memtable proceeds, and so does sealing
//!   when there is nothing left to compact.
//!
//! A memtable is also sealed, however small, when it pins the oldest segment of a log that has grown past its
//! share (an idle keyspace must not block a busy one), and when the active memtables of many keyspaces
//! together reach half of the memtables' memory.

use crate::state::commit_state::ActiveKeyspace;
use crate::state::commit_state::CommitState;
use crate::state::commit_state::MemtableLimits;
use crate::state::keyspace::KeyspaceState;
use crate::state::post_commit::PostCommit;
use crate::state::scheduler::{ErrorScope, WorkerPool};
use crate::state::shape;
use crate::state::store::{Store, Writing};
use crate::write::batch::{EncodedBatch, Share};
use crate::write::memory_arbiter;
use esker_base::{Error, KeyspaceId, Result, SeqNo};
use esker_memtable::{ArenaPool, Inserter, Memtable, MemtableKind};
pub use esker_strategy::write_control::MAX_SEALED;
use esker_view::{MemtableView, SuperVersion};
use esker_wal::{PrivateSegment, Rotation};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The log may grow to this many times its share of the budget before a rotation waits for flushes.
const LOG_CAP_FACTOR: u64 = 2;
/// The largest batch is one in so many of the memory budget: it is held in the log and in a memtable at once.
const MAX_BATCH_BUDGET_DIVISOR: u64 = 2;

/// [`Memtable::create`] or one of its siblings.
type CreateMemtable = fn(MemtableKind, &ArenaPool, u64) -> Result<(Arc<Memtable>, Inserter)>;

/// A memtable for a keyspace that may stay idle: it has no room and holds almost no memory.
pub fn stub_memtable(kind: MemtableKind, arenas: &ArenaPool) -> Result<(Arc<MemtableView>, Inserter)> {
    let (memtable, inserter) = Memtable::create_stub(kind, arenas)?;
    Ok((Arc::new(MemtableView::new(memtable, 0)), inserter))
}

/// Whether a writer may stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallPolicy {
    /// Up to the configured stall limit.
    Stall,
    /// Not at all: `WriteOptions::no_stall`.
    Refuse,
}

/// Whether there is room for a write.
#[derive(Debug)]
pub enum RoomCheck {
    /// There is room.
    Ready,
    /// Nothing was consumed; wait for this, then try again.
    Wait(WaitFor),
}

/// What a writer has to wait for.
#[derive(Debug)]
pub enum WaitFor {
    /// Any work of a worker pool.
    Pool(WorkerPool),
    /// Compaction of this keyspace.
    Compaction(Arc<KeyspaceState>),
}

impl WaitFor {
    /// The worker pool that does the work.
    pub fn pool(&self) -> WorkerPool {
        match self {
            WaitFor::Pool(pool) => *pool,
            WaitFor::Compaction(_) => WorkerPool::Compaction,
        }
    }
}

/// The waits of one write.
pub struct Wait {
    /// The remaining time limit.
    left: Duration,
    /// The keyspace whose compaction it has waited for, and the number of failures before (WM1).
    failures: Option<(KeyspaceId, u64)>,
}

impl Wait {
    /// A wait of no more than `limit`.
    pub fn at_most(limit: Duration) -> Wait {
        Wait { left: limit, failures: None }
    }

    /// The remaining time limit.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// How many plans of the keyspace had failed when the write began to wait for its compaction.
    fn failures_before(&mut self, keyspace: &KeyspaceState) -> u64 {
        match self.failures {
            Some((id, failures)) if id == keyspace.id => failures,
            _ => self.failures.insert((keyspace.id, keyspace.compaction_outcome.failures())).1,
        }
    }
}

/// Why the log rotates to another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationReason {
    /// Writers need more room than is left.
    Full,
    /// The segment is old: a delete-persistence target requires its data to be flushed, possibly without any
    /// writer.
    Old,
}

/// Makes room for the batch, or returns what to wait for. Consumes nothing (a seal or a rotation that was
/// already done is harmless).
#[inline]
pub fn make_room(
    store: &Store,
    writing: &Writing,
    state: &mut CommitState,
    batch: &EncodedBatch<'_>,
    private: &mut Option<PrivateSegment>,
) -> Result<RoomCheck> {
    // The log first: rotating may seal memtables, and their replacements must fit this batch too.
    if !state.log.has_room(batch.payload.len()) {
        let room = make_log_room(store, writing, state, batch.payload.len(), private)?;
        if !matches!(room, RoomCheck::Ready) {
            return Ok(room);
        }
    }
    for share in batch.shares {
        let active = state.active(share.keyspace)?;
        if !fits(active, share) {
            let room = replace_memtable(store, state, share)?;
            if !matches!(room, RoomCheck::Ready) {
                return Ok(room);
            }
        }
    }
    Ok(RoomCheck::Ready)
}

#[cold]
fn replace_memtable(store: &Store, state: &mut CommitState, share: &Share) -> Result<RoomCheck> {
    if share.bytes > store.memory.budget_bytes / MAX_BATCH_BUDGET_DIVISOR {
        let (bytes, budget) = (share.bytes, store.memory.budget_bytes);
        return Err(Error::Full(format!(
            "the batch has {bytes} bytes, half of the memory budget of {budget} bytes is the most one batch may have"
        ).into()));
    }
    let keyspace = Arc::clone(&state.active(share.keyspace)?.keyspace);
    if state.active(share.keyspace)?.entries == 0 {
        return enlarge_empty(store, state, &keyspace, share);
    }
    if keyspace.must_compact_first() && shape::can_compact(store, &keyspace) {
        return Ok(RoomCheck::Wait(WaitFor::Compaction(keyspace)));
    }
    let queued = keyspace.view.load().sealed.len();
    let sealed = store.sealed_bytes.load(Ordering::Relaxed);
    let is_over = sealed + state.active_bytes + share.bytes > store.memory.memtables_bytes;
    if queued >= MAX_SEALED || (sealed > 0 && is_over) {
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    seal(store, state, share.keyspace, share)?;
    Ok(RoomCheck::Ready)
}

/// An empty memtable is a stub, or too small for an oversized batch: it is replaced by a larger one.
fn enlarge_empty(
    store: &Store,
    state: &mut CommitState,
    keyspace: &KeyspaceState,
    share: &Share,
) -> Result<RoomCheck> {
    let (memtable, inserter) = new_memtable(store, keyspace, share, Memtable::create_sparing)?;
    keyspace.view.update(|view| SuperVersion { active: Arc::clone(&memtable), ..view.clone() });
    let active = state.active(keyspace.id)?;
    active.memtable = memtable;
    active.inserter = inserter;
    Ok(RoomCheck::Ready)
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
    store.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
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

/// Grows an idle log, which may be sufficient ([`crate::background::idle_wal`]), or rotates to another
/// segment.
#[cold]
fn make_log_room(
    store: &Store,
    writing: &Writing,
    state: &mut CommitState,
    payload_len: usize,
    private: &mut Option<PrivateSegment>,
) -> Result<RoomCheck> {
    if wake_log(store, state) && state.log.has_room(payload_len) {
        return Ok(RoomCheck::Ready);
    }
    rotate_log(store, writing, state, private, RotationReason::Full)
}

fn wake_log(store: &Store, state: &mut CommitState) -> bool {
    let rested = state.log.grow();
    if rested {
        store.scheduler.request(WorkerPool::Log);
    }
    rested
}

/// Begins the next log segment, if it is prepared.
pub fn rotate_log(
    store: &Store,
    writing: &Writing,
    state: &mut CommitState,
    private: &mut Option<PrivateSegment>,
    leaving: RotationReason,
) -> Result<RoomCheck> {
    wake_log(store, state);
    let sealed = store.sealed_bytes.load(Ordering::Relaxed);
    let is_over = sealed + state.active_bytes > store.memory.memtables_bytes
        || writing.log.live_bytes() > store.memory.wal_bytes * LOG_CAP_FACTOR;
    if sealed > 0 && is_over {
        // Rotating may seal, and sealing here checks no limits, so they are checked before.
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    let next_bytes = private.as_ref().map_or(store.memory.wal_segment_bytes, PrivateSegment::size_bytes);
    let held_bytes = sealed + state.active_bytes;
    let is_quiet =
        leaving == RotationReason::Old && memory_arbiter::is_granted(store, held_bytes, next_bytes);
    let log = RoomCheck::Wait(WaitFor::Pool(WorkerPool::Log));
    if !is_quiet && !memory_arbiter::recall_share(store, held_bytes, next_bytes) {
        return Ok(log);
    }
    let wall_ms = store.time.now_ms();
    match private {
        Some(segment) => {
            state.log.rotate_to_private(segment, wall_ms)?;
            *private = None;
        }
        None if state.log.rotate(wall_ms)? == Rotation::NoneReady => return Ok(log),
        None => {}
    }
    store.scheduler.request(WorkerPool::Log);
    seal_memtables_pinning_the_log(store, writing, state)?;
    seal_for_budget(store, state)?;
    Ok(RoomCheck::Ready)
}

/// Keeps the log within its share of the budget.
fn seal_memtables_pinning_the_log(store: &Store, writing: &Writing, state: &mut CommitState) -> Result<()> {
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
fn seal_for_budget(store: &Store, state: &mut CommitState) -> Result<()> {
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

/// Waits until the obstacle may be gone, at most for the remaining time of the write.
///
/// # Errors
/// `WouldStall` if the time limit is exceeded or waiting is not allowed; otherwise the failure of the
/// background work.
#[cold]
pub fn wait_for_room(
    store: &Store,
    wait_for: &WaitFor,
    seen: u64,
    stall_policy: StallPolicy,
    wait: &mut Wait,
) -> Result<()> {
    let pool = wait_for.pool();
    let cause = pool.why_writers_wait();
    let own = match wait_for {
        WaitFor::Pool(_) => None,
        WaitFor::Compaction(keyspace) => {
            // Compaction may be due only because time has passed since the strategy was last called.
            keyspace.forget_no_plan();
            // Before the request: later failures count for this writer.
            Some((&keyspace.compaction_outcome, wait.failures_before(keyspace)))
        }
    };
    store.scheduler.request(pool);
    if stall_policy == StallPolicy::Refuse {
        return Err(Error::WouldStall { retry_after: Duration::from_millis(10), cause: cause.into() });
    }
    let _waiting = store.counters.wait_for(pool);
    let _in_haste = own.map(|(merging, _)| merging.count_blocked_writer());
    let failure = || own.and_then(|(merging, failures)| merging.failure_after(failures));
    let concern = if own.is_some() { ErrorScope::Own(&failure) } else { ErrorScope::Pool };
    let started = store.env.clock.monotonic_ns();
    let changed = store.scheduler.wait_for_change(store, (pool, concern), seen, wait.left)?;
    let waited = Duration::from_nanos(store.env.clock.monotonic_ns().saturating_sub(started));
    store.counters.stall_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    wait.left = wait.left.saturating_sub(waited);
    if !changed || wait.left.is_zero() {
        return Err(Error::WouldStall { retry_after: store.stall_limit, cause: cause.into() });
    }
    Ok(())
}

/// Whether the active memtable has room for the batch's share of its keyspace.
#[inline]
fn fits(active: &ActiveKeyspace, share: &Share) -> bool {
    let limits = &active.limits;
    let within_limits = active.bytes + share.bytes <= limits.bytes
        && active.entries + u64::from(share.entries) <= limits.entries;
    // The limits are triggers, not caps: whatever its size, a batch may fill an empty memtable.
    (within_limits || active.entries == 0)
        && active.inserter.has_room(share.bytes, u64::from(share.entries))
        && (share.range_deletes == 0
            || active.memtable.memtable.has_range_room(u64::from(share.range_deletes)))
}
