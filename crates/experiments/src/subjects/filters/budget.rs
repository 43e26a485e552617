//! Measures the effect of bits per key on a database: byron's experiment, half of the keys absent.

use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape};
use crate::table::{Cell, Column, Table};
use esker::options::FilterPolicy;
use esker::parts::env::SystemClock;
use esker::{Database, Keyspace, KeyspaceOptions, Options};

const MEMORY_BUDGET_BYTES: u64 = 1 << 30;
const VALUE: [u8; 100] = [b'v'; 100];
const BITS: [f64; 4] = [0.1, 1.0, 2.0, 10.0];
const ROUNDS: usize = 3;

pub(super) const SETUP: &str = "database: 1 M random keys of 16 + 100 bytes (quick: 50,000), default options but for the filter's bits, one keyspace \
     for each; as many gets as keys, one by one, everything in the cache. 0.1 bits are no filter: none is built below one bit";

pub(super) fn steps(_context: &Context<'_>) -> usize {
    BITS.len() * (ROUNDS + 1)
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let count = context.pick(2_000, 50_000, 1_000_000);
    // Twice as many keys as are stored, in random order: those at even places are put, the others stay
    // absent.
    let keys = Keys::new(Shape::Random, 2 * count, &context.random(1));
    let asked = keys.drawn(count, &context.random(2));
    let database = Database::open_with(
        context.directory("budget")?,
        Options::default().memory_budget(MEMORY_BUDGET_BYTES),
    )?;
    let mut keyspaces = Vec::new();
    for bits in BITS {
        context.step(&format!("a database with {bits} bits a key"));
        let options = KeyspaceOptions::default().filter(FilterPolicy::DEFAULT.with_bits_per_key(bits));
        let keyspace = database.keyspace_with(&format!("{bits} bits"), options)?;
        keys.iter().step_by(2).try_for_each(|key| keyspace.put(key, VALUE))?;
        keyspace.flush()?;
        database.drain()?;
        // The first pass reads from disk and is not measured.
        get(&context.clock(), &keyspace, &asked)?;
        keyspaces.push((bits, keyspace));
    }
    let name = |(bits, _): &(f64, Keyspace)| format!("gets with {bits} bits a key");
    let measured =
        context.rounds(ROUNDS, &keyspaces, name, |clock, (_, keyspace)| get(clock, keyspace, &asked))?;
    let columns = [
        Column::key("bits_asked"),
        Column::key("keys_asked"),
        Column::key("filter"),
        Column::number("expected_false_positive_percent", 1),
        Column::measured("get_ns", 0),
        Column::measured("found_percent", 1),
    ];
    let mut table =
        Table::new("budget", "Gets of a database by its filters' bits a key, half absent", &columns);
    for ((bits, _), samples) in keyspaces.iter().zip(measured) {
        let policy = FilterPolicy::DEFAULT.with_bits_per_key(*bits);
        let mut row: Vec<Cell> = vec![
            bits.to_string().into(),
            asked.count().into(),
            policy.to_string().into(),
            (policy.false_positive_rate() * 100.0).into(),
        ];
        row.extend(samples.into_iter().map(Cell::from));
        table.push(row);
    }
    drop(keyspaces);
    database.close()?;
    Ok(table)
}

/// Nanoseconds of a get, and the share that was found, in percent.
fn get(clock: &SystemClock, keyspace: &Keyspace, asked: &Keys) -> Result<Vec<f64>> {
    let (taken_ns, found) = time_ns(clock, || {
        asked.iter().try_fold(0usize, |found, key| Ok(found + usize::from(keyspace.get(key)?.is_some())))
    });
    let found: esker::Result<usize> = found;
    let share = found? as f64 / asked.count() as f64;
    if !(0.4..0.6).contains(&share) {
        return Err(ExperimentError::WrongAnswer(format!(
            "{:.0} % of the keys were found, not half",
            share * 100.0
        )));
    }
    Ok(vec![taken_ns / asked.count() as f64, share * 100.0])
}

pub(super) fn comparisons(table: &Table) -> Vec<Comparison> {
    let of = |bits: &str| table.number(&[("bits_asked", bits)], "get_ns");
    let compare = |what: &str, theirs, ours| Comparison::new("byron 3.2", what, theirs, ours);
    vec![
        compare("get time, 1 bit a key over 0.1, half absent", 0.92, ratio(of("1"), of("0.1"))),
        compare("get time, 10 bits a key over 1, half absent", 0.96, ratio(of("10"), of("1"))),
    ]
}
