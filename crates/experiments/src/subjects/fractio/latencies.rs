//! Times operations one by one, as the document's loop does: it tracks the latency of each, and prints none.
//!
//! Two readings of the clock are in each figure; the table of timing says what they take.

use super::phases::Phase;
use super::targets::{FillData, Raw, Stored, Target, must_find};
use super::{RAW, STORES};
use crate::context::Context;
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::options::MemtableKind;
use esker::parts::env::{Clock, SystemClock};

pub(super) const STEPS: usize = STORES.len();

/// Operations that the document times one by one.
const TIMED: [Phase; 6] = [
    Phase::SequentialWrites,
    Phase::RandomWrites,
    Phase::SequentialReads,
    Phase::RandomReads,
    Phase::Contains,
    Phase::Deletes,
];
/// Shares of the operations that are at most as slow as a column's figure.
const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// Nanoseconds of single operations: the mean, and by the share of operations that take no longer.
pub(super) fn measure(context: &mut Context<'_>, data: &FillData, skiplist: MemtableKind) -> Result<Table> {
    let columns = [
        Column::key("operation"),
        Column::key("entries"),
        Column::key("store"),
        Column::number("mean_ns", 0),
        Column::number("half_ns", 0),
        Column::number("percent_99_ns", 0),
        Column::number("percent_99_9_ns", 0),
        Column::number("longest_ns", 0),
    ];
    let title = "Nanoseconds of single operations, two readings of the clock among them";
    let mut table = Table::new("latencies", title, &columns);
    let directory = context.directory("latencies")?;
    for store in STORES {
        context.step(&format!("{store}: latencies"));
        let clock = context.clock();
        let found = if store == RAW {
            of(&clock, data, || Ok(Raw::new(data)), |_| Ok(()))?
        } else {
            let memtable = if store == super::SKIPLIST { skiplist } else { MemtableKind::default() };
            of(&clock, data, || Stored::open(data, &directory, memtable), Stored::close)?
        };
        for (phase, mut latencies) in TIMED.into_iter().zip(found) {
            let mut row: Vec<Cell> = vec![phase.name().into(), data.count().into(), store.into()];
            let sum: u64 = latencies.iter().sum();
            row.push((sum as f64 / latencies.len() as f64).into());
            latencies.sort_unstable();
            row.extend(SHARES.map(|share| Cell::from(at_share(&latencies, share))));
            table.push(row);
        }
    }
    Ok(table)
}

/// The least of the sorted figures that so large a share does not exceed.
fn at_share(sorted: &[u64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map(|&ns| ns as f64)
}

/// The latencies of all operations, in the order of [`TIMED`].
fn of<'a, T: Target<'a>>(
    clock: &SystemClock,
    data: &'a FillData,
    make: impl Fn() -> Result<T>,
    close: impl Fn(T) -> Result<()>,
) -> Result<[Vec<u64>; TIMED.len()]> {
    let target = make()?;
    let random_writes = writes(clock, &target, &data.shuffled)?;
    close(target)?;
    let target = make()?;
    let sequential_writes = writes(clock, &target, &data.ascending)?;
    target.drain()?;
    let sequential = reads(clock, &data.ascending, "sequential reads", |number| target.get(number))?;
    let random = reads(clock, &data.shuffled, "random reads", |number| target.get(number))?;
    let contains = reads(clock, &data.shuffled, "contains", |number| target.contains(number))?;
    let deletes = each(clock, data.ascending.iter().copied(), |number| target.remove(number))?;
    must_find("a walk after all was deleted", 0, target.walk()?)?;
    close(target)?;
    Ok([sequential_writes, random_writes, sequential, random, contains, deletes])
}

fn writes<'a, T: Target<'a>>(clock: &SystemClock, target: &T, order: &[u32]) -> Result<Vec<u64>> {
    let entries: Vec<T::Entry> = order.iter().map(|&number| target.prepare(number)).collect();
    each(clock, entries.into_iter(), |entry| target.insert(entry))
}

fn reads(
    clock: &SystemClock,
    order: &[u32],
    what: &str,
    read: impl Fn(u32) -> Result<bool>,
) -> Result<Vec<u64>> {
    let mut found = 0;
    let latencies = each(clock, order.iter().copied(), |number| {
        found += usize::from(read(number)?);
        Ok(())
    })?;
    must_find(what, order.len(), found)?;
    Ok(latencies)
}

fn each<I>(
    clock: &SystemClock,
    items: impl ExactSizeIterator<Item = I>,
    mut operation: impl FnMut(I) -> Result<()>,
) -> Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(items.len());
    for item in items {
        let start_ns = clock.monotonic_ns();
        operation(item)?;
        latencies.push(clock.monotonic_ns() - start_ns);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_operations_takes_no_longer_than_its_figure() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!(SHARES.map(|share| at_share(&sorted, share)), [500.0, 990.0, 999.0, 1000.0].map(Some));
        assert_eq!(at_share(&[7], 0.5), Some(7.0));
        assert_eq!(at_share(&[], 0.5), None);
    }
}
