//! Serving of blocked clients: their commands are executed once more when their keys have changed.
//!
//! The thread that changed the keys does it, after its batch is written and its stripes are free (WC2). What
//! a served command changes is served in the same loop: a chain of moves needs no recursion. A command that
//! has to wait for a device or for a stall is left to a thread that may wait.

use super::calling::Calling;
use super::group::{Executor, Mode, Step, pause};
use crate::commands;
use crate::failure::engine_error_text;
use crate::session::Session;
use crate::waiting::{Place, Ticket, WaitEnd, Waiter};
use esker_redis_commands::{Command, keys};
use esker_redis_store::Kind;
use esker_redis_store::txn::Stalls;
use std::time::Duration;

/// How long a thread that may wait lets pass before it tries a served command's batch again while writes are
/// held back.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// What became of a client whose command was executed once more.
enum Tried {
    Served,
    /// Its key has nothing for it.
    WaitsOn,
    /// A thread that may wait must try it.
    MustWait,
    /// A pause holds it back.
    Paused,
}

/// What became of the clients of one key.
enum LineEnd {
    Served,
    /// A thread that may wait must go on.
    MustWait,
    /// A pause holds their commands back.
    Paused,
}

impl Executor<'_> {
    /// Registers a client that waits with a command, under the stripes of its keys.
    pub(super) fn begin_wait(
        &mut self,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
        waits_with: Option<Vec<Box<[u8]>>>,
    ) {
        let Some(client) = self.server().clients.get(session.id) else { return };
        let mut found = Vec::new();
        keys(command, arguments, &mut found);
        if matches!(command.name(), "blmove" | "brpoplpush") {
            // The second key is filled, not waited for.
            found.truncate(1);
        }
        self.server().waiting.add(Waiter {
            client,
            db: session.db,
            protocol: session.protocol,
            command,
            keys: found.iter().map(|key| arguments[key.position].into()).collect(),
            arguments: waits_with.unwrap_or_else(|| arguments.iter().map(|&bytes| bytes.into()).collect()),
        });
    }

    /// Serves the clients of all changed keys. No stripe is held, and nothing is to be written.
    pub(crate) fn serve_ready(&mut self, mode: Mode) {
        let server = self.server();
        let (waiting, pausing) = (&server.waiting, &server.pausing);
        let _turn = waiting.turn();
        // What is ready stays so during a pause, which began within the transaction that filled the keys.
        while !(pausing.is_used() && pausing.is_on(server.now_ms()))
            && let Some(place) = waiting.next_ready()
        {
            match self.serve_line(&place, mode) {
                LineEnd::Served => {}
                LineEnd::MustWait => waiting.postpone(place),
                LineEnd::Paused => waiting.put_back(&place),
            }
        }
        self.begin_next();
    }

    /// Serves what was left to a thread that may wait. It waits while writes are held back.
    pub(crate) fn serve_postponed(&mut self) {
        self.server().waiting.resume();
        self.serve_ready(Mode::Waiting);
        if self.server().waiting.has_postponed() {
            pause(RETRY_AFTER);
        }
    }

    /// Serves the clients of one key as long as it has something for them.
    fn serve_line(&mut self, place: &Place, mode: Mode) -> LineEnd {
        let (mut behind, mut exhausted) = (0, Vec::new());
        while let Some((ticket, waiter)) = self.server().waiting.next_of(place, behind) {
            behind = ticket;
            let kind = waiter.kind();
            if exhausted.contains(&kind) {
                continue;
            }
            match self.serve(place, ticket, &waiter, mode) {
                Tried::Served => {}
                // What one reader of a stream has read already is new to another.
                Tried::WaitsOn if kind == Kind::Stream => {}
                Tried::WaitsOn => exhausted.push(kind),
                Tried::MustWait => return LineEnd::MustWait,
                Tried::Paused => return LineEnd::Paused,
            }
        }
        LineEnd::Served
    }

    /// Executes the command of a waiting client once more and writes its batch.
    fn serve(&mut self, place: &Place, ticket: Ticket, waiter: &Waiter, mode: Mode) -> Tried {
        let Some(handler) = commands::handler(waiter.command) else { return Tried::WaitsOn };
        let arguments: Vec<&[u8]> = waiter.arguments.iter().map(|argument| &**argument).collect();
        // What the client may do was checked when it sent the command.
        let mut session = Session::new(waiter.client.id, None);
        (session.db, session.protocol) = (waiter.db, waiter.protocol);
        let mut reply = Vec::new();
        if !self.begin_again(&session, waiter.command, &arguments, mode) {
            self.end_again();
            return Tried::MustWait;
        }
        let pausing = &self.server().pausing;
        if pausing.is_used() && pausing.is_on(self.server().now_ms()) {
            self.end_again();
            return Tried::Paused;
        }
        let calling = Calling::Woken(&place.1);
        let step = self.call(&mut session, waiter.command, handler, &arguments, &mut reply, mode, calling);
        let tried = match step {
            Step::Next => self.write_served(place, ticket, waiter, reply),
            Step::MustWait => Tried::MustWait,
            Step::Blocked(_) | Step::Paused | Step::NeedsAllStripes | Step::Undone(_) => Tried::WaitsOn,
        };
        self.end_again();
        tried
    }

    /// Writes the batch of a served command, unless the wait is over.
    fn write_served(&mut self, place: &Place, ticket: Ticket, waiter: &Waiter, reply: Vec<u8>) -> Tried {
        let server = self.server();
        let client = waiter.client.id;
        let written = server.waiting.finish(client, ticket, reply, || self.txn().commit(Stalls::Fail));
        match written {
            Some(Ok(_)) => {
                // The present loop goes on with the other clients of this key by itself.
                self.tell_batch(client, Some(place));
            }
            // It is over: its command changes nothing.
            None => {}
            Some(Err(esker::Error::WouldStall { .. })) => return Tried::MustWait,
            Some(Err(error)) => {
                let text = engine_error_text(&error);
                server.waiting.end(client, WaitEnd::Failed(text.into_bytes()));
            }
        }
        Tried::Served
    }
}
