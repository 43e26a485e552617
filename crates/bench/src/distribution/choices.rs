//! A stream of choices among numbered places, by a distribution.

use super::Distribution;
use crate::data::Rng;

/// Exponent of the Zipf distribution, as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// Of [`Distribution::Skewed`]: choices in a hundred that repeat an earlier one, and how many of the last
/// ones may be repeated.
const REPEATED_PERCENT: u64 = 20;
const REMEMBERED: usize = 1_000;
/// Of [`Distribution::Gaussian`]: standard deviations from the middle to either end.
const DEVIATIONS: f64 = 3.0;

/// An endless stream of numbers below a count, chosen by a distribution; equal seeds give equal streams.
///
/// Places are in the order that counts for the distribution: of keys for [`Distribution::Sequential`] and
/// [`Distribution::Gaussian`], of age for [`Distribution::Latest`], whose newest place is the last.
///
/// ```
/// use esker_bench::{Choices, Distribution};
///
/// let first: Vec<u64> = Choices::new(Distribution::Sequential, 3, 7).take(5).collect();
/// assert_eq!(first, [0, 1, 2, 0, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct Choices {
    distribution: Distribution,
    count: u64,
    rng: Rng,
    zipf: Option<Zipf>,
    scatter: Scatter,
    /// The last distinct choices, where they may be repeated.
    recent: Vec<u64>,
    /// Choices so far; of a skewed stream, those that did not repeat one.
    made: u64,
    /// Choices for each place that becomes the newest; none does if absent.
    choices_per_new: Option<u64>,
}

impl Choices {
    /// Among `count` places, at least one. Takes time in proportion to `count` where ranks count.
    pub fn new(distribution: Distribution, count: u64, seed: u64) -> Choices {
        Choices::with_rng(distribution, count, Rng::new(seed, 0))
    }

    pub(crate) fn with_rng(distribution: Distribution, count: u64, rng: Rng) -> Choices {
        let is_ranked = matches!(distribution, Distribution::Zipf | Distribution::Latest);
        Choices {
            distribution,
            count: count.max(1),
            rng,
            zipf: is_ranked.then(|| Zipf::new(count.max(1))),
            scatter: Scatter::new(count.max(1)),
            recent: Vec::new(),
            made: 0,
            choices_per_new: None,
        }
    }

    /// With [`Distribution::Latest`], one place after the other becomes the newest, each after so many
    /// choices: as if a new key replaced the oldest, whose number it takes.
    #[must_use]
    pub fn with_new_after(mut self, choices: u64) -> Choices {
        self.choices_per_new = Some(choices.max(1));
        self
    }

    /// The next place.
    pub fn choose(&mut self) -> u64 {
        self.made += 1;
        match (self.distribution, &self.zipf) {
            (Distribution::Zipf, Some(zipf)) => self.scatter.place(zipf.rank(&mut self.rng)),
            (Distribution::Latest, Some(zipf)) => {
                let newer = self.choices_per_new.map_or(0, |choices| self.made / choices) % self.count;
                (newer + self.count - 1 - zipf.rank(&mut self.rng)) % self.count
            }
            (Distribution::Sequential, _) => (self.made - 1) % self.count,
            (Distribution::Gaussian, _) => self.gaussian_place(),
            (Distribution::Skewed, _) => self.repeated_or_new(),
            _ => self.rng.below(self.count),
        }
    }

    /// A place about the middle; beyond the ends it is drawn again.
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
        if !self.recent.is_empty() && self.rng.below(100) < REPEATED_PERCENT {
            self.made -= 1;
            return self.recent[self.rng.below(self.recent.len() as u64) as usize];
        }
        let place = self.rng.below(self.count);
        if self.recent.len() < REMEMBERED {
            self.recent.push(place);
        } else {
            self.recent[(self.made % REMEMBERED as u64) as usize] = place;
        }
        place
    }
}

impl Iterator for Choices {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.choose())
    }
}

/// Ranks with Zipf's distribution, by the method of Gray et al. (1994) that YCSB uses.
#[derive(Clone, Debug)]
struct Zipf {
    count: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64) -> Zipf {
        let term = |rank: u64| (rank as f64).powf(-ZIPF_EXPONENT);
        let zeta: f64 = (1..=count).map(term).sum();
        let two = term(1) + term(2);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - ZIPF_EXPONENT)) / (1.0 - two / zeta);
        Zipf { count, alpha: 1.0 / (1.0 - ZIPF_EXPONENT), zeta, eta }
    }

    /// The next rank, from zero.
    fn rank(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(ZIPF_EXPONENT) {
            return 1.min(self.count - 1);
        }
        let rank = (self.count as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.count - 1)
    }
}

/// A permutation of the first `count` numbers that sends neighbours far apart: multiplication by a number
/// that has no divisor in common with `count`, near the golden section of it.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    count: u64,
    factor: u64,
}

impl Scatter {
    fn new(count: u64) -> Scatter {
        let start = (count as f64 * 0.618_033_988_749_895) as u64;
        let factor =
            (start.max(1)..).find(|&factor| greatest_common_divisor(factor, count) == 1).unwrap_or(1);
        Scatter { count, factor }
    }

    fn place(self, number: u64) -> u64 {
        (u128::from(number) * u128::from(self.factor) % u128::from(self.count)) as u64
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn zipf_prefers_the_first_ranks() {
        let zipf = Zipf::new(10_000);
        let mut rng = Rng::new(1, 1);
        let ranks: Vec<u64> = (0..20_000).map(|_| zipf.rank(&mut rng)).collect();
        let share = |below: u64| ranks.iter().filter(|&&rank| rank < below).count() as f64 / 20_000.0;
        // The exact shares are 1/zeta = 0.102 and zeta(100)/zeta = 0.539.
        assert!((0.08..0.125).contains(&share(1)), "{}", share(1));
        assert!((0.50..0.58).contains(&share(100)), "{}", share(100));
        assert!(ranks.iter().all(|&rank| rank < 10_000));
        assert_eq!(Zipf::new(1).rank(&mut rng), 0);
    }

    #[test]
    fn scattering_is_a_permutation() {
        for count in [1, 2, 32, 1000, 1024, 31_999] {
            let scatter = Scatter::new(count);
            let places: BTreeSet<u64> = (0..count).map(|number| scatter.place(number)).collect();
            assert_eq!(places.len() as u64, count);
        }
    }

    #[test]
    fn choices_stay_among_the_places_and_only_sequential_ones_are_in_order() {
        for distribution in Distribution::ALL {
            let places: Vec<u64> = Choices::new(distribution, 640, 2).take(5_000).collect();
            assert!(places.iter().all(|&place| place < 640), "{distribution}");
            let is_round = places.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 640);
            assert_eq!(is_round, distribution == Distribution::Sequential, "{distribution}");
            assert!(Choices::new(distribution, 1, 2).take(10).all(|place| place == 0), "{distribution}");
        }
    }

    #[test]
    fn gaussian_places_lie_about_the_middle_and_a_fifth_of_skewed_ones_repeats() {
        let choices = Choices::new(Distribution::Gaussian, 3_000, 2).take(10_000);
        let inner = choices.filter(|place| (1_000..2_000).contains(place)).count();
        // One standard deviation to either side: 68.3 %.
        assert!((6_600..7_050).contains(&inner), "{inner}");
        let choices = Choices::new(Distribution::Skewed, 1 << 40, 2).take(10_000);
        let distinct = choices.collect::<BTreeSet<_>>().len();
        assert!((7_850..8_150).contains(&distinct), "{distinct}");
    }

    /// The newest place is chosen most often: always the last one, or one after the other.
    #[test]
    fn the_newest_place_moves_only_if_new_ones_come() {
        let most_frequent = |choices: Vec<u64>| {
            let mut counts = [0u32; 100];
            choices.iter().for_each(|&place| counts[place as usize] += 1);
            (0..100).max_by_key(|&place| counts[place]).unwrap_or(0)
        };
        let mut still = Choices::new(Distribution::Latest, 100, 3);
        let mut moving = Choices::new(Distribution::Latest, 100, 3).with_new_after(1_000);
        for round in 0..3 {
            assert_eq!(most_frequent(still.by_ref().take(999).collect()), 99);
            let newest = most_frequent(moving.by_ref().take(999).collect());
            assert_eq!(newest, (99 + round) % 100, "the newest place of round {round}");
            moving.choose();
            still.choose();
        }
    }
}
