//! Measures caches inside a database: gets by threads with each kind, by memory, and the gains of cache,
//! filters and threads.

use super::patterns::{Pattern, Scatter, Zipf};
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape};
use crate::table::{Cell, Column, Table};
use esker::options::FilterPolicy;
use esker::parts::cache::{BlockKind, CacheKind};
use esker::parts::env::{Clock, SystemClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

const VALUE: [u8; 100] = [b'v'; 100];
/// Room for everything.
const LARGE_BUDGET_BYTES: u64 = 1 << 30;
/// The smallest budget.
const SMALL_BUDGET_BYTES: u64 = 8 << 20;
const FILTERED: &str = "filtered";
const UNFILTERED: &str = "unfiltered";

pub(super) const BASE: &str = "base";
pub(super) const WITH_CACHE: &str = "+ cache";
pub(super) const WITH_FILTERS: &str = "+ filters";
pub(super) const WITH_THREADS: &str = "+ 4 threads";

pub(super) const SETUP: &str = "databases: 1 M random keys of 16 + 100 bytes (quick: 300,000), opened for reading with each kind and budget; uniform gets \
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
    context.pick(1, 3, 5)
}

fn budgets(context: &Context<'_>) -> &'static [u64] {
    context.pick(&[8, 64], &[8, 16, 64, 256], &[8, 16, 32, 64, 128, 256])
}

const ROWS: [(&str, u64, &str, usize); 4] = [
    (BASE, SMALL_BUDGET_BYTES, UNFILTERED, 1),
    (WITH_CACHE, LARGE_BUDGET_BYTES, UNFILTERED, 1),
    (WITH_FILTERS, LARGE_BUDGET_BYTES, FILTERED, 1),
    (WITH_THREADS, LARGE_BUDGET_BYTES, FILTERED, 4),
];

pub(super) fn steps(context: &Context<'_>) -> usize {
    1 + rounds(context) * (CacheKind::ALL.len() + ROWS.len()) + budgets(context).len() * 2
}

/// A database on disk, and keys of which every other one is in it.
struct Data {
    directory: PathBuf,
    present: Keys,
    half_absent: Keys,
    stored_bytes: u64,
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
    let count = context.pick(3_000, 300_000, 1_000_000);
    let keys = Keys::new(Shape::Random, 2 * count, &context.random(1));
    let directory = context.directory("cached")?;
    let database = Database::open_with(&directory, Options::default().memory_budget(LARGE_BUDGET_BYTES))?;
    for (name, filter) in [(UNFILTERED, FilterPolicy::None), (FILTERED, FilterPolicy::default())] {
        let keyspace = database.keyspace_with(name, KeyspaceOptions::default().filter(filter))?;
        keys.iter().step_by(2).try_for_each(|key| keyspace.put(key, VALUE))?;
        keyspace.flush()?;
    }
    database.drain()?;
    database.close()?;
    let present = keys.every_other();
    let probes = context.pick(3_000, 200_000, 500_000);
    Ok(Data {
        directory,
        half_absent: keys.drawn(probes, &context.random(2)),
        present: present.drawn(probes, &context.random(3)),
        stored_bytes: (count * (16 + VALUE.len())) as u64,
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
        context.rounds(rounds(context), &ROWS, name, |clock, &(_, budget_bytes, keyspace, threads)| {
            let database = open(&data.directory, CacheKind::default(), budget_bytes)?;
            let keyspace = database.open_keyspace(keyspace)?;
            gets(clock, &keyspace, &data.half_absent, 1, HALF_PRESENT)?;
            let rate = gets(clock, &keyspace, &data.half_absent, threads, HALF_PRESENT)?;
            drop(keyspace);
            database.close()?;
            Ok(vec![rate])
        })?;
    let columns = [
        Column::key("row"),
        Column::key("budget_mib"),
        Column::key("keyspace"),
        Column::key("threads"),
        Column::measured("gets_per_second", 0),
    ];
    let mut table = Table::new("rows", "What cache, filters and threads add", &columns);
    for ((row, budget_bytes, keyspace, threads), samples) in ROWS.into_iter().zip(measured) {
        let mut cells: Vec<Cell> =
            vec![row.into(), (budget_bytes >> 20).into(), keyspace.into(), threads.into()];
        cells.extend(samples.into_iter().map(Cell::from));
        table.push(cells);
    }
    Ok(table)
}

/// Budgets that leave the cache from a few percent of the data to all of it.
fn by_size(context: &mut Context<'_>, data: &Data) -> Result<Table> {
    let columns = [
        Column::key("pattern"),
        Column::key("budget_mib"),
        Column::number("cache_percent", 0),
        Column::number("hit_percent", 1),
        Column::number("gets_per_second", 0),
    ];
    let mut table = Table::new("sizes", "Gets of a database by its memory budget", &columns);
    let zipf = zipf_order(&data.present, context);
    for &budget_mib in budgets(context) {
        for (pattern, keys) in [(Pattern::Uniform, &data.present), (Pattern::Zipf, &zipf)] {
            context.step(&format!("{} gets with {budget_mib} MiB", pattern.name()));
            let clock = context.clock();
            let database = open(&data.directory, CacheKind::default(), budget_mib << 20)?;
            let keyspace = database.open_keyspace(FILTERED)?;
            gets(&clock, &keyspace, keys, 1, ALL_PRESENT)?;
            let before = database.metrics().cache[BlockKind::Data];
            let (_, rate) = time_ns(&clock, || gets(&clock, &keyspace, keys, 1, ALL_PRESENT));
            let metrics = database.metrics();
            let after = metrics.cache[BlockKind::Data];
            let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
            let capacity = metrics.memory.cache_capacity_bytes as f64;
            table.push(vec![
                pattern.name().into(),
                budget_mib.into(),
                (capacity / data.stored_bytes as f64 * 100.0).min(100.0).into(),
                (hits as f64 * 100.0 / (hits + misses).max(1) as f64).into(),
                rate?.into(),
            ]);
            drop(keyspace);
            database.close()?;
        }
    }
    Ok(table)
}

/// As many of these keys, some of them far more often than others.
fn zipf_order(keys: &Keys, context: &Context<'_>) -> Keys {
    let count = keys.count() as u64;
    let (zipf, scatter, random) = (Zipf::new(count), Scatter::new(count), context.random(4));
    keys.picked((0..count).map(|_| scatter.place(zipf.rank(&random)) as usize))
}
