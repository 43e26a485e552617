//! Measures the cost of the document's own timing, which reads the clock before and after each operation and
//! makes key and value in between.

use super::targets::{FillData, Raw, Stored, Target, VALUE_BYTES, must_find};
use super::{DEFAULT, RAW};
use crate::context::{Context, time_ns};
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::options::MemtableKind;
use esker::parts::env::{Clock, SystemClock};
use std::hint::black_box;

pub(super) const STEPS_PER_ROUND: usize = 2;

/// Nanoseconds of an operation, by how it is timed.
pub(super) fn measure(context: &mut Context<'_>, data: &FillData, rounds: usize) -> Result<Table> {
    let columns = [
        Column::key("store"),
        Column::key("operation"),
        Column::measured("as_a_whole_ns", 0),
        Column::measured("each_timed_ns", 0),
        Column::measured("each_timed_and_made_ns", 0),
        Column::measured("two_clock_readings_ns", 0),
        Column::measured("making_ns", 0),
    ];
    let title = "What timing costs: an operation in a loop that is timed as a whole, with two readings of the clock around each, and with \
                 its key and value made between them";
    let mut table = Table::new("timing", title, &columns);
    let directory = context.directory("timing")?;
    let name = |store: &&str| format!("{store}: cost of timing");
    let measured = context.rounds(rounds, &[RAW, DEFAULT], name, |clock, store| {
        if *store == RAW {
            return of(clock, data, || Ok(Raw::new(data)), |_| Ok(()));
        }
        let open = || Stored::open(data, &directory, MemtableKind::default());
        of(clock, data, open, Stored::close)
    })?;
    for (store, samples) in [RAW, DEFAULT].into_iter().zip(measured) {
        let [writes @ .., clock, making] = &samples[..] else { continue };
        for (operation, numbers) in ["sequential writes", "random reads"].into_iter().zip(writes.chunks(3)) {
            let mut row: Vec<Cell> = vec![store.into(), operation.into()];
            row.extend(numbers.iter().map(|&number| Cell::from(number)));
            row.extend([(*clock).into(), (*making).into()]);
            table.push(row);
        }
    }
    Ok(table)
}

/// Three times of writes, three of reads, that of two readings of the clock, and that of making a key and a
/// value.
fn of<'a, T: Target<'a>>(
    clock: &SystemClock,
    data: &'a FillData,
    make: impl Fn() -> Result<T>,
    close: impl Fn(T) -> Result<()>,
) -> Result<Vec<f64>> {
    let mut numbers = Vec::new();
    let mut last = None;
    for way in TimingMethod::ALL {
        if let Some(target) = last.take() {
            close(target)?;
        }
        let target = make()?;
        let entries: Vec<(u32, T::Entry)> =
            data.ascending.iter().map(|&number| (number, target.prepare(number))).collect();
        numbers.push(each(clock, way, data.count(), entries, |(_, entry)| target.insert(entry))?);
        target.drain()?;
        last = Some(target);
    }
    if let Some(target) = last {
        for way in TimingMethod::ALL {
            let mut found = 0;
            let order = data.shuffled.clone();
            numbers.push(each(clock, way, data.count(), order, |number| {
                found += usize::from(target.get(number)?);
                Ok(())
            })?);
            must_find("timed reads", data.count(), found)?;
        }
        close(target)?;
    }
    let count = data.count();
    numbers.push(each(clock, TimingMethod::EachTimed, count, vec![(); count], |()| Ok(()))?);
    let (making_ns, ()) = time_ns(clock, || (0..count as u64).for_each(make_entry));
    numbers.push(making_ns / count as f64);
    Ok(numbers)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TimingMethod {
    AsAWhole,
    EachTimed,
    EachTimedAndMade,
}

impl TimingMethod {
    const ALL: [TimingMethod; 3] =
        [TimingMethod::AsAWhole, TimingMethod::EachTimed, TimingMethod::EachTimedAndMade];
}

/// Nanoseconds of an operation, everything counted that the way of timing adds.
fn each<I>(
    clock: &SystemClock,
    way: TimingMethod,
    count: usize,
    items: Vec<I>,
    mut operation: impl FnMut(I) -> Result<()>,
) -> Result<f64> {
    let (taken_ns, done) = time_ns(clock, || -> Result<()> {
        let mut longest_ns = 0;
        for (number, item) in items.into_iter().enumerate() {
            if way == TimingMethod::AsAWhole {
                operation(item)?;
                continue;
            }
            let start_ns = clock.monotonic_ns();
            if way == TimingMethod::EachTimedAndMade {
                make_entry(number as u64);
            }
            operation(item)?;
            longest_ns = longest_ns.max(clock.monotonic_ns() - start_ns);
        }
        black_box(longest_ns);
        Ok(())
    });
    done?;
    Ok(taken_ns / count as f64)
}

/// Makes a key and a value the naive way: formatted and allocated.
fn make_entry(number: u64) {
    black_box((format!("seq_{number:012}"), vec![b'v'; VALUE_BYTES]));
}
