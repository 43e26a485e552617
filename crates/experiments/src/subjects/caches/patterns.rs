//! Access patterns: uniform, Zipf, latest, sequential, Gaussian and skewed.

use esker::parts::env::{Random, SeededRandom};

/// Exponent of the Zipf distribution, as in YCSB and in the documents.
const ZIPF_EXPONENT: f64 = 0.99;
/// Accesses between two new keys of [`Pattern::Latest`].
const ACCESSES_PER_NEW_KEY: u64 = 20;

/// A pattern of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Every key equally often.
    Uniform,
    /// The key of rank `r` about as often as `1/r`; ranks lie anywhere among the keys.
    Zipf,
    /// New keys come at the end, and the key of age `r` is read about as often as `1/r`.
    Latest,
    /// One key after the other, round and round.
    Sequential,
    /// Normally distributed about the middle key, six standard deviations from end to end.
    Gaussian,
    /// Uniform, but one access in five repeats one of the last thousand.
    Skewed,
}

/// Standard deviations of [`Pattern::Gaussian`] from the middle to either end.
const DEVIATIONS: f64 = 3.0;
/// Of [`Pattern::Skewed`]: accesses that repeat another, in percent, and how many may be repeated.
const REPEATED_PERCENT: u64 = 20;
const REMEMBERED: usize = 1_000;

impl Pattern {
    pub(super) const ALL: [Pattern; 6] = [
        Pattern::Uniform,
        Pattern::Zipf,
        Pattern::Latest,
        Pattern::Sequential,
        Pattern::Gaussian,
        Pattern::Skewed,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Zipf => "zipf",
            Pattern::Latest => "latest",
            Pattern::Sequential => "sequential",
            Pattern::Gaussian => "gaussian",
            Pattern::Skewed => "skewed",
        }
    }

    /// One key number after the other, of `count` keys.
    pub(super) fn keys(self, count: u64, random: SeededRandom) -> Box<dyn FnMut() -> u64> {
        match self {
            Pattern::Uniform => Box::new(move || random.below(count)),
            Pattern::Zipf => {
                let zipf = Zipf::new(count);
                let scatter = Scatter::new(count);
                Box::new(move || scatter.place(zipf.rank(&random)))
            }
            Pattern::Latest => {
                let zipf = Zipf::new(count);
                let mut accesses = 0;
                Box::new(move || {
                    accesses += 1;
                    let newest = accesses / ACCESSES_PER_NEW_KEY;
                    // As if each new key replaced the oldest: numbers are reused.
                    (newest + count - zipf.rank(&random)) % count
                })
            }
            Pattern::Sequential => {
                let mut last = count - 1;
                Box::new(move || {
                    last = (last + 1) % count;
                    last
                })
            }
            Pattern::Gaussian => Box::new(move || gaussian_place(count, &random)),
            Pattern::Skewed => {
                let (mut recent, mut next) = (Vec::with_capacity(REMEMBERED), 0);
                Box::new(move || {
                    if !recent.is_empty() && random.below(100) < REPEATED_PERCENT {
                        return recent[random.below(recent.len() as u64) as usize];
                    }
                    let key = random.below(count);
                    if recent.len() < REMEMBERED {
                        recent.push(key);
                    } else {
                        recent[next % REMEMBERED] = key;
                    }
                    next += 1;
                    key
                })
            }
        }
    }
}

/// A place below `count`, normally distributed about the middle (Box and Muller, 1958); drawn again beyond
/// the ends.
fn gaussian_place(count: u64, random: &SeededRandom) -> u64 {
    let unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let middle = count as f64 / 2.0;
    loop {
        // One minus a number below 1 is above 0, so the logarithm is finite.
        let radius = (-2.0 * (1.0 - unit()).ln()).sqrt();
        let place = middle + radius * (std::f64::consts::TAU * unit()).cos() * middle / DEVIATIONS;
        if (0.0..count as f64).contains(&place) {
            return (place as u64).min(count - 1);
        }
    }
}

/// Ranks after Zipf, by the method of Gray et al. (1994) that YCSB uses, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    pub(super) fn new(count: u64) -> Zipf {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
        let of_two = 1.0 + 0.5f64.powf(ZIPF_EXPONENT);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - ZIPF_EXPONENT)) / (1.0 - of_two / zeta);
        Zipf { count: count as f64, zeta, alpha: 1.0 / (1.0 - ZIPF_EXPONENT), eta }
    }

    /// The next rank, from zero.
    pub(super) fn rank(&self, random: &SeededRandom) -> u64 {
        let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(ZIPF_EXPONENT) {
            return 1;
        }
        let rank = self.count * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

/// A permutation of the first `count` numbers that sends neighbours far apart: multiplication by a number
/// that has no divisor in common with `count`, near the golden section of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    count: u64,
    factor: u64,
}

impl Scatter {
    pub(super) fn new(count: u64) -> Scatter {
        let start = (count as f64 * 0.618_033_988_749_895) as u64;
        let factor =
            (start.max(1)..).find(|&factor| greatest_common_divisor(factor, count) == 1).unwrap_or(1);
        Scatter { count, factor }
    }

    pub(super) fn place(&self, number: u64) -> u64 {
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
        let (zipf, random) = (Zipf::new(10_000), SeededRandom::new(1));
        let ranks: Vec<u64> = (0..20_000).map(|_| zipf.rank(&random)).collect();
        let share = |below: u64| ranks.iter().filter(|&&rank| rank < below).count() as f64 / 20_000.0;
        // The exact shares are 1/zeta = 0.102 and zeta(100)/zeta = 0.539.
        assert!((0.08..0.125).contains(&share(1)), "{}", share(1));
        assert!((0.50..0.58).contains(&share(100)), "{}", share(100));
        assert!(ranks.iter().all(|&rank| rank < 10_000));
    }

    #[test]
    fn gaussian_keys_lie_about_the_middle_and_a_fifth_of_skewed_ones_repeats() {
        let mut next = Pattern::Gaussian.keys(3_000, SeededRandom::new(2));
        let inner = (0..10_000).filter(|_| (1_000..2_000).contains(&next())).count();
        // One standard deviation to either side: 68.3 %.
        assert!((6_600..7_050).contains(&inner), "{inner}");
        let mut next = Pattern::Skewed.keys(1 << 40, SeededRandom::new(2));
        let distinct = (0..10_000).map(|_| next()).collect::<BTreeSet<_>>().len();
        assert!((7_850..8_150).contains(&distinct), "{distinct}");
    }

    #[test]
    fn scattering_is_a_permutation() {
        for count in [1, 2, 32, 1000, 1024, 31_999] {
            let scatter = Scatter::new(count);
            assert_eq!(
                (0..count).map(|number| scatter.place(number)).collect::<BTreeSet<_>>().len() as u64,
                count
            );
        }
    }

    #[test]
    fn patterns_stay_among_the_keys() {
        for pattern in Pattern::ALL {
            let mut next = pattern.keys(640, SeededRandom::new(2));
            let keys: Vec<u64> = (0..5_000).map(|_| next()).collect();
            assert!(keys.iter().all(|&key| key < 640), "{}", pattern.name());
            let is_round = keys.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 640);
            assert_eq!(is_round, pattern == Pattern::Sequential, "{}", pattern.name());
        }
    }
}
