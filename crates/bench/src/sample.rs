//! Clocks and histograms around the timed loops.

use crate::error::BenchError;
use esker::parts::env::Clock;
use hdrhistogram::Histogram;
use std::sync::Barrier;

/// One in this many operations is timed: reading the clock costs about as much as a cached get.
pub(crate) const SAMPLE_INTERVAL: u64 = 64;

/// Longest latency that the histograms resolve: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;

/// Times some operations of one thread.
pub(crate) struct Sampler<'a> {
    clock: &'a dyn Clock,
    histogram: Histogram<u64>,
    interval: u64,
    left: u64,
}

#[derive(Debug)]
pub(crate) struct Work {
    /// In nanoseconds.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) ops: u64,
    pub(crate) found: u64,
    /// Bytes of keys and values written or read.
    pub(crate) bytes: u64,
    /// The first wrong answer.
    pub(crate) wrong: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) work: Work,
    /// From the common start to the end of the last thread.
    pub(crate) seconds: f64,
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, interval: u64) -> Sampler<'a> {
        Sampler { clock, histogram: empty_histogram(), interval: interval.max(1), left: 1 }
    }

    /// Records an operation that was timed elsewhere.
    pub(crate) fn note(&mut self, took_ns: u64) {
        self.histogram.saturating_record(took_ns);
    }

    #[inline]
    pub(crate) fn measure<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        self.left -= 1;
        if self.left > 0 {
            return operation();
        }
        self.left = self.interval;
        let start = self.clock.monotonic_ns();
        let result = operation();
        self.histogram.saturating_record(self.clock.monotonic_ns() - start);
        result
    }

    pub(crate) fn finish(self) -> Work {
        Work::new(self.histogram)
    }
}

pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constants that fit each other")
}

/// Runs `work` on each of `parts`, started together on threads of their own, and sums the results.
pub(crate) fn on_threads<P, F>(clock: &dyn Clock, parts: &[P], work: F) -> Result<Measured, BenchError>
where
    P: Sync,
    F: Fn(&P) -> esker::Result<Work> + Sync,
{
    let barrier = Barrier::new(parts.len());
    std::thread::scope(|scope| {
        let spawn = |part| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let start = clock.monotonic_ns();
                let result = work(part);
                (result, start, clock.monotonic_ns())
            })
        };
        let threads: Vec<_> = parts.iter().map(spawn).collect();
        let mut total = Work::new(empty_histogram());
        let (mut first_start, mut last_end) = (u64::MAX, 0);
        for thread in threads {
            let (result, start, end) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            total.add(result?);
            first_start = first_start.min(start);
            last_end = last_end.max(end);
        }
        Ok(Measured { work: total, seconds: last_end.saturating_sub(first_start) as f64 / 1e9 })
    })
}

impl Work {
    fn new(histogram: Histogram<u64>) -> Work {
        Work { histogram, ops: 0, found: 0, bytes: 0, wrong: None }
    }

    pub(crate) fn add(&mut self, part: Work) {
        self.histogram.add(&part.histogram).expect("all histograms have the same bounds");
        self.ops += part.ops;
        self.found += part.found;
        self.bytes += part.bytes;
        if self.wrong.is_none() {
            self.wrong = part.wrong;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use esker::parts::env::ManualClock;
    use std::time::Duration;

    #[test]
    fn one_in_sixty_four_is_timed() {
        let clock = ManualClock::new(0);
        let mut sampler = Sampler::new(&clock, SAMPLE_INTERVAL);
        for _ in 0..6400 {
            sampler.measure(|| clock.advance(Duration::from_nanos(500)));
        }
        let histogram = sampler.finish().histogram;
        assert_eq!(histogram.len(), 100);
        assert_eq!(histogram.value_at_quantile(0.5), 500);
    }

    #[test]
    fn parts_add_up() {
        let clock = ManualClock::new(0);
        let keys = Data::new(16, 8, 1).keys(0..100);
        let measured = on_threads(&clock, &keys.split(3), |part| {
            let ops = part.len() as u64;
            Ok(Work { ops, bytes: 2 * ops, ..Sampler::new(&clock, 1).finish() })
        })
        .unwrap();
        assert_eq!((measured.work.ops, measured.work.bytes), (100, 200));
    }
}
