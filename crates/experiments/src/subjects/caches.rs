//! Measures block caches: the hit rate of every kind by size and access pattern, and their speed by threads.
//!
//! CS265 prints hit rates of its cache (4.6.1), the throughput of a lock-free one over a sharded LRU at one
//! to sixteen threads (4.6.3), and what cache, filters and threads add to reads one after the other (4.2.2).

mod databases;
mod findings;

use crate::claim::{Claim, ratio};
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::table::{Column, Table};
use esker::parts::cache::{Admission, BlockCache, BlockKind, CacheKey, CacheKind, Charge};
use esker::parts::env::{Clock, Random, SystemClock};
use esker_bench::{Choices, Distribution};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "caches",
    title: "Block caches: hit rates by size and pattern, speed by threads, and what a cache adds to a database",
    about: "Hit rates: keys of a table are asked for in a pattern, 32 neighbouring keys to a block of 4 KiB; a block that is not \
            there is inserted. They are counted in the second half of the accesses. Speed: a database whose blocks are all cached, \
            opened with each kind of cache, random gets on 1 to 16 threads; beyond the machine's cores this measures how \
            threads that wait get along. Gets of a database by pattern with caches of 0 to 20 % of its tables. Rows of a database: no \
            cache, one for everything, filters, threads.",
    page: "caches.md",
    run,
    findings: findings::declare,
};

/// Shares of the blocks that the cache has room for, in percent.
const PERCENTS: [u64; 5] = [0, 1, 5, 10, 20];
const KEYS_PER_BLOCK: u64 = 32;
const BLOCK_BYTES: usize = 4096;

/// A block without bytes, which only claims a size: hit rates need no more. It has the reference bit that
/// tables keep for their slots.
#[derive(Default)]
struct EmptyBlock {
    is_cached: AtomicBool,
    is_used: AtomicBool,
}

impl Charge for EmptyBlock {
    fn charge_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn entered(&self) {
        self.is_cached.store(true, Ordering::Relaxed);
    }

    fn left(&self) {
        self.is_cached.store(false, Ordering::Relaxed);
    }

    fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let blocks = context.pick(1_000, 10_000, 25_000);
    let accesses = context.pick(20_000, 300_000, 4_000_000);
    context.expect_steps(Distribution::ALL.len() * CacheKind::ALL.len() + databases::steps(context));
    let hits = hit_rates(context, blocks, accesses);
    let databases::CacheTables { threads, rows, sizes } = databases::measure(context)?;
    let claims = claims(&threads);
    let comparisons = comparisons(&hits, &threads, &rows, &sizes);
    let columns = Columns { series: "kind", x: "cache_percent", y: "hit_percent" };
    let mut plots: Vec<Plot> = ["hits-uniform", "hits-zipf", "hits-latest", "hits-gaussian", "hits-skewed"]
        .into_iter()
        .zip(["uniform", "zipf", "latest", "gaussian", "skewed"])
        .map(|(name, pattern)| {
            Plot::lines(
                name,
                &format!("Block caches: hit rate, {pattern} keys"),
                &hits,
                &[("pattern", pattern)],
                columns,
            )
            .labels("cache, % of the data", "hits, %")
        })
        .collect();
    plots.push(
        Plot::lines(
            "sizes",
            "Gets of a database a second, by cache",
            &sizes,
            &[],
            Columns { series: "pattern", x: "cache_percent", y: "gets_per_second" },
        )
        .labels("cache, % of the tables", "gets a second"),
    );
    plots.push(
        Plot::lines(
            "threads",
            "Block caches: gets of a cached database",
            &threads,
            &[],
            Columns { series: "kind", x: "threads", y: "gets_per_second" },
        )
        .labels("threads", "gets a second")
        .logarithmic(true, false),
    );
    Ok(Outcome {
        setup: vec![
            format!(
                "hit rates: {blocks} blocks, {accesses} accesses for each number, scattered Zipf 0.99; latest: one key in 20 accesses is new"
            ),
            databases::SETUP.into(),
            format!(
                "this machine runs {} threads at once",
                std::thread::available_parallelism().map_or(1, usize::from)
            ),
        ],
        tables: vec![hits, threads, rows, sizes],
        plots,
        claims,
        comparisons,
    })
}

fn hit_rates(context: &mut Context<'_>, blocks: u64, accesses: u64) -> Table {
    let columns = [
        Column::key("kind"),
        Column::key("pattern"),
        Column::key("cache_percent"),
        Column::number("hit_percent", 1),
    ];
    let mut table = Table::new("hits", "Hit rate by size of the cache and pattern", &columns);
    for pattern in Distribution::ALL {
        for kind in CacheKind::ALL {
            context.step(&format!("hit rates of {kind}, {}", pattern.name()));
            for percent in PERCENTS {
                let keys = choices(pattern, blocks * KEYS_PER_BLOCK, context, 1);
                let rate = hit_rate(kind, blocks * percent / 100, blocks, accesses, keys);
                table.push(vec![
                    kind.name().into(),
                    pattern.name().into(),
                    percent.into(),
                    (rate * 100.0).into(),
                ]);
            }
        }
    }
    table
}

/// Accesses between two new keys of the pattern `latest`.
const ACCESSES_PER_NEW_KEY: u64 = 20;

/// Keys of a pattern, by their numbers below `count`.
fn choices(pattern: Distribution, count: u64, context: &Context<'_>, purpose: u64) -> Choices {
    let seed = context.random(purpose).next_u64();
    Choices::new(pattern, count, seed).with_new_after(ACCESSES_PER_NEW_KEY)
}

/// Share of hits in the second half of the accesses. Kinds with shortcuts hit by slots, as in a database.
fn hit_rate(kind: CacheKind, room: u64, blocks: u64, accesses: u64, mut keys: Choices) -> f64 {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let overhead_bytes = BlockCache::<Arc<EmptyBlock>>::of_kind(kind, 0, &clock).entry_overhead_bytes();
    let cache = BlockCache::of_kind(kind, room as usize * (BLOCK_BYTES + overhead_bytes), &clock);
    let mut slots: Vec<Option<Arc<EmptyBlock>>> = vec![None; blocks as usize];
    let is_cached = |value: &&Arc<EmptyBlock>| value.is_cached.load(Ordering::Relaxed);
    let mut hits = 0u64;
    for access in 0..accesses {
        let block = keys.choose() / KEYS_PER_BLOCK;
        let key = CacheKey { table: 1, block: block as u32 };
        let slot = &mut slots[block as usize];
        if let Some(value) = slot.as_ref().filter(|_| kind.has_shortcuts()).filter(is_cached) {
            value.is_used.store(true, Ordering::Relaxed);
        } else if let Some(value) = cache.get(&key, BlockKind::Data, Admission::Point) {
            *slot = Some(value);
        } else {
            let value = Arc::new(EmptyBlock::default());
            *slot = Some(cache.insert(key, value, BlockKind::Data, Admission::Point));
            continue;
        }
        hits += u64::from(access >= accesses / 2);
    }
    hits as f64 / (accesses - accesses / 2) as f64
}

/// The kind whose hits take no lock, which corresponds to the lock-free cache of CS265.
const LOCK_FREE: &str = "slots";
const SHARDED_LRU: &str = "lru";

fn lock_free_over_lru(threads: &Table, count: &str) -> Option<f64> {
    let of = |kind| threads.number(&[("kind", kind), ("threads", count)], "gets_per_second");
    ratio(of(LOCK_FREE), of(SHARDED_LRU))
}

fn claims(threads: &Table) -> Vec<Claim> {
    let claim = |count, words: &str| {
        let what = format!("lock-free ({LOCK_FREE}) over sharded LRU, gets of a cached database, {words}");
        Claim::at_least(1.0, what, lock_free_over_lru(threads, count))
    };
    vec![claim("1", "one thread"), claim("2", "two threads")]
}

/// Percent of hits for a cache of 1, 5, 10 and 20 % of the data (CS265 4.6.1).
const DOCUMENT_HITS: [(&str, f64, f64); 4] =
    [("1", 0.8, 32.5), ("5", 4.2, 58.7), ("10", 9.5, 78.3), ("20", 19.2, 92.1)];
/// Lock-free over LRU (CS265 4.6.3).
const DOCUMENT_THREADS: [(&str, f64); 5] = [
    ("1", 148.0 / 142.0),
    ("2", 258.0 / 224.0),
    ("4", 395.0 / 289.0),
    ("8", 572.0 / 312.0),
    ("16", 738.0 / 298.0),
];

/// Gets with caches over gets without one (4.6.2); the report does not say of which pattern.
const DOCUMENT_GAINS: [(&str, f64); 4] = [("1", 1.35), ("5", 2.12), ("10", 2.87), ("20", 3.21)];

fn comparisons(hits: &Table, threads: &Table, rows: &Table, sizes: &Table) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let hit = |pattern: &str, percent: &str| {
        hits.number(&[("kind", SHARDED_LRU), ("pattern", pattern), ("cache_percent", percent)], "hit_percent")
    };
    for (percent, uniform, zipf) in DOCUMENT_HITS {
        let mut add =
            |what: String, theirs, ours| comparisons.push(Comparison::new("CS265 4.6.1", what, theirs, ours));
        let share: f64 = percent.parse().unwrap_or(f64::NAN);
        add(
            format!("hits over the cache's share, uniform, LRU of {percent} %"),
            uniform / share,
            hit("uniform", percent).map(|hit| hit / share),
        );
        add(
            format!("hits, Zipf over uniform, LRU of {percent} %"),
            zipf / uniform,
            ratio(hit("zipf", percent), hit("uniform", percent)),
        );
    }
    for (count, theirs) in DOCUMENT_THREADS {
        let what = format!("lock-free over LRU, {count} threads");
        comparisons.push(Comparison::new("CS265 4.6.3", what, theirs, lock_free_over_lru(threads, count)));
    }
    for (percent, theirs) in DOCUMENT_GAINS {
        let wanted = [("pattern", "zipf"), ("cache_percent", percent)];
        let what = format!("gets a second, cache of {percent} % over none, Zipf");
        comparisons.push(Comparison::new(
            "CS265 4.6.2",
            what,
            theirs,
            sizes.number(&wanted, "over_no_cache"),
        ));
    }
    let of = |row| rows.number(&[("row", row)], "gets_per_second");
    let mut add = |what: &str, theirs, one, other| {
        comparisons.push(Comparison::new("CS265 4.2.2", what, theirs, ratio(of(one), of(other))));
    };
    add("+ cache over base, gets a second", 128_475.0 / 73_642.0, databases::WITH_CACHE, databases::BASE);
    add("+ filters over + cache", 159_362.0 / 128_475.0, databases::WITH_FILTERS, databases::WITH_CACHE);
    add(
        "+ 4 threads over + filters",
        271_568.0 / 159_362.0,
        databases::WITH_THREADS,
        databases::WITH_FILTERS,
    );
    comparisons
}
