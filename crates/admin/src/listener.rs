//! Listens, accepts connections within their bound, takes samples, and stops.

use crate::config::Config;
use crate::connection;
use crate::history::INTERVAL;
use crate::shared::Shared;
use crate::sources::Sources;
use crate::stop::Stop;
use esker_tls::{Acceptor, Tls};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Connections at a time: some scrapers, load balancers and browsers. Each holds a descriptor, the head of a
/// request and an answer at most.
pub const MAX_CONNECTIONS: usize = 64;

/// Handshakes of TLS at a time; one more ends the oldest. Clients that are through have the other
/// connections.
const HANDSHAKES: usize = MAX_CONNECTIONS / 4;

/// The name of HTTP/1.1 in a handshake.
const PROTOCOL: &[u8] = b"http/1.1";

/// What a client without TLS is told where it is needed.
const NO_TLS_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\
    Connection: close\r\n\r\n\
    {\"error\":\"this port takes clients with TLS only: ask it by https://\"}\n";

/// Reports that are made at a time (HA5). Two, so that one that waits for a lock does not hold up health;
/// each is some milliseconds of a core.
const REPORT_THREADS: usize = 2;

/// Wait after the process had no descriptor for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the end waits for threads within the database.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// A bound server, before it accepts.
#[derive(Debug)]
pub struct Listener {
    config: Config,
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    stop: Stop,
}

impl Listener {
    /// Binds the address. The caller has made sure that the configuration is not
    /// [unprotected](Config::is_unprotected) (HA1).
    ///
    /// # Errors
    /// Those of the system, and [`io::ErrorKind::PermissionDenied`] for an unprotected configuration.
    pub fn bind(config: Config) -> io::Result<Listener> {
        if config.is_unprotected() {
            let reason =
                format!("{} can be reached from other machines, which needs a token", config.address);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let socket = TcpListener::bind(config.address)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { config, socket, tls: None, stop: Stop::default() })
    }

    /// Lets clients in by TLS only, each under the certificates of its moment.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Listener {
        Listener { tls: Some(tls), ..self }
    }

    /// The address that is listened on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What stops the server.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Those of the system before the first connection is accepted.
    pub fn serve(self, sources: Sources) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .thread_name("esker-admin")
            .max_blocking_threads(REPORT_THREADS)
            .enable_all()
            .build()?;
        let Listener { config, socket, tls, stop } = self;
        let acceptor = tls.map(|tls| Arc::new(Acceptor::new(tls, PROTOCOL, NO_TLS_ANSWER, HANDSHAKES)));
        let shared = Shared::new(config, sources, stop);
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(socket)?;
            let sampling = tokio::spawn(sample(Arc::clone(&shared)));
            accept(&listener, acceptor.as_ref(), &shared).await;
            sampling.abort();
            Ok(())
        });
        runtime.shutdown_timeout(THREADS_GRACE);
        served
    }
}

/// Accepts connections until the server is stopped, then waits for those that are open; each ends in bounded
/// time.
async fn accept(listener: &tokio::net::TcpListener, acceptor: Option<&Arc<Acceptor>>, shared: &Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shared.stop.stopped() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(shared);
                    match acceptor.cloned() {
                        None => connections.spawn(connection::serve(stream, shared)),
                        Some(acceptor) => connections.spawn(connection::serve_tls(stream, acceptor, shared)),
                    };
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of the admin address");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Takes samples at an interval. One that is late is left out, and its time counts to the next one.
async fn sample(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let shared = Arc::clone(&shared);
        let taken = tokio::task::spawn_blocking(move || shared.history.sample(&shared.sources)).await;
        if let Err(failure) = taken {
            tracing::error!(%failure, "a sample failed");
        }
    }
}
