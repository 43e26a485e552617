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
const AWAITED: u8 = 1;
/// It has fired since.
const MET: u8 = 2;

/// See the module's head. The state is 0 until it is armed. Relaxed everywhere: the callback's owner reads
/// the state under locks of its own.
#[derive(Default)]
pub(crate) struct Need {
    state: AtomicU8,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Need {
    /// Sets the callback, once.
    pub(crate) fn set_tell(&self, tell: Box<dyn Fn() + Send + Sync>) {
        // A second callback is a caller's mistake that costs one call.
        let is_first = self.tell.set(tell).is_ok();
        debug_assert!(is_first, "one is told");
    }

    pub(crate) fn wait(&self) {
        self.state.store(AWAITED, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Relaxed) == AWAITED
    }

    pub(crate) fn is_met(&self) -> bool {
        self.state.load(Ordering::Relaxed) == MET
    }

    /// Fires if armed. Called without any lock of the cache.
    #[cold]
    pub(crate) fn meet(&self) {
        let is_first =
            self.state.compare_exchange(AWAITED, MET, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if let Some(tell) = self.tell.get().filter(|_| is_first) {
            tell();
        }
    }
}

impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Need").field(&self.state).finish()
    }
}
