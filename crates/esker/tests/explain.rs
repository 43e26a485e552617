//! Explanations: they answer what reads answer, and count what the engine counts.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, tiny};
use esker::explain::{Explanation, Figure, ScanOptions, Step};
use esker::options::{IndexKind, ReadMode, Strategy};
use esker::parts::base::checksum::key_hash;
use esker::parts::cache::{BlockKind, KindStats};
use esker::parts::env::SeededRandom;
use esker::parts::filter::FilterPolicy;
use esker::parts::filter::watch::is_sampled;
use esker::{Database, Keyspace, KeyspaceOptions, MergeOperator, Options};
use std::ops::Bound;

const KEYS: u64 = 300;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn open(dir: &TestDir, options: Options, keyspace: KeyspaceOptions) -> (Database, Keyspace) {
    let keyspace = keyspace.merge_operator(MergeOperator::append(","));
    let db = Database::open_with(dir.path(), options.keyspace_options(keyspace)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

/// Some operations of every kind.
fn change(keyspace: &Keyspace, random: &SeededRandom, count: u64) {
    for _ in 0..count {
        let number = random.below(KEYS);
        match random.below(40) {
            0..20 => {
                let len = if random.below(8) == 0 { 400 } else { random.below(40) };
                keyspace.put(key(number), vec![number as u8; len as usize]).unwrap();
            }
            20..30 => keyspace.delete(key(number)).unwrap(),
            30..38 => keyspace.merge(key(number), random.below(100).to_string()).unwrap(),
            38 => keyspace.delete_range(key(number)..key(number + 1 + random.below(20))).unwrap(),
            _ => keyspace.flush().unwrap(),
        }
    }
}

/// All ways in which blocks are found.
fn variants() -> Vec<(&'static str, Options, KeyspaceOptions)> {
    let options = || Options::default().memory_budget(16 << 20).compaction_threads(1);
    let never: Strategy = "none".parse().unwrap();
    vec![
        ("default", options(), tiny()),
        ("runs", options(), tiny().strategy(never)),
        ("no filter", options(), tiny().strategy(never).filter(FilterPolicy::None)),
        ("weak filter", options(), tiny().strategy(never).filter(FilterPolicy::blocked_bloom(1.0))),
        ("pages", options().cache_filters(true), tiny().block_index(IndexKind::BTreePages)),
        ("locator", options(), tiny().block_index(IndexKind::HashLocator)),
        ("blobs", options(), tiny().blob_threshold(200)),
        ("mapped", options().table_reads(ReadMode::Mapped), tiny()),
    ]
}

/// The lookups of data blocks in the cache during a call.
fn counted<T>(db: &Database, call: impl FnOnce() -> T) -> (T, KindStats) {
    let before = db.metrics().cache[BlockKind::Data];
    let result = call();
    let after = db.metrics().cache[BlockKind::Data];
    let hits = after.hits - before.hits;
    (result, KindStats { hits, misses: after.misses - before.misses, ..KindStats::default() })
}

fn figure(explanation: &Explanation, figure: Figure) -> u64 {
    explanation.root.actual(figure).unwrap_or_default() as u64
}

/// The figures of the whole are the sums of the steps, and data blocks those that the cache has counted.
fn assert_blocks(explanation: &Explanation, cache: KindStats) {
    let of = |what| figure(explanation, what);
    let told = (of(Figure::BlocksFromSlots) + of(Figure::BlocksFromCache), of(Figure::BlocksFromFiles));
    assert_eq!(told, (cache.hits, cache.misses), "{explanation}");
    for what in [Figure::DataBlocks, Figure::BlocksFromFiles, Figure::FileBytes, Figure::LargeValues] {
        let steps = explanation.root.steps.iter();
        let sum: f64 = steps.map(|step| step.actual(what).unwrap_or_default()).sum();
        // A scan reads large values for the whole, not for one of its sources.
        let whole = explanation.root.actual(what).unwrap_or_default();
        assert!(sum == whole || what == Figure::LargeValues && sum <= whole, "{what:?}: {explanation}");
    }
}

/// What one more lookup adds to the engine's counters of sampled lookups.
#[derive(Debug, PartialEq, Eq)]
struct TracedLookups {
    lookups: u64,
    /// Memtables searched, filters probed, tables searched.
    sources: [u64; 3],
}

fn traced(db: &Database, call: impl FnOnce()) -> TracedLookups {
    let reads = || db.levels().into_iter().find(|levels| levels.name == "k").unwrap().amplification.reads;
    let before = reads();
    call();
    let after = reads();
    TracedLookups {
        lookups: after.lookups - before.lookups,
        sources: [
            after.memtables_probed - before.memtables_probed,
            after.tables_probed - before.tables_probed,
            after.tables_searched - before.tables_searched,
        ],
    }
}

#[test]
fn explained_gets_answer_and_count_as_gets() {
    let (mut sampled, mut from_files, mut found, mut in_vain) = (0, 0, 0, 0);
    for (at, (name, options, keyspace)) in variants().into_iter().enumerate() {
        let dir = TestDir::new("explain-get");
        let (db, keyspace) = open(&dir, options, keyspace);
        let random = SeededRandom::new(at as u64);
        for _ in 0..12 {
            change(&keyspace, &random, 150);
            db.drain().unwrap();
            for number in (0..KEYS).step_by(3) {
                let key = if number % 5 == 0 { [key(number), b"x".to_vec()].concat() } else { key(number) };
                let (answer, cache) = counted(&db, || keyspace.explain_get(&key).unwrap());
                let (value, explanation) = answer;
                assert_eq!(value, keyspace.get(&key).unwrap(), "{name}: {explanation}");
                assert_blocks(&explanation, cache);
                let is_read = figure(&explanation, Figure::BlocksFromFiles) > 0;
                let told = explanation.conclusion.starts_with("Everything was in memory");
                assert!(!(is_read && told), "{name}: {explanation}");
                from_files += figure(&explanation, Figure::BlocksFromFiles);
                found += u64::from(value.is_some());
                in_vain += figure(&explanation, Figure::SearchedInVain);
                let counts = traced(&db, || drop(keyspace.get(&key).unwrap()));
                // A tree without runs has no statistics.
                if !is_sampled(key_hash(&key)) || counts.lookups == 0 {
                    continue;
                }
                sampled += 1;
                let told = [Figure::MemtablesSearched, Figure::FiltersProbed, Figure::TablesSearched]
                    .map(|what| figure(&explanation, what));
                assert_eq!(told, counts.sources, "{name}: {explanation}");
            }
        }
        let none = traced(&db, || drop(keyspace.explain_get(key(1)).unwrap()));
        assert_eq!(
            none,
            TracedLookups { lookups: 0, sources: [0; 3] },
            "an explained get is not counted among lookups"
        );
        db.close().unwrap();
    }
    assert!(sampled > 20 && from_files > 500 && found > 1_000, "{sampled} {from_files} {found}");
    assert!(in_vain > 20, "{in_vain}");
}

#[test]
fn explained_scans_return_what_ranges_return() {
    let mut totals = [0; 4];
    for (at, (name, options, keyspace)) in variants().into_iter().enumerate() {
        let dir = TestDir::new("explain-scan");
        let (db, keyspace) = open(&dir, options, keyspace);
        let random = SeededRandom::new(100 + at as u64);
        for _ in 0..12 {
            change(&keyspace, &random, 150);
            db.drain().unwrap();
            for _ in 0..12 {
                let (start, end) = (key(random.below(KEYS)), key(random.below(KEYS + 50)));
                let end = if random.below(4) == 0 { Bound::Unbounded } else { Bound::Excluded(&*end) };
                let range = (Bound::Included(&*start), end);
                let limit = if random.below(2) == 0 { u64::MAX } else { random.below(30) };
                let is_reverse = random.below(3) == 0;
                let mut walked = Vec::new();
                let options = ScanOptions::default().limit(limit).reverse(is_reverse);
                let scan = || {
                    let visit = |key: &[u8], value: &[u8]| walked.push((key.to_vec(), value.to_vec()));
                    keyspace.explain_scan(range, options, visit).unwrap()
                };
                let (explanation, cache) = counted(&db, scan);
                let pair = |pair: esker::Result<(esker::Value, esker::Value)>| {
                    let (key, value) = pair.unwrap();
                    (key.to_vec(), value.to_vec())
                };
                let most = usize::try_from(limit).unwrap_or(usize::MAX);
                let expected: Vec<_> = match is_reverse {
                    true => keyspace.range(range).rev().take(most).map(pair).collect(),
                    false => keyspace.range(range).take(most).map(pair).collect(),
                };
                assert_eq!(walked, expected, "{name}: {explanation}");
                assert_blocks(&explanation, cache);
                let of = |what| figure(&explanation, what);
                assert_eq!(of(Figure::Returned), walked.len() as u64);
                assert!(of(Figure::SteppedOver) <= of(Figure::Met));
                totals[0] += of(Figure::Returned);
                totals[1] += of(Figure::SteppedOver);
                totals[2] += of(Figure::Tombstones);
                totals[3] += of(Figure::BlocksFromFiles);
            }
        }
        db.close().unwrap();
    }
    assert!(totals.iter().all(|total| *total > 500), "{totals:?}");
}

/// What is met in a walk is known where nothing is merged: each put, and each tombstone.
#[test]
fn scans_meet_every_tombstone_once() {
    let dir = TestDir::new("explain-tombstones");
    let options = Options::default().memory_budget(16 << 20);
    let (db, keyspace) =
        open(&dir, options, tiny().write_buffer_size(1 << 20).strategy("none".parse().unwrap()));
    (0..1_000).for_each(|number| keyspace.put(key(number), b"value").unwrap());
    keyspace.flush().unwrap();
    (0..1_000).filter(|number| number % 4 != 0).for_each(|number| keyspace.delete(key(number)).unwrap());
    keyspace.flush().unwrap();
    db.drain().unwrap();
    let explain = || keyspace.explain_scan(.., ScanOptions::default(), |_, _| ()).unwrap();
    // Blocks are in the cache from the second walk on.
    explain();
    let explanation = explain();
    let figures = [Figure::Returned, Figure::Tombstones, Figure::Met, Figure::SteppedOver];
    let told = figures.map(|what| figure(&explanation, what));
    assert_eq!(told, [250, 750, 1_750, 1_500], "{explanation}");
    let tombstones: Vec<_> =
        explanation.root.steps.iter().map(|step| step.actual(Figure::Tombstones)).collect();
    assert_eq!(tombstones, [Some(750.0), None], "{explanation}");
    assert!(explanation.conclusion.contains("750 of them tombstones"), "{explanation}");
    keyspace.compact(..).unwrap();
    let told = figures.map(|what| figure(&explain(), what));
    assert_eq!(told, [250, 0, 250, 0]);
    db.close().unwrap();
}

#[test]
fn the_reason_for_not_searching_a_source_is_told() {
    let dir = TestDir::new("explain-reasons");
    let options = Options::default().memory_budget(16 << 20);
    let (db, keyspace) =
        open(&dir, options, tiny().write_buffer_size(1 << 20).strategy("none".parse().unwrap()));
    for run in 0..3 {
        (0..200).for_each(|number| keyspace.put(key(number * 3 + run), b"value").unwrap());
        keyspace.flush().unwrap();
    }
    keyspace.put(key(5), b"new").unwrap();
    keyspace.delete(key(6)).unwrap();
    let outcomes = |key: &[u8]| {
        let (_, explanation) = keyspace.explain_get(key).unwrap();
        let lines: Vec<String> = explanation.root.steps.iter().map(|step| step.outcome.clone()).collect();
        (explanation.root.outcome, lines)
    };
    let (told, steps) = outcomes(&key(5));
    assert_eq!(told, "a value of 3 bytes");
    assert!(steps[0].starts_with("has the newest version, a put"), "{steps:?}");
    assert!(steps[1..].iter().all(|step| step.starts_with("not asked: a newer source")), "{steps:?}");
    let (told, steps) = outcomes(&key(6));
    assert_eq!(told, "no value, its newest version is a tombstone");
    assert!(steps[0].ends_with("a tombstone"), "{steps:?}");
    // 300 is in the oldest run; the filters of the others exclude it, as good as surely.
    let (told, steps) = outcomes(&key(300));
    assert_eq!(told, "a value of 5 bytes");
    assert_eq!(steps[0], "does not have the key");
    assert!(
        steps[1].contains("excludes the key") && steps[3].starts_with("has the newest version"),
        "{steps:?}"
    );
    let (told, steps) = outcomes(b"zzz");
    assert_eq!(told, "no value, no source has a version of it");
    assert!(
        steps[1..].iter().all(|step| step == "not asked: no table of the run spans the key"),
        "{steps:?}"
    );
    keyspace.delete_range(key(0)..key(100)).unwrap();
    assert_eq!(outcomes(&key(8)).0, "no value, a range tombstone deletes it");
    let snapshot = db.snapshot();
    keyspace.put(key(8), b"later").unwrap();
    assert_eq!(keyspace.at(&snapshot).explain_get(key(8)).unwrap().0, None);
    assert_eq!(keyspace.explain_get(key(8)).unwrap().0.as_deref(), Some(b"later".as_slice()));
    db.close().unwrap();
    assert!(keyspace.explain_get(key(8)).is_err());
}

#[test]
fn puts_are_explained_by_what_was_written() {
    let dir = TestDir::new("explain-put");
    let (db, keyspace) = open(&dir, Options::default().memory_budget(16 << 20), tiny());
    assert!(keyspace.explain_put().unwrap().conclusion.starts_with("Nothing was put"));
    for round in 0..4 {
        (0..500).for_each(|number| keyspace.put(key(number), format!("{round}")).unwrap());
    }
    db.flush().unwrap();
    db.drain().unwrap();
    let explanation = keyspace.explain_put().unwrap();
    let metrics = db.metrics();
    let told = &metrics.keyspaces.iter().find(|keyspace| keyspace.name == "k").unwrap().amplification;
    assert_eq!(explanation.root.actual(Figure::WriteAmplification), told.write());
    let written: f64 =
        explanation.root.steps.iter().filter_map(|step| step.actual(Figure::WrittenBytes)).sum();
    assert_eq!(written as u64, told.written_bytes(), "{explanation}");
    db.close().unwrap();
}

#[test]
fn steps_and_figures_have_names_of_their_own() {
    let mut names: Vec<&str> = Figure::ALL.iter().map(|figure| figure.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Figure::ALL.len());
    let page = include_str!("../../../docs/explain.md");
    assert!(
        names.iter().all(|name| page.contains(&format!("| `{name}` |"))),
        "docs/explain.md lists every figure"
    );
    let text = |step: &Step| step.what.clone();
    let dir = TestDir::new("explain-names");
    let (db, keyspace) = open(&dir, Options::default(), tiny());
    keyspace.put(b"a\n", b"1").unwrap();
    let (_, explanation) = keyspace.explain_get(b"a\n").unwrap();
    assert_eq!(text(&explanation.root), "get \"a\\n\" in keyspace k");
    assert_eq!(explanation.to_string().lines().count(), 2 + explanation.root.steps.len());
    db.close().unwrap();
}

/// Of keyspaces with empty queues there is one step, however many they are.
#[test]
fn stalls_tell_of_keyspaces_whose_queues_fill() {
    let dir = TestDir::new("explain-stall");
    let db = Database::open_with(dir.path(), Options::default().memory_budget(16 << 20)).unwrap();
    let options = KeyspaceOptions::default().strategy("tiered:4".parse().unwrap());
    let options =
        options.set("level0_slowdown_runs", "6").and_then(|options| options.set("level0_stop_runs", "12"));
    let full = db.keyspace_with("full", options.unwrap()).unwrap();
    let steps = || -> Vec<(String, usize)> {
        let steps = db.explain_stall().root.steps;
        steps
            .into_iter()
            .map(|step| (step.what, step.steps.len()))
            .filter(|(what, _)| what.contains("keyspace"))
            .collect()
    };
    assert_eq!(steps(), [("2 keyspaces".to_owned(), 0)]);
    // Tables that overlap are runs of their own: the first in the last level, the others in level 0.
    for name in ["a", "b", "c", "d"] {
        db.keyspace(name).unwrap();
        full.put("first", name).unwrap();
        full.put("last", name).unwrap();
        full.flush().unwrap();
    }
    let told = steps();
    assert_eq!((told[0].0.as_str(), told[1].0.as_str(), told.len()), ("keyspace full", "5 keyspaces", 2));
    assert!(told[0].1 > 0 && told[1].1 == 0, "{told:?}");
}
