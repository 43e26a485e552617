//! Stopping a server from another thread.

use tokio::sync::watch;

/// Stops a server from another thread; all copies are one.
#[derive(Clone, Debug, Default)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Tells the server to stop. It may be told so before it starts, and twice.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Completes when the server is to stop.
    pub async fn stopped(&self) {
        // It fails only when the last sender is gone, and this is one.
        let mut receiver = self.0.subscribe();
        let _result = receiver.wait_for(|is_set| *is_set).await;
    }

    /// Whether the server is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}
