//! A socket with TLS: what arrives is decrypted into the client's requests, and replies are encrypted piece
//! by piece.
//!
//! What holds:
//! * TC1. Until the handshake is over a client makes the server keep [`HANDSHAKE_BYTES_MAX`] and one read at
//!   most, for [`HANDSHAKE_LIMIT`] at most, and no byte of it is a request.
//! * TC2. A read leaves nothing decrypted behind, so what the socket is ready for is all there is to wait
//!   for.
//! * TC3. Encrypted bytes that the socket has not taken are at most [`UNSENT_BYTES_MAX`] and the rest of a
//!   record, nothing is encrypted while there are any, and a connection with some is not idle.

use super::socket::Received;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// The longest handshake. It takes two turns of the network and a signature; on the slowest networks that is
/// three seconds.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Bytes of a handshake. A greeting takes two KiB and a certificate with those between it and its authority
/// five; with long names and post-quantum signatures 30.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// Bytes that are encrypted before the socket is given them: four records of the largest size.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// The first byte of a handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// The answer to a client that does not begin a handshake.
const NO_TLS_ERROR: &[u8] = b"-ERR this port takes clients with TLS only, and this one sent no handshake\r\n";

/// The socket.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    stream: TcpStream,
    session: ServerConnection,
    /// Bytes that were received before the end of the handshake.
    handshake_bytes: usize,
}

impl TlsSocket {
    pub(super) fn new(stream: TcpStream, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { stream, session, handshake_bytes: 0 })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Reads once, and appends what is decrypted to the input.
    pub(super) fn read(&mut self, scratch: &mut [u8], input: &mut Vec<u8>) -> io::Result<Received> {
        let count = self.stream.read(scratch)?;
        let mut received =
            Received { socket_bytes: count, input_bytes: 0, is_end: count == 0, ends_handshake: false };
        let was_handshaking = self.session.is_handshaking();
        if self.handshake_bytes == 0 && scratch[..count].first().is_some_and(|byte| *byte != HANDSHAKE_RECORD)
        {
            // The client may be gone already.
            let _result = self.stream.write(NO_TLS_ERROR);
            return Err(io::Error::new(ErrorKind::InvalidData, "the client sent no handshake"));
        }
        if was_handshaking {
            self.handshake_bytes += count;
        }
        let before = input.len();
        received.is_end |= self.decrypt(&scratch[..count], input).inspect_err(|_| {
            // The client is told why, if it still listens.
            let _result = self.flush();
        })?;
        received.input_bytes = input.len() - before;
        received.ends_handshake = was_handshaking && !self.session.is_handshaking();
        if self.session.is_handshaking() && self.handshake_bytes > HANDSHAKE_BYTES_MAX {
            let reason = format!("the handshake has more than {HANDSHAKE_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        Ok(received)
    }

    /// Decrypts all of the bytes. Whether the client ended its side.
    fn decrypt(&mut self, mut bytes: &[u8], input: &mut Vec<u8>) -> io::Result<bool> {
        let mut is_end = false;
        // Behind the end nothing is taken.
        while !is_end && !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            let state = self.session.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.session.reader();
            while left > 0 {
                let piece = reader.fill_buf()?;
                let length = piece.len();
                input.extend_from_slice(piece);
                reader.consume(length);
                left = left.saturating_sub(length.max(1));
            }
            is_end = state.peer_has_closed();
        }
        Ok(is_end)
    }

    /// Encrypts the beginning of the bytes and gives it to the socket. How many bytes these were; zero for
    /// none to write.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    /// Whether encrypted bytes wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Gives the socket what is encrypted.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes, as far as the socket takes that at once.
    pub(super) fn end(&mut self) {
        self.session.send_close_notify();
        // It cannot be told to a client that takes nothing.
        let _result = self.flush();
    }
}
