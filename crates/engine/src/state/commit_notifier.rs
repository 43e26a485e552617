//! Commit notifier: wakes threads that wait for the next batch (CS1).

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Notified when a batch was published that a thread waits for, and when waiting has become useless.
#[derive(Debug, Default)]
pub struct CommitNotifier {
    notifications: Mutex<u64>,
    rung: Condvar,
}

impl CommitNotifier {
    pub(crate) fn notify(&self) {
        *self.notifications.lock() += 1;
        self.rung.notify_all();
    }

    /// The number of notifications.
    pub fn notifications(&self) -> u64 {
        *self.notifications.lock()
    }

    /// Waits until the number of notifications exceeds `had`, at most `limit`; `false` on timeout.
    pub fn wait(&self, had: u64, limit: Duration) -> bool {
        let mut notifications = self.notifications.lock();
        *notifications != had || !self.rung.wait_for(&mut notifications, limit).timed_out()
    }
}
