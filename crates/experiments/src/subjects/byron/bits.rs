//! Measures gets by the bits a key of filters, down to a tenth of a bit: ten runs that nothing merges, half
//! of the keys absent.
//!
//! No filter is worth asking below one bit a key, so a tenth of a bit is a *fractional* filter: one run of
//! ten has a filter of one bit for each of its keys, and the others have none.

use super::reads;
use super::stores::{DRAINED, ENTRIES, Opened, Store, Timing, cells, columns as measured_columns, scaled};
use crate::claim::ratio;
use crate::context::{Context, time_ns};
use crate::counters::Counters;
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::KeyspaceOptions;
use esker::options::{FilterPolicy, MemtableKind};

/// Bits a key over all runs, as in the document.
const BITS: [f64; 3] = [0.1, 1.0, 10.0];
const RUNS: u32 = 10;
/// The least size of a filter that is worth asking.
const LEAST_BITS: f64 = 1.0;

pub(super) fn steps(context: &Context<'_>) -> usize {
    BITS.len() * (1 + reads::rounds(context))
}

/// The filter of the run of this number: below [`LEAST_BITS`], of as many runs that the average is `bits`.
fn filter_of_run(bits: f64, run: u32) -> FilterPolicy {
    let filtered_runs = (bits / LEAST_BITS).min(1.0) * f64::from(RUNS);
    if f64::from(run) < filtered_runs.round() {
        FilterPolicy::DEFAULT.with_bits_per_key(bits.max(LEAST_BITS))
    } else {
        FilterPolicy::None
    }
}

struct Filtered {
    bits: f64,
    opened: Opened,
    load_seconds: f64,
}

fn load(context: &mut Context<'_>, bits: f64, entries: u32) -> Result<Filtered> {
    context.step(&format!("{bits} bits a key: loading {entries} entries in {RUNS} runs"));
    let options = KeyspaceOptions::default().set("strategy", "none")?.set("filter_allocation", "uniform")?;
    let store = Store::of(bits.to_string(), options, MemtableKind::default());
    let opened = store.open(context, &format!("bits-{bits}"))?;
    let clock = context.clock();
    let (taken_ns, loaded) = time_ns(&clock, || -> Result<()> {
        for run in 0..RUNS {
            opened.keyspace.update_options(|options| options.filter(filter_of_run(bits, run)))?;
            opened.put(entries / RUNS * run..entries / RUNS * (run + 1))?;
            opened.keyspace.flush()?;
        }
        Ok(opened.database.drain()?)
    });
    loaded?;
    Ok(Filtered { bits, opened, load_seconds: taken_ns / 1e9 })
}

pub(super) fn measure(context: &mut Context<'_>, counters: &Counters) -> Result<Table> {
    let mut columns = vec![Column::key("bits_asked"), Column::key("gets")];
    columns.extend(measured_columns(DRAINED));
    columns.extend([Column::number("get_ns", 0), Column::number("tables_per_get", 2)]);
    let title = "Gets over ten runs by the filters' bits a key, half of the keys absent";
    let mut table = Table::new("filters", title, &columns);
    let entries = scaled(context, ENTRIES);
    let all = BITS.into_iter().map(|bits| load(context, bits, entries)).collect::<Result<Vec<Filtered>>>()?;
    let asked = reads::uniform(entries, 2 * entries, &context.random(5));
    let name = |loaded: &Filtered| format!("{} bits a key", loaded.bits);
    let measured = context.rounds(reads::rounds(context), &all, name, |clock, loaded| {
        let timing = Timing { clock, counters };
        timing.measure(&loaded.opened, loaded.load_seconds, false, || loaded.opened.get(&asked, entries))
    })?;
    for (loaded, samples) in all.iter().zip(measured) {
        let mut row: Vec<Cell> = vec![loaded.bits.to_string().into(), asked.len().into()];
        row.extend(cells(&samples, asked.len() as f64, DRAINED));
        row.push(samples.get(1).map(|seconds| seconds.mean * 1e9 / asked.len() as f64).into());
        row.push(tables_per_get(&loaded.opened).into());
        table.push(row);
    }
    all.into_iter().try_for_each(|loaded| loaded.opened.close())?;
    Ok(table)
}

/// Tables with data that a get searched on average, by a sample of the gets.
fn tables_per_get(opened: &Opened) -> Option<f64> {
    let metrics = opened.database.metrics();
    let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.name == esker::DEFAULT_KEYSPACE)?;
    let reads = &keyspace.amplification.reads;
    ratio(Some(reads.tables_searched as f64), Some(reads.lookups as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The average over the runs is what was asked for, also where it is less than a filter can have.
    #[test]
    fn filters_of_some_runs_have_a_tenth_of_a_bit_on_average() {
        for bits in BITS {
            let sum: f64 = (0..RUNS).map(|run| filter_of_run(bits, run).bits_per_key()).sum();
            assert!((sum / f64::from(RUNS) - bits).abs() < 0.01, "{bits}: {sum}");
        }
        assert_eq!(filter_of_run(0.1, 1), FilterPolicy::None);
        assert_ne!(filter_of_run(0.1, 0), FilterPolicy::None);
    }
}
