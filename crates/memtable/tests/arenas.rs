//! Arenas: room is known beforehand, and recycled memory is not read before it is written.
#![cfg(not(loom))]
#![expect(clippy::print_stdout, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{Keys, Model, Rng, create, put_tag};
use esker_base::{Error, SeqNo};
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Memtable, MemtableKind, Operation};

/// Fills memtables until `has_room` is false; whatever the keys, no insertion may fail before.
fn fill(kind: MemtableKind, pool: &ArenaPool, mut keys: Keys, seed: u64) {
    println!("{kind}, {keys:?}, seed {seed}");
    let mut rng = Rng(seed);
    let (memtable, mut inserter) = create(kind, pool, 1 << 20);
    let mut seqno = 0;
    loop {
        let batch: Vec<Vec<u8>> = (0..1 + rng.below(20)).map(|_| keys.next(&mut rng)).collect();
        let value = vec![1; rng.below(30) as usize];
        let payload: usize = batch.iter().map(|key| key.len() + value.len()).sum();
        let has_room = memtable.has_room(payload as u64, batch.len() as u64);
        assert_eq!(has_room, inserter.has_room(payload as u64, batch.len() as u64));
        if !has_room {
            break;
        }
        let operations: Vec<Operation<'_>> = batch
            .iter()
            .map(|key| {
                seqno += 1;
                Operation { key, tag: put_tag(seqno), value: &value }
            })
            .collect();
        inserter.insert_batch(&operations);
    }
    // The bound is tight: most of the arena was used (2 MiB is the least reservation).
    let share = memtable.allocated_bytes() as f64 / f64::from(2 << 20);
    assert!(share > 0.5, "{share} used after {seqno} operations");
}

#[test]
fn insertion_never_fails_while_there_is_room() {
    let pool = ArenaPool::new(16 << 20);
    for kind in MemtableKind::ALL {
        for seed in 0..4 {
            fill(kind, &pool, Keys::Binary(4), seed);
            fill(kind, &pool, Keys::Binary(24), seed);
            fill(kind, &pool, Keys::Letters(b"ab", 30), seed);
            fill(kind, &pool, Keys::Decimal("u", 8, 1 << 40), seed);
            fill(kind, &pool, Keys::Long(70, 60), seed);
        }
    }
}

#[test]
fn node_memory_has_its_bound_for_the_worst_shapes() {
    // Nodes that have just grown, and prefixes split repeatedly: the shapes with most node memory for each
    // key.
    let with = |children: u8, parent: u16| {
        (0..children).map(move |byte| [&parent.to_be_bytes()[..], &[byte]].concat())
    };
    let mut shapes: Vec<Vec<Vec<u8>>> =
        [2, 5, 17, 49].map(|children| (0..300).flat_map(|parent| with(children, parent)).collect()).to_vec();
    shapes.push((0..2_000).map(|len| [vec![b'p'; 2_000 - len], vec![b'q']].concat()).collect());
    shapes.push((0..2_000).map(|len| vec![b'p'; 2_000 - len]).collect());
    for kind in MemtableKind::ALL {
        for keys in &shapes {
            let payload: u64 = keys.iter().map(|key| key.len() as u64).sum();
            let count = keys.len() as u64;
            let reserve = kind.needed_bytes(payload, count);
            let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), reserve);
            assert!(memtable.has_room(payload, count));
            for (key, seqno) in keys.iter().zip(1..) {
                inserter.insert(key, put_tag(seqno), b"");
            }
            assert!(memtable.allocated_bytes() <= reserve, "{} of {reserve}", memtable.allocated_bytes());
        }
    }
}

/// The greatest payload that fits, with so many entries.
fn last_room(memtable: &Memtable, entries: u64) -> u64 {
    let (mut fits, mut exceeds) = (0, 1 << 30);
    assert!(memtable.has_room(fits, entries) && !memtable.has_room(exceeds, entries));
    while exceeds - fits > 1 {
        let middle = fits.midpoint(exceeds);
        if memtable.has_room(middle, entries) { fits = middle } else { exceeds = middle }
    }
    fits
}

#[test]
fn exact_room_suffices_for_growing_nodes() {
    // Few keys, for which the bound of all nodes is the tight one, and many, for which it is that of an
    // insertion.
    for kind in MemtableKind::ALL {
        for (others, children) in
            [0, 2_000].into_iter().flat_map(|others| [1, 4, 16, 48].map(|n| (others, n)))
        {
            let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), 1 << 20);
            let mut seqno = 0;
            let mut tag = || {
                seqno += 1;
                put_tag(seqno)
            };
            for other in 0..others {
                inserter.insert(format!("other {other:010}").as_bytes(), tag(), b"");
            }
            for child in 0..children {
                inserter.insert(&[child], tag(), b"");
            }
            let value = vec![1; last_room(&memtable, 1) as usize - 1];
            inserter.insert(&[children], tag(), &value);
            assert_eq!(
                memtable.get(&[children], SeqNo::MAX).map(|(_, value)| value.len()),
                Some(value.len())
            );
            // A B+-tree may have to copy its whole path.
            assert!(last_room(&memtable, 0) < 8_000, "the bound is not far from the truth");
        }
    }
}

#[test]
fn room_saturates_instead_of_overflowing() {
    for kind in MemtableKind::ALL {
        let (memtable, _inserter) = create(kind, &ArenaPool::new(0), 1 << 20);
        assert!(memtable.has_room(0, 0));
        assert!(memtable.has_room(1 << 20, 0));
        for (payload, entries) in
            [(u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (1 << 40, 1), (1, 1 << 40)]
        {
            assert!(!memtable.has_room(payload, entries));
        }
        assert_eq!(kind.needed_bytes(u64::MAX, u64::MAX), u64::MAX);
        let refused = Memtable::create(kind, &ArenaPool::new(0), (16 << 30) + 1);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn recycled_memory_is_not_read_before_it_is_written() {
    // Debug builds fill what returns to the pool with 0xDE; each use must behave like the first.
    let pool = ArenaPool::new(64 << 20);
    for seed in 0..12 {
        for kind in MemtableKind::ALL {
            let mut rng = Rng(seed);
            let mut keys = [Keys::Binary(3), Keys::Letters(b"xyz", 20), Keys::Decimal("k", 6, 4_000)]
                [rng.below(3) as usize]
                .clone();
            let (memtable, mut inserter) = create(kind, &pool, 4 << 20);
            let mut model = Model::default();
            for seqno in 1..4_000 {
                let key = keys.next(&mut rng);
                inserter.insert(&key, put_tag(seqno), b"value");
                model.insert(key, put_tag(seqno), b"value".to_vec());
            }
            let mut cursor = memtable.cursor();
            cursor.seek_to_first().expect("memory does not fail");
            for expected in model.entries() {
                assert_eq!((cursor.key(), cursor.tag(), cursor.value()), expected);
                assert_eq!(memtable.get(expected.0, expected.1.seqno()), Some((expected.1, expected.2)));
                cursor.next().expect("memory does not fail");
            }
            assert!(!cursor.is_valid());
            drop((cursor, memtable, inserter));
            assert!(pool.idle_bytes() > 0);
        }
    }
}

#[test]
fn memory_beside_the_arena_counts_as_allocated() {
    for kind in [MemtableKind::Vector, MemtableKind::Hash] {
        let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), 1 << 20);
        for seqno in 1..=1_000u64 {
            inserter.insert(&(seqno * 31 % 1_009).to_be_bytes(), put_tag(seqno), b"v");
        }
        let before = memtable.allocated_bytes();
        assert_eq!(memtable.first_key(), Some(1u64.to_be_bytes().as_slice()));
        assert_eq!(memtable.allocated_bytes() - before, 4 * 1_000, "{kind} was sorted");
    }
}

#[test]
fn the_pool_keeps_no_more_than_its_limit() {
    let pool = ArenaPool::new(300 << 10);
    let make = |bytes: usize| {
        let (memtable, mut inserter) = create(MemtableKind::Art, &pool, 4 << 20);
        inserter.insert(b"key", put_tag(1), &vec![0; bytes]);
        assert_eq!(memtable.get(b"key", SeqNo::MAX).map(|(_, value)| value.len()), Some(bytes));
        (memtable, inserter)
    };
    let (first, second, third) = (make(100 << 10), make(150 << 10), make(180 << 10));
    assert_eq!(pool.idle_bytes(), 0);
    drop(first);
    let kept = pool.idle_bytes();
    assert!(kept > 100 << 10 && kept < 110 << 10, "{kept}");
    drop(second);
    assert!(pool.idle_bytes() > 250 << 10);
    drop(third);
    // The first one was freed, and then the second.
    let kept = pool.idle_bytes();
    assert!(kept > 180 << 10 && kept < 190 << 10, "{kept}");
    let (reused, _inserter) = create(MemtableKind::Skiplist, &pool, 1 << 20);
    assert_eq!(pool.idle_bytes(), 0, "an idle arena was there to be used");
    assert!(reused.allocated_bytes() > 180 << 10, "touched memory counts although it is not used yet");
    drop((reused, _inserter));
    pool.discard_idle();
    assert_eq!(pool.idle_bytes(), 0, "the memory is given back");
    let (fresh, inserter) = make(1 << 10);
    assert!(fresh.allocated_bytes() < 10 << 10, "nothing of earlier lives is there");
    drop((fresh, inserter));
    make(100 << 10);
    pool.set_idle_limit_bytes(0);
    assert_eq!(pool.idle_bytes(), 0);
}
