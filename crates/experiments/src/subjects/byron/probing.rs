//! Measures the alternative to probing tables in parallel threads: the same gets one by one, and many at a
//! time.
//!
//! A thread for each table costs microseconds to wake; a filter answers in nanoseconds. So a lookup here
//! prefetches the filters' cache lines of all runs and then probes the tables one after the other. Lookups of
//! many keys overlap: all go through one table before any goes to the next, and blocks that are not in the
//! cache are read together (`async_reads`).

use super::reads::{self, uniform};
use super::stores::{Opened, Store, key_of, must_be, scaled, value_of};
use crate::context::{Context, time_ns};
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::KeyspaceOptions;
use esker::options::{AsyncReads, FilterPolicy, MemtableKind};

const PUTS: u32 = 100_000;
const GETS: u32 = 500_000;
/// Number of runs, which no compaction merges.
const RUNS: u32 = 10;
const TOGETHER: usize = 32;

const ONE_BY_ONE: &str = "one by one";
const OFF: &str = "32 at a time, async_reads off";
const AUTO: &str = "32 at a time, async_reads auto";
const FILTERED: &str = "default";
const UNFILTERED: &str = "none";

/// A method of lookup, with a filter setting.
struct LookupMethod {
    filter: &'static str,
    way: &'static str,
    together: usize,
    opened: Opened,
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    6 + reads::rounds(context) * 6
}

fn open(
    context: &mut Context<'_>,
    filter: &'static str,
    way: &'static str,
    at: usize,
) -> Result<LookupMethod> {
    context.step(&format!("filter {filter}: loading {RUNS} runs"));
    let mut options = KeyspaceOptions::default().set("strategy", "none")?;
    if filter == UNFILTERED {
        options = options.filter(FilterPolicy::None);
    }
    let mut store = Store::of(way, options, MemtableKind::default());
    let reads = if way == AUTO { AsyncReads::Auto } else { AsyncReads::Off };
    store.options = store.options.async_reads(reads);
    let opened = store.open(context, &format!("probe-{at}"))?;
    let entries = scaled(context, PUTS);
    for run in 0..RUNS {
        opened.put(entries / RUNS * run..entries / RUNS * (run + 1))?;
        opened.keyspace.flush()?;
    }
    opened.database.drain()?;
    Ok(LookupMethod { filter, way, together: if way == ONE_BY_ONE { 1 } else { TOGETHER }, opened })
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [
        Column::key("filter"),
        Column::key("way"),
        Column::key("runs"),
        Column::key("gets"),
        Column::number("mean_seconds", 3),
        Column::number("deviation_seconds", 3),
        Column::number("get_ns", 0),
    ];
    let title = "Gets over ten runs that nothing merges, 90 % absent: one by one, and many at a time";
    let mut table = Table::new("probing", title, &columns);
    let mut methods = Vec::new();
    for filter in [FILTERED, UNFILTERED] {
        for way in [ONE_BY_ONE, OFF, AUTO] {
            methods.push(open(context, filter, way, methods.len())?);
        }
    }
    let (entries, count) = (scaled(context, PUTS), scaled(context, GETS));
    let asked = uniform(count, 10 * entries, &context.random(6));
    let name = |method: &LookupMethod| format!("filter {}: {count} gets, {}", method.filter, method.way);
    let measured = context.rounds(reads::rounds(context), &methods, name, |clock, method| {
        let (taken_ns, done) = time_ns(clock, || match method.together {
            1 => method.opened.get(&asked, entries),
            together => asked.chunks(together).try_for_each(|numbers| get(&method.opened, numbers, entries)),
        });
        done?;
        Ok(vec![taken_ns / 1e9])
    })?;
    for (method, samples) in methods.iter().zip(measured) {
        let [seconds] = samples[..] else { continue };
        let row: Vec<Cell> = vec![
            method.filter.into(),
            method.way.into(),
            u64::from(RUNS).into(),
            asked.len().into(),
            seconds.mean.into(),
            seconds.deviation.into(),
            (seconds.mean * 1e9 / asked.len() as f64).into(),
        ];
        table.push(row);
    }
    methods.into_iter().try_for_each(|method| method.opened.close())?;
    Ok(table)
}

/// Gets these keys at once.
fn get(opened: &Opened, numbers: &[u32], entries: u32) -> Result<()> {
    let mut keys = [[0; 4]; TOGETHER];
    for (key, &number) in keys.iter_mut().zip(numbers) {
        *key = key_of(number);
    }
    let found = opened.keyspace.multi_get(&keys[..numbers.len()])?;
    numbers.iter().zip(found).try_for_each(|(&number, found)| {
        let expected = value_of(number);
        must_be(found.as_deref() == (number < entries).then_some(&expected[..]), "a multi-get", number)
    })
}
