//! Histograms of latencies: buckets whose width grows with the value, sixteen for each power of two.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a power of two: a percentile is at most one sixteenth too high.
const PER_OCTAVE: usize = 16;
const OCTAVE_BITS: u32 = PER_OCTAVE.ilog2();

/// Latencies of 2^36 nanoseconds, which is 69 seconds, and more share the last buckets.
const HIGHEST_BIT: u32 = 35;

/// Bounds of the steps in which times of commands are told, in nanoseconds: powers of two, which buckets of
/// the histograms end at, from a microsecond, which a command takes at least, to four seconds.
pub const LATENCY_STEPS_NS: [u64; 12] = {
    let mut steps = [0; 12];
    let mut at = 0;
    while at < steps.len() {
        steps[at] = 1 << (10 + 2 * at);
        at += 1;
    }
    steps
};

/// The number of buckets.
pub(crate) const BUCKETS: usize = (HIGHEST_BIT - OCTAVE_BITS + 2) as usize * PER_OCTAVE;

/// The bucket of a latency.
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.clamp(1, (1 << (HIGHEST_BIT + 1)) - 1);
    let highest = nanos.ilog2();
    if highest < OCTAVE_BITS {
        return nanos as usize;
    }
    let shift = highest - OCTAVE_BITS;
    (shift as usize + 1) * PER_OCTAVE + (nanos >> shift) as usize % PER_OCTAVE
}

/// The greatest latency of a bucket, in nanoseconds.
pub(crate) fn highest_of(bucket: usize) -> u64 {
    let octave = bucket / PER_OCTAVE;
    if octave == 0 {
        return bucket as u64;
    }
    let shift = octave - 1;
    (((PER_OCTAVE + bucket % PER_OCTAVE + 1) as u64) << shift) - 1
}

/// Counts that one thread writes and others read.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a latency. Only one thread may call it.
    pub(super) fn add(&self, nanos: u64) {
        let bucket = &self.buckets[bucket_of(nanos)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the counts to others.
    pub(super) fn add_to(&self, counts: &mut Counts) {
        for (sum, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

/// Counts of latencies, added up.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    buckets: Box<[u64; BUCKETS]>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]) }
    }
}

impl Counts {
    /// Takes earlier counts away.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        for (count, earlier) in self.buckets.iter_mut().zip(earlier.buckets.iter()) {
            *count = count.saturating_sub(*earlier);
        }
    }

    /// Adds other counts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, other) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *count += other;
        }
    }

    /// How many latencies are below `end_ns`, a power of two, at which a bucket ends.
    pub(crate) fn below(&self, end_ns: u64) -> u64 {
        let buckets = self.buckets.iter().enumerate();
        buckets.take_while(|(bucket, _)| highest_of(*bucket) < end_ns).map(|(_, count)| count).sum()
    }

    /// How many latencies there are.
    pub(crate) fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The latency in nanoseconds that this share of all does not exceed, in percent; zero if there are none.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        let total = self.total();
        if total == 0 {
            return 0;
        }
        let wanted = ((percent / 100.0 * total as f64).ceil() as u64).clamp(1, total);
        let mut passed = 0;
        let found = self.buckets.iter().position(|count| {
            passed += count;
            passed >= wanted
        });
        highest_of(found.unwrap_or(BUCKETS - 1))
    }

    /// Powers of two of 1,024 nanoseconds, in microseconds, and how many latencies do not exceed each; only
    /// those that have some more than the step before. Redis answers the same steps.
    pub(crate) fn cumulated(&self) -> Vec<(u64, u64)> {
        let mut rows = Vec::new();
        let (mut passed, mut bucket) = (0, 0);
        let total = self.total();
        for step in 10..=HIGHEST_BIT + 1 {
            let end_ns = 1_u64 << step;
            let before = passed;
            while bucket < BUCKETS && highest_of(bucket) < end_ns {
                passed += self.buckets[bucket];
                bucket += 1;
            }
            if passed > before {
                rows.push((shown_step(end_ns), passed));
            }
            if passed == total {
                break;
            }
        }
        rows
    }
}

/// The upper end of a step in microseconds. Redis keeps two digits of a latency, and rounds up to what it can
/// tell apart.
fn shown_step(end_ns: u64) -> u64 {
    let resolution = (end_ns >> 7).max(1);
    (end_ns + resolution - 1) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_has_the_bucket_that_ends_at_it_or_above() {
        let mut last = 0;
        for nanos in (1..4096).chain((12..36).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = bucket_of(nanos);
            assert!(bucket < BUCKETS && bucket >= last.min(bucket), "{nanos}");
            assert!(highest_of(bucket) >= nanos, "{nanos} in {bucket}, which ends at {}", highest_of(bucket));
            assert!(bucket == 0 || highest_of(bucket - 1) < nanos, "{nanos} in {bucket}");
            assert!((highest_of(bucket) - nanos) * PER_OCTAVE as u64 <= nanos, "{nanos}");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of(0), 1);
    }

    #[test]
    fn percentiles_and_steps_follow_the_counts() {
        let histogram = Histogram::default();
        let mut counts = Counts::default();
        assert_eq!((counts.percentile(99.0), counts.cumulated()), (0, Vec::new()));
        for _ in 0..99 {
            histogram.add(1_000);
        }
        histogram.add(50_000);
        histogram.add_to(&mut counts);
        assert_eq!(counts.total(), 100);
        assert!((1_000..1_064).contains(&counts.percentile(50.0)));
        assert_eq!(counts.percentile(99.0), counts.percentile(50.0));
        assert!((50_000..53_200).contains(&counts.percentile(99.9)));
        assert_eq!(counts.cumulated(), [(1, 99), (66, 100)]);
        let steps = LATENCY_STEPS_NS;
        let below = steps.map(|step_ns| counts.below(step_ns));
        assert_eq!((steps[0], below[0], below[2], below[3], below[11]), (1 << 10, 99, 99, 100, 100));
        let earlier = counts.clone();
        counts.add(&earlier);
        assert_eq!((counts.total(), counts.below(1 << 10)), (200, 198));
        counts.subtract(&earlier);
        counts.subtract(&earlier);
        assert_eq!(counts.total(), 0);
    }
}
