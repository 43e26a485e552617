//! Distributions of operations over the records: uniform, Zipf, latest, sequential, Gaussian and skewed.

mod choices;

pub use choices::Choices;

use crate::data::{Data, Rng};
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
    /// One choice in five repeats one of the last thousand, the others are uniform: the skew 0.2 of byron's
    /// report.
    Skewed,
}

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
    choices: Choices,
    /// The records in the order of their keys, where that counts.
    sorted: Option<Vec<u64>>,
}

impl Chooser {
    /// Over the records of `data` below `count`. Takes time in proportion to `count`, and for orders of keys
    /// 8 bytes of memory for each record.
    pub(crate) fn new(distribution: Distribution, data: &Data, count: u64, rng: Rng) -> Chooser {
        let is_ordered = matches!(distribution, Distribution::Sequential | Distribution::Gaussian);
        Chooser {
            choices: Choices::with_rng(distribution, count, rng),
            sorted: is_ordered.then(|| data.sorted_records(count)),
        }
    }

    /// The next record.
    pub(crate) fn record(&mut self) -> u64 {
        let place = self.choices.choose();
        self.sorted.as_ref().map_or(place, |sorted| sorted[place as usize])
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
