//! A connected socket: TCP, Unix, or TCP with TLS.

use super::tls_socket::TlsSocket;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// A client's socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsSocket>),
}

/// What a read brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes of the socket: fewer than there was room for have emptied it.
    pub(crate) socket_bytes: usize,
    /// Bytes of requests among them.
    pub(crate) input_bytes: usize,
    /// Whether the client sends nothing more.
    pub(crate) is_end: bool,
    /// Whether the TLS handshake ended with it.
    pub(crate) ends_handshake: bool,
}

impl Socket {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(socket) => Some(socket.stream()),
            Self::Unix(_) => None,
        }
    }

    /// The client's address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.tcp()?.peer_addr().ok()
    }

    /// The address that the client is connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.tcp()?.local_addr().ok()
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(socket) => socket.stream_mut(),
        }
    }

    /// Begins to report when the socket can be read or written.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }

    /// Whether the TLS handshake is not over. Nothing can be sent before.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(socket) if socket.is_handshaking())
    }

    /// Reads once, and appends the requests to the input. The scratch memory takes what the socket has.
    pub(crate) fn read(&mut self, scratch: &mut [u8], input: &mut Vec<u8>) -> io::Result<Received> {
        let count = match self {
            Self::Tcp(stream) => stream.read(scratch)?,
            Self::Unix(stream) => stream.read(scratch)?,
            Self::Tls(socket) => return socket.read(scratch, input),
        };
        input.extend_from_slice(&scratch[..count]);
        Ok(Received { socket_bytes: count, input_bytes: count, is_end: count == 0, ends_handshake: false })
    }

    /// Takes the beginning of the bytes. How many these were.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(socket) => socket.write(bytes),
        }
    }

    /// Whether it keeps bytes that it has taken and not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(socket) if socket.has_unsent())
    }

    /// Sends what it keeps.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(socket) => socket.flush(),
        }
    }

    /// Tells the client that nothing more comes, where that is more than closing.
    pub(crate) fn end(&mut self) {
        if let Self::Tls(socket) = self {
            socket.end();
        }
    }
}
