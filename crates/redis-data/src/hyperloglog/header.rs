//! Header of a HyperLogLog: magic, encoding and cached cardinality.

use super::dense;
use std::fmt;

/// Bytes before the registers.
pub(super) const BYTES: usize = 16;
pub(super) const DENSE: u8 = 0;
pub(super) const SPARSE: u8 = 1;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
/// Bit of the cached cardinality: it is out of date.
const STALE: u64 = 1 << 63;

/// A string that is no HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyperLogLogError {
    /// The header is another's, or the length is wrong.
    Foreign,
    /// The registers are damaged.
    Corrupt,
}

impl fmt::Display for HyperLogLogError {
    /// What Redis answers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Foreign => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Self::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

impl std::error::Error for HyperLogLogError {}

/// A header; zero elements are known to be in it.
pub(super) fn new(encoding: u8) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.resize(BYTES, 0);
    header[ENCODING_AT] = encoding;
    header
}

/// Whether header and length are those of a HyperLogLog.
pub(super) fn check(string: &[u8]) -> Result<(), HyperLogLogError> {
    let fits = string.len() >= BYTES
        && string.starts_with(MAGIC)
        && match string[ENCODING_AT] {
            DENSE => string.len() == BYTES + dense::BYTES,
            encoding => encoding == SPARSE,
        };
    if fits { Ok(()) } else { Err(HyperLogLogError::Foreign) }
}

pub(super) fn encoding(string: &[u8]) -> u8 {
    string[ENCODING_AT]
}

pub(super) fn set_encoding(string: &mut [u8], encoding: u8) {
    string[ENCODING_AT] = encoding;
}

pub(super) fn registers(string: &[u8]) -> &[u8] {
    &string[BYTES..]
}

pub(super) fn registers_mut(string: &mut [u8]) -> &mut [u8] {
    &mut string[BYTES..]
}

/// The cached cardinality, unless it is out of date.
pub(super) fn cardinality(string: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&string[CARDINALITY_AT..BYTES]);
    let stored = u64::from_le_bytes(bytes);
    (stored & STALE == 0).then_some(stored)
}

pub(super) fn set_cardinality(string: &mut [u8], cardinality: u64) {
    string[CARDINALITY_AT..BYTES].copy_from_slice(&cardinality.to_le_bytes());
}

pub(super) fn forget_cardinality(string: &mut [u8]) {
    string[BYTES - 1] |= (STALE >> 56) as u8;
}
