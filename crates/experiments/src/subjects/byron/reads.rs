//! Measures gets and ranges on databases that are loaded once and read in rounds.

use super::document;
use super::stores::{
    DOCUMENT_COLUMN, DRAINED, ENTRIES, Opened, Store, Timing, cells, columns as measured_columns, key_of,
    must_be, scaled, value_of,
};
use crate::context::Context;
use crate::counters::Counters;
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::parts::env::SeededRandom;

pub(super) const UNIFORM: &str = "uniform";
const SKEWED: &str = "skew 0.2";
const MOSTLY_ABSENT: &str = "90 % absent";
pub(super) const GAUSSIAN: &str = "Gaussian";

/// A skewed get repeats an earlier one with this probability, in percent.
const REPEATED_PERCENT: u64 = 20;
/// A repeated get repeats one of so many last ones.
const REMEMBERED: usize = 1000;

const GETS: [u32; 4] = [10_000, 100_000, 1_000_000, 2_500_000];
/// Puts of the mixed workload, which has ten times as many gets.
const MIXED_PUTS: u32 = 100_000;
const MIXED_GETS: u32 = 1_000_000;
const RANGES: u32 = 50_000;
const RANGE_ENTRIES: usize = 100;

pub(super) fn rounds(context: &Context<'_>) -> usize {
    context.pick(1, 3, 3)
}

struct Loaded {
    store: Store,
    opened: Opened,
    entries: u32,
    load_seconds: f64,
}

impl Loaded {
    /// Loads a database of each kind, which is a step for each.
    fn all(context: &mut Context<'_>, stores: Vec<Store>, entries: u32) -> Result<Vec<Loaded>> {
        let clock = context.clock();
        let mut loaded = Vec::new();
        for (at, store) in stores.into_iter().enumerate() {
            context.step(&format!("{}: loading {entries} entries", store.name));
            let opened = store.open(context, &format!("read-{entries}-{at}"))?;
            let load_seconds = opened.load(&clock, entries)?;
            loaded.push(Loaded { store, opened, entries, load_seconds });
        }
        Ok(loaded)
    }
}

fn close(all: Vec<Loaded>) -> Result<()> {
    all.into_iter().try_for_each(|loaded| loaded.opened.close())
}

/// So many numbers below `below`, each as likely as the others.
pub(super) fn uniform(count: u32, below: u32, random: &SeededRandom) -> Vec<u32> {
    (0..count).map(|_| random.below(u64::from(below)) as u32).collect()
}

/// The same, but some are repetitions of recent ones.
fn skewed(count: u32, below: u32, random: &SeededRandom) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let remembered = numbers.len().min(REMEMBERED);
        let number = if remembered > 0 && random.below(100) < REPEATED_PERCENT {
            numbers[numbers.len() - 1 - random.below(remembered as u64) as usize]
        } else {
            random.below(u64::from(below)) as u32
        };
        numbers.push(number);
    }
    numbers
}

/// Places around the middle, with an eighth of all as standard deviation: the sum of twelve uniform numbers
/// is nearly normal and has a deviation of one.
fn gaussian(count: u32, below: u32, random: &SeededRandom) -> Vec<u32> {
    const STEPS: u64 = 1 << 20;
    let deviations = || (0..12).map(|_| random.below(STEPS) as f64).sum::<f64>() / STEPS as f64 - 6.0;
    let place = |_| f64::from(below) * (0.5 + deviations() / 8.0);
    (0..count).map(place).map(|place| (place.max(0.0) as u32).min(below.saturating_sub(1))).collect()
}

/// Gets in a table of the document.
struct Gets {
    distribution: &'static str,
    puts: u32,
    asked: Vec<u32>,
    document: Option<f64>,
}

pub(super) fn gets_steps(context: &Context<'_>) -> usize {
    2 * 2 + rounds(context) * 2 * (2 * GETS.len() + 1)
}

pub(super) fn gets(context: &mut Context<'_>, counters: &Counters) -> Result<Table> {
    let mut columns =
        vec![Column::key("store"), Column::key("keys_asked"), Column::key("entries"), Column::key("gets")];
    columns.extend(measured_columns(DRAINED));
    columns.push(DOCUMENT_COLUMN);
    let mut table = Table::new("gets", "Gets, one by one, by number and distribution", &columns);
    let entries = scaled(context, ENTRIES);
    let is_full = entries == ENTRIES;
    let mut workloads = Vec::new();
    for (at, count) in GETS.into_iter().enumerate() {
        let (count, purpose) = (scaled(context, count), 10 * (at as u64 + 1));
        let document = document::seconds(document::GETS, count).filter(|_| is_full);
        let uniform = uniform(count, entries, &context.random(purpose));
        workloads.push(Gets { distribution: UNIFORM, puts: entries, asked: uniform, document });
        let asked = skewed(count, entries, &context.random(purpose + 1));
        workloads.push(Gets { distribution: SKEWED, puts: entries, asked, document: None });
    }
    measure(context, counters, &mut table, entries, &workloads)?;
    let (puts, count) = (scaled(context, MIXED_PUTS), scaled(context, MIXED_GETS));
    let asked = uniform(count, count, &context.random(1));
    let document = document::seconds(document::MIXED, count).filter(|_| is_full);
    let mixed = [Gets { distribution: MOSTLY_ABSENT, puts, asked, document }];
    measure(context, counters, &mut table, puts, &mixed)?;
    Ok(table)
}

/// Appends a row for each store and workload.
fn measure(
    context: &mut Context<'_>,
    counters: &Counters,
    table: &mut Table,
    entries: u32,
    workloads: &[Gets],
) -> Result<()> {
    let all = Loaded::all(context, Store::both()?, entries)?;
    let pairs: Vec<(&Loaded, &Gets)> =
        all.iter().flat_map(|loaded| workloads.iter().map(move |gets| (loaded, gets))).collect();
    let name = |(loaded, gets): &(&Loaded, &Gets)| {
        format!("{}: {} gets, {}", loaded.store.name, gets.asked.len(), gets.distribution)
    };
    let measured = context.rounds(rounds(context), &pairs, name, |clock, (loaded, gets)| {
        let timing = Timing { clock, counters };
        timing.measure(&loaded.opened, loaded.load_seconds, false, || {
            loaded.opened.get(&gets.asked, loaded.entries)
        })
    })?;
    for ((loaded, gets), samples) in pairs.into_iter().zip(measured) {
        let mut row: Vec<Cell> = vec![
            loaded.store.name.as_str().into(),
            gets.distribution.into(),
            u64::from(gets.puts).into(),
            gets.asked.len().into(),
        ];
        row.extend(cells(&samples, gets.asked.len() as f64, DRAINED));
        row.push(gets.document.into());
        table.push(row);
    }
    close(all)
}

pub(super) fn ranges_steps(context: &Context<'_>) -> usize {
    2 + rounds(context) * 2 * 2
}

pub(super) fn ranges(context: &mut Context<'_>, counters: &Counters) -> Result<Table> {
    let mut columns = vec![
        Column::key("store"),
        Column::key("starts"),
        Column::key("ranges"),
        Column::key("range_entries"),
    ];
    columns.extend(measured_columns(DRAINED));
    columns.push(DOCUMENT_COLUMN);
    let mut table = Table::new("ranges", "Ranges of a hundred entries", &columns);
    let (entries, count) = (scaled(context, ENTRIES), scaled(context, RANGES));
    let all = Loaded::all(context, Store::both()?, entries)?;
    let mut sorted: Vec<(u32, u32)> =
        (0..entries).map(|number| (u32::from_be_bytes(key_of(number)), number)).collect();
    sorted.sort_unstable();
    let places = entries.saturating_sub(RANGE_ENTRIES as u32) + 1;
    let starts = [
        (GAUSSIAN, gaussian(count, places, &context.random(3))),
        (UNIFORM, uniform(count, places, &context.random(4))),
    ];
    let pairs: Vec<(&Loaded, &(&str, Vec<u32>))> =
        all.iter().flat_map(|loaded| starts.iter().map(move |starts| (loaded, starts))).collect();
    let name = |(loaded, starts): &(&Loaded, &(&str, Vec<u32>))| {
        format!("{}: {} ranges", loaded.store.name, starts.0)
    };
    let measured = context.rounds(rounds(context), &pairs, name, |clock, (loaded, starts)| {
        let timing = Timing { clock, counters };
        timing.measure(&loaded.opened, loaded.load_seconds, false, || {
            starts.1.iter().try_for_each(|&place| range(&loaded.opened, &sorted[place as usize..]))
        })
    })?;
    for ((loaded, (distribution, starts)), samples) in pairs.into_iter().zip(measured) {
        let mut row: Vec<Cell> = vec![
            loaded.store.name.as_str().into(),
            (*distribution).into(),
            starts.len().into(),
            RANGE_ENTRIES.into(),
        ];
        row.extend(cells(&samples, (starts.len() * RANGE_ENTRIES) as f64, DRAINED));
        let document = document::REPORTED
            .iter()
            .find(|row| entries == ENTRIES && row.table == document::RANGES && row.row == *distribution);
        row.push(document.map(|row| row.numbers[3]).into());
        table.push(row);
    }
    close(all)?;
    Ok(table)
}

/// A hundred entries from the first of `expected` on, each compared.
fn range(opened: &Opened, expected: &[(u32, u32)]) -> Result<()> {
    let first = expected.first().map_or(0, |&(key, _)| key);
    let mut seen = 0;
    let entries = opened.keyspace.range(first.to_be_bytes()..).take(RANGE_ENTRIES);
    for (entry, &(key, number)) in entries.zip(expected) {
        let (found, value) = entry?;
        let is_right = found[..] == key.to_be_bytes() && value[..] == value_of(number);
        must_be(is_right, "a range's step", number)?;
        seen += 1;
    }
    must_be(seen == RANGE_ENTRIES.min(expected.len()), "the length of a range", first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_skewed_gets_repeats() {
        let numbers = skewed(20_000, 1 << 30, &SeededRandom::new(1));
        let distinct: std::collections::BTreeSet<&u32> = numbers.iter().collect();
        let repeated = numbers.len() - distinct.len();
        assert!((3_600..4_400).contains(&repeated), "{repeated}");
    }

    #[test]
    fn gaussian_starts_lie_around_the_middle() {
        let places = gaussian(10_000, 8_000, &SeededRandom::new(2));
        let near = places.iter().filter(|&&place| (3_000..5_000).contains(&place)).count();
        // 68 % within one deviation.
        assert!((6_500..7_200).contains(&near), "{near}");
        assert!(places.iter().all(|&place| place < 8_000));
    }
}
