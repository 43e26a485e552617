//! A simulated environment for the regression tests.

use esker::metrics::KeyspaceMetrics;
use esker::parts::StepBackground;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, StrictOptions, When};
use esker::parts::env::{Env, FileSystem};
use esker::{Database, Options};
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIR: &str = "/db";
/// The smallest budget.
pub(crate) const BUDGET_BYTES: u64 = 8 << 20;
/// Payload bytes that memtables may hold.
pub(crate) const MEMTABLES_BYTES: u64 = BUDGET_BYTES / 4;
/// Bytes that the log may hold before memtables are sealed to release it.
pub(crate) const LOG_BYTES: u64 = MEMTABLES_BYTES + MEMTABLES_BYTES / 2;
/// The smallest segment, so that the log rotates often.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 10;

/// More steps than any work in these tests takes; a test that needs more makes no progress.
const MAX_STEPS: usize = 100_000;

/// A file system in memory with injected faults.
pub(crate) struct SimulatedEnv {
    pub(crate) strict: StrictFs,
    pub(crate) faults: FaultFs,
    seed: u64,
}

impl SimulatedEnv {
    pub(crate) fn new(seed: u64) -> SimulatedEnv {
        SimulatedEnv::over(
            StrictFs::with_options(StrictOptions { record_trace: false, ..Default::default() }),
            seed,
        )
    }

    pub(crate) fn over(strict: StrictFs, seed: u64) -> SimulatedEnv {
        SimulatedEnv { faults: FaultFs::over_strict(strict.clone()), strict, seed }
    }

    /// The file system after a crash.
    pub(crate) fn crashed(&self, crash: Crash) -> SimulatedEnv {
        SimulatedEnv::over(self.strict.crash(crash), self.seed)
    }

    pub(crate) fn options(&self) -> Options {
        let env = Env::simulated(Arc::new(self.faults.clone()), self.seed);
        Options::default().memory_budget(BUDGET_BYTES).wal_segment_bytes(SEGMENT_BYTES).env(env)
    }

    /// From now on, calls of this kind on paths that contain this text fail.
    pub(crate) fn inject_faults(&self, fault: Fault, operation: Operation, path: &str) {
        self.faults.add(Rule::new(fault, When::From(1)).on(operation).path(path));
    }

    pub(crate) fn files(&self, dir: &str) -> Vec<String> {
        let entries = self.strict.list(&Path::new(DIR).join(dir)).unwrap();
        entries.into_iter().filter(|entry| !entry.is_dir).map(|entry| entry.name).collect()
    }
}

/// Runs background work until there is none; returns the number of steps.
pub(crate) fn settle(db: &Database) -> usize {
    let steps = (0..MAX_STEPS).take_while(|_| db.step_background()).count();
    assert!(steps < MAX_STEPS, "background work does not come to an end");
    steps
}

/// The files that the trees refer to, as [`SimulatedEnv::files`] names them.
pub(crate) fn live_tables(db: &Database) -> Vec<String> {
    let levels = db.levels();
    let runs = levels.iter().flat_map(|keyspace| &keyspace.levels).flat_map(|level| &level.runs);
    let mut names: Vec<String> =
        runs.flat_map(|run| &run.tables).map(|table| format!("{:06}.sst", table.file.get())).collect();
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn metrics_of(db: &Database, name: &str) -> KeyspaceMetrics {
    let metrics = db.metrics();
    metrics.keyspaces.into_iter().find(|keyspace| keyspace.name == name).unwrap()
}
