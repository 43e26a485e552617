//! Room for a write: rotates the log, switches memtables, and decides when writers wait.
//!
//! All hard limits are applied here, before a write consumes anything. A writer waits
//! ([`crate::write::write_stall`])
//! * for the log worker, if no prepared segment is available, or if the memory for it is still lent to the
//!   block cache ([`crate::write::memory_arbiter`]);
//! * for the flush worker, if sealed memtables hold all the memory that memtables may have, or if the log has
//!   grown to twice its share while some are sealed;
//! * for compaction, if level 0 has as many runs as the keyspace allows, or blob garbage collection is due.
//!   Only sealing waits for that: a write that still fits the active memtable proceeds, and so does sealing
//!   when there is nothing left to compact.
//!
//! LevelDB and RocksDB have the same step in `MakeRoomForWrite` and `PreprocessWrite`.

use crate::state::commit_state::{ActiveKeyspace, CommitState};
use crate::state::scheduler::WorkerPool;
use crate::state::shape;
use crate::state::store::{Store, Writing};
use crate::write::batch::{EncodedBatch, Share};
use crate::write::memory_arbiter;
use crate::write::switch_memtable::{enlarge_empty, seal, seal_for_budget, seal_memtables_pinning_the_log};
use crate::write::write_stall::WaitFor;
use esker_base::limits::MAX_VALUE_LEN;
use esker_base::{Error, Result};
use esker_strategy::write_control::MAX_SEALED;
use esker_wal::{PrivateSegment, Rotation};
use std::sync::Arc;

/// The log may grow to this many times its share of the budget before a rotation waits for flushes.
const LOG_CAP_FACTOR: u64 = 2;
/// The largest batch is one in so many of the memory budget: it is held in the log and in a memtable at once.
const MAX_BATCH_BUDGET_DIVISOR: u64 = 2;

/// Whether there is room for a write.
#[derive(Debug)]
pub enum RoomCheck {
    /// There is room.
    Ready,
    /// Nothing was consumed; wait for this, then try again.
    Wait(WaitFor),
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
    is_logged: bool,
    private: &mut Option<PrivateSegment>,
) -> Result<RoomCheck> {
    // The log first: rotating may seal memtables, and their replacements must fit this batch too.
    let has_room = if is_logged {
        state.log.has_room(batch.payload.len())
    } else {
        state.unlogged_bytes < store.memory.wal_segment_bytes
    };
    if !has_room {
        let room = match is_logged {
            true => make_log_room(store, writing, state, batch.payload.len(), private)?,
            false => make_unlogged_room(store, state)?,
        };
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
        return Err(batch_beyond_budget(share.bytes, store.memory.budget_bytes));
    }
    let keyspace = Arc::clone(&state.active(share.keyspace)?.keyspace);
    if state.active(share.keyspace)?.entries == 0 {
        enlarge_empty(store, state, &keyspace, share)?;
        return Ok(RoomCheck::Ready);
    }
    if keyspace.must_compact_first() && shape::can_compact(store, &keyspace) {
        return Ok(RoomCheck::Wait(WaitFor::Compaction(keyspace)));
    }
    let queued = keyspace.view.load().sealed.len();
    let sealed = store.sealed_memory.bytes();
    let is_over = sealed + state.active_bytes + share.bytes > store.memory.memtables_bytes;
    if queued >= MAX_SEALED || (sealed > 0 && is_over) {
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    seal(store, state, share.keyspace, share)?;
    Ok(RoomCheck::Ready)
}

fn batch_beyond_budget(bytes: u64, budget_bytes: u64) -> Error {
    let most = budget_bytes / MAX_BATCH_BUDGET_DIVISOR;
    Error::Full(
        format!(
            "the batch has {bytes} bytes, and one batch may have {most}: half of the memory budget of \
             {budget_bytes} bytes. With a larger memory_budget a value may have up to {MAX_VALUE_LEN} bytes"
        )
        .into(),
    )
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

/// What a rotation does for memory, once unlogged batches have as many bytes as a segment (UL5): they fill
/// memtables and rotate no log.
#[cold]
fn make_unlogged_room(store: &Store, state: &mut CommitState) -> Result<RoomCheck> {
    let sealed = store.sealed_memory.bytes();
    let held_bytes = sealed + state.active_bytes;
    if sealed > 0 && held_bytes > store.memory.memtables_bytes {
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    let more_bytes = store.memory.wal_segment_bytes + state.log.segment_bytes();
    if !memory_arbiter::recall_share(store, held_bytes, more_bytes) {
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Log)));
    }
    state.unlogged_bytes = 0;
    seal_for_budget(store, state)?;
    Ok(RoomCheck::Ready)
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
    let sealed = store.sealed_memory.bytes();
    let is_over = sealed + state.active_bytes > store.memory.memtables_bytes
        || writing.log.live_bytes() > store.memory.wal_bytes * LOG_CAP_FACTOR;
    if sealed > 0 && is_over {
        // Rotating may seal, and sealing here checks no limits, so they are checked before.
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    let next_bytes = private.as_ref().map_or(store.memory.wal_segment_bytes, PrivateSegment::size_bytes);
    // What unlogged batches may add before their next check.
    let unlogged_bytes = if state.unlogged_bytes > 0 { store.memory.wal_segment_bytes } else { 0 };
    let held_bytes = sealed + state.active_bytes + unlogged_bytes;
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
