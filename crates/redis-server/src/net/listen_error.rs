//! Why a server cannot listen.

use std::fmt;
use std::io;

/// An address or a path that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    /// The address or the path.
    pub place: String,
    /// The system's error.
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.place, self.source)
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
