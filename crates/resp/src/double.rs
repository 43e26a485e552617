//! Doubles as Redis 7.0 reads and prints them: scores, `ZINCRBY`, geo distances.
//!
//! Printed are 17 significant digits (`%.17g` of C), so `0.1` comes back as `0.10000000000000001` and every
//! double is read back as it was. Read is what `strtod` reads, hexadecimal numbers and infinities included,
//! if it reads all of it. Refused are: NaN, leading white space, and numbers that are too large or that
//! vanish.

use crate::exact_decimal::{Format, Outcome, Text, parse_text, round};
use crate::integer::write_integer;
use std::fmt::Write;

/// Integers below have at most 17 digits, which are all that are printed.
const SHORT_INTEGERS: f64 = 1e17;
/// `-d.dddddddddddddddde-308`: sign, 17 digits, point, exponent.
const LONGEST: usize = 24;

/// The double that `text` stands for, or `None`. Infinite only for the texts `inf` and `infinity`.
///
/// ```
/// use esker_resp::double::parse_double;
///
/// assert_eq!(parse_double(b"-1.5e3"), Some(-1500.0));
/// assert_eq!(parse_double(b"0x1p-1"), Some(0.5));
/// assert_eq!(parse_double(b"+Inf"), Some(f64::INFINITY));
/// for refused in ["", " 1", "1 ", "nan", "1e", "1e400", "1e-400", "1_0"] {
///     assert_eq!(parse_double(refused.as_bytes()), None);
/// }
/// ```
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    match parse_text(text)? {
        Text::Infinite { negative } => Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Text::Decimal(decimal) => {
            let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (value.is_finite() && (value != 0.0 || decimal.is_zero())).then_some(value)
        }
        Text::Hexadecimal { negative, significant, exponent, more } => {
            let value = match round(significant, exponent, more, Format::DOUBLE) {
                Outcome::Zero if significant == 0 => 0.0,
                Outcome::Zero | Outcome::TooLarge => return None,
                Outcome::Finite { mantissa, exponent } => scale(mantissa, exponent),
            };
            Some(if negative { -value } else { value })
        }
    }
}

/// `mantissa * 2^exponent` for what [`round`] made for a double: exact.
fn scale(mantissa: u64, exponent: i32) -> f64 {
    let mantissa = mantissa as f64;
    // In two steps, since 2^-1074 times 2^52 is no double that a single power of two would reach.
    let half = exponent / 2;
    mantissa * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

/// Appends `value` with 17 significant digits, or `inf`, `-inf`, `nan`, `-nan`.
///
/// ```
/// use esker_resp::double::write_double;
///
/// let mut text = Vec::new();
/// write_double(0.1, &mut text);
/// assert_eq!(text, b"0.10000000000000001");
/// ```
pub fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" });
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == value.trunc() && value.abs() < SHORT_INTEGERS {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        write_integer(value as i64, out);
    } else {
        write_seventeen_digits(value, out);
    }
}

/// `%.17g`: the digits are those of `{:.16e}`, which are exact; only their layout differs.
fn write_seventeen_digits(value: f64, out: &mut Vec<u8>) {
    let mut scientific = Buffer { bytes: [0; LONGEST], length: 0 };
    // Cannot fail: the buffer takes the longest text.
    let written = write!(scientific, "{value:.16e}");
    debug_assert!(written.is_ok());
    let text = &scientific.bytes[..scientific.length];
    let Some(e) = text.iter().position(|&byte| byte == b'e') else { return };
    let exponent: i32 = match &text[e + 1..] {
        [b'-', digits @ ..] => -small_number(digits),
        digits => small_number(digits),
    };
    let (sign, digits) = match &text[..e] {
        [b'-', digits @ ..] => (&b"-"[..], digits),
        digits => (&b""[..], digits),
    };
    out.extend_from_slice(sign);
    let mut significant = [0; 17];
    let mut count = 0;
    for &digit in digits.iter().filter(|byte| byte.is_ascii_digit()).take(significant.len()) {
        significant[count] = digit;
        count += 1;
    }
    while count > 1 && significant[count - 1] == b'0' {
        count -= 1;
    }
    lay_out(&significant[..count], exponent, out);
}

/// Digits `d.ddd` times ten to `exponent`, without trailing zeros, in the shorter of the two notations of C.
fn lay_out(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    match exponent {
        -4..=-1 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + exponent.unsigned_abs() as usize - 1, b'0');
            out.extend_from_slice(digits);
        }
        0..=16 => {
            let whole = exponent as usize + 1;
            out.extend_from_slice(&digits[..whole.min(digits.len())]);
            out.resize(out.len() + whole.saturating_sub(digits.len()), b'0');
            if let Some(fraction @ [_, ..]) = digits.get(whole..) {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            if exponent.unsigned_abs() < 10 {
                out.push(b'0');
            }
            write_integer(i64::from(exponent.unsigned_abs()), out);
        }
    }
}

/// Of at most three digits.
fn small_number(digits: &[u8]) -> i32 {
    digits.iter().fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'))
}

/// Text of bounded length on the stack.
struct Buffer {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(value, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn doubles_are_printed_with_seventeen_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1e16, "-10000000000000000"),
            (99_999_999_999_999_984.0, "99999999999999984"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.1, "0.10000000000000001"),
            (0.5, "0.5"),
            (-2.75, "-2.75"),
            (1234.5, "1234.5"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-310, "9.9999999999999694e-311"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-5e-324, "-4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn every_double_is_read_back_as_it_was_printed() {
        let mut bits: u64 = 1;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits ^ (bits >> 29));
            if value.is_finite() {
                let printed = text(value);
                let back = parse_double(printed.as_bytes()).expect("a number");
                assert_eq!(back.to_bits(), value.to_bits(), "{printed}");
            }
        }
    }

    #[test]
    fn hexadecimal_numbers_are_rounded_to_nearest_even() {
        for (text, expected) in [
            ("0x10", 16.0),
            ("-0X.8", -0.5),
            ("0x1.8p+1", 3.0),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            ("0x200000000000010000000000000000000000001", 2_f64.powi(153) + 2_f64.powi(101)),
            ("0x0p999999999999999999999", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["0x", "0xg", "0x1p", "0x1p1024", "0x1p-1080", "0x.", "0x1p+", "0x1.8q"] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn infinities_are_read_and_what_is_no_number_is_not() {
        for text in ["inf", "+inf", "INFINITY", "Inf"] {
            assert_eq!(parse_double(text.as_bytes()), Some(f64::INFINITY), "{text}");
        }
        assert_eq!(parse_double(b"-infinity"), Some(f64::NEG_INFINITY));
        for text in [".", "+", "-", "e5", ".e5", "1e+", "infi", "nan", "nan(1)", "--1", "1\0", "\t1", "1.0.0"]
        {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
        for (text, expected) in [(".5", 0.5), ("5.", 5.0), ("+5", 5.0), ("0e-400", 0.0), ("1E2", 100.0)] {
            assert_eq!(parse_double(text.as_bytes()), Some(expected), "{text}");
        }
    }
}
