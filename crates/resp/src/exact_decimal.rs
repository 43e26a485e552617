//! Exact numbers of any size: from text to a binary number with any count of bits, rounded once.
//!
//! Rust has no long double, and its doubles read no hexadecimal text. Both need the exact value of a text and
//! one rounding, to nearest and even. [`parse_text`] takes the text apart, [`Natural`] holds exact numbers,
//! and [`round`] makes a mantissa of the [`Format`]'s width.

use std::cmp::Ordering;

/// The width and range of a binary format: values are `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Bits of the mantissa.
    bits: u32,
    /// Exponent of the least bit that a value can have.
    least_exponent: i32,
    /// No value reaches two to this power.
    limit: i32,
}

impl Format {
    /// `f64`.
    pub(crate) const DOUBLE: Self = Self { bits: 53, least_exponent: -1074, limit: 1024 };
    /// The 80-bit format of x87, which is `long double` where Redis mostly runs.
    pub(crate) const LONG_DOUBLE: Self = Self { bits: 64, least_exponent: -16_445, limit: 16_384 };
}

/// What rounding gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Zero,
    Finite { mantissa: u64, exponent: i32 },
    TooLarge,
}

/// Rounds `significant * 2^exponent`, plus something less than its least bit if `more`, to nearest, ties to
/// even. With `more`, `significant` has more bits than the format.
pub(crate) fn round(significant: u128, exponent: i32, more: bool, format: Format) -> Outcome {
    if significant == 0 {
        return Outcome::Zero;
    }
    let length = u128::BITS - significant.leading_zeros();
    // The exponents of texts are bounded far below what an i32 holds.
    let beyond_width = i64::from(length) - i64::from(format.bits);
    let below_range = i64::from(format.least_exponent) - i64::from(exponent);
    let dropped = beyond_width.max(below_range).max(0);
    if dropped > i64::from(length) {
        return Outcome::Zero;
    }
    let dropped = dropped as u32;
    let mut mantissa = significant.checked_shr(dropped).unwrap_or(0);
    if dropped > 0 {
        let half = 1_u128 << (dropped - 1);
        let rest = significant & (half | (half - 1));
        let up = rest > half || (rest == half && (more || mantissa & 1 == 1));
        mantissa += u128::from(up);
    }
    let mut exponent = exponent + dropped as i32;
    if mantissa >> format.bits != 0 {
        // Rounded up to the next power of two.
        mantissa >>= 1;
        exponent += 1;
    }
    let length = (u128::BITS - mantissa.leading_zeros()) as i32;
    match u64::try_from(mantissa) {
        Ok(0) => Outcome::Zero,
        Ok(mantissa) if exponent + length <= format.limit => Outcome::Finite { mantissa, exponent },
        _ => Outcome::TooLarge,
    }
}

/// A number as `strtod` reads it, taken apart.
#[derive(Debug)]
pub(crate) enum Text<'t> {
    Infinite {
        negative: bool,
    },
    Decimal(Decimal<'t>),
    /// `significant * 2^exponent`, and something less than its least bit if `more`.
    Hexadecimal {
        negative: bool,
        significant: u128,
        exponent: i32,
        more: bool,
    },
}

/// `whole.fraction` times ten to `exponent`.
#[derive(Debug)]
pub(crate) struct Decimal<'t> {
    pub(crate) negative: bool,
    whole: &'t [u8],
    fraction: &'t [u8],
    exponent: i64,
}

/// Exponents beyond are as good as infinite; it keeps sums within 32 bits.
const LARGEST_EXPONENT: i64 = 1 << 29;

/// Takes all of `text` apart, or nothing: no white space, no NaN.
pub(crate) fn parse_text(text: &[u8]) -> Option<Text<'_>> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if magnitude.eq_ignore_ascii_case(b"inf") || magnitude.eq_ignore_ascii_case(b"infinity") {
        return Some(Text::Infinite { negative });
    }
    if let [b'0', b'x' | b'X', digits @ ..] = magnitude {
        let (whole, fraction, exponent) = split_number(digits, u8::is_ascii_hexdigit, b'p')?;
        return Some(hexadecimal(negative, whole, fraction, exponent));
    }
    let (whole, fraction, exponent) = split_number(magnitude, u8::is_ascii_digit, b'e')?;
    Some(Text::Decimal(Decimal { negative, whole, fraction, exponent }))
}

/// Digits before and behind the point, and the exponent behind `letter`.
fn split_number(text: &[u8], is_digit: fn(&u8) -> bool, letter: u8) -> Option<(&[u8], &[u8], i64)> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction = &b""[..];
    if let [b'.', behind @ ..] = rest {
        (fraction, rest) = behind.split_at(digits(behind));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [first, signed @ ..] if first.eq_ignore_ascii_case(&letter) => parse_exponent(signed)?,
        _ => return None,
    };
    Some((whole, fraction, exponent))
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size =
        digits.iter().fold(0_i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(LARGEST_EXPONENT));
    Some(sign * size)
}

/// The first 31 digits that are not leading zeros are kept; the rest only says that there is more.
fn hexadecimal<'t>(negative: bool, whole: &[u8], fraction: &[u8], exponent: i64) -> Text<'t> {
    let (mut significant, mut shift, mut more) = (0_u128, 0_i64, false);
    for (index, &digit) in whole.iter().chain(fraction).enumerate() {
        let behind_point = index >= whole.len();
        let value = u128::from((digit as char).to_digit(16).unwrap_or(0));
        if significant >> (u128::BITS - 4) == 0 {
            significant = significant << 4 | value;
            shift -= if behind_point { 4 } else { 0 };
        } else {
            more |= value != 0;
            shift += if behind_point { 0 } else { 4 };
        }
    }
    // Texts are at most 512 MiB long, so the shift stays below 2^32 and the sum is clamped to an i32.
    let exponent = (exponent + shift).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT) as i32;
    Text::Hexadecimal { negative, significant, exponent, more }
}

impl Decimal<'_> {
    /// Whether all digits are 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == b'0')
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// Rounds to `format`. Time grows with the square of the digits; the caller bounds them.
    pub(crate) fn round(&self, format: Format) -> Outcome {
        let digits: Vec<u8> = self.digits().skip_while(|&digit| digit == b'0').collect();
        if digits.is_empty() {
            return Outcome::Zero;
        }
        let exponent = self.exponent - self.fraction.len() as i64;
        // Ten to the power of this is more than the value, and a tenth of it is not.
        let magnitude = exponent + digits.len() as i64;
        // Ten is more than 2^3, so these are out of range by far, and what follows has a bounded size.
        if magnitude > i64::from(format.limit) / 3 + 1 {
            return Outcome::TooLarge;
        }
        if magnitude < i64::from(format.least_exponent) / 3 - 1 {
            return Outcome::Zero;
        }
        let mut numerator = Natural::from_digits(&digits);
        let power = exponent.unsigned_abs() as usize;
        if exponent >= 0 {
            numerator.multiply_by_power_of_ten(power);
            let (significant, exponent, more) = numerator.top_bits();
            return round(significant, exponent, more, format);
        }
        let mut denominator = Natural::from_digits(b"1");
        denominator.multiply_by_power_of_ten(power);
        let (quotient, exponent, more) = numerator.divide(denominator);
        round(quotient, exponent, more, format)
    }
}

/// Bits that a quotient has at least: two more than the widest mantissa, so that halves are told apart.
const QUOTIENT_BITS: usize = 66;

/// A natural number of any size: limbs of 32 bits, the least first, without zeros at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Natural {
    limbs: Vec<u32>,
}

impl Natural {
    /// `mantissa * 2^shift`.
    pub(crate) fn shifted(mantissa: u64, shift: usize) -> Self {
        let mut number = Self { limbs: vec![mantissa as u32, (mantissa >> 32) as u32] };
        number.trim();
        number.shift_left(shift);
        number
    }

    fn from_digits(digits: &[u8]) -> Self {
        let mut number = Self { limbs: Vec::with_capacity(digits.len() / 9 + 1) };
        for chunk in digits.chunks(9) {
            let value = chunk.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            number.multiply_and_add(10_u32.pow(chunk.len() as u32), value);
        }
        number
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn multiply_and_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn multiply_by_power_of_ten(&mut self, power: usize) {
        for _ in 0..power / 9 {
            self.multiply_and_add(1_000_000_000, 0);
        }
        self.multiply_and_add(10_u32.pow((power % 9) as u32), 0);
    }

    fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |last| self.limbs.len() * 32 - last.leading_zeros() as usize)
    }

    fn shift_left(&mut self, bits: usize) {
        if self.limbs.is_empty() {
            return;
        }
        self.multiply_and_add(1 << (bits % 32), 0);
        self.limbs.splice(0..0, std::iter::repeat_n(0, bits / 32));
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            let next = *limb << 31;
            *limb = *limb >> 1 | carry;
            carry = next;
        }
        self.trim();
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, first) = limb.overflowing_sub(subtrahend);
            let (difference, second) = difference.overflowing_sub(u32::from(borrow));
            *limb = difference;
            borrow = first || second;
        }
        self.trim();
    }

    /// The highest 128 bits, the exponent of their least, and whether there is more below.
    fn top_bits(&self) -> (u128, i32, bool) {
        let below = self.bits().saturating_sub(u128::BITS as usize);
        let bit = |index: usize| self.limbs[index / 32] >> (index % 32) & 1;
        let top = (below..self.bits()).rev().fold(0, |sum, index| sum << 1 | u128::from(bit(index)));
        (top, below as i32, (0..below).any(|index| bit(index) == 1))
    }

    /// The quotient's highest bits, at least [`QUOTIENT_BITS`], the exponent of their least, and whether
    /// there is a remainder.
    fn divide(mut self, mut denominator: Self) -> (u128, i32, bool) {
        // Scales the numerator such that the quotient has one or two bits more than are wanted.
        let scale = (QUOTIENT_BITS + 1 + denominator.bits()) as i64 - self.bits() as i64;
        if scale >= 0 {
            self.shift_left(scale as usize);
        } else {
            denominator.shift_left(scale.unsigned_abs() as usize);
        }
        denominator.shift_left(QUOTIENT_BITS + 1);
        let mut quotient = 0;
        for _ in 0..=QUOTIENT_BITS + 1 {
            quotient <<= 1;
            if self.compare(&denominator) != Ordering::Less {
                self.subtract(&denominator);
                quotient |= 1;
            }
            denominator.halve();
        }
        (quotient, -scale as i32, !self.limbs.is_empty())
    }

    /// Appends the decimal digits.
    pub(crate) fn write(mut self, out: &mut Vec<u8>) {
        let start = out.len();
        while !self.limbs.is_empty() {
            let mut remainder = 0;
            for limb in self.limbs.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*limb);
                *limb = (value / 1_000_000_000) as u32;
                remainder = value % 1_000_000_000;
            }
            self.trim();
            for _ in 0..9 {
                out.push(b'0' + (remainder % 10) as u8);
                remainder /= 10;
            }
        }
        while out.len() > start + 1 && out.last() == Some(&b'0') {
            out.pop();
        }
        out[start..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_to_doubles_as_the_standard_library_rounds_them() {
        let mut texts = vec!["9007199254740993".to_owned(), "2.4703282292062327e-324".to_owned()];
        texts.extend(["1.7976931348623158e308", "1.7976931348623159e308", "4.9e-324"].map(str::to_owned));
        let mut state: u64 = 7;
        for _ in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let exponent = (state >> 33) as i64 % 330;
            texts.push(format!("{}.{}e{}", state >> 40, state & 0xffff_ffff, exponent - 165));
        }
        for text in texts {
            let Some(Text::Decimal(decimal)) = parse_text(text.as_bytes()) else { panic!("{text}") };
            let expected: f64 = text.parse().expect("a number");
            let found = match decimal.round(Format::DOUBLE) {
                Outcome::Zero => 0.0,
                Outcome::TooLarge => f64::INFINITY,
                Outcome::Finite { mantissa, exponent } => {
                    let half = exponent / 2;
                    mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half)
                }
            };
            assert_eq!(found.to_bits(), expected.to_bits(), "{text}");
        }
    }

    #[test]
    fn naturals_print_their_digits() {
        let mut out = Vec::new();
        Natural::shifted(1, 128).write(&mut out);
        assert_eq!(out, b"340282366920938463463374607431768211456");
        out.clear();
        Natural::from_digits(b"1000000000000000000000").write(&mut out);
        assert_eq!(out, b"1000000000000000000000");
    }
}
