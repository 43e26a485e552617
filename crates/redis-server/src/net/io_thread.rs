//! An I/O thread: a loop over its sockets and its inbox.

use super::connection::{Connection, Need};
use super::inbox::{Inbox, Letter};
use super::slow_lane::SlowLane;
use super::socket::Socket;
use super::tls_socket::HANDSHAKE_LIMIT;
use crate::clients::{Mailbox, Message};
use crate::execute::group::{Executor, Mode};
use crate::server::Server;
use crate::session::Session;
use crate::statistics::add;
use crate::stop::Stop;
use esker::parts::env::Clock;
use mio::{Events, Poll, Token};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The token of the inbox.
pub(crate) const INBOX: Token = Token(usize::MAX);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Events that are taken at once.
const EVENTS: usize = 1024;

/// The longest sleep: time limits of clients are looked at so often.
const TICK: Duration = Duration::from_millis(10);

/// TLS handshakes that go on in one turn. One takes up to a millisecond, with a key of RSA, and other clients
/// wait meanwhile.
const HANDSHAKES_AT_ONCE: usize = 4;

/// How often clients are looked for that have sent nothing for too long: `timeout` is in seconds.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Which connection has a client, without randomness in the order of anything.
type PlaceOfClient = HashMap<u64, usize, foldhash::fast::FixedState>;

/// The state of an I/O thread.
pub(crate) struct IoThread<'s> {
    server: &'s Server,
    poll: Poll,
    inbox: Arc<Inbox>,
    lane: &'s SlowLane,
    executor: Executor<'s>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    places: PlaceOfClient,
    scratch: Vec<u8>,
    /// Connections that have more to do.
    again: Vec<usize>,
    /// Connections whose TLS handshake can go on.
    handshakes: VecDeque<usize>,
    /// Connections whose replies wait for a flush.
    holders: Vec<usize>,
    next_tick_ns: u64,
    next_idle_look_ns: u64,
    /// When the last replies must have been taken, once the server stops.
    stops_at_ns: Option<u64>,
}

impl<'s> IoThread<'s> {
    pub(crate) fn new(server: &'s Server, poll: Poll, inbox: Arc<Inbox>, lane: &'s SlowLane) -> Self {
        Self {
            server,
            poll,
            inbox,
            lane,
            executor: Executor::new(server),
            connections: Vec::new(),
            free: Vec::new(),
            places: PlaceOfClient::default(),
            scratch: vec![0; READ_BYTES],
            again: Vec::new(),
            handshakes: VecDeque::new(),
            holders: Vec::new(),
            next_tick_ns: 0,
            next_idle_look_ns: 0,
            stops_at_ns: None,
        }
    }

    /// Serves its connections until `stop` is set, and then until what was received is answered, or the time
    /// for that is over.
    pub(crate) fn run(&mut self, stop: &Stop) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.is_finished(stop) {
            let has_work = !self.again.is_empty() || !self.handshakes.is_empty();
            let limit = if has_work { Duration::ZERO } else { TICK };
            match self.poll.poll(&mut events, Some(limit)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                if event.token() == INBOX {
                    self.open_letters();
                } else if let Some(Some(connection)) = self.connections.get_mut(event.token().0) {
                    connection.note_ready(event);
                    if connection.is_handshaking() {
                        self.handshakes.push_back(event.token().0);
                    } else {
                        self.advance(event.token().0);
                    }
                }
            }
            for place in std::mem::take(&mut self.again) {
                self.advance(place);
            }
            for _ in 0..HANDSHAKES_AT_ONCE.min(self.handshakes.len()) {
                self.handshakes.pop_front().into_iter().for_each(|place| self.advance(place));
            }
            let now_ns = self.server.clock.monotonic_ns();
            if now_ns >= self.next_tick_ns {
                self.next_tick_ns = now_ns + TICK.as_nanos() as u64;
                self.end_waits();
                if now_ns >= self.next_idle_look_ns {
                    self.next_idle_look_ns = now_ns + IDLE_LOOK.as_nanos() as u64;
                    self.close_idle();
                    self.close_handshakes(now_ns);
                    self.close_full();
                }
            }
            self.serve_waiting();
        }
        for place in 0..self.connections.len() {
            self.remove(place);
        }
        Ok(())
    }

    /// Whether the server stops and nothing is left to do. The first call after the stop ends the reading.
    fn is_finished(&mut self, stop: &Stop) -> bool {
        if !stop.is_set() {
            return false;
        }
        let now_ns = self.server.clock.monotonic_ns();
        match self.stops_at_ns {
            Some(stops_at_ns) => self.places.is_empty() || now_ns >= stops_at_ns,
            None => {
                let seconds = self.server.config.number("shutdown-timeout").max(0) as u64;
                self.stops_at_ns = Some(now_ns.saturating_add(seconds.saturating_mul(1_000_000_000)));
                for place in 0..self.connections.len() {
                    self.finish(place);
                }
                self.places.is_empty()
            }
        }
    }

    fn finish(&mut self, place: usize) {
        if let Some(connection) = &mut self.connections[place] {
            connection.finish(&mut self.scratch, self.server);
            self.advance(place);
        }
    }

    fn advance(&mut self, place: usize) {
        let Some(Some(connection)) = self.connections.get_mut(place) else { return };
        let need = connection.advance(&mut self.executor, &mut self.scratch);
        if connection.holds_replies() && !self.holders.contains(&place) {
            self.holders.push(place);
        }
        match need {
            Need::Nothing => {}
            Need::Again => self.again.push(place),
            Need::Remove => self.remove(place),
            Need::SlowLane(work) => self.lane.push(connection.client.id, work, &self.inbox, self.server),
        }
    }

    fn open_letters(&mut self) {
        for letter in self.inbox.take() {
            match letter {
                Letter::Connected(socket) => self.connect(socket),
                Letter::Message(client, message) => {
                    let Some(&place) = self.places.get(&client) else { continue };
                    let Some(connection) = &mut self.connections[place] else { continue };
                    match message {
                        Message::WaitOver(reply) => connection.end_wait(reply, self.server),
                        Message::Push(bytes) => connection.push(bytes, self.server),
                        Message::PauseOver => connection.end_pause(),
                        Message::Close => connection.close(),
                    }
                    self.advance(place);
                }
                Letter::Executed(client, mut work) => {
                    let Some(&place) = self.places.get(&client) else {
                        // Its wait, if it has begun one, was refused: the client was marked as gone before.
                        work.session.leave(self.server);
                        continue;
                    };
                    let Some(connection) = &mut self.connections[place] else { continue };
                    connection.come_back(work, self.server);
                    self.advance(place);
                }
            }
        }
        // A flush ended, perhaps.
        for place in std::mem::take(&mut self.holders) {
            self.advance(place);
        }
    }

    fn connect(&mut self, mut socket: Socket) {
        let place = self.free.pop().unwrap_or(self.connections.len());
        if socket.register(self.poll.registry(), Token(place)).is_err() {
            self.free.push(place);
            self.inbox.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mailbox: Arc<dyn Mailbox> = Arc::<Inbox>::clone(&self.inbox);
        let (address, local) = (socket.address(), socket.local_address());
        let client = self.server.clients.add(address, local, self.server.now_ms(), mailbox);
        let mut session = Session::new(client.id, None);
        session.set_account(self.server, self.server.access.of_new_client());
        self.places.insert(client.id, place);
        let mut connection = Connection::new(socket, client, session);
        let is_handshaking = connection.is_handshaking();
        if is_handshaking {
            let limit_ns = HANDSHAKE_LIMIT.as_nanos() as u64;
            connection.end_handshake_by(self.server.clock.monotonic_ns().saturating_add(limit_ns));
        }
        if place == self.connections.len() {
            self.connections.push(Some(connection));
        } else {
            self.connections[place] = Some(connection);
        }
        if self.stops_at_ns.is_some() {
            self.finish(place);
        } else if is_handshaking {
            self.handshakes.push_back(place);
        } else {
            self.advance(place);
        }
    }

    fn remove(&mut self, place: usize) {
        let Some(mut connection) = self.connections[place].take() else { return };
        add(&self.server.statistics.failed_tls_handshakes, connection.is_handshaking().into());
        connection.leave(self.server);
        // It fails only for a socket that is gone.
        let _result = connection.socket().deregister(self.poll.registry());
        self.places.remove(&connection.client.id);
        self.server.disconnected(&connection.client);
        self.inbox.connections.fetch_sub(1, Ordering::Relaxed);
        self.free.push(place);
    }

    /// Serves the clients of keys that threads changed which do not serve any, and has others served that
    /// this thread would have to wait for.
    fn serve_waiting(&mut self) {
        if self.server.waiting.has_ready() {
            self.executor.serve_ready(Mode::Resident);
        }
        if self.server.waiting.has_postponed() {
            self.lane.serve_waiting();
        }
    }

    /// Closes connections whose clients have sent nothing for as long as `timeout` says; zero is for ever.
    fn close_idle(&mut self) {
        let timeout_ms = self.server.config.number("timeout").max(0) as u64 * 1000;
        if timeout_ms == 0 {
            return;
        }
        let since_ms = self.server.now_ms().saturating_sub(timeout_ms);
        for place in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get(place) else { continue };
            if connection.is_idle_since(since_ms) {
                self.remove(place);
            }
        }
    }

    /// Closes connections whose clients have not finished the TLS handshake in time.
    fn close_handshakes(&mut self, now_ns: u64) {
        for place in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get(place) else { continue };
            if connection.is_handshake_overdue(now_ns) {
                connection.log_tls_error(&format!("it took more than {HANDSHAKE_LIMIT:?}"));
                self.remove(place);
            }
        }
    }

    /// Closes connections whose clients have had too much output for too long.
    fn close_full(&mut self) {
        for place in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            connection.count_backpressure(self.server);
            connection.enforce_output_limit(self.server);
            if connection.is_closed() {
                self.remove(place);
            }
        }
    }

    /// Ends waits whose time is up, and a pause.
    fn end_waits(&mut self) {
        self.server.end_pause_if_over();
        if !self.server.waiting.is_used() {
            return;
        }
        let now_ms = self.server.now_ms();
        for place in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get(place) else { continue };
            if connection.blocked_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
                self.server.time_is_up(connection.client.id);
            }
        }
    }
}
