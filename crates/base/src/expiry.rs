//! Expiry times: the layout of values with [`FLAG_EXPIRY`](crate::kind::FLAG_EXPIRY).

/// Bytes of an expiry time in front of a value.
pub const EXPIRY_LEN: usize = 8;

/// The expiry time of a flagged entry, in milliseconds since 1970, and the value behind it. `None` if the
/// value is shorter than a time, which no writer produces.
#[inline]
pub fn split(value: &[u8]) -> Option<(u64, &[u8])> {
    value.split_first_chunk::<EXPIRY_LEN>().map(|(time, value)| (u64::from_le_bytes(*time), value))
}

/// Whether this expiry is over at `read_time_ms`; the expiry time itself is the first such moment.
#[inline]
pub const fn is_over(expiry_ms: u64, read_time_ms: u64) -> bool {
    expiry_ms <= read_time_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_time_precedes_the_value_and_is_exclusive() {
        let bytes = [&0x0102_0304u64.to_le_bytes(), b"value".as_slice()].concat();
        assert_eq!(split(&bytes), Some((0x0102_0304, b"value".as_slice())));
        assert_eq!(split(&bytes[..8]), Some((0x0102_0304, b"".as_slice())));
        assert_eq!(split(&bytes[..7]), None);
        assert!(!is_over(5, 4) && is_over(5, 5) && is_over(5, 6));
    }
}
