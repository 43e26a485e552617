//! Measures one lookup whose tables are probed by several threads at once, as the document's store can do it,
//! beside one that goes from table to table.
//!
//! The store has no such lookup; here each of ten tables is a keyspace of its own, so that threads can ask
//! them at once by the public interface. Threads exist before the lookup, as those of a pool do, and wait for
//! keys on channels. A lookup that is spread over threads waits for the answers of all tables, and takes that
//! of the newest one which has the key; the other one stops there.

use super::reads::{self, uniform};
use super::stores::{key_of, must_be, scaled, value_of};
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::table::{Cell, Column, Table};
use esker::options::FilterPolicy;
use esker::parts::env::{FileSystem, StdFileSystem};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

const PUTS: u32 = 100_000;
const GETS: u32 = 20_000;
const TABLES: u32 = 10;
const MEMORY_BUDGET_BYTES: u64 = 256 << 20;

const FILTERED: &str = "default";
const UNFILTERED: &str = "none";
const CACHED: &str = "in the cache";
const READ: &str = "read from the device";

/// How many threads probe the tables of one lookup; none: the calling one, from table to table.
const WAYS: [(&str, usize); 3] =
    [("one after the other", 0), ("two threads", 2), ("a thread for each table", TABLES as usize)];

/// Ten tables, the oldest first, with one filter setting.
struct TenTables {
    filter: &'static str,
    blocks: &'static str,
    directory: PathBuf,
    database: Database,
    tables: Vec<Keyspace>,
}

/// One of the ways to ask them.
struct Method<'a> {
    tables: &'a TenTables,
    way: &'static str,
    threads: usize,
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    let settings = 4;
    settings + reads::rounds(context) * settings * WAYS.len()
}

fn open(
    context: &mut Context<'_>,
    filter: &'static str,
    blocks: &'static str,
    entries: u32,
) -> Result<TenTables> {
    context.step(&format!("filter {filter}, blocks {blocks}: loading {TABLES} tables"));
    let mut options = Options::default().memory_budget(MEMORY_BUDGET_BYTES);
    if blocks == READ {
        options = options.cache_size(0).set("table_reads", "direct")?;
    }
    let mut of_table = KeyspaceOptions::default().set("strategy", "none")?;
    if filter == UNFILTERED {
        of_table = of_table.filter(FilterPolicy::None);
    }
    let name = format!("parallel-{filter}-{}", blocks == READ);
    let directory = context.directory(&name)?;
    let database = Database::open_with(&directory, options)?;
    let mut tables = Vec::new();
    for table in 0..TABLES {
        let keyspace = database.keyspace_with(&format!("table {table}"), of_table.clone())?;
        let mut numbers = entries / TABLES * table..entries / TABLES * (table + 1);
        numbers.try_for_each(|number| keyspace.put(key_of(number), value_of(number)))?;
        keyspace.flush()?;
        tables.push(keyspace);
    }
    database.drain()?;
    Ok(TenTables { filter, blocks, directory, database, tables })
}

impl TenTables {
    /// The value of the newest table that has the key.
    fn get(&self, number: u32) -> Result<Option<[u8; 4]>> {
        for table in self.tables.iter().rev() {
            let found = value_in(table, number)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn close(self) -> Result<()> {
        let TenTables { directory, database, tables, .. } = self;
        drop(tables);
        database.close()?;
        drop(database);
        Ok(StdFileSystem.remove_dir_all(&directory)?)
    }
}

fn value_in(table: &Keyspace, number: u32) -> Result<Option<[u8; 4]>> {
    let found = table.get(key_of(number))?;
    Ok(found.and_then(|value| value[..].try_into().ok()))
}

/// The answer of a thread: its newest table that has the key, by its place, with the value.
type Answer = Result<Option<(usize, [u8; 4])>>;

/// Gets all keys, each by all threads.
fn get_in_parallel(tables: &TenTables, threads: usize, asked: &[u32], check: Check) -> Result<()> {
    std::thread::scope(|scope| {
        let (answer, answers) = channel();
        let workers: Vec<Sender<u32>> = (0..threads)
            .map(|worker| {
                let (ask, keys) = channel();
                let answer = answer.clone();
                scope.spawn(move || probe(tables, worker, threads, &keys, &answer));
                ask
            })
            .collect();
        asked.iter().try_for_each(|&number| {
            let gone = || ExperimentError::WrongAnswer("a thread that probes tables is gone".to_owned());
            for worker in &workers {
                worker.send(number).map_err(|_| gone())?;
            }
            let mut newest = None;
            for _ in 0..threads {
                newest = newest.max(answers.recv().map_err(|_| gone())??);
            }
            check(number, newest.map(|(_, value)| value))
        })
    })
}

/// Answers for every `threads`th table from table `worker` on, until no more keys come.
fn probe(tables: &TenTables, worker: usize, threads: usize, keys: &Receiver<u32>, answer: &Sender<Answer>) {
    for number in keys {
        let mut found: Answer = Ok(None);
        for (place, table) in tables.tables.iter().enumerate().skip(worker).step_by(threads) {
            match value_in(table, number) {
                Ok(Some(value)) => found = Ok(Some((place, value))),
                Ok(None) => {}
                Err(error) => found = Err(error),
            }
        }
        if answer.send(found).is_err() {
            return;
        }
    }
}

type Check<'a> = &'a dyn Fn(u32, Option<[u8; 4]>) -> Result<()>;

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [
        Column::key("filter"),
        Column::key("blocks"),
        Column::key("way"),
        Column::key("tables"),
        Column::key("gets"),
        Column::number("get_us", 2),
        Column::number("deviation_us", 2),
    ];
    let title =
        "One lookup over ten tables, 90 % absent: from table to table, and by several threads at once";
    let mut table = Table::new("parallel", title, &columns);
    let (entries, count) = (scaled(context, PUTS), scaled(context, GETS));
    let mut all = Vec::new();
    for filter in [FILTERED, UNFILTERED] {
        for blocks in [CACHED, READ] {
            all.push(open(context, filter, blocks, entries)?);
        }
    }
    let methods: Vec<Method<'_>> =
        all.iter().flat_map(|tables| WAYS.map(|(way, threads)| Method { tables, way, threads })).collect();
    let asked = uniform(count, 10 * entries, &context.random(7));
    let check = |number: u32, found: Option<[u8; 4]>| {
        must_be(found == (number < entries).then(|| value_of(number)), "a lookup over tables", number)
    };
    let name = |method: &Method<'_>| {
        format!("filter {}, blocks {}: {}", method.tables.filter, method.tables.blocks, method.way)
    };
    let measured = context.rounds(reads::rounds(context), &methods, name, |clock, method| {
        let (taken_ns, done) = time_ns(clock, || match method.threads {
            0 => asked.iter().try_for_each(|&number| check(number, method.tables.get(number)?)),
            threads => get_in_parallel(method.tables, threads, &asked, &check),
        });
        done?;
        Ok(vec![taken_ns / 1e3 / asked.len() as f64])
    })?;
    for (method, samples) in methods.iter().zip(measured) {
        let [get_us] = samples[..] else { continue };
        let row: Vec<Cell> = vec![
            method.tables.filter.into(),
            method.tables.blocks.into(),
            method.way.into(),
            u64::from(TABLES).into(),
            asked.len().into(),
            get_us.mean.into(),
            get_us.deviation.into(),
        ];
        table.push(row);
    }
    drop(methods);
    all.into_iter().try_for_each(TenTables::close)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::NoProgress;
    use crate::settings::{Scale, Settings};

    /// A key that two tables have: both ways give the newer value, whichever thread answers first.
    #[test]
    fn the_newest_table_that_has_a_key_answers() {
        let settings =
            Settings { scale: Scale::Tiny, seed: 1, scratch: std::env::temp_dir(), start_child: None };
        let mut watcher = NoProgress;
        let mut context = Context::new("parallel", &settings, &mut watcher);
        let tables = open(&mut context, FILTERED, CACHED, 100).unwrap();
        let newer = [7; 4];
        tables.tables[6].put(key_of(0), newer).unwrap();
        let check = |number: u32, found: Option<[u8; 4]>| {
            let expected = if number == 0 { Some(newer) } else { (number < 100).then(|| value_of(number)) };
            must_be(found == expected, "a lookup", number)
        };
        let asked: Vec<u32> = (0..120).collect();
        asked.iter().try_for_each(|&number| check(number, tables.get(number)?)).unwrap();
        for threads in [1, 2, 3, 10] {
            get_in_parallel(&tables, threads, &asked, &check).unwrap();
        }
        tables.close().unwrap();
    }
}
