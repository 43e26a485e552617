//! Errors of the server.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why [`crate::serve`] could not begin, or ended on its own.
#[derive(Debug)]
pub enum ServeError {
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The threads of the server could not be started.
    Start(io::Error),
    /// The database failed: when its keyspaces were opened, or when it was closed at the end.
    Database(esker::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            ServeError::Start(source) => write!(f, "cannot start the server: {source}"),
            ServeError::Database(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Listen { source, .. } | ServeError::Start(source) => Some(source),
            ServeError::Database(error) => Some(error),
        }
    }
}

impl From<esker::Error> for ServeError {
    fn from(error: esker::Error) -> ServeError {
        ServeError::Database(error)
    }
}
