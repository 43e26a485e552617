//! Errors of the server.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why the server could not begin.
#[derive(Debug)]
pub enum ServeError {
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The address can be reached from other machines, and callers need no credentials.
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The threads of the server could not be started.
    Start(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            ServeError::Unprotected { address } => write!(
                f,
                "gRPC is not served on {address}: other machines could reach it, and callers need no credentials"
            ),
            ServeError::Start(source) => write!(f, "cannot start the server: {source}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Listen { source, .. } | ServeError::Start(source) => Some(source),
            ServeError::Unprotected { .. } => None,
        }
    }
}
