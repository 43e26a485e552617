//! The database under test, with a description of its contents.
//!
//! A separate keyspace records which data set the database holds, and whether its fill was completed. So a
//! later run can reuse the data, and a fill can tell data of an earlier benchmark, which it may replace, from
//! data of a user, which it must not touch.

use crate::error::BenchError;
use crate::settings::Settings;
use esker::parts::env::{Clock, Env, FileSystem, StdFileSystem};
use esker::{Database, Keyspace, KeyspaceOptions, MergeOperator};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Keyspace and key of the description.
const MARK_KEYSPACE: &str = "esker.bench";
const MARK_KEY: &[u8] = b"data set";

const COUNTERS_KEYSPACE: &str = "esker.bench.counters";

/// The description that a fill leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataSet {
    pub(crate) num: u64,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    pub(crate) seed: u64,
    /// The fill was completed.
    pub(crate) complete: bool,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) database: Database,
    pub(crate) keyspace: Keyspace,
}

impl DataSet {
    pub(crate) fn of(settings: &Settings) -> DataSet {
        DataSet {
            num: settings.num,
            key_size: settings.key_size,
            value_size: settings.value_size,
            seed: settings.seed,
            complete: true,
        }
    }
}

impl Store {
    /// Opens the database in the settings' directory, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// If the directory holds files, but no database of a benchmark.
    pub(crate) fn open(settings: &Settings) -> Result<Store, BenchError> {
        let is_new = is_missing_or_empty(&settings.directory)?;
        let database = Database::open_with(&settings.directory, options(settings).create_if_missing(is_new));
        let database = database.map_err(|error| match error {
            esker::Error::NotFound(_) => foreign(&settings.directory, "files, but no database"),
            other => BenchError::Database(other),
        })?;
        if !is_new && database.open_keyspace(MARK_KEYSPACE).is_err() {
            database.close()?;
            return Err(foreign(&settings.directory, "a database that no benchmark made"));
        }
        database.keyspace(MARK_KEYSPACE)?;
        Store::of(database)
    }

    fn of(database: Database) -> Result<Store, BenchError> {
        let keyspace = database.keyspace("default")?;
        Ok(Store { database, keyspace })
    }

    /// Opens a database that is known to be a benchmark's; also returns the nanoseconds that took.
    pub(crate) fn open_timed(settings: &Settings, clock: &dyn Clock) -> Result<(Store, u64), BenchError> {
        let options = options(settings).create_if_missing(false);
        let start = clock.monotonic_ns();
        let database = Database::open_with(&settings.directory, options)?;
        let took_ns = clock.monotonic_ns() - start;
        Ok((Store::of(database)?, took_ns))
    }

    pub(crate) fn close(self) -> Result<(), BenchError> {
        Ok(self.database.close()?)
    }

    /// Closes and removes the database, and creates an empty one.
    pub(crate) fn replace(self, settings: &Settings) -> Result<Store, BenchError> {
        self.remove(settings)?;
        Store::open(settings)
    }

    /// The same, with this environment for the new one.
    pub(crate) fn replace_in(self, settings: &Settings, env: Env) -> Result<Store, BenchError> {
        self.remove(settings)?;
        let database = Database::open_with(&settings.directory, options(settings).env(env))?;
        database.keyspace(MARK_KEYSPACE)?;
        Store::of(database)
    }

    fn remove(self, settings: &Settings) -> Result<(), BenchError> {
        self.database.close()?;
        drop(self);
        // Only databases with the description are opened, and only in empty directories are they created.
        Ok(StdFileSystem.remove_dir_all(&settings.directory)?)
    }

    /// A keyspace of counters beside the data, empty.
    pub(crate) fn fresh_counters(&self) -> Result<Keyspace, BenchError> {
        if self.database.open_keyspace(COUNTERS_KEYSPACE).is_ok() {
            self.database.drop_keyspace(COUNTERS_KEYSPACE)?;
        }
        let options = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
        Ok(self.database.keyspace_with(COUNTERS_KEYSPACE, options)?)
    }

    /// The description, if a fill has begun.
    pub(crate) fn data_set(&self) -> Result<Option<DataSet>, BenchError> {
        let Some(mark) = self.database.keyspace(MARK_KEYSPACE)?.get(MARK_KEY)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&mark);
        parsed.map(Some).map_err(|error| BenchError::Settings(format!("the data set is unreadable: {error}")))
    }

    /// Stores the description, in a table, so that log and memtables contain only the measured data.
    pub(crate) fn mark(&self, data_set: &DataSet) -> Result<(), BenchError> {
        let mark = serde_json::to_vec(data_set).expect("numbers and a flag always serialise");
        let keyspace = self.database.keyspace(MARK_KEYSPACE)?;
        keyspace.put(MARK_KEY, mark)?;
        Ok(keyspace.flush()?)
    }
}

fn options(settings: &Settings) -> esker::Options {
    let options = settings.options.clone().durability(settings.durability);
    match settings.memory_budget_bytes {
        Some(bytes) => options.memory_budget(bytes),
        None => options,
    }
}

fn is_missing_or_empty(directory: &Path) -> Result<bool, BenchError> {
    match StdFileSystem.list(directory) {
        Ok(entries) => Ok(entries.is_empty()),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn foreign(directory: &Path, what: &str) -> BenchError {
    let directory = directory.display();
    BenchError::Settings(format!(
        "{directory} holds {what}; benchmarks replace what they fill, so give them a directory of their own"
    ))
}
