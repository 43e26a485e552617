//! Full notification: tells a memory arbiter that the cache has become full.
//!
//! Unused memory elsewhere helps the cache only once entries are evicted for lack of room. So an arbiter that
//! could lend memory arms this notification, and lends nothing before.
//!
//! * ND1. The notification fires when an entry does not fit, not before, and once for each time it was armed.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The notification is armed.
const ARMED: u8 = 1;
/// It has fired since.
const FIRED: u8 = 2;

/// 0 until armed. Relaxed: the callback's owner reads the state under locks of its own.
#[derive(Default)]
pub(crate) struct FullNotification {
    state: AtomicU8,
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl FullNotification {
    pub(crate) fn set_callback(&self, callback: Box<dyn Fn() + Send + Sync>) {
        // A second callback is a caller's mistake that costs one call.
        let is_first = self.callback.set(callback).is_ok();
        debug_assert!(is_first, "the callback is set once");
    }

    pub(crate) fn arm(&self) {
        self.state.store(ARMED, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ARMED
    }

    pub(crate) fn has_fired(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FIRED
    }

    /// Fires if armed. Called without any lock of the cache.
    #[cold]
    pub(crate) fn fire(&self) {
        let is_first =
            self.state.compare_exchange(ARMED, FIRED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if let Some(callback) = self.callback.get().filter(|_| is_first) {
            callback();
        }
    }
}

impl fmt::Debug for FullNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FullNotification").field(&self.state).finish()
    }
}
