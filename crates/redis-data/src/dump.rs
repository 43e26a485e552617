//! DUMP and RESTORE: a value as the bytes that Redis 7.0 serialises it to, and back.
//!
//! ```text
//! type (1) | value | RDB version (2, little-endian) | CRC-64 of all before it (8, little-endian)
//! ```
//!
//! [`dump()`] writes version 10, what Redis 7.0 reads. [`restore()`] reads every type of versions up to 10,
//! those of older servers as well (ziplists, zipmaps, text scores), and trusts nothing: each length is
//! compared with the bytes that are there before memory is asked for, packed structures are walked to their
//! ends, and members, fields, consumers and ids must be distinct. That is what `sanitize-dump-payload yes`
//! asks of Redis; here there is no other way.
//!
//! Redis accepts some payloads that no server writes and that are refused here: bytes behind the value,
//! stream entries out of order, a stream length other than the number of its entries, scores that are no
//! numbers.

mod decoder;
mod dump_stream;
mod dump_value;
mod encoder;
mod encoding_limits;
mod footer;
mod functions;
mod restore_error;
mod restore_stream;
mod restore_value;
mod types;

pub use encoding_limits::EncodingLimits;
pub use functions::{dump_functions, restore_functions};
pub use restore_error::RestoreError;

use crate::value::Value;
use decoder::Decoder;
use encoder::Encoder;

/// The payload that DUMP answers for a value. Linear in the value, except that members of small sorted sets
/// and sets of integers are sorted.
///
/// ```
/// use esker_redis_data::{Value, dump, restore, EncodingLimits, MAX_DECOMPRESSED_BYTES};
/// let value = Value::String(b"12".to_vec());
/// let payload = dump(&value, &EncodingLimits::default());
/// assert_eq!(payload, b"\x00\xc0\x0c\x0a\x00\x3c\x2a\xf8\x51\x5c\x04\xbc\xd5");
/// assert_eq!(restore(&payload, MAX_DECOMPRESSED_BYTES), Ok(value));
/// ```
pub fn dump(value: &Value, limits: &EncodingLimits) -> Vec<u8> {
    let mut encoder = Encoder::new();
    dump_value::dump_value(&mut encoder, value, limits);
    footer::append(encoder.into_bytes())
}

/// The payload of a type and value that are encoded already.
pub(crate) fn payload_of(body: Vec<u8>) -> Vec<u8> {
    footer::append(body)
}

/// The value of a payload that DUMP answered.
///
/// Compressed strings, and fields that entries of a stream share, may give up to `max_decompressed_bytes`
/// altogether. The value takes at most [`MAX_EXPANSION`] times the bytes of the payload and of those. O(n log
/// n).
///
/// # Errors
///
/// [`RestoreError`]; its [`redis_text`](RestoreError::redis_text) is what Redis answers.
pub fn restore(payload: &[u8], max_decompressed_bytes: usize) -> Result<Value, RestoreError> {
    let body = footer::check(payload)?;
    let mut decoder = Decoder::new(body, max_decompressed_bytes);
    let value = restore_value::restore_value(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// What compressed strings of a payload may give by default: as much as the largest string of Redis.
pub const MAX_DECOMPRESSED_BYTES: usize = 512 << 20;

/// Most bytes of memory of a value for each byte of its payload: empty strings of a byte each take eight,
/// groups of a stream about 25; both are in vectors of up to twice their length.
pub const MAX_EXPANSION: usize = 48;
