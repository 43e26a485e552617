//! `simulate --against-engine`: runs the simulated scenario on the engine, one step after the other.
//!
//! The engine runs without threads. Its clock stands still, or advances by a millisecond with each write
//! where entries expire, so that it never becomes idle. After each flush background work runs to its end, as
//! in the settled simulation. The remaining differences are what a simulation cannot know: randomly drawn
//! keys, tables that end at blocks, and the bytes of blocks, indexes and filters.

use crate::args::Global;
use crate::failure::Failure;
use esker::metrics::KeyspaceMetrics;
use esker::options::{Codec, PerLevel};
use esker::parts::StepBackground;
use esker::parts::env::{Env, FileSystem, ManualClock, Random, SeededRandom, StdFileSystem};
use esker::parts::model::{Input, Outcome, Scenario};
use esker::{Database, KeyspaceOptions, Options};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Samples of the tree's size while a memtable fills.
const SAMPLES_PER_MEMTABLE: f64 = 128.0;
/// A prime above all counts of keys: its multiples modulo the count permute and scatter them.
const SCATTER: u128 = 18_446_744_073_709_551_557;
/// Start of the engine's clock, in milliseconds since 1970.
const START_MS: u64 = 1_600_000_000_000;
/// Step of the clock with each write where entries expire: the shortest TTL.
const WRITE_INTERVAL: Duration = Duration::from_millis(1);
const NUMBER_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Bytes of tables over bytes of keys and values, after the load.
    pub(super) table_overhead: f64,
    /// Bytes written to tables over bytes of keys and values.
    pub(super) write_amplification: f64,
    /// Bytes of tables over live bytes, mean and maximum after each flush and the work after it.
    pub(super) space_mean: f64,
    pub(super) space_max: f64,
    /// Merges.
    pub(super) jobs: u64,
}

impl Measured {
    pub(super) fn as_json(&self) -> Value {
        json!({
            "table_overhead": self.table_overhead,
            "write_amplification": self.write_amplification,
            "space_amplification_mean": self.space_mean,
            "space_amplification_at_rest": self.space_max,
            "merges": self.jobs,
        })
    }
}

pub(super) fn head(out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        out,
        "{:<24} {:^21}  {:^21}  {:^21}  {:^12}",
        "", "writes", "space, mean", "space, most at rest", "merges"
    )?;
    writeln!(
        out,
        "{:<24} {:>6} {:>6} {:>7}  {:>6} {:>6} {:>7}  {:>6} {:>6} {:>7}  {:>5} {:>6}",
        "strategy",
        "model",
        "engine",
        "off",
        "model",
        "engine",
        "off",
        "model",
        "engine",
        "off",
        "model",
        "engine"
    )?;
    Ok(())
}

/// A simulated and a measured figure.
struct Compared {
    name: &'static str,
    model: f64,
    engine: f64,
}

impl Compared {
    fn all(outcome: &Outcome, measured: &Measured) -> [Compared; 3] {
        let compared = |name, model, engine| Compared { name, model, engine };
        [
            compared("writes", outcome.write_amplification, measured.write_amplification),
            compared("mean space", outcome.space.mean, measured.space_mean),
            compared("most space at rest", outcome.space_at_rest, measured.space_max),
        ]
    }

    fn off_percent(&self) -> f64 {
        100.0 * (self.model / self.engine - 1.0)
    }
}

/// The figures that deviate by more than the limit, a sentence each.
pub(super) fn beyond(outcome: &Outcome, measured: &Measured, percent: f64) -> Vec<String> {
    let strategy = outcome.strategy;
    let all = Compared::all(outcome, measured).into_iter();
    // NaN counts as a deviation.
    let is_off = |compared: &Compared| !(0.0..=percent).contains(&compared.off_percent().abs());
    let sentence = |compared: Compared| {
        let (off, Compared { name, model, engine }) = (compared.off_percent(), compared);
        format!("{name} of {strategy}: {model:.3} simulated, {engine:.3} measured, {off:+.1} %")
    };
    all.filter(is_off).map(sentence).collect()
}

pub(super) fn row(out: &mut dyn Write, outcome: &Outcome, measured: &Measured) -> Result<(), Failure> {
    write!(out, "{:<24}", outcome.strategy.to_string())?;
    for compared in Compared::all(outcome, measured) {
        let off = format!("{:+.1}%", compared.off_percent());
        write!(out, " {:>6.2} {:>6.2} {off:>7} ", compared.model, compared.engine)?;
    }
    writeln!(out, " {:>5} {:>6}", outcome.jobs, measured.jobs)?;
    Ok(())
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure cannot be reported here, and the directory lies among temporary files.
        let _gone = StdFileSystem.remove_dir_all(&self.0);
    }
}

pub(super) fn measure(global: &Global, scenario: &Scenario) -> Result<Measured, Failure> {
    let workload = &scenario.workload;
    if (workload.key_bytes as usize) < NUMBER_BYTES {
        return Err(Failure::usage(format!("keys of the engine have at least {NUMBER_BYTES} bytes here")));
    }
    if workload.ttl_passes.is_some() && workload.input.starts_empty() {
        return Err(Failure::usage(
            "entries that expire are compared with the engine where they are overwritten",
        ));
    }
    let parent = global.data.clone().unwrap_or_else(std::env::temp_dir);
    let directory = Scratch(parent.join(format!("esker-simulate-{}", std::process::id())));
    let clock = Arc::new(ManualClock::new(START_MS));
    let database = open(scenario, &directory.0, Arc::<ManualClock>::clone(&clock))?;
    let mut writer = ModelWriter {
        database: &database,
        clock: &clock,
        scenario,
        random: SeededRandom::new(1),
        key: vec![0; workload.key_bytes as usize],
        value: vec![0; workload.value_bytes as usize],
        done: 0,
    };
    let measured = writer.run();
    database.close()?;
    measured
}

fn open(scenario: &Scenario, directory: &Path, clock: Arc<ManualClock>) -> Result<Database, Failure> {
    let memtable_bytes = scenario.options.memtable_bytes;
    let mut keyspace = KeyspaceOptions::default()
        .strategy(scenario.strategy)
        .write_buffer_size(memtable_bytes)
        .compression(PerLevel::all(Codec::None));
    if let Some(bytes) = scenario.options.table_bytes {
        keyspace = keyspace.table_size(bytes);
    }
    if let Some(bytes) = scenario.options.max_job_bytes {
        keyspace = keyspace.compaction_job_size(bytes);
    }
    if let Some(passes) = scenario.workload.ttl_passes {
        keyspace = keyspace
            .default_ttl(WRITE_INTERVAL.mul_f64((passes * scenario.workload.keys as f64).round().max(1.0)));
    }
    let options = Options::default()
        .env(Env { clock, ..Env::simulated(Arc::new(StdFileSystem), 1) })
        .memory_budget(memtable_bytes.saturating_mul(8).saturating_add(256 << 20))
        .keyspace_options(keyspace);
    Ok(Database::open_with(directory, options)?)
}

struct ModelWriter<'a> {
    database: &'a Database,
    clock: &'a ManualClock,
    scenario: &'a Scenario,
    random: SeededRandom,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Operations since the load.
    done: u64,
}

/// Sums over the states after each flush.
#[derive(Default)]
struct SizeSamples {
    flushes: u64,
    /// Operations at the last sample.
    at: u64,
    bytes_by_operations: f64,
    operations: u64,
    max_bytes: u64,
}

impl ModelWriter<'_> {
    fn run(&mut self) -> Result<Measured, Failure> {
        let workload = self.scenario.workload;
        let keys = workload.keys;
        let passes = |passes: f64| (passes * keys as f64) as u64;
        let mut table_overhead = 1.0;
        let mut live_bytes = 0;
        if !workload.input.starts_empty() {
            self.database.flush()?;
            for number in 0..keys {
                self.put(number)?;
            }
            self.drain()?;
            live_bytes = self.tables().table_bytes;
            table_overhead = live_bytes as f64 / (keys as f64 * workload.entry_bytes());
            self.write(passes(self.scenario.warm_up_passes), &mut SizeSamples::default())?;
        }
        let before = self.tables();
        let mut samples = SizeSamples { flushes: before.flushes, at: self.done, ..SizeSamples::default() };
        self.write(passes(self.scenario.passes), &mut samples)?;
        let after = self.tables();
        if live_bytes == 0 {
            live_bytes = after.table_bytes;
            table_overhead = live_bytes as f64 / (keys as f64 * workload.entry_bytes());
        }
        let written = |metrics: &KeyspaceMetrics| metrics.flushed_bytes + metrics.compacted_out_bytes;
        let live = live_bytes as f64 * (workload.live_bytes() / (keys as f64 * workload.entry_bytes()));
        Ok(Measured {
            table_overhead,
            write_amplification: (written(&after) - written(&before)) as f64
                / (after.user_bytes - before.user_bytes).max(1) as f64,
            space_mean: samples.bytes_by_operations / samples.operations.max(1) as f64 / live,
            space_max: samples.max_bytes as f64 / live,
            jobs: after.compactions - before.compactions,
        })
    }

    fn tables(&self) -> KeyspaceMetrics {
        self.database.metrics().keyspaces.swap_remove(0)
    }

    /// Flushes everything and works until the tree is drained.
    fn drain(&mut self) -> Result<(), Failure> {
        self.database.flush()?;
        while self.database.step_background() {}
        Ok(())
    }

    fn write(&mut self, operations: u64, samples: &mut SizeSamples) -> Result<(), Failure> {
        let memtable = self.scenario.options.memtable_bytes as f64 / self.scenario.workload.operation_bytes();
        let sample_interval = (memtable / SAMPLES_PER_MEMTABLE).max(1.0) as u64;
        for operation in 0..operations {
            let number = self.draw();
            let deletes = self.scenario.workload.deleted_share;
            if deletes > 0.0 && self.fraction() < deletes {
                self.set_key(number);
                self.database.default_keyspace().delete(&self.key)?;
            } else {
                self.put(number)?;
            }
            self.done += 1;
            if self.scenario.workload.ttl_passes.is_some() {
                self.clock.advance(WRITE_INTERVAL);
            }
            if operation % sample_interval == 0 {
                self.sample(samples);
            }
        }
        self.drain()?;
        self.sample(samples);
        Ok(())
    }

    /// Samples the tree's size if there was a flush, after the work that follows it.
    fn sample(&mut self, samples: &mut SizeSamples) {
        let flushes = self.tables().flushes;
        if flushes == samples.flushes {
            return;
        }
        while self.database.step_background() {}
        let tables = self.tables();
        let operations = self.done - samples.at;
        samples.bytes_by_operations += tables.table_bytes as f64 * operations as f64;
        samples.operations += operations;
        samples.max_bytes = samples.max_bytes.max(tables.table_bytes);
        (samples.flushes, samples.at) = (flushes, self.done);
    }

    fn set_key(&mut self, number: u64) {
        let from = self.key.len() - NUMBER_BYTES;
        self.key[from..].copy_from_slice(&number.to_be_bytes());
    }

    fn put(&mut self, number: u64) -> Result<(), Failure> {
        self.set_key(number);
        let fresh = self.random.next_u64().to_le_bytes();
        let len = self.value.len().min(fresh.len());
        self.value[..len].copy_from_slice(&fresh[..len]);
        self.database.default_keyspace().put(&self.key, &self.value)?;
        Ok(())
    }

    /// Evenly from 0 to 1.
    fn fraction(&self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn draw(&self) -> u64 {
        let keys = self.scenario.workload.keys;
        let scattered = |rank: u64| (u128::from(rank) * SCATTER % u128::from(keys)) as u64;
        match self.scenario.workload.input {
            Input::Uniform => self.random.below(keys),
            Input::EightyTwenty => scattered(self.of_a_fifth(keys)),
            Input::HotRange => self.of_a_fifth(keys),
            Input::Zipf { theta } => scattered(self.by_popularity(keys, theta)),
            Input::Load => scattered(self.done % keys),
            Input::Sequential => self.done % keys,
        }
    }

    /// With probability 4/5 one of the first fifth of the keys.
    fn of_a_fifth(&self, keys: u64) -> u64 {
        let fifth = (keys / 5).max(1);
        if self.random.below(5) < 4 {
            self.random.below(fifth)
        } else {
            fifth.min(keys - 1) + self.random.below((keys - fifth).max(1))
        }
    }

    /// A rank by Zipf's law: the inverse of the integral of the weights, at a uniform draw.
    fn by_popularity(&self, keys: u64, theta: f64) -> u64 {
        let (from, to) = (0.5f64, keys as f64 + 0.5);
        let draw = self.fraction();
        let rank = if (theta - 1.0).abs() < 1e-9 {
            from * (to / from).powf(draw)
        } else {
            let power = 1.0 - theta;
            (from.powf(power) + draw * (to.powf(power) - from.powf(power))).powf(1.0 / power)
        };
        (rank - 0.5).clamp(0.0, (keys - 1) as f64) as u64
    }
}
