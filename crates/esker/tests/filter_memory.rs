//! How filter memory is divided over the levels of a tree, and what lookups measure of the filters.

mod common;

use common::TestDir;
use esker::metrics::FilterInfo;
use esker::options::Strategy;
use esker::parts::cache::BlockCache;
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use esker::parts::filter::{FilterAllocation, FilterPolicy};
use esker::parts::sst::{Table, TableIdentity};
use esker::{Database, Options};
use std::sync::Arc;

const KEYS: u32 = 60_000;

fn key(number: u32) -> [u8; 8] {
    // Spread over the key range, so that new keys lie between old ones.
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(dir: &TestDir, allocation: &str) -> Database {
    let mut options = Options::default();
    options = options.memory_budget(64 << 20);
    let keyspace = esker::KeyspaceOptions::default()
        .strategy("tiered:8".parse::<Strategy>().expect("it works"))
        .filter(FilterPolicy::blocked_bloom(10.0))
        .filter_allocation(allocation.parse::<FilterAllocation>().expect("it works"));
    Database::open_with(dir.path(), options.keyspace_options(keyspace)).expect("it works")
}

/// A tree of one large run with `small_runs` small ones above it.
fn grow(db: &Database, small_runs: u32) {
    let keyspace = db.keyspace("default").expect("it works");
    (0..KEYS).for_each(|number| keyspace.put(key(number), b"a value of some bytes").expect("it works"));
    keyspace.compact(..).expect("it works");
    for run in 0..small_runs {
        let from = KEYS + run * 1_000;
        (from..from + 1_000).for_each(|number| keyspace.put(key(number), b"later").expect("it works"));
        db.flush().expect("it works");
    }
}

/// Entries of each table, and the bits per key of its filter, newest table first.
fn bits(db: &Database, dir: &TestDir) -> Vec<(u64, f64)> {
    let tree = &db.levels()[0];
    let tables = tree.levels.iter().flat_map(|level| &level.runs).flat_map(|run| &run.tables);
    let of_table = |table: &esker::metrics::TableInfo| {
        let path = dir.path().join(format!("tables/{:06}.sst", table.file.get()));
        let file = StdFileSystem.open(&path, OpenMode::Read).expect("it works");
        let identity = TableIdentity::standalone(Arc::new(BlockCache::new(0))).expect("it works");
        let table =
            Table::open_any(Arc::clone(&file), file.len().expect("it works"), identity).expect("it works");
        let policy: FilterPolicy = table.properties().filter.parse().expect("it works");
        (table.properties().keys, policy.bits_per_key())
    };
    tables.map(of_table).collect()
}

#[test]
fn small_runs_have_more_bits_by_monkey_and_fewer_in_proportion() {
    let tree = |allocation: &str| {
        let dir = TestDir::new("filter-memory");
        let db = open(&dir, allocation);
        grow(&db, 3);
        bits(&db, &dir)
    };
    let monkey = tree("monkey");
    assert_eq!(monkey.len(), 4, "{monkey:?}");
    let (upper, (last_keys, last)) = (&monkey[..3], monkey[3]);
    assert_eq!(last_keys, u64::from(KEYS));
    assert!(upper.iter().all(|&(keys, bits)| keys == 1_000 && bits > 14.0), "{monkey:?}");
    // The large run was written when it was the only one: it got the whole budget.
    assert_eq!(last, 10.0);
    assert!(tree("uniform").iter().all(|&(_, bits)| bits == 10.0));
    let proportional = tree("proportional");
    assert!(proportional[..3].iter().all(|&(_, bits)| bits == 0.0), "{proportional:?}");
    let fixed = tree("fixed:20000");
    assert!(fixed[..3].iter().all(|&(_, bits)| bits == 20.0) && fixed[3].1 == 0.0, "{fixed:?}");
    // More bits than any filter can use do not end tables early.
    let huge = tree("fixed:4294967296");
    assert_eq!((huge.len(), huge[3]), (4, (u64::from(KEYS), 24.0)), "{huge:?}");
    let strict = tree("monkey:0.001");
    assert!(strict[3].1 > 14.0 && strict[0].1 > strict[3].1, "{strict:?}");
}

/// The filter counters after lookups of this many absent keys.
fn absent_lookups(db: &Database, absent: u32) -> Vec<FilterInfo> {
    let keyspace = db.keyspace("default").expect("it works");
    let from = u32::MAX / 2;
    for number in from..from + absent {
        assert!(keyspace.get(key(number)).expect("it works").is_none());
    }
    db.levels()[0].levels.iter().map(|level| level.filters).collect()
}

#[test]
fn lookups_measure_the_filters() {
    let dir = TestDir::new("filter-memory");
    let db = open(&dir, "uniform");
    grow(&db, 2);
    assert!(absent_lookups(&db, 0).iter().all(|seen| seen.probes == 0 && seen.tuning.is_none()));
    let seen = absent_lookups(&db, 200_000);
    assert_eq!(seen.len(), 2);
    for (level, runs) in [(0, 2.0), (1, 1.0)] {
        let FilterInfo { probes, false_positives, expected_false_positives, .. } = seen[level];
        let asked = 200_000.0 / 64.0 * runs;
        assert!((probes as f64 / asked - 1.0).abs() < 0.1, "{probes} of about {asked}");
        // 1 % of 3,000 or 6,000: a third off is four deviations.
        let quotient = false_positives as f64 / expected_false_positives;
        assert!((0.4..1.8).contains(&quotient), "{false_positives}, {expected_false_positives} expected");
    }
    // Lookups of present keys do not count for the filters of the run that has them.
    let keyspace = db.keyspace("default").expect("it works");
    let hits: Vec<_> = (0..32).map(key).collect();
    let before = absent_lookups(&db, 0);
    (0..1_000)
        .for_each(|_| assert!(keyspace.multi_get(&hits).expect("it works").iter().all(Option::is_some)));
    assert_eq!(absent_lookups(&db, 0)[1].false_positives, before[1].false_positives);
    // Multi-gets count as well.
    let absent: Vec<_> = (0..64_000).map(|number| key(u32::MAX / 4 + number)).collect();
    let before = absent_lookups(&db, 0)[1].probes;
    absent
        .chunks(32)
        .for_each(|keys| assert!(keyspace.multi_get(keys).expect("it works").iter().all(Option::is_none)));
    let counted = absent_lookups(&db, 0)[1].probes - before;
    assert!((700..1_300).contains(&counted), "{counted} of 64,000");
}

#[test]
fn dynamic_filters_aim_at_their_targets_and_report_those_out_of_reach() {
    let dir = TestDir::new("filter-memory");
    let db = open(&dir, "dynamic:0.0001,0.1");
    grow(&db, 2);
    let made = bits(&db, &dir);
    assert_eq!(made[0].1, 10.0, "the bound: {made:?}");
    let tuning = |level: usize| db.levels()[0].levels[level].filters.tuning.expect("it works");
    assert!(!tuning(0).is_in_reach && tuning(0).target_rate == 0.0001);
    assert!(tuning(1).is_in_reach && (tuning(1).expected_rate / 0.1 - 1.0).abs() < 0.1);
    // The measurements confirm it, and the next tables of the last level have about as many bits.
    absent_lookups(&db, 300_000);
    let before = tuning(1).bits_per_key;
    db.keyspace("default").expect("it works").compact(..).expect("it works");
    let after = bits(&db, &dir);
    assert_eq!(after.len(), 1, "{after:?}");
    assert!((after[0].1 - before).abs() <= 1.0, "{before} and {after:?}");
}
