//! Randomness, the same for every engine: a generator, and a random order of all records without a table.

/// A generator of numbers from a seed: xorshift64* (Vigna, "An experimental exploration of Marsaglia's
/// xorshift generators").
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(mix(seed).max(1))
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `limit`.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// The next number from 0 to 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Spreads the bits of a number: the finalizer of splitmix64.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A random order of the numbers below a limit, computed and not stored, so that a billion records take no
/// memory.
///
/// Each step of [`Permutation::at`] is a bijection of the numbers with as many bits as the limit has; numbers
/// beyond the limit are mapped again, two rounds on average at most.
#[derive(Clone)]
pub(crate) struct Permutation {
    limit: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 2],
    offsets: [u64; 2],
}

impl Permutation {
    /// The order of the numbers below `limit` for this seed.
    pub(crate) fn new(limit: u64, seed: u64) -> Permutation {
        let bits = 64 - (limit.max(2) - 1).leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut random = Random::new(seed);
        // Only multiplications by odd factors are bijections.
        let mut odd = || random.next() | 1;
        let factors = [odd(), odd()];
        Permutation { limit, mask, shift: bits.div_ceil(2), factors, offsets: [random.next(), random.next()] }
    }

    /// The number at this position.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut number = place;
        loop {
            for (factor, offset) in self.factors.iter().zip(&self.offsets) {
                number = number.wrapping_mul(*factor).wrapping_add(*offset) & self.mask;
                number ^= number >> self.shift;
            }
            number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            number ^= number >> self.shift;
            if number < self.limit {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Permutation;

    #[test]
    fn a_permutation_has_every_number_once() {
        for limit in [1u64, 2, 3, 1000, 4096, 4097, 100_000] {
            let order = Permutation::new(limit, 42);
            let mut seen = vec![false; limit as usize];
            for place in 0..limit {
                let number = order.at(place) as usize;
                assert!(!seen[number], "{number} comes twice below {limit}");
                seen[number] = true;
            }
        }
    }
}
