//! The merge loop: processor time for each entry of a compaction of sorted runs.
//!
//! A keyspace whose strategy plans nothing gets [`INPUTS`] runs. Each has every fourth record in order of
//! keys, so the runs overlap everywhere and the source of the next entry is as good as random. Nothing is
//! compressed. Then the range of all keys is compacted a few times, each time on runs that were written anew
//! and are in the page cache.
//!
//! Processor time counts, because wall time depends on what else runs on the machine. User time is the loop;
//! system time copies bytes from and to the page cache, which no loop can save. Linux divides the two by
//! samples, 4 ms apart, in units of 10 ms: only their sum is exact. So the mean of all passes counts; the
//! fastest pass would be the one with the luckiest samples.

use crate::data::{Data, mix};
use crate::error::BenchError;
use crate::host::{ProcessorTime, processor_time};
use crate::report::MergeRow;
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::options::{Codec, PerLevel, Strategy};
use esker::parts::env::Clock;
use esker::{Keyspace, KeyspaceOptions};

const INPUTS: u64 = 4;
/// Passes whose mean is reported.
const PASSES: u32 = 5;
const KEYSPACE: &str = "esker.bench.compact";

/// Runs the workload beside the data set of the other workloads.
pub(crate) fn measure(
    store: &Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<MergeRow, BenchError> {
    let passes: Result<Vec<MergeRow>, BenchError> =
        (0..PASSES).map(|_| pass(store, settings, data, clock)).collect();
    mean(passes?).ok_or_else(|| BenchError::Settings("there is nothing to merge".into()))
}

/// The mean of passes over the same entries.
fn mean(passes: Vec<MergeRow>) -> Option<MergeRow> {
    let count = passes.len() as f64;
    let of = |what: fn(&MergeRow) -> f64| passes.iter().map(what).sum::<f64>() / count;
    let (seconds, user_seconds) = (of(|pass| pass.seconds), of(|pass| pass.user_seconds));
    let system_seconds = of(|pass| pass.system_seconds);
    let number = passes.len() as u64;
    let last = passes.into_iter().last()?;
    let entries_per_second = last.entries as f64 / seconds.max(1e-9);
    let entries_per_user_second = last.entries as f64 / user_seconds.max(1e-9);
    Some(MergeRow {
        passes: number,
        seconds,
        user_seconds,
        system_seconds,
        entries_per_second,
        entries_per_user_second,
        ..last
    })
}

fn pass(store: &Store, settings: &Settings, data: &Data, clock: &dyn Clock) -> Result<MergeRow, BenchError> {
    if store.database.open_keyspace(KEYSPACE).is_ok() {
        store.database.drop_keyspace(KEYSPACE)?;
    }
    let options = KeyspaceOptions::default().strategy(Strategy::None).compression(PerLevel::all(Codec::None));
    let keyspace = store.database.keyspace_with(KEYSPACE, options)?;
    write_runs(&keyspace, settings, data)?;
    let (input_runs, input_bytes) = shape(store);
    let (began, before) = (clock.monotonic_ns(), processor_time());
    keyspace.compact(..)?;
    let after = processor_time();
    let seconds = (clock.monotonic_ns() - began) as f64 / 1e9;
    let (runs, output_bytes) = shape(store);
    check(&keyspace, settings, data, runs)?;
    store.database.drop_keyspace(KEYSPACE)?;
    let spent = before.zip(after).map(|(before, after)| after.since(before)).unwrap_or_default();
    let entries = settings.num;
    Ok(MergeRow {
        workload: Workload::Compact,
        passes: 1,
        entries,
        input_runs,
        input_bytes,
        output_bytes,
        seconds,
        user_seconds: spent.user_seconds,
        system_seconds: spent.system_seconds,
        entries_per_second: entries as f64 / seconds.max(1e-9),
        entries_per_user_second: entries as f64 / spent.user_seconds.max(1e-9),
    })
}

/// Bulk-loads each run in order of keys: whatever its size, it is one run.
fn write_runs(keyspace: &Keyspace, settings: &Settings, data: &Data) -> Result<(), BenchError> {
    let keys = data.sorted_keys(settings.num);
    for run in 0..INPUTS {
        let mut loader = keyspace.bulk_load()?;
        for key in keys.whole().iter().filter(|key| run_of(key) == run) {
            loader.add(key, data.value(key, 0))?;
        }
        loader.finish()?;
        keyspace.flush()?;
    }
    Ok(())
}

/// The run of a key: as good as random, and the same each time.
fn run_of(key: &[u8]) -> u64 {
    let head = key.first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head));
    mix(head ^ 0x5bd1_e995) % INPUTS
}

/// Number of runs, and bytes, of the keyspace.
fn shape(store: &Store) -> (u64, u64) {
    let metrics = store.database.metrics();
    let here = metrics.keyspaces.iter().find(|keyspace| keyspace.name == KEYSPACE);
    here.map_or((0, 0), |keyspace| (keyspace.runs as u64, keyspace.table_bytes))
}

/// Checks that one run is left and has every record.
fn check(keyspace: &Keyspace, settings: &Settings, data: &Data, runs: u64) -> Result<(), BenchError> {
    let (mut found, mut wrong) = (0u64, 0u64);
    let mut cursor = keyspace.cursor()?;
    cursor.seek_to_first()?;
    while let Some((key, value)) = cursor.entry() {
        found += 1;
        wrong += u64::from(data.value(key, 0) != value);
        cursor.advance()?;
    }
    if (runs, found, wrong) == (1, settings.num, 0) {
        return Ok(());
    }
    let detail = format!(
        "{} records in one run expected, {found} in {runs} runs found, {wrong} of them with a wrong value",
        settings.num
    );
    Err(BenchError::WrongAnswer { workload: Workload::Compact, detail })
}

impl ProcessorTime {
    fn since(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_averaged() {
        let pass = |user_seconds: f64, system_seconds: f64| MergeRow {
            workload: Workload::Compact,
            passes: 1,
            entries: 1000,
            input_runs: INPUTS,
            input_bytes: 10,
            output_bytes: 11,
            seconds: 1.0,
            user_seconds,
            system_seconds,
            entries_per_second: 0.0,
            entries_per_user_second: 0.0,
        };
        let row = mean(vec![pass(0.1, 0.4), pass(0.3, 0.2)]).unwrap();
        assert_eq!((row.passes, row.entries, row.output_bytes), (2, 1000, 11));
        assert!((row.user_seconds - 0.2).abs() < 1e-9 && (row.system_seconds - 0.3).abs() < 1e-9);
        assert!((row.entries_per_user_second - 5000.0).abs() < 1e-6, "{row:?}");
        assert!(mean(Vec::new()).is_none());
    }
}
