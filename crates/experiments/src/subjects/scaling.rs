//! Measures how a database scales: with threads, with the length of ranges, and with the size of the data.
//!
//! CS265 (final report 4.2 and 4.6) has one to sixteen threads, ranges of ten to ten thousand pairs, and data
//! of a million to a billion pairs. Beyond the cores of the machine, which the report prints, more threads
//! measure contention.

mod document;
mod findings;
mod presets;
mod work;

use crate::claim::Claim;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::machine::Machine;
use crate::plot::{Columns, Plot};
use crate::table::{Cell, Column, Table};
use esker::Options;
use esker::parts::env::{FileSystem, StdFileSystem};
use work::Filled;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "scaling",
    title: "Scaling: threads, lengths of ranges and sizes of data",
    about: "Pairs of 8-byte integers, the default options, keys in random order. By threads: an empty database is filled by single \
            puts, another one in batches of a thousand; of the first, drained, present keys are read, and read and overwritten half \
            and half. Threads share the work evenly. By length: ranges from random present keys. By size: a database of each size is \
            filled by one thread and drained; its gets and ranges of a hundred pairs follow. The same follows for CS265's two configurations. What CS265 reports stands beside each \
            row; its machine is another one, so that factors from row to row can be compared, and rates cannot.",
    page: "scaling.md",
    run,
    findings: findings::declare,
};

/// The options of all rows by length and size.
const OPTIONS: &str = "default";
/// Operations that threads can do in one round.
pub(super) const THREAD_WORKLOADS: [&str; 4] =
    ["put", "put in batches of 1,000", "get", "half get, half put"];

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let threads: &[usize] = context.pick(&[1, 2], &[1, 2, 4], &[1, 2, 4, 8, 16]);
    let lengths: &[usize] = context.pick(&[10, 100], &[10, 100, 1_000], &[10, 100, 1_000, 10_000]);
    let sizes: &[u64] =
        context.pick(&[2_000, 4_000], &[20_000, 200_000], &[1_000_000, 10_000_000, 100_000_000]);
    let rounds = context.pick(1, 1, 3);
    context.expect_steps(rounds * threads.len() + 1 + sizes.len() + presets::steps(context));
    let by_threads = by_threads(context, threads, rounds)?;
    let by_length = by_length(context, lengths)?;
    let by_size = by_size(context, sizes)?;
    let presets = presets::measure(context)?;
    let claims = claims(&by_threads);
    let mut comparisons = comparisons(&by_threads, &by_length, &by_size);
    comparisons.extend(presets::comparisons(&presets));
    Ok(Outcome {
        setup: vec![
            format!(
                "the machine runs {} threads at once: rows beyond that measure contention",
                Machine::look().cores
            ),
            "rates end with the last acknowledgement; `drained` ends when flushes and merges have caught up"
                .to_owned(),
        ],
        plots: plots(&by_threads, &by_length, &by_size),
        tables: vec![by_threads, by_length, by_size, presets],
        claims,
        comparisons,
    })
}

fn by_threads(context: &mut Context<'_>, threads: &[usize], rounds: usize) -> Result<Table> {
    let pairs = context.pick(2_000, 100_000, 4_000_000);
    let directory = context.directory("threads")?;
    let name = |count: &usize| format!("{count} threads");
    let measured = context.rounds(rounds, threads, name, |clock, &count| {
        let rates = work::by_threads(&directory, clock, pairs, count)?;
        StdFileSystem.remove_dir_all(&directory)?;
        Ok(rates)
    })?;
    let columns = [
        Column::key("workload"),
        Column::key("threads"),
        Column::measured("per_second", 0),
        Column::number("factor", 2),
        Column::number("document_per_second", 0),
        Column::number("document_factor", 2),
    ];
    let mut table = Table::new("threads", format!("Operations a second by threads, {pairs} pairs"), &columns);
    for (at, workload) in THREAD_WORKLOADS.iter().enumerate() {
        let first = measured.first().and_then(|samples| samples.get(at)).map(|sample| sample.median);
        for (&count, samples) in threads.iter().zip(&measured) {
            let factor = samples.get(at).zip(first).map(|(sample, first)| sample.median / first);
            table.push(vec![
                (*workload).into(),
                count.into(),
                samples.get(at).copied().into(),
                factor.into(),
                document::by_threads(workload, count).into(),
                document::factor(workload, count).into(),
            ]);
        }
    }
    Ok(table)
}

fn by_length(context: &mut Context<'_>, lengths: &[usize]) -> Result<Table> {
    context.step("ranges by their length");
    let pairs = context.pick(4_000, 100_000, 10_000_000);
    let budget_pairs = context.pick(2_000, 200_000, 20_000_000);
    let filled = Filled::new(context, "lengths", Options::default(), pairs)?;
    let columns = [
        Column::key("options"),
        Column::key("length"),
        Column::number("ranges_per_second", 0),
        Column::number("pairs_per_second", 0),
        Column::number("pairs_per_range", 1),
        Column::number("document_ranges_per_second", 0),
        Column::number("document_pairs_per_second", 0),
    ];
    let mut table = Table::new("ranges", format!("Ranges by their length, of {pairs} pairs"), &columns);
    for &length in lengths {
        let ranges = (budget_pairs / length as u64).max(1);
        let (rate, found) = filled.ranges(&context.clock(), ranges, length)?;
        let theirs = document::ranges(length);
        table.push(vec![
            OPTIONS.into(),
            length.into(),
            rate.into(),
            (rate * found).into(),
            found.into(),
            theirs.into(),
            theirs.map(|ranges| ranges * length as f64).into(),
        ]);
    }
    filled.remove()?;
    Ok(table)
}

fn by_size(context: &mut Context<'_>, sizes: &[u64]) -> Result<Table> {
    let columns = [
        Column::key("options"),
        Column::key("pairs"),
        Column::number("puts_per_second", 0),
        Column::number("drained_puts_per_second", 0),
        Column::number("gets_per_second", 0),
        Column::number("ranges_per_second", 0),
        Column::number("tables_per_get", 2),
        Column::number("stored_bytes_per_pair", 2),
        Column::number("write_amplification", 2),
        Column::number("document_puts", 0),
        Column::number("document_gets", 0),
        Column::number("document_ranges", 0),
    ];
    let title = "One thread by the size of the data; ranges of a hundred pairs";
    let mut table = Table::new("sizes", title, &columns);
    let gets = context.pick(1_000, 50_000, 1_000_000);
    for &pairs in sizes {
        context.step(&format!("{pairs} pairs"));
        let filled = Filled::new(context, "sizes", Options::default(), pairs)?;
        let clock = context.clock();
        let get_rate = filled.gets(&clock, gets)?;
        let (range_rate, _) = filled.ranges(&clock, gets / 100, 100)?;
        let facts = filled.facts();
        let mut row: Vec<Cell> = vec![
            OPTIONS.into(),
            pairs.into(),
            filled.puts_per_second.into(),
            filled.drained_puts_per_second.into(),
            get_rate.into(),
            range_rate.into(),
            facts.tables_per_get.into(),
            facts.stored_bytes_per_pair.into(),
            facts.write_amplification.into(),
        ];
        row.extend(document::by_size(pairs).into_iter().map(Cell::from));
        table.push(row);
        filled.remove()?;
    }
    Ok(table)
}

fn plots(by_threads: &Table, by_length: &Table, by_size: &Table) -> Vec<Plot> {
    let of_size = |name, title, y, label| {
        Plot::lines(name, title, by_size, &[], Columns { series: "options", x: "pairs", y })
            .labels("pairs", label)
            .logarithmic(true, true)
    };
    let threads = Columns { series: "workload", x: "threads", y: "per_second" };
    let lengths = Columns { series: "options", x: "length", y: "pairs_per_second" };
    vec![
        Plot::lines("threads", "Operations a second by threads", by_threads, &[], threads)
            .labels("threads", "operations a second")
            .logarithmic(true, true),
        Plot::lines("ranges", "Pairs a second by the length of ranges", by_length, &[], lengths)
            .labels("pairs of a range", "pairs a second")
            .logarithmic(true, true),
        of_size("puts", "Puts a second by the size of the data", "drained_puts_per_second", "puts a second"),
        of_size("gets", "Gets a second by the size of the data", "gets_per_second", "gets a second"),
    ]
}

/// CS265 1.1: a million writes and fifty thousand reads a second.
fn claims(by_threads: &Table) -> Vec<Claim> {
    let of = |workload: &str| by_threads.number(&[("workload", workload), ("threads", "1")], "per_second");
    let [put, batched, get, _] = THREAD_WORKLOADS;
    vec![
        Claim::at_least(1e6, "writes a second of one thread, one by one (CS265 1.1)", of(put)),
        Claim::at_least(1e6, "writes a second of one thread, in batches of 1,000 (CS265 1.1)", of(batched)),
        Claim::at_least(50_000.0, "reads a second of one thread (CS265 1.1)", of(get)),
    ]
}

fn comparisons(by_threads: &Table, by_length: &Table, by_size: &Table) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in THREAD_WORKLOADS {
        for threads in ["2", "4", "8", "16"] {
            let of = |column| by_threads.number(&[("workload", workload), ("threads", threads)], column);
            if let Some(theirs) = of("document_factor") {
                let what = format!("{workload}, {threads} threads over one");
                comparisons.push(Comparison::new("CS265 4.6", what, theirs, of("factor")));
            }
        }
    }
    let quotient = |table: &Table, key: &str, one: &str, other: &str, column: &str| {
        Some(table.number(&[(key, one)], column)? / table.number(&[(key, other)], column)?)
    };
    for length in ["100", "1000", "10000"] {
        let of = |column| quotient(by_length, "length", length, "10", column);
        if let Some(theirs) = of("document_pairs_per_second") {
            let what = format!("pairs a second, ranges of {length} over ranges of 10");
            comparisons.push(Comparison::new("CS265 4.2.3", what, theirs, of("pairs_per_second")));
        }
    }
    for pairs in ["10000000", "100000000"] {
        for (what, ours, theirs) in [
            ("puts", "puts_per_second", "document_puts"),
            ("gets", "gets_per_second", "document_gets"),
            ("ranges of 100", "ranges_per_second", "document_ranges"),
        ] {
            let of = |column| quotient(by_size, "pairs", pairs, "1000000", column);
            if let Some(theirs) = of(theirs) {
                let what = format!("{what} a second, {pairs} pairs over 1000000");
                comparisons.push(Comparison::new("CS265 4.2.4", what, theirs, of(ours)));
            }
        }
    }
    comparisons
}
