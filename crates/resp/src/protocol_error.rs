//! Requests that end a connection, and what the client is told before.

use std::fmt;

/// Why a request cannot be read. The connection must be closed: where the next request begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command is longer than [`LONGEST_LINE`](crate::limits::LONGEST_LINE).
    InlineTooLong,
    /// An inline command has a quote that does not end, or that no white space follows.
    UnbalancedQuotes,
    /// The line with the count of arguments is too long.
    CountLineTooLong,
    /// The count of arguments is no integer, or is above the limit.
    InvalidCount,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedCount,
    /// The line with the length of an argument is too long.
    LengthLineTooLong,
    /// An argument begins with another byte than `$`.
    NotAnArgument(u8),
    /// The length of an argument is no integer, is negative, or is above the limit.
    InvalidLength,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedLength,
    /// The whole request is longer than the limit. The client is told nothing, as in Redis.
    RequestTooLong,
    /// `POST` or `Host:`: a web page makes its reader's browser speak to us. It is told nothing.
    CrossProtocol,
}

impl ProtocolError {
    /// Appends the reply that Redis gives: one line, or nothing.
    pub fn write_reply(self, out: &mut Vec<u8>) {
        if let Some(text) = self.text() {
            out.extend_from_slice(b"-ERR Protocol error: ");
            out.extend_from_slice(text.as_bytes());
            if let Self::NotAnArgument(byte) = self {
                // An error is one line, whatever the client sent.
                let byte = if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
                out.extend([byte, b'\'']);
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Redis' words; of [`NotAnArgument`](Self::NotAnArgument) without the byte.
    fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::InlineTooLong => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::CountLineTooLong => "too big mbulk count string",
            Self::InvalidCount => "invalid multibulk length",
            Self::UnauthenticatedCount => "unauthenticated multibulk length",
            Self::LengthLineTooLong => "too big bulk count string",
            Self::NotAnArgument(_) => "expected '$', got '",
            Self::InvalidLength => "invalid bulk length",
            Self::UnauthenticatedLength => "unauthenticated bulk length",
            Self::RequestTooLong | Self::CrossProtocol => return None,
        })
    }
}

impl fmt::Display for ProtocolError {
    /// For logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnArgument(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::RequestTooLong => f.write_str("the request is longer than client-query-buffer-limit"),
            Self::CrossProtocol => f.write_str("an HTTP request on the Redis port; the connection is closed"),
            other => f.write_str(other.text().unwrap_or_default()),
        }
    }
}

impl std::error::Error for ProtocolError {}
