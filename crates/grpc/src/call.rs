//! One call: its caller, its deadline and its connection, as the handlers get them.

use crate::access::Caller;
use crate::deadline::Deadline;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::{Request, Status};

/// Ends a connection from any of its calls; all copies are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hangup(Arc<Notify>);

impl Hangup {
    /// Ends the connection, with all that its calls hold.
    pub(crate) fn hang_up(&self) {
        self.0.notify_one();
    }

    /// Completes when the connection is to end.
    pub(crate) async fn asked(&self) {
        self.0.notified().await;
    }
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) deadline: Deadline,
    pub(crate) hangup: Hangup,
}

impl Call {
    /// The call that a request is.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Call, Status> {
        let call = request.extensions().get::<Call>().cloned();
        call.ok_or_else(|| Status::internal("the request did not come by this server's connections"))
    }
}
