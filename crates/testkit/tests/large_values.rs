//! Large values: read in every way, skipped where only keys are read, garbage collected within the target,
//! removed with their last reader, included in copies, and reported when damaged.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::backup::Backups;
use esker::metrics::KeyspaceMetrics;
use esker::parts::StepBackground;
use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::parts::env::{Env, FileSystem, OpenMode, SeededRandom};
use esker::{Database, Error, Expiry, KeyspaceOptions, Options};
use esker_testkit::WatchFs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 400;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// 1,000 to 1,400 bytes that compress only partly.
fn value(number: u64, round: u64) -> Vec<u8> {
    let random = SeededRandom::new(number * 1_000 + round);
    (0..1_000 + number % 5 * 100).map(|_| random.below(256) as u8).collect()
}

fn large() -> KeyspaceOptions {
    KeyspaceOptions::default()
        .write_buffer_size(32 << 10)
        .table_size(4 << 10)
        .block_size(512)
        .blob_threshold(500)
        .blob_file_size(16 << 10)
}

/// A database in memory whose background work the test steps; its blob files are counted.
struct Store {
    strict: StrictFs,
    fs: WatchFs,
    db: Database,
}

fn options(fs: &WatchFs, options: KeyspaceOptions) -> Options {
    Options::default()
        .memory_budget(16 << 20)
        .wal_segment_bytes(256 << 10)
        .keyspace_options(options)
        .max_open_tables(16)
        .env(Env::simulated(Arc::new(fs.clone()), 1))
}

impl Store {
    fn new(keyspace: KeyspaceOptions) -> Store {
        let strict =
            StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
        let fs = WatchFs::over(Arc::new(strict.clone()), "blob");
        let db = Database::open_with("/db", options(&fs, keyspace)).unwrap();
        Store { strict, fs, db }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Database::open_with("/db", options(&self.fs, KeyspaceOptions::default())).unwrap();
    }

    fn write(&self, round: u64) {
        for number in 0..KEYS {
            self.db.default_keyspace().put(key(number), value(number, round)).unwrap();
        }
    }

    /// Flushes, and runs background work until none is left.
    fn settle(&self) {
        self.db.flush().unwrap();
        drain(&self.db);
    }

    fn metrics(&self) -> KeyspaceMetrics {
        self.db.metrics().keyspaces[0].clone()
    }

    fn blob_files(&self) -> BTreeSet<String> {
        let entries = self.fs.list(Path::new("/db/tables")).unwrap();
        entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(".blob")).collect()
    }
}

fn drain(db: &Database) {
    while db.step_background() {}
}

fn assert_round(db: &Database, round: u64) {
    for number in 0..KEYS {
        assert_eq!(
            db.default_keyspace().get(key(number)).unwrap().as_deref(),
            Some(&*value(number, round)),
            "key {number}"
        );
    }
}

#[test]
fn every_way_of_reading_follows_pointers() {
    let mut store = Store::new(large());
    store.write(0);
    store.settle();
    let metrics = store.metrics();
    assert!(metrics.blob_files > 10 && metrics.blob_bytes > 10 * metrics.table_bytes, "{metrics:?}");
    let db = &store.db;
    let snapshot = db.snapshot();
    let keyspace = db.default_keyspace();
    for number in (0..KEYS).step_by(2) {
        keyspace.put_with(key(number), value(number, 1), Expiry::After(Duration::from_secs(60))).unwrap();
    }
    store.settle();
    let expected = |number: u64| value(number, u64::from(number.is_multiple_of(2)));
    for number in 0..KEYS {
        assert_eq!(db.default_keyspace().get(key(number)).unwrap().as_deref(), Some(&*expected(number)));
        let len = keyspace.get_with(key(number), |value| value.map(<[u8]>::len)).unwrap();
        assert_eq!(len, Some(expected(number).len()));
        assert_eq!(keyspace.at(&snapshot).get(key(number)).unwrap().as_deref(), Some(&*value(number, 0)));
        assert!(keyspace.ttl(key(number)).unwrap().is_some());
    }
    let keys: Vec<Vec<u8>> = (0..KEYS + 2).map(key).collect();
    let values = keyspace.multi_get(&keys).unwrap();
    assert!((0..KEYS).all(|number| values[number as usize].as_deref() == Some(&*expected(number))));
    assert_eq!(values[KEYS as usize..], [None, None]);
    let forward: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().1.into_vec()).collect();
    let mut backward: Vec<_> = keyspace.iter().rev().map(|entry| entry.unwrap().1.into_vec()).collect();
    backward.reverse();
    assert_eq!(forward, (0..KEYS).map(expected).collect::<Vec<_>>());
    assert_eq!(forward, backward);
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek(key(10)).unwrap();
    assert_eq!(cursor.entry(), Some((&*key(10), &*expected(10))));
    cursor.advance().unwrap();
    cursor.retreat().unwrap();
    assert_eq!((cursor.key(), cursor.value()), (Some(&*key(10)), Some(&*expected(10))));
    let transaction = db.transaction();
    assert_eq!(transaction.get(keyspace, key(3)).unwrap().as_deref(), Some(&*expected(3)));
    drop((cursor, transaction, snapshot));
    assert!(db.verify().unwrap().is_clean());
    assert!(db.verify().unwrap().blob_values >= KEYS);
    store.reopen();
    assert!(
        (0..KEYS).all(|number| store.db.default_keyspace().get(key(number)).unwrap().as_deref()
            == Some(&*expected(number)))
    );
}

#[test]
fn keys_alone_touch_no_blob_file() {
    let mut store = Store::new(large());
    store.write(0);
    store.settle();
    store.reopen();
    let opened = store.fs.opened();
    let keyspace = store.db.default_keyspace();
    let snapshot = store.db.snapshot();
    let all: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let forward: Vec<_> = keyspace.keys(..).map(|key| key.unwrap().into_vec()).collect();
    assert_eq!(forward, all);
    let backward: Vec<_> = keyspace.at(&snapshot).keys(..).rev().map(|key| key.unwrap().into_vec()).collect();
    assert_eq!(backward, all.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(keyspace.keys(key(3)..key(5)).count(), 2);
    assert!(keyspace.contains(key(7)).unwrap() && !keyspace.contains("nothing").unwrap());
    assert!(keyspace.ttl(key(7)).unwrap().is_some());
    assert_eq!(store.fs.opened(), opened, "a blob file was opened");
    assert!(keyspace.iter().next().unwrap().is_ok());
    assert_eq!(store.fs.opened(), opened + 1);
}

#[test]
fn garbage_is_collected_by_the_target() {
    let mut store = Store::new(large());
    store.write(0);
    let random = SeededRandom::new(3);
    let mut rounds = vec![0; KEYS as usize];
    for step in 1..4_000 {
        let number = random.below(KEYS);
        rounds[number as usize] = step;
        store.db.default_keyspace().put(key(number), value(number, step)).unwrap();
        drain(&store.db);
    }
    store.settle();
    let metrics = store.metrics();
    let live: u64 = (0..KEYS).map(|number| value(number, 0).len() as u64).sum();
    assert!(metrics.blob_relocated_bytes > 0, "{metrics:?}");
    assert!(metrics.blob_bytes < live * 16 / 10, "{live} bytes are alive: {metrics:?}");
    assert_eq!(store.blob_files().len(), metrics.blob_files, "files that nothing points to stayed");
    assert!(store.fs.removed().len() > 50);
    store.reopen();
    for (number, &round) in (0..).zip(&rounds) {
        assert_eq!(
            store.db.default_keyspace().get(key(number)).unwrap().as_deref(),
            Some(&*value(number, round))
        );
    }
    assert!(store.db.verify().unwrap().is_clean());
}

#[test]
fn a_file_stays_until_its_last_reader_has_gone() {
    let mut store = Store::new(large());
    store.write(0);
    store.settle();
    let old = store.blob_files();
    let snapshot = store.db.snapshot();
    let mut cursor = store.db.default_keyspace().cursor().unwrap();
    cursor.seek(key(100)).unwrap();
    store.write(1);
    store.settle();
    // The snapshot's values stay readable, wherever they are now.
    for number in 0..KEYS {
        let at = store.db.default_keyspace().at(&snapshot);
        assert_eq!(at.get(key(number)).unwrap().as_deref(), Some(&*value(number, 0)));
    }
    drop(snapshot);
    store.write(2);
    store.settle();
    store.db.compact_all().unwrap();
    drain(&store.db);
    assert!(old.is_subset(&store.blob_files()), "the cursor's files are gone");
    for number in 100..KEYS {
        assert_eq!(cursor.entry(), Some((&*key(number), &*value(number, 0))));
        cursor.advance().unwrap();
    }
    drop(cursor);
    drain(&store.db);
    assert!(old.is_disjoint(&store.blob_files()), "they stay without a reader");
    assert_round(&store.db, 2);
    store.reopen();
    assert_round(&store.db, 2);
}

#[test]
fn a_dropped_keyspace_leaves_no_blob_file() {
    let store = Store::new(KeyspaceOptions::default());
    let images = store.db.keyspace_with("images", large()).unwrap();
    for number in 0..KEYS {
        images.put(key(number), value(number, 0)).unwrap();
    }
    store.settle();
    assert!(!store.blob_files().is_empty());
    store.db.drop_keyspace("images").unwrap();
    drain(&store.db);
    assert_eq!(store.blob_files(), BTreeSet::new());
}

#[test]
fn another_threshold_separates_and_brings_back() {
    let store = Store::new(large().blob_threshold(0));
    store.write(0);
    store.settle();
    assert_eq!(store.metrics().blob_files, 0);
    let keyspace = store.db.default_keyspace();
    keyspace.update_options(|options| options.blob_threshold(500)).unwrap();
    store.db.compact_all().unwrap();
    drain(&store.db);
    let metrics = store.metrics();
    assert!(metrics.blob_bytes > 5 * metrics.table_bytes, "separated by compaction: {metrics:?}");
    assert_round(&store.db, 0);
    keyspace.update_options(|options| options.blob_threshold(0)).unwrap();
    for round in 1..6 {
        // Overwriting half of it repeatedly makes garbage of what is in blob files.
        for number in 0..KEYS / 2 {
            store.db.default_keyspace().put(key(number), value(number, round)).unwrap();
        }
        store.settle();
    }
    assert!(store.metrics().blob_bytes < metrics.blob_bytes, "{:?}", store.metrics());
    for number in 0..KEYS {
        let round = if number < KEYS / 2 { 5 } else { 0 };
        assert_eq!(
            store.db.default_keyspace().get(key(number)).unwrap().as_deref(),
            Some(&*value(number, round))
        );
    }
}

#[test]
fn only_so_many_blob_files_are_open() {
    let mut store = Store::new(large());
    store.write(0);
    store.settle();
    store.reopen();
    assert!(store.blob_files().len() > 20);
    store.fs.take_most_open();
    assert_round(&store.db, 0);
    // A quarter of the tables, at least eight, and the one that is being opened.
    let most = store.fs.take_most_open();
    assert!((2..=9).contains(&most), "{most} were open at a time");
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    let store = Store::new(large());
    store.write(0);
    store.settle();
    let name = store.blob_files().into_iter().next().unwrap();
    let path = PathBuf::from("/db/tables").join(&name);
    let file = store.strict.open(&path, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200).unwrap();
    file.write_at(&[byte[0] ^ 1], 200).unwrap();
    let errors: Vec<Error> =
        (0..KEYS).filter_map(|number| store.db.default_keyspace().get(key(number)).err()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let text = errors[0].to_string();
    assert!(
        matches!(errors[0], Error::Corruption(_)) && text.contains(&name) && text.contains("at byte 64"),
        "{text}"
    );
    let damage = store.db.verify().unwrap().damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].file, path);
    let scanned: Result<Vec<_>, Error> = store.db.default_keyspace().iter().collect();
    assert!(scanned.is_err());
    drop(file);
    store.strict.remove_file(&path).unwrap();
    store.db.close().unwrap();
    let error = Database::open_with("/db", options(&store.fs, large())).unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("missing"), "{error}");
}

#[test]
fn copies_carry_large_values() {
    let store = Store::new(large());
    store.write(0);
    store.settle();
    // What is only in memory goes to a blob file of the copy's own.
    store.db.default_keyspace().put(key(0), value(0, 1)).unwrap();
    store.db.checkpoint("/copy").unwrap();
    let backups = Backups::with_env("/backups", Env::simulated(Arc::new(store.fs.clone()), 2));
    let first = store.db.backup(&backups).unwrap();
    store.db.default_keyspace().put(key(1), value(1, 1)).unwrap();
    let second = store.db.backup(&backups).unwrap();
    assert!(second.copied_bytes * 5 < first.bytes, "{second:?} after {first:?}");
    assert!(backups.verify(first.id).unwrap().is_clean());
    store.write(2);
    store.settle();
    store.db.compact_all().unwrap();
    backups.restore(first.id, "/restored").unwrap();
    for dir in ["/copy", "/restored"] {
        let copy = Database::open_with(dir, options(&store.fs, KeyspaceOptions::default())).unwrap();
        for number in 0..KEYS {
            let expected = value(number, u64::from(number == 0));
            assert_eq!(
                copy.default_keyspace().get(key(number)).unwrap().as_deref(),
                Some(&*expected),
                "key {number} in {dir}"
            );
        }
        assert!(copy.verify().unwrap().is_clean());
    }
    // A damaged blob file of a backup is found.
    let pool = store.fs.list(Path::new("/backups/tables")).unwrap();
    let blob = pool.iter().find(|entry| entry.name.ends_with(".blob")).unwrap();
    let path = Path::new("/backups/tables").join(&blob.name);
    store.strict.open(&path, OpenMode::ReadWrite).unwrap().write_at(b"x", 100).unwrap();
    assert!(!backups.verify(first.id).unwrap().is_clean());
    backups.retain(esker::backup::Retention::keep_last(1)).unwrap();
}
