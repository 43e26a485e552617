//! Measures three choices of a table's blocks: their size, by the length of values, their alignment to pages,
//! and the distance of whole keys in delta-encoded ones.
//!
//! CS265 allows blocks of 512 bytes to 64 KiB and takes 4 KiB; byron stores every tenth key whole. The
//! defaults here, 4 KiB and 16, are to follow from these tables.

mod findings;

use crate::claim::Claim;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::experiment::{Experiment, Outcome};
use crate::keys::{Keys, Shape};
use crate::plot::{Columns, Plot};
use crate::statistics::Sample;
use crate::table::{Cell, Column, Table};
use esker::options::ReadMode;
use esker::parts::env::SystemClock;
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::path::Path;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "blocks",
    title: "Blocks: their size by the length of values, their alignment, and the distance of whole keys",
    about: "A keyspace for each choice is filled with keys `user:` and ten digits in random order and merged into one run. Random gets of \
            present keys and one walk over everything are timed with all blocks in the cache; then the database is opened without \
            a cache and past the system's page cache, and each get reads its block from the device. Bytes are those of tables, for \
            each entry, index and filter included.",
    page: "blocks.md",
    run,
    findings: findings::declare,
};

const BLOCK_SIZES: [u64; 8] = [512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const VALUE_SIZES: [usize; 3] = [8, 100, 1_000];
const RESTARTS: [u64; 6] = [4, 8, 10, 16, 32, 64];
/// Values of the keyspaces with delta-encoded blocks.
const RESTART_VALUE: usize = 100;
/// Room for all blocks.
const MEMORY_BUDGET_BYTES: u64 = 4 << 30;

/// One keyspace.
struct Choice {
    value_bytes: usize,
    /// Its row's key: bytes of a block, or entries from one whole key to the next.
    number: u64,
    options: KeyspaceOptions,
}

fn sizes() -> Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for value_bytes in VALUE_SIZES {
        for number in BLOCK_SIZES {
            let options = KeyspaceOptions::default().set("block_size", &number.to_string())?;
            choices.push(Choice { value_bytes, number, options });
        }
    }
    Ok(choices)
}

/// Blocks of 4 KiB that begin where the one before ends, and in pages.
fn alignments() -> Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for value_bytes in VALUE_SIZES {
        for (number, aligns) in [(0, "false"), (1, "true")] {
            let options = KeyspaceOptions::default().set("block_align", aligns)?;
            choices.push(Choice { value_bytes, number, options });
        }
    }
    Ok(choices)
}

fn restarts() -> Result<Vec<Choice>> {
    let choice = |number: u64| -> Result<Choice> {
        let options =
            KeyspaceOptions::default().set("block_layout", "delta")?.set("block_layout_last", "same")?;
        let options = options.set("block_restart_interval", &number.to_string())?;
        Ok(Choice { value_bytes: RESTART_VALUE, number, options })
    };
    RESTARTS.into_iter().map(choice).collect()
}

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let rounds = context.pick(1, 2, 5);
    let per_choice = 1 + rounds + 1;
    let (sizes, alignments, restarts) = (sizes()?, alignments()?, restarts()?);
    context.expect_steps((sizes.len() + alignments.len() + restarts.len()) * per_choice);
    let sizes = measure(context, &sizes, rounds, "sizes", "block_bytes", "Blocks by their size and values'")?;
    let title = "Blocks of 4 KiB, aligned to pages of the file (1) or not (0)";
    let alignments = measure(context, &alignments, rounds, "alignment", "aligned", title)?;
    let title = "Delta-encoded blocks by the distance of whole keys";
    let restarts = measure(context, &restarts, rounds, "restarts", "restart_interval", title)?;
    let columns = |x, y| Columns { series: "value_bytes", x, y };
    let by_size = |name, title: &str, y, label| {
        Plot::lines(name, title, &sizes, &[], columns("block_bytes", y))
            .labels("bytes of a block", label)
            .logarithmic(true, true)
    };
    let by_distance = |name, title: &str, y, label| {
        Plot::lines(name, title, &restarts, &[], columns("restart_interval", y))
            .labels("entries from one whole key to the next", label)
            .logarithmic(true, false)
    };
    let plots = vec![
        by_size("gets", "Gets by the size of blocks, cached", "get_ns", "ns a get"),
        by_size("reads", "Gets by the size of blocks, from the device", "read_us", "us a get"),
        by_size("walks", "Walks by the size of blocks, cached", "walk_ns", "ns an entry"),
        by_distance("restart-gets", "Gets by the distance of whole keys, cached", "get_ns", "ns a get"),
        by_distance(
            "restart-bytes",
            "Bytes by the distance of whole keys",
            "bytes_per_entry",
            "bytes an entry",
        ),
    ];
    Ok(Outcome {
        setup: vec![
            format!(
                "entries: {} for each choice, of values of 1,000 bytes a tenth; compression off",
                entries(context, 8)
            ),
            format!("rounds in turn: {rounds}; gets from the device: one pass of {}", reads(context)),
        ],
        claims: claims(&sizes),
        tables: vec![sizes, alignments, restarts],
        plots,
        comparisons: vec![],
    })
}

fn entries(context: &Context<'_>, value_bytes: usize) -> usize {
    let all = context.pick(3_000, 30_000, 1_000_000);
    if value_bytes >= 1_000 { all / 10 } else { all }
}

fn reads(context: &Context<'_>) -> usize {
    context.pick(50, 300, 5_000)
}

fn measure(
    context: &mut Context<'_>,
    choices: &[Choice],
    rounds: usize,
    name: &'static str,
    number: &'static str,
    title: &str,
) -> Result<Table> {
    let directory = context.directory(name)?;
    let bytes = fill(context, &directory, choices)?;
    let cached = cached(context, &directory, choices, rounds)?;
    let columns = [
        Column::key("value_bytes"),
        Column::key(number),
        Column::measured("get_ns", 0),
        Column::measured("walk_ns", 1),
        Column::number("read_us", 1),
        Column::number("bytes_per_entry", 2),
    ];
    let mut table = Table::new(name, title, &columns);
    let options = Options::default().read_only(true).memory_budget(MEMORY_BUDGET_BYTES);
    let options = options.cache_size(0).table_reads(ReadMode::Direct);
    let database = Database::open_with(&directory, options)?;
    for ((choice, samples), bytes_per_entry) in choices.iter().zip(cached).zip(bytes) {
        context.step(&format!("{}: gets from the device", choice.name()));
        let keyspace = database.open_keyspace(&choice.name())?;
        let asked = keys(context, choice).drawn(reads(context), &context.random(3));
        let read_us = get_ns(&context.clock(), &keyspace, &asked, choice)? / 1e3;
        let mut row: Vec<Cell> = vec![choice.value_bytes.into(), choice.number.into()];
        row.extend(samples.into_iter().map(|sample: Sample| Cell::from(sample)));
        row.extend([read_us.into(), bytes_per_entry.into()]);
        table.push(row);
    }
    database.close()?;
    Ok(table)
}

impl Choice {
    fn name(&self) -> String {
        format!("values of {}, {}", self.value_bytes, self.number)
    }
}

fn keys(context: &Context<'_>, choice: &Choice) -> Keys {
    Keys::new(Shape::Dense, entries(context, choice.value_bytes), &context.random(1))
}

/// Fills a keyspace for each choice; gives the bytes of tables for each entry.
fn fill(context: &mut Context<'_>, directory: &Path, choices: &[Choice]) -> Result<Vec<f64>> {
    let options = Options::default().memory_budget(MEMORY_BUDGET_BYTES);
    let database = Database::open_with(directory, options)?;
    let mut bytes = Vec::new();
    for choice in choices {
        context.step(&format!("{}: filling", choice.name()));
        let options = choice.options.clone().set("compression", "none")?.set("compression_last", "none")?;
        let keyspace = database.keyspace_with(&choice.name(), options)?;
        let (keys, value) = (keys(context, choice), vec![b'v'; choice.value_bytes]);
        keys.iter().try_for_each(|key| keyspace.put(key, &value))?;
        keyspace.compact(..)?;
        let metrics = database.metrics();
        let found = metrics.keyspaces.iter().find(|keyspace| keyspace.name == choice.name());
        bytes.push(found.map_or(0.0, |found| found.table_bytes as f64) / keys.count() as f64);
    }
    database.close()?;
    Ok(bytes)
}

/// Nanoseconds of a get, and of an entry in a walk, with all blocks in the cache.
fn cached(
    context: &mut Context<'_>,
    directory: &Path,
    choices: &[Choice],
    rounds: usize,
) -> Result<Vec<Vec<Sample>>> {
    let options = Options::default().read_only(true).memory_budget(MEMORY_BUDGET_BYTES);
    let database = Database::open_with(directory, options)?;
    let asked: Vec<Keys> = choices
        .iter()
        .map(|choice| {
            let all = keys(context, choice);
            all.drawn(all.count(), &context.random(2))
        })
        .collect();
    let subjects: Vec<(&Choice, &Keys)> = choices.iter().zip(&asked).collect();
    let name = |(choice, _): &(&Choice, &Keys)| format!("{}: cached", choice.name());
    let measured = context.rounds(rounds, &subjects, name, |clock, (choice, asked)| {
        let keyspace = database.open_keyspace(&choice.name())?;
        // Brings everything into the cache.
        get_ns(clock, &keyspace, asked, choice)?;
        let get_ns = get_ns(clock, &keyspace, asked, choice)?;
        let (taken_ns, walked) = time_ns(clock, || walk(&keyspace));
        Ok(vec![get_ns, taken_ns / walked? as f64])
    });
    database.close()?;
    measured
}

fn get_ns(clock: &SystemClock, keyspace: &Keyspace, asked: &Keys, choice: &Choice) -> Result<f64> {
    let (taken_ns, right) = time_ns(clock, || -> esker::Result<usize> {
        asked.iter().try_fold(0, |right, key| {
            let is_right = keyspace
                .get_with(key, |value| value.is_some_and(|value| value.len() == choice.value_bytes))?;
            Ok(right + usize::from(is_right))
        })
    });
    if right? == asked.count() {
        return Ok(taken_ns / asked.count() as f64);
    }
    Err(ExperimentError::WrongAnswer(format!("{}: a get did not find its value", choice.name())))
}

/// Entries of a walk over everything.
fn walk(keyspace: &Keyspace) -> Result<usize> {
    let mut cursor = keyspace.cursor()?;
    cursor.seek_to_first()?;
    let mut entries = 0;
    while cursor.entry().is_some() {
        entries += 1;
        cursor.advance()?;
    }
    Ok(entries)
}

/// The default size against the best one of each length of values.
fn claims(sizes: &Table) -> Vec<Claim> {
    let mut claims = Vec::new();
    for value_bytes in VALUE_SIZES.map(|bytes| bytes.to_string()) {
        for (column, what) in
            [("get_ns", "cached gets"), ("read_us", "gets from the device"), ("walk_ns", "walks")]
        {
            let of =
                |block: &str| sizes.number(&[("value_bytes", &value_bytes), ("block_bytes", block)], column);
            let best =
                BLOCK_SIZES.iter().filter_map(|block| of(&block.to_string())).fold(f64::INFINITY, f64::min);
            let over_best = of("4096").filter(|_| best.is_finite()).map(|default| default / best);
            let what = format!("blocks of 4 KiB over the best size, {what}, values of {value_bytes} bytes");
            claims.push(Claim::at_most(1.3, what, over_best));
        }
    }
    claims
}
