//! Backpressure: which clients are neither read nor served until they take replies, and for how long.

use super::{Connection, Stage};
use crate::execute::group::{End, OUTPUT_HIGH_BYTES};
use crate::server::Server;
use crate::statistics::add;
use esker::parts::env::Clock;

/// Unsent bytes down to which a client must take replies before its requests are executed again.
const OUTPUT_LOW_BYTES: usize = 64 << 10;

/// Bytes that are received and not executed, beyond which nothing is read while the client has to wait.
const WAITING_INPUT_BYTES: usize = 64 << 10;

impl Connection {
    /// Whether the client is not read or served before it takes replies, or because it has sent too much
    /// behind a command that waits.
    fn is_held_back(&self) -> bool {
        let takes_too_little = self.output.unsent_bytes() > OUTPUT_HIGH_BYTES;
        match (&self.stage, &self.work) {
            (Stage::Open, Some(work)) => {
                takes_too_little
                    || (work.end == End::OutputFull && self.output.unsent_bytes() > OUTPUT_LOW_BYTES)
            }
            (Stage::Blocked | Stage::Paused, Some(work)) => {
                takes_too_little || work.requests.waiting_bytes() >= WAITING_INPUT_BYTES
            }
            _ => false,
        }
    }

    /// Adds to the time for which clients are held back.
    pub(crate) fn count_backpressure(&mut self, server: &Server) {
        let is_held_back = self.is_held_back();
        if is_held_back || self.held_back_since_ns.is_some() {
            let now_ns = server.clock.monotonic_ns();
            if let Some(since_ns) = self.held_back_since_ns {
                add(&server.statistics.backpressure_ns, now_ns.saturating_sub(since_ns));
            }
            self.held_back_since_ns = is_held_back.then_some(now_ns);
        }
    }

    /// Whether execution stopped at full output that has been taken meanwhile, or for a pause that is over.
    pub(super) fn can_go_on(&self) -> bool {
        let stopped =
            self.work.as_ref().is_some_and(|work| matches!(work.end, End::OutputFull | End::Paused));
        self.stage == Stage::Open && stopped && self.output.unsent_bytes() <= OUTPUT_LOW_BYTES
    }

    /// Whether the client is to be read.
    pub(super) fn wants_input(&self) -> bool {
        let has_room = match (&self.stage, &self.work) {
            (Stage::Open, Some(work)) => work.end == End::Done && !work.session.closes_after_reply,
            // An end of the connection is noticed even while it waits.
            (Stage::Blocked | Stage::Paused, Some(work)) => {
                work.requests.waiting_bytes() < WAITING_INPUT_BYTES
            }
            _ => false,
        };
        has_room && self.output.unsent_bytes() <= OUTPUT_HIGH_BYTES && !self.has_ended
    }
}
