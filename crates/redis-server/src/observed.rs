//! What is noted of commands: their statistics, the log of slow ones, latencies of events, and monitors.
//!
//! Each thread keeps what it notes of a group of commands for itself until the group's batch is written. So a
//! command that is executed once more is noted once (OB1), and the usual command costs one reading of the
//! clock and two additions to memory that no other thread writes.

pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod monitors;
pub(crate) mod secrets;
pub(crate) mod slow_log;
pub(crate) mod turns;

use counters::CommandStatistics;
use latency::Latency;
use monitors::Monitors;
use slow_log::SlowLog;
use std::sync::atomic::AtomicU64;

/// What the threads of a server have noted.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Calls, times and errors.
    pub(crate) commands: CommandStatistics,
    /// SLOWLOG.
    pub(crate) slow_log: SlowLog,
    /// LATENCY.
    pub(crate) latency: Latency,
    /// Work of clients that waits for a thread of the slow lane.
    pub(crate) slow_lane_jobs: AtomicU64,
    /// Clients of MONITOR.
    pub(crate) monitors: Monitors,
}

impl Observed {
    /// The shortest time of a command, in nanoseconds, that SLOWLOG or LATENCY wants to know.
    pub(crate) fn notable_ns(&self) -> u64 {
        self.slow_log.threshold_ns().min(self.latency.threshold_ns())
    }
}
