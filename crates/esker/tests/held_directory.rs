//! A database is its directory, not a path: it stays the same one when the working directory changes, when it
//! is renamed and another database takes its name, and it stops with an error when it is removed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![allow(clippy::disallowed_methods, reason = "the test moves directories behind the database's back")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::{Database, Options};
use std::fs;
use std::ops::Range;
use std::path::Path;

const ENTRIES: u64 = 400;

fn options() -> Options {
    Options::default().keyspace_options(tiny())
}

fn put(db: &Database, numbers: Range<u64>, version: u64) {
    for number in numbers {
        db.default_keyspace().put(key(number), value(number, version)).unwrap();
    }
}

/// All entries of the range are there with this version, and the database holds no others.
fn check(db: &Database, numbers: Range<u64>, version: u64) {
    let found: Vec<_> = db.default_keyspace().iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(found.len() as u64, numbers.end - numbers.start);
    for (number, entry) in numbers.zip(found) {
        assert_eq!(entry.0, key(number), "key {number}");
        assert_eq!(entry.1, value(number, version), "key {number}");
    }
}

/// Everything that touches files: tables, log segments, manifest, a checkpoint beside the database.
fn use_all_files(db: &Database, numbers: Range<u64>, version: u64) {
    let middle = (numbers.start + numbers.end) / 2;
    put(db, numbers.start..middle, version);
    db.flush().unwrap();
    put(db, middle..numbers.end, version);
    db.compact_all().unwrap();
    db.keyspace("second").unwrap().put("a", "1").unwrap();
    db.flush().unwrap();
    assert!(db.verify().unwrap().damage.is_empty());
}

fn check_stored(path: &Path, numbers: Range<u64>, version: u64) {
    let db = Database::open_with(path, options()).unwrap();
    check(&db, numbers, version);
    assert!(db.verify().unwrap().damage.is_empty());
    db.close().unwrap();
}

/// One test, since the working directory belongs to the process.
#[test]
fn the_working_directory_plays_no_part_after_the_open() {
    let (here, there) = (TestDir::new("here"), TestDir::new("there"));
    fs::create_dir_all(here.path()).unwrap();
    let other = Database::open_with(there.path().join("data"), options()).unwrap();
    use_all_files(&other, 0..ENTRIES, 7);
    other.close().unwrap();

    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(here.path()).unwrap();
    let db = Database::open_with("data", options()).unwrap();
    put(&db, 0..ENTRIES, 1);
    std::env::set_current_dir(there.path()).unwrap();
    use_all_files(&db, 0..ENTRIES, 2);
    check(&db, 0..ENTRIES, 2);
    db.checkpoint(here.path().join("copy")).unwrap();
    db.close().unwrap();
    std::env::set_current_dir(before).unwrap();

    check_stored(&here.path().join("data"), 0..ENTRIES, 2);
    check_stored(&here.path().join("copy"), 0..ENTRIES, 2);
    check_stored(&there.path().join("data"), 0..ENTRIES, 7);
}

#[test]
fn a_renamed_database_goes_on_beside_the_one_that_takes_its_name() {
    let dir = TestDir::new("renamed");
    let (path, moved) = (dir.path().join("data"), dir.path().join("data.old"));
    let first = Database::open_with(&path, options()).unwrap();
    use_all_files(&first, 0..ENTRIES, 1);
    fs::rename(&path, &moved).unwrap();
    let second = Database::open_with(&path, options()).unwrap();
    use_all_files(&second, 1000..1000 + ENTRIES, 2);
    use_all_files(&first, 0..ENTRIES, 3);
    use_all_files(&second, 1000..1000 + ENTRIES, 4);
    check(&first, 0..ENTRIES, 3);
    check(&second, 1000..1000 + ENTRIES, 4);
    // The lock went along with the directory.
    let locked = Database::open_with(&moved, options()).unwrap_err();
    assert!(matches!(locked, esker::Error::Locked { .. }), "{locked}");
    first.close().unwrap();
    second.close().unwrap();
    check_stored(&moved, 0..ENTRIES, 3);
    check_stored(&path, 1000..1000 + ENTRIES, 4);
}

#[test]
fn a_database_behind_a_link_stays_where_the_link_led() {
    let dir = TestDir::new("linked");
    let (one, two, link) = (dir.path().join("one"), dir.path().join("two"), dir.path().join("link"));
    fs::create_dir_all(&one).unwrap();
    fs::create_dir_all(&two).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let db = Database::open_with(&link, options()).unwrap();
    put(&db, 0..ENTRIES, 1);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();
    use_all_files(&db, 0..ENTRIES, 2);
    db.close().unwrap();
    check_stored(&one, 0..ENTRIES, 2);
    assert_eq!(fs::read_dir(&two).unwrap().count(), 0, "nothing is written where the link leads now");
}

#[test]
fn a_removed_database_stops_with_an_error_and_writes_nowhere() {
    let dir = TestDir::new("removed");
    let path = dir.path().join("data");
    let db = Database::open_with(&path, options()).unwrap();
    put(&db, 0..ENTRIES, 1);
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir_all(&path).unwrap();
    put(&db, 0..ENTRIES, 2);
    db.flush().unwrap_err();
    drop(db);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "the new directory of that name is not touched");
}

#[test]
fn an_empty_path_is_refused_and_makes_nothing() {
    let error = Database::open_with("", options()).unwrap_err();
    assert!(matches!(error, esker::Error::InvalidArgument(_)), "{error}");
    assert!(error.to_string().contains("empty path"), "{error}");
    assert!(!Path::new("LOCK").exists());
}
