//! Bound on open handshakes: one more than the limit ends the oldest.
//!
//! A client that means to connect is through in milliseconds, one that holds a handshake open is not. So the
//! oldest is the one that costs an honest client least, and connections that say nothing keep none out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// The handshakes that are open, by the order in which they began.
#[derive(Debug)]
pub(crate) struct OpenHandshakes {
    limit: usize,
    open: Mutex<Numbered>,
}

#[derive(Debug, Default)]
struct Numbered {
    next: u64,
    ends: BTreeMap<u64, Arc<Notify>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenHandshake<'h> {
    all: &'h OpenHandshakes,
    number: u64,
    end: Arc<Notify>,
}

impl OpenHandshakes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), open: Mutex::default() }
    }

    /// Begins one, and ends the oldest if there are too many.
    pub(crate) fn begin(&self) -> OpenHandshake<'_> {
        let mut open = self.open.lock();
        let (number, end) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        open.ends.insert(number, Arc::clone(&end));
        if open.ends.len() > self.limit
            && let Some((_, oldest)) = open.ends.pop_first()
        {
            oldest.notify_one();
        }
        OpenHandshake { all: self, number, end }
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().ends.len()
    }
}

impl OpenHandshake<'_> {
    /// Completes when it is to end for a later one.
    pub(crate) async fn displaced(&self) {
        self.end.notified().await;
    }
}

impl Drop for OpenHandshake<'_> {
    fn drop(&mut self) {
        self.all.open.lock().ends.remove(&self.number);
    }
}
