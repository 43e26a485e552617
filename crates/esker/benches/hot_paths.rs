//! Hot paths for an instruction counter: `cargo xtask instructions` runs this under callgrind and compares
//! the counts with `bench/instructions.toml`.
//!
//! Nothing depends on the machine's speed or on chance: clock and randomness are simulated, and keys are
//! derived from their numbers. Keys have 16 and values 100 bytes, few enough that a run takes seconds. Each
//! call of [`counted`] is one path, whose name and number of operations are printed in the order of the run;
//! everything between the calls (filling, warming, checking) does not count.
//!
//! Only the calling thread counts. So there are two databases: one with background threads, as programs have
//! it, for the foreground ([`foreground`]); and one whose flushes and compactions run on the calling thread
//! ([`background`]), which also checks for work at every fourth write.

#![forbid(unsafe_code)]
// Prints for a tool, and removes its directory.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program beside the store")]

use esker::options::{Codec, PerLevel, Strategy};
use esker::parts::env::{Background, Env, StdFileSystem};
use esker::{Cursor, Database, Durability, Keyspace, KeyspaceOptions, Options};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// Records of the data set; they seal no memtable of [`MEMORY_BYTES`].
const RECORDS: u64 = 50_000;
const OPERATIONS: u64 = 20_000;
const BATCH: usize = 100;
const KEYS: usize = 32;
/// Entries that a seek passes.
const PASSED: usize = 10;
/// Seeks of a path of short scans, and entries that each passes.
const SEEKS: usize = 4_000;
const SCANNED: usize = 50;
/// Records inserted above a run before short scans, and hot records, each updated many times.
const INSERTED: usize = 250;
const HOT: u64 = RECORDS / 10;
/// Records updated in each of this many runs, the last of which is a memtable.
const UPDATED: u64 = RECORDS / 40;
const UPDATED_RUNS: u64 = 3;
/// One record in this many is updated in a run that is merged with all.
const RENEWED: u64 = 4;
const RUNS: u64 = 4;
/// Everything fits in the cache.
const MEMORY_BYTES: u64 = 512 << 20;
const SEED: u64 = 1;

type Key = [u8; 16];
type Value = [u8; 100];
type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let directory = std::env::temp_dir().join(format!("esker-hot-paths-{}", std::process::id()));
    let outcome = run(&directory);
    std::fs::remove_dir_all(&directory).ok();
    outcome
}

fn run(directory: &Path) -> Outcome {
    let data = Data::new();
    foreground(&open(&directory.join("foreground"), Background::Threads)?, &data)?;
    background(&open(&directory.join("background"), Background::Stepped { seed: SEED })?, &data)
}

fn open(directory: &Path, background: Background) -> esker::Result<Database> {
    let env = Env { background, ..Env::simulated(Arc::new(StdFileSystem), SEED) };
    Database::open_with(directory, Options::default().memory_budget(MEMORY_BYTES).env(env))
}

/// Paths on the caller's thread.
fn foreground(database: &Database, data: &Data) -> Outcome {
    let keyspace = database.keyspace("paths")?;
    writes(database, &keyspace, data)?;
    database.compact_all()?;
    warm(&keyspace, data)?;
    points(&keyspace, data)?;
    scans(&keyspace, data)?;
    over_two_sources(&keyspace, data)?;
    short_scans(database, data)?;
    Ok(database.close()?)
}

/// Flush and compaction.
fn background(database: &Database, data: &Data) -> Outcome {
    let keyspace = database.keyspace("paths")?;
    data.keys.iter().try_for_each(|key| keyspace.put(key, data.value))?;
    counted("flush_an_entry", RECORDS, &mut || Ok(keyspace.flush()?))?;
    merges(database, data)?;
    Ok(database.close()?)
}

/// Runs `work`, which is `operations` times what `name` says. The tool finds this function by its name and
/// counts its instructions on this thread; name and number identify the path.
#[inline(never)]
fn counted(name: &str, operations: u64, work: &mut dyn FnMut() -> Outcome) -> Outcome {
    instructions_are_counted(work)?;
    println!("{name} {operations}");
    Ok(())
}

#[inline(never)]
fn instructions_are_counted(work: &mut dyn FnMut() -> Outcome) -> Outcome {
    black_box(work)()
}

/// Prepared keys and values.
struct Data {
    /// All keys, in random order.
    keys: Vec<Key>,
    /// Keys that are not stored, between the others.
    absent: Vec<Key>,
    /// Random key indexes, one for each operation.
    places: Vec<usize>,
    /// Half of it compresses.
    value: Value,
}

impl Data {
    fn new() -> Data {
        let key = |number: u64| {
            let mut key = *b"0000000000000000";
            let mut rest = mix(number);
            for digit in key.iter_mut().rev() {
                *digit = b"0123456789abcdef"[(rest % 16) as usize];
                rest /= 16;
            }
            key
        };
        let mut value = [b'.'; 100];
        for (place, byte) in value.iter_mut().take(50).enumerate() {
            *byte = mix(place as u64) as u8;
        }
        Data {
            keys: (0..RECORDS).map(key).collect(),
            absent: (RECORDS..RECORDS + OPERATIONS).map(key).collect(),
            places: (0..OPERATIONS).map(|number| (mix(number ^ (SEED << 32)) % RECORDS) as usize).collect(),
            value,
        }
    }

    /// Keys of random records.
    fn some(&self) -> impl Iterator<Item = &Key> {
        self.places.iter().map(|place| &self.keys[*place])
    }
}

/// A bijection that mixes all bits (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Checks a result: a path that does something else takes other instructions.
fn expect(what: &str, found: u64, expected: u64) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}").into()) }
}

/// Puts, alone and in batches, and gets in the memtable.
fn writes(database: &Database, keyspace: &Keyspace, data: &Data) -> Outcome {
    counted("put", RECORDS, &mut || {
        Ok(data.keys.iter().try_for_each(|key| keyspace.put(key, data.value))?)
    })?;
    gets("get_in_memtable", keyspace, data)?;
    counted("overwrite_in_memtable", OPERATIONS, &mut || {
        Ok(data.some().try_for_each(|key| keyspace.put(key, data.value))?)
    })?;
    let batched = database.keyspace("batches")?;
    let mut batch = database.batch();
    counted("batch_put_of_100_a_record", RECORDS, &mut || {
        for keys in data.keys.chunks(BATCH) {
            batch.clear();
            keys.iter().for_each(|key| batch.put(&batched, key, data.value));
            database.write_with(&batch, Durability::Process)?;
        }
        Ok(())
    })?;
    Ok(database.drop_keyspace("batches")?)
}

/// Loads everything into the caches and slots.
fn warm(keyspace: &Keyspace, data: &Data) -> Outcome {
    let mut found = 0;
    for key in &data.keys {
        found += u64::from(keyspace.contains(key)?);
    }
    expect("records after a compaction", found, RECORDS)
}

fn gets(name: &str, keyspace: &Keyspace, data: &Data) -> Outcome {
    let mut found = 0;
    counted(name, OPERATIONS, &mut || {
        for key in data.some() {
            found += u64::from(keyspace.get_with(key, |value| black_box(value).is_some())?);
        }
        Ok(())
    })?;
    expect(name, found, OPERATIONS)
}

/// Gets in tables whose blocks are cached.
fn points(keyspace: &Keyspace, data: &Data) -> Outcome {
    gets("get_in_table", keyspace, data)?;
    let mut found = 0;
    counted("get_absent", OPERATIONS, &mut || {
        for key in &data.absent {
            found += u64::from(keyspace.get_with(key, |value| black_box(value).is_some())?);
        }
        Ok(())
    })?;
    expect("absent keys", found, 0)?;
    let keys: Vec<&[u8]> = data.some().map(|key| key.as_slice()).collect();
    let mut found = 0;
    counted("multi_get_of_32_a_key", OPERATIONS / KEYS as u64 * KEYS as u64, &mut || {
        for keys in keys.chunks_exact(KEYS) {
            found += black_box(keyspace.multi_get(keys)?).iter().flatten().count();
        }
        Ok(())
    })?;
    expect("keys of multi-gets", found as u64, OPERATIONS / KEYS as u64 * KEYS as u64)
}

/// Seeks, and scans of one run.
fn scans(keyspace: &Keyspace, data: &Data) -> Outcome {
    counted("seek_and_10", OPERATIONS, &mut || {
        for key in data.some() {
            let mut cursor = keyspace.cursor()?;
            cursor.seek(key)?;
            walk(&mut cursor, PASSED, Cursor::advance)?;
        }
        Ok(())
    })?;
    scan("scan_forward_an_entry", keyspace, Cursor::seek_to_first, Cursor::advance)?;
    scan("scan_backward_an_entry", keyspace, Cursor::seek_to_last, Cursor::retreat)
}

fn scan(
    name: &str,
    keyspace: &Keyspace,
    start: impl Fn(&mut Cursor) -> esker::Result<()>,
    step: impl Fn(&mut Cursor) -> esker::Result<()>,
) -> Outcome {
    let mut passed = 0;
    counted(name, RECORDS, &mut || {
        let mut cursor = keyspace.cursor()?;
        start(&mut cursor)?;
        passed = walk(&mut cursor, usize::MAX, &step)?;
        Ok(())
    })?;
    expect(name, passed, RECORDS)
}

/// Advances over entries and returns their number.
fn walk(
    cursor: &mut Cursor,
    most: usize,
    step: impl Fn(&mut Cursor) -> esker::Result<()>,
) -> esker::Result<u64> {
    let mut passed = 0;
    while passed < most
        && let Some(entry) = cursor.entry()
    {
        black_box(entry);
        passed += 1;
        step(cursor)?;
    }
    Ok(passed as u64)
}

/// Changes in the memtable above a run, scans of both, and deletes.
fn over_two_sources(keyspace: &Keyspace, data: &Data) -> Outcome {
    for key in data.some() {
        keyspace.put(key, data.value)?;
    }
    scan("scan_forward_of_memtable_and_table_an_entry", keyspace, Cursor::seek_to_first, Cursor::advance)?;
    scan("scan_backward_of_memtable_and_table_an_entry", keyspace, Cursor::seek_to_last, Cursor::retreat)?;
    counted("delete", OPERATIONS, &mut || Ok(data.some().try_for_each(|key| keyspace.delete(key))?))
}

/// Short scans of a run with a few records above it, and then with a tenth of its records updated above it,
/// the hottest ones often: the scans of YCSB E, alone and after A; and with the updates in several runs and a
/// memtable.
fn short_scans(database: &Database, data: &Data) -> Outcome {
    // Nothing is compacted: the scans meet the runs as given.
    let keyspace = database.keyspace_with("short", KeyspaceOptions::default().strategy(Strategy::None))?;
    data.keys.iter().try_for_each(|key| keyspace.put(key, data.value))?;
    database.compact_all()?;
    warm(&keyspace, data)?;
    data.absent.iter().take(INSERTED).try_for_each(|key| keyspace.put(key, data.value))?;
    short_scan("seek_and_50_among_inserts", &keyspace, data, Cursor::advance)?;
    short_scan("seek_and_50_back_among_inserts", &keyspace, data, Cursor::retreat)?;
    for number in 0..OPERATIONS {
        let hot = mix(number) % (1 + mix(number + OPERATIONS) % HOT);
        keyspace.put(data.keys[hot as usize], data.value)?;
    }
    short_scan("seek_and_50_after_updates", &keyspace, data, Cursor::advance)?;
    short_scan("seek_and_50_back_after_updates", &keyspace, data, Cursor::retreat)?;
    database.compact_all()?;
    warm(&keyspace, data)?;
    for number in 0..UPDATED * UPDATED_RUNS {
        if number % UPDATED == 0 {
            keyspace.flush()?;
        }
        keyspace.put(data.keys[(mix(number) % RECORDS) as usize], data.value)?;
    }
    short_scan("seek_and_50_over_updated_runs", &keyspace, data, Cursor::advance)?;
    short_scan("seek_and_50_back_over_updated_runs", &keyspace, data, Cursor::retreat)
}

fn short_scan(
    name: &str,
    keyspace: &Keyspace,
    data: &Data,
    step: impl Fn(&mut Cursor) -> esker::Result<()>,
) -> Outcome {
    counted(name, SEEKS as u64, &mut || {
        for key in data.some().take(SEEKS) {
            let mut cursor = keyspace.cursor()?;
            cursor.seek(key)?;
            walk(&mut cursor, SCANNED, &step)?;
        }
        Ok(())
    })
}

/// A compaction of runs that overlap everywhere.
fn merges(database: &Database, data: &Data) -> Outcome {
    let options = KeyspaceOptions::default().strategy(Strategy::None).compression(PerLevel::all(Codec::None));
    let keyspace = database.keyspace_with("merges", options)?;
    let mut sorted = data.keys.clone();
    sorted.sort_unstable();
    for run in 0..RUNS {
        let mut loader = keyspace.bulk_load()?;
        for (place, key) in sorted.iter().enumerate() {
            if mix(place as u64) % RUNS == run {
                loader.add(key, data.value)?;
            }
        }
        loader.finish()?;
        keyspace.flush()?;
    }
    counted("compaction_of_4_runs_an_entry", RECORDS, &mut || Ok(keyspace.compact(..)?))?;
    expect("records after a merge", keyspace.iter().count() as u64, RECORDS)?;
    // A run of updates, and the run that it overwrites.
    let updated = sorted.iter().step_by(RENEWED as usize);
    updated.clone().try_for_each(|key| keyspace.put(key, data.value))?;
    keyspace.flush()?;
    let entries = RECORDS + updated.len() as u64;
    counted("compaction_of_updates_an_entry", entries, &mut || Ok(keyspace.compact(..)?))?;
    expect("records after updates", keyspace.iter().count() as u64, RECORDS)
}
