//! The workloads, in a fixed order, on one engine in one process.
//!
//! First come the fills, each into an empty directory. The last fill, by one thread in random order, leaves
//! the data of all later workloads: reads before any update, because updates of hot keys slow scans down;
//! then YCSB, of which E runs before and after A; then overwriting, reopening, and at the very end deletes,
//! after which the whole content is counted. Records that are a log are filled in ascending order, and what
//! comes after the scans is appending and deleting at its ends. Every answer is checked while it is measured.

mod beside;
mod drive;
mod fill;
mod logs;
mod points;
mod reopen;
mod scans;
mod updates;
mod ycsb;

pub(crate) use reopen::KILLED_COMMAND;

use crate::adapters::{self, Adapter};
use crate::data::{Data, Random, Zipf, mix};
use crate::engine::{Durability, Engine, Result};
use crate::process;
use crate::record::{RUN_ENDED, Record};
use crate::settings::RunSettings;
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Most seconds of reading to warm a GiB of cache.
const MAX_WARM_SECONDS_PER_GIB: f64 = 16.0;
/// Least cache size for these seconds, so that small caches are warm on slow stores as well.
const LEAST_WARM_MIB: u64 = 256;
/// Most of these seconds where memory is limited: a read that misses waits for the device, for 100 us or
/// more.
const MAX_LIMITED_WARM_SECONDS: f64 = 60.0;
/// Gets for each block that the cache can hold: where the records are twice as large as the cache, they touch
/// 1.26 times as many blocks as it holds, and more where the records are larger.
const WARM_GETS_PER_BLOCK: u64 = 2;

/// Distribution of the records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Uniform,
    Zipf,
}

/// The run of one engine.
pub(crate) struct Bench {
    settings: RunSettings,
    adapter: &'static Adapter,
    data: Data,
    /// Mean lengths of keys and values.
    mean_bytes: (usize, usize),
    zipf: OnceCell<Zipf>,
    /// The directory of the store.
    home: PathBuf,
    version: String,
    /// When this run began, in ms since 1970.
    run: u64,
    errors: u64,
    /// Bytes of the record numbers chosen for the next workload: not the store's memory.
    chosen_bytes: Cell<usize>,
}

impl Bench {
    /// A run with these settings.
    ///
    /// # Errors
    /// If they cannot be met.
    pub(crate) fn new(settings: RunSettings) -> Result<Bench> {
        settings.check()?;
        let adapter = adapters::find(&settings.engine)?;
        let data = settings.data();
        let mean_bytes = (data.mean_key_bytes(settings.records), data.mean_value_bytes());
        let home = settings.data.join(format!("{}-{}", settings.engine, settings.configuration));
        let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let (zipf, version) = (OnceCell::new(), String::new());
        let chosen_bytes = Cell::default();
        Ok(Bench { settings, adapter, data, mean_bytes, zipf, home, version, run, errors: 0, chosen_bytes })
    }

    /// Runs all workloads, and returns the number of wrong results.
    ///
    /// # Errors
    /// Any error of the engine.
    pub(crate) fn run(&mut self) -> Result<u64> {
        let start = Instant::now();
        let anonymous_mib = process::anonymous_mib();
        if !self.settings.existing && !self.is_filled_in_order() {
            self.separate_fills()?;
        }
        let mut engine = if self.settings.existing { self.open_existing()? } else { self.main_fill()? };
        let abilities = engine.abilities();
        if let Some(record) = self.copy_all(engine.as_ref())? {
            self.emit(record)?;
        }
        if abilities.persists {
            if !self.settings.existing {
                self.compaction(engine.as_mut())?;
            }
            engine = self.drop_caches(engine)?;
        }
        let mut live = self.settings.records;
        if abilities.reads {
            self.warm(engine.as_ref())?;
            self.points(engine.as_ref())?;
            self.scans(engine.as_ref(), live)?;
        }
        if self.settings.log {
            self.logs(engine.as_mut())?;
        } else {
            if abilities.reads {
                live += self.ycsb(engine.as_ref())?;
                self.mixed(engine.as_mut())?;
            }
            self.overwrites(engine.as_ref())?;
            self.gets_beside_puts(engine.as_ref())?;
        }
        let note = format!("{anonymous_mib:.0} MiB of it at the start of the program");
        self.emit_value("memory_end", process::anonymous_mib(), "MiB", &note)?;
        if !self.settings.log {
            if abilities.persists {
                engine = self.reopen(engine)?;
            }
            if abilities.reads {
                self.deletes(engine.as_ref(), live)?;
            }
        }
        engine.close()?;
        self.remove_home()?;
        let ended = Record {
            value: Some(start.elapsed().as_secs_f64()),
            unit: "s".to_owned(),
            // Not zero, so that it is measured again when the suite is started again.
            errors: self.errors,
            ..self.record(RUN_ENDED, 1)
        };
        let errors = self.errors;
        self.emit(ended)?;
        Ok(errors)
    }

    fn compaction(&mut self, engine: &mut dyn Engine) -> Result<()> {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        self.emit_value("disk_after_fill", megabytes(process::disk_bytes(&self.home)), "MB", "")?;
        let start = Instant::now();
        engine.flush()?;
        let is_compacted = engine.compact()?;
        let seconds = start.elapsed().as_secs_f64();
        self.settle();
        if is_compacted {
            self.emit_value("compaction", seconds, "s", "")?;
        }
        self.emit_value("disk_after_compaction", megabytes(process::disk_bytes(&self.home)), "MB", "")
    }

    /// In a run with limited memory, closes the store, has the kernel forget its files' pages, and opens it:
    /// what is read next comes from the device, whatever the fill left in memory.
    fn drop_caches(&self, engine: Box<dyn Engine>) -> Result<Box<dyn Engine>> {
        if self.settings.memory_limit_mib == 0 {
            return Ok(engine);
        }
        engine.close()?;
        process::drop_cached_pages(&self.home)?;
        self.open(Durability::Process)
    }

    /// Whether the fill that others use is ascending, and there is no other.
    fn is_filled_in_order(&self) -> bool {
        self.settings.log || self.settings.ascending
    }

    /// Whether a workload is selected, and meant for this engine.
    fn selects(&self, workload: &str) -> bool {
        self.settings.selects(workload) && self.adapter.takes_part(workload)
    }

    fn open(&self, durability: Durability) -> Result<Box<dyn Engine>> {
        let record_bytes = self.mean_bytes.0 + self.mean_bytes.1;
        self.adapter.open(&self.home, &self.settings.engine_settings(durability, record_bytes))
    }

    /// An empty store.
    fn open_empty(&mut self, durability: Durability) -> Result<Box<dyn Engine>> {
        self.remove_directory()?;
        let engine = self.open(durability)?;
        self.version = engine.version();
        Ok(engine)
    }

    /// The store that an earlier run kept.
    fn open_existing(&mut self) -> Result<Box<dyn Engine>> {
        if !self.home.is_dir() {
            return Err(
                format!("{} is missing: --existing reads what --keep left", self.home.display()).into()
            );
        }
        let engine = self.open(Durability::Process)?;
        self.version = engine.version();
        Ok(engine)
    }

    fn remove_home(&self) -> Result<()> {
        if self.settings.keep || self.settings.existing { Ok(()) } else { self.remove_directory() }
    }

    fn remove_directory(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.home) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", self.home.display()).into())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Record numbers, chosen with a seed of the workload's own; 32 bits each, to save memory.
    fn choose(&self, choice: Choice, count: u64, salt: u64) -> Vec<u32> {
        let records = self.settings.records;
        let mut random = Random::new(self.settings.seed ^ mix(salt));
        self.keep(match choice {
            Choice::Uniform => (0..count).map(|_| random.below(records) as u32).collect(),
            Choice::Zipf => (0..count).map(|_| self.zipf().record(&mut random) as u32).collect(),
        })
    }

    /// Counts what the next workload keeps in memory beside the store.
    fn keep(&self, chosen: Vec<u32>) -> Vec<u32> {
        self.chosen_bytes.set(self.chosen_bytes.get() + chosen.capacity() * size_of::<u32>());
        chosen
    }

    fn zipf(&self) -> &Zipf {
        self.zipf.get_or_init(|| Zipf::new(self.settings.records))
    }

    fn record(&self, workload: &str, threads: usize) -> Record {
        let settings = &self.settings;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Record {
            unix_seconds: since.map_or(0, |since| since.as_secs()),
            configuration: settings.configuration.clone(),
            round: settings.round,
            run: self.run,
            engine: settings.engine.clone(),
            version: self.version.clone(),
            workload: workload.to_owned(),
            threads,
            records: settings.records,
            shape: settings.shape(),
            key_bytes: self.mean_bytes.0,
            value_bytes: self.mean_bytes.1,
            cache_bytes: settings.cache_mib << 20,
            memtable_bytes: settings.memtable_mib << 20,
            memory_limit_bytes: settings.memory_limit_mib << 20,
            ..Record::default()
        }
    }

    /// Writes a record, and prints its summary.
    #[allow(clippy::print_stderr, reason = "a long run shows its progress")]
    fn emit(&mut self, record: Record) -> Result<()> {
        self.errors += record.errors;
        eprintln!("{}", record.summary());
        if record.errors > 0 {
            eprintln!("{}: VOID, {} wrong results in {}", record.engine, record.errors, record.workload);
        }
        record.write(self.settings.out.as_deref())
    }

    fn emit_value(&mut self, workload: &str, value: f64, unit: &str, note: &str) -> Result<()> {
        let record = Record {
            value: Some(value),
            unit: unit.to_owned(),
            note: note.to_owned(),
            resident_mib: process::resident_mib(),
            ..self.record(workload, 1)
        };
        self.emit(record)
    }
}

thread_local! {
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Passes a value of a record to `work`, in reused memory.
#[inline]
fn with_value<T>(data: &Data, record: u64, version: u64, work: impl FnOnce(&[u8]) -> T) -> T {
    VALUE.with_borrow_mut(|value| {
        value.resize(data.most_value_bytes(), 0);
        work(data.value(record, version, value))
    })
}

#[cfg(test)]
mod tests;
