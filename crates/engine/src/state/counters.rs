//! Counters of stalls, delayed writes and closed tables, and of the writes that wait now.
//!
//! Totals of the database's life begin where the manifest's figures end ([`crate::state::figures`]).

use crate::state::scheduler::{WORKER_POOLS, WorkerPool};
use crate::state::write_control::WaitingWrites;
use esker_base::DurationCounts;
use esker_strategy::write_control::PressureCause;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The cause of a delay whose queue drained between the write and the delay.
const DRAINED: &str = "drained";

/// How long writes were held back for one cause since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallCause {
    /// Whether they were stopped until there was room, and not only slowed.
    pub is_stop: bool,
    /// The work that they waited for, or the queue that was closest to its limit.
    pub cause: &'static str,
    /// How long, summed over threads.
    pub time: Duration,
}

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
    /// How long writes waited for each worker pool since the open; [`Counters::stall_ns`] is over the
    /// database's life.
    stopped_ns: [AtomicU64; WORKER_POOLS.len()],
    /// How long writes were delayed since the open, by the queue that was closest to its limit; the last is
    /// [`DRAINED`].
    slowed_ns: [AtomicU64; PressureCause::ALL.len() + 1],
    /// How long flushes took since the open.
    pub flush_times: Mutex<DurationCounts>,
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
    pub(crate) fn counted_by(waiting: &'a AtomicU64) -> Waiting<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn duration(nanoseconds: &AtomicU64) -> Duration {
    Duration::from_nanos(nanoseconds.load(Ordering::Relaxed))
}

impl Counters {
    /// Adds to the time that writes were stopped, waiting for the pool.
    pub(crate) fn add_stopped(&self, pool: WorkerPool, waited_ns: u64) {
        self.stall_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.stopped_ns[pool as usize].fetch_add(waited_ns, Ordering::Relaxed);
    }

    /// Adds to the time that writes were slowed for this queue; `None` if it has drained meanwhile.
    pub(crate) fn add_slowed(&self, cause: Option<PressureCause>, waited_ns: u64) {
        self.delay_ns.fetch_add(waited_ns, Ordering::Relaxed);
        let place = PressureCause::ALL.iter().position(|&queue| Some(queue) == cause);
        self.slowed_ns[place.unwrap_or(PressureCause::ALL.len())].fetch_add(waited_ns, Ordering::Relaxed);
    }

    /// How long writes were stopped and slowed since the open, by what held them back.
    pub fn stall_causes(&self) -> Vec<StallCause> {
        let stopped = WORKER_POOLS.into_iter().map(|pool| {
            let time = duration(&self.stopped_ns[pool as usize]);
            StallCause { is_stop: true, cause: pool.name(), time }
        });
        let queues = PressureCause::ALL.into_iter().map(PressureCause::name).chain([DRAINED]);
        let slowed = queues.zip(&self.slowed_ns).map(|(cause, slowed_ns)| {
            let time = duration(slowed_ns);
            StallCause { is_stop: false, cause, time }
        });
        // Writers wait for no pool of urgent merges, and for some queues never.
        stopped.chain(slowed).filter(|stall| !stall.time.is_zero()).collect()
    }

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
