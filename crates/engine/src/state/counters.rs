//! Counters of stalls, delayed writes and closed tables, and of the writes that wait now.
//!
//! Totals of the database's life begin where the manifest's figures end ([`crate::state::figures`]).

use crate::state::scheduler::{WORKER_POOLS, WorkerPool};
use crate::state::write_control::WaitingWrites;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of rare events; counters of every write are guarded by the commit lock.
#[derive(Debug, Default)]
pub struct Counters {
    /// When the totals of the database's life began, in milliseconds since 1970.
    pub counted_since_ms: u64,
    /// Batches of the database's life before the open.
    pub earlier_batches: u64,
    /// Entries of these batches.
    pub earlier_entries: u64,
    /// Writes that had to wait for room.
    pub stalls: AtomicU64,
    /// How long they waited.
    pub stall_ns: AtomicU64,
    /// Writes that were delayed.
    pub delays: AtomicU64,
    /// By how much.
    pub delay_ns: AtomicU64,
    /// Writes that wait for a worker pool now.
    waiting: [AtomicU64; WORKER_POOLS.len()],
    /// Calls of the keyspaces' strategies since the open by the compaction picker, answered from its cache or
    /// not.
    pub strategy_calls: AtomicU64,
    /// Tables closed since the open to stay within the limit of open tables.
    pub tables_closed: AtomicU64,
}

/// Counts a waiting write until it is dropped.
pub struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    /// Increments this counter until the result is dropped.
    pub fn counted_by(waiting: &'a AtomicU64) -> Waiting<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a write that begins to wait.
    pub fn wait_for(&self, pool: WorkerPool) -> Waiting<'_> {
        Waiting::counted_by(&self.waiting[pool as usize])
    }

    /// Whether a write waits for the pool; one that has just found that it must may not be counted yet.
    pub fn is_waited_for(&self, pool: WorkerPool) -> bool {
        self.waiting[pool as usize].load(Ordering::Relaxed) > 0
    }

    /// Writes that wait now.
    pub fn waiting_writes(&self) -> Vec<WaitingWrites> {
        let of = |pool: WorkerPool| {
            let writes = self.waiting[pool as usize].load(Ordering::Relaxed);
            (writes > 0).then(|| WaitingWrites { writes, cause: pool.why_writers_wait() })
        };
        WORKER_POOLS.into_iter().filter_map(of).collect()
    }
}
