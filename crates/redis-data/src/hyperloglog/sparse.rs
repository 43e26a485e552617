//! Sparse registers: runs of equal values.
//!
//! | code | run |
//! |---|---|
//! | `00xxxxxx` | x + 1 zeros |
//! | `01xxxxxx` and a byte | x + 1 zeros, 14 bits |
//! | `1vvvvvxx` | x + 1 times the value v + 1 |

use super::REGISTERS;
use super::header::HyperLogLogError;

/// Longest run of a one-byte code of zeros.
const MAX_SHORT_ZEROS: usize = 64;
/// Longest run of a code of values.
pub(super) const MAX_VALUES: usize = 4;
/// Largest value of a code.
pub(super) const MAX_VALUE: u8 = 32;
/// The code of all registers zero.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

/// Equal registers one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Their value; zero, or up to [`MAX_VALUE`].
    pub(super) value: u8,
    /// How many there are.
    pub(super) len: usize,
    /// Bytes of their code.
    pub(super) code_bytes: usize,
}

/// The run whose code is at the front.
pub(super) fn first_run(codes: &[u8]) -> Option<Run> {
    let first = *codes.first()?;
    let low = usize::from(first & 0x3f);
    Some(match first {
        0..=0x3f => Run { value: 0, len: low + 1, code_bytes: 1 },
        0x40..=0x7f => Run { value: 0, len: (low << 8 | usize::from(*codes.get(1)?)) + 1, code_bytes: 2 },
        _ => Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, code_bytes: 1 },
    })
}

/// All runs. They end early where a code is cut off, which [`check`] refuses.
pub(super) fn runs(mut codes: &[u8]) -> impl Iterator<Item = Run> {
    std::iter::from_fn(move || {
        let run = first_run(codes)?;
        codes = &codes[run.code_bytes..];
        Some(run)
    })
}

/// Whether the runs are whole and as long as there are registers.
pub(super) fn check(codes: &[u8]) -> Result<(), HyperLogLogError> {
    let mut registers = 0;
    let mut bytes = 0;
    for run in runs(codes) {
        registers += run.len;
        bytes += run.code_bytes;
    }
    if registers == REGISTERS && bytes == codes.len() { Ok(()) } else { Err(HyperLogLogError::Corrupt) }
}

/// Appends the code of `len` zeros, which may be none.
pub(super) fn push_zeros(codes: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=MAX_SHORT_ZEROS => codes.push((len - 1) as u8),
        _ => codes.extend_from_slice(&(0x4000 | (len - 1) as u16).to_be_bytes()),
    }
}

/// Appends the code of `len` times a value, which may be none.
pub(super) fn push_values(codes: &mut Vec<u8>, value: u8, len: usize) {
    if len > 0 {
        codes.push(0x80 | (value - 1) << 2 | (len - 1) as u8);
    }
}
