//! Estimate of the cardinality from the registers, by Ertl ("New cardinality estimation algorithms for
//! HyperLogLog sketches", arXiv:1702.01284).

use super::element::VALUE_BITS;
use super::{REGISTERS, Registers};

/// 1 / (2 ln 2).
const ALPHA_INFINITY: f64 = 0.721_347_520_444_481_7;
/// Values that registers can have; above `VALUE_BITS + 1` only in strings that a client made up.
const VALUES: usize = 64;

/// The estimate.
pub(super) fn estimate(registers: &Registers) -> u64 {
    let mut histogram = [0u32; VALUES];
    for &value in registers {
        histogram[usize::from(value) % VALUES] += 1;
    }
    let all = REGISTERS as f64;
    let largest = VALUE_BITS as usize + 1;
    let mut sum = all * tau((all - f64::from(histogram[largest])) / all);
    for value in (1..largest).rev() {
        sum = (sum + f64::from(histogram[value])) * 0.5;
    }
    sum += all * sigma(f64::from(histogram[0]) / all);
    let estimate = (ALPHA_INFINITY * all * all / sum).round();
    // Registers beyond all hashes give infinity; the top bit of the cached number means that it is out of
    // date.
    (estimate as u64).min(i64::MAX as u64)
}

/// x + x^2 + 2 x^4 + 4 x^8 + ...
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - (1 - x^(1/2))^2 / 2 - (1 - x^(1/4))^2 / 4 - ...) / 3
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}
