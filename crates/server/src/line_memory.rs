//! Line memory: bounds what the unfinished long lines of all clients take together.
//!
//! Each client may have one line of a mebibyte, and a thousand clients would have a gibibyte. A line of up to
//! [`FREE_BYTES`] costs nothing. To read more of one, a connection needs a place, of which there are as many
//! as lines of the greatest length fit the budget; without one it waits, and its client is not read from. A
//! place covers the whole line: a connection that has one never waits for another, so they all come to an
//! end. A client that does not finish its line loses the connection and with it the place
//! ([`Config::line_timeout`](crate::Config::line_timeout)).

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of an unfinished line that each client may have beside the budget.
pub(crate) const FREE_BYTES: usize = 16 << 10;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct LineMemory {
    places: Arc<Semaphore>,
}

/// The place of one long line, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl LineMemory {
    /// Places for lines of up to `line_bytes` within `budget_bytes`; one at least.
    pub(crate) fn new(budget_bytes: usize, line_bytes: usize) -> LineMemory {
        let places = (budget_bytes / line_bytes.max(1)).clamp(1, Semaphore::MAX_PERMITS);
        LineMemory { places: Arc::new(Semaphore::new(places)) }
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> Option<Place> {
        Arc::clone(&self.places).acquire_owned().await.ok().map(Place)
    }
}
