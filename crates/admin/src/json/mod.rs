//! Reports of a database as JSON: the same for `esker --json` and for HTTP.

pub mod amplification;
pub mod levels;
pub mod metrics;
pub mod stalls;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole milliseconds.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
fn unix_ms(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        text
    })
}
