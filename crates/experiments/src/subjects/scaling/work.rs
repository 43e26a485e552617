//! The timed work: databases of pairs of integers, filled and read by some threads.

use crate::claim::ratio;
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::keys::scatter;
use esker::parts::env::{Clock, FileSystem, StdFileSystem, SystemClock};
use esker::{Database, Keyspace, Options};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Pairs of a batch, as in CS265's row.
const BATCH: u64 = 1_000;

/// The key of pair `number`; as a bijection, so that none comes twice.
#[inline]
fn key(number: u64) -> [u8; 8] {
    scatter(number).to_be_bytes()
}

fn open(directory: &Path, options: Options) -> Result<(Database, Keyspace)> {
    let database = Database::open_with(directory, options)?;
    let keyspace = database.keyspace(esker::DEFAULT_KEYSPACE)?;
    Ok((database, keyspace))
}

/// The rates of [`super::THREAD_WORKLOADS`], of `pairs` operations by so many threads.
pub(super) fn by_threads(
    directory: &Path,
    clock: &SystemClock,
    pairs: u64,
    threads: usize,
) -> Result<Vec<f64>> {
    let (database, keyspace) = open(&directory.join("batches"), Options::default())?;
    let batched = on_threads(clock, pairs, threads, |range| put_batches(&database, &keyspace, range))?;
    drop(keyspace);
    database.close()?;
    drop(database);
    let (database, keyspace) = open(&directory.join("puts"), Options::default())?;
    let put = on_threads(clock, pairs, threads, |range| {
        range.into_iter().try_for_each(|number| Ok(keyspace.put(key(number), number.to_be_bytes())?))
    })?;
    database.drain()?;
    let got = on_threads(clock, pairs, threads, |range| {
        range.into_iter().try_for_each(|number| get(&keyspace, scatter(!number) % pairs))
    })?;
    let mixed = on_threads(clock, pairs, threads, |range| {
        range.into_iter().try_for_each(|number| {
            let pair = scatter(number ^ (1 << 40)) % pairs;
            if number % 2 == 0 {
                get(&keyspace, pair)
            } else {
                Ok(keyspace.put(key(pair), pair.to_be_bytes())?)
            }
        })
    })?;
    drop(keyspace);
    database.close()?;
    Ok(vec![put, batched, got, mixed])
}

fn put_batches(database: &Database, keyspace: &Keyspace, range: Range<u64>) -> Result<()> {
    let mut next = range.start;
    while next < range.end {
        let end = (next + BATCH).min(range.end);
        let mut batch = database.batch();
        (next..end).for_each(|number| batch.put(keyspace, key(number), number.to_be_bytes()));
        database.write(&batch)?;
        next = end;
    }
    Ok(())
}

/// The value of a pair is its number.
#[inline]
fn get(keyspace: &Keyspace, pair: u64) -> Result<()> {
    let is_right = keyspace.get_with(key(pair), |value| value == Some(&pair.to_be_bytes()[..]))?;
    if is_right { Ok(()) } else { Err(wrong(pair)) }
}

#[cold]
fn wrong(pair: u64) -> ExperimentError {
    ExperimentError::WrongAnswer(format!("the value of pair {pair} was not found"))
}

/// Operations a second, of `count` that the threads divide.
fn on_threads(
    clock: &SystemClock,
    count: u64,
    threads: usize,
    work: impl Fn(Range<u64>) -> Result<()> + Sync,
) -> Result<f64> {
    let share = count.div_ceil(threads as u64);
    let start_ns = clock.monotonic_ns();
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads as u64)
            .map(|thread| (thread * share).min(count)..((thread + 1) * share).min(count))
            .map(|range| scope.spawn(move || work(range)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(count as f64 * 1e9 / (clock.monotonic_ns() - start_ns) as f64)
}

/// A database of so many pairs, drained.
pub(super) struct Filled {
    directory: PathBuf,
    database: Database,
    keyspace: Keyspace,
    pairs: u64,
    pub(super) puts_per_second: f64,
    pub(super) drained_puts_per_second: f64,
}

/// What the database tells about itself.
pub(super) struct Facts {
    pub(super) tables_per_get: Option<f64>,
    pub(super) stored_bytes_per_pair: f64,
    pub(super) write_amplification: Option<f64>,
}

impl Filled {
    pub(super) fn new(context: &Context<'_>, name: &str, options: Options, pairs: u64) -> Result<Filled> {
        Filled::open_in(&context.directory(name)?, &context.clock(), options, pairs)
    }

    /// The same in this directory, which does not exist.
    pub(super) fn open_in(
        directory: &Path,
        clock: &SystemClock,
        options: Options,
        pairs: u64,
    ) -> Result<Filled> {
        let directory = directory.to_owned();
        let (database, keyspace) = open(&directory, options)?;
        let start_ns = clock.monotonic_ns();
        let rate = |now_ns: u64| pairs as f64 * 1e9 / (now_ns - start_ns) as f64;
        (0..pairs).try_for_each(|number| keyspace.put(key(number), number.to_be_bytes()))?;
        let puts_per_second = rate(clock.monotonic_ns());
        database.flush()?;
        database.drain()?;
        let drained_puts_per_second = rate(clock.monotonic_ns());
        Ok(Filled { directory, database, keyspace, pairs, puts_per_second, drained_puts_per_second })
    }

    /// Gets a second, of present pairs.
    pub(super) fn gets(&self, clock: &SystemClock, count: u64) -> Result<f64> {
        on_threads(clock, count, 1, |range| {
            range.into_iter().try_for_each(|number| get(&self.keyspace, scatter(!number) % self.pairs))
        })
    }

    /// Ranges a second, and pairs that one has on average.
    pub(super) fn ranges(&self, clock: &SystemClock, count: u64, length: usize) -> Result<(f64, f64)> {
        let start_ns = clock.monotonic_ns();
        let mut found = 0;
        for number in 0..count {
            let start = key(scatter(number ^ (1 << 41)) % self.pairs);
            for entry in self.keyspace.range(start..).take(length) {
                entry?;
                found += 1;
            }
        }
        let seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
        Ok((count as f64 / seconds, f64::from(found) / count as f64))
    }

    pub(super) fn facts(&self) -> Facts {
        let metrics = self.database.metrics();
        let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.name == esker::DEFAULT_KEYSPACE);
        let reads = keyspace.map(|keyspace| &keyspace.amplification.reads);
        Facts {
            tables_per_get: reads
                .and_then(|reads| ratio(Some(reads.tables_searched as f64), Some(reads.lookups as f64))),
            stored_bytes_per_pair: keyspace.map_or(0.0, |keyspace| keyspace.table_bytes as f64)
                / self.pairs as f64,
            write_amplification: keyspace.and_then(|keyspace| keyspace.amplification.write()),
        }
    }

    pub(super) fn remove(self) -> Result<()> {
        let Filled { directory, database, keyspace, .. } = self;
        drop(keyspace);
        database.close()?;
        drop(database);
        Ok(StdFileSystem.remove_dir_all(&directory)?)
    }
}
