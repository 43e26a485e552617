//! Memory bound: whether anonymous memory stays within the budget under a mix of everything that takes
//! memory.
//!
//! One database gets [`DATA_FACTOR`] times its memory budget of data in phases ([`phases`]): small records in
//! random order, many keyspaces, a bulk load, multi-gets of many keys, cursors that stay open while writes go
//! on, large values, a backup, a merge of everything. A sampler reads the anonymous memory of the process all
//! the while ([`sampler`]).
//!
//! The run fails if a peak is above [`bound_bytes`]. How far what metrics tell differs from the truth is
//! shown beside it and fails nothing: free pieces of the heap, stacks of threads and structures of open
//! cursors are in no account. Memory that the process had before it opened the database, and results that
//! a phase holds, are not the database's.

mod phases;
mod sampler;

use crate::error::BenchError;
use crate::report::{MemoryBoundRow, Report};
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::metrics::MemoryMetrics;
use esker::parts::env::{Clock, SystemClock};
use phases::Mix;
use sampler::MemorySampler;

/// Bytes of data that the phases write together, in budgets.
const DATA_FACTOR: f64 = 20.0;
/// What may come on top of the budget and a twentieth of it: stacks of threads, open files, the allocator.
const ALLOWANCE_BYTES: u64 = 16 << 20;

/// The most anonymous memory of a database with this budget.
fn bound_bytes(budget_bytes: u64) -> u64 {
    budget_bytes + budget_bytes / 20 + ALLOWANCE_BYTES
}

/// What metrics tell of anonymous memory, by part.
fn parts(told: &MemoryMetrics) -> Vec<(&'static str, u64)> {
    vec![
        ("memtables", told.memtable_bytes),
        ("blocks", told.process_block_bytes),
        ("idle", told.process_idle_block_bytes),
        ("tables", told.table_metadata_bytes),
        ("loads", told.loading_bytes),
        ("read ahead", told.read_ahead_bytes),
        ("jobs", told.job_bytes),
        ("large values", told.large_value_bytes),
    ]
}

fn told_bytes(told: &MemoryMetrics) -> u64 {
    parts(told).iter().map(|(_, bytes)| bytes).sum()
}

/// Runs all phases on an empty database and returns it.
///
/// # Errors
/// [`BenchError::OutOfBounds`] after all phases, if one of them was.
pub(crate) fn measure(
    store: Store,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<Store, BenchError> {
    let mut mix = Mix::new(settings);
    let clock = SystemClock::new();
    let directory = &settings.directory;
    store.close()?;
    let sampler = MemorySampler::start()?;
    let store = Store::open(settings)?.replace(settings)?;
    let budget_bytes = store.database.metrics().memory.budget_bytes;
    let mut missed = Vec::new();
    let is_chosen = |name: &str| settings.phases.is_empty() || settings.phases.iter().any(|one| one == name);
    for phase in phases::ALL.iter().filter(|phase| is_chosen(phase.name)) {
        let started = clock.monotonic_ns();
        let watch = sampler.watch(&store.database)?;
        (phase.run)(&mut mix, &store, directory, &watch)?;
        let seen = watch.end();
        let row = MemoryBoundRow {
            workload: Workload::MemoryBound,
            phase: phase.name,
            seconds: (clock.monotonic_ns() - started) as f64 / 1e9,
            peak_bytes: seen.peak_bytes,
            bound_bytes: bound_bytes(budget_bytes),
            told_bytes: told_bytes(&seen.at_peak),
            worst_difference: seen.worst_difference_bytes as f64 / budget_bytes as f64,
            parts: parts(&seen.at_peak),
        };
        report.memory_bound(&row)?;
        if row.peak_bytes > row.bound_bytes {
            missed.push(format!("{} took {} MiB", row.phase, row.peak_bytes >> 20));
        }
    }
    mix.let_go();
    if missed.is_empty() {
        return Ok(store);
    }
    store.close()?;
    let allowed = bound_bytes(budget_bytes) >> 20;
    Err(BenchError::OutOfBounds(format!("memory bound of {allowed} MiB: {}", missed.join("; "))))
}
