//! HyperLogLog as Redis stores it in a string: 16,384 registers of six bits, sparse while few are set.
//!
//! ```text
//! "HYLL" | encoding (1): 0 dense, 1 sparse | 0 0 0 | cardinality (8; top bit: out of date) | registers
//! ```
//!
//! The functions take and give whole strings, byte for byte those of Redis 7.0, so that a string written by
//! one server is read by another. A string that a client wrote may be anything: it is checked as a whole
//! before it is used, where Redis notices some faults only when a register beyond them is asked for.

mod count;
mod debug;
mod dense;
mod element;
mod header;
mod sparse;
mod sparse_set;

pub use debug::{describe_sparse, is_dense, registers, self_test, to_dense};
pub use header::HyperLogLogError;

use header::{DENSE, SPARSE};

/// Registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << element::INDEX_BITS;
/// Default of `hll-sparse-max-bytes`: bytes from which on the string becomes dense.
pub const SPARSE_MAX_BYTES: usize = 3000;

/// A register for each place, one byte each.
type Registers = [u8; REGISTERS];

/// The string of an empty HyperLogLog.
pub fn empty() -> Vec<u8> {
    let mut string = header::new(SPARSE);
    string.extend_from_slice(&sparse::EMPTY);
    string
}

/// The string that PFADD makes of no elements: empty, and its count is not known.
pub fn made_by_add() -> Vec<u8> {
    let mut string = empty();
    header::forget_cardinality(&mut string);
    string
}

/// PFADD: adds elements to a HyperLogLog and says whether it changed. O(1) an element when dense; when
/// sparse, O(`sparse_max_bytes`).
///
/// ```
/// use esker_redis_data::hyperloglog;
/// let mut string = hyperloglog::empty();
/// assert!(hyperloglog::add(&mut string, ["a", "b", "a"], hyperloglog::SPARSE_MAX_BYTES)?);
/// assert!(!hyperloglog::add(&mut string, ["b"], hyperloglog::SPARSE_MAX_BYTES)?);
/// assert_eq!(hyperloglog::count(&mut string)?, 2);
/// # Ok::<(), hyperloglog::HyperLogLogError>(())
/// ```
///
/// # Errors
///
/// If the string is no HyperLogLog. It is then as it was.
pub fn add<E: AsRef<[u8]>>(
    string: &mut Vec<u8>,
    elements: impl IntoIterator<Item = E>,
    sparse_max_bytes: usize,
) -> Result<bool, HyperLogLogError> {
    check(string)?;
    let mut changed = false;
    for element in elements {
        let (register, value) = element::register_and_value(element.as_ref());
        changed |= set(string, register, value, sparse_max_bytes);
    }
    if changed {
        header::forget_cardinality(string);
    }
    Ok(changed)
}

/// PFCOUNT of one key: the estimated number of different elements. It is cached in the string: where the
/// string differs afterwards, it should be stored.
///
/// # Errors
///
/// If the string is no HyperLogLog.
pub fn count(string: &mut [u8]) -> Result<u64, HyperLogLogError> {
    header::check(string)?;
    if let Some(cardinality) = header::cardinality(string) {
        return Ok(cardinality);
    }
    let cardinality = count_union([&*string])?;
    header::set_cardinality(string, cardinality);
    Ok(cardinality)
}

/// PFCOUNT of several keys: the estimated number of different elements in any of them.
///
/// # Errors
///
/// If one of the strings is no HyperLogLog.
pub fn count_union<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Result<u64, HyperLogLogError> {
    let mut registers = Box::new([0; REGISTERS]);
    for string in strings {
        maximum(string, &mut registers)?;
    }
    Ok(count::estimate(&registers))
}

/// PFMERGE: the string of the destination, with all that is in it, if there is one, and in the sources.
///
/// # Errors
///
/// If one of the strings is no HyperLogLog.
pub fn merge<'a>(
    destination: Option<&'a [u8]>,
    sources: impl IntoIterator<Item = &'a [u8]>,
    sparse_max_bytes: usize,
) -> Result<Vec<u8>, HyperLogLogError> {
    let mut registers = Box::new([0; REGISTERS]);
    let mut any_dense = false;
    for string in destination.into_iter().chain(sources) {
        maximum(string, &mut registers)?;
        any_dense |= header::encoding(string) == DENSE;
    }
    let mut merged = destination.map_or_else(empty, <[u8]>::to_vec);
    if any_dense {
        make_dense(&mut merged);
    }
    for (register, &value) in registers.iter().enumerate() {
        if value > 0 {
            set(&mut merged, register, value, sparse_max_bytes);
        }
    }
    header::forget_cardinality(&mut merged);
    Ok(merged)
}

/// Whether the string is a HyperLogLog, through all its registers.
///
/// # Errors
///
/// If it is none.
pub fn check(string: &[u8]) -> Result<(), HyperLogLogError> {
    header::check(string)?;
    if header::encoding(string) == SPARSE {
        sparse::check(header::registers(string))?;
    }
    Ok(())
}

/// Raises each register to that of the string.
fn maximum(string: &[u8], registers: &mut Registers) -> Result<(), HyperLogLogError> {
    check(string)?;
    let body = header::registers(string);
    if header::encoding(string) == DENSE {
        for (register, value) in registers.iter_mut().enumerate() {
            *value = dense::get(body, register).max(*value);
        }
        return Ok(());
    }
    let mut at = 0;
    for run in sparse::runs(body) {
        registers[at..at + run.len].iter_mut().for_each(|value| *value = run.value.max(*value));
        at += run.len;
    }
    Ok(())
}

/// Raises a register of a checked string and says whether it was lower. Makes the string dense where the
/// value or the length is too large for sparse ones.
fn set(string: &mut Vec<u8>, register: usize, value: u8, sparse_max_bytes: usize) -> bool {
    if header::encoding(string) == SPARSE {
        let body_limit = sparse_max_bytes.saturating_sub(header::BYTES);
        match sparse_set::set(string, header::BYTES, register, value, body_limit) {
            sparse_set::Outcome::Unchanged => return false,
            sparse_set::Outcome::Changed => {
                header::forget_cardinality(string);
                return true;
            }
            sparse_set::Outcome::NeedsDense => make_dense(string),
        }
    }
    dense::raise(header::registers_mut(string), register, value)
}

/// Makes a checked string dense. It keeps its cached cardinality.
fn make_dense(string: &mut Vec<u8>) {
    if header::encoding(string) == DENSE {
        return;
    }
    let mut registers = vec![0; dense::BYTES];
    let mut at = 0;
    for run in sparse::runs(header::registers(string)) {
        for register in at..at + run.len {
            dense::raise(&mut registers, register, run.value);
        }
        at += run.len;
    }
    string.truncate(header::BYTES);
    header::set_encoding(string, DENSE);
    string.extend_from_slice(&registers);
}
