//! Radix packing: numbers of a range that is no power of two, several in one, as the digits of a greater
//! number.
//!
//! A number below `radix` needs `log2(radix)` bits, rounded up if it is packed alone. So `digits` of them are
//! written as one number to the base `radix`, the first as the lowest digit, and only the group's bits are
//! rounded up: of numbers below 50,000, which need 15.6 bits each, three take 47 bits together.
//!
//! Digits are split by products instead of divisions: with `reciprocal` = 2^64 / radix, rounded up, the upper
//! half of `number * reciprocal` is `number / radix` rounded down whenever `number * radix` does not exceed
//! 2^64 (Granlund and Montgomery, *Division by invariant integers using multiplication*, PLDI 1994). That
//! bounds a group: radix^(digits + 1) must be less than 2^64.

use super::plan::bits_of;
use super::{MAX_BITS, packed_bytes};

/// Most digits of a group; the stored size states 2 to so many.
const MAX_DIGITS: u32 = 8;

/// The stored size of a column whose groups have two digits; greater ones follow.
const TWO_DIGITS: u32 = MAX_BITS + 1;

/// Common multiple of 2 to [`MAX_DIGITS`]: compares the bits of a digit without fractions.
const COMMON_MULTIPLE: u32 = 840;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// Exclusive bound of the numbers, at least 2.
    pub(super) radix: u64,
    /// Numbers of a group: 2 to [`MAX_DIGITS`].
    digits: u32,
    /// Bits of a group, at most [`MAX_BITS`].
    pub(super) bits: u32,
}

impl Groups {
    /// Groups of so many numbers below `radix`, if they fit.
    fn new(radix: u64, digits: u32) -> Option<Groups> {
        if radix < 2 || !(2..=MAX_DIGITS).contains(&digits) {
            return None;
        }
        radix.checked_pow(digits + 1)?;
        let bits = bits_of(radix.pow(digits) - 1);
        (bits <= MAX_BITS).then_some(Groups { radix, digits, bits })
    }

    /// The smallest ones, if any.
    pub(super) fn best(radix: u64) -> Option<Groups> {
        let all = (2..=MAX_DIGITS).filter_map(|digits| Groups::new(radix, digits));
        all.min_by_key(|groups| groups.bits * (COMMON_MULTIPLE / groups.digits))
    }

    /// The stored size, in place of the bits.
    pub(super) fn size(self) -> u32 {
        TWO_DIGITS + self.digits - 2
    }

    /// The groups of this stored size and radix, if it is one of groups.
    pub(super) fn of_size(size: u32, radix: u64) -> Option<Groups> {
        Groups::new(radix, (size + 2).checked_sub(TWO_DIGITS)?)
    }

    pub(super) fn digits(self) -> usize {
        self.digits as usize
    }

    pub(super) fn count(self, numbers: usize) -> usize {
        numbers.div_ceil(self.digits())
    }

    pub(super) fn packed_bytes(self, numbers: usize) -> usize {
        packed_bytes(self.count(numbers), self.bits)
    }

    /// Each group of the numbers, which are their distances from `least`.
    pub(super) fn of_values(self, values: &[u64], least: u64) -> impl Iterator<Item = u64> {
        let digit = move |group: u64, value: &u64| group * self.radix + (value - least);
        values.chunks(self.digits()).map(move |values| values.iter().rev().fold(0, digit))
    }

    /// Splits groups: the digits of group `i` go to `numbers[i * digits..]`. Invalid groups give arbitrary
    /// numbers.
    pub(super) fn split(self, groups: &mut [u64], numbers: &mut [u64]) {
        let (digits, reciprocal) = (self.digits(), u64::MAX / self.radix + 1);
        for digit in 0..digits {
            // Digit by digit and not group by group: so the products of different groups overlap.
            for (group, numbers) in groups.iter_mut().zip(numbers.chunks_exact_mut(digits)) {
                let quotient = ((u128::from(*group) * u128::from(reciprocal)) >> 64) as u64;
                numbers[digit] = group.wrapping_sub(quotient.wrapping_mul(self.radix));
                *group = quotient;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_back() {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        for radix in
            (2..300).chain([999, 1_000, 4_095, 4_097, 50_000, 65_535, 65_536, 1 << 18, (1 << 21) - 1])
        {
            for digits in 2..=MAX_DIGITS {
                let Some(groups) = Groups::new(radix, digits) else { continue };
                assert_eq!(Groups::of_size(groups.size(), radix), Some(groups));
                let len = 3 * groups.digits() + 1;
                let mut values: Vec<u64> = (0..len).map(|_| next() % radix).collect();
                // The greatest group of all.
                values[..groups.digits()].fill(radix - 1);
                let raised: Vec<u64> = values.iter().map(|value| value + 77).collect();
                let mut packed: Vec<u64> = groups.of_values(&raised, 77).collect();
                assert_eq!(packed.len(), groups.count(len));
                assert!(packed.iter().all(|&group| bits_of(group) <= groups.bits));
                let mut found = vec![0; packed.len() * groups.digits()];
                groups.split(&mut packed, &mut found);
                assert_eq!(found[..len], values, "{groups:?}");
            }
        }
    }

    #[test]
    fn the_best_groups_come_close_to_the_bits_there_are() {
        for (radix, bits_of_a_thousand) in
            [(3, 1_625), (5, 2_334), (10, 3_334), (100, 6_667), (50_000, 15_667)]
        {
            let groups = Groups::best(radix).unwrap();
            assert!(groups.bits * 1_000 <= bits_of_a_thousand * groups.digits, "{groups:?}");
        }
        assert_eq!((Groups::best(0), Groups::best(1), Groups::best(1 << 30)), (None, None, None));
        assert_eq!(Groups::of_size(MAX_BITS, 10), None);
        assert_eq!(Groups::of_size(64, 2), None);
    }
}
