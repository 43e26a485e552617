//! Connection of one client, a state machine: bytes become requests, requests become replies, replies become
//! bytes.
//!
//! | file | holds |
//! |---|---|
//! | `work` | what executing requests needs and changes |
//! | `output` | replies and messages in their order, held until they are durable |
//! | `socket_io` | reading and writing the socket |
//! | `backpressure`, `output_limit` | clients that take too few of their replies |

use super::socket::Socket;
use crate::clients::{Client, Shown};
use crate::execute::group::{End, Executor, Mode, OUTPUT_HIGH_BYTES};
use crate::execute::requests::Requests;
use crate::server::Server;
use crate::session::{Session, ShownVersion};
use output::Output;
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod backpressure;
mod output;
mod output_limit;
mod socket_io;
mod work;

pub(crate) use work::Work;

/// Bytes of buffers that a client without requests keeps: 10,000 idle clients take 40 MiB at most.
const KEPT_BYTES: usize = 2 << 10;

/// State of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Requests are executed as they come.
    Open,
    /// The slow lane has the work.
    Away,
    /// A command waits for its keys.
    Blocked,
    /// A command waits for the end of a pause.
    Paused,
    /// The connection is to be removed.
    Closed,
}

/// A connection of an I/O thread.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    pub(crate) client: Arc<Client>,
    /// `None` while the slow lane has it.
    work: Option<Box<Work>>,
    stage: Stage,
    output: Output,
    /// Whether the socket may have bytes to read, and room for bytes to write.
    is_readable: bool,
    is_writable: bool,
    /// Whether the client has closed its side; what it sent before may still have to be read.
    is_read_closed: bool,
    /// Whether nothing more is to be read.
    has_ended: bool,
    /// Whether the client gets messages of channels.
    is_subscriber: bool,
    /// Since when it has had more output than the soft limit of its class, in milliseconds since 1970.
    over_soft_since_ms: Option<u64>,
    pub(crate) blocked_until_ms: Option<u64>,
    /// Up to when the time is counted for which it is held back; `None` while it is not.
    held_back_since_ns: Option<u64>,
    /// The reply that ended a wait before the slow lane had returned the work that began it.
    early_reply: Option<Vec<u8>>,
    /// When the TLS handshake must be over, in the clock's nanoseconds; `None` for a plain connection.
    handshake_ends_ns: Option<u64>,
    /// What the registry tells of the client, and whether it waits.
    shown_version: Option<(ShownVersion, bool)>,
}

/// What the I/O thread has to do for a connection.
#[derive(Debug)]
pub(crate) enum Need {
    Nothing,
    /// Hand the work to the slow lane.
    SlowLane(Box<Work>),
    /// Remove the connection.
    Remove,
    /// Call again soon: there is more to read.
    Again,
}

impl Connection {
    pub(crate) fn new(socket: Socket, client: Arc<Client>, session: Session) -> Self {
        let requests = Requests::default();
        let work = Work { session, requests, out: Vec::new(), end: End::Done, is_aborted: false };
        Self {
            socket,
            client,
            work: Some(Box::new(work)),
            stage: Stage::Open,
            output: Output::default(),
            is_readable: true,
            is_writable: true,
            is_read_closed: false,
            has_ended: false,
            is_subscriber: false,
            over_soft_since_ms: None,
            blocked_until_ms: None,
            held_back_since_ns: None,
            early_reply: None,
            handshake_ends_ns: None,
            shown_version: None,
        }
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Reads, executes and writes as far as that is possible without waiting.
    pub(crate) fn advance(&mut self, executor: &mut Executor<'_>, scratch: &mut [u8]) -> Need {
        let server = executor.server();
        if self.wants_input() && self.is_readable {
            self.read(scratch, server);
        }
        let mut must_wait = false;
        if self.stage == Stage::Open
            && self.output.unsent_bytes() <= OUTPUT_HIGH_BYTES
            && let Some(work) = &mut self.work
        {
            work.execute(executor, Mode::Resident);
            must_wait = self.after_execution(server);
        }
        if !self.output.release(|| server.store.database().durable_seqno()) {
            server.flusher.ask();
        }
        self.write(server);
        self.count_backpressure(server);
        if must_wait && let Some(work) = self.work.take() {
            self.stage = Stage::Away;
            return Need::SlowLane(work);
        }
        let has_output = self.output.unsent_bytes() > 0 || self.output.holds_replies();
        let is_idle = !has_output && !self.socket.has_unsent();
        let closes = self.work.as_ref().is_some_and(|work| work.session.closes_after_reply);
        if self.stage == Stage::Closed || (closes && is_idle) || (self.has_ended && self.is_over(is_idle)) {
            return Need::Remove;
        }
        // What was left unread, also while the client had to wait, is not reported anew.
        let can_read = self.is_readable && self.wants_input();
        if can_read || self.can_go_on() { Need::Again } else { Need::Nothing }
    }

    /// Whether nothing is left to do for a client that sends nothing any more.
    fn is_over(&self, is_idle: bool) -> bool {
        match self.stage {
            Stage::Away => false,
            Stage::Blocked => true,
            Stage::Paused => is_idle,
            Stage::Open | Stage::Closed => is_idle && !self.can_go_on(),
        }
    }

    /// Takes replies over. Whether the slow lane must go on.
    fn after_execution(&mut self, server: &Server) -> bool {
        let Some(work) = &mut self.work else { return false };
        if work.is_aborted {
            self.close();
            return false;
        }
        self.client.query_bytes.store(work.requests.waiting_bytes() as u64, Ordering::Relaxed);
        self.client.active_ms.store(server.now_ms(), Ordering::Relaxed);
        self.client.note_last_command(work.session.last_command);
        let is_blocked = matches!(work.end, End::Blocked(_) | End::Paused);
        let version = (work.session.shown_version(), is_blocked);
        if self.shown_version != Some(version) {
            self.shown_version = Some(version);
            *self.client.shown.lock() = Shown { is_blocked, ..work.session.shown() };
        }
        self.is_subscriber = work.session.is_subscribed();
        if !work.out.is_empty() {
            let bytes = std::mem::take(&mut work.out);
            self.output.reply(bytes, server.needed_durable());
            self.enforce_output_limit(server);
        }
        let Some(work) = &mut self.work else { return false };
        match work.end {
            _ if self.stage == Stage::Closed => false,
            End::Done => {
                if work.requests.is_empty() && work.requests.memory_bytes() > KEPT_BYTES {
                    work.requests.shrink();
                }
                false
            }
            End::OutputFull => false,
            End::MustWait => true,
            End::Blocked(until_ms) => {
                self.stage = Stage::Blocked;
                self.blocked_until_ms = until_ms;
                false
            }
            End::Paused => {
                // A pause that is over has taken the client out of its line, and goes on at once.
                if server.pausing.is_waiting(self.client.id) {
                    self.stage = Stage::Paused;
                }
                false
            }
        }
    }

    /// The slow lane has executed the work.
    pub(crate) fn come_back(&mut self, work: Box<Work>, server: &Server) {
        self.work = Some(work);
        if self.stage == Stage::Away {
            self.stage = Stage::Open;
        }
        let must_wait = self.after_execution(server);
        debug_assert!(!must_wait, "a thread that may wait has executed it");
        if let Some(reply) = self.early_reply.take() {
            self.end_wait(reply, server);
        }
        for message in self.output.take_deferred() {
            self.push(message, server);
        }
    }

    /// The reply of the command that the client waited with.
    pub(crate) fn end_wait(&mut self, reply: Vec<u8>, server: &Server) {
        if self.stage == Stage::Away {
            self.early_reply = Some(reply);
            return;
        }
        if self.stage != Stage::Blocked {
            return;
        }
        self.stage = Stage::Open;
        self.blocked_until_ms = None;
        if let Some(work) = &mut self.work {
            if work.session.takes_reply() {
                work.out.extend_from_slice(&reply);
            }
            let next = work.requests.position() + 1;
            work.requests.set_position(next);
            work.end = End::Done;
        }
        self.after_execution(server);
    }

    /// The pause is over that held the client's command back.
    pub(crate) fn end_pause(&mut self) {
        if self.stage == Stage::Paused {
            self.stage = Stage::Open;
        }
    }

    /// Sends a message, which answers no request.
    pub(crate) fn push(&mut self, message: Arc<[u8]>, server: &Server) {
        self.enforce_push_limit(server);
        if self.stage == Stage::Closed {
            return;
        }
        // Behind the replies of what is being executed, and never within one.
        if self.stage == Stage::Away {
            self.output.defer(message);
        } else {
            self.output.push(message);
        }
        self.enforce_output_limit(server);
    }

    /// Gives up what the client holds of the server; the slow lane's part follows when it comes back. The
    /// client is told that nothing more comes.
    pub(crate) fn leave(&mut self, server: &Server) {
        self.count_backpressure(server);
        self.socket.end();
        if let Some(work) = &mut self.work {
            work.session.leave(server);
        }
    }

    /// Whether the client has sent nothing since a time in milliseconds since 1970, and waits for nothing.
    pub(crate) fn is_idle_since(&self, since_ms: u64) -> bool {
        let waits = |work: &Work| work.session.is_subscribed() || work.session.is_monitor;
        self.stage == Stage::Open
            && self.client.active_ms.load(Ordering::Relaxed) < since_ms
            && self.work.as_ref().is_some_and(|work| !waits(work))
    }

    /// Ends the connection without further replies.
    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
    }

    /// Whether the connection is to be removed.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Whether replies wait for a flush.
    pub(crate) fn holds_replies(&self) -> bool {
        self.output.holds_replies()
    }
}
