//! Background work on the data: expired keys are deleted when their time comes, and the elements of deleted
//! collections afterwards. One thread for both.

use esker_redis_store::Store;
use esker_redis_store::expiry_sweep::Expired;
use esker_redis_store::notifications::{Interest, Told};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// How often the thread looks for work at least. An expiry that is set while it waits is not told to it, so
/// this is how late such a key is deleted at most.
const INTERVAL_MS: u64 = 50;

/// Rounds of garbage collection between two looks for expired keys: some milliseconds.
const GARBAGE_ROUNDS: usize = 16;

/// The thread, and what is told to it.
#[derive(Debug, Default)]
pub(crate) struct Background {
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// Whether expired keys stay until a command finds them: `DEBUG SET-ACTIVE-EXPIRE 0`.
    expires_lazily: AtomicBool,
}

impl Background {
    /// Whether expired keys are deleted without a command that finds them.
    pub(crate) fn set_active_expiry(&self, is_active: bool) {
        self.expires_lazily.store(!is_active, Ordering::Release);
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
        self.closing.notify_one();
    }

    /// Works until it is closed. `touch` gets what the deletion of a key told while its stripe is held,
    /// `tell` the same without any lock. `timed` is called in each interval; it calls what
    /// looks for expired keys, and notes its time.
    ///
    /// Errors are not reported here: what fails is tried again in the next interval, and the engine's
    /// failures, which make it read-only, are answered to every writer.
    pub(crate) fn run(
        &self,
        store: &Store,
        interest: &dyn Fn() -> Interest,
        touch: &dyn Fn(&Told),
        tell: &dyn Fn(&Told),
        timed: &dyn Fn(&dyn Fn() -> u64) -> u64,
    ) {
        loop {
            let is_active = !self.expires_lazily.load(Ordering::Acquire);
            let sweep = || if is_active { sweep(store, interest(), touch, tell) } else { u64::MAX };
            let next_ms = timed(&sweep);
            let has_garbage = collect(store);
            let wait_ms = match has_garbage {
                true => 0,
                false => next_ms.saturating_sub(now_ms(store)).min(INTERVAL_MS),
            };
            let mut is_closed = self.is_closed.lock();
            if !*is_closed && wait_ms > 0 {
                self.closing.wait_for(&mut is_closed, Duration::from_millis(wait_ms));
            }
            if *is_closed {
                return;
            }
        }
    }
}

/// Deletes keys that have expired. Returns when the next key expires, in milliseconds since 1970.
fn sweep(store: &Store, interest: Interest, touch: &dyn Fn(&Told), tell: &dyn Fn(&Told)) -> u64 {
    let now_ms = now_ms(store);
    let next_ms = store.next_expiry_ms().max(store.kept_expired_until().saturating_add(1));
    if next_ms > now_ms {
        return next_ms;
    }
    let mut told = Vec::new();
    // A watch may begin at any time, so its keys are always listed.
    let interest = Interest { changed_keys: true, ..interest };
    let swept = store.sweep_expired(now_ms, interest, &mut |expired: Expired| {
        touch(&expired.told);
        told.push(expired.told);
    });
    told.iter().for_each(tell);
    // After a failure the same keys are due again, but not at once.
    swept.unwrap_or(u64::MAX)
}

/// Whether there is more garbage.
fn collect(store: &Store) -> bool {
    for _ in 0..GARBAGE_ROUNDS {
        match store.collect_garbage().unwrap_or(false) {
            true => {}
            false => return false,
        }
    }
    true
}

fn now_ms(store: &Store) -> u64 {
    store.database().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
