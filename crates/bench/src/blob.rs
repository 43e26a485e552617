//! Write and space amplification of large values under even overwriting.
//!
//! A keyspace of its own gets [`Settings::blob_bytes`] of uncompressed values, each in a blob file. All of it
//! is overwritten once in random order, so that files of all ages exist, and twice more while it is measured.
//! Write amplification counts bytes written to tables, blob files and manifests, as the file system sees
//! them. Space is sampled after each hundredth of the data: the files of the present version, and all files
//! in the directory, which adds unfinished and obsolete ones.

use crate::data::{Data, Rng};
use crate::error::BenchError;
use crate::report::AmplificationRow;
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::options::{Codec, PerLevel};
use esker::parts::env::{Clock, CountingFs, Env, FileSystem};
use esker::{Keyspace, KeyspaceOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a value, whatever the settings say.
const VALUE_BYTES: usize = 4096;
/// `blob_threshold` of the keyspace.
const THRESHOLD_BYTES: u64 = 1024;
/// How often everything is overwritten before the measurement, and during it.
const WARM_UP: u64 = 1;
const MEASURED: u64 = 2;
/// Space samples in one pass over the data.
const SAMPLES: u64 = 100;

/// Space amplification over the samples.
#[derive(Clone, Copy, Debug, Default)]
struct SpaceSamples {
    sum: f64,
    most: f64,
    looks: u64,
}

impl SpaceSamples {
    fn note(&mut self, bytes: u64, live_bytes: u64) {
        let times = bytes as f64 / live_bytes as f64;
        self.sum += times;
        self.most = self.most.max(times);
        self.looks += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / self.looks.max(1) as f64
    }
}

/// Runs the workload and returns the database, empty.
pub(crate) fn measure(
    store: Store,
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<(Store, AmplificationRow), BenchError> {
    let real = Env::real();
    let fs = CountingFs::new(Arc::clone(&real.fs), is_not_of_the_log);
    let store = store.replace_in(settings, Env { fs: Arc::new(fs.clone()), ..real })?;
    let row = Overwriting::new(&store, settings, fs)?.run(clock)?;
    Ok((store.replace(settings)?, row))
}

/// Tables, blob files and manifests. Log segments are written through maps; their amplification is one.
fn is_not_of_the_log(path: &Path) -> bool {
    path.extension().is_none_or(|extension| extension != "seg")
}

struct Overwriting<'a> {
    store: &'a Store,
    fs: CountingFs,
    keyspace: Keyspace,
    tables: PathBuf,
    data: Data,
    rng: Rng,
    records: u64,
    pair_bytes: u64,
    in_version: SpaceSamples,
    in_directory: SpaceSamples,
}

impl<'a> Overwriting<'a> {
    fn new(store: &'a Store, settings: &Settings, fs: CountingFs) -> Result<Overwriting<'a>, BenchError> {
        let options = KeyspaceOptions::default()
            .blob_threshold(THRESHOLD_BYTES)
            .compression(PerLevel::all(Codec::None));
        let pair_bytes = (settings.key_size + VALUE_BYTES) as u64;
        Ok(Overwriting {
            keyspace: store.database.keyspace_with("large", options)?,
            tables: settings.directory.join("tables"),
            data: Data::new(settings.key_size, VALUE_BYTES, settings.seed),
            rng: Rng::new(settings.seed, 77),
            records: (settings.blob_bytes / pair_bytes).max(SAMPLES),
            store,
            fs,
            pair_bytes,
            in_version: SpaceSamples::default(),
            in_directory: SpaceSamples::default(),
        })
    }

    fn run(mut self, clock: &dyn Clock) -> Result<AmplificationRow, BenchError> {
        let keys = self.data.keys(0..self.records);
        for key in keys.whole().iter() {
            self.keyspace.put(key, self.data.value(key, 0))?;
        }
        self.overwrite(WARM_UP * self.records)?;
        self.store.database.drain()?;
        (self.in_version, self.in_directory) = (SpaceSamples::default(), SpaceSamples::default());
        let (written, start) = (self.fs.written_bytes(), clock.monotonic_ns());
        let puts = MEASURED * self.records;
        self.overwrite(puts)?;
        self.store.database.drain()?;
        let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
        let written_bytes = self.fs.written_bytes() - written;
        let user_bytes = puts * self.pair_bytes;
        self.check(&keys)?;
        Ok(AmplificationRow {
            workload: Workload::Blob,
            live_bytes: self.records * self.pair_bytes,
            user_bytes,
            written_bytes,
            write_amplification: written_bytes as f64 / user_bytes as f64,
            space_amplification_mean: self.in_version.mean(),
            space_amplification_max: self.in_version.most,
            directory_amplification_mean: self.in_directory.mean(),
            directory_amplification_max: self.in_directory.most,
            seconds,
            ops_per_second: puts as f64 / seconds.max(1e-9),
        })
    }

    fn overwrite(&mut self, puts: u64) -> Result<(), BenchError> {
        let interval = (self.records / SAMPLES).max(1);
        for put in 0..puts {
            let record = self.rng.below(self.records);
            let keys = self.data.keys(record..record + 1);
            for key in keys.whole().iter() {
                self.keyspace.put(key, self.data.value(key, put % 2))?;
            }
            if put % interval == 0 {
                self.sample()?;
            }
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<(), BenchError> {
        let live_bytes = self.records * self.pair_bytes;
        let metrics = self.store.database.metrics();
        let here = metrics.keyspaces.iter().find(|keyspace| keyspace.name == *self.keyspace.name());
        let named = here.map_or(0, |keyspace| keyspace.table_bytes + keyspace.blob_bytes);
        self.in_version.note(named, live_bytes);
        let there: u64 = self.fs.list(&self.tables)?.iter().map(|entry| entry.len).sum();
        self.in_directory.note(there, live_bytes);
        Ok(())
    }

    /// Checks that every value is one of the two that its key can have.
    fn check(&self, keys: &crate::data::Keys) -> Result<(), BenchError> {
        let mut wrong = 0u64;
        for key in keys.whole().iter() {
            let is_right = self.keyspace.get_with(key, |value| {
                value.is_some_and(|value| {
                    [0, 1].into_iter().any(|version| self.data.value(key, version) == value)
                })
            })?;
            wrong += u64::from(!is_right);
        }
        match wrong {
            0 => Ok(()),
            _ => Err(BenchError::WrongAnswer {
                workload: Workload::Blob,
                detail: format!("{wrong} values are not as they were written"),
            }),
        }
    }
}
