//! Reproduces the table of the fractio analysis: a store's operations as shares of a raw skiplist's.
//!
//! The document (an analysis of an LSM tree in Nim, in memory, without a log) finds its tree 9 to 30 times
//! slower than its own skiplist. It compares random writes with sequential insertions, a million entries with
//! a hundred thousand, and its timings include two readings of the clock and the making of key and value.
//! Here the baseline is crossbeam's skiplist, with the same operations on the same entries in the same run,
//! and the cost of timing has a table of its own.

mod findings;
mod latencies;
mod phases;
mod targets;
mod timing;

use crate::claim::Claim;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::statistics::Sample;
use crate::table::{Column, Table};
use esker::options::MemtableKind;
use phases::{Factory, Phase, WORKERS};
use targets::{BATCH, FillData, Raw, Stored, VALUE_BYTES};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fractio",
    title: "The fractio analysis' table: operations of a database as shares of a raw skiplist's",
    about: "Entries of 16 + 100 bytes, all made before anything is timed, are written in order and in random order, one by one and in \
            batches, read, walked over, deleted, inserted and removed at once, and used by 200 threads. The yardstick is the crossbeam \
            skiplist, which keeps what it is given in memory and nothing else; the databases have their default options, one of them with \
            a skiplist for its memtable. A share of 2 is twice as fast as the skiplist.",
    page: "fractio.md",
    run,
    findings: findings::declare,
};

const RAW: &str = "crossbeam-skipmap";
const DEFAULT: &str = "default";
const SKIPLIST: &str = "default, skiplist";
const STORES: [&str; 3] = [RAW, DEFAULT, SKIPLIST];

/// What the document reports, in millions a second: its skiplist and its tree.
const DOCUMENT: [(Phase, Option<f64>, Option<f64>); 9] = [
    (Phase::SequentialWrites, Some(8.8), Some(0.969)),
    // It compares these with its skiplist's sequential insertions, having no random ones.
    (Phase::RandomWrites, None, Some(0.293)),
    (Phase::SequentialReads, Some(17.6), Some(1.2)),
    (Phase::RandomReads, Some(4.4), Some(0.268)),
    (Phase::Contains, None, Some(0.274)),
    (Phase::Iteration, Some(381.0), None),
    (Phase::Deletes, None, Some(1.0)),
    (Phase::InsertAndRemove, Some(8.8), None),
    (Phase::Mixed, Some(15.0), None),
];

fn sizes(context: &Context<'_>) -> &'static [usize] {
    context.pick(&[1_000, 2_000], &[10_000, 50_000], &[100_000, 1_000_000])
}

fn skiplist() -> MemtableKind {
    MemtableKind::ALL.into_iter().find(|kind| kind.name() == "skiplist").unwrap_or_default()
}

fn rounds(context: &Context<'_>) -> usize {
    context.pick(1, 2, 3)
}

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let rounds = rounds(context);
    let sizes = sizes(context);
    let mixed = context.pick(4_000, 50_000, 2_000_000);
    context.expect_steps(rounds * (sizes.len() * STORES.len() + timing::STEPS_PER_ROUND) + latencies::STEPS);
    let mut table = operations_table();
    let (mut timing, mut latencies) = (None, None);
    for (at, &entries) in sizes.iter().enumerate() {
        let data = FillData::new(entries, &context.random(at as u64));
        measure(context, &mut table, &data, mixed, rounds)?;
        if timing.is_none() {
            timing = Some(timing::measure(context, &data, rounds)?);
        }
        if at + 1 == sizes.len() {
            latencies = Some(latencies::measure(context, &data, skiplist())?);
        }
    }
    let largest = sizes.last().map(usize::to_string).unwrap_or_default();
    let setup = setup(rounds, mixed);
    let plots = plots(&table, &largest);
    let comparisons = comparisons(&table, &largest);
    let claims = claims(&table, &largest);
    let tables = std::iter::once(table).chain(timing).chain(latencies).collect();
    Ok(Outcome { setup, tables, plots, claims, comparisons })
}

fn setup(rounds: usize, mixed: usize) -> Vec<String> {
    vec![
        format!("entries: keys of 16 digits, values of {VALUE_BYTES} random bytes; memory budget 1 GiB, otherwise the defaults; rounds in turn: {rounds}"),
        "made beforehand: keys, values and orders; the skiplist's are allocated beforehand, too, and moved into it, the databases copy theirs"
            .to_owned(),
        "durability: every write of a database is in its log's mapped file when it is acknowledged (`process`), and in tables later; the \
         document's tree writes no log, and a skiplist keeps nothing"
            .to_owned(),
        "drained: of writes, the rate until flushes and compactions that they caused have caught up; of reads, the rate after that, when \
         everything lies in tables. The other rate of reads is that right after the last write, when what memtables hold is still there"
            .to_owned(),
        format!("batched writes: in order, {BATCH} entries to a batch, beside the skiplist's one by one; insert+remove: of random entries, two operations each"),
        format!(
            "mixed: {WORKERS} threads, {mixed} operations together, 55 % gets and the rest inserts and removals, over all entries"
        ),
        "every read is checked, every state is walked over".to_owned(),
        "cost of timing: with the smaller number of entries; latencies: with the larger one, reads and deletes of a drained database".to_owned(),
    ]
}

fn operations_table() -> Table {
    let columns = [
        Column::key("operation"),
        Column::key("entries"),
        Column::key("store"),
        Column::measured("millions_per_second", 2),
        Column::measured("drained", 2),
        Column::number("share_of_skiplist", 2),
        Column::number("drained_share", 2),
        Column::number("document", 2),
    ];
    Table::new("operations", "Millions of operations a second, and as shares of the raw skiplist's", &columns)
}

/// Appends the rows of one number of entries.
fn measure(
    context: &mut Context<'_>,
    table: &mut Table,
    data: &FillData,
    mixed: usize,
    rounds: usize,
) -> Result<()> {
    let directory = context.directory("fractio")?;
    let skiplist = skiplist();
    let name = |store: &&str| format!("{store}: {} entries", data.count());
    let measured = context.rounds(rounds, &STORES, name, |clock, store| {
        if *store == RAW {
            return phases::measure(
                clock,
                data,
                mixed,
                &Factory { make: || Ok(Raw::new(data)), close: |_| Ok(()) },
            );
        }
        let memtable = if *store == SKIPLIST { skiplist } else { MemtableKind::default() };
        let make = || Stored::open(data, &directory, memtable);
        phases::measure(clock, data, mixed, &Factory { make, close: Stored::close })
    })?;
    for phase in Phase::ALL {
        let of = |store: usize, drained: usize| -> Option<Sample> {
            let sample = *measured.get(store)?.get(2 * phase as usize + drained)?;
            sample.median.is_finite().then_some(sample)
        };
        // The skiplist has no batches: batches of the others are compared with its insertions in order.
        let yardstick = of(0, 0).or(measured.first().and_then(|samples| samples.first().copied()));
        for (at, store) in STORES.into_iter().enumerate() {
            let share = |sample: Option<Sample>| Some(sample?.median / yardstick?.median);
            let (rate, drained) = (of(at, 0), of(at, 1).filter(|_| store != RAW));
            if rate.is_none() {
                continue;
            }
            table.push(vec![
                phase.name().into(),
                data.count().into(),
                store.into(),
                rate.into(),
                drained.into(),
                share(rate).into(),
                share(drained).into(),
                document(phase, store).into(),
            ]);
        }
    }
    Ok(())
}

/// The document's figure for its skiplist, or for its tree beside the default.
fn document(phase: Phase, store: &str) -> Option<f64> {
    let &(_, skiplist, tree) = DOCUMENT.iter().find(|(of, ..)| *of == phase)?;
    match store {
        RAW => skiplist,
        DEFAULT => tree,
        _ => None,
    }
}

fn plots(table: &Table, largest: &str) -> Vec<Plot> {
    let columns = |y| Columns { series: "store", x: "operation", y };
    let wanted = [("entries", largest)];
    vec![
        Plot::bars(
            "operations",
            "Operations as they are acknowledged, the larger number of entries",
            table,
            &wanted,
            columns("millions_per_second"),
        )
        .labels("operation", "millions a second")
        .logarithmic(false, true),
        Plot::bars(
            "shares",
            "Shares of the raw skiplist's rate, the larger number of entries",
            table,
            &wanted,
            columns("share_of_skiplist"),
        )
        .labels("operation", "times the skiplist's rate"),
    ]
}

/// The least share of the skiplist's rate that the document calls acceptable for a tree with persistence: it
/// aims at a distance of two to three times.
const TARGET_SHARE: f64 = 1.0 / 3.0;

/// The operations that it aims at, with what it expects of each after its fixes, in millions a second.
const EXPECTED: [(Phase, f64); 4] = [
    (Phase::SequentialWrites, 5.5),
    (Phase::RandomWrites, 2.5),
    (Phase::SequentialReads, 9.0),
    (Phase::RandomReads, 3.5),
];

/// The document's aim, of the default, as writes are acknowledged and as tables are read.
fn claims(table: &Table, largest: &str) -> Vec<Claim> {
    let claim = |(phase, _): (Phase, f64)| {
        let is_read = matches!(phase, Phase::SequentialReads | Phase::RandomReads);
        let column = if is_read { "drained_share" } else { "share_of_skiplist" };
        let wanted = [("operation", phase.name()), ("entries", largest), ("store", DEFAULT)];
        let what = format!("{}: within 3 times of the raw skiplist (1/3 of its rate)", phase.name());
        Claim::at_least(TARGET_SHARE, what, table.number(&wanted, column))
    };
    EXPECTED.into_iter().map(claim).collect()
}

/// The document's tree over its skiplist, and the default over ours.
fn comparisons(table: &Table, largest: &str) -> Vec<Comparison> {
    let share = |phase: Phase| {
        let wanted = [("operation", phase.name()), ("entries", largest), ("store", DEFAULT)];
        table.number(&wanted, "share_of_skiplist")
    };
    let over_sequential = || {
        let rate = |phase: Phase, store| {
            table.number(
                &[("operation", phase.name()), ("entries", largest), ("store", store)],
                "millions_per_second",
            )
        };
        crate::claim::ratio(rate(Phase::RandomWrites, DEFAULT), rate(Phase::SequentialWrites, RAW))
    };
    let compare = |what: &str, theirs, ours| Comparison::new("fractio, results", what, theirs, ours);
    vec![
        compare("sequential writes, tree over skiplist", 0.969 / 8.8, share(Phase::SequentialWrites)),
        compare(
            "random writes of the tree over sequential ones of the skiplist",
            0.293 / 8.8,
            over_sequential(),
        ),
        compare("sequential reads, tree over skiplist", 1.2 / 17.6, share(Phase::SequentialReads)),
        compare("random reads, tree over skiplist", 0.268 / 4.4, share(Phase::RandomReads)),
        compare(
            "sequential writes, as expected after its fixes, over skiplist",
            EXPECTED[0].1 / 8.8,
            share(Phase::SequentialWrites),
        ),
        compare(
            "sequential reads, as expected after its fixes, over skiplist",
            EXPECTED[2].1 / 17.6,
            share(Phase::SequentialReads),
        ),
        compare(
            "random reads, as expected after its fixes, over skiplist",
            EXPECTED[3].1 / 4.4,
            share(Phase::RandomReads),
        ),
    ]
}
