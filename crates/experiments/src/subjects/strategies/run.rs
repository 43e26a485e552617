//! Measures one strategy: load, overwrite, drain, idle time, full compaction.

use super::clock::ForwardClock;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::scatter;
use crate::machine;
use esker::metrics::{CauseInfo, KeyspaceMetrics};
use esker::options::{Codec, PerLevel, Strategy};
use esker::parts::env::{Clock, CountingFs, Env, FileSystem, StdFileSystem, SystemClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// Number of entries to which the claims apply.
const FULL_ENTRIES: u64 = 10_000_000;
const FULL_MEMTABLE_BYTES: u64 = 64 << 20;
const FULL_TABLE_BYTES: u64 = 16 << 20;
/// Idle time: the database is idle when nothing was written for ten seconds.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// The idle time ends when so many checks in a row found nothing written since the one before.
const CALM_CHECKS: u32 = 3;
/// One key in so many is read back.
const CHECK_EVERY: u64 = 101;
/// Samples of space and runs while everything is overwritten.
const SAMPLES: u64 = 200;
/// The value of a record that was never overwritten.
const LOADED: u32 = u32::MAX;

pub(super) struct TreeForm {
    entries: u64,
    memtable_bytes: u64,
    table_bytes: Option<u64>,
    gets: u64,
    calm: Duration,
    /// Gets are also made after the last put, while merges are still under way.
    gets_undrained: bool,
}

impl TreeForm {
    pub(super) fn of(context: &Context<'_>) -> TreeForm {
        TreeForm::sized(context, context.pick(6_000, 60_000, FULL_ENTRIES), false)
    }

    /// For so many entries.
    pub(super) fn sized(context: &Context<'_>, entries: u64, gets_undrained: bool) -> TreeForm {
        let scaled = |bytes: u64, least: u64| (bytes * entries / FULL_ENTRIES).max(least);
        TreeForm {
            entries,
            memtable_bytes: scaled(FULL_MEMTABLE_BYTES, 64 << 10),
            table_bytes: (entries < FULL_ENTRIES).then(|| scaled(FULL_TABLE_BYTES, 64 << 10)),
            gets: context.pick(1_000, 30_000, 500_000),
            calm: Duration::from_millis(context.pick(20, 200, 1000)),
            gets_undrained,
        }
    }

    pub(super) fn setup(&self) -> Vec<String> {
        let tables = match self.table_bytes {
            None => "tables as large as the database chooses".to_owned(),
            Some(bytes) => format!(
                "tables of {} KiB; the default's limits for small stores are not scaled, so its numbers are not those of the full form",
                bytes >> 10
            ),
        };
        vec![
            format!(
                "{} entries of {KEY_BYTES} + {VALUE_BYTES} bytes, memtables of {:.1} MiB by payload, no compression, {tables}",
                self.entries,
                self.memtable_bytes as f64 / f64::from(1 << 20)
            ),
            "one thread puts, unthrottled; compaction has as many threads as the database chooses".to_owned(),
            "drained: nothing is left to do while writes may come; after a rest: nothing is left to do when idle; for all strategies alike, and numbers \
             for amplification are held against both"
                .to_owned(),
            "room: of the tables that the present version names; with transient, of all files in the directory, at every moment"
                .to_owned(),
            format!(
                "gets of the drained tree: {} uniformly random present keys, as many absent ones, one thread, a cache of the default \
                 share of 1 GiB; tables searched are counted in one of 64 gets",
                self.gets
            ),
            format!("one key in {CHECK_EVERY} was compared with what was put last, three times"),
        ]
    }

    fn options(&self, strategy: Strategy) -> KeyspaceOptions {
        let options = KeyspaceOptions::default()
            .strategy(strategy)
            .compression(PerLevel::all(Codec::None))
            .write_buffer_size(self.memtable_bytes);
        self.table_bytes.into_iter().fold(options, KeyspaceOptions::table_size)
    }
}

/// The tree at one moment of the overwriting.
pub(super) struct TreeSample {
    pub(super) percent: f64,
    pub(super) table_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) runs: u64,
}

/// State of the tree when there was nothing more to do.
#[derive(Default)]
pub(super) struct TreeState {
    /// Since the first put.
    pub(super) seconds: f64,
    pub(super) written_bytes: u64,
    pub(super) table_bytes: u64,
    pub(super) runs: u64,
}

#[derive(Default)]
pub(super) struct GetCounts {
    pub(super) per_second: f64,
    /// Tables that one searched.
    pub(super) tables: Option<f64>,
}

#[derive(Default)]
pub(super) struct Measured {
    pub(super) strategy: String,
    pub(super) puts: f64,
    pub(super) user_bytes: f64,
    pub(super) put_seconds: f64,
    pub(super) running_written_bytes: u64,
    pub(super) flushed_bytes: u64,
    pub(super) drained: TreeState,
    pub(super) rested: TreeState,
    pub(super) live_bytes: u64,
    pub(super) most_held_bytes: u64,
    pub(super) stall_ms: u64,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) moments: Vec<TreeSample>,
    pub(super) causes: Vec<CauseInfo>,
    pub(super) undrained: GetCounts,
    pub(super) present: GetCounts,
    pub(super) absent: GetCounts,
    pub(super) expected_absent: f64,
}

impl Measured {
    /// `bytes` per byte put.
    pub(super) fn written(&self, bytes: u64) -> f64 {
        bytes as f64 / self.user_bytes
    }

    /// `bytes` per byte after a full compaction.
    pub(super) fn space(&self, bytes: f64) -> f64 {
        bytes / self.live_bytes.max(1) as f64
    }
}

struct MeasuredDatabase<'a> {
    form: &'a TreeForm,
    seed: u64,
    directory: PathBuf,
    fs: CountingFs,
    clock: Arc<ForwardClock>,
    database: Database,
    keyspace: Keyspace,
    /// The number of the last put of each key.
    last_puts: Vec<u32>,
    /// Bytes that had been written before the first of these puts.
    written_before: u64,
}

pub(super) fn measure(context: &mut Context<'_>, form: &TreeForm, strategy: Strategy) -> Result<Measured> {
    use esker::parts::env::Random;
    let directory = context.directory("strategy")?;
    let seed = context.random(1).next_u64();
    let mut database = MeasuredDatabase::open(directory, form, strategy, seed)?;
    let clock = context.clock();
    let mut found = Measured {
        strategy: strategy.to_string(),
        puts: form.entries as f64,
        user_bytes: (form.entries * (KEY_BYTES + VALUE_BYTES) as u64) as f64,
        ..Measured::default()
    };
    database.load()?;
    database.overwrite(&clock, &mut found)?;
    database.check()?;
    (found.present, found.absent) = (database.gets(&clock, false)?, database.gets(&clock, true)?);
    database.rest(&mut found)?;
    database.check()?;
    database.database.compact_all()?;
    found.live_bytes = database.metrics().table_bytes;
    database.check()?;
    database.close()?;
    Ok(found)
}

/// The key of a record: eight scattered bytes and the record's number, so that no two are alike.
fn key_of(record: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&scatter(record).to_be_bytes());
    key[8..].copy_from_slice(&record.to_be_bytes());
    key
}

fn value_of(put: u32) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    value[..4].copy_from_slice(&put.to_le_bytes());
    value
}

/// Tables and blob files, not the log and not the manifest.
fn is_of_tree(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst" || extension == "blob")
}

impl<'a> MeasuredDatabase<'a> {
    fn open(
        directory: PathBuf,
        form: &'a TreeForm,
        strategy: Strategy,
        seed: u64,
    ) -> Result<MeasuredDatabase<'a>> {
        let real = Env::real();
        let fs = CountingFs::new(Arc::clone(&real.fs), is_of_tree);
        let clock = Arc::new(ForwardClock::default());
        let env = Env { fs: Arc::new(fs.clone()), clock: Arc::<ForwardClock>::clone(&clock), ..real };
        let database = Database::open_with(
            &directory,
            Options::default().memory_budget(1 << 30).keyspace_options(form.options(strategy)).env(env),
        )?;
        let keyspace = database.keyspace(esker::DEFAULT_KEYSPACE)?;
        let last_puts = vec![LOADED; form.entries as usize];
        Ok(MeasuredDatabase {
            form,
            seed,
            directory,
            fs,
            clock,
            database,
            keyspace,
            last_puts,
            written_before: 0,
        })
    }

    fn close(self) -> Result<()> {
        let MeasuredDatabase { directory, database, keyspace, .. } = self;
        drop(keyspace);
        database.close()?;
        drop(database);
        Ok(StdFileSystem.remove_dir_all(&directory)?)
    }

    fn metrics(&self) -> KeyspaceMetrics {
        let name = self.keyspace.name();
        let all = self.database.metrics().keyspaces;
        all.into_iter().find(|keyspace| keyspace.name == *name).unwrap_or_default()
    }

    /// Loads everything as one bulk load in key order, so that the tables go to the last level.
    fn load(&self) -> Result<()> {
        let mut records: Vec<u64> = (0..self.form.entries).collect();
        records.sort_unstable_by_key(|&record| scatter(record));
        let mut loader = self.keyspace.bulk_load()?;
        records.iter().try_for_each(|&record| loader.add(key_of(record), value_of(LOADED)))?;
        loader.finish()?;
        self.keyspace.flush()?;
        Ok(self.database.drain()?)
    }

    fn overwrite(&mut self, clock: &SystemClock, found: &mut Measured) -> Result<()> {
        let entries = self.form.entries;
        let interval = (entries / SAMPLES).max(1);
        self.fs.forget_most_held();
        self.written_before = self.fs.written_bytes();
        let stalled_before = self.database.metrics().stall_time;
        let (cpu, start_ns) = (machine::processor_seconds(), clock.monotonic_ns());
        for put in 0..entries {
            let record = scatter(put ^ self.seed) % entries;
            let number = put as u32;
            self.keyspace.put(key_of(record), value_of(number))?;
            self.last_puts[record as usize] = number;
            if put % interval == 0 {
                let percent = put as f64 * 100.0 / entries as f64;
                found.moments.push(self.moment(percent));
            }
        }
        let seconds = || (clock.monotonic_ns() - start_ns) as f64 / 1e9;
        found.put_seconds = seconds();
        found.running_written_bytes = self.fs.written_bytes() - self.written_before;
        if self.form.gets_undrained {
            found.undrained = self.gets(clock, false)?;
        }
        self.keyspace.flush()?;
        self.database.drain()?;
        found.drained = TreeState { seconds: seconds(), ..self.rested() };
        found.most_held_bytes = self.fs.most_held_bytes();
        found.stall_ms = (self.database.metrics().stall_time - stalled_before).as_millis() as u64;
        found.cpu_seconds = cpu.zip(machine::processor_seconds()).map(|(before, after)| after - before);
        found.expected_absent = self.metrics().amplification.reads.expected_absent;
        Ok(())
    }

    fn moment(&self, percent: f64) -> TreeSample {
        let metrics = self.metrics();
        let held_bytes = self.fs.held_bytes();
        TreeSample { percent, table_bytes: metrics.table_bytes, held_bytes, runs: metrics.runs as u64 }
    }

    fn rested(&self) -> TreeState {
        let metrics = self.metrics();
        TreeState {
            seconds: 0.0,
            written_bytes: self.fs.written_bytes() - self.written_before,
            table_bytes: metrics.table_bytes,
            runs: metrics.runs as u64,
        }
    }

    /// Advances the clock until the database has nothing more to do.
    fn rest(&self, found: &mut Measured) -> Result<()> {
        let mut calm_checks = 0;
        while calm_checks < CALM_CHECKS {
            let before = self.fs.written_bytes();
            self.clock.forward(IDLE_TIME);
            // With nothing to flush, this only wakes background work.
            self.keyspace.flush()?;
            self.wait_until_calm()?;
            calm_checks = if self.fs.written_bytes() == before { calm_checks + 1 } else { 0 };
        }
        found.rested = self.rested();
        let metrics = self.metrics();
        found.flushed_bytes = metrics.flushed_bytes;
        found.causes = metrics.amplification.causes;
        found.causes.retain(|info| info.cause != esker::metrics::Cause::Ingest);
        Ok(())
    }

    /// Waits until nothing is written; idle work has no other sign of its end.
    fn wait_until_calm(&self) -> Result<()> {
        loop {
            let before = self.fs.written_bytes();
            pause(self.form.calm);
            self.database.drain()?;
            if self.fs.written_bytes() == before {
                return Ok(());
            }
        }
    }

    fn gets(&self, clock: &SystemClock, are_absent: bool) -> Result<GetCounts> {
        let entries = self.form.entries;
        let before = self.metrics().amplification.reads;
        let (took_ns, present) = time_ns(clock, || {
            (0..self.form.gets).try_fold(0u64, |present, get| {
                let mut key = key_of(scatter(get ^ !self.seed) % entries);
                if are_absent {
                    // The number in the last bytes is no record's.
                    key[8] = 1;
                }
                self.keyspace.contains(key).map(|is_there| present + u64::from(is_there))
            })
        });
        let (present, expected) = (present?, if are_absent { 0 } else { self.form.gets });
        if present != expected {
            return Err(ExperimentError::WrongAnswer(format!("{present} keys were found, not {expected}")));
        }
        let after = self.metrics().amplification.reads;
        let lookups = after.lookups - before.lookups;
        let searched = (after.tables_searched - before.tables_searched) as f64;
        Ok(GetCounts {
            per_second: self.form.gets as f64 * 1e9 / took_ns,
            tables: (lookups > 0).then(|| searched / lookups as f64),
        })
    }

    fn check(&self) -> Result<()> {
        for record in (0..self.form.entries).step_by(CHECK_EVERY as usize) {
            let expected = value_of(self.last_puts[record as usize]);
            let is_right = self.keyspace.get_with(key_of(record), |value| value == Some(&expected[..]))?;
            if !is_right {
                let what = format!("record {record} does not have the value that was put last");
                return Err(ExperimentError::WrongAnswer(what));
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "calm is that nothing happens for a while")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
