//! A clock that goes like the machine's, and can be put forward: a rest need not be waited for.

use esker::parts::env::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The machine's clock, and how far it was put forward.
#[derive(Debug, Default)]
pub(super) struct ForwardClock {
    inner: SystemClock,
    forward_ms: AtomicU64,
}

impl ForwardClock {
    /// Puts it forward.
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
