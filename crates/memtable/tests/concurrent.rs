//! One inserter and several readers at once: acknowledged entries are found, order is strict, versions never
//! go back.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{Keys, Rng, create, put_tag, scaled};
use esker_base::SeqNo;
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Memtable, MemtableKind, Operation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the inserter will insert, known to the readers beforehand: operation `n` has sequence number `n + 1`,
/// and its value names it.
struct Script {
    keys: Vec<Vec<u8>>,
    /// For each operation, the one that wrote the same key before, if any.
    previous: Vec<Option<usize>>,
    visible: AtomicU64,
}

impl Script {
    fn new(mut keys: Keys, operations: usize, seed: u64) -> Script {
        let mut rng = Rng(seed);
        let keys: Vec<Vec<u8>> = (0..scaled(operations)).map(|_| keys.next(&mut rng)).collect();
        let mut last = std::collections::HashMap::with_hasher(std::hash::BuildHasherDefault::<
            std::collections::hash_map::DefaultHasher,
        >::default());
        let previous = keys.iter().enumerate().map(|(at, key)| last.insert(key.clone(), at)).collect();
        Script { keys, previous, visible: AtomicU64::new(0) }
    }

    fn check(&self, key: &[u8], seqno: SeqNo, value: &[u8]) {
        let number = seqno.get() as usize - 1;
        assert_eq!(self.keys[number], key, "operation {number} has another key");
        assert_eq!(value, (number as u64).to_le_bytes(), "operation {number} has another value");
    }

    /// Acknowledged operations are found, at their own sequence number and by the newest view.
    fn gets(&self, memtable: &Memtable, rng: &mut Rng) {
        let visible = self.visible.load(Ordering::Acquire);
        if visible == 0 {
            return;
        }
        for _ in 0..50 {
            let number = rng.below(visible) as usize;
            let key = &self.keys[number];
            let own = SeqNo::new(number as u64 + 1);
            let (tag, value) = memtable.get(key, own).expect("an acknowledged entry");
            assert_eq!(tag.seqno(), own);
            self.check(key, own, value);
            let (tag, value) = memtable.get(key, SeqNo::MAX).expect("an acknowledged entry");
            assert!(tag.seqno() >= own, "a version went back");
            self.check(key, tag.seqno(), value);
        }
        let numbers: Vec<usize> = (0..32).map(|_| rng.below(visible) as usize).collect();
        let keys: Vec<&[u8]> = numbers.iter().map(|&number| self.keys[number].as_slice()).collect();
        let mut results = [None; 32];
        assert_eq!(memtable.multi_get(&keys, u32::MAX, SeqNo::new(visible), &mut results), u32::MAX);
        for (number, found) in numbers.into_iter().zip(results) {
            let (tag, value) = found.unwrap();
            assert!(tag.seqno().get() > number as u64 && tag.seqno().get() <= visible);
            self.check(&self.keys[number], tag.seqno(), value);
        }
    }

    /// A walk meets everything acknowledged before it began, in strict order.
    fn walk(&self, memtable: &Arc<Memtable>, forwards: bool) {
        let visible = self.visible.load(Ordering::Acquire);
        let mut cursor = memtable.cursor();
        if forwards { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
        let mut met = 0;
        let mut last: Option<(Vec<u8>, SeqNo)> = None;
        while cursor.is_valid() {
            let seqno = cursor.tag().seqno();
            self.check(cursor.key(), seqno, cursor.value());
            if let Some((key, other)) = &last {
                let (left, right) = ((key.as_slice(), seqno), (cursor.key(), *other));
                assert!(if forwards { left < right } else { left > right }, "order");
            }
            met += u64::from(seqno.get() <= visible);
            last = Some((cursor.key().to_vec(), seqno));
            if forwards { cursor.next() } else { cursor.prev() }.unwrap();
        }
        assert_eq!(met, visible, "entries were missed");
    }

    /// One cursor over its whole life: each seek finds what is acknowledged by then, and walks on from there.
    fn seeks(&self, cursor: &mut impl Cursor, rng: &mut Rng) {
        let visible = self.visible.load(Ordering::Acquire);
        if visible == 0 {
            return;
        }
        for _ in 0..20 {
            let number = rng.below(visible) as usize;
            let key = &self.keys[number];
            cursor.seek(key, SeqNo::new(number as u64 + 1)).unwrap();
            assert_eq!((cursor.key(), cursor.tag()), (key.as_slice(), put_tag(number as u64 + 1)));
            if let Some(previous) = self.previous[number] {
                cursor.next().unwrap();
                assert_eq!((cursor.key(), cursor.tag()), (key.as_slice(), put_tag(previous as u64 + 1)));
                cursor.prev().unwrap();
                assert_eq!(cursor.tag(), put_tag(number as u64 + 1));
            }
            cursor.seek_before(key).unwrap();
            for _ in 0..rng.below(5) {
                if !cursor.is_valid() {
                    break;
                }
                assert!(cursor.key() < key.as_slice());
                self.check(cursor.key(), cursor.tag().seqno(), cursor.value());
                cursor.prev().unwrap();
            }
        }
    }

    fn run(&self, kind: MemtableKind, seed: u64) {
        println!("{kind}, {} operations, seed {seed}", self.keys.len());
        let pool = ArenaPool::new(64 << 20);
        let (memtable, mut inserter) = create(kind, &pool, scaled(64 << 20) as u64);
        let count = self.keys.len() as u64;
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let memtable = Arc::clone(&memtable);
                scope.spawn(move || {
                    let mut rng = Rng(seed * 31 + reader);
                    let mut cursor = memtable.cursor();
                    loop {
                        let is_last = self.visible.load(Ordering::Acquire) == count;
                        match reader {
                            0 => self.gets(&memtable, &mut rng),
                            1 => self.walk(&memtable, rng.below(2) == 0),
                            _ => self.seeks(&mut cursor, &mut rng),
                        }
                        if is_last {
                            break;
                        }
                    }
                });
            }
            let mut rng = Rng(seed);
            let mut at = 0;
            while at < self.keys.len() {
                let end = self.keys.len().min(at + 1 + rng.below(40) as usize);
                let values: Vec<[u8; 8]> = (at..end).map(|number| (number as u64).to_le_bytes()).collect();
                let operations: Vec<Operation<'_>> = (at..end)
                    .zip(&values)
                    .map(|(number, value)| Operation {
                        key: &self.keys[number],
                        tag: put_tag(number as u64 + 1),
                        value,
                    })
                    .collect();
                inserter.insert_batch(&operations);
                self.visible.store(end as u64, Ordering::Release);
                at = end;
            }
        });
        assert_eq!(memtable.len(), count);
    }
}

#[test]
fn random_keys() {
    for kind in MemtableKind::ALL {
        Script::new(Keys::Binary(16), 40_000, 1).run(kind, 1);
    }
}

#[test]
fn keys_that_make_every_node_grow_and_split() {
    for kind in MemtableKind::ALL {
        Script::new(Keys::Binary(2), 40_000, 2).run(kind, 2);
        Script::new(Keys::Letters(b"\0\x01ab\xff", 12), 30_000, 3).run(kind, 3);
        Script::new(Keys::Decimal("user:", 10, 20_000), 40_000, 4).run(kind, 4);
    }
}

#[test]
fn few_keys_with_many_versions() {
    for kind in MemtableKind::ALL {
        Script::new(Keys::Decimal("hot", 1, 5), 30_000, 5).run(kind, 5);
    }
}

#[test]
fn long_keys() {
    for kind in MemtableKind::ALL {
        Script::new(Keys::Long(200, 120), 20_000, 6).run(kind, 6);
    }
}
