//! Flushes of the log: one thread for all clients, on request with `appendfsync always`, where a reply leaves
//! when everything that its command saw is on the device, and once a second with `everysec`.

use esker::parts::env::Clock;
use esker_redis_store::Store;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// The interval of flushes with `everysec`, in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Asked {
    is_wanted: bool,
    is_closed: bool,
}

/// The thread that flushes, and requests to it.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    requests: Mutex<Asked>,
    asked: Condvar,
}

impl Flusher {
    /// Asks for a flush.
    pub(crate) fn ask(&self) {
        let mut requests = self.requests.lock();
        if !requests.is_wanted {
            requests.is_wanted = true;
            self.asked.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.requests.lock().is_closed = true;
        self.asked.notify_one();
    }

    /// Flushes on request, or every second, until it is closed.
    /// `is_every_second` is asked before each flush that was not asked for; `flushed` is told whether a flush
    /// succeeded.
    pub(crate) fn run(
        &self,
        store: &Store,
        clock: &dyn Clock,
        is_every_second: &dyn Fn() -> bool,
        flushed: &dyn Fn(bool),
    ) {
        let mut next_ns = clock.monotonic_ns() + INTERVAL_NS;
        loop {
            let is_wanted = {
                let mut requests = self.requests.lock();
                while !requests.is_wanted && !requests.is_closed {
                    let left_ns = next_ns.saturating_sub(clock.monotonic_ns());
                    if left_ns == 0 {
                        break;
                    }
                    self.asked.wait_for(&mut requests, Duration::from_nanos(left_ns));
                }
                if requests.is_closed {
                    return;
                }
                // What is asked for from here on needs another flush.
                std::mem::take(&mut requests.is_wanted)
            };
            next_ns = clock.monotonic_ns() + INTERVAL_NS;
            let database = store.database();
            let is_durable = database.durable_seqno() >= store.written();
            if !is_durable && (is_wanted || is_every_second()) {
                // After a failure the database is read-only, and every later write says so.
                flushed(database.sync().is_ok());
            } else if is_wanted {
                flushed(true);
            }
        }
    }
}
