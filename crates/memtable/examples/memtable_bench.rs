//! Benchmark of the memtables: nanoseconds per operation of each kind and of crossbeam's `SkipMap`, for
//! several shapes of keys.
//!
//! ```text
//! cargo run --release -p esker-memtable --example memtable_bench -- [entries] [rounds] [kinds] [keys]
//! ```
//!
//! The only argument `lines` measures instead how far apart words of different threads have to be.
//!
//! Kinds and keys are names, joined by commas; the map is `skipmap`; `all` or nothing means all of them.
//! Values have 100 bytes. Everything runs in one thread, over recycled arenas like those a database uses. In
//! each round every kind is measured once, one after the other, so that other work on the machine affects
//! them alike; the time is the thread's own on the processor, and each figure the median of the rounds.
//!
//! `batch` inserts 1000 at a time, `multi` looks up 32 at a time, `walk` goes over all entries and reads each
//! key and the last byte of each value, `seek` moves a cursor to random present keys. The last column is the
//! bytes of an entry beyond its key and value, 20 bytes of the entry's own header included; the map's is not
//! known.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]

use crossbeam_skiplist::SkipMap;
use esker_base::{SeqNo, Tag, ValueKind};
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Memtable, MemtableKind, Operation};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const KEYS: [&str; 6] = ["rand", "seq", "user", "sparse", "u64", "path"];
const VALUE: [u8; 100] = [b'v'; 100];

/// The measured figures of each subject, in the order of the columns.
const COLUMNS: [&str; 8] = ["insert", "batch", "get", "multi", "walk", "back", "seek", "bytes"];
const INSERT: usize = 0;
const GET: usize = 2;
type Figures = [f64; COLUMNS.len()];

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys of one length, laid out flat.
struct Flat {
    bytes: Vec<u8>,
    len: usize,
}

impl Flat {
    fn make(name: &str, count: u64) -> Option<Flat> {
        let mut order: Vec<u64> = (0..count).collect();
        if name != "seq" {
            for at in (1..order.len()).rev() {
                order.swap(at, (mix(at as u64 ^ 0x5bd1) % (at as u64 + 1)) as usize);
            }
        }
        let key = |number: u64| match name {
            "rand" => Some([mix(number).to_be_bytes(), mix(number ^ 0xabcd_ef01).to_be_bytes()].concat()),
            "seq" => Some(format!("{number:016}").into_bytes()),
            "user" => Some(format!("user:{number:010}").into_bytes()),
            "sparse" => Some(format!("user:{:010}", number * 4 + (mix(number) & 3)).into_bytes()),
            "u64" => Some(number.to_be_bytes().to_vec()),
            "path" => {
                let (tenant, table) = (number % 1000, number % 7);
                Some(format!("tenant/{tenant:04}/table/{table:03}/row/{number:010}").into_bytes())
            }
            _ => None,
        };
        let keys: Option<Vec<Vec<u8>>> = order.into_iter().map(key).collect();
        let keys = keys?;
        Some(Flat { len: keys.first()?.len(), bytes: keys.concat() })
    }

    fn shuffled(&self, count: u64) -> Flat {
        let all = self.count() as u64;
        let keys: Vec<&[u8]> = (0..count).map(|at| self.at((mix(at + 77) % all) as usize)).collect();
        Flat { bytes: keys.concat(), len: self.len }
    }

    fn count(&self) -> usize {
        self.bytes.len() / self.len
    }

    #[inline]
    fn at(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.len..(index + 1) * self.len]
    }
}

fn tag(seqno: usize) -> Tag {
    Tag::new(SeqNo::new(seqno as u64 + 1), ValueKind::Put)
}

/// Nanoseconds that this thread was on a processor; elapsed nanoseconds where the system does not report
/// them.
fn clock(start: Instant) -> f64 {
    // The kernel updates the figure when a thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_processor = text.split(' ').next().and_then(|number| number.parse().ok());
    on_processor.unwrap_or_else(|| start.elapsed().as_nanos() as f64)
}

/// Time for one of `count` operations, in nanoseconds.
fn time(count: usize, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    let before = clock(start);
    run();
    (clock(start) - before) / count as f64
}

/// Time for one operation on each of the probes.
fn time_each<'a>(probes: &'a Flat, mut run: impl FnMut(&'a [u8])) -> f64 {
    time(probes.count(), || (0..probes.count()).for_each(|index| run(probes.at(index))))
}

fn fill(memtable_kind: MemtableKind, pool: &ArenaPool, keys: &Flat, batch: usize) -> (Arc<Memtable>, f64) {
    let count = keys.count();
    let payload = (keys.bytes.len() + count * VALUE.len()) as u64;
    let reserve = memtable_kind.needed_bytes(payload, count as u64);
    let (memtable, mut inserter) =
        Memtable::create(memtable_kind, pool, reserve).expect("address space for the benchmark");
    // Not measured: the allocator may sort what the previous map freed.
    let mut operations = Vec::with_capacity(batch);
    let taken = time(count, || {
        if batch == 1 {
            for index in 0..count {
                inserter.insert(keys.at(index), tag(index), &VALUE);
            }
            return;
        }
        for first in (0..count).step_by(batch) {
            operations.clear();
            operations.extend((first..count.min(first + batch)).map(|index| Operation {
                key: keys.at(index),
                tag: tag(index),
                value: &VALUE,
            }));
            inserter.insert_batch(&operations);
        }
    });
    (memtable, taken)
}

fn multi_get(memtable: &Memtable, probes: &Flat) -> f64 {
    time(probes.count(), || {
        for first in (0..probes.count()).step_by(32) {
            let keys: Vec<&[u8]> =
                (first..probes.count().min(first + 32)).map(|index| probes.at(index)).collect();
            let mut results = [None; 32];
            black_box(memtable.multi_get(&keys, u32::MAX, SeqNo::MAX, &mut results));
            for (_, value) in results.iter().flatten() {
                black_box(value[0]);
            }
        }
    })
}

fn walk(memtable: &Arc<Memtable>, forwards: bool) -> f64 {
    let mut cursor = memtable.cursor();
    time(memtable.len() as usize, || {
        let mut sum = 0u64;
        if forwards {
            cursor.seek_to_first().expect("memory");
        } else {
            cursor.seek_to_last().expect("memory");
        }
        while cursor.is_valid() {
            sum += u64::from(cursor.key()[0]) + u64::from(cursor.value()[99]);
            if forwards {
                cursor.next().expect("memory");
            } else {
                cursor.prev().expect("memory");
            }
        }
        black_box(sum);
    })
}

fn measure_memtable(kind: MemtableKind, pool: &ArenaPool, keys: &Flat, probes: &Flat) -> Figures {
    let (batched, batch) = fill(kind, pool, keys, 1000);
    drop(batched);
    let (memtable, insert) = fill(kind, pool, keys, 1);
    let get = time_each(probes, |key| {
        black_box(memtable.get(key, SeqNo::MAX).expect("a present key").1[0]);
    });
    let mut cursor = memtable.cursor();
    let seek = time_each(probes, |key| {
        cursor.seek(key, SeqNo::MAX).expect("memory");
        black_box(cursor.value()[0]);
    });
    let beyond = (memtable.allocated_bytes() - memtable.payload_bytes()) as f64 / keys.count() as f64;
    let multi = multi_get(&memtable, probes);
    [insert, batch, get, multi, walk(&memtable, true), walk(&memtable, false), seek, beyond]
}

/// The same of crossbeam's map, as far as it has it: no batches, no lookups of many keys.
fn measure_map(keys: &Flat, probes: &Flat) -> Figures {
    let count = keys.count();
    let map: SkipMap<Vec<u8>, Vec<u8>> = SkipMap::new();
    let insert = time_each(keys, |key| {
        map.insert(key.to_vec(), VALUE.to_vec());
    });
    let get = time_each(probes, |key| {
        black_box(map.get(key).expect("a present key").value()[0]);
    });
    let seek = time_each(probes, |key| {
        black_box(map.lower_bound::<[u8]>(Bound::Included(key)).expect("a present key").value()[0]);
    });
    let walks = [false, true].map(|backwards| {
        time(count, || {
            let mut entries = map.iter();
            let mut sum = 0u64;
            while let Some(entry) = if backwards { entries.next_back() } else { entries.next() } {
                sum += u64::from(entry.key()[0]) + u64::from(entry.value()[99]);
            }
            black_box(sum);
        })
    });
    [insert, f64::NAN, get, f64::NAN, walks[0], walks[1], seek, f64::NAN]
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Measures everything for one shape of keys and prints a line for each subject.
fn bench(name: &str, kinds: &[MemtableKind], with_map: bool, count: u64, rounds: usize) {
    let Some(keys) = Flat::make(name, count) else {
        println!("{name}: keys are some of {KEYS:?}");
        return;
    };
    let probes = keys.shuffled(count.min(500_000));
    let pools: Vec<ArenaPool> = kinds.iter().map(|_| ArenaPool::new(u64::MAX)).collect();
    for (&kind, pool) in kinds.iter().zip(&pools) {
        drop(fill(kind, pool, &keys, 1)); // touches the arena
    }
    let mut all: Vec<[Vec<f64>; COLUMNS.len()]> =
        vec![Default::default(); kinds.len() + usize::from(with_map)];
    for _ in 0..rounds {
        for (index, subject) in all.iter_mut().enumerate() {
            let round = match kinds.get(index) {
                Some(&kind) => measure_memtable(kind, &pools[index], &keys, &probes),
                None => measure_map(&keys, &probes),
            };
            subject.iter_mut().zip(round).for_each(|(figures, figure)| figures.push(figure));
        }
    }
    let medians: Vec<Figures> = all.into_iter().map(|figures| figures.map(median)).collect();
    let map = medians.get(kinds.len()).copied().unwrap_or([f64::NAN; COLUMNS.len()]);
    let names = kinds.iter().map(|kind| kind.name()).chain(["SkipMap"]);
    for (subject, figures) in names.zip(&medians) {
        let columns: Vec<String> = figures
            .iter()
            .map(|&figure| if figure.is_nan() { format!("{:>7}", "-") } else { format!("{figure:>7.1}") })
            .collect();
        let (insert, get) = (map[INSERT] / figures[INSERT], map[GET] / figures[GET]);
        println!("{name:<7} {subject:<16} {}   {insert:>5.1} x {get:>5.1} x", columns.join(" "));
    }
}

/// A word that readers load, and counters that a writer stores, on lines of their own by an alignment.
macro_rules! neighbours {
    ($name:ident, $align:literal) => {
        #[repr(align($align))]
        #[derive(Default)]
        struct $name([AtomicU64; 5]);
    };
}
neighbours!(Close, 8);
neighbours!(Line, 64);
neighbours!(Pair, 128);
neighbours!(Pairs, 256);

/// Cost of a reader's load and a writer's five stores beside each other, in nanoseconds.
fn beside<T: Default + Sync>(counters: fn(&T) -> &[AtomicU64; 5]) -> [f64; 2] {
    #[derive(Default)]
    #[repr(C, align(256))]
    struct Shared<T> {
        word: AtomicU64,
        counters: T,
    }
    const COUNT: usize = 20_000_000;
    let shared: Shared<T> = Shared::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let stores = time(COUNT, || {
                for number in 0..COUNT as u64 {
                    counters(&shared.counters).iter().for_each(|counter| counter.store(number, Relaxed));
                }
            });
            done.store(true, Relaxed);
            stores
        });
        let mut loads = 0;
        let start = Instant::now();
        let before = clock(start);
        while !done.load(Relaxed) {
            (0..1000).for_each(|_| {
                black_box(shared.word.load(Relaxed));
            });
            loads += 1000;
        }
        let load = (clock(start) - before) / f64::from(loads);
        [load, writer.join().expect("a writer does not fail")]
    })
}

fn bench_lines() {
    println!("ns of a reader's load beside counters that another thread stores, and of those stores");
    for _ in 0..3 {
        let all = [
            ("same line", beside::<Close>(|counters| &counters.0)),
            ("64 bytes", beside::<Line>(|counters| &counters.0)),
            ("128 bytes", beside::<Pair>(|counters| &counters.0)),
            ("256 bytes", beside::<Pairs>(|counters| &counters.0)),
        ];
        for (name, [load, stores]) in all {
            println!("{name:<10} {load:>7.2} {stores:>7.2}");
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "lines") {
        bench_lines();
        return;
    }
    let number =
        |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, rounds) = (number(0, 500_000), number(1, 5) as usize);
    let chosen = |at: usize, name: &str| {
        let list = arguments.get(at).map_or("all", String::as_str);
        list == "all" || list.split(',').any(|one| one == name)
    };
    let kinds: Vec<MemtableKind> =
        MemtableKind::ALL.into_iter().filter(|kind| chosen(2, kind.name())).collect();
    println!(
        "{count} entries of 100 bytes and a key, ns on the processor per operation, medians of {rounds} interleaved rounds;"
    );
    println!("bytes beyond key and value; how many times faster than SkipMap at insert and get");
    let columns: Vec<String> = COLUMNS.iter().map(|column| format!("{column:>7}")).collect();
    println!("{:<7} {:<16} {}", "keys", "kind", columns.join(" "));
    for name in KEYS.into_iter().filter(|&name| chosen(3, name)) {
        bench(name, &kinds, chosen(2, "skipmap"), count, rounds);
    }
}
