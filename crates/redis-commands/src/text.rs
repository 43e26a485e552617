//! How Redis reads words by functions of C: up to a NUL byte, and numbers by `atoi`.

/// The bytes before the first NUL, which is all that a C function sees of a string.
pub(crate) fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// White space of C's `isspace`: the vertical tab counts, unlike in Rust.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether a pattern or name may stand in a rule: rules are words of a line, so white space and NUL may not.
pub(crate) fn is_one_word(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| is_space(*byte) || *byte == 0)
}

/// Whether two words are equal up to the case of letters and up to their first NUL.
pub(crate) fn same_word(left: &[u8], right: &str) -> bool {
    before_nul(left).eq_ignore_ascii_case(right.as_bytes())
}

/// C's `atoi`: the number at the beginning after white space, 0 without one. What exceeds 64 bits becomes
/// their largest or smallest number, and then only the lower 32 bits remain.
pub(crate) fn leading_integer(text: &[u8]) -> i32 {
    let start = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for digit in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(digit - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    value as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_integers_stop_at_other_bytes_and_keep_32_bits() {
        for (text, value) in [
            ("", 0),
            ("x", 0),
            (" \x0b12a", 12),
            ("+3", 3),
            ("-4", -4),
            ("4294967297", 1),
            ("99999999999999999999", -1),
            ("-99999999999999999999", 0),
        ] {
            assert_eq!(leading_integer(text.as_bytes()), value, "{text}");
        }
    }
}
