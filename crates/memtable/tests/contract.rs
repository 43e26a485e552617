//! Guarantees of every kind of memtable to one thread, checked against an ordered map.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{Keys, Model, Rng, create, put_tag, scaled};
use esker_base::{SeqNo, Tag, ValueKind};
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Inserter, Memtable, MemtableCursor, MemtableKind, NoSorting, Operation};
use std::sync::Arc;

/// Walks everything forwards and backwards.
fn check_walks(memtable: &Arc<Memtable>, model: &Model) {
    let mut cursor = memtable.cursor();
    assert!(!cursor.is_valid());
    cursor.seek_to_first().unwrap();
    for expected in model.entries() {
        assert_at(&cursor, Some(expected));
        cursor.next().unwrap();
    }
    assert!(!cursor.is_valid());
    cursor.seek_to_last().unwrap();
    for expected in model.entries().rev() {
        assert_at(&cursor, Some(expected));
        cursor.prev().unwrap();
    }
    assert!(!cursor.is_valid());
}

type Expected<'a> = (&'a [u8], Tag, &'a [u8]);

#[track_caller]
fn assert_at(cursor: &MemtableCursor, expected: Option<Expected<'_>>) {
    let found = cursor.is_valid().then(|| (cursor.key(), cursor.tag(), cursor.value()));
    // Values and keys may be long: compare first, print little.
    if found != expected {
        let short = |entry: Option<Expected<'_>>| {
            entry.map(|(key, tag, value)| (key.len(), key[..key.len().min(40)].to_vec(), tag, value.len()))
        };
        panic!("found {:?}, expected {:?}", short(found), short(expected));
    }
}

/// Random probes at random sequence numbers: lookups, seeks, and a few steps in random directions after each.
fn check_probes(memtable: &Arc<Memtable>, model: &Model, keys: &mut Keys, rng: &mut Rng, probes: usize) {
    let mut cursor = memtable.cursor();
    let newest = model.newest_seqno();
    for _ in 0..probes {
        let key = keys.next(rng);
        let seqno = SeqNo::new(rng.below(newest + 2));
        assert_eq!(memtable.get(&key, seqno), model.get(&key, seqno), "get {:?} at {seqno}", key.get(..40));
        for round in 0..rng.below(4) as u32 {
            assert!(!cursor.prepare_seek(&key, round));
            assert!(!cursor.is_valid());
        }
        let mut place = match rng.below(8) {
            0 => {
                cursor.seek_to_first().unwrap();
                model.entries().next()
            }
            1 => {
                cursor.seek_to_last().unwrap();
                model.entries().next_back()
            }
            2 | 3 => {
                cursor.seek_before(&key).unwrap();
                model.before(&key)
            }
            _ => {
                cursor.seek(&key, seqno).unwrap();
                model.from(&key, seqno)
            }
        };
        for _ in 0..rng.below(12) {
            assert_at(&cursor, place);
            let Some((key, tag, _)) = place else { break };
            match rng.below(4) {
                0 => {
                    place = model.after(key, tag);
                    cursor.next().unwrap();
                }
                1 => {
                    // Any number of versions may be skipped, but nothing of another key.
                    place = model.after(key, tag);
                    cursor.next_key().unwrap();
                    while let Some((at, tag, _)) = place
                        && at == key
                        && (!cursor.is_valid() || (cursor.key(), cursor.tag()) != (at, tag))
                    {
                        place = model.after(at, tag);
                    }
                }
                2 => {
                    // Any invisible version may be skipped.
                    place = model.preceding(key, tag);
                    cursor.prev_key(seqno).unwrap();
                    while let Some((at, tag, _)) = place
                        && (!cursor.is_valid() || (cursor.key(), cursor.tag()) != (at, tag))
                    {
                        let seen = model.get(at, seqno).map(|(seen, _)| seen);
                        assert_ne!(seen, Some(tag), "passed what a reader at {seqno} sees");
                        place = model.preceding(at, tag);
                    }
                }
                _ => {
                    place = model.preceding(key, tag);
                    cursor.prev().unwrap();
                }
            }
        }
        assert_at(&cursor, place);
    }
}

/// A key with many versions is passed backwards in one step, by readers of new and of old sequence numbers.
#[test]
fn versions_are_passed_in_one_step_backwards() {
    let (memtable, mut inserter) =
        Memtable::create(MemtableKind::Art, &ArenaPool::new(0), 1 << 20).expect("reserved");
    let tag = |seqno| Tag::new(SeqNo::new(seqno), ValueKind::Put);
    inserter.insert(b"a", tag(1), b"");
    inserter.insert(b"z", tag(2), b"");
    (3..1_000).for_each(|seqno| inserter.insert(b"k", tag(seqno), b""));
    let mut cursor = memtable.cursor();
    for (seqno, met) in [(SeqNo::MAX, 999), (SeqNo::new(500), 500)] {
        cursor.seek_to_last().unwrap();
        for (key, seqno_met) in [(b"z", 2), (b"k", met), (b"a", 1)] {
            assert_eq!((cursor.key(), cursor.tag()), (&key[..], tag(seqno_met)));
            cursor.prev_key(seqno).unwrap();
        }
        assert!(!cursor.is_valid());
    }
}

fn check_multi_get(memtable: &Memtable, model: &Model, keys: &mut Keys, rng: &mut Rng) {
    for count in [0, 1, 2, 31, 32] {
        let probes: Vec<Vec<u8>> = (0..count).map(|_| keys.next(rng)).collect();
        let probes: Vec<&[u8]> = probes.iter().map(Vec::as_slice).collect();
        let seqno = SeqNo::new(rng.below(model.newest_seqno() + 2));
        let wanted = rng.next() as u32;
        let untouched = Some((Tag::OLDEST, b"untouched".as_slice()));
        let mut results = vec![untouched; count];
        let found = memtable.multi_get(&probes, wanted, seqno, &mut results);
        for (index, key) in probes.iter().enumerate() {
            let expected = model.get(key, seqno).filter(|_| wanted >> index & 1 != 0);
            assert_eq!(found >> index & 1 != 0, expected.is_some());
            assert_eq!(results[index], expected.or(untouched));
        }
        assert_eq!(u64::from(found) >> count, 0);
    }
}

/// Inserts random operations, singly and in batches, with checks in between.
fn run(kind: MemtableKind, mut keys: Keys, operations: usize, seed: u64) {
    println!("{kind}, {keys:?}, seed {seed}");
    let operations = scaled(operations);
    let mut rng = Rng(seed);
    let pool = ArenaPool::new(64 << 20);
    let (memtable, mut inserter) = create(kind, &pool, scaled(64 << 20) as u64);
    let mut model = Model::default();
    let mut seqno = 0;
    assert!(memtable.is_empty());
    check_walks(&memtable, &model);
    let checks = 5;
    for round in 0..checks {
        let goal = operations * (round + 1) / checks;
        while (memtable.len() as usize) < goal {
            let count = if rng.below(2) == 0 { 1 } else { 1 + rng.below(70) as usize };
            let batch: Vec<(Vec<u8>, Tag, Vec<u8>)> =
                (0..count).map(|_| random_operation(&mut keys, &mut rng, &mut seqno)).collect();
            insert_all(&mut inserter, &batch);
            for (key, tag, value) in batch {
                model.insert(key, tag, value);
            }
        }
        check_walks(&memtable, &model);
        check_probes(&memtable, &model, &mut keys, &mut rng, scaled(300));
        check_multi_get(&memtable, &model, &mut keys, &mut rng);
        check_ends(&memtable, &model);
        assert_eq!(memtable.len() as usize, model.len());
        assert_eq!(memtable.payload_bytes(), model.payload_bytes());
        assert!(memtable.allocated_bytes() > memtable.payload_bytes());
    }
}

fn random_operation(keys: &mut Keys, rng: &mut Rng, seqno: &mut u64) -> (Vec<u8>, Tag, Vec<u8>) {
    *seqno += 1 + rng.below(2);
    let kind = if rng.below(5) == 0 { ValueKind::Delete } else { ValueKind::Put };
    let len = if kind == ValueKind::Delete { 0 } else { rng.below(40) as usize };
    let value = (0..len).map(|at| (*seqno as usize + at) as u8).collect();
    (keys.next(rng), Tag::new(SeqNo::new(*seqno), kind), value)
}

fn insert_all(inserter: &mut Inserter, batch: &[(Vec<u8>, Tag, Vec<u8>)]) {
    if let [(key, tag, value)] = batch {
        inserter.insert(key, *tag, value);
    } else {
        let operations: Vec<Operation<'_>> =
            batch.iter().map(|(key, tag, value)| Operation { key, tag: *tag, value }).collect();
        inserter.insert_batch(&operations);
    }
}

fn check_ends(memtable: &Memtable, model: &Model) {
    let (first, last) = (model.entries().next(), model.entries().next_back());
    assert_eq!(memtable.first_key(), first.map(|(key, ..)| key));
    assert_eq!(memtable.last_key(), last.map(|(key, ..)| key));
}

#[test]
fn random_binary_keys() {
    for kind in MemtableKind::ALL {
        run(kind, Keys::binary(16), 20_000, 1);
    }
}

#[test]
fn keys_of_few_letters_that_are_prefixes_of_each_other() {
    for kind in MemtableKind::ALL {
        run(kind, Keys::letters(b"ab", 12), 10_000, 2);
        run(kind, Keys::letters(b"\0\xff", 9), 10_000, 3);
        run(kind, Keys::letters(b"\0\x01\x7f\x80\xfe\xff", 4), 10_000, 4);
    }
}

#[test]
fn decimal_and_path_keys() {
    for kind in MemtableKind::ALL {
        run(kind, Keys::decimal("user:", 10, 5_000), 15_000, 5);
        run(kind, Keys::decimal("tenant/0000/table/000/row/", 7, 3_000_000), 15_000, 6);
    }
}

#[test]
fn a_handful_of_keys_with_thousands_of_versions() {
    for kind in MemtableKind::ALL {
        run(kind, Keys::decimal("hot", 1, 4), 10_000, 7);
    }
}

#[test]
fn every_byte_below_every_byte() {
    // Nodes of all sizes, each growing through all of them.
    for kind in MemtableKind::ALL {
        run(kind, Keys::binary(2), 30_000, 8);
        run(kind, Keys::binary(1), 2_000, 9);
    }
}

#[test]
fn long_keys_with_long_common_prefixes() {
    for kind in MemtableKind::ALL {
        run(kind, Keys::long(65_535, 64 << 10), 300, 10);
        run(kind, Keys::long(300, 40), 5_000, 11);
    }
}

#[test]
fn ascending_and_descending_keys() {
    for kind in MemtableKind::ALL {
        for descending in [false, true] {
            let pool = ArenaPool::new(0);
            let (memtable, mut inserter) = create(kind, &pool, 8 << 20);
            let mut model = Model::default();
            for number in 0..20_000u64 {
                let shown = if descending { 20_000 - number } else { number };
                let key = format!("{shown:016}").into_bytes();
                inserter.insert(&key, put_tag(number + 1), b"v");
                model.insert(key, put_tag(number + 1), b"v".to_vec());
            }
            check_walks(&memtable, &model);
        }
    }
}

#[test]
fn each_key_a_prefix_of_the_next() {
    // A path of 12,000 nodes: descents and cursors must neither recurse nor take quadratic time.
    const LONGEST: usize = 12_000;
    for kind in MemtableKind::ALL {
        // Structures that compare whole keys at each step get fewer of them.
        let step = if matches!(kind, MemtableKind::Art | MemtableKind::HashedArt) { 1 } else { 16 };
        let lengths = || (0..=LONGEST / step).map(|number| number * step);
        let whole = vec![b'a'; LONGEST];
        let (payload, count) = (lengths().sum::<usize>() as u64, lengths().count() as u64);
        let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), kind.needed_bytes(payload, count));
        assert!(memtable.has_room(payload, count));
        for (seqno, len) in lengths().enumerate() {
            inserter.insert(&whole[..len], put_tag(seqno as u64 + 1), b"");
        }
        assert_eq!(memtable.len(), count);
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        for len in lengths() {
            assert_eq!(cursor.key().len(), len);
            cursor.next().unwrap();
        }
        assert!(!cursor.is_valid());
        cursor.seek_to_last().unwrap();
        for len in lengths().rev() {
            assert_eq!(cursor.key().len(), len);
            cursor.prev().unwrap();
        }
        assert!(!cursor.is_valid());
        let mut other = whole.clone();
        other[10_000] = b'b';
        assert_eq!(memtable.get(&other, SeqNo::MAX), None);
        cursor.seek(&other, SeqNo::MAX).unwrap();
        assert!(!cursor.is_valid());
        cursor.seek_before(&other).unwrap();
        assert_eq!(cursor.key().len(), LONGEST);
    }
}

#[test]
fn large_values_and_greatest_keys() {
    for kind in MemtableKind::ALL {
        let pool = ArenaPool::new(0);
        let value = vec![7u8; 9 << 20];
        let key = vec![0xffu8; 65_535];
        let (memtable, mut inserter) = create(kind, &pool, 20 << 20);
        inserter.insert(&key, put_tag(1), &value);
        inserter.insert(&key, put_tag(2), &value[1..]);
        assert_eq!(memtable.get(&key, SeqNo::new(1)).map(|(_, value)| value.len()), Some(9 << 20));
        assert_eq!(memtable.get(&key, SeqNo::new(2)).map(|(_, value)| value), Some(&value[1..]));
        assert_eq!(memtable.payload_bytes(), 2 * (65_535 + (9 << 20)) - 1);
    }
}

#[test]
fn equal_keys_in_a_batch_keep_their_order() {
    for kind in MemtableKind::ALL {
        let pool = ArenaPool::new(0);
        let (memtable, mut inserter) = create(kind, &pool, 1 << 20);
        let values: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
        let operations: Vec<Operation<'_>> = values
            .iter()
            .map(|value| Operation { key: &value[..0], tag: put_tag(u64::from(value[0]) + 1), value })
            .collect();
        inserter.insert_batch(&operations);
        for seqno in 1..=100u64 {
            let expected = (put_tag(seqno), &values[seqno as usize - 1][..]);
            assert_eq!(memtable.get(b"", SeqNo::new(seqno)), Some(expected));
        }
    }
}

#[test]
fn a_cursor_outlives_the_handles_and_moves_between_threads() {
    for kind in MemtableKind::ALL {
        let pool = ArenaPool::new(64 << 20);
        let (memtable, mut inserter) = create(kind, &pool, 1 << 20);
        inserter.insert(b"key", put_tag(1), b"value");
        let mut cursor = memtable.cursor();
        drop((memtable, inserter));
        assert_eq!(pool.idle_bytes(), 0, "a cursor keeps the arena from the pool (MT6)");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                cursor.seek(b"k", SeqNo::MAX).unwrap();
                assert_eq!((cursor.key(), cursor.value()), (b"key".as_slice(), b"value".as_slice()));
            });
        });
        assert!(pool.idle_bytes() > 0);
    }
}

#[test]
fn kinds_have_names() {
    for kind in MemtableKind::ALL {
        assert_eq!(kind.to_string().parse::<MemtableKind>().unwrap(), kind);
        assert_eq!(
            MemtableKind::parse(kind.name()),
            Some(kind),
            "a name without parameters has the defaults"
        );
        let (memtable, _inserter) = create(kind, &ArenaPool::new(0), 1 << 16);
        assert_eq!(memtable.kind(), kind);
    }
    let told = "bush".parse::<MemtableKind>().unwrap_err().to_string();
    assert!(told.contains("unknown memtable \"bush\": there are art, "), "{told}");
}

#[test]
fn any_number_of_shards_is_one_map() {
    for text in ["sharded:1:1", "sharded:2:3", "sharded:64:1", "sharded:7:256", "sharded:4:16:1,2,1,40"] {
        let kind: MemtableKind = text.parse().unwrap();
        assert_eq!(kind.to_string(), text);
        run(kind, Keys::decimal("user:", 4, 3_000), 5_000, 12);
    }
    assert_eq!(MemtableKind::parse("sharded:5"), MemtableKind::parse("sharded:5:64"));
    for text in [
        "sharded:",
        "sharded:0",
        "sharded:65",
        "sharded:4:0",
        "sharded:4:257",
        "sharded:4:4:4",
        "sharded:4:64:1,2,0,4",
        "sharded:-1",
        "art:4",
    ] {
        assert_eq!(MemtableKind::parse(text), None, "{text}");
    }
}

/// A stub that took an entry would be sealed with it when the next one comes: a table for each.
#[test]
fn a_stub_has_no_room() {
    let pool = ArenaPool::new(1 << 20);
    for kind in MemtableKind::ALL {
        let (stub, _inserter) = Memtable::create_stub(kind, &pool).unwrap();
        assert!(!stub.has_room(0, 1), "{kind}");
        assert!(stub.is_empty() && stub.get(b"k", SeqNo::MAX).is_none() && stub.first_key().is_none());
        assert!(stub.allocated_bytes() < 256, "{kind} takes {} bytes", stub.allocated_bytes());
        drop(stub);
    }
    assert_eq!(pool.idle_bytes(), 0, "stubs are not pooled");
}

/// A tail and the entries before it are all entries, each once, in the order of insertion.
#[test]
fn a_tail_has_the_entries_since_its_start() {
    for kind in MemtableKind::ALL {
        let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), 1 << 20);
        let keeps_as_they_came = matches!(kind, MemtableKind::Vector | MemtableKind::Hash);
        assert_eq!(memtable.tail().is_some(), keeps_as_they_came, "{kind}");
        let Some(all) = memtable.tail() else { continue };
        let mut tails = vec![];
        let inserted: Vec<(Vec<u8>, Tag)> = (1..=300u64)
            .map(|number| ((number * 7 % 31).to_be_bytes()[5..].to_vec(), put_tag(number)))
            .collect();
        for (at, (key, tag)) in inserted.iter().enumerate() {
            if at % 50 == 0 {
                tails.push((at, memtable.tail().unwrap().from_now()));
            }
            // Sorting in between moves no entry.
            if at % 70 == 0 {
                memtable.cursor().seek_to_first().unwrap();
            }
            inserter.insert(key, *tag, b"value");
        }
        tails.push((0, all));
        tails.push((inserted.len(), memtable.tail().unwrap().from_now()));
        let (other, _inserter) = create(kind, &ArenaPool::new(0), 1 << 16);
        for (from, tail) in tails {
            assert!(tail.is_of(&memtable) && !tail.is_of(&other));
            let shown: Vec<(Vec<u8>, Tag)> = tail.entries().map(|(key, tag)| (key.to_vec(), tag)).collect();
            assert_eq!(shown, inserted[from..], "{kind} from {from}");
        }
    }
}

/// OD6. Kinds that are always in order may be read as before.
#[test]
#[cfg(debug_assertions)]
fn forbidden_sorting_panics() {
    for kind in MemtableKind::ALL {
        let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), 1 << 20);
        for number in 1..=100u64 {
            inserter.insert(&number.to_be_bytes(), put_tag(number), b"");
        }
        let look = || {
            let _forbidden = NoSorting::new();
            memtable.cursor().seek_to_first().unwrap();
        };
        let is_noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err();
        assert_eq!(is_noticed, memtable.tail().is_some(), "{kind}");
        // The ban ends with its guard, and a sorted memtable can be read under it.
        memtable.cursor().seek_to_first().unwrap();
        let _forbidden = NoSorting::new();
        memtable.cursor().seek_to_last().unwrap();
    }
}
