//! What a blocked Bloom filter costs in false positives, and the number of probes that makes it least.
//!
//! The keys of a line are not its average: with `b` bits a key a line of 512 bits holds a Poisson number of keys
//! around 512/b, and the fuller lines answer "maybe" more often than the emptier ones make up for (Putze, Sanders,
//! Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). A line with `i` keys of `k` probes has a
//! fraction `1 - (1 - 1/512)^(k i)` of its bits set, and a probe for an absent key passes if all `k` are.

use crate::bits::BitsPerKey;
use crate::blocked::{LINE_BITS, MAX_PROBES};

/// Number of probes with the least false positives for each number of bits: the tenths of bits up to which an
/// index plus one is best, computed from [`rate`]. At exactly 10 bits 6 and 7 probes tie, and 6 is taken as the cheaper.
const BEST_UP_TO_TENTHS: [u16; 12] = [20, 35, 50, 66, 82, 100, 118, 138, 159, 182, 208, 237];

/// The number of probes for filters of this size. Persisted in each filter, so the table may change.
#[inline]
pub fn best_probes(bits_per_key: BitsPerKey) -> u8 {
    let below = BEST_UP_TO_TENTHS.iter().take_while(|&&limit| bits_per_key.tenths() > limit).count();
    below as u8 + 1
}

/// Share of absent keys that a blocked Bloom filter of `bits_per_key` answers "maybe" for, with the number of
/// probes it is built with; 1 at no bits. Takes some microseconds. Measured rates exceed it by 1 to 3 % of their
/// value up to 14 bits, because the probes of a key are not quite independent.
pub fn expected_false_positive_rate(bits_per_key: f64) -> f64 {
    if bits_per_key.is_nan() || bits_per_key < BitsPerKey::MIN.bits() {
        return 1.0;
    }
    let bits_per_key = BitsPerKey::from_bits(bits_per_key);
    rate(bits_per_key.bits(), best_probes(bits_per_key))
}

/// The rate for any number of probes.
pub fn rate(bits_per_key: f64, probes: u8) -> f64 {
    debug_assert!((1..=MAX_PROBES).contains(&probes));
    let mean_keys = LINE_BITS as f64 / bits_per_key;
    let unset_by_one_key = (1.0 - 1.0 / LINE_BITS as f64).powi(i32::from(probes));
    // The Poisson weights beyond ten deviations are below the precision of the sum.
    let last = (mean_keys + 10.0 * mean_keys.sqrt()).ceil() as u32 + 10;
    let (mut sum, mut weight, mut unset) = (0.0, (-mean_keys).exp(), 1.0);
    for keys in 1..=last {
        weight *= mean_keys / f64::from(keys);
        unset *= unset_by_one_key;
        sum += weight * (1.0 - unset).powi(i32::from(probes));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_probes_is_the_optimum_of_the_model() {
        for tenths in BitsPerKey::MIN.tenths()..=BitsPerKey::MAX.tenths() {
            let bits_per_key = BitsPerKey::from_bits(f64::from(tenths) / 10.0);
            let chosen = rate(bits_per_key.bits(), best_probes(bits_per_key));
            let best = (1..=MAX_PROBES).map(|k| rate(bits_per_key.bits(), k)).fold(1.0, f64::min);
            assert!(chosen <= best * 1.003, "{} bits: {chosen} against {best}", bits_per_key.bits());
        }
    }

    #[test]
    fn rates_agree_with_the_published_ones() {
        // Percent, for 2 to 24 bits.
        let table = [
            (2.0, 39.3),
            (4.0, 14.8),
            (6.0, 5.8),
            (8.0, 2.3),
            (10.0, 0.96),
            (12.0, 0.41),
            (14.0, 0.18),
            (16.0, 0.082),
            (20.0, 0.019),
            (24.0, 0.005),
        ];
        for (bits, percent) in table {
            let rate = expected_false_positive_rate(bits) * 100.0;
            assert!((rate / percent - 1.0).abs() < 0.04, "{bits} bits: {rate} % against {percent} %");
        }
    }

    #[test]
    fn more_bits_never_hurt() {
        let mut last = 1.0;
        for tenths in BitsPerKey::MIN.tenths()..=BitsPerKey::MAX.tenths() {
            let rate = expected_false_positive_rate(f64::from(tenths) / 10.0);
            assert!(rate < last);
            last = rate;
        }
        assert_eq!(expected_false_positive_rate(0.0), 1.0);
        assert_eq!(expected_false_positive_rate(f64::NAN), 1.0);
        assert_eq!(expected_false_positive_rate(1e9), expected_false_positive_rate(24.0));
    }
}
