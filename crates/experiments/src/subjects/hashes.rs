//! Measures hash functions: speed by length, and how evenly they spread keys over sixteen shards.
//!
//! CS265 chose XXH3 for its sharded memtable by such a table (section 2.2.1). Its balance cannot be as
//! printed: a standard deviation of 0.27 % among sixteen shards of 100 million keys is seven times that of
//! chance, and Pearson's test, whose p-value it gives as 0.997, rejects it beyond doubt. So the document's
//! own deviations are tested here, too.

mod findings;
mod functions;
mod quality;

use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::statistics::{balance, chi_square_of_deviation, chi_square_p_value};
use crate::table::{Cell, Column, Table};
use functions::{HashFunction, KeyKind, SHARDS};
use std::hint::black_box;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "hashes",
    title: "Hash functions: speed by length, and balance over 16 shards",
    about: "Each function hashes a quarter of a mebibyte, which lies in the second-level cache, in pieces of one length; the \
            pieces do not depend on each other, so this is throughput. `after another` is the time for a hash whose \
            place depends on the hash before, as in a search. Balance counts the keys that each of sixteen shards gets \
            when the top four bits choose; the p-value is the probability that chance alone would be at least as uneven. Collisions are \
            keys whose highest 32 bits another key has, too. Avalanche: each bit of a 16-byte key is flipped, and the bits of \
            the hash that change are counted; `worst` is the pair of a key's and a hash's bit that is farthest from a half.",
    page: "hashes.md",
    run,
    findings: findings::declare,
};

/// The buffer that is hashed: in the second-level cache of any machine, with room for the longest piece.
const BUFFER_BYTES: usize = 256 << 10;

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let lengths: &[usize] = context.pick(
        &[8, 64],
        &[8, 16, 32, 64, 256, 4096, 65_536],
        &[8, 16, 32, 64, 128, 256, 1024, 4096, 16_384, 65_536],
    );
    let rounds = context.pick(1, 2, 11);
    context.expect_steps(HashFunction::ALL.len() * (rounds + 1) + quality::steps());
    let speed = speed(context, lengths, rounds)?;
    let (random_keys, other_keys) =
        context.pick((10_000, 1_000), (500_000, 200_000), (100_000_000, 10_000_000));
    let balance = balances(context, random_keys, other_keys)?;
    let quality = quality::table(context);
    let longest = lengths.last().map(usize::to_string).unwrap_or_default();
    let comparisons = comparisons(&speed, &longest);
    let columns = Columns { series: "hash", x: "bytes", y: "gb_per_s" };
    let plots = vec![
        Plot::lines("speed", "Hash functions: throughput by length", &speed, &[], columns)
            .labels("bytes hashed at once", "GB/s")
            .logarithmic(true, true),
        Plot::bars(
            "latency",
            "Hash functions: a 16-byte key after another",
            &speed,
            &[("bytes", context.pick("8", "16", "16"))],
            Columns { series: "bytes", x: "hash", y: "after_another_ns" },
        )
        .labels("hash function", "ns a hash"),
    ];
    Ok(Outcome {
        setup: vec![
            format!("speed: {rounds} rounds in turn, {} bytes hashed for each number", context.pick(1 << 16, 1 << 20, 32 << 20)),
            format!("balance: {random_keys} random keys of 16 bytes; {other_keys} keys of each other kind"),
            "collisions and avalanche: 10,000,000 keys of each kind, and 10,000 keys of which each bit is flipped (quick: 200,000 and 1,000)".into(),
            "ahash without AES instructions, as builds for all machines have it; crc32c by the processor's instruction".into(),
        ],
        tables: vec![speed, balance, documents_balance(), quality],
        plots,
        claims: Vec::new(),
        comparisons,
    })
}

fn speed(context: &mut Context<'_>, lengths: &[usize], rounds: usize) -> Result<Table> {
    let random = context.random(1);
    let buffer: Vec<u8> = (0..BUFFER_BYTES).map(|_| random.below(256) as u8).collect();
    let total_bytes = context.pick(1 << 16, 1 << 20, 32 << 20);
    let chained = context.pick(1_000, 50_000, 1_000_000);
    let name = |subject: &HashFunction| subject.name.to_owned();
    let measured = context.rounds(rounds, HashFunction::ALL, name, |clock, subject| {
        let mut numbers = Vec::new();
        for &length in lengths {
            // Slow functions of short pieces would take minutes for what fast ones of long pieces need to be
            // measured.
            let bytes = if length < 64 { total_bytes / 4 } else { total_bytes };
            black_box((subject.pieces)(&buffer, length, bytes / 8));
            let (taken_ns, sum) = time_ns(clock, || (subject.pieces)(&buffer, length, bytes));
            black_box(sum);
            numbers.push((bytes / length * length) as f64 / taken_ns);
            let chain = (chained * 16 / length.max(16)).max(100);
            let (taken_ns, last) = time_ns(clock, || (subject.chain)(&buffer, length, chain));
            black_box(last);
            numbers.push(taken_ns / chain as f64);
        }
        Ok(numbers)
    })?;
    let columns = [
        Column::key("hash"),
        Column::key("bytes"),
        Column::measured("gb_per_s", 2),
        Column::measured("after_another_ns", 1),
    ];
    let mut table = Table::new("speed", "Speed by the length of what is hashed", &columns);
    for (subject, samples) in HashFunction::ALL.iter().zip(&measured) {
        for (&length, pair) in lengths.iter().zip(samples.chunks(2)) {
            let mut row: Vec<Cell> = vec![subject.name.into(), length.into()];
            row.extend(pair.iter().map(|&sample| Cell::from(sample)));
            table.push(row);
        }
    }
    Ok(table)
}

fn balances(context: &mut Context<'_>, random_keys: u64, other_keys: u64) -> Result<Table> {
    let columns = [
        Column::key("hash"),
        Column::key("keys"),
        Column::key("count"),
        Column::number("deviation_percent", 4),
        Column::number("most_deviation_percent", 4),
        Column::number("chi_square", 1),
        Column::number("p_value", 3),
    ];
    let mut table = Table::new("balance", "Balance over 16 shards", &columns);
    for subject in HashFunction::ALL {
        context.step(&format!("balance of {}", subject.name));
        for kind in KeyKind::ALL {
            let count = if kind == KeyKind::Random { random_keys } else { other_keys };
            let counts = (subject.count)(kind, count);
            if counts.iter().sum::<u64>() != count {
                return Err(ExperimentError::WrongAnswer(format!("{} lost keys: {counts:?}", subject.name)));
            }
            let judged = balance(&counts);
            table.push(vec![
                subject.name.into(),
                kind.name().into(),
                count.into(),
                judged.map(|judged| judged.deviation * 100.0).into(),
                judged.map(|judged| judged.most_deviation * 100.0).into(),
                judged.map(|judged| judged.chi_square).into(),
                judged.map(|judged| judged.p_value).into(),
            ]);
        }
    }
    Ok(table)
}

/// Name, standard deviation in percent, and the p-value as printed (CS265 2.2.1).
const DOCUMENT: [(&str, f64, f64); 3] =
    [("XXH3", 0.27, 0.997), ("MurmurHash", 0.42, 0.974), ("SipHash", 0.31, 0.989)];
const DOCUMENT_KEYS: u64 = 100_000_000;

/// Tests the document's deviations.
fn documents_balance() -> Table {
    let columns = [
        Column::key("hash"),
        Column::key("count"),
        Column::number("deviation_percent", 2),
        Column::number("chi_square", 0),
        Column::number("p_value_printed", 3),
        Column::number("p_value_true", 3),
        Column::number("deviation_of_chance_percent", 3),
    ];
    let title = "The deviations that CS265 prints, and the p-values that follow from them";
    let mut table = Table::new("document-balance", title, &columns);
    for (name, deviation_percent, printed) in DOCUMENT {
        let chi_square = chi_square_of_deviation(deviation_percent / 100.0, DOCUMENT_KEYS as f64);
        // Of an even choice a shard's count has variance n/16 (1 - 1/16).
        let chance = ((SHARDS as f64 - 1.0) / DOCUMENT_KEYS as f64).sqrt();
        table.push(vec![
            name.into(),
            DOCUMENT_KEYS.into(),
            deviation_percent.into(),
            chi_square.into(),
            printed.into(),
            chi_square_p_value(chi_square, SHARDS as u32 - 1).into(),
            (chance * 100.0).into(),
        ]);
    }
    table
}

fn comparisons(speed: &Table, bytes: &str) -> Vec<Comparison> {
    let of = |hash: &str| speed.number(&[("hash", hash), ("bytes", bytes)], "gb_per_s");
    let xxh3 = || of("xxh3-64");
    let compare =
        |what: &str, theirs, other| Comparison::new("CS265 2.2.1", what, theirs, ratio(xxh3(), of(other)));
    vec![
        compare("XXH3 over Murmur3, GB/s", 30.2 / 14.7, "murmur3-128"),
        compare("XXH3 over XXH64, GB/s", 30.2 / 19.6, "xxh64"),
        compare("XXH3 over SipHash-1-3, GB/s (which SipHash is not said)", 30.2 / 3.4, "siphash-1-3"),
        compare("XXH3 over SipHash-2-4, GB/s", 30.2 / 3.4, "siphash-2-4"),
    ]
}
