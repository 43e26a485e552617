//! Stopping a listening server from another thread: a flag, and what wakes the thread that looks at it.

use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a listening server from another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    is_set: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stop {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { is_set: Arc::default(), waker: Arc::new(waker) }
    }

    /// Tells the server to stop: it accepts no more clients, answers what it has received, and ends.
    pub fn stop(&self) {
        self.is_set.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the thread that looks whether it is to stop.
    pub(crate) fn wake(&self) {
        // It fails only if the server has stopped already.
        let _result = self.waker.wake();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }
}
