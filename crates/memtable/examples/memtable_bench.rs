//! Nanoseconds per operation of each kind of memtable, for several kinds of keys.
//!
//! ```text
//! cargo run --release -p esker-memtable --example memtable_bench -- [entries] [kind] [keys]
//! ```
//!
//! Values have 100 bytes. Everything runs in one thread; each figure is the least of a few rounds, because other
//! work on the machine only adds, over recycled arenas like those a database uses. `batch` inserts 1000 at a time, `multi` looks up 32 at a time, `walk` goes over
//! all entries and reads each key and the last byte of each value, `seek` moves a cursor to random present keys.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]

use esker_base::{SeqNo, Tag, ValueKind};
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Memtable, MemtableKind, Operation};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const KEYS: [&str; 6] = ["rand", "seq", "user", "sparse", "u64", "path"];
const VALUE: [u8; 100] = [b'v'; 100];

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

/// Time for one of `count` operations, in nanoseconds.
fn time(count: usize, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn fill(memtable_kind: MemtableKind, pool: &ArenaPool, keys: &Flat, batch: usize) -> (Arc<Memtable>, f64) {
    let count = keys.count();
    let payload = (keys.bytes.len() + count * VALUE.len()) as u64;
    let reserve = memtable_kind.needed_bytes(payload, count as u64);
    let (memtable, mut inserter) =
        Memtable::create(memtable_kind, pool, reserve).expect("address space for the benchmark");
    let taken = time(count, || {
        if batch == 1 {
            for index in 0..count {
                inserter.insert(keys.at(index), tag(index), &VALUE);
            }
            return;
        }
        let mut operations = Vec::with_capacity(batch);
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

fn get(memtable: &Memtable, probes: &Flat) -> f64 {
    time(probes.count(), || {
        for index in 0..probes.count() {
            let found = memtable.get(probes.at(index), SeqNo::MAX);
            black_box(found.expect("a present key").1[0]);
        }
    })
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

fn seek(memtable: &Arc<Memtable>, probes: &Flat) -> f64 {
    let mut cursor = memtable.cursor();
    time(probes.count(), || {
        for index in 0..probes.count() {
            cursor.seek(probes.at(index), SeqNo::MAX).expect("memory");
            black_box(cursor.value()[0]);
        }
    })
}

fn least(figures: Vec<f64>) -> f64 {
    figures.into_iter().fold(f64::INFINITY, f64::min)
}

fn bench(kind: MemtableKind, name: &str, count: u64, rounds: usize) {
    let Some(keys) = Flat::make(name, count) else {
        println!("{name}: keys are one of {KEYS:?}");
        return;
    };
    let probes = keys.shuffled(count.min(500_000));
    let pool = ArenaPool::new(u64::MAX);
    let mut figures: [Vec<f64>; 7] = Default::default();
    let mut node_share = 0.0;
    drop(fill(kind, &pool, &keys, 1)); // touches the arena
    for _ in 0..rounds {
        let (batched, batch) = fill(kind, &pool, &keys, 1000);
        drop(batched);
        let (memtable, insert) = fill(kind, &pool, &keys, 1);
        let round = [
            insert,
            batch,
            get(&memtable, &probes),
            multi_get(&memtable, &probes),
            walk(&memtable, true),
            walk(&memtable, false),
            seek(&memtable, &probes),
        ];
        for (all, one) in figures.iter_mut().zip(round) {
            all.push(one);
        }
        node_share = (memtable.allocated_bytes() - memtable.payload_bytes()) as f64 / count as f64;
    }
    let [insert, batch, get, multi, walk, back, seek] = figures.map(least);
    println!(
        "{kind:<9} {name:<7} {insert:>7.1} {batch:>7.1} {get:>7.1} {multi:>7.1} {walk:>7.1} {back:>7.1} {seek:>7.1} \
         {node_share:>7.1}"
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(500_000);
    let kind = arguments.get(1).and_then(|name| MemtableKind::parse(name));
    println!(
        "{count} entries, ns per operation      insert   batch     get   multi    walk    back    seek   bytes over payload"
    );
    for chosen in MemtableKind::ALL.into_iter().filter(|&one| kind.is_none_or(|wanted| wanted == one)) {
        let rounds = if chosen == MemtableKind::Skiplist { 1 } else { 5 };
        for name in KEYS.into_iter().filter(|&name| arguments.get(2).is_none_or(|wanted| wanted == name)) {
            bench(chosen, name, count, rounds);
        }
    }
}
