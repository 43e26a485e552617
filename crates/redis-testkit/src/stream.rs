//! The socket of a client, plain or with TLS.

use crate::certificates::SERVER_NAME;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// A client's side of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Begins TLS; the handshake comes with the first bytes.
    pub(crate) fn tls(socket: TcpStream, config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let session = ClientConnection::new(config, name).expect("a right configuration");
        Self::Tls(Box::new(StreamOwned::new(session, socket)))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Tells the server that nothing more comes.
    pub(crate) fn end_writing(&mut self) {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
            // A server that has closed already does not matter.
            let _ = stream.conn.write_tls(&mut stream.sock);
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
