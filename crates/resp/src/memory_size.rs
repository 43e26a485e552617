//! Amounts of memory as `redis.conf` and `CONFIG SET` write them: `100`, `1k`, `1kb`, `5GB`.
//!
//! `k`, `m` and `g` are powers of 1,000; `kb`, `mb` and `gb` are powers of 1,024. Case does not matter.
//! Redis lets amounts beyond 64 bits wrap round; here they are refused.

/// Bytes that the text stands for, or `None` if it is no amount.
///
/// Digits may be missing, as in Redis: `` and `kb` are 0.
///
/// ```
/// use esker_resp::memory_size::parse_memory_size;
///
/// assert_eq!(parse_memory_size(b"2k"), Some(2_000));
/// assert_eq!(parse_memory_size(b"2Kb"), Some(2_048));
/// assert_eq!(parse_memory_size(b"-1"), None);
/// assert_eq!(parse_memory_size(b"99999999999gb"), None);
/// ```
#[must_use]
pub fn parse_memory_size(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let bytes_per_unit: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    number
        .iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?
        .checked_mul(bytes_per_unit)
}

#[cfg(test)]
mod tests {
    use super::parse_memory_size;

    #[test]
    fn units_are_those_of_redis() {
        let amounts: [(&str, u64); 10] = [
            ("0", 0),
            ("", 0),
            ("kb", 0),
            ("17b", 17),
            ("1k", 1_000),
            ("1KB", 1_024),
            ("1m", 1_000_000),
            ("1mB", 1_048_576),
            ("1G", 1_000_000_000),
            ("1gb", 1_073_741_824),
        ];
        for (text, bytes) in amounts {
            assert_eq!(parse_memory_size(text.as_bytes()), Some(bytes), "{text}");
        }
        assert_eq!(parse_memory_size(b"18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["-1", "+1", " 1", "1 kb", "1kib", "1.5gb", "1kb ", "18446744073709551616", "1tb", "x"] {
            assert_eq!(parse_memory_size(text.as_bytes()), None, "{text}");
        }
    }
}
