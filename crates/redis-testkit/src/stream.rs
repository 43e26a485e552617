//! The socket of a client, plain or with TLS.

use crate::certificates::SERVER_NAME;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take. No test waits so long for a server that works, whatever else the machine
/// does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A client's side of a connection.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to `host:port` with TLS, and ends the handshake as far as the client sees it: the server may
    /// refuse its certificate with what is read next.
    ///
    /// # Errors
    /// If no server listens, or one of both refuses the other.
    pub fn connect_tls(address: &str, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut stream = Self::tls(socket, Arc::clone(config));
        stream.flush()?;
        Ok(stream)
    }

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
