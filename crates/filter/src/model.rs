//! Models of false-positive rates for every kind, and the number of probes of Bloom filters that minimizes
//! them.
//!
//! A standard filter of `b` bits a key and `k` probes has a fraction `1 - e^(-k/b)` of its bits set, and a
//! probe for an absent key passes if all `k` are.
//!
//! Lines differ in their number of keys: with `b` bits a key a line of 512 bits holds a Poisson number of
//! keys around 512/b, and the fuller lines answer "maybe" more often than the emptier ones make up for
//! (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). A line with `i` keys
//! of `k` probes has a fraction `1 - (1 - 1/512)^(k i)` of its bits set. Where a key has two lines and half
//! of its probes in each, a line has parts of twice as many keys, of half as many probes each, which deviate
//! from their mean by less; and a false positive needs two such lines.
//!
//! The number of probes is chosen from tables, not computed, so that equal keys give equal filters on every
//! machine.

use crate::bits::BitsPerKey;
use crate::lines::{LINE_BITS, MAX_PROBES};

/// Number of probes with the least false positives for each number of bits: the tenths of bits up to which an
/// index plus one is best, computed from [`rate`]. At exactly 10 bits 6 and 7 probes tie, and 6 is taken as
/// the cheaper.
const BEST_UP_TO_TENTHS: [u16; 12] = [20, 35, 50, 66, 82, 100, 118, 138, 159, 182, 208, 237];

/// The same for the standard filter and [`standard_rate`].
const STANDARD_UP_TO_TENTHS: [u16; 21] =
    [20, 35, 50, 64, 79, 93, 108, 122, 137, 151, 166, 180, 195, 209, 224, 238, 252, 267, 281, 296, 310];

/// The same for the double-probe filter and [`double_rate`].
const DOUBLE_UP_TO_TENTHS: [u16; 14] = [20, 35, 50, 65, 79, 95, 109, 126, 141, 158, 173, 192, 208, 229];

fn probes_by(table: &[u16], bits_per_key: BitsPerKey) -> u8 {
    table.iter().take_while(|&&limit| bits_per_key.tenths() > limit).count() as u8 + 1
}

/// The number of probes for blocked filters of this size. Persisted in each filter, so the table may change.
pub fn best_probes(bits_per_key: BitsPerKey) -> u8 {
    probes_by(&BEST_UP_TO_TENTHS, bits_per_key)
}

/// The number of probes for standard filters of this size.
pub fn standard_probes(bits_per_key: BitsPerKey) -> u8 {
    probes_by(&STANDARD_UP_TO_TENTHS, bits_per_key)
}

/// The number of probes for double-probe filters of this size, those of both lines together.
pub fn double_probes(bits_per_key: BitsPerKey) -> u8 {
    probes_by(&DOUBLE_UP_TO_TENTHS, bits_per_key)
}

/// The rate of a filter that stores so many bits of each key on average: the whole bits of some keys, one
/// more of others.
pub fn result_rate(bits: f64) -> f64 {
    (1.0 - bits.fract() / 2.0) * 0.5_f64.powi(bits as i32)
}

/// The rate of a standard filter for any number of probes.
pub fn standard_rate(bits_per_key: f64, probes: u8) -> f64 {
    (1.0 - (-f64::from(probes) / bits_per_key).exp()).powi(i32::from(probes))
}

/// The rate of a blocked filter for any number of probes.
pub fn rate(bits_per_key: f64, probes: u8) -> f64 {
    debug_assert!((1..=MAX_PROBES).contains(&probes));
    passing(LINE_BITS as f64 / bits_per_key, f64::from(probes), probes)
}

/// The rate of a double-probe filter for any number of probes.
pub fn double_rate(bits_per_key: f64, probes: u8) -> f64 {
    debug_assert!((1..=MAX_PROBES).contains(&probes));
    let (mean_parts, bits_of_a_part) = (2.0 * LINE_BITS as f64 / bits_per_key, f64::from(probes) / 2.0);
    passing(mean_parts, bits_of_a_part, probes.div_ceil(2)) * passing(mean_parts, bits_of_a_part, probes / 2)
}

/// Chance that all `probes` bits are set in a line with a Poisson number of such entries.
fn passing(mean_entries: f64, set_by_one: f64, probes: u8) -> f64 {
    let unset_by_one = (1.0 - 1.0 / LINE_BITS as f64).powf(set_by_one);
    // Weights beyond ten deviations do not count. Relative to the first: that of no entries underflows.
    let reach = 10.0 * mean_entries.sqrt() + 10.0;
    let first = (mean_entries - reach).max(0.0) as u32;
    let last = (mean_entries + reach) as u32;
    let mut unset = unset_by_one.powi(first.cast_signed());
    let (mut weight, mut weights, mut sum) = (1e-30, 0.0, 0.0);
    for entries in first..=last {
        weights += weight;
        sum += weight * (1.0 - unset).powi(i32::from(probes));
        weight *= mean_entries / f64::from(entries + 1);
        unset *= unset_by_one;
    }
    sum / weights
}

#[cfg(test)]
mod tests;
