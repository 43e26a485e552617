//! Approximate sizes of ranges against exact counts, and split points, over trees of many shapes. The error
//! must be within what the documentation of `Keyspace::approximate_size` and `Keyspace::split_points` states.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny};
use esker::metrics::RangeSize;
use esker::options::{IndexKind, MemtableKind};
use esker::parts::StepBackground;
use esker::parts::env::{Background, Env, SeededRandom};
use esker::{Database, Keyspace, KeyspaceOptions, Options};
use std::ops::Bound;

/// Bytes that no codec makes smaller.
fn noise(number: u64, len: usize) -> Vec<u8> {
    let random = SeededRandom::new(number);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// Entries of a block of 512 bytes: each has at least its value.
const MOST_IN_BLOCK: u64 = 512 / 40 + 1;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn open(dir: &TestDir, options: KeyspaceOptions) -> (Database, Keyspace) {
    // Stepped, so that nothing happens between two estimates.
    let env = Env { background: Background::Stepped { seed: 1 }, ..Env::real() };
    let options = Options::default().keyspace_options(options).env(env);
    let db = Database::open_with(dir.path(), options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn runs(db: &Database) -> u64 {
    let trees = db.levels();
    let tree = trees.iter().find(|tree| tree.name == "k").unwrap();
    tree.levels.iter().map(|level| level.runs.len() as u64).sum()
}

fn table_bytes(db: &Database) -> u64 {
    let trees = db.levels();
    let levels = trees.iter().filter(|tree| tree.name == "k").flat_map(|tree| &tree.levels);
    levels.flat_map(|level| &level.runs).flat_map(|run| &run.tables).map(|table| table.bytes).sum()
}

/// Ranges of every form over keys below `keys`.
fn ranges(keys: u64, random: &SeededRandom) -> Vec<Bounds> {
    let bound = || match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(random.below(keys + 10))),
        _ => Bound::Excluded(key(random.below(keys + 10))),
    };
    let mut ranges = vec![(Bound::Unbounded, Bound::Unbounded)];
    ranges.extend((0..60).map(|_| (bound(), bound())));
    // Bounds in one block, one key, and no key.
    for _ in 0..10 {
        let from = random.below(keys);
        ranges.push((Bound::Included(key(from)), Bound::Excluded(key(from + 3))));
        ranges.push((Bound::Included(key(from)), Bound::Included(key(from))));
        ranges.push((Bound::Excluded(key(from)), Bound::Excluded(key(from))));
    }
    ranges
}

fn is_empty(range: &Bounds) -> bool {
    match range {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}

/// Compares estimates with counts of the keyspace, in which each key has one version, `each` of them stored:
/// each end of the range costs half a block for each run.
fn check(db: &Database, keyspace: &Keyspace, keys: u64, versions: u64, random: &SeededRandom) {
    let (runs, whole) = (runs(db), keyspace.approximate_size(..).unwrap());
    for range in ranges(keys, random) {
        let size = keyspace.approximate_size(range.clone()).unwrap();
        if is_empty(&range) {
            assert_eq!(size, RangeSize::default());
            continue;
        }
        let exact = keyspace.keys(range.clone()).count() as u64 * versions;
        let allowed = runs * (MOST_IN_BLOCK + 1);
        assert!(
            size.entries.abs_diff(exact) <= allowed,
            "{range:?}: {} estimated, {exact} counted, {allowed} allowed",
            size.entries
        );
        assert!(size.disk_bytes <= whole.disk_bytes && size.memory_bytes <= whole.memory_bytes);
        // In proportion, if all entries are in tables: a block has some 700 bytes with its share of the rest.
        if whole.memory_bytes == 0 && whole.entries > 0 {
            let share = (u128::from(whole.disk_bytes) * u128::from(exact) / u128::from(whole.entries)) as u64;
            assert!(size.disk_bytes.abs_diff(share) <= runs * 1_000 + whole.disk_bytes / 20, "{range:?}");
        }
    }
}

#[test]
fn levels_and_memtables_are_counted() {
    for (seed, index) in [(1, IndexKind::STree), (2, IndexKind::BTreePages), (3, IndexKind::SortedArray)] {
        let random = SeededRandom::new(seed);
        let dir = TestDir::new("sizes");
        let (db, keyspace) = open(&dir, tiny().block_index(index));
        check(&db, &keyspace, 100, 1, &random);
        let keys = 3_000;
        // Every key once, in random order, so that runs overlap.
        let mut order: Vec<u64> = (0..keys).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        for (count, number) in order.iter().enumerate() {
            keyspace.put(key(*number), noise(*number, 40)).unwrap();
            if count % 500 == 250 {
                for _ in 0..random.below(20) {
                    db.step_background();
                }
                check(&db, &keyspace, keys, 1, &random);
            }
        }
        check(&db, &keyspace, keys, 1, &random);
        db.flush().unwrap();
        check(&db, &keyspace, keys, 1, &random);
        db.drain().unwrap();
        db.compact_all().unwrap();
        check(&db, &keyspace, keys, 1, &random);
        let size = keyspace.approximate_size(..).unwrap();
        assert_eq!((size.entries, size.memory_bytes, size.disk_bytes), (keys, 0, table_bytes(&db)));
    }
}

/// What compactions have yet to drop counts, and then does not.
#[test]
fn versions_and_deletes_count_until_they_are_dropped() {
    let dir = TestDir::new("sizes");
    let (db, keyspace) = open(&dir, KeyspaceOptions::default().block_size(512));
    let random = SeededRandom::new(4);
    let keys = 2_000;
    for _ in 0..3 {
        for number in 0..keys {
            keyspace.put(key(number), noise(number, 40)).unwrap();
        }
        db.flush().unwrap();
    }
    let versions = keyspace.approximate_size(..).unwrap().entries / keys;
    assert!((1..=3).contains(&versions));
    check(&db, &keyspace, keys, versions, &random);
    db.compact_all().unwrap();
    check(&db, &keyspace, keys, 1, &random);
    let before = keyspace.approximate_size(key(500)..key(1_500)).unwrap();
    keyspace.delete_range(key(500)..key(1_500)).unwrap();
    for number in 0..100 {
        keyspace.delete(key(number)).unwrap();
    }
    db.flush().unwrap();
    let after = keyspace.approximate_size(key(500)..key(1_500)).unwrap();
    assert!(after.entries.abs_diff(before.entries) <= 2 * MOST_IN_BLOCK, "{after:?} {before:?}");
    db.compact_all().unwrap();
    check(&db, &keyspace, keys, 1, &random);
    let left = keyspace.approximate_size(key(500)..key(1_500)).unwrap().entries;
    assert!(left <= MOST_IN_BLOCK, "{left} entries in the block around a deleted range");
    assert_eq!(keyspace.approximate_size(..).unwrap().entries, 900);
}

#[test]
fn large_values_count_on_disk() {
    let dir = TestDir::new("sizes");
    let (db, keyspace) = open(&dir, KeyspaceOptions::default().block_size(512).blob_threshold(1_000));
    for number in 0..400 {
        keyspace.put(key(number), noise(number, 5_000)).unwrap();
    }
    db.flush().unwrap();
    let whole = keyspace.approximate_size(..).unwrap();
    assert!(whole.disk_bytes >= 400 * 5_000, "{whole:?}");
    let half = keyspace.approximate_size(..key(200)).unwrap();
    assert!(half.disk_bytes.abs_diff(whole.disk_bytes / 2) < whole.disk_bytes / 10, "{half:?} of {whole:?}");
}

/// Exact up to a limit, then between the limit and everything.
#[test]
fn memtables_are_walked_and_then_estimated() {
    for kind in [MemtableKind::default(), MemtableKind::Vector] {
        let dir = TestDir::new("sizes");
        let (_db, keyspace) = open(&dir, KeyspaceOptions::default().memtable(kind));
        let keys = 20_000;
        for number in 0..keys {
            keyspace.put(key(number), noise(number, 40)).unwrap();
        }
        let entry_bytes = (key(0).len() + 40) as u64;
        for (from, to) in [(0, 0), (0, 1), (17, 4_000), (19_990, 20_500), (30_000, 40_000)] {
            let size = keyspace.approximate_size(key(from)..key(to)).unwrap();
            let exact = to.min(keys).saturating_sub(from);
            assert_eq!((size.entries, size.memory_bytes, size.disk_bytes), (exact, exact * entry_bytes, 0));
        }
        for (from, to) in [(0, 5_000), (3, 19_999), (0, 40_000)] {
            let size = keyspace.approximate_size(key(from)..key(to)).unwrap();
            let exact = to.min(keys) - from;
            assert!(size.entries >= 4_096 && size.entries <= keys);
            assert!(size.entries.abs_diff(exact) <= exact / 50, "{from} {to}: {size:?}");
        }
    }
}

/// The bytes of each part, by counting.
fn parts(keyspace: &Keyspace, points: &[Vec<u8>]) -> Vec<u64> {
    let mut parts = vec![0; points.len() + 1];
    for entry in keyspace.iter() {
        let (key, value) = entry.unwrap();
        parts[points.partition_point(|point| **point <= *key)] += (key.len() + value.len()) as u64;
    }
    parts
}

fn check_split(keyspace: &Keyspace, count: usize) {
    let points = keyspace.split_points(.., count).unwrap();
    assert_eq!(points.len(), count - 1);
    assert!(points.is_sorted_by(|a, b| a < b), "points ascend, each once");
    let parts = parts(keyspace, &points);
    let mean = parts.iter().sum::<u64>() / count as u64;
    assert!(parts.iter().all(|bytes| (mean / 2..=mean * 2).contains(bytes)), "mean {mean}: {parts:?}");
}

#[test]
fn split_points_divide_the_bytes_evenly() {
    let dir = TestDir::new("splits");
    let (db, keyspace) = open(&dir, tiny());
    let random = SeededRandom::new(7);
    assert_eq!(keyspace.split_points(.., 4).unwrap(), Vec::<Vec<u8>>::new());
    keyspace.put("key", "value").unwrap();
    assert_eq!(keyspace.split_points(.., 4).unwrap(), Vec::<Vec<u8>>::new(), "one key is one part");
    keyspace.delete("key").unwrap();
    // Keys and values that are anything but even: most of the bytes lie in a tenth of the keys.
    let mut numbers: Vec<u64> = (0..6_000).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    for (count, number) in numbers.into_iter().enumerate() {
        let len = if number < 600 { 200 + random.below(60) } else { random.below(30) };
        keyspace.put(key(number), noise(number, len as usize)).unwrap();
        if count == 3_000 {
            check_split(&keyspace, 3);
        }
    }
    for count in [1, 2, 3, 8] {
        check_split(&keyspace, count);
    }
    db.compact_all().unwrap();
    for count in [1, 2, 5, 12] {
        check_split(&keyspace, count);
    }
    // Within a range, and more parts than keys.
    let (from, to) = (key(100), key(500));
    let points = keyspace.split_points(&*from..&*to, 4).unwrap();
    assert!(points.len() == 3 && points.iter().all(|point| *point > from && *point < to));
    let points = keyspace.split_points(key(100)..key(103), usize::MAX).unwrap();
    assert!(points.len() < 30 && points.iter().all(|point| *point > key(100) && *point < key(103)));
    assert_eq!(keyspace.split_points(key(7)..key(7), 4).unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(keyspace.split_points(.., 0).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_memtable_alone_is_divided_too() {
    let dir = TestDir::new("splits");
    let (db, keyspace) = open(&dir, KeyspaceOptions::default());
    for number in 0..5_000 {
        keyspace.put(key(number * number), noise(number, 40)).unwrap();
    }
    check_split(&keyspace, 6);
    db.drop_keyspace("k").unwrap();
    assert!(keyspace.approximate_size(..).is_err() && keyspace.split_points(.., 2).is_err());
}
