//! Sampler of the process's anonymous memory: a thread that reads it every few milliseconds.

use crate::error::BenchError;
use esker::Database;
use esker::metrics::MemoryMetrics;
use esker::parts::env::Env;
use esker::parts::env::host::anonymous_bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two readings of the memory: a reading takes some ten microseconds.
const INTERVAL: Duration = Duration::from_millis(2);
/// Metrics are asked for at every such reading: they visit all keyspaces.
const METRICS_INTERVAL: u64 = 16;
/// Growth between two readings around one of metrics beyond which the three are not compared.
const STEADY_BYTES: u64 = 1 << 20;

/// Knows the memory of the process before the database was opened.
pub(super) struct MemorySampler {
    baseline_bytes: u64,
}

/// What was seen in a phase, without memory that is not the database's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) peak_bytes: u64,
    /// What metrics told nearest to the peak.
    pub(super) at_peak: MemoryMetrics,
    pub(super) worst_difference_bytes: u64,
}

/// Watches one phase.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    /// Dropped at the end of the phase.
    end: mpsc::Sender<()>,
}

#[derive(Default)]
struct Shared {
    /// Bytes of results that the phase holds.
    held_bytes: AtomicU64,
    seen: Mutex<Seen>,
}

impl MemorySampler {
    pub(super) fn start() -> Result<MemorySampler, BenchError> {
        let baseline_bytes = anonymous_bytes();
        let baseline_bytes = baseline_bytes.ok_or_else(|| {
            BenchError::Settings("this system does not tell the anonymous memory of a process".into())
        })?;
        Ok(MemorySampler { baseline_bytes })
    }

    pub(super) fn watch(&self, database: &Database) -> Result<Watch, BenchError> {
        let shared = Arc::new(Shared::default());
        let (seen_by, database, baseline) = (Arc::clone(&shared), database.clone(), self.baseline_bytes);
        let (end, ended) = mpsc::channel();
        let work = move || seen_by.sample(&database, baseline, &ended);
        let thread = Env::real().spawn("memory-sampler", work)?;
        Ok(Watch { shared, thread, end })
    }
}

impl Watch {
    /// From now on the phase holds so many bytes of results.
    pub(super) fn hold(&self, bytes: usize) {
        self.shared.held_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn end(self) -> Seen {
        drop(self.end);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        *self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn sample(&self, database: &Database, baseline_bytes: u64, ended: &mpsc::Receiver<()>) {
        let mut reading = 0u64;
        loop {
            let Some(bytes) = self.own_bytes(baseline_bytes) else { return };
            let mut seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let is_peak = bytes > seen.peak_bytes + STEADY_BYTES;
            seen.peak_bytes = seen.peak_bytes.max(bytes);
            if is_peak || reading.is_multiple_of(METRICS_INTERVAL) {
                let told = database.metrics().memory;
                if is_peak {
                    seen.at_peak = told;
                }
                let after = self.own_bytes(baseline_bytes).unwrap_or(bytes);
                if after.abs_diff(bytes) <= STEADY_BYTES {
                    let difference = super::told_bytes(&told).abs_diff(after);
                    seen.worst_difference_bytes = seen.worst_difference_bytes.max(difference);
                }
            }
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
            reading += 1;
            if ended.recv_timeout(INTERVAL) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn own_bytes(&self, baseline_bytes: u64) -> Option<u64> {
        let others = baseline_bytes + self.held_bytes.load(Ordering::Relaxed);
        Some(anonymous_bytes()?.saturating_sub(others))
    }
}
