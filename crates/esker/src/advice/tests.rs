//! Advice on a small database, stepped, on an in-memory file system.

use super::*;
use crate::{Database, Options};
use esker_base::checksum::key_hash;
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock};
use esker_filter::FilterKind;
use esker_filter::watch::{SAMPLE, is_sampled};
use esker_options::KeyspaceOptions;
use std::sync::Arc;

fn open(strategy: &str) -> Database {
    let clock = Arc::new(ManualClock::new(1_600_000_000_000));
    let env = Env { clock, ..Env::simulated(Arc::new(StrictFs::new()), 7) };
    let keyspace = KeyspaceOptions::default()
        .strategy(strategy.parse().unwrap())
        .write_buffer_size(16 << 10)
        .table_size(32 << 10)
        .block_size(1024)
        .compression(crate::options::PerLevel::all(esker_codec::Codec::None));
    Database::open_with("/db", Options::default().memory_budget(8 << 20).keyspace_options(keyspace).env(env))
        .unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn put(db: &Database, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        db.default_keyspace().put(key(number), [7; 56]).unwrap();
    }
}

/// Random draws out of `count` keys, `times` for each key.
fn scattered(count: u64, times: u64) -> impl Iterator<Item = u64> {
    (0..count * times).map(move |at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % count)
}

/// The number of lookups that a lookup of this key counts as: 64 or none.
fn counted(key: &[u8]) -> f64 {
    if is_sampled(key_hash(key)) { SAMPLE as f64 } else { 0.0 }
}

#[test]
fn operations_are_counted_by_kind() {
    let db = open("leveled:4");
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.operations(), Operations::default());
    put(&db, 0..2000);
    (0..1000u64).for_each(|number| keyspace.delete(key(number)).unwrap());
    let half = keyspace.operations();
    assert_eq!(half.writes(), 3000.0, "those in memtables count, too");
    db.flush().unwrap();
    let flushed = keyspace.operations();
    assert_eq!(flushed.writes(), 3000.0);
    assert!((900.0..1100.0).contains(&flushed.deletes), "{flushed:?}");
    db.compact_all().unwrap();

    // Lookups in tables, one by one and grouped; absent keys lie between present ones.
    let (mut wide, mut present, mut absent) = (Vec::new(), 0.0, 0.0);
    for number in 1000..2000u64 {
        let beside = [&key(number)[..], b"x"].concat();
        keyspace.get(key(number)).unwrap().unwrap();
        assert_eq!(keyspace.get(&beside).unwrap(), None);
        (present, absent) = (present + counted(&key(number)), absent + counted(&beside));
        wide.push(key(number));
    }
    let read = keyspace.operations();
    assert_eq!((read.present_reads, read.absent_reads), (present, absent));
    assert!(present > 200.0 && absent > 200.0, "{read:?}");
    keyspace.multi_get(&wide).unwrap();
    let read_again = keyspace.operations();
    assert_eq!(read_again.present_reads, 2.0 * read.present_reads);
    assert_eq!(read_again.absent_reads, read.absent_reads);

    // A range, a cursor with two seeks, keys: 3, 2, 1 and all.
    assert_eq!(keyspace.range(key(1500)..key(1503)).count(), 3);
    let mut cursor = keyspace.cursor().unwrap();
    for steps in [2, 1] {
        cursor.seek(key(1200)).unwrap();
        (0..steps).for_each(|_| cursor.advance().unwrap());
    }
    drop(cursor);
    assert_eq!(keyspace.keys(..).count(), 1000);
    let scanned = keyspace.operations();
    assert_eq!((scanned.short_scans, scanned.short_scan_entries), (3.0, 6.0));
    assert_eq!((scanned.long_scans, scanned.long_scan_entries), (1.0, 1000.0));
    assert_eq!(scanned.since(&read_again).writes(), 0.0);
    db.close().unwrap();
}

#[test]
fn advice_follows_observations_and_is_checked_against_them() {
    let db = open("leveled:4");
    let keyspace = db.default_keyspace();
    let refused = keyspace.advise(&AdviceRequest::default()).unwrap_err().to_string();
    assert!(refused.contains("state what it is used for"), "{refused}");
    put(&db, 0..4000);
    put(&db, scattered(4000, 8));
    db.drain().unwrap();
    let told = keyspace.advise(&AdviceRequest::default()).unwrap();
    assert!(told.is_observed);
    let usage = told.usage;
    assert!((usage.entries / 4000.0 - 1.0).abs() < 0.2, "{usage:?}");
    assert!((60.0..68.0).contains(&usage.entry_bytes), "{usage:?}");
    assert_eq!(usage.key_bytes, 8.0);
    let present = told.advice.present.unwrap();
    assert_eq!(present.design.strategy.to_string(), "leveled:4");
    assert_eq!(present.design.write_buffer_bytes, 16384.0);
    // Writes only: the proposal writes less, and so does the matching profile.
    assert!(told.advice.is_worth_it(), "{}", told.advice.reason);
    assert!(told.advice.best.figures.write_amplification < present.figures.write_amplification);
    assert_eq!(told.advice.named.len(), 4);

    let check = |term| told.checks.iter().find(|check: &&ModelCheck| check.term == term).copied().unwrap();
    let writes = check(ModelTerm::WriteAmplification);
    assert!(writes.error().unwrap().abs() < 0.35, "{writes:?}");
    // The error of the formula corrects the prediction.
    assert!((present.figures.write_amplification / writes.measured.unwrap() - 1.0).abs() < 1e-6);
    assert_eq!(check(ModelTerm::BlocksInVain).measured, None, "there were no lookups");
    assert!(check(ModelTerm::Runs).measured.is_some());

    // Given operations replace the observed ones.
    let scans = Operations { short_scans: 9.0, short_scan_entries: 90.0, puts: 1.0, ..Operations::default() };
    let scanning = keyspace.advise(&AdviceRequest::default().operations(scans)).unwrap();
    assert!(!scanning.is_observed);
    assert!(scanning.advice.best.figures.runs < told.advice.best.figures.runs, "{}", scanning.advice.reason);
    let larger = keyspace.advise(&AdviceRequest::default().operations(scans).memory(1 << 30)).unwrap();
    assert_eq!(larger.usage.memory_bytes, f64::from(1 << 30));
    db.close().unwrap();
}

/// A tree of one run, as after a load, says nothing about formulas for trees under writes.
#[test]
fn a_mere_load_is_not_compared_with_the_formulas() {
    let db = open("leveled:4");
    let keyspace = db.default_keyspace();
    let mut loader = keyspace.bulk_load().unwrap();
    (0..4000u64).for_each(|number| loader.add(format!("{number:08}"), [7; 40]).unwrap());
    loader.finish().unwrap();
    db.drain().unwrap();
    let stated = Operations { puts: 1.0, present_reads: 1.0, ..Operations::default() };
    let told = keyspace.advise(&AdviceRequest::default().operations(stated)).unwrap();
    assert!(told.checks.len() == 4 && told.checks.iter().all(|check| check.measured.is_none()), "{told:?}");
    db.close().unwrap();
}

#[test]
fn advice_that_is_taken_is_a_change_of_options() {
    let db = open("leveled:4");
    let keyspace = db.default_keyspace();
    put(&db, 0..4000);
    put(&db, scattered(4000, 2));
    db.drain().unwrap();
    let best = keyspace.advise(&AdviceRequest::default()).unwrap().advice.best.design;
    keyspace.take_advice(&best).unwrap();
    let design = keyspace.options().design(0);
    assert_eq!(
        (design.strategy, design.write_buffer_bytes),
        (best.strategy, best.write_buffer_bytes.floor())
    );
    assert!((design.filter_bits_per_key - best.filter_bits_per_key).abs() < 0.5, "{design:?} {best:?}");
    db.drain().unwrap();
    assert_eq!(keyspace.migration(), None);
    assert_eq!(keyspace.iter().count(), 4000, "nothing is lost on the way");
    let again = keyspace.advise(&AdviceRequest::default()).unwrap();
    assert_eq!(again.advice.present.unwrap().design.strategy, best.strategy);
    db.close().unwrap();
}

#[test]
fn a_keyspace_without_filters_gets_some_and_a_kind_is_kept() {
    let design = Design {
        strategy: "lazy-leveled:6".parse().unwrap(),
        write_buffer_bytes: f64::from(1 << 20),
        filter_bits_per_key: 8.0,
    };
    let none = KeyspaceOptions::default().filter("none".parse().unwrap());
    assert_eq!(none.with_design(&design).filter, "blocked-bloom:8".parse().unwrap());
    let ribbon = KeyspaceOptions::default().filter("ribbon:10".parse().unwrap());
    assert_eq!(ribbon.with_design(&design).filter.kind(), FilterKind::Ribbon);
}
