//! Listening: accepts connections, shares them out among the I/O threads, and stops.

use super::inbox::{Inbox, Letter};
use super::io_thread::{INBOX, IoThread};
use super::listen_error::ListenError;
use super::slow_lane::SlowLane;
use super::socket::Socket;
use super::tcp_listener::{self, TcpAddress};
use super::tls_socket::TlsSocket;
use super::unix_listener::{self, BoundUnix, UnixAddress};
use crate::server::Server;
use crate::statistics::add;
use crate::stop::Stop;
use esker_redis_store::notifications::Told;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, ErrorKind};
use std::iter::repeat;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

const STOP: Token = Token(0);
/// Listeners have this token and those behind it.
pub(super) const FIRST_LISTENER: usize = 1;

/// Pause after the process had no descriptor for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The stack of a thread that executes commands. Scripts nest deepest: 200 calls of C functions, within them
/// 2,000 steps of a pattern or 1,000 arrays of a text. All at once takes 1 MiB with little optimisation;
/// frames of builds without any, or with a sanitizer, are several times as large. Only what is used takes
/// memory.
const COMMAND_STACK_BYTES: usize = 8 << 20;

/// Where and how a server listens.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// The TCP addresses of plain connections.
    pub tcp: Vec<TcpAddress>,
    /// The TCP addresses of connections with TLS, which [`Server::load_tls`] prepares.
    pub tls: Vec<TcpAddress>,
    /// A Unix socket.
    pub unix: Option<UnixAddress>,
    /// Connections that wait to be accepted, at most: `tcp-backlog`.
    pub backlog: i32,
    /// Threads that serve connections. Default: one for each two cores, at least one; the engine's background
    /// work takes the rest.
    pub io_threads: usize,
    /// Threads that execute what must wait for a device or for a stall; if they are several, a quarter of
    /// them only reads. Default: 16, whose reads keep a drive busy.
    pub slow_threads: usize,
}

impl Default for ListenConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            tcp: vec![SocketAddr::from(([127, 0, 0, 1], 6379)).into()],
            tls: Vec::new(),
            unix: None,
            backlog: 511,
            io_threads: (cores / 2).clamp(1, 16),
            slow_threads: 16,
        }
    }
}

/// A bound server, before it accepts.
#[derive(Debug)]
pub struct Listener {
    pub(super) config: ListenConfig,
    pub(super) poll: Poll,
    pub(super) tcp: Vec<TcpListener>,
    pub(super) tls: Vec<TcpListener>,
    unix: Option<BoundUnix>,
    stop: Stop,
}

impl Listener {
    /// Binds the sockets.
    ///
    /// # Errors
    /// The first address or path that cannot be listened on.
    pub fn bind(config: ListenConfig) -> Result<Self, ListenError> {
        let failed = |source| ListenError { place: "any address".to_owned(), source };
        let poll = Poll::new().map_err(failed)?;
        let stop = Stop::new(Waker::new(poll.registry(), STOP).map_err(failed)?);
        let bind_all = |wanted: &[TcpAddress]| -> Result<Vec<TcpListener>, ListenError> {
            let mut bound = Vec::new();
            for &address in wanted {
                bound.extend(tcp_listener::bind(address, config.backlog)?);
            }
            Ok(bound)
        };
        let (mut tcp, mut tls) = (bind_all(&config.tcp)?, bind_all(&config.tls)?);
        let mut unix = config.unix.as_ref().map(unix_listener::bind).transpose()?;
        for (listener, place) in tcp.iter_mut().chain(&mut tls).zip(FIRST_LISTENER..) {
            poll.registry().register(listener, Token(place), Interest::READABLE).map_err(failed)?;
        }
        if let Some(unix) = &mut unix {
            let token = Token(FIRST_LISTENER + tcp.len() + tls.len());
            poll.registry().register(&mut unix.listener, token, Interest::READABLE).map_err(failed)?;
        }
        Ok(Self { config, poll, tcp, tls, unix, stop })
    }

    /// The TCP addresses of plain connections that are listened on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(TcpListener::local_addr).collect()
    }

    /// The TCP addresses of connections with TLS that are listened on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn tls_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tls.iter().map(TcpListener::local_addr).collect()
    }

    /// The path of the Unix socket that is listened on.
    pub fn unix_path(&self) -> Option<&Path> {
        self.config.unix.as_ref().map(|unix| unix.path.as_path())
    }

    /// What stops the server.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Those of the system's polling; the server has stopped then. There are TLS addresses, and the server
    /// has no certificate yet.
    pub fn serve(mut self, server: &Server) -> io::Result<()> {
        if !self.tls.is_empty() && server.tls().is_none() {
            return Err(io::Error::other("the server has no certificate for its TLS addresses"));
        }
        let port = |addresses: Vec<SocketAddr>| addresses.first().map_or(0, SocketAddr::port);
        server.note_listening(port(self.addresses()?), port(self.tls_addresses()?), self.stop.clone());
        // A server that was not configured has the default.
        server.fit_max_clients();
        let mut inboxes = Vec::new();
        let mut polls = Vec::new();
        for _ in 0..self.config.io_threads.max(1) {
            let poll = Poll::new()?;
            inboxes.push(Arc::new(Inbox::new(Waker::new(poll.registry(), INBOX)?)));
            polls.push(poll);
        }
        let (lane, stop) = (SlowLane::new(self.config.slow_threads), self.stop.clone());
        server.scripting.set_closing(false);
        server.rebinding.set_listening(true);
        std::thread::scope(|scope| {
            let mut io_threads = Vec::new();
            let threads = Threads { server, lane: &lane, stop: &stop, inboxes: &inboxes };
            let accepted = threads
                .spawn(scope, polls, self.config.slow_threads, &mut io_threads)
                .and_then(|()| self.accept_all(&inboxes, server));
            server.rebinding.set_listening(false);
            // The sockets go first: clients that come now are told at once that nothing listens.
            self.tcp.clear();
            self.tls.clear();
            self.unix = None;
            self.stop.stop();
            server.scripting.set_closing(true);
            inboxes.iter().for_each(|inbox| inbox.wake());
            // What clients wait for may need the other threads.
            let ended: Vec<_> = io_threads.into_iter().map(ScopedJoinHandle::join).collect();
            lane.close();
            server.flusher.close();
            server.background.close();
            server.checkpoints.close();
            let ended = ended.into_iter().map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)));
            ended.fold(accepted, Result::and)
        })
    }

    fn accept_all(&mut self, inboxes: &[Arc<Inbox>], server: &Server) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let mut pause = None;
        while !self.stop.is_set() {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                polled => polled?,
            }
            let keepalive = Duration::from_secs(server.config.number("tcp-keepalive").max(0) as u64);
            let share_out = |socket| share_out(socket, inboxes, server);
            let mut has_failed = false;
            for (listener, has_tls) in
                self.tcp.iter().zip(repeat(false)).chain(self.tls.iter().zip(repeat(true)))
            {
                has_failed |= accept_from(
                    || listener.accept(),
                    |(stream, _)| {
                        tcp_listener::prepare(&stream, keepalive);
                        let socket =
                            if has_tls { with_tls(stream, server) } else { Some(Socket::Tcp(stream)) };
                        socket.into_iter().for_each(share_out);
                    },
                );
            }
            if let Some(unix) = &self.unix {
                has_failed |=
                    accept_from(|| unix.listener.accept(), |(stream, _)| share_out(Socket::Unix(stream)));
            }
            // What was not accepted is not reported anew.
            pause = has_failed.then_some(ACCEPT_PAUSE);
            if let Some(addresses) = server.rebinding.asked() {
                server.rebinding.answer(self.rebind(server, &addresses));
            }
        }
        Ok(())
    }
}

/// A connection that begins with a handshake, under the certificates of this moment.
fn with_tls(stream: TcpStream, server: &Server) -> Option<Socket> {
    match TlsSocket::new(stream, server.tls()?.current()) {
        Ok(socket) => Some(Socket::Tls(Box::new(socket))),
        Err(error) => {
            tracing::error!("a connection with TLS cannot be accepted: {error}");
            None
        }
    }
}

/// Accepts what waits. Whether that failed, because the process has no descriptor left, say.
fn accept_from<S>(accept: impl Fn() -> io::Result<S>, mut take: impl FnMut(S)) -> bool {
    loop {
        match accept() {
            Ok(accepted) => take(accepted),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// What the threads of a server that listens share.
struct Threads<'s> {
    server: &'s Server,
    lane: &'s SlowLane,
    stop: &'s Stop,
    inboxes: &'s [Arc<Inbox>],
}

impl<'s> Threads<'s> {
    /// Starts all threads; those that have been started run on if one cannot be.
    fn spawn<'scope>(
        self,
        scope: &'scope Scope<'scope, 's>,
        polls: Vec<Poll>,
        slow_threads: usize,
        io_threads: &mut Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
    ) -> io::Result<()> {
        let Self { server, lane, stop, inboxes } = self;
        for (number, (poll, inbox)) in polls.into_iter().zip(inboxes).enumerate() {
            let inbox = Arc::clone(inbox);
            let serve = move || IoThread::new(server, poll, inbox, lane).run(stop);
            io_threads.push(named(&format!("redis-io-{number}")).spawn_scoped(scope, serve)?);
        }
        for number in 0..slow_threads.max(1) {
            named(&format!("redis-slow-{number}")).spawn_scoped(scope, || lane.run(server))?;
        }
        named("redis-flush").spawn_scoped(scope, move || {
            let flushed = |succeeded| {
                server.note_flush(succeeded);
                inboxes.iter().for_each(|inbox| inbox.wake());
            };
            server.flusher.run(&server.store, &server.clock, &|| server.flushes_every_second(), &flushed);
        })?;
        named("redis-expiry").spawn_scoped(scope, || {
            let (interest, touch) = (|| server.interest(), |told: &Told| server.touch(told, 0));
            // A thread of connections serves the clients that wait for it.
            let tell = |told: &Told| {
                server.after_commit(told);
            };
            let sweep = |sweep: &dyn Fn() -> u64| {
                server.look_at_rates();
                server.time_sweep(sweep)
            };
            server.background.run(&server.store, &interest, &touch, &tell, &sweep);
        })?;
        named("redis-checkpoint").spawn_scoped(scope, || server.checkpoints.run(server.store.database()))?;
        Ok(())
    }
}

/// A thread that may execute commands.
fn named(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned()).stack_size(COMMAND_STACK_BYTES)
}

fn share_out(mut socket: Socket, inboxes: &[Arc<Inbox>], server: &Server) {
    add(&server.statistics.connections, 1);
    let max_clients = server.max_clients.load(Ordering::Relaxed) as usize;
    let connections = |inbox: &Arc<Inbox>| inbox.connections.load(Ordering::Relaxed);
    if inboxes.iter().map(connections).sum::<usize>() >= max_clients {
        add(&server.statistics.refused_connections, 1);
        // The client may be gone already. One with TLS is told nothing, as in Redis: there was no handshake.
        if !socket.is_handshaking() {
            let _result = socket.write(b"-ERR max number of clients reached\r\n");
        }
        return;
    }
    if let Some(inbox) = inboxes.iter().min_by_key(|inbox| connections(inbox)) {
        inbox.connections.fetch_add(1, Ordering::Relaxed);
        inbox.send(Letter::Connected(socket));
    }
}
