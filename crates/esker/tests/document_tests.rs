//! The tests that the documents list of their own stores, on the presets of these reports:
//! docs/experiments/tests.md maps each of them to one here or elsewhere.

mod common;

use common::TestDir;
use esker::parts::cache::BlockKind;
use esker::parts::env::SeededRandom;
use esker::{Database, Keyspace, Options};
use std::collections::BTreeMap;

/// CSC443, small workload: puts, gets and scans under memtables of fewer than ten entries. After each of them
/// everything is compared with a map.
#[test]
fn memtables_of_nine_entries_answer_puts_gets_and_scans() {
    let dir = TestDir::new("documents-small");
    let options = Options::preset("csc443").expect("a preset");
    let keyspace_options = options.keyspace.clone().write_buffer_entries(9);
    let db = Database::open_with(dir.path(), options.keyspace_options(keyspace_options)).expect("opening");
    let keyspace = db.default_keyspace();
    let (random, mut model) = (SeededRandom::new(3), BTreeMap::new());
    for step in 0..400u64 {
        let number = random.below(60);
        if random.below(4) == 0 {
            keyspace.delete(number.to_be_bytes()).expect("a delete");
            model.remove(&number);
        } else {
            keyspace.put(number.to_be_bytes(), step.to_be_bytes()).expect("a put");
            model.insert(number, step);
        }
        let asked = random.below(70);
        assert_eq!(get(keyspace, asked), model.get(&asked).copied(), "step {step}, key {asked}");
        let (from, to) = (random.below(70), random.below(70));
        let (from, to) = (from.min(to), from.max(to));
        let expected: Vec<(u64, u64)> = model.range(from..=to).map(|(&key, &value)| (key, value)).collect();
        assert_eq!(scan(keyspace, from, to), expected, "step {step}, from {from} to {to}");
    }
    assert!(db.levels()[0].levels.len() > 1, "memtables became tables of several levels");
}

fn get(keyspace: &Keyspace, key: u64) -> Option<u64> {
    let found = keyspace.get(key.to_be_bytes()).expect("a get");
    found.map(|value| u64::from_be_bytes(value[..8].try_into().expect("a number")))
}

/// The pairs of keys from `from` to `to`, both included.
fn scan(keyspace: &Keyspace, from: u64, to: u64) -> Vec<(u64, u64)> {
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().expect("a number"));
    let range = keyspace.range(from.to_be_bytes()..=to.to_be_bytes());
    range
        .map(|entry| entry.map(|(key, value)| (number(&key), number(&value))))
        .collect::<esker::Result<_>>()
        .expect("a scan")
}

/// Bytes of an entry of the large workload: the report's volume in a quarter of its entries, for the time of
/// the test.
const ENTRY_BYTES: u64 = 64;
const MEGABYTE: u64 = 1 << 20;
const ENTRIES: u64 = 32 * MEGABYTE / ENTRY_BYTES;

/// The key of an entry: keys are even, so that odd ones are absent, and scattered by a bijection below a
/// power of two.
fn key_of(number: u64) -> u64 {
    2 * (number.wrapping_mul(0x9E37_79B1) % ENTRIES)
}

/// The value of an entry in a round of writes: its number first, which reads compare.
fn value_of(number: u64, round: u64) -> [u8; ENTRY_BYTES as usize - 8] {
    let mut value = [0; ENTRY_BYTES as usize - 8];
    value[..8].copy_from_slice(&(number * 10 + round).to_be_bytes());
    value
}

/// What the large workload has written: 32 MB, then 1 MB of updates and 2 MB of deletes, spread over
/// everything.
fn expected_of(number: u64) -> Option<u64> {
    match number % 32 {
        3 => Some(number * 10 + 1),
        5 | 17 => None,
        _ => Some(number * 10),
    }
}

fn fill(keyspace: &Keyspace) {
    (0..ENTRIES).for_each(|number| {
        keyspace.put(key_of(number).to_be_bytes(), value_of(number, 0)).expect("a put");
    });
}

/// CSC443, big workload: 32 MB with 1 MB of updates and 2 MB of deletes, whose tombstones reach several
/// levels. Gets of entries in the memtable, in tables, deleted and never put; scans within the keys and
/// beyond their ends; all of it again after closing and opening.
#[test]
fn thirty_two_megabytes_with_updates_and_deletes_survive_a_reopen() {
    let dir = TestDir::new("documents-big");
    let open =
        || Database::open_with(dir.path(), Options::preset("csc443").expect("a preset")).expect("opening");
    let db = open();
    let keyspace = db.default_keyspace();
    fill(keyspace);
    // In three portions, with a flush between: so tombstones lie in tables of several levels.
    for portion in 0..3 {
        for number in (portion..ENTRIES).step_by(3) {
            match number % 32 {
                3 => keyspace.put(key_of(number).to_be_bytes(), value_of(number, 1)).expect("an update"),
                5 | 17 => keyspace.delete(key_of(number).to_be_bytes()).expect("a delete"),
                _ => {}
            }
        }
        if portion < 2 {
            db.flush().expect("a flush");
        }
    }
    let levels = &db.levels()[0];
    assert!(levels.memtable_entries > 0, "the last changes are in memory");
    let with_tombstones = levels
        .levels
        .iter()
        .filter(|level| level.runs.iter().flat_map(|run| &run.tables).any(|table| table.tombstones > 0));
    assert!(with_tombstones.count() >= 1 && levels.levels.len() >= 2, "tombstones in tables: {levels:?}");
    check(keyspace);
    db.close().expect("closing");
    drop(db);
    let db = open();
    check(db.default_keyspace());
    db.close().expect("closing");
}

fn check(keyspace: &Keyspace) {
    for number in (0..ENTRIES).step_by(7) {
        assert_eq!(get(keyspace, key_of(number)), expected_of(number), "entry {number}");
        assert_eq!(get(keyspace, key_of(number) + 1), None, "a key that was never put");
    }
    let mut model: Vec<(u64, u64)> =
        (0..ENTRIES).filter_map(|number| Some((key_of(number), expected_of(number)?))).collect();
    model.sort_unstable();
    let last = 2 * ENTRIES;
    // Within the keys; from before the first; to behind the last; behind all of them.
    for (from, to) in [(10_000, 12_000), (0, 500), (last - 500, u64::MAX), (last + 10, u64::MAX)] {
        let expected: Vec<(u64, u64)> =
            model.iter().filter(|(key, _)| (from..=to).contains(key)).copied().collect();
        assert_eq!(scan(keyspace, from, to), expected, "from {from} to {to}");
    }
}

/// CSC443, sequential flooding: a scan over more than the pool has room for leaves the blocks that lookups
/// use in it, and no more than its share of its own.
#[test]
fn a_long_scan_does_not_flood_the_pool() {
    let dir = TestDir::new("documents-flood");
    let db = Database::open_with(dir.path(), Options::preset("csc443").expect("a preset")).expect("opening");
    let keyspace = db.default_keyspace();
    fill(keyspace);
    db.flush().expect("a flush");
    db.drain().expect("merges end");
    let missed = || db.metrics().cache[BlockKind::Data].misses;
    // Neighbours: 4 MB of keys, in as many blocks.
    let look_up = || {
        let before = missed();
        (0..ENTRIES / 8).step_by(16).for_each(|place| {
            keyspace.get((2 * place).to_be_bytes()).expect("a get");
        });
        missed() - before
    };
    let first = look_up();
    look_up();
    assert!(first > 500, "the blocks were not cached before: {first}");
    let warm = look_up();
    let scanned = keyspace.iter().fold(0, |count, entry| count + u64::from(entry.is_ok()));
    assert_eq!(scanned, ENTRIES);
    let after = look_up();
    assert!(after <= warm + first / 20, "lookups missed {warm} blocks before the scan and {after} after it");
    let cache = db.metrics().cache;
    assert!(
        cache.scanned_bytes <= cache.capacity_bytes * 2 / 5,
        "{} bytes of a scan in a pool of {}",
        cache.scanned_bytes,
        cache.capacity_bytes
    );
}

/// Byron, boundaries: keys about the length of a cache line, values about that of a page and of several, in
/// blocks of delta-encoded keys. They are read back one by one, in both directions, and after a reopen.
#[test]
fn keys_about_a_cache_line_and_values_about_a_page_are_read_back() {
    let dir = TestDir::new("documents-boundaries");
    let open = || {
        let options = Options::preset("byron").expect("a preset").memory_budget(32 << 20);
        Database::open_with(dir.path(), options).expect("opening")
    };
    let mut model = BTreeMap::new();
    for key_bytes in [1usize, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 65_535] {
        for value_bytes in [0usize, 1, 127, 128, 4000, 4095, 4096, 4097, 8191, 8193, 70_000] {
            // All of one length share a prefix, and lengths differ in their last bytes.
            let mut key = vec![b'k'; key_bytes];
            key[key_bytes - 1] = (value_bytes % 251) as u8;
            model.insert(key, vec![(value_bytes % 256) as u8; value_bytes]);
        }
    }
    let db = open();
    model.iter().for_each(|(key, value)| db.default_keyspace().put(key, value).expect("a put"));
    let check = |keyspace: &Keyspace| {
        for (key, value) in &model {
            let found = keyspace.get(key).expect("a get");
            assert_eq!(found.as_deref(), Some(&value[..]), "a key of {} bytes", key.len());
        }
        let pairs = |entry: esker::Result<(esker::Value, esker::Value)>| {
            entry.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("an entry")
        };
        let expected = || model.iter().map(|(key, value)| (key.clone(), value.clone()));
        assert!(keyspace.iter().map(pairs).eq(expected()), "forwards");
        assert!(keyspace.iter().rev().map(pairs).eq(expected().rev()), "backwards");
    };
    check(db.default_keyspace());
    db.flush().expect("a flush");
    check(db.default_keyspace());
    db.close().expect("closing");
    drop(db);
    check(open().default_keyspace());
}
