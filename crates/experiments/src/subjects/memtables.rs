//! Measures memtables: every kind there is, and crossbeam's skiplist as the baseline.
//!
//! Byron replaced two alternating vectors by the crossbeam skiplist and reports 2.3 against 2.5 s for a
//! million inserts and 28 against 136 s for ten million (sections 2.2 and 3.1): a whole database each time,
//! so mostly merging.

mod databases;
mod findings;
mod parallel;
mod structures;

use crate::claim::{Claim, ratio};
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::keys::{Keys, Shape};
use crate::plot::{Columns, Plot};
use crate::table::{Cell, Column, Table};
use esker::options::MemtableKind;
use esker::parts::memtable::ArenaPool;
use structures::{Structure, VALUE_BYTES};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memtables",
    title: "Memtables: each kind by size and shape of keys, beside the crossbeam skiplist",
    about: "One thread inserts all keys with values of 100 bytes, then looks up to 500,000 of them up in random order, one \
            by one and 32 at a time, and walks over all entries. `checked` gets compare the key with the least and the \
            greatest first; `outside` are keys just below or above these. Kinds of the store write into arenas that were used \
            before, as they do in a database; the crossbeam skiplist, which is no part of it, allocates key, value and \
            node of each entry. `index bytes` are those beyond keys and values; for the skiplist they are computed \
            from its node's layout and the C library's rounding.",
    page: "memtables.md",
    run,
    findings: findings::declare,
};

/// Most keys that are looked up.
const MOST_PROBES: usize = 500_000;

/// Most entries that are inserted in batches, too: the slow kinds take minutes for more.
const MOST_BATCHED: usize = 100_000;

/// A size and a shape to measure, and how often.
#[derive(Clone, Copy, Debug)]
struct Step {
    entries: usize,
    shape: Shape,
    rounds: usize,
}

fn steps(context: &Context<'_>) -> Vec<Step> {
    // Nine kinds take half a minute for a million entries, most of it the balanced trees and skiplists.
    let step = |entries, rounds| move |shape| Step { entries, shape, rounds };
    let few = [Shape::Random, Shape::Sparse];
    match context.pick(0, 1, 2) {
        0 => Shape::ALL.map(step(2_000, 1)).to_vec(),
        1 => Shape::ALL.map(step(20_000, 1)).into_iter().chain(few.map(step(100_000, 1))).collect(),
        _ => {
            let small = Shape::ALL.map(step(100_000, 3)).into_iter().chain(few.map(step(500_000, 3)));
            small.chain([1_000_000, 5_000_000].map(|entries| step(entries, 1)(Shape::Random))).collect()
        }
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let steps = steps(context);
    let subjects = Structure::all();
    let in_structures: usize = steps.iter().map(|step| step.rounds * subjects.len()).sum();
    context.expect_steps(in_structures + databases::steps(context) + parallel::steps(context));
    let table = measure(context, &steps, &subjects)?;
    let filled = databases::measure(context)?;
    let parallel = parallel::measure(context)?;
    let columns = |x, y| Columns { series: "kind", x, y };
    let shapes = context.pick("2000", "20000", "100000");
    let by_size = |name, title: &str, y, label| {
        Plot::lines(name, title, &table, &[("keys", "random")], columns("entries", y))
            .labels("entries", label)
            .logarithmic(true, true)
    };
    let plots = vec![
        by_size("insert", "Memtables: inserting random keys", "insert_ns", "ns an insert"),
        by_size("get", "Memtables: looking random keys up", "get_ns", "ns a get"),
        Plot::bars(
            "database",
            "A database with each kind of memtable: random puts",
            &filled,
            &[],
            Columns { series: "kind", x: "entries", y: "drained_seconds" },
        )
        .labels("entries", "seconds until drained"),
        Plot::bars(
            "shapes",
            "Memtables: gets by shape of keys",
            &table,
            &[("entries", shapes)],
            columns("keys", "get_ns"),
        )
        .labels("shape of keys", "ns a get"),
    ];
    let claims = claims(&table);
    Ok(Outcome {
        setup: vec![
            format!("values of {VALUE_BYTES} bytes; keys: random 16 bytes, sequential 16 digits, dense and sparse user:%010d"),
            "sparse: three of four numbers absent; number: 8 bytes big-endian; path: 36 bytes with long common prefixes".into(),
            format!("rounds in turn: {}", rounds_text(&steps)),
            databases::SETUP.into(),
        ],
        comparisons: databases::comparisons(&filled),
        tables: [table, filled].into_iter().chain(parallel).collect(),
        plots,
        claims,
    })
}

fn rounds_text(steps: &[Step]) -> String {
    let mut text: Vec<String> = Vec::new();
    for step in steps {
        let entry = format!("{} of {} entries", step.rounds, step.entries);
        if text.last() != Some(&entry) {
            text.push(entry);
        }
    }
    text.join(", ")
}

fn measure(context: &mut Context<'_>, steps: &[Step], subjects: &[Structure]) -> Result<Table> {
    let columns = [
        Column::key("kind"),
        Column::key("keys"),
        Column::key("entries"),
        Column::measured("insert_ns", 0),
        Column::measured("batch_insert_ns", 0),
        Column::measured("get_ns", 1),
        Column::measured("multi_get_ns", 0),
        Column::measured("checked_get_ns", 1),
        Column::measured("outside_ns", 1),
        Column::measured("checked_outside_ns", 1),
        Column::measured("scan_ns", 1),
        Column::number("index_bytes", 1),
    ];
    let mut table = Table::new("kinds", "Nanoseconds for an entry", &columns);
    for step in steps {
        let keys = Keys::new(step.shape, step.entries, &context.random(1));
        let probes = keys.drawn(step.entries.min(MOST_PROBES), &context.random(2));
        // One pool for all kinds: an arena goes from one to the next.
        let pool = ArenaPool::new(u64::MAX);
        let name =
            |subject: &Structure| format!("{}, {} {} keys", subject.name(), step.entries, step.shape.name());
        let measured = context.rounds(step.rounds, subjects, name, |clock, subject| {
            subject.measure(clock, &pool, &keys, &probes)
        })?;
        for (subject, samples) in subjects.iter().zip(measured) {
            let mut row: Vec<Cell> =
                vec![subject.name().into(), step.shape.name().into(), step.entries.into()];
            row.extend(samples.into_iter().map(Cell::from));
            table.push(row);
        }
    }
    Ok(table)
}

/// Required speed of the default kind over the crossbeam skiplist (with 500,000 entries).
fn claims(table: &Table) -> Vec<Claim> {
    let default = MemtableKind::default().name();
    let mut claims = Vec::new();
    for (shape, asked) in [("random", 10.0), ("sparse", 6.0)] {
        for (column, what) in [("insert_ns", "insert"), ("get_ns", "get")] {
            let of =
                |kind: &str| table.number(&[("kind", kind), ("keys", shape), ("entries", "500000")], column);
            let what =
                format!("crossbeam SkipMap's time over {default}'s: {what}, {shape} keys, 500,000 entries");
            claims.push(Claim::at_least(asked, what, ratio(of(structures::CROSSBEAM), of(default))));
        }
    }
    claims
}
