//! Measures a filter that grows while threads insert: CS265's dynamic Bloom filter (3.3.2), and its
//! concurrent insertion (4.3.1).
//!
//! Nothing of the store uses it: a table's filter is built by the thread that writes the table, when all keys
//! are known, so it needs neither atomic bits nor room for more. The experiment shows what both cost.
//!
//! # Invariants
//! 1. A key's number, one fetch-and-add, decides its part; so threads never disagree about which part is
//!    full.
//! 2. A part is made once and never moves or shrinks; a bit that is set stays. So a lookup that begins after
//!    an insertion returned finds the key.
//! 3. The rate of part `i` is `WANTED_RATE / 2^(i + 1)`: whatever the number of parts, their sum stays below
//!    `WANTED_RATE` (scalable Bloom filters; Almeida, Baquero, Preguica and Hutchison, 2007).

use super::WANTED_RATE;
use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::keys::scatter;
use crate::table::{Cell, Column, Table};
use esker::parts::env::{Clock, SystemClock};
use esker::parts::filter::FilterKind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};

/// Keys of the first part; each further part has twice as many.
const FIRST_KEYS: usize = 256;
/// Parts together have room for more keys than any run inserts: 256 * (2^24 - 1).
const PARTS: usize = 24;
/// Keys that a thread numbers by one fetch-and-add.
const BATCH: usize = 32;
/// Bits a key of the filter that is built at once: the standard Bloom filter's for the same rate.
const KNOWN_BITS_PER_KEY: f64 = 9.6;

/// One filter of the chain, with atomic words.
#[derive(Debug)]
struct Part {
    words: Box<[AtomicU64]>,
    probes: u32,
}

impl Part {
    /// With room for the keys of part `number`, at its rate.
    fn new(number: usize) -> Part {
        let keys = FIRST_KEYS << number;
        let binary_digits = -(WANTED_RATE / (number as f64 + 1.0).exp2()).log2();
        let bits_per_key = binary_digits / std::f64::consts::LN_2;
        let words = (keys as f64 * bits_per_key / 64.0).ceil() as usize;
        Part { words: (0..words).map(|_| AtomicU64::new(0)).collect(), probes: binary_digits.round() as u32 }
    }

    /// The probed bits of a hash: multiples of its upper half from its lower one on, spread over all bits.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let bits = self.words.len() as u64 * 64;
        let (start, step) = (hash as u32, (hash >> 32) as u32 | 1);
        (0..self.probes).map(move |probe| {
            let bit = (u64::from(start.wrapping_add(step.wrapping_mul(probe))) * bits) >> 32;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn insert(&self, hash: u64) {
        for (word, mask) in self.places(hash) {
            // Most bits of a full filter are set already; a load leaves the cache line shared.
            if self.words[word].load(Ordering::Relaxed) & mask == 0 {
                self.words[word].fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, mask)| self.words[word].load(Ordering::Relaxed) & mask != 0)
    }
}

/// A chain of filters that threads insert into at once.
#[derive(Debug, Default)]
struct GrowingFilter {
    keys: AtomicUsize,
    parts: [OnceLock<Part>; PARTS],
}

impl GrowingFilter {
    /// The part of the key with this number.
    fn part_of(number: usize) -> usize {
        (number / FIRST_KEYS + 1).ilog2() as usize
    }

    /// Inserts all hashes; one fetch-and-add numbers them.
    fn insert(&self, hashes: &[u64]) {
        let first = self.keys.fetch_add(hashes.len(), Ordering::Relaxed);
        for (number, &hash) in (first..).zip(hashes) {
            let place = GrowingFilter::part_of(number);
            self.parts[place].get_or_init(|| Part::new(place)).insert(hash);
        }
    }

    /// Whether any part says "maybe", the newest and largest asked first.
    fn may_contain(&self, hash: u64) -> bool {
        self.made().rev().any(|part| part.may_contain(hash))
    }

    fn made(&self) -> impl DoubleEndedIterator<Item = &Part> {
        self.parts.iter().filter_map(OnceLock::get)
    }

    fn bits(&self) -> usize {
        self.made().map(|part| part.words.len() * 64).sum()
    }
}

/// How keys get into a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InsertionForm {
    /// The store's standard Bloom filter, made when all keys are known.
    Known,
    OneByOne,
    Batches,
    /// By all cores at once.
    Threads,
}

impl InsertionForm {
    const ALL: [InsertionForm; 4] =
        [InsertionForm::Known, InsertionForm::OneByOne, InsertionForm::Batches, InsertionForm::Threads];

    const fn name(self) -> &'static str {
        match self {
            InsertionForm::Known => "built at once",
            InsertionForm::OneByOne => "grows, one by one",
            InsertionForm::Batches => "grows, 32 at a time",
            InsertionForm::Threads => "grows, 32 at a time, all cores",
        }
    }

    fn threads(self) -> usize {
        if self == InsertionForm::Threads {
            std::thread::available_parallelism().map_or(1, usize::from)
        } else {
            1
        }
    }

    /// Nanoseconds of inserting a key and of asking for an absent one, the share of absent ones that are
    /// "maybe" there, bits a key, and the number of filters.
    fn measure(self, clock: &SystemClock, hashes: &[u64], absent: &[u64]) -> Result<Vec<f64>> {
        let keys = hashes.len();
        if self == InsertionForm::Known {
            let added = hashes.iter().copied();
            let (filter, insert_ns) =
                super::probes::build(clock, FilterKind::Bloom, KNOWN_BITS_PER_KEY, keys, added)?;
            let bits = filter.memory_bytes() * 8;
            return evaluate(clock, insert_ns, hashes, absent, bits, 1, |hash| filter.may_contain(hash));
        }
        let filter = GrowingFilter::default();
        let insert_ns = match self {
            InsertionForm::OneByOne => insert(clock, &filter, hashes, 1, 1),
            _ => insert(clock, &filter, hashes, BATCH, self.threads()),
        };
        let (bits, parts) = (filter.bits(), filter.made().count());
        evaluate(clock, insert_ns, hashes, absent, bits, parts, |hash| filter.may_contain(hash))
    }
}

/// Nanoseconds of the machine for a key, of so many threads that begin together. That they have to be woken
/// is in it.
fn insert(
    clock: &SystemClock,
    filter: &GrowingFilter,
    hashes: &[u64],
    together: usize,
    threads: usize,
) -> f64 {
    let work = |hashes: &[u64]| hashes.chunks(together).for_each(|hashes| filter.insert(hashes));
    let begin = Barrier::new(threads);
    let start_ns = std::thread::scope(|scope| {
        let mut shares = hashes.chunks(hashes.len().div_ceil(threads));
        let own = shares.next().unwrap_or_default();
        for share in shares {
            let (begin, work) = (&begin, &work);
            scope.spawn(move || {
                begin.wait();
                work(share);
            });
        }
        begin.wait();
        let start_ns = clock.monotonic_ns();
        work(own);
        start_ns
    });
    (clock.monotonic_ns() - start_ns) as f64 / hashes.len() as f64
}

fn evaluate(
    clock: &SystemClock,
    insert_ns: f64,
    hashes: &[u64],
    absent: &[u64],
    bits: usize,
    parts: usize,
    may_contain: impl Fn(u64) -> bool,
) -> Result<Vec<f64>> {
    if !hashes.iter().all(|&hash| may_contain(hash)) {
        return Err(ExperimentError::WrongAnswer("a filter denied a key that was inserted".to_owned()));
    }
    let start_ns = clock.monotonic_ns();
    let maybe = absent.iter().filter(|&&hash| may_contain(hash)).count();
    let absent_ns = (clock.monotonic_ns() - start_ns) as f64 / absent.len() as f64;
    let percent = maybe as f64 * 100.0 / absent.len() as f64;
    Ok(vec![insert_ns, absent_ns, percent, bits as f64 / hashes.len() as f64, parts as f64])
}

fn sizes(context: &Context<'_>) -> &'static [usize] {
    context.pick(&[1_000], &[1_000, 100_000], &[1_000, 100_000, 1_000_000])
}

fn rounds(context: &Context<'_>) -> usize {
    context.pick(1, 3, 7)
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    sizes(context).len() * rounds(context) * InsertionForm::ALL.len()
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [
        Column::key("form"),
        Column::key("keys"),
        Column::key("threads"),
        Column::measured("insert_ns", 1),
        Column::measured("absent_ns", 1),
        Column::number("false_positive_percent", 3),
        Column::number("bits_per_key", 2),
        Column::number("filters", 0),
    ];
    let title = "A filter that grows while keys are inserted, beside one that is built at once: nanoseconds for a key";
    let mut table = Table::new("growing", title, &columns);
    for &keys in sizes(context) {
        let hashes: Vec<u64> = (0..keys as u64).map(scatter).collect();
        let absent: Vec<u64> =
            (0..super::probes::count(context) as u64).map(|number| scatter(keys as u64 + number)).collect();
        let name = |form: &InsertionForm| format!("{}, {keys} keys", form.name());
        let measured = context.rounds(rounds(context), &InsertionForm::ALL, name, |clock, form| {
            form.measure(clock, &hashes, &absent)
        })?;
        for (form, samples) in InsertionForm::ALL.into_iter().zip(measured) {
            let mut row: Vec<Cell> = vec![form.name().into(), keys.into(), form.threads().into()];
            row.extend(samples.into_iter().map(Cell::from));
            table.push(row);
        }
    }
    Ok(table)
}

/// The report's table of insertions, 1,000 keys: nanoseconds of its standard filter, of batches, and of
/// concurrent batches.
const DOCUMENT: (f64, f64, f64) = (18_516.0, 17_178.0, 5_835.0);

pub(super) fn comparisons(table: &Table) -> Vec<Comparison> {
    let over = |keys: &str, form: InsertionForm| {
        let of = |form: InsertionForm| table.number(&[("form", form.name()), ("keys", keys)], "insert_ns");
        ratio(of(InsertionForm::OneByOne), of(form))
    };
    let (single, batch, concurrent) = DOCUMENT;
    let largest = table.distinct("keys").pop().unwrap_or_default();
    let compare = |what: String, theirs, ours| Comparison::new("CS265 4.3.1", what, theirs, ours);
    vec![
        compare(
            "inserting into a growing filter, one by one over batch, 1 K keys".to_owned(),
            single / batch,
            over("1000", InsertionForm::Batches),
        ),
        compare(
            "inserting into a growing filter, one by one over concurrent batches, 1 K keys".to_owned(),
            single / concurrent,
            over("1000", InsertionForm::Threads),
        ),
        compare(
            format!("the same, {largest} keys (theirs: 1 K)"),
            single / concurrent,
            over(&largest, InsertionForm::Threads),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_twice_the_keys_of_the_one_before() {
        let parts: Vec<usize> = (0..FIRST_KEYS * 7).map(GrowingFilter::part_of).collect();
        for (part, keys) in [(0, FIRST_KEYS), (1, FIRST_KEYS * 2), (2, FIRST_KEYS * 4)] {
            assert_eq!(parts.iter().filter(|&&other| other == part).count(), keys);
        }
        assert!(parts.is_sorted());
    }

    /// Four threads insert while another looks up what is known to be in: no key is ever denied.
    #[test]
    fn inserted_keys_are_never_denied_while_threads_insert() {
        let filter = GrowingFilter::default();
        let inserted = AtomicUsize::new(0);
        let hashes: Vec<u64> = (0..40_000).map(scatter).collect();
        std::thread::scope(|scope| {
            for share in hashes[20_000..].chunks(5_000) {
                scope.spawn(|| share.chunks(BATCH).for_each(|hashes| filter.insert(hashes)));
            }
            scope.spawn(|| {
                for (number, hash) in hashes[..20_000].iter().enumerate() {
                    filter.insert(std::slice::from_ref(hash));
                    inserted.store(number + 1, Ordering::Release);
                }
            });
            while inserted.load(Ordering::Acquire) < 20_000 {
                let known = inserted.load(Ordering::Acquire);
                assert!(hashes[..known].iter().rev().take(64).all(|&hash| filter.may_contain(hash)));
            }
        });
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        assert_eq!(filter.keys.load(Ordering::Relaxed), hashes.len());
    }

    #[test]
    fn the_rate_stays_below_the_wanted_one_however_far_it_grows() {
        for keys in [200u64, 5_000, 60_000] {
            let filter = GrowingFilter::default();
            (0..keys).for_each(|number| filter.insert(&[scatter(number)]));
            let maybe = (keys..keys + 100_000).filter(|&number| filter.may_contain(scatter(number))).count();
            assert!(maybe < 1_150, "{keys} keys: {maybe} of 100,000");
        }
    }
}
