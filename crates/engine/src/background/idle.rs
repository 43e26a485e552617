//! Idle work: flushes memtables, shrinks the log and offers memory once nothing was written for a while.

use crate::background::clock_state;
use crate::background::flush;
use crate::background::idle_wal;
use crate::background::targets::log_age;
use crate::state::activity::Activity;
use crate::state::scheduler::LOOK_INTERVAL;
use crate::state::store::Store;
use crate::write::memory_arbiter;
use esker_base::{Result, SeqNo};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The idle state begins after this time without a write.
const IDLE_AFTER: Duration = LOOK_INTERVAL;

/// A smaller memtable is not flushed when the database is idle: its tombstones, some thousand at most, cost a
/// seek less than a tenth of a millisecond, and a table for a few entries is not worth its file.
pub const IDLE_SEAL_BYTES: u64 = 64 << 10;

/// Finds out whether the database is idle, and if so, has the memtables flushed that are worth it, and
/// lets the log rest.
pub(crate) fn note_activity(store: &Store) -> Result<()> {
    let now_ns = store.monotonic_ns();
    let seqno = SeqNo::new(store.visible.load(Ordering::Acquire));
    let silent_ns = {
        let mut last = store.last_activity.lock();
        if last.seqno != seqno {
            *last = Activity { seqno, since_ns: now_ns };
        }
        now_ns.saturating_sub(last.since_ns)
    };
    let is_idle = silent_ns >= IDLE_AFTER.as_nanos() as u64;
    store.quiet.is_idle.store(is_idle, Ordering::Relaxed);
    clock_state::note_clock(store);
    log_age::age_for_targets(store)?;
    if is_idle {
        for keyspace in store.all_keyspaces().iter() {
            if keyspace.view.load().active.memtable.payload_bytes() >= IDLE_SEAL_BYTES {
                flush::seal_if_filled(store, keyspace)?;
            }
        }
        idle_wal::shrink_log_if_still_at(store, seqno);
    }
    memory_arbiter::offer_if_quiet(store);
    Ok(())
}
