//! CS265's configuration by default and the one that it found best (4.7.1), beside the default options here.

use super::work::Filled;
use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::statistics::Sample;
use crate::table::{Cell, Column, Table};
use esker::Options;
use esker::parts::env::SystemClock;

const BASE: &str = "cs265";
const BEST: &str = "cs265-optimal";
const DEFAULT: &str = "default";
pub(super) const NAMES: [&str; 3] = [BASE, BEST, DEFAULT];

/// The report's gains of the best configuration, in the middle of what it prints.
const GAINS: [(&str, &str, f64); 3] = [
    ("puts", "puts_per_second", 1.125),
    ("gets", "gets_per_second", 1.175),
    ("ranges of 100", "ranges_per_second", 1.575),
];

fn options(name: &str) -> Result<Options> {
    Ok(if name == DEFAULT { Options::default() } else { Options::preset(name)? })
}

fn rounds(context: &Context<'_>) -> usize {
    context.pick(1, 1, 3)
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    rounds(context) * NAMES.len()
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let pairs = context.pick(3_000, 50_000, 4_000_000);
    let gets = context.pick(1_000, 20_000, 1_000_000);
    let directory = context.directory("presets")?;
    let name = |name: &&str| format!("{pairs} pairs with {name}");
    let measured = context.rounds(rounds(context), &NAMES, name, |clock, &name| {
        let filled = Filled::open_in(&directory, clock, options(name)?, pairs)?;
        let numbers = numbers(&filled, clock, gets)?;
        filled.remove()?;
        Ok(numbers)
    })?;
    let columns = [
        Column::key("options"),
        Column::measured("puts_per_second", 0),
        Column::measured("drained_puts_per_second", 0),
        Column::measured("gets_per_second", 0),
        Column::measured("ranges_per_second", 0),
        Column::number("tables_per_get", 2),
        Column::number("stored_bytes_per_pair", 2),
        Column::number("write_amplification", 2),
    ];
    let title = format!("CS265's configurations and the default, {pairs} pairs, one thread");
    let mut table = Table::new("presets", title, &columns);
    for (name, samples) in NAMES.into_iter().zip(measured) {
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(samples.into_iter().map(|sample: Sample| Cell::from(sample)));
        table.push(row);
    }
    Ok(table)
}

/// A row's numbers, in the order of the columns.
fn numbers(filled: &Filled, clock: &SystemClock, gets: u64) -> Result<Vec<f64>> {
    let get_rate = filled.gets(clock, gets)?;
    let (range_rate, _) = filled.ranges(clock, gets / 100, 100)?;
    let facts = filled.facts();
    Ok(vec![
        filled.puts_per_second,
        filled.drained_puts_per_second,
        get_rate,
        range_rate,
        facts.tables_per_get.unwrap_or(0.0),
        facts.stored_bytes_per_pair,
        facts.write_amplification.unwrap_or(0.0),
    ])
}

pub(super) fn comparisons(table: &Table) -> Vec<Comparison> {
    let of = |name: &str, column: &str| table.number(&[("options", name)], column);
    let compare = |(what, column, theirs): (&str, &str, f64)| {
        let ours = ratio(of(BEST, column), of(BASE, column));
        Comparison::new("CS265 4.7.1", format!("{what} a second, {BEST} over {BASE}"), theirs, ours)
    };
    GAINS.into_iter().map(compare).collect()
}
