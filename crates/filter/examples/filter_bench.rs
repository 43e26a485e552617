//! Benchmark of each kind of filter: nanoseconds to build and to look up, false positives, and memory.
//!
//! ```text
//! cargo run --release -p esker-filter --example filter_bench -- [millions of keys of the batch part]
//! ```
//!
//! Everything runs in one thread but for the parallel builds, and each figure is the least of a few rounds,
//! because other work on the machine only adds. Ratios are taken within one run. The batch part is about
//! filters outside of the cache; with 100 million keys it takes 1.5 GiB of memory and two minutes.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]

use esker_env::Env;
use esker_filter::{Filter, FilterBuilder, FilterKind, FilterPolicy, build_parallel};
use std::hint::black_box;
use std::time::Instant;

/// Keys of the first part.
const KEYS: u64 = 1_000_000;
/// Keys of the filters whose building is measured.
const BUILT_KEYS: u64 = 10_000;
/// A round is short, so that some are not interrupted even on a busy machine.
const LOOKUPS: u64 = 50_000;
const ROUNDS: usize = 60;
/// Lookups of a chain, which are slower.
const LOOKUPS_OF_A_CHAIN: u64 = 10_000;

fn hash_of(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Least nanoseconds of an operation over a few rounds of `operations` each.
fn least_ns(rounds: usize, operations: u64, mut work: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64 / operations as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Single lookups that do not wait for each other.
fn single_ns(filter: &Filter, hashes: &[u64]) -> f64 {
    least_ns(1, hashes.len() as u64, || {
        black_box(hashes.iter().filter(|&&hash| filter.may_contain(hash)).count());
    })
}

/// Single lookups each of whose keys depends on the previous answer. `number` makes the keys.
fn dependent_ns(filter: &Filter, rounds: usize, lookups: u64, number: impl Fn(u64) -> u64) -> f64 {
    least_ns(rounds, lookups, || {
        let mut last = 0;
        for at in 0..lookups {
            last = u64::from(filter.may_contain(hash_of(number(2 * at + last))));
        }
        black_box(last);
    })
}

fn batch_ns(filter: &Filter, rounds: usize, hashes: &[u64]) -> f64 {
    let mut maybe = vec![false; 1024];
    least_ns(rounds, hashes.len() as u64, || {
        for hashes in hashes.chunks(1024) {
            filter.may_contain_many(hashes, &mut maybe[..hashes.len()]);
            black_box(&maybe);
        }
    })
}

fn build(policy: FilterPolicy, keys: u64) -> Vec<u8> {
    let mut builder = FilterBuilder::new(policy);
    (0..keys).for_each(|number| builder.add(hash_of(number)));
    builder.finish().expect("the policy has a filter").to_vec()
}

/// Nanoseconds a key of finishing filters that lie in the cache.
fn build_ns(policy: FilterPolicy) -> f64 {
    let mut builder = FilterBuilder::new(policy);
    (0..100)
        .map(|_| {
            (0..BUILT_KEYS).for_each(|number| builder.add(hash_of(number)));
            least_ns(1, BUILT_KEYS, || {
                black_box(builder.finish());
            })
        })
        .fold(f64::INFINITY, f64::min)
}

fn policies() -> Vec<FilterPolicy> {
    FilterKind::ALL
        .iter()
        .map(|kind| kind.policy(10.0))
        .filter(|&policy| policy != FilterPolicy::None)
        .collect()
}

/// A kind's filter and its measurements.
struct Measured {
    policy: FilterPolicy,
    filter: Filter,
    bits_per_key: f64,
    wrong: f64,
    build: f64,
    absent: f64,
    present: f64,
    mixed: f64,
    batch: f64,
}

impl Measured {
    fn new(policy: FilterPolicy) -> Measured {
        let bytes = build(policy, KEYS);
        let build = build_ns(policy);
        let filter = Filter::decode(&bytes).expect("it was built");
        let wrong = (KEYS..4 * KEYS).filter(|&number| filter.may_contain(hash_of(number))).count();
        let (wrong, never) = (wrong as f64 / (3 * KEYS) as f64, f64::INFINITY);
        let bits_per_key = 8.0 * bytes.len() as f64 / KEYS as f64;
        Measured {
            policy,
            filter,
            bits_per_key,
            wrong,
            build,
            absent: never,
            present: never,
            mixed: never,
            batch: never,
        }
    }
}

/// The first part: all figures of filters that nearly fit the second-level cache. The kinds take turns, so
/// that a bad moment of the machine affects all.
fn kinds() {
    let absent: Vec<u64> = (KEYS..KEYS + LOOKUPS).map(hash_of).collect();
    let present: Vec<u64> = (0..LOOKUPS).map(|at| hash_of(hash_of(at) % KEYS)).collect();
    let mixed: Vec<u64> = (0..LOOKUPS).map(|at| hash_of(hash_of(at) % (2 * KEYS))).collect();
    let warming: Vec<u64> = (0..KEYS / 2).map(hash_of).collect();
    let mut all: Vec<Measured> = policies().into_iter().map(Measured::new).collect();
    for _ in 0..ROUNDS {
        for one in &mut all {
            // Warms the cache after the other kinds.
            single_ns(&one.filter, &warming);
            one.absent = one.absent.min(single_ns(&one.filter, &absent));
            one.present = one.present.min(single_ns(&one.filter, &present));
            one.mixed = one.mixed.min(single_ns(&one.filter, &mixed));
            one.batch = one.batch.min(batch_ns(&one.filter, 1, &mixed));
        }
    }
    println!(
        "{KEYS} keys; ns to build a key; ns a lookup of absent, present and mixed keys, one by one and by 1024"
    );
    println!("(in brackets: how many times as quick as the standard Bloom filter)");
    println!(
        "{:24} {:>6} {:>8} {:>15} {:>15} {:>15} {:>15} {:>8} {:>8}",
        "", "build", "bits/key", "absent", "present", "mixed", "batch", "fp %", "expected"
    );
    let standard = all.iter().position(|one| one.policy.kind() == FilterKind::Bloom).expect("it is a kind");
    for one in &all {
        let versus = |figure: fn(&Measured) -> f64| {
            format!("{:6.1} ({:5.2}x)", figure(one), figure(&all[standard]) / figure(one))
        };
        println!(
            "{:24} {:6.1} {:8.2} {:>15} {:>15} {:>15} {:>15} {:8.4} {:8.4}",
            one.policy.to_string(),
            one.build,
            one.bits_per_key,
            versus(|one| one.absent),
            versus(|one| one.present),
            versus(|one| one.mixed),
            versus(|one| one.batch),
            one.wrong * 100.0,
            one.policy.false_positive_rate() * 100.0
        );
    }
}

/// The second part: batches against chains of lookups in filters beyond the cache.
fn batches(keys: u64) {
    println!(
        "\n{keys} keys, half of the lookups absent; ns a lookup, each key depending on the answer before, and by 1024"
    );
    println!("{:24} {:>8} {:>10} {:>7} {:>7}", "", "MiB", "dependent", "batch", "ratio");
    let lookups = 1_000_000;
    let number = |at: u64| hash_of(at) % (2 * keys);
    let hashes: Vec<u64> = (0..lookups).map(|at| hash_of(number(at))).collect();
    for policy in policies() {
        let bytes = build(policy, keys);
        let filter = Filter::decode(&bytes).expect("it was built");
        drop(bytes);
        let (mut single, mut batch) = (f64::INFINITY, f64::INFINITY);
        for (round, hashes) in (0..).zip(hashes.chunks(LOOKUPS_OF_A_CHAIN as usize)) {
            // Keys that no round before had, so that their lines are not in the cache.
            let number = |at: u64| number(at + round * 4 * LOOKUPS_OF_A_CHAIN + lookups);
            single = single.min(dependent_ns(&filter, 1, LOOKUPS_OF_A_CHAIN, number));
            batch = batch.min(batch_ns(&filter, 1, hashes));
        }
        println!(
            "{:24} {:8.1} {single:10.1} {batch:7.1} {:6.2}x",
            policy.to_string(),
            filter.memory_bytes() as f64 / f64::from(1 << 20),
            single / batch
        );
    }
}

/// The third part: memory for one false positive in a hundred lookups.
fn memory_for_one_percent() {
    println!("\nbits a key for 1 % false positives; stored bits and measured rate");
    let mut standard = 0.0;
    for kind in FilterKind::ALL.iter().filter(|&&kind| kind != FilterKind::None) {
        let policy = kind.policy(10.0).with_false_positive_rate(0.01).expect("all kinds reach 1 %");
        print!("{:24}", policy.to_string());
        for keys in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            let bytes = build(policy, keys);
            let filter = Filter::decode(&bytes).expect("it was built");
            let wrong = (keys..keys + KEYS).filter(|&number| filter.may_contain(hash_of(number))).count();
            let bits = 8.0 * bytes.len() as f64 / keys as f64;
            print!(" {bits:7.2} ({:.2} %)", wrong as f64 / KEYS as f64 * 100.0);
            standard = if *kind == FilterKind::Bloom { bits } else { standard };
        }
        println!();
    }
    println!("(1 K, 10 K, 100 K, 1 M, 10 M keys; the standard filter takes {standard:.2})");
}

/// The fourth part: one filter built by several threads.
fn parallel(keys: u64) {
    println!("\nns to build a key of {keys}, by one thread and by two");
    let hashes: Vec<u64> = (0..keys).map(hash_of).collect();
    let env = Env::real();
    for policy in policies() {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..3 {
            for (threads, least) in (1..).zip(&mut least) {
                let hashes = hashes.clone();
                let start = Instant::now();
                black_box(build_parallel(&env, hashes, policy, threads));
                *least = least.min(start.elapsed().as_nanos() as f64 / keys as f64);
            }
        }
        println!("{:24} {:6.1} {:6.1}  {:.2}x", policy.to_string(), least[0], least[1], least[0] / least[1]);
    }
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20);
    kinds();
    if millions > 0 {
        batches(millions * 1_000_000);
        memory_for_one_percent();
        parallel(4_000_000);
    }
}
