//! Waking those who wait for a batch (CS1).

use crate::pressure::Duties;
use crate::store::Writing;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// What is rung when something was published that somebody waits for, and when waiting makes no sense any
/// more.
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

    /// How often it was rung.
    pub(super) fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until it has been rung more often than it had, at most `limit`; `false` if that time is over.
    pub(super) fn wait(&self, had: u64, limit: Duration) -> bool {
        let mut rings = self.rings.lock();
        *rings != had || !self.rung.wait_for(&mut rings, limit).timed_out()
    }
}

impl Writing {
    /// Asks the next writer to ring, unless something after `seqno` is there already; `false` then, and if
    /// the database is closed.
    pub(super) fn listen(&self, seqno: u64) -> bool {
        let mut state = self.commit.lock();
        let is_up_to_date = state.next_seqno.get() <= seqno + 1 && !state.closed;
        if is_up_to_date {
            state.duties.set(Duties::RING, true);
        }
        is_up_to_date
    }
}
