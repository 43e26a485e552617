//! Databases stored by earlier builds: each is copied, opened, read, verified and written to.
//!
//! `fixtures/COMMIT` holds what the library of that commit wrote, and the program that wrote it.

#![expect(clippy::expect_used, reason = "helpers of tests, outside the test functions")]

use esker::backup::Backups;
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use esker::{Database, Keyspace, Options, SeqNo};
use esker_testkit::TestDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The first of January 2100.
const CENTURY_MS: u64 = 4_102_444_800_000;

/// The keyspaces whose values are numbers, by their compression.
const NUMBERS: [&str; 4] = ["zstd", "lzma", "columns", "delta"];

/// Stored options of the keyspace `tuned`, by the names and values of 1e54cb9.
const TUNED: [(&str, &str); 27] = [
    ("memtable", "skiplist"),
    ("write_buffer_size", "1MiB"),
    ("write_buffer_entries", "50000"),
    ("block_layout", "delta"),
    ("block_layout_last", "flat"),
    ("block_size", "1KiB"),
    ("block_restart_interval", "8"),
    ("block_hash_slots_percent", "50"),
    ("index_type", "eytzinger"),
    ("block_bounds", "always"),
    ("compression", "none,lz4"),
    ("compression_last", "snappy"),
    ("ease_compression", "false"),
    ("filter", "ribbon:12"),
    ("filter_allocation", "monkey:0.1"),
    ("strategy", "lazy-leveled:6"),
    ("table_size", "4MiB"),
    ("level0_trigger_runs", "6"),
    ("compaction_job_size", "64MiB"),
    ("compaction_job_runs", "12"),
    ("level0_slowdown_runs", "15"),
    ("level0_stop_runs", "30"),
    ("default_ttl", "36500d"),
    ("merge_operator", "append:/"),
    ("max_space_amp", "2.5"),
    ("delete_within", "2h"),
    ("adaptive_compaction", "10m"),
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/1e54cb9")
}

fn key(number: u32) -> String {
    format!("key-{number:04}")
}

/// Text of this many bytes that compresses partly.
fn text(number: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 33) % 16) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// The content of each keyspace, without what is only in the log.
fn content() -> BTreeMap<&'static str, Content> {
    let mut all: BTreeMap<&str, Content> = BTreeMap::from([("default", Content::new())]);
    let mut put = |keyspace, key: String, value: Vec<u8>| {
        all.entry(keyspace).or_default().insert(key.into_bytes(), value);
    };
    for n in (0..400).filter(|n| !(100..150).contains(n) && n % 7 != 0) {
        let word = if n % 2 == 0 { "two" } else { "one" };
        put("plain", key(n), format!("{word} {n}").into_bytes());
    }
    for n in 0..200 {
        let mut value = text(n, 20 + (n as usize % 5) * 100);
        if n % 20 == 0 {
            value.extend_from_slice(b"/merged");
        }
        put("tuned", key(n), value);
    }
    (0..50).for_each(|n| put("sessions", key(n), b"by default".to_vec()));
    put("sessions", "century".into(), b"until it is over".to_vec());
    (0..20).for_each(|n| put("counters", key(n), (3 * n + 3).to_string().into_bytes()));
    for n in 0..60 {
        let value = if n % 3 == 0 { text(n + 1000, 500) } else { text(n, 50 + n as usize * 10) };
        put("documents", key(n), value);
    }
    for keyspace in NUMBERS {
        (0..300).for_each(|n| put(keyspace, key(n), u64::from(n * 3).to_be_bytes().to_vec()));
    }
    all
}

/// The same with what is only in the log.
fn content_with_log() -> BTreeMap<&'static str, Content> {
    let mut all = content();
    let mut put = |keyspace, key: String, value: Vec<u8>| {
        all.entry(keyspace).or_default().insert(key.into_bytes(), value);
    };
    put("plain", key(120), b"three".to_vec());
    put("default", "in the log".into(), b"not in a table".to_vec());
    put("counters", key(0), b"103".to_vec());
    put("sessions", "of a batch".into(), b"with two keyspaces".to_vec());
    put("documents", "of a batch".into(), text(7, 300));
    let plain = all.entry("plain").or_default();
    [1].into_iter().chain(390..395).for_each(|n| _ = plain.remove(key(n).as_bytes()));
    all
}

fn copy(from: &Path, to: &Path) {
    let fs = StdFileSystem;
    fs.create_dir_all(to).expect("a directory");
    for entry in fs.list(from).expect("a directory") {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        if entry.is_dir {
            copy(&from, &to);
        } else {
            let copied = fs.open(&to, OpenMode::CreateNew).expect("a file");
            copied.write_at(&read(&from), 0).expect("its bytes");
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    let file = StdFileSystem.open(path, OpenMode::Read).expect("a file");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    bytes
}

/// A copy of the database.
fn copied() -> TestDir {
    let dir = TestDir::new("stored-databases");
    copy(&fixture().join("db"), dir.path());
    dir
}

fn options() -> Options {
    Options::default().memory_budget(16 << 20)
}

fn entries(keyspace: &Keyspace) -> Content {
    keyspace
        .iter()
        .map(|entry| entry.expect("an entry"))
        .map(|(key, value)| (key.into_vec(), value.into_vec()))
        .collect()
}

/// Reads every key, by scan and by get, and verifies every file.
fn check(db: &Database, expected: &BTreeMap<&str, Content>) {
    let mut names = db.keyspaces();
    names.sort();
    assert_eq!(names, expected.keys().copied().collect::<Vec<_>>());
    for (name, content) in expected {
        let keyspace = db.open_keyspace(name).expect("the keyspace");
        assert_eq!(entries(&keyspace), *content, "{name}");
        for (key, value) in content {
            assert_eq!(keyspace.get(key).expect("a lookup").as_deref(), Some(value.as_slice()), "{name}");
        }
        assert!(!keyspace.contains("no such key").expect("a lookup"));
    }
    let report = db.verify().expect("verification");
    assert!(report.is_clean(), "{:?}", report.damage);
    assert!(report.tables > 0 && report.entries > 0);
}

#[test]
fn everything_is_there_before_and_after_compactions() {
    let dir = copied();
    let expected = content_with_log();
    let db = Database::open_with(dir.path(), options()).expect("the database opens");
    check(&db, &expected);
    db.compact_all().expect("a compaction");
    check(&db, &expected);
    db.close().expect("the end");
    let db = Database::open_with(dir.path(), options()).expect("it opens again");
    check(&db, &expected);
    db.default_keyspace().put("new", "of this build").expect("a put");
    db.close().expect("the end");
    let db = Database::open_with(dir.path(), options().read_only(true)).expect("it opens once more");
    assert_eq!(
        db.default_keyspace().get("new").expect("a lookup").as_deref(),
        Some(b"of this build".as_slice())
    );
}

#[test]
fn it_opens_read_only() {
    let dir = copied();
    check(
        &Database::open_with(dir.path(), options().read_only(true)).expect("the database opens"),
        &content_with_log(),
    );
}

#[test]
fn expiry_times_are_kept() {
    let dir = copied();
    let db = Database::open_with(dir.path(), options()).expect("the database opens");
    let sessions = db.open_keyspace("sessions").expect("the keyspace");
    let mut cursor = sessions.cursor().expect("a cursor");
    cursor.seek("century").expect("a seek");
    assert_eq!(cursor.expiry(), Some(UNIX_EPOCH + Duration::from_millis(CENTURY_MS)));
    assert_eq!(sessions.options().ttl_by_default(), Some(Duration::from_secs(36_500 * 86_400)));
    assert!(!sessions.contains("gone").expect("a lookup"));
}

#[test]
fn options_are_read_by_their_former_names() {
    let dir = copied();
    let db = Database::open_with(dir.path(), options()).expect("the database opens");
    let stored = db.open_keyspace("tuned").expect("the keyspace").options();
    for (name, value) in TUNED {
        assert_eq!(stored.clone().set(name, value).expect("an option"), stored, "{name}");
    }
    let documents = db.open_keyspace("documents").expect("the keyspace").options();
    for (name, value) in [("blob_threshold", "100B"), ("blob_file_size", "16KiB"), ("blob_space_amp", "1.75")]
    {
        assert_eq!(documents.clone().set(name, value).expect("an option"), documents, "{name}");
    }
    let file = Options::from_file(fixture().join("options.toml")).expect("the configuration");
    let defaults = file.keyspace_defaults();
    assert_eq!(defaults.clone().set("ease_compression", "false").expect("an option"), *defaults);
    assert_eq!(defaults.clone().set("max_space_amp", "2.5").expect("an option"), *defaults);
}

#[test]
fn a_consumer_gets_what_it_has_not_acknowledged() {
    let dir = copied();
    let db = Database::open_with(dir.path(), options()).expect("the database opens");
    let mut changes = db.consumer("mirror").expect("the consumer").changes().expect("its changes");
    let mut batches = 0;
    let mut last = SeqNo::new(0);
    while let Some(batch) = changes.try_next().expect("a batch") {
        assert!(batch.first_seqno() > last);
        (batches, last) = (batches + 1, batch.last_seqno());
    }
    assert_eq!(batches, 6);
}

#[test]
fn a_backup_can_be_restored() {
    let dir = TestDir::new("stored-backups");
    let (copies, restored) = (dir.path().join("backups"), dir.path().join("db"));
    copy(&fixture().join("backups"), &copies);
    let backups = Backups::new(&copies);
    let id = backups.list().expect("the backups")[0].id;
    assert!(backups.verify(id).expect("verification").is_clean());
    backups.restore(id, &restored).expect("a restored database");
    check(&Database::open_with(&restored, options()).expect("it opens"), &content());
}

#[test]
fn an_export_can_be_imported() {
    let dir = TestDir::new("stored-exports");
    let db = Database::open_with(dir.path(), options()).expect("a database");
    for (name, operator) in [("counters", "counter"), ("tuned", "append:/")] {
        let options = options().keyspace_defaults().clone().set("merge_operator", operator);
        db.keyspace_with(name, options.expect("an operator")).expect("a keyspace");
    }
    db.import(&mut read(&fixture().join("export.esker")).as_slice(), |_| {}).expect("an import");
    db.flush().expect("a flush");
    check(&db, &content());
}
