//! Lookups in a table whose blocks are all cached, for every cache kind.
//!
//! `cargo run --release -p esker-sst --example cached_get_bench [entries]`
//!
//! Present keys, evenly; 16 random bytes with values of 100 bytes. Millions of lookups a second of 1, 2 and 4
//! threads together, the best of a few rounds in which the kinds take turns, and the same divided by `lru`'s.
//! `filter` looks up absent keys, with the filter kept with the table and paged through the cache.
#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use esker_base::checksum::key_hash;
use esker_base::{KeyspaceId, Result, SeqNo, TableUid, Tag, ValueKind};
use esker_cache::CacheKind;
use esker_env::{Clock, FileSystem, OpenMode, Random, SeededRandom, StdFileSystem, SystemClock};
use esker_sst::{ExpectedTable, OpenTables, Table, TableCache, TableIdentity, TableOptions, TableWriter};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ENTRIES: usize = 300_000;
const CACHE_BYTES: usize = 1 << 30;
const LOOKUPS: usize = 600_000;
const ROUNDS: usize = 5;
const THREADS: [usize; 3] = [1, 2, 4];
const EXPECTED: ExpectedTable =
    ExpectedTable { uid: TableUid(7), keyspace: KeyspaceId(0), global_seqno: None };

type Key = [u8; 16];

fn key(random: &SeededRandom) -> Key {
    (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).to_be_bytes()
}

fn write(path: &Path, keys: &[Key]) -> Result<u64> {
    let file = StdFileSystem.open(path, OpenMode::CreateOrTruncate)?;
    let options = TableOptions { uid: EXPECTED.uid, keyspace: EXPECTED.keyspace, ..TableOptions::default() };
    let mut writer = TableWriter::new(file, options)?;
    for key in keys {
        writer.add(key, Tag::new(SeqNo::ZERO, ValueKind::Put), &[key[0]; 100])?;
    }
    Ok(writer.finish()?.file_bytes)
}

/// The table in `path` with a cache of its own, which holds all of its blocks.
fn open(path: &Path, len: u64, kind: CacheKind, pages_filter: bool, keys: &[Key]) -> Result<Table> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let cache = Arc::new(TableCache::of_kind(kind, CACHE_BYTES, &clock));
    let identity = TableIdentity::new(&OpenTables::with_choices(
        cache,
        pages_filter,
        None,
        esker_env::MemoryLedger::unlimited(),
    ))?;
    let table = Table::open(StdFileSystem.open(path, OpenMode::Read)?, len, EXPECTED, identity)?;
    keys.iter().try_for_each(|key| table.get(key, key_hash(key), SeqNo::MAX).map(drop))?;
    Ok(table)
}

/// Millions of calls of `each` a second over the keys, which threads share.
fn speed(threads: usize, keys: &[Key], each: impl Fn(&Key) -> bool + Sync) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for part in keys.chunks(keys.len().div_ceil(threads)) {
            let each = &each;
            scope.spawn(move || black_box(part.iter().filter(|key| each(key)).count()));
        }
    });
    keys.len() as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn finds(table: &Table, key: &Key) -> bool {
    let found = table.get_with(key, key_hash(key), SeqNo::MAX, |_, value| black_box(value[99]) == key[0]);
    found.is_ok_and(|found| found == Some(true))
}

fn run(path: &Path) -> Result<()> {
    let entries = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(ENTRIES);
    let random = SeededRandom::new(1);
    let mut keys: Vec<Key> = (0..entries).map(|_| key(&random)).collect();
    keys.sort_unstable();
    let len = write(path, &keys)?;
    let present: Vec<Key> = (0..LOOKUPS).map(|_| keys[random.below(entries as u64) as usize]).collect();
    let absent: Vec<Key> = (0..LOOKUPS).map(|_| key(&random)).collect();

    let open = |kind, pages| open(path, len, kind, pages, &keys);
    let tables = CacheKind::ALL.map(|kind| open(kind, false)).into_iter().collect::<Result<Vec<Table>>>()?;
    let mut best = [[0.0f64; THREADS.len()]; CacheKind::ALL.len()];
    for _ in 0..ROUNDS {
        for (best, table) in best.iter_mut().zip(&tables) {
            for (best, threads) in best.iter_mut().zip(THREADS) {
                *best = best.max(speed(threads, &present, |key| finds(table, key)));
            }
        }
    }
    println!("{entries} entries, gets, M/s     1       2       4   | by lru's:  1       2       4");
    let lru = best[2];
    for (kind, speeds) in CacheKind::ALL.iter().zip(best) {
        print!("{:<24}", kind.to_string());
        speeds.iter().for_each(|speed| print!("{speed:>8.2}"));
        print!("   |       ");
        speeds.iter().zip(lru).for_each(|(speed, lru)| print!("{:>8.2}", speed / lru));
        println!();
    }
    drop(tables);

    println!("\nfilter, absent keys, M/s       1       2       4");
    for pages in [false, true] {
        let table = open(CacheKind::default(), pages)?;
        print!("{:<24}", if pages { "paged" } else { "with the table" });
        for threads in THREADS {
            let speeds = (0..ROUNDS).map(|_| speed(threads, &absent, |key| table.may_contain(key_hash(key))));
            print!("{:>8.1}", speeds.fold(0.0, f64::max));
        }
        println!();
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-cached-get-bench-{}", std::process::id()));
    StdFileSystem.create_dir_all(&dir)?;
    let outcome = run(&dir.join("1.sst"));
    StdFileSystem.remove_dir_all(&dir)?;
    outcome
}
