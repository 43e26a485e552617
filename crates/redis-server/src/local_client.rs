//! A client within the process: the server without sockets.

use crate::clients::{Client, Mailbox, Message};
use crate::execute::group::{End, Executor, Mode, pause};
use crate::execute::requests::Requests;
use crate::server::Server;
use crate::session::Session;
use esker_resp::limits::Limits;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How often the time of a wait is looked at.
const TICK: Duration = Duration::from_millis(10);

/// The reply that ends a wait. Messages of channels are not for clients within the process.
#[derive(Debug, Default)]
struct Replies {
    reply: Mutex<Option<Vec<u8>>>,
    arrived: Condvar,
}

impl Replies {
    /// Waits for the reply, for a tick.
    fn wait(&self) -> Option<Vec<u8>> {
        let mut reply = self.reply.lock();
        if reply.is_none() {
            self.arrived.wait_for(&mut reply, TICK);
        }
        reply.take()
    }
}

impl Mailbox for Replies {
    fn post(&self, _client: u64, message: Message) {
        if let Message::WaitOver(reply) = message {
            *self.reply.lock() = Some(reply);
            self.arrived.notify_all();
        }
    }
}

/// A client of a server in the same process.
#[derive(Debug)]
pub struct LocalClient<'s> {
    client: Arc<Client>,
    replies: Arc<Replies>,
    session: Session,
    requests: Requests,
    executor: Executor<'s>,
}

impl<'s> LocalClient<'s> {
    /// A client that is authenticated as `default`, unless that needs a password.
    pub fn new(server: &'s Server) -> Self {
        let replies = Arc::new(Replies::default());
        let mailbox: Arc<dyn Mailbox> = Arc::<Replies>::clone(&replies);
        let client = server.clients.add(None, None, server.now_ms(), mailbox);
        let session = Session::new(client.id, server.access.of_new_client());
        Self { client, replies, session, requests: Requests::default(), executor: Executor::new(server) }
    }

    /// Executes a request and returns the reply as it would be sent. It waits as long as the command waits
    /// for its keys.
    pub fn request<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Vec<u8> {
        let input = self.requests.input();
        input.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            let argument = argument.as_ref();
            input.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            input.extend_from_slice(argument);
            input.extend_from_slice(b"\r\n");
        }
        self.execute()
    }

    /// Executes requests as they would be received, several at once, say, and returns their replies.
    pub fn pipeline(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.requests.input().extend_from_slice(bytes);
        self.execute()
    }

    fn execute(&mut self) -> Vec<u8> {
        let mut replies = Vec::new();
        while self.requests.parse(&Limits::default()) {
            let mut some = Vec::new();
            let end = self.executor.run(&mut self.session, &mut self.requests, &mut some, Mode::Waiting);
            replies.append(&mut some);
            if end == End::MustWait
                && let Some(stall) = self.executor.take_stall()
            {
                pause(stall.retry_after);
                self.executor.go_on_after(stall.so_far);
            }
            while end == End::Paused && self.executor.server().pausing.is_waiting(self.client.id) {
                pause(TICK);
                self.executor.server().end_pause_if_over();
            }
            if let End::Blocked(until_ms) = end {
                let reply = self.wait(until_ms);
                if self.session.takes_reply() {
                    replies.extend_from_slice(&reply);
                }
                self.requests.set_position(self.requests.position() + 1);
            }
            if self.session.closes_after_reply {
                break;
            }
        }
        self.executor.end_turn();
        if let Some(error) = self.requests.error() {
            error.write_reply(&mut replies);
        }
        replies
    }

    /// Waits for the reply of the command that waits. There may be no thread of connections, so this one does
    /// what those do for waiting clients.
    fn wait(&mut self, until_ms: Option<u64>) -> Vec<u8> {
        let server = self.executor.server();
        loop {
            if let Some(reply) = self.replies.wait() {
                return reply;
            }
            if until_ms.is_some_and(|until_ms| until_ms <= server.now_ms()) {
                server.time_is_up(self.client.id);
            }
            if server.waiting.has_ready() || server.waiting.has_postponed() {
                self.executor.serve_postponed();
            }
        }
    }
}

impl Drop for LocalClient<'_> {
    fn drop(&mut self) {
        let server = self.executor.server();
        self.session.leave(server);
        server.disconnected(&self.client);
    }
}
