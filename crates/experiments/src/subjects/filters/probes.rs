//! Times filters, with the same loops for all.

use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::scatter;
use esker::parts::env::{Clock, SystemClock};
use esker::parts::filter::{Filter, FilterBuilder, FilterKind};
use fastbloom::BloomFilter;
use std::hint::black_box;

const BATCH: usize = 32;

/// The external crate for comparison.
pub(super) const FASTBLOOM: &str = "fastbloom";

/// How many lookups a number is the mean of.
pub(super) fn count(context: &Context<'_>) -> usize {
    context.pick(10_000, 200_000, 1_000_000)
}

/// The hashes that are in the filter, and those that are probed.
#[derive(Debug)]
pub(super) struct Probes {
    pub(super) keys: usize,
    present: Vec<u64>,
    absent: Vec<u64>,
}

impl Probes {
    /// Key number `n` has the hash `scatter(n)`; a bijection, so no two keys share one.
    pub(super) fn new(context: &Context<'_>, keys: usize) -> Probes {
        let (count, random) = (count(context), context.random(1));
        Probes {
            keys,
            present: (0..count).map(|_| scatter(random.below(keys as u64))).collect(),
            absent: (0..count).map(|number| scatter((keys + number) as u64)).collect(),
        }
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        (0..self.keys as u64).map(scatter)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Kind(FilterKind),
    Fastbloom,
}

/// The operations of a filter under test.
trait Probe: Sync {
    fn may_contain(&self, hash: u64) -> bool;
    fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]);
    fn bits(&self) -> usize;
}

impl Probe for Filter {
    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        Filter::may_contain(self, hash)
    }
    fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        Filter::may_contain_many(self, hashes, maybe);
    }
    fn bits(&self) -> usize {
        self.memory_bytes() * 8
    }
}

impl Probe for BloomFilter {
    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
    /// The default, without a batch operation: one lookup after the other, independent of each other.
    fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        for (maybe, &hash) in maybe.iter_mut().zip(hashes) {
            *maybe = self.contains_hash(hash);
        }
    }
    fn bits(&self) -> usize {
        self.num_bits()
    }
}

impl Subject {
    /// Every kind that is a filter at all, and the crate's.
    pub(super) fn all() -> Vec<Subject> {
        let kinds = FilterKind::ALL.iter().copied().filter(|&kind| kind != FilterKind::None);
        kinds.map(Subject::Kind).chain([Subject::Fastbloom]).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Kind(kind) => kind.name(),
            Subject::Fastbloom => FASTBLOOM,
        }
    }

    /// Nanoseconds of building for a key, a lookup, a dependent one, an absent one, a key of a batch and of
    /// concurrent batches; the rate of false positives in percent, and the bits that a key takes.
    pub(super) fn measure(self, clock: &SystemClock, bits_per_key: f64, probes: &Probes) -> Result<Vec<f64>> {
        match self {
            Subject::Kind(kind) => {
                let (filter, build_ns) = build(clock, kind, bits_per_key, probes.keys, probes.hashes())?;
                measure(clock, &filter, build_ns, probes)
            }
            Subject::Fastbloom => {
                let (build_ns, filter) = time_ns(clock, || fastbloom(bits_per_key, probes));
                measure(clock, &filter, build_ns / probes.keys as f64, probes)
            }
        }
    }

    /// The share of absent keys that are "maybe" there, and the bits that a key takes.
    pub(super) fn rate(self, bits_per_key: f64, probes: &Probes) -> Result<(f64, f64)> {
        let rate = |filter: &dyn Probe| {
            let maybe = probes.absent.iter().filter(|&&hash| filter.may_contain(hash)).count();
            (maybe as f64 / probes.absent.len() as f64, filter.bits() as f64 / probes.keys as f64)
        };
        match self {
            Subject::Kind(kind) => {
                Ok(rate(&build(&SystemClock::new(), kind, bits_per_key, probes.keys, probes.hashes())?.0))
            }
            Subject::Fastbloom => Ok(rate(&fastbloom(bits_per_key, probes))),
        }
    }
}

/// A filter of the store, and the nanoseconds that a key took.
pub(super) fn build(
    clock: &SystemClock,
    kind: FilterKind,
    bits_per_key: f64,
    keys: usize,
    hashes: impl Iterator<Item = u64>,
) -> Result<(Filter, f64)> {
    let mut builder = FilterBuilder::new(kind.policy(bits_per_key));
    let (build_ns, stored) = time_ns(clock, || {
        hashes.for_each(|hash| builder.add(hash));
        builder.finish()
    });
    let stored = stored.ok_or_else(|| wrong(kind.name(), "no filter was built"))?;
    let filter = Filter::decode(&stored).map_err(|reason| wrong(kind.name(), &reason))?;
    Ok((filter, build_ns / keys as f64))
}

fn fastbloom(bits_per_key: f64, probes: &Probes) -> BloomFilter {
    let bits = (bits_per_key * probes.keys as f64).ceil() as usize;
    let mut filter = BloomFilter::with_num_bits(bits).expected_items(probes.keys);
    for hash in probes.hashes() {
        filter.insert_hash(hash);
    }
    filter
}

fn wrong(kind: &str, what: &str) -> ExperimentError {
    ExperimentError::WrongAnswer(format!("{kind}: {what}"))
}

fn measure(clock: &SystemClock, filter: &impl Probe, build_ns: f64, probes: &Probes) -> Result<Vec<f64>> {
    let lookups = probes.present.len() as f64;
    let (lookup_ns, found) =
        time_ns(clock, || probes.present.iter().filter(|&&hash| filter.may_contain(hash)).count());
    if found != probes.present.len() {
        return Err(wrong(
            "a filter",
            &format!("{} of {lookups} present keys were denied", lookups - found as f64),
        ));
    }
    let dependent_ns = dependent(clock, filter, &probes.present);
    let (absent_ns, maybe) =
        time_ns(clock, || probes.absent.iter().filter(|&&hash| filter.may_contain(hash)).count());
    let (batch_ns, found) = time_ns(clock, || batches(filter, &probes.present));
    if found != probes.present.len() {
        return Err(wrong("a filter", "a batch denied a present key"));
    }
    let concurrent_ns = concurrent(clock, filter, &probes.present);
    Ok(vec![
        build_ns,
        lookup_ns / lookups,
        dependent_ns,
        absent_ns / lookups,
        batch_ns / lookups,
        concurrent_ns,
        maybe as f64 * 100.0 / lookups,
        filter.bits() as f64 / probes.keys as f64,
    ])
}

/// Nanoseconds of a lookup whose hash is known only when the one before has its answer.
fn dependent(clock: &SystemClock, filter: &impl Probe, hashes: &[u64]) -> f64 {
    // The compiler cannot know that this is zero, so it must compute the product, and with it the answer.
    let nothing = black_box(0u64);
    let (taken_ns, last) = time_ns(clock, || {
        let mut last = 0;
        for &hash in hashes {
            last = u64::from(black_box(filter.may_contain(hash ^ (last * nothing))));
        }
        last
    });
    black_box(last);
    taken_ns / hashes.len() as f64
}

fn batches(filter: &impl Probe, hashes: &[u64]) -> usize {
    let mut maybe = [false; BATCH];
    let mut found = 0;
    for chunk in hashes.chunks(BATCH) {
        let maybe = &mut maybe[..chunk.len()];
        filter.may_contain_many(chunk, maybe);
        found += maybe.iter().filter(|&&maybe| maybe).count();
    }
    found
}

/// Nanoseconds per key of the whole machine when all cores probe.
fn concurrent(clock: &SystemClock, filter: &impl Probe, hashes: &[u64]) -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = clock.monotonic_ns();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| black_box(batches(filter, hashes)));
        }
    });
    (clock.monotonic_ns() - start) as f64 / (threads * hashes.len()) as f64
}

/// Times a lookup, a dependent one and a key of a batch: filters this large get no more.
pub(super) fn sample_lookups(clock: &SystemClock, filter: &Filter, present: &[u64]) -> Result<Vec<f64>> {
    let lookups = present.len() as f64;
    let (lookup_ns, found) =
        time_ns(clock, || present.iter().filter(|&&hash| filter.may_contain(hash)).count());
    let dependent_ns = dependent(clock, filter, present);
    let (batch_ns, batched) = time_ns(clock, || batches(filter, present));
    if found != present.len() || batched != present.len() {
        return Err(wrong("a filter", "a present key was denied"));
    }
    Ok(vec![lookup_ns / lookups, dependent_ns, batch_ns / lookups])
}
