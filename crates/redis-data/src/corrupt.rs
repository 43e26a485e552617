//! Error of the decoders: what is wrong with bytes that claim to be a value, and where.

use std::fmt;

/// Bytes that are not what they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The fault, as the end of a sentence.
    pub what: &'static str,
    /// Where it was noticed: bytes from the start of the payload, or of the structure inside a string.
    pub offset_bytes: usize,
}

impl Corrupt {
    pub(crate) const fn new(what: &'static str, offset_bytes: usize) -> Self {
        Self { what, offset_bytes }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {}", self.what, self.offset_bytes)
    }
}

impl std::error::Error for Corrupt {}
