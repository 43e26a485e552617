//! Measures puts and deletes, on a new database for each round.

use super::document;
use super::reads;
use super::stores::{
    DEFAULT, DOCUMENT_COLUMN, ENTRIES, LOAD, Store, Timing, cells, columns as measured_columns, key_of,
    must_be, scaled, value_of,
};
use crate::context::Context;
use crate::counters::Counters;
use crate::error::Result;
use crate::table::{Cell, Column, Table};
use esker::options::MemtableKind;

const PUTS: [u32; 3] = [1_000_000, 5_000_000, 10_000_000];
const DELETES: [u32; 3] = [100_000, 500_000, 1_000_000];

/// One entry in so many is read back.
const CHECK_EVERY: usize = 997;

/// The kinds of memtable that the document compares; others fill the smallest size only.
const COMPARED: [&str; 2] = ["vector", "skiplist"];

/// The default, the document's choices, and the default with each other memtable.
fn stores(is_smallest: bool) -> Result<Vec<Store>> {
    let is_taken = |kind: &MemtableKind| {
        *kind != MemtableKind::default() && (is_smallest || COMPARED.contains(&kind.name()))
    };
    let mut stores = Store::both()?;
    stores.extend(MemtableKind::ALL.into_iter().filter(is_taken).map(Store::with_memtable));
    Ok(stores)
}

/// Fewer for the largest size, which would take most of the time.
fn put_rounds(context: &Context<'_>, is_smallest: bool) -> usize {
    if is_smallest { reads::rounds(context) } else { context.pick(1, 2, 2) }
}

pub(super) fn puts_steps(context: &Context<'_>) -> Result<usize> {
    let sizes = (0..PUTS.len()).map(|at| Ok(put_rounds(context, at == 0) * stores(at == 0)?.len()));
    sizes.sum()
}

pub(super) fn puts(context: &mut Context<'_>, counters: &Counters) -> Result<Table> {
    let mut columns =
        vec![Column::key("store"), Column::key("memtable"), Column::key("puts"), Column::key("rounds")];
    columns.extend(measured_columns(LOAD));
    columns.push(DOCUMENT_COLUMN);
    let mut table = Table::new("puts", "Puts into an empty database, and memtables", &columns);
    for (at, count) in PUTS.into_iter().enumerate() {
        let (stores, entries) = (stores(at == 0)?, scaled(context, count));
        let rounds = put_rounds(context, at == 0);
        let directory = context.directory("put")?;
        let name = |store: &Store| format!("{}: {entries} puts", store.name);
        let measured = context.rounds(rounds, &stores, name, |clock, store| {
            let opened = store.open_in(&directory)?;
            let timing = Timing { clock, counters };
            let numbers = timing.measure(&opened, f64::NAN, true, || opened.put(0..entries))?;
            let sample: Vec<u32> = (0..entries).step_by(CHECK_EVERY).collect();
            opened.get(&sample, entries)?;
            opened.close()?;
            Ok(numbers)
        })?;
        for (store, samples) in stores.iter().zip(measured) {
            let mut row: Vec<Cell> = vec![
                store.name.as_str().into(),
                store.memtable.name().into(),
                u64::from(entries).into(),
                rounds.into(),
            ];
            row.extend(cells(&samples, f64::from(entries), LOAD));
            row.push(document_seconds(store, entries).filter(|_| entries == count).into());
            table.push(row);
        }
    }
    Ok(table)
}

/// The document's seconds: its vectors beside ours, and its skiplist, the final choice of that report, beside
/// its preset, our skiplist and the default.
fn document_seconds(store: &Store, puts: u32) -> Option<f64> {
    match store.memtable.name() {
        "vector" => document::seconds(document::PUTS, puts),
        "skiplist" => document::seconds(document::PUTS_SKIPLIST, puts),
        _ if store.name == DEFAULT => document::seconds(document::PUTS_SKIPLIST, puts),
        _ => None,
    }
}

pub(super) fn deletes_steps(context: &Context<'_>) -> usize {
    reads::rounds(context) * 2 * DELETES.len()
}

pub(super) fn deletes(context: &mut Context<'_>, counters: &Counters) -> Result<Table> {
    let mut columns = vec![Column::key("store"), Column::key("entries"), Column::key("deletes")];
    columns.extend(measured_columns(""));
    columns.push(DOCUMENT_COLUMN);
    let mut table = Table::new("deletes", "Deletes, one by one", &columns);
    let entries = scaled(context, ENTRIES);
    let stores = Store::both()?;
    let subjects: Vec<(&Store, u32)> = stores
        .iter()
        .flat_map(|store| DELETES.map(|count| (store, count)))
        .map(|(store, count)| (store, scaled(context, count)))
        .collect();
    let directory = context.directory("delete")?;
    let name = |(store, count): &(&Store, u32)| format!("{}: {count} deletes", store.name);
    let measured = context.rounds(reads::rounds(context), &subjects, name, |clock, &(store, count)| {
        let opened = store.open_in(&directory)?;
        let load_seconds = opened.load(clock, entries)?;
        let timing = Timing { clock, counters };
        let numbers = timing.measure(&opened, load_seconds, true, || {
            Ok((0..count).try_for_each(|number| opened.keyspace.delete(key_of(number)))?)
        })?;
        for number in (0..entries).step_by(CHECK_EVERY) {
            let (found, expected) = (opened.keyspace.get(key_of(number))?, value_of(number));
            must_be(found.as_deref() == (number >= count).then_some(&expected[..]), "a delete", number)?;
        }
        opened.close()?;
        Ok(numbers)
    })?;
    for ((store, count), samples) in subjects.into_iter().zip(measured) {
        let mut row: Vec<Cell> =
            vec![store.name.as_str().into(), u64::from(entries).into(), u64::from(count).into()];
        row.extend(cells(&samples, f64::from(count), ""));
        row.push(document::seconds(document::DELETES, count).filter(|_| entries == ENTRIES).into());
        table.push(row);
    }
    Ok(table)
}
