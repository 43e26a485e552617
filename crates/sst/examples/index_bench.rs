//! Compares the block-index kinds with a binary search of a contiguous array of key heads, the baseline of
//! the CS265 report's fence pointers (its 4.4.4), in nanoseconds a search and bytes an entry.
//!
//! `cargo run --release -p esker-sst --example index_bench [most entries [random|user]]`
//!
//! Entries are entries of the index: one fence for each block of a table. Keys are 16 random bytes, or
//! `user:` and ten digits; fences are as short as tables store them. Probes are random keys between the
//! fences. The kinds take turns in each round, so that disturbances of the machine meet all of them; the
//! median of the rounds is printed. "dependent" searches wait for the one before, like a lookup that is not
//! overlapped; "fences" probes keys that are fences, which is what a hash locator is for. Index pages come
//! from a cache that holds them all, and count for no kind. The report's own ratios are printed beside the
//! best.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use esker_base::Result;
use esker_base::key::{common_prefix_len, head};
use esker_env::{Random, SeededRandom};
use esker_sst::{FenceIndex, IndexKind};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

const PROBES: usize = 1 << 17;
const ROUNDS: usize = 7;
/// Least time of a round, long against the resolution of the system's processor clock.
const LEAST_NANOS: u64 = 40_000_000;

/// Entries, and the CS265 report's ratio of its fastest form to its binary search.
const SIZES: [(usize, f64); 4] = [
    (10_000, 1250.0 / 710.0),
    (100_000, 2750.0 / 1350.0),
    (1_000_000, 6500.0 / 2750.0),
    (10_000_000, 18_500.0 / 6300.0),
];

type Key = [u8; 16];

fn keys(kind: &str, count: usize, random: &SeededRandom) -> Vec<Key> {
    (0..count as u64)
        .map(|_| {
            let mut key = [0; 16];
            if kind == "user" {
                key[..15].copy_from_slice(format!("user:{:010}", random.below(9_999_999_999)).as_bytes());
            } else {
                key[..8].copy_from_slice(&random.next_u64().to_le_bytes());
                key[8..].copy_from_slice(&random.next_u64().to_le_bytes());
            }
            key
        })
        .collect()
}

/// The baseline: a contiguous array of the fences' heads behind their common prefix.
struct Heads {
    heads: Vec<u64>,
    prefix_len: usize,
}

impl Heads {
    #[inline(never)]
    fn find(&self, key: &[u8]) -> usize {
        let wanted = head(key, self.prefix_len);
        self.heads.partition_point(|&head| head <= wanted).saturating_sub(1)
    }
}

/// Nanoseconds of this thread's processor time, where the system reports it, else of elapsed time: other
/// processes of a shared machine do not count.
fn worked_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let worked = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = worked.and_then(|text| text.split(' ').next()?.parse().ok());
    worked.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// Nanoseconds for each of the probes of `pass`.
fn each(pass: impl Fn() -> usize) -> f64 {
    let (start, mut passes) = (worked_nanos(), 0);
    while passes == 0 || worked_nanos() - start < LEAST_NANOS {
        black_box(pass());
        passes += 1;
    }
    (worked_nanos() - start) as f64 / (passes * PROBES) as f64
}

/// Results of one form: for each round, nanoseconds a search, independent and dependent, and of keys that are
/// fences.
#[derive(Default)]
struct Times {
    independent: Vec<f64>,
    dependent: Vec<f64>,
    fences: Vec<f64>,
}

#[derive(Clone, Copy)]
struct Medians {
    independent: f64,
    dependent: f64,
    fences: f64,
}

impl Times {
    fn round(&mut self, probes: &[Key], fences: &[&[u8]], find: impl Fn(&[u8]) -> usize) {
        self.independent.push(each(|| probes.iter().map(|key| find(key)).fold(0, usize::wrapping_add)));
        // The number of the next probe depends on the result of this one, although no result has the bits
        // that are added.
        self.dependent.push(each(|| (0..probes.len()).fold(0, |last, at| find(&probes[at ^ (last >> 62)]))));
        self.fences.push(each(|| fences.iter().map(|key| find(key)).fold(0, usize::wrapping_add)));
    }

    fn medians(&mut self) -> Medians {
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (independent, dependent) = (median(&mut self.independent), median(&mut self.dependent));
        Medians { independent, dependent, fences: median(&mut self.fences) }
    }
}

fn print_line(name: &str, medians: Medians, bytes: f64, base: Medians) {
    let Medians { independent, dependent, fences } = medians;
    let (faster, faster_dependent) = (base.independent / independent, base.dependent / dependent);
    println!(
        "  {name:<24} {independent:>8.1} ns {dependent:>7.1} ns {fences:>5.1} ns {bytes:>10.1}   {faster:>6.2} {faster_dependent:>5.2}"
    );
}

fn compare(kind: &str, entries: usize, report: f64) -> Result<()> {
    let random = SeededRandom::new(entries as u64);
    let mut fences = keys(kind, entries, &random);
    fences.sort_unstable();
    fences.dedup();
    let separators: Vec<&[u8]> = (0..fences.len())
        .map(|at| match at.checked_sub(1) {
            None => &[][..],
            Some(before) => &fences[at][..common_prefix_len(&fences[before], &fences[at]) + 1],
        })
        .collect();
    let kinds = IndexKind::ALL.into_iter().filter(|kind| !matches!(kind, IndexKind::Adaptive(_)));
    // The first fence of a table is empty, which would hide the common prefix: keep the first key whole.
    let fences_of_table = || std::iter::once(&fences[0][..]).chain(separators[1..].iter().copied());
    let prefix_len = common_prefix_len(&fences[0], separators[separators.len() - 1]);
    let heads = Heads { heads: fences_of_table().map(|fence| head(fence, prefix_len)).collect(), prefix_len };
    let indexes = kinds.map(|kind| FenceIndex::new(kind, fences_of_table())).collect::<Result<Vec<_>>>()?;
    let probes = keys(kind, PROBES, &random);
    for key in probes.iter().take(2_000) {
        let place = heads.find(key);
        assert!(indexes.iter().all(|index| index.find(key) == place), "all kinds find the same");
    }
    let requested: Vec<&[u8]> =
        (0..PROBES).map(|_| separators[1 + random.below(separators.len() as u64 - 1) as usize]).collect();
    let mut times: Vec<Times> = (0..=indexes.len()).map(|_| Times::default()).collect();
    for _ in 0..ROUNDS {
        times[0].round(&probes, &requested, |key| heads.find(key));
        for (index, times) in indexes.iter().zip(&mut times[1..]) {
            times.round(&probes, &requested, |key| index.find(key));
        }
    }
    println!("{entries} entries, {kind} keys");
    let base = times[0].medians();
    println!("  {:<24} independent  dependent   fences   B an entry   times as fast", "");
    print_line("binary search of heads", base, 8.0, base);
    let mut best = (0.0f64, 0.0f64);
    for (index, times) in indexes.iter().zip(&mut times[1..]) {
        let medians = times.medians();
        best.0 = best.0.max(base.independent / medians.independent);
        best.1 = best.1.max(base.dependent / medians.dependent);
        print_line(index.kind().name(), medians, index.memory_bytes() as f64 / entries as f64, base);
    }
    println!("  best: {:.2}x, dependent {:.2}x; the CS265 report has {report:.2}x", best.0, best.1);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let most = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let only = arguments.get(1).map(String::as_str);
    println!("places of blocks and fences are counted in the bytes of all kinds but the first");
    for kind in ["random", "user"] {
        for (entries, report) in SIZES.into_iter().filter(|&(entries, _)| entries <= most) {
            if only.is_none_or(|only| only == kind) {
                compare(kind, entries, report)?;
            }
        }
    }
    Ok(())
}
