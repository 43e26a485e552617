//! Tables: nanoseconds per entry or operation of writing, single and batched lookups, seeks and scans.
//!
//! `cargo run --release -p esker-sst --example table_bench [entries [LAYOUT [CODEC [PART]]]]`, with flat or
//! delta, none, lz4 or zstd, all, write, get or scan.
//!
//! Values have 100 bytes, half of them compressible; keys are 16 random bytes, or `user:` and ten digits over
//! even numbers. Tables of 500,000 entries make a run; "4 runs" has 85 % of the entries in one run and 5 % in
//! each of three. Blocks are cached unless said otherwise; "absent" looks up keys that do not exist. The
//! machine's dependent cache miss is printed first: results of a disturbed machine (above 170 ns) are of
//! little use.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use esker_base::checksum::key_hash;
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid, Tag, ValueKind};
use esker_env::{File, FileSystem, Mapping, OpenMode, Random, SeededRandom, StdFileSystem};
use esker_iter::Cursor;
use esker_sst::{
    BlockLayout, ExpectedTable, Lookup, MAX_LOOKUPS, ReadPurpose, Table, TableCache, TableIdentity,
    TableOptions, TableWriter, multi_get,
};
use std::hint::black_box;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

const ENTRIES_PER_TABLE: usize = 500_000;
const OPERATIONS: usize = 400_000;
const ROUNDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Random,
    User,
}

/// A key of up to 16 bytes, stored inline, so that keys scattered over the heap are not measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    bytes: [u8; 16],
    len: usize,
}

impl Key {
    fn new(from: &[u8]) -> Key {
        let mut bytes = [0; 16];
        bytes[..from.len()].copy_from_slice(from);
        Key { bytes, len: from.len() }
    }

    fn random(random: &SeededRandom) -> Key {
        Key::new(&[random.next_u64().to_be_bytes(), random.next_u64().to_be_bytes()].concat())
    }

    fn user(id: u64) -> Key {
        Key::new(format!("user:{id:010}").as_bytes())
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Keys {
    fn make(self, count: usize) -> Vec<Key> {
        let random = SeededRandom::new(1);
        let mut keys: Vec<Key> = (0..count as u64)
            .map(|i| match self {
                Keys::Random => Key::random(&random),
                Keys::User => Key::user(2 * i),
            })
            .collect();
        keys.sort();
        keys
    }

    fn absent(self, count: usize, random: &SeededRandom) -> Key {
        match self {
            Keys::Random => Key::random(random),
            Keys::User => Key::user(2 * random.below(count as u64) + 1),
        }
    }
}

fn value(out: &mut [u8; 100], random: &SeededRandom) {
    for chunk in out[..48].chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    out.copy_within(..50, 50);
}

/// Nanoseconds of this thread's processor time, where the system reports it (to 4 ms), else of elapsed time:
/// other processes of a shared machine do not count.
fn worked_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let worked = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = worked.and_then(|text| text.split(' ').next()?.parse().ok());
    worked.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// Nanoseconds for each of `count` steps: the median of some rounds, each long enough for the clock.
fn measure(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    const LEAST_NANOS: u64 = 100_000_000;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let (start, mut repeats) = (worked_nanos(), 0);
        while repeats == 0 || worked_nanos() - start < LEAST_NANOS {
            work()?;
            repeats += 1;
        }
        times.push((worked_nanos() - start) as f64 / (repeats * count) as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

/// Nanoseconds of a cache miss that depends on the one before.
fn dependent_miss() -> f64 {
    let random = SeededRandom::new(9);
    let lines = 1 << 20;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for i in (1..lines).rev() {
        order.swap(i, random.below(i as u64) as usize);
    }
    let mut ring = vec![[0u32; 16]; lines];
    for i in 0..lines {
        ring[order[i] as usize][0] = order[(i + 1) % lines];
    }
    let start = worked_nanos();
    let mut at = 0;
    for _ in 0..lines {
        at = ring[at as usize][0];
    }
    black_box(at);
    (worked_nanos() - start) as f64 / lines as f64
}

struct Bench {
    fs: StdFileSystem,
    dir: PathBuf,
    options: TableOptions,
    cache: Arc<TableCache>,
    tables: u32,
    /// The measurement to run.
    only: String,
}

/// Tables in key order.
struct Run {
    tables: Vec<Arc<Table>>,
    last_keys: Vec<Key>,
}

impl Run {
    #[inline]
    fn place(&self, key: &[u8]) -> usize {
        let at = self.last_keys.partition_point(|last| **last < *key);
        at.min(self.tables.len() - 1)
    }

    #[inline]
    fn table(&self, key: &[u8]) -> &Arc<Table> {
        &self.tables[self.place(key)]
    }
}

/// A file that discards its writes: what is left is the time of encoding.
#[derive(Debug)]
struct Discard;

impl File for Discard {
    fn path(&self) -> &Path {
        Path::new("discarded")
    }

    fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> Result<usize> {
        Ok(0)
    }

    fn write_at(&self, bytes: &[u8], _offset: u64) -> Result<()> {
        black_box(bytes);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(0)
    }

    fn set_len(&self, _len: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64, _keep_len: bool) -> Result<bool> {
        Ok(false)
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn map_writable(&self, _len: usize) -> Result<Mapping> {
        Err(Error::invalid("nothing to map"))
    }

    fn will_need(&self, _offset: u64, _len: u64) {}
}

impl Bench {
    /// Encodes keys as tables whose bytes are discarded.
    fn encode(&self, keys: &[Key]) -> Result<()> {
        let values = vec![[7; 100]; 64];
        let each = measure(keys.len(), || {
            for part in keys.chunks(ENTRIES_PER_TABLE) {
                let mut writer = TableWriter::new(Arc::new(Discard), self.options.clone())?;
                for (i, key) in part.iter().enumerate() {
                    writer.add(key, Tag::new(SeqNo::ZERO, ValueKind::Put), &values[i % values.len()])?;
                }
                black_box(writer.finish()?);
            }
            Ok(())
        })?;
        println!("  encode             {each:>7.1} ns an entry, index and filter included");
        Ok(())
    }

    /// Writes keys as a run; returns it and the nanoseconds for an entry.
    fn write(&mut self, keys: &[Key], seqno: impl Fn(usize) -> u64) -> Result<(Run, f64)> {
        let random = SeededRandom::new(4);
        let mut values = vec![[0; 100]; 1024];
        values.iter_mut().for_each(|out| value(out, &random));
        let (mut tables, mut nanos) = (Vec::new(), 0);
        for part in keys.chunks(ENTRIES_PER_TABLE) {
            self.tables += 1;
            let path = self.dir.join(format!("{}.sst", self.tables));
            let file = self.fs.open(&path, OpenMode::CreateOrTruncate)?;
            let uid = TableUid(self.tables.into());
            let start = worked_nanos();
            let mut writer = TableWriter::new(file, TableOptions { uid, ..self.options.clone() })?;
            for (i, key) in part.iter().enumerate() {
                writer.add(key, Tag::new(SeqNo::new(seqno(i)), ValueKind::Put), &values[i % values.len()])?;
            }
            // The sync is the device's time.
            nanos += worked_nanos() - start;
            let len = writer.finish()?.file_bytes;
            let file = self.fs.open(&path, OpenMode::Read)?;
            let expected = ExpectedTable { uid, keyspace: KeyspaceId(0), global_seqno: None };
            let identity = TableIdentity::standalone(Arc::clone(&self.cache))?;
            tables.push(Arc::new(Table::open(file, len, expected, identity)?));
        }
        let last_keys = tables.iter().map(|table| Key::new(&table.properties().max_key)).collect();
        Ok((Run { tables, last_keys }, nanos as f64 / keys.len() as f64))
    }

    fn sizes(&self, run: &Run, entries: usize) {
        let sum = |of: &dyn Fn(&Table) -> usize| {
            run.tables.iter().map(|table| of(table)).sum::<usize>() as f64 / entries as f64
        };
        println!(
            "  file {:.1} B an entry, blocks {:.1}, memory of index and filter {:.2}",
            sum(&|table| table.file_bytes() as usize),
            sum(&|table| table.properties().data_bytes as usize),
            sum(&|table| table.memory_bytes()),
        );
    }
}

fn warm(runs: &[Run]) -> Result<()> {
    for table in runs.iter().flat_map(|run| &run.tables) {
        let mut cursor = table.cursor(ReadPurpose::Point);
        cursor.seek_to_first()?;
        while cursor.is_valid() {
            cursor.next()?;
        }
    }
    Ok(())
}

#[inline]
fn get(runs: &[Run], key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    let hash = key_hash(key);
    for run in runs {
        run.table(key).prefetch_filter(hash);
    }
    for run in runs {
        let table = run.table(key);
        if !table.may_contain(hash) {
            continue;
        }
        let found = table.get_with(key, hash, SeqNo::MAX, |_, value| {
            out.clear();
            out.extend_from_slice(value);
        })?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn gets(name: &str, runs: &[Run], keys: &[Key]) -> Result<()> {
    let mut out = Vec::with_capacity(128);
    let mut hits = 0usize;
    let each = measure(keys.len(), || {
        hits = 0;
        for key in keys {
            hits += usize::from(get(runs, key, &mut out)?);
        }
        Ok(())
    })?;
    println!("  get {name:<14} {each:>7.0} ns ({hits} of {} found)", keys.len());
    Ok(())
}

fn multi_gets(name: &str, runs: &[Run], keys: &[Key]) -> Result<()> {
    let mut hits = vec![None; MAX_LOOKUPS];
    let mut found = 0;
    let each = measure(keys.len(), || {
        found = 0;
        for part in keys.chunks_exact(MAX_LOOKUPS) {
            let hashes: [u64; MAX_LOOKUPS] = std::array::from_fn(|i| key_hash(&part[i]));
            let mut pending = u32::MAX;
            for run in runs {
                let lookups: [Lookup<'_>; MAX_LOOKUPS] = std::array::from_fn(|i| Lookup {
                    table: run.table(&part[i]),
                    key: &part[i],
                    hash: hashes[i],
                });
                multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits)?;
                if pending == 0 {
                    break;
                }
            }
            found += pending.count_zeros();
            hits.iter_mut().for_each(|hit| drop(hit.take()));
        }
        Ok(())
    })?;
    println!("  multi-get {name:<8} {each:>7.0} ns a key ({found} found)");
    Ok(())
}

fn seeks(run: &Run, keys: &[Key], steps: usize) -> Result<()> {
    let mut cursors: Vec<_> = run.tables.iter().map(|table| table.cursor(ReadPurpose::Scan)).collect();
    let mut sum = 0usize;
    let each = measure(keys.len(), || {
        for key in keys {
            let cursor = &mut cursors[run.place(key)];
            cursor.seek(key, SeqNo::MAX)?;
            for _ in 0..steps {
                if !cursor.is_valid() {
                    break;
                }
                sum += usize::from(cursor.value()[0]) + cursor.key().len();
                cursor.next()?;
            }
        }
        Ok(())
    })?;
    black_box(sum);
    println!("  seek + {steps:<3}         {each:>7.0} ns");
    Ok(())
}

fn scan(name: &str, run: &Run, entries: usize, purpose: ReadPurpose, forward: bool) -> Result<()> {
    let mut sum = 0usize;
    let each = measure(entries, || {
        for table in &run.tables {
            let mut cursor = table.cursor(purpose);
            if forward {
                cursor.seek_to_first()?;
            } else {
                cursor.seek_to_last()?;
            };
            while cursor.is_valid() {
                sum += usize::from(cursor.value()[0]) + cursor.head(0) as usize % 2;
                if forward {
                    cursor.next()?;
                } else {
                    cursor.prev()?;
                };
            }
        }
        Ok(())
    })?;
    black_box(sum);
    println!("  {name:<18} {each:>7.1} ns an entry");
    Ok(())
}

fn operations(bench: &mut Bench, kind: Keys, entries: usize) -> Result<()> {
    let keys = kind.make(entries);
    let random = SeededRandom::new(5);
    let present: Vec<Key> = (0..OPERATIONS).map(|_| keys[random.below(entries as u64) as usize]).collect();
    let absent: Vec<Key> = (0..OPERATIONS).map(|_| kind.absent(entries, &random)).collect();
    println!("{kind:?} keys, 1 run");
    bench.encode(&keys)?;
    let (run, each) = bench.write(&keys, |_| 0)?;
    println!("  write              {each:>7.1} ns an entry, without the sync");
    bench.sizes(&run, entries);
    let runs = [run];
    let does = |what: &str| bench.only == "all" || bench.only == what;
    if does("get") {
        gets("from files", &runs, &present[..OPERATIONS / 8])?;
    }
    if does("scan") {
        scan("scan from files", &runs[0], entries, ReadPurpose::Compaction, true)?;
    }
    warm(&runs)?;
    if does("get") {
        gets("uniform", &runs, &present)?;
        gets("absent", &runs, &absent)?;
        multi_gets("uniform", &runs, &present)?;
        multi_gets("absent", &runs, &absent)?;
    }
    if does("scan") {
        for steps in [0, 10, 100] {
            seeks(&runs[0], &present[..OPERATIONS / 4], steps)?;
        }
        scan("scan", &runs[0], entries, ReadPurpose::Scan, true)?;
        scan("scan backward", &runs[0], entries, ReadPurpose::Scan, false)?;
    }
    if bench.only != "all" {
        return Ok(());
    }
    drop(runs);

    println!("{kind:?} keys with sequence numbers, 4 runs");
    let mut parts: [Vec<Key>; 4] = Default::default();
    for key in keys {
        let part = random.below(20);
        parts[if part < 3 { part as usize } else { 3 }].push(key);
    }
    let mut runs = Vec::new();
    for part in &parts {
        let (run, each) = bench.write(part, |i| 1 + (i as u64).wrapping_mul(0x9e37_79b9) % 1_000_000)?;
        println!("  write              {each:>7.1} ns an entry, without the sync");
        bench.sizes(&run, part.len());
        runs.push(run);
    }
    warm(&runs)?;
    gets("uniform", &runs, &present)?;
    gets("absent", &runs, &absent)?;
    multi_gets("uniform", &runs, &present)?;
    multi_gets("absent", &runs, &absent)
}

fn run(dir: &Path) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let entries = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    let layout = arguments.get(1).and_then(|name| BlockLayout::parse(name)).unwrap_or_default();
    let codec = arguments.get(2).map_or(Ok(esker_codec::Codec::None), |name| name.parse())?;
    let only = arguments.get(3).map_or("all", String::as_str);
    println!(
        "{entries} entries, {layout} blocks, codec {codec}; a dependent miss takes {:.0} ns",
        dependent_miss()
    );
    let options = TableOptions { layout, codec, ..TableOptions::default() };
    for kind in [Keys::Random, Keys::User] {
        let cache = Arc::new(TableCache::new(4 << 30));
        let mut bench = Bench {
            fs: StdFileSystem,
            dir: dir.to_owned(),
            options: options.clone(),
            cache,
            tables: 0,
            only: only.to_owned(),
        };
        operations(&mut bench, kind, entries)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-table-bench-{}", std::process::id()));
    StdFileSystem.create_dir_all(&dir)?;
    let outcome = run(&dir);
    StdFileSystem.remove_dir_all(&dir)?;
    outcome
}
