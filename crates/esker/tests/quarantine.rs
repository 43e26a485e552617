//! Quarantine: a damaged file costs the keys that need it, and nothing else, until it is replaced.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, copy_tree, key, tiny, value};
use esker::metrics::{QuarantineReads, QuarantinedFile};
use esker::parts::env::SeededRandom;
use esker::{Database, Error, Keyspace, Options, RecoveryMode, Result};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

const ENTRIES: u64 = 500;
/// Tables that are damaged of each database, one after the other.
const DAMAGED_TABLES: usize = 4;

const STRATEGIES: [&str; 6] =
    ["partitioned", "leveled:4", "tiered:4", "lazy-leveled:4", "partial:10,oldest", "golden-ratio"];

/// What a database should hold.
type Oracle = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(strategy: &str, mode: RecoveryMode) -> Options {
    let keyspace = tiny().strategy(strategy.parse().unwrap());
    Options::default().keyspace_options(keyspace).recovery_mode(mode)
}

fn quarantining(path: &Path, strategy: &str) -> Database {
    Database::open_with(path, options(strategy, RecoveryMode::Quarantine)).unwrap()
}

/// A closed database of several runs: keys are overwritten and deleted, in rounds of other steps.
fn filled(path: &Path, strategy: &str) -> Oracle {
    let db = Database::open_with(path, options(strategy, RecoveryMode::Strict)).unwrap();
    let (keyspace, mut oracle) = (db.default_keyspace(), Oracle::new());
    for round in 0..3 {
        for number in (0..ENTRIES).step_by(1 + 2 * round as usize) {
            keyspace.put(key(number), value(number, round)).unwrap();
            oracle.insert(key(number), value(number, round));
        }
        for number in (round..ENTRIES).step_by(17) {
            keyspace.delete(key(number)).unwrap();
            oracle.remove(&key(number));
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    oracle
}

#[allow(clippy::disallowed_methods, reason = "the test looks behind the database's back")]
fn tables(path: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(path.join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> =
        names.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect();
    tables.sort();
    tables
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Missing,
    Short,
    Footer,
    Foreign,
}

const DAMAGES: [Damage; 4] = [Damage::Missing, Damage::Short, Damage::Footer, Damage::Foreign];

#[allow(clippy::disallowed_methods, reason = "the test damages files behind the database's back")]
fn damage(table: &Path, kind: Damage) {
    let bytes = fs::read(table).unwrap();
    match kind {
        Damage::Missing => fs::remove_file(table).unwrap(),
        Damage::Short => fs::write(table, &bytes[..bytes.len() / 2]).unwrap(),
        Damage::Footer => flip(table, bytes.len() - 20),
        Damage::Foreign => {
            let others = tables(table.parent().unwrap().parent().unwrap());
            let other = others.iter().find(|other| *other != table).unwrap();
            fs::write(table, fs::read(other).unwrap()).unwrap();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "as above")]
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The keys that may be errors.
struct Lost(Vec<(Vec<u8>, Bound<Vec<u8>>)>);

impl Lost {
    fn of(files: &[QuarantinedFile]) -> Lost {
        Lost(files.iter().flat_map(|file| file.ranges.clone()).collect())
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.iter().any(|(first, end)| {
            first.as_slice() <= key
                && match end {
                    Bound::Included(last) => key <= last.as_slice(),
                    Bound::Excluded(end) => key < end.as_slice(),
                    Bound::Unbounded => true,
                }
        })
    }
}

/// Whether an answer may be this error at this key.
fn assert_allowed(error: &Error, lost: &Lost, key: &[u8]) {
    assert!(error.is_corruption(), "{error}");
    assert!(lost.has(key), "key {} is not lost, and yet: {error}", key.escape_ascii());
}

/// Every read of one key. Returns how many were errors.
fn check_points(keyspace: &Keyspace, oracle: &Oracle, lost: &Lost) -> usize {
    let mut errors = 0;
    for number in 0..ENTRIES {
        let (key, expected) = (key(number), oracle.get(&key(number)));
        match keyspace.get(&key) {
            Ok(found) => assert_eq!(found.as_deref(), expected.map(Vec::as_slice), "key {number}"),
            Err(error) => {
                assert_allowed(&error, lost, &key);
                errors += 1;
            }
        }
        match keyspace.contains(&key) {
            Ok(found) => assert_eq!(found, expected.is_some(), "key {number}"),
            Err(error) => assert_allowed(&error, lost, &key),
        }
    }
    for keys in (0..ENTRIES).map(key).collect::<Vec<_>>().chunks(7) {
        match keyspace.multi_get(keys) {
            Ok(found) => {
                for (key, found) in keys.iter().zip(found) {
                    assert_eq!(found.as_deref(), oracle.get(key).map(Vec::as_slice));
                }
            }
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                assert!(keys.iter().any(|key| lost.has(key)), "{error}");
            }
        }
    }
    errors
}

/// Scans in both directions: an error comes at the begin of what is lost, and a seek behind it goes on.
fn check_scans(keyspace: &Keyspace, oracle: &Oracle, lost: &Lost) {
    let kept: Vec<&Vec<u8>> = oracle.keys().filter(|key| !lost.has(key)).collect();
    for backward in [false, true] {
        let mut cursor = keyspace.cursor().unwrap();
        let (mut seen, mut errors) = (Vec::new(), 0);
        let mut moved = if backward { cursor.seek_to_last() } else { cursor.seek_to_first() };
        let mut from = if backward { Some(vec![0xff; 9]) } else { Some(Vec::new()) };
        loop {
            if let Err(error) = moved {
                assert!(error.is_corruption(), "{error}");
                errors += 1;
                assert!(errors <= 2 + 2 * lost.0.len(), "errors repeat: {error}");
                // What is not lost before the error was seen; behind it the scan begins anew.
                let last = seen.last().cloned().or(from.take()).unwrap_or_default();
                let next = if backward {
                    kept.iter().rev().find(|key| ***key < last)
                } else {
                    kept.iter().find(|key| ***key > last)
                };
                let Some(next) = next else { break };
                let (low, high) = if backward { (*next, &last) } else { (&last, *next) };
                assert!(
                    lost.0
                        .iter()
                        .any(|(first, _)| first > low && first < high || lost.has(low) || lost.has(high)),
                    "an error between {} and {}, where nothing is lost",
                    low.escape_ascii(),
                    high.escape_ascii()
                );
                moved = if backward { cursor.seek_for_prev(next) } else { cursor.seek(next) };
                assert!(moved.is_ok(), "{}: {moved:?}", next.escape_ascii());
                continue;
            }
            let Some((key, value)) = cursor.entry() else { break };
            assert_eq!(oracle.get(key).map(Vec::as_slice), Some(value));
            seen.push(key.to_vec());
            moved = if backward { cursor.retreat() } else { cursor.advance() };
        }
        if backward {
            seen.reverse();
        }
        let seen: Vec<&Vec<u8>> = seen.iter().filter(|key| !lost.has(key)).collect();
        assert_eq!(seen, kept, "backward: {backward}");
    }
}

/// Ranges beside what is lost are whole, up to its first and from its last key.
fn check_ranges(keyspace: &Keyspace, oracle: &Oracle, lost: &Lost) {
    for (first, end) in &lost.0 {
        let before: Vec<&Vec<u8>> = oracle.range(..first.clone()).map(|(key, _)| key).collect();
        if before.iter().all(|key| !lost.has(key)) {
            let found = keyspace.range(..first.clone()).map(|entry| entry.unwrap().0.to_vec());
            assert!(found.eq(before.into_iter().cloned()));
            assert_eq!(keyspace.range(..first.clone()).rev().count(), oracle.range(..first.clone()).count());
        }
        let from = match end {
            Bound::Included(last) => Bound::Excluded(last.clone()),
            Bound::Excluded(end) => Bound::Included(end.clone()),
            Bound::Unbounded => continue,
        };
        let bounds = (from, Bound::Unbounded);
        if oracle.range(bounds.clone()).all(|(key, _)| !lost.has(key)) {
            let expected = || oracle.range(bounds.clone()).map(|(key, _)| key.clone());
            assert!(keyspace.range(bounds.clone()).map(|entry| entry.unwrap().0.to_vec()).eq(expected()));
            let backwards = keyspace.range(bounds.clone()).rev();
            assert!(backwards.map(|entry| entry.unwrap().0.to_vec()).eq(expected().rev()));
        }
        let across: Result<Vec<_>> = keyspace.iter().collect();
        assert!(across.is_err_and(|error| error.is_corruption()), "a scan over everything is no answer");
    }
}

/// Changes that read first.
fn check_conditional_writes(db: &Database, oracle: &mut Oracle, lost: &Lost) {
    let keyspace = db.default_keyspace();
    for number in (0..ENTRIES).step_by(37) {
        let key = key(number);
        let change = || {
            let mut transaction = db.transaction();
            let found = transaction.get(keyspace, &key)?.map(|found| found.to_vec());
            assert_eq!(found.as_ref(), oracle.get(&key));
            transaction.put(keyspace, &key, b"by a transaction")?;
            transaction.commit()
        };
        let changed = change();
        match changed {
            Ok(_) => _ = oracle.insert(key, b"by a transaction".to_vec()),
            Err(error) => assert_allowed(&error, lost, &key),
        }
    }
}

/// Everything that can be done with one damaged database.
fn check_quarantined(dir: &Path, whole: &Path, strategy: &str, oracle: &Oracle, damaged: &Path) {
    let mut oracle = oracle.clone();
    let db = quarantining(dir, strategy);
    let keyspace = db.default_keyspace();
    let files = db.quarantined();
    let [file] = files.as_slice() else { panic!("one file is damaged: {files:?}") };
    assert_eq!(file.path.file_name(), damaged.file_name());
    assert_eq!(file.reads, QuarantineReads::Refused);
    let lost = Lost::of(&files);
    check_points(keyspace, &oracle, &lost);
    check_scans(keyspace, &oracle, &lost);
    check_ranges(keyspace, &oracle, &lost);
    assert!(db.checkpoint(dir.with_extension("copy")).is_err_and(|error| error.is_corruption()));
    check_conditional_writes(&db, &mut oracle, &lost);
    // Enough for merges of every level, with deletes of what is lost.
    for round in 10..16 {
        for number in (round..ENTRIES).step_by(3) {
            keyspace.put(key(number), value(number, round)).unwrap();
            oracle.insert(key(number), value(number, round));
        }
        for number in (round..ENTRIES).step_by(29) {
            keyspace.delete(key(number)).unwrap();
            oracle.remove(&key(number));
        }
        db.flush().unwrap();
        db.drain().unwrap();
    }
    check_points(keyspace, &oracle, &lost);
    check_scans(keyspace, &oracle, &lost);
    // What can be compacted is; the rest is told.
    let compacted = db.compact_all();
    assert!(compacted.is_ok() || compacted.is_err_and(|error| error.is_corruption()));
    check_points(keyspace, &oracle, &lost);
    assert!(db.metrics().background_errors.is_empty(), "{:?}", db.metrics().background_errors);
    db.close().unwrap();
    drop(db);
    let db = quarantining(dir, strategy);
    check_points(db.default_keyspace(), &oracle, &lost);
    check_scans(db.default_keyspace(), &oracle, &lost);
    let report = db.replace_quarantined(whole).unwrap();
    assert_eq!((report.replaced.len(), report.missing.len()), (1, 0), "{report:?}");
    assert!(db.quarantined().is_empty());
    let nothing = Lost(Vec::new());
    check_points(db.default_keyspace(), &oracle, &nothing);
    check_scans(db.default_keyspace(), &oracle, &nothing);
    assert!(db.verify().unwrap().is_clean());
    db.compact_all().unwrap();
    check_points(db.default_keyspace(), &oracle, &nothing);
    db.close().unwrap();
    let strict = Database::open_with(dir, options(strategy, RecoveryMode::Strict)).unwrap();
    check_scans(strict.default_keyspace(), &oracle, &nothing);
}

/// Leaves no merge to the next open, which would meet damaged blocks at a time of its own.
fn finish_merges(path: &Path, strategy: &str) {
    let db = Database::open_with(path, options(strategy, RecoveryMode::Strict)).unwrap();
    db.drain().unwrap();
    db.close().unwrap();
}

fn check_strategy(strategy: &str) {
    let whole = TestDir::new("whole-tables");
    let oracle = filled(whole.path(), strategy);
    let all = tables(whole.path());
    assert!(all.len() > 2, "{strategy}: {all:?}");
    let step = all.len().div_ceil(DAMAGED_TABLES);
    for (at, table) in all.iter().step_by(step).enumerate() {
        let kind = DAMAGES[at % DAMAGES.len()];
        let dir = TestDir::new("quarantined");
        copy_tree(whole.path(), dir.path());
        let damaged = dir.path().join(table.strip_prefix(whole.path()).unwrap());
        damage(&damaged, kind);
        assert_strict(dir.path(), strategy, kind);
        check_quarantined(dir.path(), whole.path(), strategy, &oracle, &damaged);
    }
}

/// The default is as it was.
fn assert_strict(path: &Path, strategy: &str, kind: Damage) {
    let read_all = || -> Result<usize> {
        let db = Database::open_with(path, options(strategy, RecoveryMode::Strict).read_only(true))?;
        assert!(db.quarantined().is_empty());
        db.default_keyspace().iter().try_fold(0, |count, entry| entry.map(|_| count + 1))
    };
    let read = read_all();
    assert!(read.is_err_and(|error| error.is_corruption()), "{kind:?}");
}

#[test]
fn only_what_is_lost_fails_under_every_strategy() {
    STRATEGIES.into_iter().for_each(check_strategy);
}

/// A flipped bit in a block: reads tell, the rest of the table goes on being read, merges leave it alone.
#[test]
fn a_damaged_block_that_a_compaction_meets_does_not_stop_compactions() {
    for strategy in STRATEGIES {
        let (whole, dir) = (TestDir::new("whole-blocks"), TestDir::new("damaged-block"));
        let mut oracle = filled(whole.path(), strategy);
        finish_merges(whole.path(), strategy);
        copy_tree(whole.path(), dir.path());
        let table = tables(dir.path()).into_iter().next().unwrap();
        flip(&table, 200);
        let db = quarantining(dir.path(), strategy);
        let keyspace = db.default_keyspace();
        assert!(db.quarantined().is_empty(), "a block is not read by an open");
        let compacted = db.compact_all();
        assert!(compacted.is_err_and(|error| error.is_corruption()), "{strategy}");
        let files = db.quarantined();
        assert_eq!(files.len(), 1, "{strategy}");
        assert_eq!(files[0].reads, QuarantineReads::DamagedBlocksFail);
        let lost = Lost::of(&files);
        let errors = check_points(keyspace, &oracle, &lost);
        let in_table = oracle.keys().filter(|key| lost.has(key)).count();
        assert!(errors < in_table, "{strategy}: intact blocks are read");
        for round in 10..20 {
            for number in (round..ENTRIES).step_by(3) {
                keyspace.put(key(number), value(number, round)).unwrap();
                oracle.insert(key(number), value(number, round));
            }
            db.flush().unwrap();
            db.drain().unwrap();
        }
        check_points(keyspace, &oracle, &lost);
        assert!(db.metrics().background_errors.is_empty());
        assert_eq!(db.metrics().quarantined_files, 1);
        let report = db.replace_quarantined(whole.path()).unwrap();
        assert_eq!(report.replaced.len(), 1, "{report:?}");
        check_points(keyspace, &oracle, &Lost(Vec::new()));
        check_scans(keyspace, &oracle, &Lost(Vec::new()));
        db.compact_all().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn level_0_does_not_grow_without_bound_above_what_is_set_aside() {
    for strategy in STRATEGIES {
        let dir = TestDir::new("many-flushes");
        filled(dir.path(), strategy);
        let table = tables(dir.path()).into_iter().next().unwrap();
        damage(&table, Damage::Missing);
        let db = quarantining(dir.path(), strategy);
        for round in 0..60 {
            for number in (0..ENTRIES).step_by(25) {
                db.default_keyspace().put(key(number), value(number, round)).unwrap();
            }
            db.flush().unwrap();
            db.drain().unwrap();
        }
        let levels = db.levels();
        let runs: usize =
            levels.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.runs.len()).sum();
        assert!(runs <= 24, "{strategy}: {runs} runs");
    }
}

#[test]
fn a_range_delete_over_everything_lost_ends_it() {
    let dir = TestDir::new("range-deleted");
    let mut oracle = filled(dir.path(), "partitioned");
    let table = tables(dir.path()).into_iter().next().unwrap();
    damage(&table, Damage::Short);
    let db = quarantining(dir.path(), "partitioned");
    let keyspace = db.default_keyspace();
    let lost = Lost::of(&db.quarantined());
    keyspace.delete_range(Vec::<u8>::new()..vec![0xff; 4]).unwrap();
    oracle.clear();
    keyspace.put(key(3), value(3, 9)).unwrap();
    oracle.insert(key(3), value(3, 9));
    assert_eq!(check_points(keyspace, &oracle, &lost), 0, "deleted keys need no damaged file");
    db.flush().unwrap();
    assert_eq!(keyspace.iter().collect::<esker::Result<Vec<_>>>().unwrap().len(), 1);
    db.drain().unwrap();
    assert!(db.quarantined().is_empty(), "{:?}", db.quarantined());
    db.checkpoint(dir.path().join("copy")).unwrap();
}

#[test]
fn a_keyspace_with_lost_tables_can_be_dropped() {
    let dir = TestDir::new("dropped");
    let db = Database::open_with(dir.path(), options("partitioned", RecoveryMode::Strict)).unwrap();
    let other = db.keyspace_with("other", tiny()).unwrap();
    (0..ENTRIES).for_each(|number| other.put(key(number), value(number, 0)).unwrap());
    db.close().unwrap();
    tables(dir.path()).iter().for_each(|table| damage(table, Damage::Missing));
    let db = quarantining(dir.path(), "partitioned");
    assert!(!db.quarantined().is_empty());
    db.default_keyspace().put(key(1), value(1, 1)).unwrap();
    db.drop_keyspace("other").unwrap();
    assert!(db.quarantined().is_empty());
    db.checkpoint(dir.path().join("copy")).unwrap();
}

/// Large values are in a file of their own: keys are still listed without it.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test removes a file")]
fn a_lost_blob_file_costs_its_values_only() {
    let (dir, whole) = (TestDir::new("lost-blob"), TestDir::new("whole-blob"));
    let large = |number: u64| vec![number as u8; 4000];
    let with_blobs = |mode| {
        let keyspace = tiny().blob_threshold(1000);
        Options::default().keyspace_options(keyspace).recovery_mode(mode)
    };
    let db = Database::open_with(dir.path(), with_blobs(RecoveryMode::Strict)).unwrap();
    for number in 0..40 {
        let bytes = if number % 2 == 0 { large(number) } else { value(number, 0) };
        db.default_keyspace().put(key(number), bytes).unwrap();
    }
    db.close().unwrap();
    copy_tree(dir.path(), whole.path());
    let blobs: Vec<PathBuf> = fs::read_dir(dir.path().join("tables"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "blob"))
        .collect();
    blobs.iter().for_each(|blob| fs::remove_file(blob).unwrap());
    let db = Database::open_with(dir.path(), with_blobs(RecoveryMode::Quarantine)).unwrap();
    assert_eq!(db.quarantined().len(), blobs.len());
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.keys(..).collect::<esker::Result<Vec<_>>>().unwrap().len(), 40);
    for number in 0..40 {
        let found = keyspace.get(key(number));
        if number % 2 == 0 {
            assert!(found.is_err_and(|error| error.is_corruption()));
        } else {
            assert_eq!(found.unwrap().as_deref(), Some(value(number, 0).as_slice()));
        }
    }
    let report = db.replace_quarantined(whole.path()).unwrap();
    assert_eq!(report.replaced.len(), blobs.len());
    assert_eq!(keyspace.get(key(2)).unwrap().as_deref(), Some(large(2).as_slice()));
}

#[test]
fn a_replacement_that_is_damaged_or_another_file_is_not_taken() {
    let (dir, whole, backups) =
        (TestDir::new("bad-source"), TestDir::new("bad-whole"), TestDir::new("good-backup"));
    let oracle = filled(dir.path(), "partitioned");
    let db = Database::open(dir.path()).unwrap();
    let backups = esker::backup::Backups::new(backups.path());
    db.backup(&backups).unwrap();
    db.close().unwrap();
    copy_tree(dir.path(), whole.path());
    let table = tables(dir.path()).into_iter().next().unwrap();
    damage(&table, Damage::Missing);
    let source = whole.path().join("tables").join(table.file_name().unwrap());
    flip(&source, 200);
    let db = quarantining(dir.path(), "partitioned");
    let report = db.replace_quarantined(whole.path()).unwrap();
    assert_eq!((report.replaced.len(), report.missing.len()), (0, 1), "{report:?}");
    damage(&source, Damage::Foreign);
    assert_eq!(db.replace_quarantined(whole.path()).unwrap().missing.len(), 1);
    assert_eq!(db.quarantined().len(), 1);
    assert!(matches!(db.replace_quarantined(dir.path().join("none")), Err(Error::NotFound(_))));
    // The directory of backups has it by its identity.
    let report = db.replace_quarantined(backups.dir()).unwrap();
    assert_eq!(report.replaced.len(), 1, "{report:?}");
    check_points(db.default_keyspace(), &oracle, &Lost(Vec::new()));
}

/// Whether some lost key may lie from `low` to `high`.
fn touches(lost: &Lost, low: &[u8], high: &[u8]) -> bool {
    lost.has(low) || lost.has(high) || lost.0.iter().any(|(first, _)| low < &first[..] && &first[..] < high)
}

/// A few steps from a random key in a random direction. An error must have something lost in its way.
fn walk(keyspace: &Keyspace, oracle: &Oracle, lost: &Lost, random: &SeededRandom) {
    let (from, backward) = (key(random.below(ENTRIES)), random.below(2) == 0);
    let mut cursor = keyspace.cursor().unwrap();
    let mut moved = if backward { cursor.seek_for_prev(&from) } else { cursor.seek(&from) };
    let mut expected: Box<dyn Iterator<Item = (&Vec<u8>, &Vec<u8>)>> = if backward {
        Box::new(oracle.range(..=from.clone()).rev())
    } else {
        Box::new(oracle.range(from.clone()..))
    };
    let mut at = from;
    for _ in 0..random.below(20) {
        let next = expected.next();
        if let Err(error) = moved {
            assert!(error.is_corruption(), "{error}");
            let end = if backward { Vec::new() } else { vec![0xff; 9] };
            let to = next.map_or(&end, |(key, _)| key);
            let (low, high) = if backward { (to, &at) } else { (&at, to) };
            assert!(
                touches(lost, low, high),
                "{error} from {} to {}",
                low.escape_ascii(),
                high.escape_ascii()
            );
            return;
        }
        let Some((key, value)) = next else {
            assert!(cursor.entry().is_none());
            return;
        };
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
        at.clone_from(key);
        moved = if backward { cursor.retreat() } else { cursor.advance() };
    }
}

/// One random change, or check, of a database with lost keys.
fn step(db: &Database, oracle: &mut Oracle, lost: &Lost, random: &SeededRandom, round: u64) {
    let (keyspace, number) = (db.default_keyspace(), random.below(ENTRIES));
    match random.below(40) {
        0 => db.flush().unwrap(),
        1 => db.drain().unwrap(),
        2 => {
            if let Err(error) = db.compact_all() {
                assert!(error.is_corruption(), "{error}");
            }
        }
        3 => {
            let (from, to) = (key(number), key(number + random.below(30)));
            keyspace.delete_range(from.clone()..to.clone()).unwrap();
            oracle.retain(|key, _| *key < from || *key >= to);
        }
        4..14 => {
            keyspace.put(key(number), value(number, round)).unwrap();
            oracle.insert(key(number), value(number, round));
        }
        14..18 => {
            keyspace.delete(key(number)).unwrap();
            oracle.remove(&key(number));
        }
        18..30 => walk(keyspace, oracle, lost, random),
        _ => match keyspace.get(key(number)) {
            Ok(found) => assert_eq!(found.map(|found| found.to_vec()).as_ref(), oracle.get(&key(number))),
            Err(error) => assert_allowed(&error, lost, &key(number)),
        },
    }
}

#[test]
fn every_answer_of_a_random_run_is_right_or_an_error_where_something_is_lost() {
    for seed in 0..24 {
        let random = SeededRandom::new(seed);
        let strategy = STRATEGIES[seed as usize % STRATEGIES.len()];
        let (dir, whole) = (TestDir::new("random"), TestDir::new("random-whole"));
        let mut oracle = filled(dir.path(), strategy);
        copy_tree(dir.path(), whole.path());
        let all = tables(dir.path());
        let first = random.below(all.len() as u64) as usize;
        let second = random.below(all.len() as u64) as usize;
        damage(&all[first], DAMAGES[random.below(3) as usize]);
        if second != first {
            damage(&all[second], DAMAGES[random.below(3) as usize]);
        }
        let mut db = quarantining(dir.path(), strategy);
        let lost = Lost::of(&db.quarantined());
        println!("seed {seed}: {strategy}, {} and {}", all[first].display(), all[second].display());
        for round in 0..600 {
            step(&db, &mut oracle, &lost, &random, 100 + round);
            if random.below(150) == 0 {
                db.close().unwrap();
                db = quarantining(dir.path(), strategy);
            }
        }
        db.replace_quarantined(whole.path()).unwrap();
        assert!(db.quarantined().is_empty(), "{:?}", db.quarantined());
        check_points(db.default_keyspace(), &oracle, &Lost(Vec::new()));
        check_scans(db.default_keyspace(), &oracle, &Lost(Vec::new()));
        assert!(db.verify().unwrap().is_clean());
    }
}
