//! TCP listeners: bound with a backlog of their own, and each for its own version of IP.

use super::listen_error::ListenError;
use crate::rebinding::Host;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// A TCP address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAddress {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it is left out where the machine does not have it: `bind -::1`.
    pub is_optional: bool,
}

impl From<SocketAddr> for TcpAddress {
    fn from(address: SocketAddr) -> Self {
        Self { address, is_optional: false }
    }
}

/// Hosts with a port; none for port 0.
pub(crate) fn with_port(hosts: &[Host], port: u16) -> Vec<TcpAddress> {
    let of_host = |host: &Host| {
        let mut address = host.address;
        address.set_port(port);
        TcpAddress { address, is_optional: host.is_optional }
    };
    if port == 0 { Vec::new() } else { hosts.iter().map(of_host).collect() }
}

/// Binds an address; `None` if it is optional and the machine does not have it.
pub(super) fn bind(wanted: TcpAddress, backlog: i32) -> Result<Option<TcpListener>, ListenError> {
    let failed = |source| ListenError { place: wanted.address.to_string(), source };
    let socket = match Socket::new(Domain::for_address(wanted.address), Type::STREAM, Some(Protocol::TCP)) {
        Ok(socket) => socket,
        // The system lacks this version of IP.
        Err(_) if wanted.is_optional => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match listen(socket, wanted.address, backlog) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if wanted.is_optional && error.kind() == ErrorKind::AddrNotAvailable => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn listen(socket: Socket, address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    // Connections of a server that has just ended do not keep the port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `0.0.0.0` and `::` are bound beside each other.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Prepares a connection that was accepted. `keepalive` is the time after which a silent peer is asked
/// whether it is still there; zero asks never.
pub(super) fn prepare(stream: &TcpStream, keepalive: Duration) {
    // What fails here is no reason to refuse the client: it is slower, or its loss is noticed later.
    // Replies are written whole, so nothing is gained by waiting for more.
    let _result = stream.set_nodelay(true);
    if !keepalive.is_zero() {
        // Three questions, so that a peer is given up after twice the time.
        let interval = (keepalive / 3).max(Duration::from_secs(1));
        let asks = TcpKeepalive::new().with_time(keepalive).with_interval(interval).with_retries(3);
        let _result = SockRef::from(stream).set_tcp_keepalive(&asks);
    }
}
