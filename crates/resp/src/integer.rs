//! Integers as Redis reads and prints them.
//!
//! An integer has exactly one text: no sign `+`, no leading zeros, no `-0`, no white space. So a string that
//! is stored as a number is printed as it was written.

/// Longest text of an `i64`: a sign and 19 digits.
pub(crate) const LONGEST: usize = 20;

/// The integer that `text` is exactly, or `None`.
///
/// ```
/// use esker_resp::integer::parse_integer;
///
/// assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
/// for refused in ["", "-", "+1", " 1", "1 ", "01", "-0", "1.0", "9223372036854775808"] {
///     assert_eq!(parse_integer(refused.as_bytes()), None);
/// }
/// ```
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    if text == b"0" {
        return Some(0);
    }
    if text.len() > LONGEST {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude: u64 = 0;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(value))?;
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends the digits of `value`.
pub fn write_integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(value.unsigned_abs(), out);
}

/// Appends the digits of `value`.
pub fn write_unsigned(mut value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(digit(value));
        return;
    }
    let mut text = [0; LONGEST];
    let mut start = LONGEST;
    while value > 0 {
        start -= 1;
        text[start] = digit(value % 10);
        value /= 10;
    }
    out.extend_from_slice(&text[start..]);
}

/// Of a number below 10.
fn digit(value: u64) -> u8 {
    b'0' + value as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_is_read_as_it_was_printed() {
        let mut values = vec![0, 1, -1, 9, 10, -10, 99, 100, i64::MIN, i64::MIN + 1, i64::MAX];
        values.extend((0..62).flat_map(|shift| [1_i64 << shift, -(1 << shift), (1 << shift) - 1]));
        for value in values {
            let mut text = Vec::new();
            write_integer(value, &mut text);
            assert_eq!(text, value.to_string().into_bytes());
            assert_eq!(parse_integer(&text), Some(value));
        }
        let mut text = Vec::new();
        write_unsigned(u64::MAX, &mut text);
        assert_eq!(text, b"18446744073709551615");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "-9223372036854775809",
            "9223372036854775808",
            "18446744073709551617",
            "99999999999999999999",
            "100000000000000000000000",
            "00",
            "-00",
            "--1",
            "1-",
            "0x1",
            "1\0",
            "\0",
            "1e1",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }
}
