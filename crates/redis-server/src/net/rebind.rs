//! A running listener moves to other addresses: what stays is kept, what is new is bound first where it can
//! be, and what fails leaves all as it was.

use super::listen_error::ListenError;
use super::listener::{FIRST_LISTENER, Listener};
use super::tcp_listener::{self, TcpAddress, with_port};
use crate::rebinding::{Addresses, RebindError};
use crate::server::Server;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use std::net::SocketAddr;

impl Listener {
    /// Listens on these addresses. Those that are listened on already are kept, with the clients that wait
    /// there to be accepted.
    pub(super) fn rebind(&mut self, server: &Server, addresses: &Addresses) -> Result<(), RebindError> {
        let tcp = with_port(&addresses.hosts, addresses.port);
        let tls = with_port(&addresses.hosts, addresses.tls_port);
        let wanted: Vec<SocketAddr> = tcp.iter().chain(&tls).map(|wanted| wanted.address).collect();
        if server.is_unprotected(&wanted) {
            return Err(RebindError::Unprotected);
        }
        let (registry, backlog) = (self.poll.registry(), self.config.backlog);
        let failed = |error: ListenError| RebindError::Failed(error.to_string());
        let before = present(&self.tcp);
        replace(registry, &mut self.tcp, &tcp, backlog).map_err(failed)?;
        if let Err(error) = replace(registry, &mut self.tls, &tls, backlog) {
            replace(registry, &mut self.tcp, &before, backlog).map_err(failed)?;
            return Err(failed(error));
        }
        Ok(())
    }
}

/// What listeners are bound to.
fn present(listeners: &[TcpListener]) -> Vec<TcpAddress> {
    listeners.iter().filter_map(|listener| listener.local_addr().ok()).map(TcpAddress::from).collect()
}

/// Makes listeners those of the addresses that are wanted. An address that cannot be bound beside one that is
/// given up, such as `*` beside `127.0.0.1`, is bound after it.
fn replace(
    registry: &Registry,
    listeners: &mut Vec<TcpListener>,
    wanted: &[TcpAddress],
    backlog: i32,
) -> Result<(), ListenError> {
    let (kept, given_up): (Vec<_>, Vec<_>) =
        present(listeners).into_iter().partition(|old| wanted.iter().any(|new| new.address == old.address));
    let is_kept = |listener: &TcpListener| {
        listener.local_addr().is_ok_and(|address| kept.iter().any(|kept| kept.address == address))
    };
    let mut missing = wanted.to_vec();
    missing.retain(|new| kept.iter().all(|kept| kept.address != new.address));
    let bound = match bind_all(registry, &missing, backlog) {
        Err(_) if !given_up.is_empty() => {
            listeners.retain(is_kept);
            bind_all(registry, &missing, backlog).or_else(|error| {
                listeners.extend(bind_all(registry, &given_up, backlog)?);
                Err(error)
            })?
        }
        bound => bound?,
    };
    listeners.retain(is_kept);
    listeners.extend(bound);
    Ok(())
}

/// Binds and registers all of some addresses, or none.
fn bind_all(
    registry: &Registry,
    wanted: &[TcpAddress],
    backlog: i32,
) -> Result<Vec<TcpListener>, ListenError> {
    let mut bound = Vec::new();
    for address in wanted {
        let Some(mut listener) = tcp_listener::bind(*address, backlog)? else { continue };
        // The thread that accepts looks at all listeners, whichever is ready.
        let registered = registry.register(&mut listener, Token(FIRST_LISTENER), Interest::READABLE);
        registered.map_err(|source| ListenError { place: address.address.to_string(), source })?;
        bound.push(listener);
    }
    Ok(bound)
}
