//! Skewed choices, as YCSB makes them.

use super::random::{Random, mix};

/// Exponent of all skewed workloads: YCSB's.
const EXPONENT: f64 = 0.99;

/// Zipf-distributed choices among so many records (Gray et al., "Quickly generating billion-record synthetic
/// databases", 1994, as YCSB implements it).
pub(crate) struct Zipf {
    records: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Choices among so many records; takes time in proportion to their number.
    pub(crate) fn new(records: u64) -> Zipf {
        let zeta_of = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-EXPONENT)).sum::<f64>();
        let zeta = zeta_of(records);
        let eta = (1.0 - (2.0 / records as f64).powf(1.0 - EXPONENT)) / (1.0 - zeta_of(2) / zeta);
        Zipf { records, alpha: 1.0 / (1.0 - EXPONENT), zeta, eta }
    }

    /// A rank: 0 is chosen most often.
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5f64.powf(EXPONENT) {
            1
        } else {
            let rank = (self.records as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64;
            rank.min(self.records - 1)
        }
    }

    /// A record; the popular ones are scattered over the keys.
    pub(crate) fn record(&self, random: &mut Random) -> u64 {
        mix(self.rank(random) ^ 0x5ca1_ab1e) % self.records
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, Zipf};
    use std::collections::BTreeMap;

    #[test]
    fn choices_are_in_range_and_skewed() {
        let (zipf, mut random) = (Zipf::new(10_000), Random::new(1));
        let mut counts = BTreeMap::new();
        for _ in 0..100_000 {
            *counts.entry(zipf.record(&mut random)).or_insert(0u32) += 1;
        }
        assert!(counts.keys().all(|record| *record < 10_000));
        // A tenth of all choices, at this exponent and size.
        let most = counts.values().max().copied().unwrap_or_default();
        assert!((8_000..13_000).contains(&most), "{most} of 100,000 choices are of one record");
    }
}
