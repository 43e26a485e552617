//! Idle WAL shrinking: an idle database keeps no log files that it does not need.
//!
//! Under load the log has prepared segments and keeps as many for reuse as memtables hold, 80 MiB by default,
//! because creating a segment costs more than writing it. An idle database would keep them on disk for ever,
//! even one of a few kilobytes. So the log is shrunk ([`LogWriter::shrink`](esker_wal::LogWriter::shrink))
//! when the database is idle ([`crate::background::picker`]), and after a manual compaction, which is a
//! request for space, unless there were writes meanwhile.
//!
//! Rejected: shrinking at open. Most databases are written to right after the open, and growing and flushing
//! the log at the same time fills its segments with zeros while the first writes wait for the device.
//!
//! # Invariants
//! * RS1. The active segment is replaced by a small one only if no memtable needs a record of any segment,
//!   and the old one is released by an edit of the manifest, as all are (WL7). So nothing that recovery reads
//!   is affected.
//! * RS2. No writer waits for shrinking: files are created and deleted without the writers' lock, and the
//!   first write grows the log in passing. The next segment is needed half a small segment later, at the
//!   earliest, and has been requested since.
//! * RS3. Repeated shrinking costs nothing: a small segment is not replaced, so there is at most one edit for
//!   each time that more than a small segment was written.
//! * RS4. A failure to shrink is not an error: on a full disk no small segment may be available, and the
//!   operation that requested it has succeeded. Then the existing files are kept, since others could not be
//!   created.
//! * RS5. With consumers of changes the segment is not replaced, because it may contain history (HS6).
//! * RS6. No writer is left waiting. A writer that finds the log full grows it, requests a segment and waits
//!   for a change; shrinking between that and the log worker's check would make the worker see no request,
//!   and the writer wait until its time limit. So shrinking does not begin once something was written,
//!   checked under the writers' lock, nor while a writer is known to wait; shrinking that begins all the
//!   same, before the writer is counted, announces a change, so that the writer repeats its request.

use crate::background::targets::log_age;
use crate::state::commit_state::CommitState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use crate::write::memory_arbiter;
use esker_base::{Result, SeqNo};

/// Shrinks the log if `last` is still the last sequence number, and no writer waits (RS4, RS6).
pub fn shrink_log_if_still_at(store: &Store, last: SeqNo) {
    if let Err(error) = try_to_shrink_log(store, last) {
        tracing::warn!(%error, "the idle log could not be shrunk");
    }
}

fn try_to_shrink_log(store: &Store, last: SeqNo) -> Result<()> {
    let Some(writing) = &store.writing else { return Ok(()) };
    // Closing waits while files are created or deleted.
    let _activity = store.activity.read_recursive();
    let leaves = {
        let state = writing.commit.lock();
        if !may_shrink(store, &state, last) {
            return Ok(());
        }
        has_large_idle_segment(store, writing, &state)
    };
    let mut small = if leaves { Some(writing.log.prepare_small()?) } else { None };
    let mut has_left = false;
    let begins = {
        let mut state = writing.commit.lock();
        if !may_shrink(store, &state, last) {
            return Ok(());
        }
        if let Some(small) = &mut small
            && has_large_idle_segment(store, writing, &state)
        {
            // An idle log has a bound that belongs to the old segment.
            state.log.grow();
            state.log.rotate_to_private(small, store.time.now_ms())?;
            has_left = true;
        }
        state.log.shrink()
    };
    if begins {
        // RS6.
        store.scheduler.announce_progress();
    }
    if has_left {
        log_age::release_log(store)?;
    }
    writing.log.delete_surplus()?;
    memory_arbiter::offer_share(store, writing);
    memory_arbiter::rebalance_memory(store);
    Ok(())
}

/// Whether nothing was written since, and no writer is known to wait for a segment.
fn may_shrink(store: &Store, state: &CommitState, last: SeqNo) -> bool {
    !state.closed && state.next_seqno == last.plus(1) && !store.counters.is_waited_for(WorkerPool::Log)
}

/// Whether the active segment should be replaced by a small one (RS1, RS3, RS5).
fn has_large_idle_segment(store: &Store, writing: &Writing, state: &CommitState) -> bool {
    let mut keyspaces = state.keyspaces.iter().flatten();
    !state.closed
        && state.log.segment_bytes() > writing.log.small_segment_bytes()
        && !store.consumers.are_there()
        && keyspaces.all(|active| active.entries == 0 && !active.keyspace.view.has_sealed())
}
