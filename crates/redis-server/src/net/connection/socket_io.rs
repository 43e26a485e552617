//! Sockets of connections: reading requests and writing the output.

use super::{Connection, Stage};
use crate::clients::shown_address;
use crate::server::Server;
use crate::statistics::add;
use mio::event::Event;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;

/// Reads of a connection when the server stops: 1 MiB, more than a system keeps for a client by default.
const LAST_READS: usize = 16;

impl Connection {
    /// Sets when the TLS handshake must be over.
    pub(crate) fn end_handshake_by(&mut self, time_ns: u64) {
        self.handshake_ends_ns = Some(time_ns);
    }

    /// Whether the TLS handshake is not over.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.socket.is_handshaking()
    }

    /// Whether the TLS handshake should be over by now and is not.
    pub(crate) fn is_handshake_overdue(&self, now_ns: u64) -> bool {
        self.handshake_ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) && self.is_handshaking()
    }

    /// What is reported of the socket.
    pub(crate) fn note_ready(&mut self, event: &Event) {
        self.is_read_closed |= event.is_read_closed();
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_writable |= event.is_writable();
    }

    /// Reads once. `is_readable` says afterwards whether there may be more.
    pub(super) fn read(&mut self, scratch: &mut [u8], server: &Server) {
        let Some(work) = &mut self.work else { return };
        match self.socket.read(scratch, work.requests.input()) {
            Ok(received) => {
                add(&server.statistics.socket_reads, 1);
                add(&server.statistics.received_bytes, received.input_bytes as u64);
                add(&server.statistics.tls_handshakes, received.ends_handshake.into());
                // CLIENT LIST tells it while the command is executed.
                self.client.query_bytes.store(work.requests.waiting_bytes() as u64, Ordering::Relaxed);
                // A short read has emptied the socket; what comes later is reported anew, but not an end that
                // has been reported.
                self.is_readable = received.socket_bytes == scratch.len() || self.is_read_closed;
                if received.is_end {
                    (self.has_ended, self.is_readable) = (true, false);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                if self.handshake_ends_ns.is_some() {
                    self.log_tls_error(&error);
                }
                self.stage = Stage::Closed;
            }
        }
    }

    /// Logs why a connection with TLS ends, which its client may have meant otherwise.
    pub(crate) fn log_tls_error(&self, reason: &dyn std::fmt::Display) {
        let what = if self.is_handshaking() { "handshake" } else { "connection" };
        tracing::debug!(
            "the TLS {what} of the client at {} failed: {reason}",
            shown_address(self.client.address)
        );
    }

    /// Writes as much as the socket takes.
    pub(super) fn write(&mut self, server: &Server) {
        if self.is_writable
            && self.socket.has_unsent()
            && let Err(error) = self.socket.flush()
        {
            self.note_write_error(&error);
        }
        while self.is_writable && self.stage != Stage::Closed && !self.socket.is_handshaking() {
            let Some(bytes) = self.output.front() else { break };
            match self.socket.write(bytes) {
                Ok(count) => {
                    add(&server.statistics.socket_writes, 1);
                    add(&server.statistics.sent_bytes, count as u64);
                    self.output.note_sent(count);
                }
                Err(error) => self.note_write_error(&error),
            }
        }
        self.client.output_bytes.store(self.output.bytes() as u64, Ordering::Relaxed);
    }

    fn note_write_error(&mut self, error: &io::Error) {
        match error.kind() {
            ErrorKind::WouldBlock => self.is_writable = false,
            ErrorKind::Interrupted => {}
            _ => self.stage = Stage::Closed,
        }
    }

    /// Reads what has been received for the last time. The connection ends when that is answered.
    pub(crate) fn finish(&mut self, scratch: &mut [u8], server: &Server) {
        for _ in 0..LAST_READS {
            if self.work.is_some() && self.is_readable && !self.has_ended {
                self.read(scratch, server);
            }
        }
        self.has_ended = true;
    }
}
