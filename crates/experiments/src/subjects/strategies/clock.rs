//! The machine's clock with an offset that can be advanced, so that idle time need not be waited for.

use esker::parts::env::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The machine's clock and its offset.
#[derive(Debug, Default)]
pub(super) struct ForwardClock {
    inner: SystemClock,
    forward_ms: AtomicU64,
}

impl ForwardClock {
    pub(super) fn forward(&self, by: Duration) {
        self.forward_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for ForwardClock {
    fn wall_ms(&self) -> u64 {
        self.inner.wall_ms() + self.forward_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.inner.monotonic_ns() + self.forward_ms.load(Ordering::Relaxed) * 1_000_000
    }
}
