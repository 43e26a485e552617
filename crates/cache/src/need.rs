//! Telling whoever has memory to spare that the cache has none left.
//!
//! Memory that lies idle elsewhere is worth something to the cache only once entries have to go for others.
//! So whoever could lend some asks to be told, once, and gives away nothing before.
//!
//! * ND1. The need is met when an entry comes that has no room, not before, and told once for each time it
//!   was awaited.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Somebody waits to be told.
const AWAITED: u8 = 1;
/// The cache was full since.
const MET: u8 = 2;

/// See the file's head. The state is 0 until somebody asks. Relaxed everywhere: whoever was told looks at the
/// state under locks of its own.
#[derive(Default)]
pub(crate) struct Need {
    state: AtomicU8,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Need {
    /// Names whoever is to be told, once and for all.
    pub(crate) fn set_tell(&self, tell: Box<dyn Fn() + Send + Sync>) {
        // A second one is a mistake of the caller's that costs a call.
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

    /// The cache is full. Called without any lock of the cache.
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
