//! Ways of overlapping the reads of one multi-get: none, `io_uring`, threads.
//!
//! `cargo run --release -p esker-sst --example cold_multi_get_bench [entries [directory [rounds]]]`
//!
//! A table of 4,000,000 entries (16-byte random keys, 100-byte values, blocks of 4 KiB: half a gigabyte) is
//! written into a new directory below `directory` (the system's for temporary files), and lookups of 32
//! random keys that exist go through a cache too small to hold any block for the next. Where the bytes are:
//!
//! * `direct`: on the device; reads go past the page cache, so every block is cold.
//! * `cold`: on the device; reads are positioned and go through the page cache, from which `dd` drops the
//!   file before each measurement.
//! * `page cache`: in the page cache, positioned.
//!
//! The ways take turns, round by round. For each key it prints the median over the rounds of the elapsed
//! time, the spread, and the processor time of the whole process, its kernel threads included; behind the way
//! its time relative to plain reads of the same round.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and calls another program")]

use esker_base::checksum::key_hash;
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid, Tag, ValueKind};
use esker_env::{
    AsyncReads, Env, FileSystem, OpenMode, Random, ReadMode, ReadQueue, SeededRandom, StdFileSystem,
};
use esker_sst::{
    ExpectedTable, Lookup, MAX_LOOKUPS, OpenTables, Table, TableCache, TableIdentity, TableOptions,
    TableWriter, multi_get,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const ENTRIES: usize = 4_000_000;
const ROUNDS: usize = 7;
/// Lookups of 32 keys in one measurement: enough for the clock of processor time, which ticks every 10 ms.
const BATCHES: usize = 150;
const EXPECTED: ExpectedTable =
    ExpectedTable { uid: TableUid(77), keyspace: KeyspaceId(1), global_seqno: None };
const WAYS: [AsyncReads; 3] = [AsyncReads::Off, AsyncReads::IoUring, AsyncReads::Threads];

type Key = [u8; 16];

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Direct,
    Cold,
    PageCache,
}

impl Place {
    const ALL: [Place; 3] = [Place::Direct, Place::Cold, Place::PageCache];

    fn name(self) -> &'static str {
        match self {
            Place::Direct => "direct",
            Place::Cold => "cold",
            Place::PageCache => "page cache",
        }
    }

    fn mode(self) -> ReadMode {
        if self == Place::Direct { ReadMode::Direct } else { ReadMode::Positioned }
    }
}

/// Results of one measurement, in microseconds a key.
#[derive(Clone, Copy, Default)]
struct Cost {
    passed: f64,
    worked: f64,
}

fn keys_of(entries: usize) -> Vec<Key> {
    let random = SeededRandom::new(1);
    let half = |random: &SeededRandom| random.next_u64().to_be_bytes();
    let mut keys: Vec<Key> = (0..entries)
        .map(|_| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&half(&random));
            key[8..].copy_from_slice(&half(&random));
            key
        })
        .collect();
    keys.sort_unstable();
    keys
}

fn write(path: &Path, keys: &[Key]) -> Result<u64> {
    let options = TableOptions { uid: EXPECTED.uid, keyspace: EXPECTED.keyspace, ..TableOptions::default() };
    let mut writer = TableWriter::new(StdFileSystem.open(path, OpenMode::CreateNew)?, options)?;
    let random = SeededRandom::new(2);
    let mut value = [0; 100];
    for key in keys {
        value
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&random.next_u64().to_le_bytes()[..part.len()]));
        writer.add(key, Tag::new(SeqNo::new(1), ValueKind::Put), &value)?;
    }
    Ok(writer.finish()?.file_bytes)
}

fn open(path: &Path, len: u64, place: Place, way: AsyncReads) -> Result<Table> {
    let file = place.mode().open(&StdFileSystem, path)?;
    let cache = Arc::new(TableCache::new(64 << 10));
    let tables = OpenTables::with_choices(
        cache,
        false,
        ReadQueue::new(way, &Env::real())?,
        esker_env::MemoryLedger::unlimited(),
    );
    Table::open(file, len, EXPECTED, TableIdentity::new(&tables)?)
}

/// Drops the file from the page cache, or reads it into it.
fn prepare(path: &Path, place: Place) -> Result<()> {
    let mut dd = Command::new("dd");
    match place {
        Place::Direct | Place::Cold => {
            dd.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0"])
        }
        Place::PageCache => dd.arg(format!("if={}", path.display())).args(["of=/dev/null", "bs=1M"]),
    };
    let done = dd.arg("status=none").status().is_ok_and(|status| status.success());
    if done { Ok(()) } else { Err(Error::internal("dd, which prepares the page cache, failed")) }
}

/// Microseconds of processor time of this process so far, all its threads together.
fn worked_micros() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in parentheses: user time is the 12th field, system time the 13th, in hundredths of a
    // second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10_000.0
}

fn measure(table: &Table, keys: &[Key], random: &SeededRandom) -> Result<Cost> {
    let (start, worked) = (Instant::now(), worked_micros());
    for _ in 0..BATCHES {
        let wanted: Vec<&Key> =
            (0..MAX_LOOKUPS).map(|_| &keys[random.below(keys.len() as u64) as usize]).collect();
        let lookups: Vec<Lookup<'_>> =
            wanted.iter().map(|key| Lookup { table, key: &key[..], hash: key_hash(&key[..]) }).collect();
        let (mut pending, mut hits) = (u32::MAX, [const { None }; MAX_LOOKUPS]);
        multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits)?;
        if pending != 0 {
            return Err(Error::internal("a key that was written was not found"));
        }
    }
    let count = (BATCHES * MAX_LOOKUPS) as f64;
    Ok(Cost {
        passed: start.elapsed().as_secs_f64() * 1e6 / count,
        worked: (worked_micros() - worked) / count,
    })
}

fn median(mut numbers: Vec<f64>) -> (f64, f64) {
    numbers.sort_by(f64::total_cmp);
    let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
    let middle = numbers[numbers.len() / 2];
    (middle, (most - least) / (2.0 * middle) * 100.0)
}

fn run(path: &Path, entries: usize, rounds: usize) -> Result<()> {
    let keys = keys_of(entries);
    let len = write(path, &keys)?;
    println!("{entries} entries, {len} bytes, {rounds} rounds of {BATCHES} lookups of {MAX_LOOKUPS} keys");
    println!(
        "{:<11} {:<9} {:>10} {:>8} {:>10} {:>9}",
        "bytes in", "way", "us a key", "spread", "worked us", "of plain"
    );
    let random = SeededRandom::new(3);
    for place in Place::ALL {
        let mut tables = Vec::new();
        for way in WAYS {
            match open(path, len, place, way) {
                Ok(table) => tables.push((way, table, Vec::new())),
                Err(error) => println!("{:<11} {:<9} {error}", place.name(), way.name()),
            }
        }
        for round in 0..rounds {
            for turn in 0..tables.len() {
                let at = (round + turn) % tables.len();
                prepare(path, place)?;
                let cost = measure(&tables[at].1, &keys, &random)?;
                tables[at].2.push(cost);
            }
        }
        let plain: Vec<f64> = tables[0].2.iter().map(|cost: &Cost| cost.passed).collect();
        for (way, _, costs) in &tables {
            let (passed, spread) = median(costs.iter().map(|cost| cost.passed).collect());
            let (worked, _) = median(costs.iter().map(|cost| cost.worked).collect());
            let (ratio, _) =
                median(costs.iter().zip(&plain).map(|(cost, plain)| cost.passed / plain).collect());
            println!(
                "{:<11} {:<9} {passed:>10.2} {spread:>7.0}% {worked:>10.2} {ratio:>9.2}",
                place.name(),
                way.name()
            );
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>, default| text.and_then(|text| text.parse().ok()).unwrap_or(default);
    let entries = number(arguments.next(), ENTRIES).max(1_000);
    let below = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = number(arguments.next(), ROUNDS).max(1);
    let dir = below.join(format!("esker-cold-multi-get-{}", std::process::id()));
    StdFileSystem.create_dir_all(&dir)?;
    let outcome = run(&dir.join("1.sst"), entries, rounds);
    StdFileSystem.remove_dir_all(&dir)?;
    outcome
}
