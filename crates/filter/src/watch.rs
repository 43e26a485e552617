//! Sampled counters of false positives: how often filters answer "maybe" for absent keys.
//!
//! One lookup in [`SAMPLE`], by the key's hash, is counted, so that a lookup costs one more comparison and
//! seldom writes to the counters' line. A lookup that finds its key says nothing about the filter and is not
//! counted. The counters of a level belong to tables that were *built* for it: their bits were chosen
//! together, wherever they were moved since.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One lookup in so many is counted, by hash bits that choose neither line nor word.
pub const SAMPLE: u64 = 64;

const LEVELS: usize = 64;

/// Whether the lookup of a key with this hash is counted.
#[inline(always)]
pub fn is_sampled(hash: u64) -> bool {
    hash.is_multiple_of(SAMPLE)
}

/// The counters of one level: sampled lookups of absent keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Filters probed.
    pub probes: u64,
    /// Filters that answered "maybe".
    pub false_positives: u64,
    /// How many should have, by the expected rate of each filter.
    pub expected_false_positives: f64,
}

impl Observed {
    /// The rate of false positives; `None` without lookups.
    pub fn rate(&self) -> Option<f64> {
        (self.probes > 0).then(|| self.false_positives as f64 / self.probes as f64)
    }

    /// The expected rate of false positives; `None` without lookups.
    pub fn expected_rate(&self) -> Option<f64> {
        (self.probes > 0).then(|| self.expected_false_positives / self.probes as f64)
    }

    /// The difference to an earlier reading.
    pub fn since(&self, then: &Observed) -> Observed {
        Observed {
            probes: self.probes.saturating_sub(then.probes),
            false_positives: self.false_positives.saturating_sub(then.false_positives),
            expected_false_positives: (self.expected_false_positives - then.expected_false_positives)
                .max(0.0),
        }
    }
}

/// Counters of one level. Relaxed: together they may be off by the lookups under way.
#[derive(Debug, Default)]
struct LevelCounts {
    probes: AtomicU64,
    false_positives: AtomicU64,
    expected_millionths: AtomicU64,
}

/// The filters of one tree, by the level that their tables were built for.
#[derive(Debug)]
pub struct FilterWatch {
    levels: [LevelCounts; LEVELS],
}

impl Default for FilterWatch {
    fn default() -> FilterWatch {
        FilterWatch { levels: std::array::from_fn(|_| LevelCounts::default()) }
    }
}

impl FilterWatch {
    /// Counts a sampled probe for an absent key in a filter of `level` with this expected rate.
    pub fn note(&self, level: u8, expected_rate: f64, was_in_vain: bool) {
        let Some(counts) = self.levels.get(usize::from(level)) else { return };
        counts.probes.fetch_add(1, Relaxed);
        counts.expected_millionths.fetch_add(millionths(expected_rate), Relaxed);
        if was_in_vain {
            counts.false_positives.fetch_add(1, Relaxed);
        }
    }

    /// Adds what earlier opens of the database counted of a level.
    pub fn restore(&self, level: u8, seen: &Observed) {
        let Some(counts) = self.levels.get(usize::from(level)) else { return };
        counts.probes.fetch_add(seen.probes, Relaxed);
        counts.false_positives.fetch_add(seen.false_positives, Relaxed);
        counts.expected_millionths.fetch_add(millionths(seen.expected_false_positives), Relaxed);
    }

    /// The counters of a level.
    pub fn observed(&self, level: u8) -> Observed {
        let Some(counts) = self.levels.get(usize::from(level)) else { return Observed::default() };
        Observed {
            probes: counts.probes.load(Relaxed),
            false_positives: counts.false_positives.load(Relaxed),
            expected_false_positives: counts.expected_millionths.load(Relaxed) as f64 / 1e6,
        }
    }
}

/// A number of expected false positives, as it is counted.
pub fn millionths(expected: f64) -> u64 {
    (expected * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_distinguished_and_differences_taken() {
        let watch = FilterWatch::default();
        for at in 0..1000 {
            watch.note(2, 0.01, at % 50 == 0);
        }
        watch.note(63, 0.5, true);
        watch.note(64, 0.5, true);
        let seen = watch.observed(2);
        assert_eq!((seen.probes, seen.false_positives), (1000, 20));
        assert_eq!((seen.rate(), seen.expected_rate()), (Some(0.02), Some(0.01)));
        assert_eq!(watch.observed(63).false_positives, 1);
        assert_eq!((watch.observed(1), watch.observed(200)), (Observed::default(), Observed::default()));
        watch.note(2, 0.01, true);
        let since = watch.observed(2).since(&seen);
        assert_eq!((since.probes, since.false_positives), (1, 1));
        assert!((since.expected_false_positives - 0.01).abs() < 1e-9, "{}", since.expected_false_positives);
        assert_eq!(Observed::default().rate(), None);
    }
}
