//! Backpressure budget: bounds what answers that clients do not take hold together.
//!
//! A client that does not read has one piece of output, or one large value, waiting for it. A thousand of
//! them would have as many. So a connection that waits for its client registers what it holds, and while
//! all of it together is more than the budget, those that have waited longest without any progress are
//! ended. A client that reads slowly registers anew with each write, so it goes after one that does not read
//! at all, and one that reads as fast as the network never registers.
//!
//! Waiting for room instead was rejected: clients that do not read would stop those that do until the write
//! timeout ([`Config::write_timeout`](crate::Config::write_timeout)).

use crate::limits::Limits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The answers that wait for their clients.
#[derive(Debug)]
pub(crate) struct UnsentAnswers {
    /// The budget is one of them.
    limits: Limits,
    waiting: Mutex<Waiting>,
}

/// Waiting connections in the order in which they began to wait.
#[derive(Debug, Default)]
struct Waiting {
    connections: BTreeMap<u64, Held>,
    bytes: usize,
    next: u64,
}

/// What one of them holds. Dropping it ends the connection.
#[derive(Debug)]
struct Held {
    bytes: usize,
    _ended_by_drop: oneshot::Sender<()>,
}

/// A connection that waits for its client. Dropped, it no longer counts.
#[derive(Debug)]
pub(crate) struct Wait {
    answers: Arc<UnsentAnswers>,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl UnsentAnswers {
    pub(crate) fn new(limits: Limits) -> Arc<UnsentAnswers> {
        Arc::new(UnsentAnswers { limits, waiting: Mutex::default() })
    }

    /// Registers a connection that waits with so many bytes, and ends others until the budget holds, the
    /// longest waiting first. One connection may wait whatever it holds.
    pub(crate) fn wait(self: &Arc<Self>, bytes: usize) -> Wait {
        let (sender, ended) = oneshot::channel();
        let budget_bytes = self.limits.unsent_bytes();
        let mut waiting = self.lock();
        while waiting.bytes.saturating_add(bytes) > budget_bytes {
            let Some((_, oldest)) = waiting.connections.pop_first() else { break };
            waiting.bytes -= oldest.bytes;
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.bytes += bytes;
        waiting.connections.insert(number, Held { bytes, _ended_by_drop: sender });
        drop(waiting);
        Wait { answers: Arc::clone(self), number, ended }
    }

    /// Bytes that wait.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Nothing that runs under the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait {
    /// Returns when the memory is needed for others.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent: the other end is dropped.
        let _dropped = (&mut self.ended).await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.answers.lock();
        if let Some(held) = waiting.connections.remove(&self.number) {
            waiting.bytes -= held.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(wait: &mut Wait) -> bool {
        matches!(wait.ended.try_recv(), Err(oneshot::error::TryRecvError::Closed))
    }

    #[test]
    fn the_longest_waiting_are_ended_until_the_budget_holds() {
        let answers = UnsentAnswers::new(Limits::new(1, 100));
        let mut waits: Vec<Wait> = (0..5).map(|_| answers.wait(20)).collect();
        assert!(waits.iter_mut().all(|wait| !is_ended(wait)));
        let mut large = answers.wait(50);
        assert_eq!(waits.iter_mut().map(is_ended).collect::<Vec<_>>(), [true, true, true, false, false]);
        assert_eq!(answers.bytes(), 90);
        let mut huge = answers.wait(1000);
        assert!(is_ended(&mut large) && waits.iter_mut().all(is_ended), "one may be larger than the budget");
        assert!(!is_ended(&mut huge) && answers.bytes() == 1000);
        drop((waits, large, huge));
        assert_eq!(answers.bytes(), 0);
    }
}
