//! Stopping in two steps: first the server tells that it drains, then it ends.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Serving,
    Draining,
    Ended,
}

/// Stops a server from another thread; all copies are one. A stage that was reached is not left.
#[derive(Clone, Debug, Default)]
pub struct Stop(watch::Sender<Stage>);

impl Stop {
    /// From now on `/health/ready` says that the process ends, so that no more clients are sent to it, and
    /// everything is answered as before.
    pub fn drain(&self) {
        self.reach(Stage::Draining);
    }

    /// Ends the server. It may be ended before it starts, and twice.
    pub fn stop(&self) {
        self.reach(Stage::Ended);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() != Stage::Serving
    }

    /// Completes when the server is to end.
    pub(crate) async fn stopped(&self) {
        // It fails only when the last sender is gone, and this is one.
        let mut receiver = self.0.subscribe();
        let _result = receiver.wait_for(|stage| *stage == Stage::Ended).await;
    }

    fn reach(&self, wanted: Stage) {
        self.0.send_if_modified(|stage| {
            let is_new = *stage < wanted;
            *stage = wanted.max(*stage);
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_server_does_not_come_back_by_draining() {
        let stop = Stop::default();
        assert!(!stop.is_draining());
        stop.drain();
        assert!(stop.is_draining() && *stop.0.borrow() == Stage::Draining);
        stop.stop();
        stop.drain();
        assert!(*stop.0.borrow() == Stage::Ended);
    }
}
