//! Numbers as C converts, prints and reads them: casts, `%.14g`, `strtod`.

/// `(long long)value`. What does not fit is the smallest number, as on x86-64.
pub(crate) fn to_i64(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// `(int)value`, likewise.
pub(crate) fn to_i32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// Appends `value` as `%.{precision}g` prints it.
pub(crate) fn write_general(value: f64, precision: usize, out: &mut Vec<u8>) {
    let precision = precision.max(1);
    if value.is_nan() {
        out.extend_from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" });
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
        return;
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(without_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    } else {
        let digits_behind = (precision as i32 - 1 - exponent).max(0) as usize;
        out.extend_from_slice(without_zeros(&format!("{value:.digits_behind$}")).as_bytes());
    }
}

/// A decimal number without zeros at the end of its fraction.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// The number at the beginning of `text` and its length, as `strtod` reads it without white space before it;
/// `None` if there is none.
pub(crate) fn read_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let negative = text.first() == Some(&b'-');
    let (value, length) = unsigned(&text[sign..])?;
    Some((if negative { -value } else { value }, sign + length))
}

fn unsigned(text: &[u8]) -> Option<(f64, usize)> {
    if starts_with_word(text, b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts_with_word(text, b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if starts_with_word(text, b"nan") {
        return Some((f64::NAN, 3 + payload_of_nan(&text[3..])));
    }
    if starts_with_word(text, b"0x")
        && let Some(found) = hexadecimal(&text[2..])
    {
        return Some((found.0, found.1 + 2));
    }
    decimal(text)
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The length of `(characters)` behind `nan`.
fn payload_of_nan(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let inside = text[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if text.get(1 + inside) == Some(&b')') { inside + 2 } else { 0 }
}

fn digits(text: &[u8], is_digit: fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_digit(byte)).count()
}

/// The length of an exponent that begins with `letter`, and its value.
fn exponent(text: &[u8], letter: u8) -> (i64, usize) {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) {
        return (0, 0);
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let count = digits(&text[1 + sign..], u8::is_ascii_digit);
    if count == 0 {
        return (0, 0);
    }
    let mut value = 0_i64;
    for digit in &text[1 + sign..1 + sign + count] {
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    (if text[1] == b'-' { -value } else { value }, 1 + sign + count)
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let before = digits(text, u8::is_ascii_digit);
    let point = usize::from(text.get(before) == Some(&b'.'));
    let behind = if point == 1 { digits(&text[before + 1..], u8::is_ascii_digit) } else { 0 };
    if before + behind == 0 {
        return None;
    }
    let length = before + point + behind;
    let length = length + exponent(&text[length..], b'e').1;
    let number = std::str::from_utf8(&text[..length]).ok()?;
    Some((number.parse().ok()?, length))
}

/// The number behind `0x`. Bits that a double has no place for round it.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let before = digits(text, u8::is_ascii_hexdigit);
    let point = usize::from(text.get(before) == Some(&b'.'));
    let behind = if point == 1 { digits(&text[before + 1..], u8::is_ascii_hexdigit) } else { 0 };
    if before + behind == 0 {
        return None;
    }
    let length = before + point + behind;
    let (power, exponent_length) = exponent(&text[length..], b'p');
    let (mut mantissa, mut shift) = (0_u64, 0_i64);
    for (place, byte) in text[..length].iter().filter(|byte| **byte != b'.').enumerate() {
        let digit = u64::from((*byte as char).to_digit(16)?);
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
        } else {
            // The lowest bit stands for all that is cut off, so that the double is rounded as the whole.
            mantissa |= u64::from(digit != 0);
            shift += 4;
        }
        if place >= before {
            shift -= 4;
        }
    }
    Some((scale(mantissa as f64, shift.saturating_add(power)), length + exponent_length))
}

/// `value * 2^power`.
fn scale(mut value: f64, power: i64) -> f64 {
    let mut power = power.clamp(-5_000, 5_000) as i32;
    while power > 1_000 {
        value *= 2_f64.powi(1_000);
        power -= 1_000;
    }
    while power < -1_000 {
        value *= 2_f64.powi(-1_000);
        power += 1_000;
    }
    value * 2_f64.powi(power)
}

#[cfg(test)]
mod tests {
    use super::{read_number, to_i32, to_i64, write_general};

    fn printed(value: f64, precision: usize) -> String {
        let mut out = Vec::new();
        write_general(value, precision, &mut out);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn general_format_is_that_of_c() {
        for (value, precision, expected) in [
            (0.1, 14, "0.1"),
            (1e15, 14, "1e+15"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (-0.0, 14, "-0"),
            (0.000_01, 14, "1e-05"),
            (0.000_1, 14, "0.0001"),
            (99.99, 3, "100"),
            (3.0, 1, "3"),
            (1e300, 14, "1e+300"),
        ] {
            assert_eq!(printed(value, precision), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        assert_eq!(read_number(b"1e"), Some((1.0, 1)));
        assert_eq!(read_number(b"-1.5e3]"), Some((-1500.0, 6)));
        assert_eq!(read_number(b"0x1p4,"), Some((16.0, 5)));
        assert_eq!(read_number(b"0xg"), Some((0.0, 1)));
        assert_eq!(read_number(b"0x.8"), Some((0.5, 4)));
        assert_eq!(read_number(b"-infx"), Some((f64::NEG_INFINITY, 4)));
        assert_eq!(read_number(b"-"), None);
        assert_eq!(read_number(b"."), None);
        assert_eq!(read_number(b"1."), Some((1.0, 2)));
    }

    #[test]
    fn what_does_not_fit_is_the_smallest_number() {
        assert_eq!(to_i64(1e30), i64::MIN);
        assert_eq!(to_i64(f64::NAN), i64::MIN);
        assert_eq!(to_i64(-3.9), -3);
        assert_eq!(to_i32(2_147_483_648.0), i32::MIN);
        assert_eq!(to_i32(-2_147_483_648.9), i32::MIN);
    }
}
