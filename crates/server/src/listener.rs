//! Accepts clients, and stops the server.

use crate::client_limit::most_clients;
use crate::config::Config;
use crate::connection::{Shared, refuse, talk};
use crate::dsl::Executor;
use crate::error::ServeError;
use esker::Database;
use esker::parts::env::host::open_files_limit;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Most refused clients that are being sent the reason at the same time.
const REFUSALS: usize = 64;

/// Wait after the system had no file descriptor for one more client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for threads inside the database at the end of the process.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// Serves `database` until `shutdown` completes, then closes it.
///
/// `ready` receives the address, which matters when the system chose the port. Every line that was received
/// before the end is executed and answered, unless that takes longer than [`Config::grace`]; everything
/// acknowledged is in the database.
///
/// # Errors
/// See [`ServeError`]. The database is closed in each case.
pub fn serve(
    config: Config,
    database: &Database,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let served = Listener::bind(config).and_then(|listener| listener.serve(database, ready, shutdown));
    let closed = database.close();
    served?;
    Ok(closed?)
}

/// A socket that listens, and clients that wait until they are served.
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    config: Config,
}

impl Listener {
    /// Listens on the address of the configuration; no client is served yet. An address that is in use is
    /// noticed here, before a database need be open.
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
        Ok(Listener { socket, config })
    }

    /// As [`serve`], for a database that is served in other ways as well: it stays open.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(
        self,
        database: &Database,
        ready: impl FnOnce(SocketAddr),
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Listener { socket, config } = self;
        let executor = Executor::new(database.clone(), config.load_files.clone())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("esker-server")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let served = runtime.block_on(async {
            let listener = TcpListener::from_std(socket).map_err(ServeError::Start)?;
            let bound = listener.local_addr().map_err(ServeError::Start)?;
            tracing::info!(address = %bound, "listening");
            let mut shutdown = std::pin::pin!(shutdown);
            // The process that is told that the server is ready may end it at once, so signals must be
            // handled by then.
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = std::future::ready(()) => ready(bound),
            }
            let open_tables = database.metrics().open_tables.max_tables;
            Server::new(Shared::new(executor, config), open_tables).run(listener, shutdown).await;
            Ok(())
        });
        runtime.shutdown_timeout(THREADS_GRACE);
        served
    }
}

struct Server {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
    /// How many files the process may have open, and the database's target of open tables.
    open_files: u64,
    open_tables: usize,
    refusals: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// `open_tables` is the database's target of open tables.
    fn new(shared: Shared, open_tables: usize) -> Server {
        let server = Server {
            shared: Arc::new(shared),
            open_files: open_files_limit(),
            open_tables,
            clients: JoinSet::new(),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            stop: watch::Sender::new(false),
        };
        let (configured, most_clients) = (server.shared.config.limits.max_clients(), server.most_clients());
        if most_clients < configured {
            tracing::warn!(
                configured,
                most_clients,
                "fewer clients are admitted: the process may not open more files (`ulimit -n`)"
            );
        }
        server
    }

    /// The most clients by the limits of this moment.
    fn most_clients(&self) -> usize {
        let configured = self.shared.config.limits.max_clients();
        most_clients(configured, self.open_files, self.open_tables, REFUSALS)
    }

    async fn run(mut self, listener: TcpListener, mut shutdown: Pin<&mut impl Future<Output = ()>>) {
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = self.clients.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a client");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        self.finish().await;
    }

    fn admit(&mut self, stream: TcpStream) {
        let most_clients = self.most_clients();
        if self.clients.len() < most_clients {
            self.clients.spawn(talk(stream, Arc::clone(&self.shared), self.stop.subscribe()));
            return;
        }
        tracing::warn!(limit = most_clients, "a client was refused");
        // Beyond that number, a refused client only sees its connection closed.
        if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            tokio::spawn(async move {
                refuse(stream).await;
                drop(permit);
            });
        }
    }

    async fn finish(mut self) {
        tracing::info!(clients = self.clients.len(), "stopping");
        self.stop.send_replace(true);
        let all_left = async { while self.clients.join_next().await.is_some() {} };
        if tokio::time::timeout(self.shared.config.grace, all_left).await.is_err() {
            tracing::warn!(clients = self.clients.len(), "clients cut off that took too long");
            self.clients.abort_all();
        }
    }
}
