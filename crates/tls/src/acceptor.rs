//! Acceptor of servers on `tokio`: the handshake of a connection, bounded in time, bytes and number.
//!
//! What holds:
//! * TL3. Until its handshake is over a client makes the server keep 64 KiB of it at most, for
//!   [`HANDSHAKE_LIMIT`] at most, and no byte of it reaches the protocol.
//! * TL4. So many handshakes are open as the server allows. One more ends the oldest, so connections that say
//!   nothing keep no client out.

use crate::current::Tls;
use crate::handshake_bytes::HandshakeBytes;
use crate::open_handshakes::OpenHandshakes;
use rustls::ServerConfig;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The longest handshake. It takes two turns of the network and a signature; on the slowest networks that is
/// three seconds.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The first byte of a handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// Bytes of a client without TLS that are taken before it is told so: otherwise the system would break the
/// connection, and the client might not see the answer.
const IGNORED_BYTES: usize = 16 << 10;

/// A connection behind its handshake.
pub type TlsStream = tokio_rustls::server::TlsStream<HandshakeBytes<TcpStream>>;

/// Accepts connections of one protocol.
#[derive(Debug)]
pub struct Acceptor {
    tls: Arc<Tls>,
    /// The protocol's name in the handshake (ALPN).
    protocol: &'static [u8],
    /// What a client is told that sends something else than a handshake.
    refusal: &'static [u8],
    open: OpenHandshakes,
}

/// Why a connection was not accepted.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client sent something else, and was told so.
    NoHandshake,
    /// It took too long.
    TooLong,
    /// Later connections took its place (TL4).
    Displaced,
    /// The client left, or said what is not accepted.
    Failed(io::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::NoHandshake => f.write_str("the client sent no handshake"),
            HandshakeError::TooLong => {
                write!(f, "the handshake took more than {} seconds", HANDSHAKE_LIMIT.as_secs())
            }
            HandshakeError::Displaced => f.write_str("too many handshakes began after it"),
            HandshakeError::Failed(error) => write!(f, "the handshake failed: {error}"),
        }
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HandshakeError::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl Acceptor {
    /// Accepts clients of this protocol under the present configuration, `handshakes` of them at a time. A
    /// client that sends no handshake is told `refusal`.
    pub fn new(tls: Arc<Tls>, protocol: &'static [u8], refusal: &'static [u8], handshakes: usize) -> Self {
        Self { tls, protocol, refusal, open: OpenHandshakes::new(handshakes) }
    }

    /// Handshakes that are open now.
    pub fn open_handshakes(&self) -> usize {
        self.open.count()
    }

    /// The connection behind its handshake. A client that names other protocols only is refused; one that
    /// names none is not, as long as it speaks this one.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection is closed then.
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream, HandshakeError> {
        let one = self.open.begin();
        let accepted = tokio::time::timeout(HANDSHAKE_LIMIT, self.shake_hands(stream));
        tokio::select! {
            accepted = accepted => accepted.unwrap_or(Err(HandshakeError::TooLong)),
            () = one.displaced() => Err(HandshakeError::Displaced),
        }
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream, HandshakeError> {
        let mut first = [0];
        let count = stream.peek(&mut first).await.map_err(HandshakeError::Failed)?;
        if count > 0 && first[0] != HANDSHAKE_RECORD {
            self.refuse(stream).await.map_err(HandshakeError::Failed)?;
            return Err(HandshakeError::NoHandshake);
        }
        let accepted = TlsAcceptor::from(self.config()).accept(HandshakeBytes::new(stream)).await;
        let mut accepted = accepted.map_err(HandshakeError::Failed)?;
        accepted.get_mut().0.lift();
        Ok(accepted)
    }

    /// The present configuration, with the protocol.
    fn config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.tls.current());
        config.alpn_protocols = vec![self.protocol.to_vec()];
        Arc::new(config)
    }

    async fn refuse(&self, mut stream: TcpStream) -> io::Result<()> {
        match stream.try_read(&mut vec![0; IGNORED_BYTES]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        stream.write_all(self.refusal).await?;
        stream.shutdown().await
    }
}
