//! Histogram of durations of slow work: how many ended within each of some steps, and their sum.
//!
//! A plain value: its owner guards it by the lock that the end of such work takes anyway.

use std::time::Duration;

/// The first step: 2^14 ns, 16 us, which the fastest sync of a device takes that keeps its cache over a power
/// cut.
const FIRST_STEP_BITS: u32 = 14;

/// The number of steps. Each is four times the one before, so the last is 2^36 ns, 69 s: a flush that takes
/// longer is stuck.
const STEPS: usize = 12;

/// Counted durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// Durations up to each step and above the one before it; the last ones are above all steps.
    counts: [u64; STEPS + 1],
    sum_ns: u64,
}

impl DurationCounts {
    /// Counts a duration.
    pub fn add(&mut self, duration_ns: u64) {
        let place = (0..STEPS).find(|place| duration_ns <= step_ns(*place)).unwrap_or(STEPS);
        self.counts[place] += 1;
        self.sum_ns = self.sum_ns.saturating_add(duration_ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The steps, and how many durations exceed none of them: the number rises from step to step.
    pub fn within_steps(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut within = 0;
        (0..STEPS).map(move |place| {
            within += self.counts[place];
            (Duration::from_nanos(step_ns(place)), within)
        })
    }
}

const fn step_ns(place: usize) -> u64 {
    1 << (FIRST_STEP_BITS as usize + 2 * place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_within_its_step_and_all_above() {
        let mut counts = DurationCounts::default();
        assert_eq!((counts.count(), counts.sum()), (0, Duration::ZERO));
        let (first_ns, last_ns) = (step_ns(0), step_ns(STEPS - 1));
        for duration_ns in [0, first_ns, first_ns + 1, last_ns, last_ns + 1] {
            counts.add(duration_ns);
        }
        let within: Vec<(Duration, u64)> = counts.within_steps().collect();
        assert_eq!(within.len(), STEPS);
        assert_eq!(within[0], (Duration::from_nanos(16_384), 2));
        assert_eq!((within[1].1, within[STEPS - 2].1), (3, 3));
        assert_eq!(within[STEPS - 1], (Duration::from_nanos(last_ns), 4));
        assert_eq!((counts.count(), counts.sum()), (5, Duration::from_nanos(2 * first_ns + 2 * last_ns + 2)));
        counts.add(u64::MAX);
        assert_eq!(counts.sum(), Duration::from_nanos(u64::MAX));
    }
}
