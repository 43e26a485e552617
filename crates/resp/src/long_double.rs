//! Long doubles of `INCRBYFLOAT` and `HINCRBYFLOAT`: the 80-bit format of x87, in software.
//!
//! Redis adds in `long double` and prints 17 digits behind the point (`%.17Lf`) without trailing zeros, so
//! that 3.0 + 1.1 is `4.1`; in doubles it would print `4.0999999999999996`. Values are rounded once, to
//! nearest and even, when they are read, added and printed, as the processor and the C library round them.

use crate::exact_decimal::{Format, Natural, Outcome, Text, parse_text, round};
use crate::integer::write_unsigned;

/// Redis reads no longer text than this as a long double.
pub const LONGEST_TEXT: usize = 5 * 1024 - 1;
/// Digits behind the point.
const FRACTION_DIGITS: usize = 17;
/// Ten to the power of [`FRACTION_DIGITS`].
const ONE: u128 = 100_000_000_000_000_000;

/// A number `± mantissa * 2^exponent` with 64 bits of mantissa, or an infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Outcome,
}

impl LongDouble {
    /// Reads what `strtold` reads, if it reads all of it; `None` for NaN, white space, text beyond
    /// [`LONGEST_TEXT`], and numbers that are too large or that vanish. At most a few milliseconds.
    ///
    /// ```
    /// use esker_resp::long_double::LongDouble;
    ///
    /// let sum = LongDouble::parse(b"3.0").unwrap().checked_add(LongDouble::parse(b"1.1").unwrap()).unwrap();
    /// let mut text = Vec::new();
    /// sum.write(&mut text);
    /// assert_eq!(text, b"4.1");
    /// assert_eq!(LongDouble::parse(b"nan"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (negative, rounded, zero) = match parse_text(text)? {
            Text::Infinite { negative } => return Some(Self { negative, magnitude: Outcome::TooLarge }),
            Text::Decimal(decimal) => {
                (decimal.negative, decimal.round(Format::LONG_DOUBLE), decimal.is_zero())
            }
            Text::Hexadecimal { negative, significant, exponent, more } => {
                (negative, round(significant, exponent, more, Format::LONG_DOUBLE), significant == 0)
            }
        };
        match rounded {
            Outcome::TooLarge => None,
            Outcome::Zero if !zero => None,
            magnitude => Some(Self { negative, magnitude }),
        }
    }

    /// Whether it is one of the infinities.
    #[must_use]
    pub fn is_infinite(self) -> bool {
        matches!(self.magnitude, Outcome::TooLarge)
    }

    /// The sum, or `None` if it is infinite or no number: Redis' `increment would produce NaN or Infinity`.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let (a, b) = match (self.magnitude, other.magnitude) {
            (Outcome::TooLarge, _) | (_, Outcome::TooLarge) => return None,
            (Outcome::Zero, _) => return Some(other),
            (_, Outcome::Zero) => return Some(self),
            (
                Outcome::Finite { mantissa: a, exponent: a_exponent },
                Outcome::Finite { mantissa: b, exponent: b_exponent },
            ) => (Aligned::new(a, a_exponent), Aligned::new(b, b_exponent)),
        };
        let (larger, smaller, negative) = if a >= b { (a, b, self.negative) } else { (b, a, other.negative) };
        let shifted = smaller.bits_at(larger.exponent);
        let sum = if self.negative == other.negative { larger.bits + shifted } else { larger.bits - shifted };
        match round(sum, larger.exponent, false, Format::LONG_DOUBLE) {
            Outcome::TooLarge => None,
            magnitude => Some(Self { negative, magnitude }),
        }
    }

    /// Appends the number with up to 17 digits behind the point, without trailing zeros and without
    /// exponent: at most 4,952 bytes; `inf` or `-inf` for infinities.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        match self.magnitude {
            Outcome::TooLarge => out.extend_from_slice(b"inf"),
            Outcome::Zero => out.push(b'0'),
            Outcome::Finite { mantissa, exponent } if exponent >= 0 => {
                Natural::shifted(mantissa, exponent as usize).write(out);
            }
            Outcome::Finite { mantissa, exponent } => {
                write_fixed_point(hundred_quadrillionths(mantissa, exponent.unsigned_abs()), out);
            }
        }
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }
}

/// `mantissa * 10^17 / 2^shift`, rounded to nearest and even. The product has at most 121 bits.
fn hundred_quadrillionths(mantissa: u64, shift: u32) -> u128 {
    let scaled = u128::from(mantissa) * ONE;
    let (Some(whole), Some(half)) = (scaled.checked_shr(shift), 1_u128.checked_shl(shift - 1)) else {
        // Below a half.
        return 0;
    };
    let rest = scaled & (half | (half - 1));
    whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
}

/// Appends a count of 10^-17 as a decimal fraction. It is at most 2^63 wholes.
fn write_fixed_point(count: u128, out: &mut Vec<u8>) {
    let (whole, fraction) = (count / ONE, count % ONE);
    write_unsigned(whole as u64, out);
    if fraction == 0 {
        return;
    }
    out.push(b'.');
    let digits = out.len();
    // Ten to the 17th in front keeps the zeros that the fraction begins with.
    write_unsigned((ONE + fraction) as u64, out);
    out.remove(digits);
    debug_assert_eq!(out.len(), digits + FRACTION_DIGITS);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// A mantissa at the top of 126 bits: two such numbers have a sum of 127 bits, and 62 bits are below the
/// mantissa's least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Aligned {
    exponent: i32,
    bits: u128,
}

impl Aligned {
    fn new(mantissa: u64, exponent: i32) -> Self {
        let shift = u128::from(mantissa).leading_zeros() - 2;
        Self { exponent: exponent - shift as i32, bits: u128::from(mantissa) << shift }
    }

    /// The bits when the least one has `exponent`, which is not smaller. What falls off leaves a one in the
    /// last place: it is far below the bit that decides on rounding, so only "there is more" counts.
    fn bits_at(self, exponent: i32) -> u128 {
        let shift = exponent.abs_diff(self.exponent);
        let kept = self.bits.checked_shr(shift).unwrap_or(0);
        let back = kept.checked_shl(shift).unwrap_or(0);
        kept | u128::from(back != self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: LongDouble) -> String {
        let mut out = Vec::new();
        number.write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn number(text: &str) -> LongDouble {
        LongDouble::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    fn sum(a: &str, b: &str) -> String {
        number(a).checked_add(number(b)).map_or_else(|| "none".to_owned(), text)
    }

    #[test]
    fn sums_are_printed_as_redis_prints_them() {
        for (a, b, expected) in [
            ("3.0", "1.1", "4.1"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("1", "-1", "0"),
            ("-1e-30", "0", "0"),
            ("0", "1e-18", "0"),
            ("0", "5.1e-18", "0.00000000000000001"),
            ("-0.5", "0.25", "-0.25"),
            ("1e19", "1", "10000000000000000001"),
            ("1e20", "1", "100000000000000000000"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0x1p64", "-1", "18446744073709551615"),
            ("0x1p70", "0x1p-70", "1180591620717411303424"),
            // A half of the last place and a bit more, which falls off when the two are aligned.
            ("9223372036854775808", "0x8000000000000001p-64", "9223372036854775809"),
            ("9223372036854775808", "0x8000000000000000p-64", "9223372036854775808"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("inf", "1", "none"),
            ("-inf", "inf", "none"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
            assert_eq!(sum(b, a), expected, "{b} + {a}");
        }
    }

    #[test]
    fn the_range_is_that_of_eighty_bits() {
        assert_eq!(text(number("1e400")).len(), 401);
        let largest = "1.18973149535723176502e4932";
        assert_eq!(text(number(largest)).len(), 4933);
        assert_eq!(sum(largest, largest), "none");
        assert_eq!(text(number("1e-4950")), "0");
        for text in
            ["1.2e4932", "1e-4960", "1e999999999999999999999", "1e-999999999999999999999", "", " 1", "nan"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(text(number("0e99999999999")), "0");
        assert_eq!(LongDouble::parse(&b"1".repeat(LONGEST_TEXT + 1)), None);
        assert!(LongDouble::parse(&b"0".repeat(LONGEST_TEXT)).is_some());
    }
}
