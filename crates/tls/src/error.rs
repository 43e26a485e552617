//! What is wrong with a file, a directory or a rule.

use std::fmt;
use std::path::Path;

/// A sentence that says what is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    /// Something about a file or a directory.
    pub(crate) fn of_file(path: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }

    /// Something about a rule; the sentence names it.
    pub(crate) fn of_rule(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}
