//! Gets after a rest: whether an idle database has come to one run, so that each of them touches one table
//! with data at most.
//!
//! A tenth of the records are overwritten first, all over the keys, so that there is something to merge
//! whatever a fill has left.

use crate::data::{Data, Rng};
use crate::deletes::Outcome;
use crate::error::BenchError;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::parts::env::Clock;
use std::time::Duration;

/// Records are overwritten where this divides the number of the put.
const OVERWRITTEN_EVERY: u64 = 10;

/// Overwrites, rests for [`Settings::idle_seconds`], and gets random present keys. What is told beside that
/// is how many runs of tables a get may have touched, from the metrics of before the gets.
pub(crate) fn measure(
    store: &Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<Outcome, BenchError> {
    let workload = Workload::ReadRested;
    let mut rng = Rng::new(settings.seed, 1 + workload as u64);
    let records =
        |count: u64, rng: &mut Rng| -> Vec<u64> { (0..count).map(|_| rng.below(settings.num)).collect() };
    let overwritten = data.keys(records(settings.num / OVERWRITTEN_EVERY, &mut rng).into_iter());
    for key in overwritten.whole().iter() {
        store.keyspace.put(key, data.value(key, 1))?;
    }
    let runs_before = runs(store);
    #[expect(clippy::disallowed_methods, reason = "lying idle for a time is what is measured")]
    std::thread::sleep(Duration::from_secs(settings.idle_seconds));
    let runs_after = runs(store);
    let read = data.keys(records(settings.reads(), &mut rng).into_iter());
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
        "after {} s of rest a get touches at most {runs_after} run(s) of tables, {runs_before} before it; wanted is 1",
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
