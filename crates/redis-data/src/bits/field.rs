//! BITFIELD: integers of any width at any bit of a string.

use esker_resp::integer::parse_integer;

/// Sign and width of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    is_signed: bool,
    bits: u32,
}

/// What happens to a value that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Its lowest bits are kept.
    #[default]
    Wrap,
    /// The nearest value that fits is taken.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl FieldType {
    /// The type of a word: `i1` to `i64`, `u1` to `u63`.
    ///
    /// ```
    /// use esker_redis_data::bits::FieldType;
    /// assert!(FieldType::parse(b"u63").is_some());
    /// assert!(FieldType::parse(b"u64").is_none());
    /// ```
    pub fn parse(word: &[u8]) -> Option<Self> {
        let (is_signed, widest, digits) = match word {
            [b'i', digits @ ..] => (true, 64, digits),
            [b'u', digits @ ..] => (false, 63, digits),
            _ => return None,
        };
        let bits = parse_integer(digits).filter(|bits| (1..=widest).contains(bits))?;
        Some(Self { is_signed, bits: bits as u32 })
    }

    /// Its width in bits.
    pub fn bits(self) -> u32 {
        self.bits
    }

    fn smallest(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn largest(self) -> i128 {
        if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The lowest bits of a value, as a value of this type.
    fn wrap(self, value: i128) -> i64 {
        let shift = 128 - self.bits;
        let top = value << shift;
        (if self.is_signed { top >> shift } else { ((top as u128) >> shift) as i128 }) as i64
    }

    /// The exact value that `SET` means by a number.
    fn value_to_set(self, number: i64) -> i128 {
        let value = i128::from(number);
        let is_beyond = if self.is_signed {
            // Redis computes the distance to the largest value in 64 bits. Where that overflows, it saturates
            // upwards.
            self.bits < 64 && self.largest() - value > i128::from(i64::MAX)
        } else {
            // A negative value of an unsigned field is one beyond the largest.
            value < 0
        };
        if is_beyond { value + (1 << 64) } else { value }
    }

    /// What is written for a value; nothing if that fails.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let fitting = value.clamp(self.smallest(), self.largest());
        match overflow {
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(fitting as i64),
            Overflow::Fail => (fitting == value).then_some(value as i64),
        }
    }
}

/// The bit offset of a word: a number, or `#` and a number of fields of the type. `None` unless it is in a
/// string of `max_string_bytes`.
pub fn parse_offset(word: &[u8], field: FieldType, max_string_bytes: u64) -> Option<u64> {
    let offset = match word {
        [b'#', number @ ..] => parse_integer(number)?.checked_mul(i64::from(field.bits))?,
        number => parse_integer(number)?,
    };
    u64::try_from(offset).ok().filter(|offset| offset / 8 < max_string_bytes)
}

/// `GET`: the field at a bit offset. Behind the string there are zeros.
pub fn get_field(string: &[u8], offset: u64, field: FieldType) -> i64 {
    let bits = offset % 8 + u64::from(field.bits);
    let mut window = 0u128;
    for at in 0..bits.div_ceil(8) {
        let byte = usize::try_from(offset / 8 + at).ok().and_then(|at| string.get(at));
        window = window << 8 | u128::from(byte.copied().unwrap_or(0));
    }
    field.wrap((window >> (bits.next_multiple_of(8) - bits)) as i128)
}

/// `SET`: writes a value and gives the one before it; `None` if it does not fit and that fails.
///
/// The string grows with zeros to the end of the field in any case: the offset must be one of
/// [`parse_offset`].
///
/// ```
/// use esker_redis_data::bits::{FieldType, Overflow, set_field};
/// let field = FieldType::parse(b"u8").unwrap();
/// let mut string = Vec::new();
/// assert_eq!(set_field(&mut string, 4, field, 300, Overflow::Saturate), Some(0));
/// assert_eq!(string, [0x0f, 0xf0]);
/// ```
pub fn set_field(
    string: &mut Vec<u8>,
    offset: u64,
    field: FieldType,
    value: i64,
    overflow: Overflow,
) -> Option<i64> {
    let before = get_field(string, offset, field);
    let exact = field.value_to_set(value);
    write(string, offset, field, field.fit(exact, overflow)).then_some(before)
}

/// `INCRBY`: adds to a field and gives the new value; `None` if it does not fit and that fails.
///
/// The string grows as by [`set_field`].
pub fn increment_field(
    string: &mut Vec<u8>,
    offset: u64,
    field: FieldType,
    increment: i64,
    overflow: Overflow,
) -> Option<i64> {
    let sum = i128::from(get_field(string, offset, field)) + i128::from(increment);
    let value = field.fit(sum, overflow);
    write(string, offset, field, value);
    value
}

/// Grows the string and writes a value, if there is one.
fn write(string: &mut Vec<u8>, offset: u64, field: FieldType, value: Option<i64>) -> bool {
    let first = (offset / 8) as usize;
    let bits = (offset % 8) as u32 + field.bits;
    let bytes = bits.div_ceil(8);
    if string.len() < first + bytes as usize {
        string.resize(first + bytes as usize, 0);
    }
    let Some(value) = value else { return false };
    let shift = bytes * 8 - bits;
    let mask = (u128::MAX >> (128 - field.bits)) << shift;
    let placed = (value as u128) << shift & mask;
    for (at, byte) in string[first..first + bytes as usize].iter_mut().rev().enumerate() {
        let (mask, placed) = ((mask >> (8 * at)) as u8, (placed >> (8 * at)) as u8);
        *byte = *byte & !mask | placed;
    }
    true
}
