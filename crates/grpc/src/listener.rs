//! Listener: accepts clients, and stops in bounded time.

use crate::access::Access;
use crate::config::Config;
use crate::connection;
use crate::dispatch::Dispatch;
use crate::error::ServeError;
use crate::pools::{ADMIN_PERMITS, PERMITS};
use crate::shared::Shared;
use crate::stop::Stop;
use esker::Database;
use esker_tls::{Acceptor, Tls};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic_health::ServingStatus;

/// Wait after the system had no file descriptor for one more client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for threads inside the database at the end.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// Handshakes of TLS at once; one more ends the oldest. At a millisecond of a core each that is a backlog of
/// an eighth of a second, and it leaves seven eighths of the connections to clients that are through.
const HANDSHAKES: usize = 128;

/// The name of HTTP/2 in a handshake.
const PROTOCOL: &[u8] = b"h2";

/// A socket that listens, and clients that wait until they are served.
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    config: Config,
    tls: Option<Arc<Tls>>,
    stop: Stop,
}

impl Listener {
    /// Listens on the address of the configuration; no client is served yet.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn bind(config: Config) -> Result<Listener, ServeError> {
        let address = config.address;
        let listen = || {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = listen().map_err(|source| ServeError::Listen { address, source })?;
        Ok(Listener { socket, config, tls: None, stop: Stop::default() })
    }

    /// Lets clients in by TLS only, each under the certificates of its moment.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Listener {
        Listener { tls: Some(tls), ..self }
    }

    /// The address, which matters when the system chose the port.
    ///
    /// # Errors
    /// [`ServeError::Start`].
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        self.socket.local_addr().map_err(ServeError::Start)
    }

    /// What stops the server.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves `database` to callers that `access` knows, until it is told to stop. Calls that have begun are
    /// finished then, unless that takes longer than [`Config::grace`]; streams are ended. The database stays
    /// open.
    ///
    /// # Errors
    /// [`ServeError`]: nothing was served then.
    pub fn serve(self, database: &Database, access: Arc<dyn Access>) -> Result<(), ServeError> {
        let address = self.address()?;
        if !address.ip().is_loopback() && access.is_open() {
            return Err(ServeError::Unprotected { address });
        }
        let Listener { socket, config, tls, stop } = self;
        let acceptor = tls.map(|tls| Acceptor::new(tls, PROTOCOL, b"", HANDSHAKES));
        // Permits, a thread for each stream of changes, and what opens connections and reads files.
        let threads = 2 * PERMITS + ADMIN_PERMITS + config.max_change_streams + 8;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("esker-grpc")
            .max_blocking_threads(threads)
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let shared = Shared::new(database.clone(), config, access, stop);
        let served = runtime.block_on(async {
            let listener = TcpListener::from_std(socket).map_err(ServeError::Start)?;
            tracing::info!(%address, has_tls = acceptor.is_some(), "listening for gRPC");
            run(listener, acceptor.map(Arc::new), shared).await;
            Ok(())
        });
        runtime.shutdown_timeout(THREADS_GRACE);
        served
    }
}

async fn run(listener: TcpListener, acceptor: Option<Arc<Acceptor>>, shared: Arc<Shared>) {
    let dispatch = Dispatch::new(&shared);
    dispatch.report(ServingStatus::Serving).await;
    let sweep = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move { shared.snapshots.sweep().await }
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shared.stop.stopped() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < shared.config.max_connections => {
                    // Without it a small answer waits for the acknowledgement of the one before.
                    let _result = stream.set_nodelay(true);
                    let (dispatch, shared) = (dispatch.clone(), Arc::clone(&shared));
                    match acceptor.clone() {
                        None => connections.spawn(connection::serve(stream, dispatch, shared)),
                        Some(acceptor) => {
                            connections.spawn(connection::serve_tls(stream, acceptor, dispatch, shared))
                        }
                    };
                }
                Ok((stream, peer)) => {
                    tracing::warn!(%peer, limit = shared.config.max_connections, "a client was refused");
                    drop(stream);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a client");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    dispatch.report(ServingStatus::NotServing).await;
    tracing::info!(connections = connections.len(), "gRPC is stopping");
    let all_left = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(shared.config.grace, all_left).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections cut off that took too long");
        connections.abort_all();
    }
    sweep.abort();
}
