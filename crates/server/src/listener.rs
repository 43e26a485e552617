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
    let served = serve_open(config, database, ready, shutdown);
    let closed = database.close();
    served?;
    Ok(closed?)
}

/// [`serve`] for a database that is served in other ways as well: it stays open.
///
/// # Errors
/// See [`ServeError`].
pub fn serve_open(
    config: Config,
    database: &Database,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let executor = Executor::new(database.clone(), config.load_files.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("esker-server")
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(async {
        let address = config.address;
        let listener =
            TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        let bound = listener.local_addr().map_err(ServeError::Start)?;
        tracing::info!(address = %bound, "listening");
        let mut shutdown = std::pin::pin!(shutdown);
        // The process that is told that the server is ready may end it at once, so signals must be handled by
        // then.
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

struct Server {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
    most_clients: usize,
    refusals: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// `open_tables` is the database's target of open tables.
    fn new(shared: Shared, open_tables: usize) -> Server {
        let configured = shared.config.max_clients;
        let most_clients = most_clients(configured, open_files_limit(), open_tables, REFUSALS);
        if most_clients < configured {
            tracing::warn!(
                configured,
                most_clients,
                "fewer clients are admitted: the process may not open more files (`ulimit -n`)"
            );
        }
        Server {
            shared: Arc::new(shared),
            most_clients,
            clients: JoinSet::new(),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            stop: watch::Sender::new(false),
        }
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
        if self.clients.len() < self.most_clients {
            self.clients.spawn(talk(stream, Arc::clone(&self.shared), self.stop.subscribe()));
            return;
        }
        tracing::warn!(limit = self.most_clients, "a client was refused");
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
