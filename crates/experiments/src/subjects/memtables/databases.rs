//! Measures the effect of the memtable kind on a whole database: byron's experiment.

use super::structures::VALUE_BYTES;
use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape};
use crate::table::{Column, Table};
use esker::options::MemtableKind;
use esker::parts::env::SystemClock;
use esker::{Database, KeyspaceOptions, Options};
use std::path::Path;

/// Room for two memtables of 64 MiB and some reading; with more, most of ten million entries would stay in
/// memory.
const MEMORY_BUDGET_BYTES: u64 = 512 << 20;

pub(super) const SETUP: &str = "databases: random puts of 16 + 100 bytes one by one, memory budget 512 MiB, otherwise the \
                                defaults; drained: until flushes and compactions have caught up";

fn sizes(context: &Context<'_>) -> &'static [usize] {
    context.pick(&[3_000], &[50_000], &[1_000_000, 5_000_000, 10_000_000])
}

/// Most entries that a database of each kind gets.
const MOST_FOR_ALL: usize = 1_000_000;

/// All kinds; of larger databases the default and the two that byron compares.
fn kinds(entries: usize) -> Vec<MemtableKind> {
    let is_taken = |kind: &MemtableKind| {
        entries <= MOST_FOR_ALL
            || *kind == MemtableKind::default()
            || ["vector", "skiplist"].contains(&kind.name())
    };
    MemtableKind::ALL.into_iter().filter(is_taken).collect()
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    sizes(context).iter().map(|&entries| kinds(entries).len()).sum()
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [
        Column::key("kind"),
        Column::key("entries"),
        Column::measured("acknowledged_seconds", 2),
        Column::measured("drained_seconds", 2),
        Column::number("puts_per_second_drained", 0),
    ];
    let mut table = Table::new("databases", "Seconds to fill a database", &columns);
    for &entries in sizes(context) {
        let keys = Keys::new(Shape::Random, entries, &context.random(1));
        let directory = context.directory("filled")?;
        let name = |kind: &MemtableKind| format!("a database of {entries} entries with {kind}");
        let kinds = kinds(entries);
        let measured = context.rounds(1, &kinds, name, |clock, &kind| {
            let seconds = fill(clock, kind, &keys, &directory);
            esker::parts::env::FileSystem::remove_dir_all(&esker::parts::env::StdFileSystem, &directory)?;
            seconds
        })?;
        for (kind, samples) in kinds.into_iter().zip(measured) {
            let [acknowledged, drained] = samples[..] else { continue };
            table.push(vec![
                kind.name().into(),
                entries.into(),
                acknowledged.into(),
                drained.into(),
                (entries as f64 / drained.median).into(),
            ]);
        }
    }
    Ok(table)
}

/// Seconds until all puts are acknowledged, and until the database is drained.
fn fill(clock: &SystemClock, kind: MemtableKind, keys: &Keys, directory: &Path) -> Result<Vec<f64>> {
    let database = Database::open_with(directory, Options::default().memory_budget(MEMORY_BUDGET_BYTES))?;
    let keyspace = database.keyspace_with("filled", KeyspaceOptions::default().memtable(kind))?;
    let value = [b'v'; VALUE_BYTES];
    let (acknowledged_ns, put) = time_ns(clock, || keys.iter().try_for_each(|key| keyspace.put(key, value)));
    put?;
    let (drain_ns, drained) = time_ns(clock, || database.drain());
    drained?;
    // A sample of what was put must be there.
    for index in (0..keys.count()).step_by(keys.count().div_ceil(100)) {
        if keyspace.get(keys.at(index))?.as_deref() != Some(&value) {
            return Err(ExperimentError::WrongAnswer(format!("a database with {kind} lost a key")));
        }
    }
    database.close()?;
    Ok(vec![acknowledged_ns / 1e9, (acknowledged_ns + drain_ns) / 1e9])
}

pub(super) fn comparisons(table: &Table) -> Vec<Comparison> {
    let of = |kind, entries| table.number(&[("kind", kind), ("entries", entries)], "drained_seconds");
    let compare = |entries, words: &str, theirs| {
        let what = format!("vector over skiplist, seconds for {words} random inserts");
        Comparison::new("byron 3.1", what, theirs, ratio(of("vector", entries), of("skiplist", entries)))
    };
    vec![
        compare("1000000", "1 M", 2.53 / 2.25),
        compare("5000000", "5 M", 21.40 / 13.12),
        compare("10000000", "10 M", 136.41 / 27.92),
    ]
}
