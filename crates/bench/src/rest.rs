//! Gets after an idle time: whether idle compaction has brought the tree to one run, so that a get touches at
//! most one table with data.
//!
//! A tenth of the records are overwritten first, spread over the keys, so that there is always something to
//! merge.

use crate::data::{Data, Rng};
use crate::deletes::Outcome;
use crate::distribution::Chooser;
use crate::error::BenchError;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::parts::env::Clock;
use std::time::Duration;

/// Records whose number this divides are overwritten.
const OVERWRITTEN_EVERY: u64 = 10;

/// Overwrites, waits for [`Settings::idle_seconds`], and gets random present keys. The note gives the runs
/// that a get may touch, from the metrics before the gets.
pub(crate) fn measure(
    store: &Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<Outcome, BenchError> {
    let workload = Workload::ReadRested;
    let rng = Rng::new(settings.seed, 1 + workload as u64);
    let mut chooser = Chooser::new(settings.distribution, data, settings.num, rng);
    let mut records = |count: u64| -> Vec<u64> { (0..count).map(|_| chooser.record()).collect() };
    let overwritten = data.keys(records(settings.num / OVERWRITTEN_EVERY).into_iter());
    for key in overwritten.whole().iter() {
        store.keyspace.put(key, data.value(key, 1))?;
    }
    let runs_before = runs(store);
    #[expect(clippy::disallowed_methods, reason = "lying idle for a time is what is measured")]
    std::thread::sleep(Duration::from_secs(settings.idle_seconds));
    let runs_after = runs(store);
    let read = data.keys(records(settings.reads()).into_iter());
    let mut sampler = Sampler::new(clock, 1);
    let start_ns = clock.monotonic_ns();
    for key in read.whole().iter() {
        let is_right = sampler.measure(|| {
            store.keyspace.get_with(key, |value| value.is_some_and(|value| data.is_right(key, value, false)))
        })?;
        if !is_right {
            let detail = "a key does not have the value that was put".to_owned();
            return Err(BenchError::WrongAnswer { workload, detail });
        }
    }
    let seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
    let ops = settings.reads();
    let measured = Measured { work: Work { ops, found: ops, ..sampler.finish() }, seconds };
    let note = format!(
        "after {} s idle a get probes at most {runs_after} run(s) of tables, {runs_before} before; 1 is best",
        settings.idle_seconds
    );
    Ok((measured, Some(note)))
}

/// Runs of tables that may hold a key of the data set.
fn runs(store: &Store) -> usize {
    let name = store.keyspace.name();
    let all = store.database.metrics().keyspaces;
    all.iter().find(|keyspace| keyspace.name == *name).map_or(0, |keyspace| keyspace.runs)
}
