//! Parallel insertion: threads that write shards, each with a lock of its own, against one lock around the
//! whole write, as the store has it. Measured on the cores there are, and simulated on more.
//!
//! A write of a store is more than an insertion: it takes a sequence number and a place in the log, and
//! becomes visible in that order. *One lock* does all of it in the default memtable. *Ordered shards* take
//! number and log place under one lock, and their shard's lock before they release it, so that numbers rise
//! in each shard; they insert under that, and publish in turn. *Unordered shards* only insert, as CS265
//! (2.2.1) describes them: no store with a log and snapshots could use it.

use super::structures::VALUE_BYTES;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape};
use crate::table::{Cell, Column, Table};
use esker::options::MemtableKind;
use esker::parts::base::{SeqNo, Tag, ValueKind, checksum};
use esker::parts::env::{Random, SeededRandom, SystemClock};
use esker::parts::memtable::{ArenaPool, Inserter, Memtable};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;
const THREADS: [usize; 4] = [1, 2, 4, 8];
const CORES: [usize; 5] = [1, 2, 4, 8, 16];
/// A copy of the log that wraps around.
const LOG_BYTES: usize = 1 << 20;
static VALUE: [u8; VALUE_BYTES] = [b'v'; VALUE_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    OneLock,
    OrderedShards,
    UnorderedShards,
}

impl Design {
    const ALL: [Design; 3] = [Design::OneLock, Design::OrderedShards, Design::UnorderedShards];

    fn name(self) -> &'static str {
        match self {
            Design::OneLock => "one lock, art",
            Design::OrderedShards => "16 shards, ordered",
            Design::UnorderedShards => "16 shards, unordered",
        }
    }

    fn shards(self) -> usize {
        if self == Design::OneLock { 1 } else { SHARDS }
    }

    fn kind(self) -> MemtableKind {
        if self == Design::OneLock { MemtableKind::default() } else { MemtableKind::Skiplist }
    }
}

/// What the order of writes is kept in.
struct Log {
    next: u64,
    bytes: Vec<u8>,
}

impl Log {
    fn append(&mut self, record: &[u8]) -> u64 {
        let at = (self.next as usize * record.len()) % (LOG_BYTES - record.len());
        self.bytes[at..at + record.len()].copy_from_slice(record);
        self.next += 1;
        self.next
    }
}

struct Written {
    design: Design,
    log: Mutex<Log>,
    visible: AtomicU64,
    shards: Vec<(Arc<Memtable>, Mutex<Shard>)>,
}

struct Shard {
    inserter: Inserter,
    /// The number of the last entry, where no log gives numbers.
    last: u64,
}

impl Shard {
    fn insert(&mut self, key: &[u8], seqno: u64) {
        self.inserter.insert(key, Tag::new(SeqNo::new(seqno), ValueKind::Put), &VALUE);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Written {
    fn create(design: Design, pool: &ArenaPool, keys: &Keys) -> Result<Written> {
        let (kind, shards) = (design.kind(), design.shards());
        // Shards are filled unevenly.
        let count = (keys.count() / shards * 3 / 2 + 1_000) as u64;
        let bytes = count * (keys.key_len() + VALUE_BYTES) as u64;
        let create = |_| {
            let (memtable, inserter) = Memtable::create(kind, pool, kind.needed_bytes(bytes, count))?;
            Ok((memtable, Mutex::new(Shard { inserter, last: 0 })))
        };
        let shards = (0..shards).map(create).collect::<Result<Vec<_>>>()?;
        let log = Mutex::new(Log { next: 0, bytes: vec![0; LOG_BYTES] });
        Ok(Written { design, log, visible: AtomicU64::new(0), shards })
    }

    fn lock_shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        locked(&self.shards[checksum::key_hash(key) as usize % self.shards.len()].1)
    }

    /// Writes a key; `record` is the thread's own memory for encoding.
    fn put(&self, key: &[u8], record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(key);
        record.extend_from_slice(&VALUE);
        black_box(checksum::crc32c(record));
        match self.design {
            Design::OneLock => {
                let mut log = locked(&self.log);
                let seqno = log.append(record);
                self.lock_shard(key).insert(key, seqno);
                self.visible.store(seqno, Ordering::Release);
            }
            Design::OrderedShards => {
                let mut log = locked(&self.log);
                let seqno = log.append(record);
                let mut shard = self.lock_shard(key);
                drop(log);
                shard.insert(key, seqno);
                drop(shard);
                let mut tries = 0_u32;
                while self.visible.load(Ordering::Acquire) != seqno - 1 {
                    tries += 1;
                    // With more threads than cores the one before may not be running.
                    if tries.is_multiple_of(64) { std::thread::yield_now() } else { spin_loop() }
                }
                self.visible.store(seqno, Ordering::Release);
            }
            Design::UnorderedShards => {
                let mut shard = self.lock_shard(key);
                shard.last += 1;
                let seqno = shard.last;
                shard.insert(key, seqno);
            }
        }
    }

    /// Nanoseconds a key while so many threads put their share of the keys.
    fn fill(&self, clock: &SystemClock, keys: &Keys, threads: usize) -> Result<f64> {
        let share = keys.count() / threads;
        let (taken_ns, ()) = time_ns(clock, || {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || {
                        let mut record = Vec::new();
                        for at in thread * share..(thread + 1) * share {
                            self.put(keys.at(at), &mut record);
                        }
                    });
                }
            });
        });
        let found: u64 = self.shards.iter().map(|(memtable, _)| memtable.len()).sum();
        if found != (share * threads) as u64 {
            return Err(ExperimentError::WrongAnswer(format!("{} hold {found} entries", self.design.name())));
        }
        Ok(taken_ns / (share * threads) as f64)
    }
}

fn entries(context: &Context<'_>) -> usize {
    context.pick(2_000, 100_000, 500_000)
}

fn cases() -> Vec<(Design, usize)> {
    Design::ALL.iter().flat_map(|&design| THREADS.map(|threads| (design, threads))).collect()
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    context.pick(1, 3, 5) * cases().len()
}

/// Millions of puts a second, measured and simulated.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Vec<Table>> {
    let keys = Keys::new(Shape::Random, entries(context), &context.random(3));
    let pool = ArenaPool::new(u64::MAX);
    let cases = cases();
    let name = |(design, threads): &(Design, usize)| format!("{}, {threads} threads", design.name());
    let measured = context.rounds(context.pick(1, 3, 5), &cases, name, |clock, &(design, threads)| {
        Ok(vec![1e3 / Written::create(design, &pool, &keys)?.fill(clock, &keys, threads)?])
    })?;
    let columns =
        [Column::key("design"), Column::key("threads"), Column::measured("million_puts_per_second", 2)];
    let mut table = Table::new("parallel", "Threads that put into one memtable", &columns);
    for ((design, threads), samples) in cases.into_iter().zip(measured) {
        let mut row: Vec<Cell> = vec![design.name().into(), threads.into()];
        row.extend(samples.into_iter().map(Cell::from));
        table.push(row);
    }
    let times = Times::of(&table);
    Ok(vec![table, simulated(&times, &context.random(4))])
}

/// Nanoseconds of the pieces of a put, by the rows of one thread.
#[derive(Clone, Copy, Debug)]
struct Times {
    art: f64,
    shard: f64,
    /// Number and log place, beside encoding.
    order: f64,
    /// Encoding and checksum.
    encode: f64,
}

impl Times {
    /// Encoding and the copy into the log are the same bytes, and are taken for halves of what the ordered
    /// design takes beyond the unordered one.
    fn of(table: &Table) -> Times {
        let ns = |design: Design| {
            let wanted = [("design", design.name()), ("threads", "1")];
            table.number(&wanted, "million_puts_per_second").map_or(f64::NAN, |rate| 1e3 / rate)
        };
        let order = (ns(Design::OrderedShards) - ns(Design::UnorderedShards)).max(10.0);
        let encode = order.min(ns(Design::UnorderedShards) / 2.0);
        let shard = ns(Design::UnorderedShards) - encode;
        Times { art: (ns(Design::OneLock) - order - encode).max(10.0), shard, order, encode }
    }
}

/// Cache lines that move to another core inside of the ordered section: the lock, and what it guards, or what
/// is published.
const LINES: f64 = 2.0;

/// Puts on more cores than there are, by the measured times and a cost of moving a cache line between cores.
fn simulated(times: &Times, random: &SeededRandom) -> Table {
    let columns = [
        Column::key("line_ns"),
        Column::key("cores"),
        Column::number("one_lock", 2),
        Column::number("ordered_shards", 2),
        Column::number("unordered_shards", 2),
    ];
    let mut table = Table::new("simulated", "Simulated, millions of puts a second", &columns);
    for line_ns in [0_u64, 50, 100, 200] {
        for cores in CORES {
            let mut row: Vec<Cell> = vec![line_ns.into(), cores.into()];
            let moved = if cores == 1 { 0.0 } else { line_ns as f64 };
            row.extend(Design::ALL.map(|design| simulate(design, times, moved, cores, random).into()));
            table.push(row);
        }
    }
    table
}

/// Each core puts again and again; of the cores the one whose clock is least goes next. A lock is a time at
/// which it is free.
fn simulate(design: Design, times: &Times, line_ns: f64, cores: usize, random: &SeededRandom) -> f64 {
    const PUTS: usize = 20_000;
    let (mut clocks, mut shards) = (vec![0.0_f64; cores], vec![0.0_f64; design.shards()]);
    let (mut log, mut visible) = (0.0_f64, 0.0_f64);
    for _ in 0..PUTS {
        let core = (0..cores).min_by(|a, b| clocks[*a].total_cmp(&clocks[*b])).unwrap_or(0);
        let mut now = clocks[core] + times.encode;
        let shard = random.next_u64() as usize % shards.len();
        if design != Design::UnorderedShards {
            now = now.max(log) + times.order + LINES * line_ns;
            if design == Design::OneLock {
                now += times.art;
            }
        }
        if design == Design::OneLock {
            log = now;
        } else {
            now = now.max(shards[shard]) + line_ns;
            // The shard's lock is there: the log's is released.
            log = now;
            now += times.shard;
            shards[shard] = now;
        }
        if design == Design::OrderedShards {
            now = now.max(visible) + line_ns;
            visible = now;
        }
        clocks[core] = now;
    }
    let end = clocks.iter().copied().fold(0.0, f64::max);
    PUTS as f64 * 1e3 / end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_bounds_what_cores_add() {
        let times = Times { art: 100.0, shard: 600.0, order: 50.0, encode: 50.0 };
        let run = |design, line_ns, cores| simulate(design, &times, line_ns, cores, &SeededRandom::new(1));
        // One core: the sum of the times; many: one over what is under the lock.
        assert!((run(Design::OneLock, 0.0, 1) - 1e3 / 200.0).abs() < 0.01);
        assert!((run(Design::OneLock, 0.0, 16) - 1e3 / 150.0).abs() < 0.01);
        assert!((run(Design::OneLock, 100.0, 16) - 1e3 / 350.0).abs() < 0.01);
        assert!((run(Design::UnorderedShards, 0.0, 1) - 1e3 / 650.0).abs() < 0.01);
        // A put waits for its shard while it holds the order, so cores add less than without an order.
        let (alone, ordered) = (run(Design::OrderedShards, 0.0, 1), run(Design::OrderedShards, 0.0, 16));
        assert!((alone - 1e3 / 700.0).abs() < 0.01, "{alone}");
        assert!(ordered > 2.0 * alone && ordered < run(Design::UnorderedShards, 0.0, 16), "{ordered}");
    }
}
