//! Measures block indexes ("fence pointers"): every kind there is, and a binary search of an array.
//!
//! CS265 compares a sorted array with what it calls the Eytzinger layout (sections 2.3.2 and 4.4): 43 to 66 %
//! less time between ten thousand and ten million entries, 59 % more speed for points and 67 % for ranges,
//! with the memory of the array. The order that its text gives, "04261537", is that of reversed bits and not
//! Eytzinger's; the layout that is measured here under that name is the breadth-first order of a binary
//! search tree.

mod findings;
mod search;

use crate::claim::{Claim, ratio};
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::table::{Cell, Column, Table};
use esker::parts::sst::IndexKind;
use search::{BASELINE, IndexKeyKind, IndexProbes, SearchedIndex};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "indexes",
    title: "Block indexes: each kind's points, ranges and memory, beside a binary search of key heads",
    about: "An index has an entry for each block of a table, the least key of the block, and finds the block that a key falls \
            into. The yardstick is a binary search of a contiguous array of eight-byte heads: the eight bytes behind what all \
            entries have in common, and nothing else. Points are random keys between the entries; independent ones may \
            overlap in the processor, dependent ones wait for the answer before. A range is found by its two ends; how much \
            lies between does not matter to an index, but how far its ends are apart does to caches. Bytes include entries \
            and the places of blocks; of the yardstick, heads alone.",
    page: "indexes.md",
    run,
    findings: findings::declare,
};

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let sizes: &[usize] =
        context.pick(&[1_000], &[10_000, 100_000], &[10_000, 100_000, 1_000_000, 10_000_000]);
    let rounds = context.pick(1, 1, 5);
    let kinds = IndexKind::ALL.len() + 1;
    context.expect_steps(IndexKeyKind::ALL.len() * sizes.len() * (1 + rounds * kinds));
    let (mut points, mut ranges) = (points_table(), ranges_table());
    for key_kind in IndexKeyKind::ALL {
        for &entries in sizes {
            context.step(&format!("building all kinds over {entries} {} keys", key_kind.name()));
            measure(context, key_kind, entries, rounds, &mut points, &mut ranges)?;
        }
    }
    let claims = claims(&points);
    let comparisons = comparisons(&points, &ranges);
    let columns = Columns { series: "kind", x: "entries", y: "dependent_ns" };
    let largest = context.pick("1000", "100000", "1000000");
    let plots = vec![
        Plot::lines(
            "points",
            "Block indexes: points, each waiting for the last",
            &points,
            &[("keys", "random")],
            columns,
        )
        .labels("entries of the index", "ns a search")
        .logarithmic(true, true),
        Plot::lines(
            "independent",
            "Block indexes: points that overlap",
            &points,
            &[("keys", "random")],
            Columns { y: "independent_ns", ..columns },
        )
        .labels("entries of the index", "ns a search")
        .logarithmic(true, true),
        Plot::bars(
            "memory",
            "Block indexes: bytes an entry",
            &points,
            &[("entries", largest)],
            Columns { series: "keys", x: "kind", y: "bytes_per_entry" },
        )
        .labels("kind", "bytes an entry"),
    ];
    Ok(Outcome {
        setup: vec![
            format!(
                "{} probes again and again for at least {} ms for each number; rounds in turn: {rounds}",
                search::PROBES,
                search::LEAST_MS
            ),
            "keys: random 16 bytes; user:%010d with random numbers; entries as short as tables store them"
                .into(),
            format!(
                "ranges: {}",
                search::RANGES
                    .map(|(name, count, apart)| format!("{name} {count} of {apart} entries"))
                    .join(", ")
            ),
        ],
        tables: vec![points, ranges],
        plots,
        claims,
        comparisons,
    })
}

fn points_table() -> Table {
    let columns = [
        Column::key("kind"),
        Column::key("keys"),
        Column::key("entries"),
        Column::measured("independent_ns", 1),
        Column::measured("dependent_ns", 1),
        Column::number("bytes_per_entry", 1),
        Column::key("form"),
    ];
    Table::new("points", "Finding the block of a key", &columns)
}

fn ranges_table() -> Table {
    let columns = [
        Column::key("kind"),
        Column::key("keys"),
        Column::key("entries"),
        Column::key("range"),
        Column::measured("range_ns", 1),
    ];
    Table::new("ranges", "Finding the blocks of a range", &columns)
}

fn measure(
    context: &mut Context<'_>,
    key_kind: IndexKeyKind,
    entries: usize,
    rounds: usize,
    points: &mut Table,
    ranges: &mut Table,
) -> Result<()> {
    let fences = search::Fences::new(key_kind, entries, &context.random(1));
    let probes = IndexProbes::new(key_kind, &fences, &context.random(2));
    let mut subjects = vec![SearchedIndex::baseline(&fences)];
    for kind in IndexKind::ALL {
        subjects.push(SearchedIndex::index(kind, &fences)?);
    }
    // All kinds must give the same answers, except the heads alone, which cannot distinguish keys with equal
    // heads.
    let exact = &subjects[1];
    for subject in
        subjects.iter().filter(|subject| subject.name != BASELINE || key_kind == IndexKeyKind::Random)
    {
        if !probes.points().take(5_000).all(|key| subject.find(key) == exact.find(key)) {
            let detail = format!("{} finds another block than {} among {entries}", subject.name, exact.name);
            return Err(ExperimentError::WrongAnswer(detail));
        }
    }
    let name = |subject: &SearchedIndex| format!("{} over {entries} {} keys", subject.name, key_kind.name());
    let measured =
        context.rounds(rounds, &subjects, name, |clock, subject| Ok(subject.measure(clock, &probes)))?;
    for (subject, samples) in subjects.iter().zip(measured) {
        let [independent, dependent, ref by_range @ ..] = samples[..] else { continue };
        let about: [Cell; 3] = [subject.name.into(), key_kind.name().into(), entries.into()];
        let mut row = about.to_vec();
        row.extend([
            independent.into(),
            dependent.into(),
            subject.bytes_per_entry(entries).into(),
            subject.form().into(),
        ]);
        points.push(row);
        for ((range, ..), &sample) in search::RANGES.iter().zip(by_range) {
            let mut row = about.to_vec();
            row.extend([(*range).into(), sample.into()]);
            ranges.push(row);
        }
    }
    Ok(())
}

/// The best kind's speed over the baseline's.
fn best(points: &Table, entries: &str, column: &str) -> Option<f64> {
    let wanted = [("keys", "random"), ("entries", entries)];
    let of = |kind: &str| points.number(&[("keys", "random"), ("entries", entries), ("kind", kind)], column);
    let others = points.find(&wanted).filter(|row| row.text("kind").is_some_and(|kind| kind != BASELINE));
    let best = others.filter_map(|row| row.number(column)).min_by(f64::total_cmp);
    ratio(of(BASELINE), best)
}

fn claims(points: &Table) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (entries, words, asked) in [("1000000", "1 M", 2.36), ("10000000", "10 M", 2.94)] {
        for (column, which) in [("independent_ns", "independent"), ("dependent_ns", "dependent")] {
            let what = format!("binary search's time over the best kind's, {which} points, {words} entries");
            claims.push(Claim::at_least(asked, what, best(points, entries, column)));
        }
    }
    claims
}

/// Nanoseconds of CS265's standard and Eytzinger forms (4.4.4).
const DOCUMENT_SIZES: [(&str, &str, f64, f64); 4] = [
    ("10000", "10 K", 1_250.0, 710.0),
    ("100000", "100 K", 2_750.0, 1_350.0),
    ("1000000", "1 M", 6_500.0, 2_750.0),
    ("10000000", "10 M", 18_500.0, 6_300.0),
];
/// The same by range (4.4.3); the document does not give the number of entries.
const DOCUMENT_RANGES: [(&str, f64, f64); 4] = [
    ("small", 980.0, 760.0),
    ("medium", 1_850.0, 1_350.0),
    ("large", 3_250.0, 2_200.0),
    ("extreme", 6_500.0, 3_800.0),
];

fn comparisons(points: &Table, ranges: &Table) -> Vec<Comparison> {
    let over = |entries: &str, column: &str, one: &str, other: &str| {
        let of =
            |kind: &str| points.number(&[("keys", "random"), ("entries", entries), ("kind", kind)], column);
        ratio(of(one), of(other))
    };
    let mut comparisons = Vec::new();
    for (entries, words, standard, eytzinger) in DOCUMENT_SIZES {
        for one in [BASELINE, "sorted-array"] {
            let what = format!("{one} over eytzinger, dependent points, {words} entries");
            let ours = over(entries, "dependent_ns", one, "eytzinger");
            comparisons.push(Comparison::new("CS265 4.4.4", what, standard / eytzinger, ours));
        }
    }
    for (range, standard, eytzinger) in DOCUMENT_RANGES {
        let of = |kind: &str| {
            ranges.number(
                &[("keys", "random"), ("entries", "100000"), ("kind", kind), ("range", range)],
                "range_ns",
            )
        };
        let what = format!("sorted-array over eytzinger, {range} ranges, 100 K entries");
        comparisons.push(Comparison::new(
            "CS265 4.4.3",
            what,
            standard / eytzinger,
            ratio(of("sorted-array"), of("eytzinger")),
        ));
    }
    let adaptive = over("100000", "dependent_ns", "sorted-array", "adaptive");
    comparisons.push(Comparison::new(
        "CS265 4.4.1",
        "sorted-array over adaptive, points, 100 K entries",
        1_350.0 / 1_050.0,
        adaptive,
    ));
    let bytes = |one: &str| over("100000", "bytes_per_entry", one, "sorted-array");
    comparisons.push(Comparison::new(
        "CS265 4.4.5",
        "bytes, eytzinger over sorted-array",
        1.0,
        bytes("eytzinger"),
    ));
    comparisons.push(Comparison::new(
        "CS265 4.4.5",
        "bytes, adaptive over sorted-array",
        30.0 / 24.0,
        bytes("adaptive"),
    ));
    comparisons.push(Comparison::new(
        "CS265 2.3.2",
        "bytes, prefix-compressed over sorted-array (30 to 70 % less)",
        0.5,
        bytes("prefix-compressed"),
    ));
    comparisons
}
