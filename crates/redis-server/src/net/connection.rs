//! A connection: bytes become requests, requests become replies, replies become bytes.

use super::socket::Socket;
use crate::client_line::write_line;
use crate::clients::{Client, Shown, shown_address};
use crate::config::buffer_limits::ClientClass;
use crate::execute::group::{End, Executor, Mode, OUTPUT_HIGH_BYTES};
use crate::execute::requests::Requests;
use crate::server::Server;
use crate::session::{Session, ShownVersion};
use crate::statistics::add;
use esker::SeqNo;
use esker::parts::env::Clock;
use mio::event::Event;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Unsent bytes down to which a client must take replies before its requests are executed again.
const OUTPUT_LOW_BYTES: usize = 64 << 10;

/// Unsent bytes beyond which a client that gets messages is disconnected, if its class has no limit and it
/// subscribes to nothing: invalidations and lines of MONITOR cannot be held back.
const MAX_PUSHED_BYTES: usize = 32 << 20;

/// Unsent bytes that do not count for `client-output-buffer-limit`: Redis has a buffer of this size for each
/// client, and counts what does not fit.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// Bytes of buffers that a client without requests keeps: 10,000 idle clients take 40 MiB at most.
const KEPT_BYTES: usize = 2 << 10;

/// Bytes that are received and not executed, beyond which nothing is read while the client has to wait.
const WAITING_INPUT_BYTES: usize = 64 << 10;

/// Reads of a connection when the server stops: 1 MiB, more than a system keeps for a client by default.
const LAST_READS: usize = 16;

/// What executing requests needs and changes. It goes to the slow lane and comes back.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) session: Session,
    pub(crate) requests: Requests,
    pub(crate) out: Vec<u8>,
    /// How the last execution ended.
    pub(crate) end: End,
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
            error.write_reply(&mut self.out);
            self.session.closes_after_reply = true;
        }
    }
}

/// Where a connection stands.
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

/// Bytes to send, some of them shared with other clients.
#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A connection of an I/O thread.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    pub(crate) client: Arc<Client>,
    /// `None` while the slow lane has it.
    work: Option<Box<Work>>,
    stage: Stage,
    /// Replies that wait until the device has everything up to these numbers.
    held: VecDeque<(SeqNo, Vec<u8>)>,
    held_bytes: usize,
    /// Replies to send, and how many bytes of the first are sent.
    unsent: VecDeque<Piece>,
    sent_of_first: usize,
    unsent_bytes: usize,
    /// Whether the socket may have bytes to read, and room for bytes to write.
    is_readable: bool,
    is_writable: bool,
    /// Whether the client has closed its side; what it sent before may still have to be read.
    is_read_closed: bool,
    /// Whether nothing more is to be read.
    has_ended: bool,
    /// Messages of channels that came while the slow lane had the work.
    pushes: Vec<Arc<[u8]>>,
    pushes_bytes: usize,
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
        let work = Work { session, requests: Requests::default(), out: Vec::new(), end: End::Done };
        Self {
            socket,
            client,
            work: Some(Box::new(work)),
            stage: Stage::Open,
            held: VecDeque::new(),
            held_bytes: 0,
            unsent: VecDeque::new(),
            sent_of_first: 0,
            unsent_bytes: 0,
            is_readable: true,
            is_writable: true,
            is_read_closed: false,
            has_ended: false,
            pushes: Vec::new(),
            pushes_bytes: 0,
            is_subscriber: false,
            over_soft_since_ms: None,
            blocked_until_ms: None,
            held_back_since_ns: None,
            early_reply: None,
            handshake_ends_ns: None,
            shown_version: None,
        }
    }

    /// Sets when the TLS handshake must be over.
    pub(crate) fn end_handshake_by(&mut self, time_ns: u64) {
        self.handshake_ends_ns = Some(time_ns);
    }

    /// Whether the TLS handshake is not over.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.socket.is_handshaking()
    }

    /// Whether the TLS handshake should be over by now and is not.
    pub(crate) fn is_handshake_overdue(&self, now_ns: u64) -> bool {
        self.handshake_ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) && self.is_handshaking()
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// What is reported of the socket.
    pub(crate) fn note_ready(&mut self, event: &Event) {
        self.is_read_closed |= event.is_read_closed();
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_writable |= event.is_writable();
    }

    /// Reads, executes and writes as far as that is possible without waiting.
    pub(crate) fn advance(&mut self, executor: &mut Executor<'_>, scratch: &mut [u8]) -> Need {
        let server = executor.server();
        if self.wants_input() && self.is_readable {
            self.read(scratch, server);
        }
        let mut must_wait = false;
        if self.stage == Stage::Open
            && self.unsent_bytes <= OUTPUT_HIGH_BYTES
            && let Some(work) = &mut self.work
        {
            work.execute(executor, Mode::Resident);
            must_wait = self.after_execution(server);
        }
        self.release_durable(server);
        self.write(server);
        self.count_backpressure(server);
        if must_wait && let Some(work) = self.work.take() {
            self.stage = Stage::Away;
            return Need::SlowLane(work);
        }
        let is_idle = self.unsent_bytes == 0 && self.held.is_empty() && !self.socket.has_unsent();
        let closes = self.work.as_ref().is_some_and(|work| work.session.closes_after_reply);
        if self.stage == Stage::Closed || (closes && is_idle) || (self.has_ended && self.is_over(is_idle)) {
            return Need::Remove;
        }
        // What was left unread, also while the client had to wait, is not reported anew.
        let can_read = self.is_readable && self.wants_input();
        if can_read || self.can_go_on() { Need::Again } else { Need::Nothing }
    }

    /// Whether the client is not read or served before it takes replies, or because it has sent too much
    /// behind a command that waits.
    fn is_held_back(&self) -> bool {
        let takes_too_little = self.unsent_bytes > OUTPUT_HIGH_BYTES;
        match (&self.stage, &self.work) {
            (Stage::Open, Some(work)) => {
                takes_too_little || (work.end == End::OutputFull && self.unsent_bytes > OUTPUT_LOW_BYTES)
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

    /// Whether nothing is left to do for a client that sends nothing any more.
    fn is_over(&self, is_idle: bool) -> bool {
        match self.stage {
            Stage::Away => false,
            Stage::Blocked => true,
            Stage::Paused => is_idle,
            Stage::Open | Stage::Closed => is_idle && !self.can_go_on(),
        }
    }

    /// Whether execution stopped at full output that has been taken meanwhile, or for a pause that is over.
    fn can_go_on(&self) -> bool {
        let stopped =
            self.work.as_ref().is_some_and(|work| matches!(work.end, End::OutputFull | End::Paused));
        self.stage == Stage::Open && stopped && self.unsent_bytes <= OUTPUT_LOW_BYTES
    }

    fn wants_input(&self) -> bool {
        let has_room = match (&self.stage, &self.work) {
            (Stage::Open, Some(work)) => work.end == End::Done && !work.session.closes_after_reply,
            // An end of the connection is noticed even while it waits.
            (Stage::Blocked | Stage::Paused, Some(work)) => {
                work.requests.waiting_bytes() < WAITING_INPUT_BYTES
            }
            _ => false,
        };
        has_room && self.unsent_bytes <= OUTPUT_HIGH_BYTES && !self.has_ended
    }

    /// Reads once. `is_readable` says afterwards whether there may be more.
    fn read(&mut self, scratch: &mut [u8], server: &Server) {
        let Some(work) = &mut self.work else { return };
        match self.socket.read(scratch, work.requests.input()) {
            Ok(received) => {
                add(&server.statistics.socket_reads, 1);
                add(&server.statistics.received_bytes, received.input_bytes as u64);
                add(&server.statistics.tls_handshakes, received.ends_handshake.into());
                // CLIENT LIST tells it while the command is executed.
                self.client.query_bytes.store(work.requests.waiting_bytes() as u64, Ordering::Relaxed);
                // A short read has emptied the socket; what comes later is reported anew, but not an end that
                // has been reported.
                self.is_readable = received.socket_bytes == scratch.len() || self.is_read_closed;
                if received.is_end {
                    (self.has_ended, self.is_readable) = (true, false);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                if self.handshake_ends_ns.is_some() {
                    self.log_tls_error(&error);
                }
                self.stage = Stage::Closed;
            }
        }
    }

    /// Logs why a connection with TLS ends, which its client may have meant otherwise.
    pub(crate) fn log_tls_error(&self, reason: &dyn std::fmt::Display) {
        let what = if self.is_handshaking() { "handshake" } else { "connection" };
        tracing::debug!(
            "the TLS {what} of the client at {} failed: {reason}",
            shown_address(self.client.address)
        );
    }

    /// Takes replies over. Whether the slow lane must go on.
    fn after_execution(&mut self, server: &Server) -> bool {
        let Some(work) = &mut self.work else { return false };
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
            let needed = server.needed_durable();
            match needed {
                None if self.held.is_empty() => self.queue(Piece::Own(bytes)),
                needed => self.hold(needed.unwrap_or(SeqNo::ZERO), bytes),
            }
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

    fn hold(&mut self, needed: SeqNo, bytes: Vec<u8>) {
        self.held_bytes += bytes.len();
        self.held.push_back((needed, bytes));
    }

    fn queue(&mut self, piece: Piece) {
        self.unsent_bytes += piece.bytes().len();
        self.unsent.push_back(piece);
    }

    /// Moves replies on that are durable by now.
    fn release_durable(&mut self, server: &Server) {
        while let Some((needed, _)) = self.held.front() {
            if *needed > server.store.database().durable_seqno() {
                server.flusher.ask();
                return;
            }
            if let Some((_, bytes)) = self.held.pop_front() {
                self.held_bytes -= bytes.len();
                self.queue(Piece::Own(bytes));
            }
        }
    }

    fn write(&mut self, server: &Server) {
        if self.is_writable
            && self.socket.has_unsent()
            && let Err(error) = self.socket.flush()
        {
            self.note_write_error(&error);
        }
        while self.is_writable && self.stage != Stage::Closed && !self.socket.is_handshaking() {
            let Some(first) = self.unsent.front() else { break };
            match self.socket.write(&first.bytes()[self.sent_of_first..]) {
                Ok(count) => {
                    add(&server.statistics.socket_writes, 1);
                    add(&server.statistics.sent_bytes, count as u64);
                    self.sent_of_first += count;
                    self.unsent_bytes -= count;
                    if self.sent_of_first == first.bytes().len() {
                        self.unsent.pop_front();
                        self.sent_of_first = 0;
                    }
                }
                Err(error) => self.note_write_error(&error),
            }
        }
        self.client.output_bytes.store(self.output_bytes() as u64, Ordering::Relaxed);
    }

    /// Bytes that wait to be sent.
    fn output_bytes(&self) -> usize {
        self.unsent_bytes + self.held_bytes + self.pushes_bytes
    }

    /// Ends the connection if more waits to be sent than `client-output-buffer-limit` lets its class have.
    pub(crate) fn enforce_output_limit(&mut self, server: &Server) {
        let class = if self.is_subscriber { ClientClass::PubSub } else { ClientClass::Normal };
        let (limit, bytes) =
            (server.output_limits.of(class), self.output_bytes().saturating_sub(UNCOUNTED_BYTES) as u64);
        let is_beyond = |limit_bytes| limit_bytes > 0 && bytes >= limit_bytes;
        let mut is_over = is_beyond(limit.hard_bytes);
        if is_beyond(limit.soft_bytes) {
            let now_ms = server.now_ms();
            let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
            is_over |= now_ms.saturating_sub(since_ms) > limit.soft_s * 1000;
        } else {
            self.over_soft_since_ms = None;
        }
        if is_over && self.stage != Stage::Closed {
            self.close_for_output(server);
        }
    }

    #[cold]
    fn close_for_output(&mut self, server: &Server) {
        self.stage = Stage::Closed;
        let mut line = Vec::new();
        self.client.output_bytes.store(self.output_bytes() as u64, Ordering::Relaxed);
        write_line(&self.client, &self.client.shown.lock(), server.now_ms(), &mut line);
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        tracing::warn!("Client {line} scheduled to be closed ASAP for overcoming of output buffer limits.");
    }

    fn note_write_error(&mut self, error: &io::Error) {
        match error.kind() {
            ErrorKind::WouldBlock => self.is_writable = false,
            ErrorKind::Interrupted => {}
            _ => self.stage = Stage::Closed,
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
        self.pushes_bytes = 0;
        for bytes in std::mem::take(&mut self.pushes) {
            self.push(bytes, server);
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

    /// Bytes that answer no request.
    pub(crate) fn push(&mut self, bytes: Arc<[u8]>, server: &Server) {
        let is_limited = self.is_subscriber || server.output_limits.of(ClientClass::Normal).hard_bytes > 0;
        if !is_limited && self.output_bytes() > MAX_PUSHED_BYTES {
            self.close_for_output(server);
        }
        if self.stage == Stage::Closed {
            return;
        }
        // Behind the replies of what is being executed, and never within one.
        if self.stage == Stage::Away {
            self.pushes_bytes += bytes.len();
            self.pushes.push(bytes);
        } else if let Some((needed, _)) = self.held.back() {
            let needed = *needed;
            self.hold(needed, bytes.to_vec());
        } else {
            self.queue(Piece::Shared(bytes));
        }
        self.enforce_output_limit(server);
    }

    /// Reads what has been received for the last time. The connection ends when that is answered.
    pub(crate) fn finish(&mut self, scratch: &mut [u8], server: &Server) {
        for _ in 0..LAST_READS {
            if self.work.is_some() && self.is_readable && !self.has_ended {
                self.read(scratch, server);
            }
        }
        self.has_ended = true;
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
        !self.held.is_empty()
    }
}
