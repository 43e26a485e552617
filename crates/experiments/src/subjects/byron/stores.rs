//! The databases under test, their entries, and how one piece of work is timed.

use crate::context::{Context, time_ns};
use crate::counters::Counters;
use crate::error::{ExperimentError, Result};
use crate::machine;
use crate::statistics::Sample;
use crate::table::{Cell, Column};
use esker::options::MemtableKind;
use esker::parts::env::{FileSystem, StdFileSystem, SystemClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

pub(super) const DEFAULT: &str = "default";
pub(super) const PRESET: &str = "preset byron";

const MEMORY_BUDGET_BYTES: u64 = 1 << 30;

/// A count of the document; smaller scales divide it.
pub(super) fn scaled(context: &Context<'_>, count: u32) -> u32 {
    count / context.pick(1000, 40, 1)
}

/// Entries of the largest database for reads.
pub(super) const ENTRIES: u32 = 1_000_000;

/// The key of an entry: its number, scattered over all numbers of 32 bits by the finalizer of MurmurHash3
/// (Appleby), which is a bijection. Numbers from the count of entries on are absent keys.
#[inline]
pub(super) fn key_of(number: u32) -> [u8; 4] {
    let mut word = number ^ (number >> 16);
    word = word.wrapping_mul(0x85EB_CA6B);
    word = (word ^ (word >> 13)).wrapping_mul(0xC2B2_AE35);
    (word ^ (word >> 16)).to_be_bytes()
}

#[inline]
pub(super) fn value_of(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) name: String,
    /// The kind of memtable, for the table of those.
    pub(super) memtable: MemtableKind,
    pub(super) options: Options,
}

impl Store {
    /// A store with these options of its keyspace.
    pub(super) fn of(name: impl Into<String>, keyspace: KeyspaceOptions, memtable: MemtableKind) -> Store {
        let options = Options::default().memory_budget(MEMORY_BUDGET_BYTES).keyspace_options(keyspace);
        Store { name: name.into(), memtable, options }
    }

    /// The two stores of every table: the default, and the closest to the document's.
    pub(super) fn both() -> Result<Vec<Store>> {
        let preset = KeyspaceOptions::preset("byron")?;
        let skiplist = MemtableKind::ALL.into_iter().find(|kind| kind.name() == "skiplist");
        Ok(vec![
            Store::of(DEFAULT, KeyspaceOptions::default(), MemtableKind::default()),
            Store::of(PRESET, preset, skiplist.unwrap_or_default()),
        ])
    }

    /// The default with another memtable.
    pub(super) fn with_memtable(kind: MemtableKind) -> Store {
        Store::of(format!("{DEFAULT}, {}", kind.name()), KeyspaceOptions::default().memtable(kind), kind)
    }

    pub(super) fn open(&self, context: &Context<'_>, name: &str) -> Result<Opened> {
        self.open_in(&context.directory(name)?)
    }

    /// A new database in this directory, which does not exist.
    pub(super) fn open_in(&self, directory: &Path) -> Result<Opened> {
        let directory = directory.to_owned();
        let database = Database::open_with(&directory, self.options.clone())?;
        let keyspace = database.keyspace(esker::DEFAULT_KEYSPACE)?;
        Ok(Opened { directory, database, keyspace })
    }
}

pub(super) struct Opened {
    directory: PathBuf,
    pub(super) database: Database,
    pub(super) keyspace: Keyspace,
}

impl Opened {
    pub(super) fn put(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        Ok(numbers.into_iter().try_for_each(|number| self.keyspace.put(key_of(number), value_of(number)))?)
    }

    /// Puts so many entries, flushes, and drains the tree. Returns the seconds it took.
    pub(super) fn load(&self, clock: &SystemClock, entries: u32) -> Result<f64> {
        let (taken_ns, loaded) = time_ns(clock, || -> Result<()> {
            self.put(0..entries)?;
            self.keyspace.flush()?;
            Ok(self.database.drain()?)
        });
        loaded?;
        Ok(taken_ns / 1e9)
    }

    /// Gets these keys one by one; those of numbers below `entries` must be there, the others must not.
    #[inline]
    pub(super) fn get(&self, asked: &[u32], entries: u32) -> Result<()> {
        asked.iter().try_for_each(|&number| {
            let found = self.keyspace.get(key_of(number))?;
            let expected = value_of(number);
            must_be(found.as_deref() == (number < entries).then_some(&expected[..]), "a get", number)
        })
    }

    pub(super) fn close(self) -> Result<()> {
        let Opened { directory, database, keyspace } = self;
        drop(keyspace);
        database.close()?;
        drop(database);
        Ok(StdFileSystem.remove_dir_all(&directory)?)
    }
}

#[inline]
pub(super) fn must_be(is_right: bool, what: &str, number: u32) -> Result<()> {
    if is_right {
        return Ok(());
    }
    Err(ExperimentError::WrongAnswer(format!("{what} of entry {number} did not give what was put")))
}

/// Timing of a round's work; [`cells`] turns its results into cells.
pub(super) struct Timing<'a> {
    pub(super) clock: &'a SystemClock,
    pub(super) counters: &'a Counters,
}

impl Timing<'_> {
    /// Runs `work`, and drains the database after it if `is_drained`. Processor time and counts cover both.
    pub(super) fn measure(
        &self,
        opened: &Opened,
        load_seconds: f64,
        is_drained: bool,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Vec<f64>> {
        let cpu = machine::processor_seconds();
        let (timed, counts) = self.counters.during(|| -> Result<(f64, f64)> {
            let (work_ns, done) = time_ns(self.clock, work);
            done?;
            if !is_drained {
                return Ok((work_ns, f64::NAN));
            }
            let (drain_ns, drained) = time_ns(self.clock, || opened.database.drain());
            drained?;
            Ok((work_ns, work_ns + drain_ns))
        });
        let (work_ns, drained_ns) = timed?;
        let cpu = cpu.zip(machine::processor_seconds()).map_or(f64::NAN, |(before, after)| after - before);
        Ok(vec![
            load_seconds,
            work_ns / 1e9,
            drained_ns / 1e9,
            cpu,
            counts.cycles / 1e9,
            counts.instructions / 1e9,
            counts.miss_percent(),
        ])
    }
}

/// Columns of any measured work.
const COLUMNS: [Column; 9] = [
    Column::number("load_seconds", 2),
    Column::number("mean_seconds", 3),
    Column::number("deviation_seconds", 3),
    Column::number("drained_seconds", 3),
    Column::number("per_second", 0),
    Column::number("cpu_seconds", 2),
    Column::number("cycles_e9", 2),
    Column::number("instructions_e9", 2),
    Column::number("cache_miss_percent", 2),
];

/// The document's seconds for the row, where it has one of this size.
pub(super) const DOCUMENT_COLUMN: Column = Column::number("document_seconds", 2);

/// Hidden for work without a drain, and for work without a load of its own.
pub(super) const DRAINED: &str = "drained_seconds";
pub(super) const LOAD: &str = "load_seconds";

/// The columns of measured work, but for the hidden one.
pub(super) fn columns(hidden: &str) -> impl Iterator<Item = Column> {
    COLUMNS.into_iter().filter(move |column| column.name != hidden)
}

/// The cells of [`columns`] of the rounds' numbers; the rate is that until drained where there is one.
pub(super) fn cells(samples: &[Sample], operations: f64, hidden: &str) -> Vec<Cell> {
    let mean = |at: usize| samples.get(at).map(|sample| sample.mean);
    let seconds = mean(2).filter(|drained| drained.is_finite()).or(mean(1));
    let deviation = samples.get(1).map(|sample| sample.deviation);
    let rate = seconds.map(|seconds| operations / seconds);
    let all = [mean(0), mean(1), deviation, mean(2), rate, mean(3), mean(4), mean(5), mean(6)];
    let shown = COLUMNS.iter().zip(all).filter(|(column, _)| column.name != hidden);
    shown.map(|(_, number)| number.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_scattered() {
        let keys: BTreeSet<[u8; 4]> = (0..10_000).map(key_of).collect();
        assert_eq!(keys.len(), 10_000);
        let small = keys.iter().filter(|key| key[0] < 128).count();
        assert!((4_500..5_500).contains(&small), "{small}");
    }

    #[test]
    fn rates_are_until_drained() {
        let samples: Vec<Sample> =
            [1.0, 2.0, 4.0, 3.0, f64::NAN, f64::NAN, f64::NAN].map(Sample::exact).to_vec();
        let all = cells(&samples, 100.0, "");
        assert_eq!(all.len(), columns("").count());
        assert_eq!((&all[4], &all[7]), (&Cell::from(25.0), &Cell::Missing));
        let without_load = cells(&samples, 100.0, LOAD);
        assert_eq!(without_load.len(), columns(LOAD).count());
        assert_eq!(without_load[..], all[1..]);
    }
}
