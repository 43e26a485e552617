//! Distributions of operations over the records: uniform, Zipf, latest, sequential, Gaussian and skewed.

use crate::data::{Data, Rng, Zipf};
use serde::Serialize;
use std::fmt;

/// How workloads that choose records choose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// All are equally likely.
    #[default]
    Uniform,
    /// The record of rank `r` is chosen about as often as `1/r^0.99`, as in YCSB; ranks lie anywhere among
    /// the keys.
    Zipf,
    /// As Zipf, and the rank is the age: the record that a fill puts last is chosen most often.
    Latest,
    /// One after the other in the order of the keys, round and round.
    Sequential,
    /// By their place in the order of the keys, with a normal distribution about the middle; six standard
    /// deviations are the whole.
    Gaussian,
    /// One choice in five repeats an earlier one, the others are uniform: the skew 0.2 of byron's report.
    Skewed,
}

/// Choices in a hundred that repeat an earlier one in [`Distribution::Skewed`].
const REPEATED_PERCENT: u64 = 20;
/// Standard deviations from the middle of the keys to either end.
const DEVIATIONS: f64 = 3.0;

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 6] = [
        Distribution::Uniform,
        Distribution::Zipf,
        Distribution::Latest,
        Distribution::Sequential,
        Distribution::Gaussian,
        Distribution::Skewed,
    ];

    /// The name in `--distribution` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf => "zipf",
            Distribution::Latest => "latest",
            Distribution::Sequential => "sequential",
            Distribution::Gaussian => "gaussian",
            Distribution::Skewed => "skewed",
        }
    }

    /// The distribution with this name.
    pub fn parse(name: &str) -> Option<Distribution> {
        Distribution::ALL.into_iter().find(|distribution| distribution.name() == name)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Chooses records of a data set.
#[derive(Debug)]
pub(crate) struct Chooser {
    distribution: Distribution,
    count: u64,
    rng: Rng,
    zipf: Option<Zipf>,
    /// The records in the order of their keys, where that counts.
    sorted: Vec<u64>,
    /// All choices so far, where they may be repeated.
    chosen: Vec<u64>,
    next: u64,
}

impl Chooser {
    /// Over the records of `data` below `count`. Takes time in proportion to `count`, and for orders of keys
    /// 8 bytes of memory for each record.
    pub(crate) fn new(distribution: Distribution, data: &Data, count: u64, rng: Rng) -> Chooser {
        let is_ordered = matches!(distribution, Distribution::Sequential | Distribution::Gaussian);
        let is_ranked = matches!(distribution, Distribution::Zipf | Distribution::Latest);
        Chooser {
            distribution,
            count,
            rng,
            zipf: is_ranked.then(|| Zipf::new(count)),
            sorted: if is_ordered { data.sorted_records(count) } else { Vec::new() },
            chosen: Vec::new(),
            next: 0,
        }
    }

    /// The next record.
    pub(crate) fn record(&mut self) -> u64 {
        match (self.distribution, &self.zipf) {
            (Distribution::Zipf, Some(zipf)) => zipf.record(&mut self.rng),
            (Distribution::Latest, Some(zipf)) => self.count - 1 - zipf.rank(&mut self.rng),
            (Distribution::Sequential, _) => {
                self.next += 1;
                self.sorted[((self.next - 1) % self.count) as usize]
            }
            (Distribution::Gaussian, _) => {
                let place = self.gaussian_place();
                self.sorted[place as usize]
            }
            (Distribution::Skewed, _) => self.repeated_or_new(),
            _ => self.rng.below(self.count),
        }
    }

    /// A place in the order of the keys; beyond the ends it is drawn again.
    fn gaussian_place(&mut self) -> u64 {
        let middle = self.count as f64 / 2.0;
        loop {
            let place = middle + self.rng.gaussian() * middle / DEVIATIONS;
            if (0.0..self.count as f64).contains(&place) {
                return (place as u64).min(self.count - 1);
            }
        }
    }

    fn repeated_or_new(&mut self) -> u64 {
        if !self.chosen.is_empty() && self.rng.below(100) < REPEATED_PERCENT {
            return self.chosen[self.rng.below(self.chosen.len() as u64) as usize];
        }
        let record = self.rng.below(self.count);
        self.chosen.push(record);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const COUNT: u64 = 1000;

    fn chosen(distribution: Distribution) -> Vec<u64> {
        let data = Data::new(16, 100, 7);
        let mut chooser = Chooser::new(distribution, &data, COUNT, Rng::new(1, 2));
        (0..20_000).map(|_| chooser.record()).collect()
    }

    #[test]
    fn names_parse_and_every_choice_is_a_record() {
        for distribution in Distribution::ALL {
            assert_eq!(Distribution::parse(distribution.name()), Some(distribution));
            assert!(chosen(distribution).iter().all(|&record| record < COUNT), "{distribution}");
        }
        assert_eq!(Distribution::parse("normal"), None);
    }

    /// Choices of the most frequent record, in thousandths: what tells the distributions apart.
    #[test]
    fn each_distribution_has_its_own_share_of_the_most_frequent_record() {
        let most = |distribution| {
            let mut counts = BTreeMap::new();
            chosen(distribution).into_iter().for_each(|record| *counts.entry(record).or_insert(0u32) += 1);
            f64::from(*counts.values().max().unwrap_or(&0)) / 20.0
        };
        assert!((1.5..3.0).contains(&most(Distribution::Uniform)));
        assert!((110.0..170.0).contains(&most(Distribution::Zipf)), "{}", most(Distribution::Zipf));
        assert!((110.0..170.0).contains(&most(Distribution::Latest)));
        assert!((0.99..1.01).contains(&most(Distribution::Sequential)));
        assert!((1.5..4.5).contains(&most(Distribution::Gaussian)));
    }

    #[test]
    fn latest_prefers_the_last_and_gaussian_the_middle_keys() {
        let latest = chosen(Distribution::Latest);
        assert!(latest.iter().filter(|&&record| record >= COUNT - 10).count() > 20_000 / 3);
        let data = Data::new(16, 100, 7);
        let sorted = data.sorted_records(COUNT);
        let place = |record: &u64| sorted.iter().position(|other| other == record).unwrap_or(0);
        let inner = chosen(Distribution::Gaussian);
        let inner = inner.iter().take(3000).filter(|record| (333..667).contains(&place(record))).count();
        // Within one standard deviation of the middle.
        assert!((1900..2200).contains(&inner), "{inner}");
        let sequence = chosen(Distribution::Sequential);
        assert_eq!(sequence[..1000], sorted[..]);
        assert_eq!(sequence[1000..1010], sorted[..10]);
    }

    #[test]
    fn a_fifth_of_skewed_choices_repeats() {
        let data = Data::new(16, 100, 7);
        let mut chooser = Chooser::new(Distribution::Skewed, &data, 1 << 40, Rng::new(1, 2));
        let records: std::collections::BTreeSet<u64> = (0..20_000).map(|_| chooser.record()).collect();
        assert!((15_700..16_300).contains(&records.len()), "{}", records.len());
    }
}
