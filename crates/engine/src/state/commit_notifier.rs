//! Commit notifier: wakes threads that wait for the next batch (CS1).

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Notified when a batch was published that a thread waits for, and when waiting has become useless.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rings.lock() += 1;
        self.rung.notify_all();
    }

    /// The number of notifications.
    pub(crate) fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until the number of notifications exceeds `had`, at most `limit`; `false` on timeout.
    pub(crate) fn wait(&self, had: u64, limit: Duration) -> bool {
        let mut rings = self.rings.lock();
        *rings != had || !self.rung.wait_for(&mut rings, limit).timed_out()
    }
}
