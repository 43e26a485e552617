//! Work of a connection: its requests, executed until something must be waited for.

use crate::execute::group::{End, Executor, Mode};
use crate::execute::requests::Requests;
use crate::session::Session;
use esker_resp::protocol_error::ProtocolError;

/// What executing requests needs and changes. It goes to the slow lane and comes back.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) session: Session,
    pub(crate) requests: Requests,
    pub(crate) out: Vec<u8>,
    /// How the last execution ended.
    pub(crate) end: End,
    /// Whether the connection ends at once, without the replies that were not sent.
    pub(crate) is_aborted: bool,
}

impl Work {
    /// Executes what has been received, until something is to be waited for.
    pub(crate) fn execute(&mut self, executor: &mut Executor<'_>, mode: Mode) {
        loop {
            let limits = self.session.limits(executor.server());
            if self.session.closes_after_reply || !self.requests.parse(&limits) {
                self.end = End::Done;
                break;
            }
            if mode == Mode::Resident && self.requests.are_large() {
                self.end = End::MustWait;
                break;
            }
            self.end = executor.run(&mut self.session, &mut self.requests, &mut self.out, mode);
            if self.end != End::Done || mode == Mode::Waiting {
                break;
            }
        }
        executor.end_turn();
        if self.end == End::Done
            && let Some(error) = self.requests.error()
            && !self.session.closes_after_reply
        {
            if error == ProtocolError::CrossProtocol {
                self.is_aborted = true;
                executor.server().warn_of_http();
            }
            error.write_reply(&mut self.out);
            self.session.closes_after_reply = true;
        }
    }
}
