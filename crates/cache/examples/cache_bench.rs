//! Benchmark of every kind of cache: hit rates, and the time of a lookup.
//!
//! ```text
//! cargo run --release -p esker-cache --example cache_bench -- [hits|speed] [kind]
//! ```
//!
//! `hits` prints hit rates in percent, by size of the cache in percent of the data and by distribution of the
//! lookups: `uniform`, `zipf` with exponent 0.99, `scans` (those of `zipf`, and after each 25,000 a scan over
//! all the data, whose own lookups are not counted), and `lookups` (the same scans, done by lookups: their
//! cost without [`Admission::Scan`]). The data are 20,000 blocks of 4 KiB; the first half of 400,000 lookups
//! warms the cache up.
//!
//! `speed` prints millions of lookups a second of 1, 2 and 4 threads that find everything, evenly over 20,000
//! blocks, and of one that misses half the time and inserts; the last columns divide by `lru` of the same
//! run. `slots` equals `clock` here but for the doorkeeper, because the slots are the tables':
//! `cargo run --release -p esker-sst --example cached_get_bench` compares whole lookups.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]

use esker_base::Result;
use esker_cache::{Admission, BlockCache, BlockKind, CacheKey, CacheKind, Charge};
use esker_env::{Clock, SystemClock};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const BLOCKS: u64 = 20_000;
const BLOCK_BYTES: usize = 4096;
const LOOKUPS: u64 = 400_000;
const LOOKUPS_BETWEEN_SCANS: u64 = 25_000;
const SIZES_PERCENT: [usize; 5] = [0, 1, 5, 10, 20];
const THREADS: [u64; 3] = [1, 2, 4];
const ROUNDS: usize = 3;

/// A block without its bytes: policies do not read them.
struct Block(u64);

impl Charge for Block {
    fn charge_bytes(&self) -> usize {
        BLOCK_BYTES
    }
}

type Cache = BlockCache<Arc<Block>>;

fn cache_of(kind: CacheKind, blocks: usize) -> Cache {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let empty = Cache::of_kind(kind, 0, &clock);
    Cache::of_kind(kind, blocks * (BLOCK_BYTES + empty.entry_overhead_bytes()), &clock)
}

fn key(block: u64) -> CacheKey {
    CacheKey { table: (block / 1_000) as u32, block: (block % 1_000) as u32 }
}

/// A lookup that loads a missing block; returns whether it was a hit.
#[inline]
fn look_up(cache: &Cache, block: u64, admission: Admission) -> bool {
    match cache.get(&key(block), BlockKind::Data, admission) {
        Some(found) => black_box(found.0) == block,
        None => {
            cache.insert(key(block), Arc::new(Block(block)), BlockKind::Data, admission);
            false
        }
    }
}

struct Random(u64);

impl Random {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    #[inline]
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Ranks by Zipf's law, spread over the blocks so that hot blocks are no neighbours.
struct Zipf {
    /// Sums of the weights up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    fn new(exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let weight = |rank: u64| {
            sum += (rank as f64).powf(-exponent);
            sum
        };
        Zipf { sums: (1..=BLOCKS).map(weight).collect() }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let total = self.sums.last().copied().unwrap_or_default();
        let wanted = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * total;
        let rank = self.sums.partition_point(|&sum| sum <= wanted) as u64;
        // 7919 is prime and no divisor of the number of blocks.
        rank * 7919 % BLOCKS
    }
}

fn hit_rate(kind: CacheKind, percent: usize, distribution: &str, zipf: &Zipf) -> f64 {
    let cache = cache_of(kind, BLOCKS as usize * percent / 100);
    let mut random = Random(0x5eed_0bec);
    let mut hits = 0;
    for lookup in 0..LOOKUPS {
        let block = if distribution == "uniform" { random.below(BLOCKS) } else { zipf.draw(&mut random) };
        let hit = look_up(&cache, block, Admission::Point);
        hits += u64::from(hit && lookup >= LOOKUPS / 2);
        if lookup % LOOKUPS_BETWEEN_SCANS == 0 && distribution != "uniform" && distribution != "zipf" {
            let admission = if distribution == "scans" { Admission::Scan } else { Admission::Point };
            (0..BLOCKS).for_each(|block| _ = look_up(&cache, block, admission));
        }
    }
    hits as f64 / (LOOKUPS / 2) as f64 * 100.0
}

fn print_hits(kinds: &[CacheKind]) {
    let zipf = Zipf::new(0.99);
    for distribution in ["uniform", "zipf", "scans", "lookups"] {
        println!("\nhit rate, %, {distribution}; size of the cache in % of the data");
        print!("{:<10}", "kind");
        SIZES_PERCENT.iter().for_each(|percent| print!("{percent:>8}"));
        println!();
        for &kind in kinds {
            print!("{:<10}", kind.to_string());
            for percent in SIZES_PERCENT {
                print!("{:>8.1}", hit_rate(kind, percent, distribution, &zipf));
            }
            println!();
        }
    }
}

/// Millions of lookups a second of some threads together, for blocks below `end`.
fn throughput(cache: &Cache, threads: u64, lookups: u64, end: u64) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut random = Random(0x5eed_0bec + thread);
                (0..lookups).for_each(|_| _ = black_box(look_up(cache, random.below(end), Admission::Point)));
            });
        }
    });
    (threads * lookups) as f64 / started.elapsed().as_secs_f64() / 1e6
}

/// Lookups a second with 1, 2 and 4 threads, and of one that misses half the time.
fn speeds(kind: CacheKind) -> [f64; 4] {
    let cache = cache_of(kind, BLOCKS as usize + 1_000);
    (0..BLOCKS).for_each(|block| _ = look_up(&cache, block, Admission::Point));
    let half = cache_of(kind, BLOCKS as usize / 2);
    (0..3 * BLOCKS).for_each(|block| _ = look_up(&half, block % BLOCKS, Admission::Point));
    let [one, two, four] = THREADS.map(|threads| throughput(&cache, threads, 2_000_000 / threads, BLOCKS));
    [one, two, four, throughput(&half, 1, 500_000, BLOCKS)]
}

fn print_speed(kinds: &[CacheKind]) {
    let mut best = vec![[0.0f64; 4]; kinds.len()];
    // Kinds in turn, and the best of a few rounds: other work on the machine only slows down.
    for _ in 0..ROUNDS {
        for (best, &kind) in best.iter_mut().zip(kinds) {
            best.iter_mut().zip(speeds(kind)).for_each(|(best, speed)| *best = best.max(speed));
        }
    }
    let columns = ["1 thread", "2", "4", "misses"];
    println!("\nlookups, M/s");
    print!("{:<10}", "kind");
    columns.iter().for_each(|column| print!("{column:>10}"));
    println!("   | by lru's:   1      2      4 misses");
    let lru = kinds.iter().position(|kind| kind.name() == "lru").map_or([f64::NAN; 4], |at| best[at]);
    for (kind, speeds) in kinds.iter().zip(&best) {
        print!("{:<10}", kind.to_string());
        speeds.iter().for_each(|speed| print!("{speed:>10.1}"));
        print!("   |       ");
        speeds.iter().zip(&lru).for_each(|(speed, lru)| print!("{:>7.2}", speed / lru));
        println!();
    }
}

fn main() -> Result<()> {
    let (mut what, mut kinds) = (None, CacheKind::ALL.to_vec());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "hits" | "speed" => what = Some(argument),
            kind => kinds = vec![kind.parse()?],
        }
    }
    if what.as_deref() != Some("speed") {
        print_hits(&kinds);
    }
    if what.as_deref() != Some("hits") {
        print_speed(&kinds);
    }
    Ok(())
}
