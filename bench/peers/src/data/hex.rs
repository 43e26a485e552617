//! Hexadecimal digits of 32 bits, eight at a time in a word.

const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
const ONES: u64 = 0x0101_0101_0101_0101;

/// The eight digits of a number, lower case; the first one is the highest byte.
#[inline]
pub(super) fn digits(number: u32) -> u64 {
    let mut nibbles = u64::from(number);
    nibbles = (nibbles | (nibbles << 16)) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | (nibbles << 8)) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | (nibbles << 4)) & NIBBLES;
    let is_letter = ((nibbles + 6 * ONES) >> 4) & ONES;
    nibbles + u64::from(b'0') * ONES + is_letter * u64::from(b'a' - b'0' - 10)
}

/// The number of eight digits; any number where one of them is none.
#[inline]
pub(super) fn number(digits: u64) -> u32 {
    let nibbles = ((digits & NIBBLES) + 9 * ((digits >> 6) & ONES)) & NIBBLES;
    let pairs = (nibbles | (nibbles >> 4)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | (pairs >> 8)) & 0x0000_ffff_0000_ffff;
    (fours | (fours >> 16)) as u32
}

#[cfg(test)]
mod tests {
    use super::{digits, number};
    use crate::data::Random;

    #[test]
    fn digits_are_those_of_the_formatter_and_come_back() {
        let mut random = Random::new(1);
        let some = std::iter::repeat_with(|| random.next() as u32).take(10_000);
        for value in [0, 9, 10, 15, 0x9abc_def0, u32::MAX].into_iter().chain(some) {
            let made = digits(value);
            assert_eq!(std::str::from_utf8(&made.to_be_bytes()).unwrap(), format!("{value:08x}"));
            assert_eq!(number(made), value);
        }
        number(u64::MAX);
    }
}
