//! Measures caches inside a database: gets by threads with each kind, by size, and the gains of cache,
//! filters and threads.

use super::{PERCENTS, choices};
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape};
use crate::table::{Cell, Column, Table};
use esker::options::FilterPolicy;
use esker::parts::cache::{BlockKind, CacheKind};
use esker::parts::env::{Clock, SystemClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use esker_bench::Distribution;
use std::path::{Path, PathBuf};

const VALUE: [u8; 100] = [b'v'; 100];
/// Room for everything.
const LARGE_BUDGET_BYTES: u64 = 1 << 30;
const LARGE_CACHE_BYTES: u64 = 768 << 20;
const FILTERED: &str = "filtered";
const UNFILTERED: &str = "unfiltered";

pub(super) const BASE: &str = "base";
pub(super) const WITH_CACHE: &str = "+ cache";
pub(super) const WITH_FILTERS: &str = "+ filters";
pub(super) const WITH_THREADS: &str = "+ 4 threads";

pub(super) const SETUP: &str = "databases: 1 M random keys of 16 + 100 bytes (quick: 50,000), opened for reading with each kind and size of cache; uniform gets \
     one by one, of keys that are there for `threads` and `sizes`, half of them absent for `rows`; misses are read from the \
     system's page cache, not from a disk";

pub(super) struct CacheTables {
    pub(super) threads: Table,
    pub(super) rows: Table,
    pub(super) sizes: Table,
}

fn threads(context: &Context<'_>) -> &'static [usize] {
    context.pick(&[1, 2], &[1, 2, 4], &[1, 2, 4, 8, 16])
}

fn rounds(context: &Context<'_>) -> usize {
    context.pick(1, 1, 5)
}

/// Name, cache in bytes, keyspace and threads: the base has no cache, the others one for everything.
const ROWS: [(&str, u64, &str, usize); 4] = [
    (BASE, 0, UNFILTERED, 1),
    (WITH_CACHE, LARGE_CACHE_BYTES, UNFILTERED, 1),
    (WITH_FILTERS, LARGE_CACHE_BYTES, FILTERED, 1),
    (WITH_THREADS, LARGE_CACHE_BYTES, FILTERED, 4),
];

pub(super) fn steps(context: &Context<'_>) -> usize {
    1 + rounds(context) * (CacheKind::ALL.len() + ROWS.len()) + PERCENTS.len() * Distribution::ALL.len()
}

/// A database on disk, and keys of which every other one is in it.
struct Data {
    directory: PathBuf,
    present: Keys,
    half_absent: Keys,
    /// Of the keyspace with filters.
    table_bytes: u64,
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<CacheTables> {
    context.step("filling a database");
    let data = fill(context)?;
    let threads = by_threads(context, &data)?;
    let rows = by_rows(context, &data)?;
    let sizes = by_size(context, &data)?;
    Ok(CacheTables { threads, rows, sizes })
}

fn fill(context: &Context<'_>) -> Result<Data> {
    let count = context.pick(3_000, 50_000, 1_000_000);
    let keys = Keys::new(Shape::Random, 2 * count, &context.random(1));
    let directory = context.directory("cached")?;
    let database = Database::open_with(&directory, Options::default().memory_budget(LARGE_BUDGET_BYTES))?;
    for (name, filter) in [(UNFILTERED, FilterPolicy::None), (FILTERED, FilterPolicy::default())] {
        let keyspace = database.keyspace_with(name, KeyspaceOptions::default().filter(filter))?;
        keys.iter().step_by(2).try_for_each(|key| keyspace.put(key, VALUE))?;
        keyspace.flush()?;
    }
    database.drain()?;
    let keyspaces = database.metrics().keyspaces;
    let filtered = keyspaces.iter().find(|keyspace| keyspace.name == FILTERED);
    let table_bytes = filtered.map_or(0, |keyspace| keyspace.table_bytes);
    database.close()?;
    let present = keys.every_other();
    let probes = context.pick(3_000, 30_000, 500_000);
    Ok(Data {
        directory,
        half_absent: keys.drawn(probes, &context.random(2)),
        present: present.drawn(probes, &context.random(3)),
        table_bytes,
    })
}

fn open(directory: &Path, kind: CacheKind, budget_bytes: u64) -> Result<Database> {
    Ok(Database::open_with(
        directory,
        Options::default().read_only(true).cache_kind(kind).memory_budget(budget_bytes),
    )?)
}

/// Gets per second of so many threads, each over all keys, with a different start.
fn gets(
    clock: &SystemClock,
    keyspace: &Keyspace,
    keys: &Keys,
    threads: usize,
    expected: (f64, f64),
) -> Result<f64> {
    let start = clock.monotonic_ns();
    let found = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let first = keys.count() / threads * thread;
            move || -> esker::Result<usize> {
                let order = keys.iter().skip(first).chain(keys.iter().take(first));
                order
                    .into_iter()
                    .try_fold(0, |found, key| Ok(found + usize::from(keyspace.get(key)?.is_some())))
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        let joined = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.sum::<esker::Result<usize>>()
    })?;
    let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    let total = (threads * keys.count()) as f64;
    let share = found as f64 / total;
    if share < expected.0 || share > expected.1 {
        return Err(ExperimentError::WrongAnswer(format!("{:.1} % of the keys were found", share * 100.0)));
    }
    Ok(total / seconds)
}

const ALL_PRESENT: (f64, f64) = (1.0, 1.0);
const HALF_PRESENT: (f64, f64) = (0.4, 0.6);

fn by_threads(context: &mut Context<'_>, data: &Data) -> Result<Table> {
    let counts = threads(context);
    let name = |kind: &CacheKind| format!("gets by threads with {kind}");
    let measured = context.rounds(rounds(context), &CacheKind::ALL, name, |clock, &kind| {
        let database = open(&data.directory, kind, LARGE_BUDGET_BYTES)?;
        let keyspace = database.open_keyspace(FILTERED)?;
        // Brings everything into the cache.
        gets(clock, &keyspace, &data.present, 1, ALL_PRESENT)?;
        let numbers = counts.iter().map(|&count| gets(clock, &keyspace, &data.present, count, ALL_PRESENT));
        let numbers = numbers.collect();
        drop(keyspace);
        database.close()?;
        numbers
    })?;
    let columns = [Column::key("kind"), Column::key("threads"), Column::measured("gets_per_second", 0)];
    let mut table = Table::new("threads", "Gets of a cached database a second, by threads", &columns);
    for (kind, samples) in CacheKind::ALL.iter().zip(measured) {
        for (&count, sample) in counts.iter().zip(samples) {
            table.push(vec![kind.name().into(), count.into(), sample.into()]);
        }
    }
    Ok(table)
}

fn by_rows(context: &mut Context<'_>, data: &Data) -> Result<Table> {
    let name = |(row, ..): &(&str, u64, &str, usize)| format!("row {row:?}");
    let measured =
        context.rounds(rounds(context), &ROWS, name, |clock, &(_, cache_bytes, keyspace, threads)| {
            let options = Options::default().read_only(true).memory_budget(LARGE_BUDGET_BYTES);
            let database = Database::open_with(&data.directory, options.cache_size(cache_bytes))?;
            let keyspace = database.open_keyspace(keyspace)?;
            gets(clock, &keyspace, &data.half_absent, 1, HALF_PRESENT)?;
            let rate = gets(clock, &keyspace, &data.half_absent, threads, HALF_PRESENT)?;
            drop(keyspace);
            database.close()?;
            Ok(vec![rate])
        })?;
    let columns = [
        Column::key("row"),
        Column::key("cache_mib"),
        Column::key("keyspace"),
        Column::key("threads"),
        Column::measured("gets_per_second", 0),
    ];
    let mut table = Table::new("rows", "What cache, filters and threads add", &columns);
    for ((row, cache_bytes, keyspace, threads), samples) in ROWS.into_iter().zip(measured) {
        let mut cells: Vec<Cell> =
            vec![row.into(), (cache_bytes >> 20).into(), keyspace.into(), threads.into()];
        cells.extend(samples.into_iter().map(Cell::from));
        table.push(cells);
    }
    Ok(table)
}

/// Gets of each pattern with a cache of each share of the stored data, whose size is fixed.
fn by_size(context: &mut Context<'_>, data: &Data) -> Result<Table> {
    let columns = [
        Column::key("pattern"),
        Column::key("cache_percent"),
        Column::number("hit_percent", 1),
        Column::number("gets_per_second", 0),
        Column::number("over_no_cache", 2),
    ];
    let title = "Gets of a database by pattern and cache, in percent of its tables";
    let mut table = Table::new("sizes", title, &columns);
    let count = data.present.count() as u64;
    for pattern in Distribution::ALL {
        let places = choices(pattern, count, context, 4).take(count as usize);
        let keys = data.present.picked(places.map(|place| place as usize));
        let mut without = None;
        for percent in PERCENTS {
            context.step(&format!("{} gets with a cache of {percent} %", pattern.name()));
            let cache_bytes = data.table_bytes * percent / 100;
            let (hits, rate) = hits_and_rate(&context.clock(), data, &keys, cache_bytes)?;
            let base = *without.get_or_insert(rate);
            table.push(vec![
                pattern.name().into(),
                percent.into(),
                hits.into(),
                rate.into(),
                (rate / base).into(),
            ]);
        }
    }
    Ok(table)
}

/// Hits in percent, and gets a second, of a second pass over the keys.
fn hits_and_rate(clock: &SystemClock, data: &Data, keys: &Keys, cache_bytes: u64) -> Result<(f64, f64)> {
    let options = Options::default().read_only(true).memory_budget(LARGE_BUDGET_BYTES);
    let database = Database::open_with(&data.directory, options.cache_size(cache_bytes))?;
    let keyspace = database.open_keyspace(FILTERED)?;
    gets(clock, &keyspace, keys, 1, ALL_PRESENT)?;
    let before = database.metrics().cache[BlockKind::Data];
    let rate = gets(clock, &keyspace, keys, 1, ALL_PRESENT)?;
    let after = database.metrics().cache[BlockKind::Data];
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    drop(keyspace);
    database.close()?;
    Ok((hits as f64 * 100.0 / (hits + misses).max(1) as f64, rate))
}
