//! The random numbers of `math.random`: the 48-bit linear congruential generator of `lrand48`, with the same
//! sequence for a seed on every machine.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The low 16 bits of a seeded state.
const LOW: u64 = 0x330E;
/// The state before the first seed.
const FIRST: u64 = 0x1234_ABCD_330E;

/// Numbers come from the upper 31 bits.
pub(crate) const MAX: i32 = i32::MAX;

/// A generator's state.
#[derive(Clone, Debug)]
pub(crate) struct Random48(u64);

impl Default for Random48 {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Random48 {
    /// Begins the sequence of `seed`.
    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | LOW;
    }

    /// The next number, from 0 to 2^31 - 1.
    pub(crate) fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        (self.0 >> 17) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::Random48;

    #[test]
    fn the_sequence_of_a_seed_is_that_of_lrand48() {
        let mut random = Random48::default();
        random.seed(0);
        let numbers: Vec<i32> = (0..3).map(|_| random.next()).collect();
        assert_eq!(numbers, [366_850_414, 1_610_402_240, 206_956_554]);
    }
}
