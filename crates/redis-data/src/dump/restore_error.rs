//! Error of RESTORE: a foreign or damaged payload, and one that would become too large.

use crate::corrupt::Corrupt;
use std::fmt;

/// Why a payload was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The version is newer than 10, or the checksum differs.
    Footer,
    /// The value is damaged, or of a type that is not known.
    Corrupt(Corrupt),
    /// What should be a library of functions is something else.
    NoFunction,
    /// Compressed strings and shared fields would give more than the caller's limit.
    TooLarge {
        /// The limit.
        max_decompressed_bytes: usize,
    },
}

impl RestoreError {
    /// What Redis answers, without the leading `ERR`.
    pub fn redis_text(&self) -> &'static str {
        match self {
            Self::Footer => "DUMP payload version or checksum are wrong",
            Self::NoFunction => "given type is not a function",
            Self::Corrupt(_) | Self::TooLarge { .. } => "Bad data format",
        }
    }
}

impl From<Corrupt> for RestoreError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Footer => {
                write!(formatter, "the payload is of a version above 10, or its checksum differs")
            }
            Self::Corrupt(corrupt) => write!(formatter, "the payload is damaged: {corrupt}"),
            Self::NoFunction => write!(formatter, "the payload has something that is no library"),
            Self::TooLarge { max_decompressed_bytes } => {
                write!(formatter, "the payload expands to more than {max_decompressed_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for RestoreError {}
