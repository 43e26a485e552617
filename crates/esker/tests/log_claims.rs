//! What the log and the names of files claim is checked against what is there: lengths, positions known to be
//! durable, and numbers that cannot be counted on from.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, copy_tree, key, tiny, value};
use esker::backup::Backups;
use esker::{Database, Durability, Error, Options, Result};
use esker_wal::segment::SegmentHeader;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the records of a segment start.
const DATA_START: u64 = 4096;

fn open(path: &Path) -> Result<Database> {
    let options = Options::default().keyspace_options(tiny()).durability(Durability::Power);
    Database::open_with(path, options.flush_on_close(false))
}

/// Five puts, each by an open of its own, as a command does it.
fn five_puts(path: &Path) -> Result<()> {
    for number in 0..5 {
        let db = open(path)?;
        db.default_keyspace().put(key(number), value(number, 0))?;
        db.close()?;
    }
    Ok(())
}

/// The segment that was begun last; others may be prepared, without a header.
#[allow(clippy::disallowed_methods, reason = "the test looks behind the database's back")]
fn newest_segment(path: &Path) -> PathBuf {
    let names = fs::read_dir(path.join("wal")).unwrap();
    let segments = names.map(|entry| entry.unwrap().path());
    let log_id = |segment: &PathBuf| {
        SegmentHeader::decode(&fs::read(segment).unwrap()).map_or(0, |header| header.log_id.get())
    };
    segments.max_by_key(log_id).unwrap()
}

#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "as above")]
fn change(path: &Path, change: impl FnOnce(&fs::File)) {
    change(&fs::OpenOptions::new().read(true).write(true).open(path).unwrap());
}

fn zero(path: &Path, from: u64, len: usize) {
    use std::os::unix::fs::FileExt;
    change(path, |file| file.write_all_at(&vec![0; len], from).unwrap());
}

fn assert_damage(opened: Result<Database>, naming: &str) {
    match opened {
        Err(error @ Error::Corruption(_)) => assert!(error.to_string().contains(naming), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("opened"),
    }
}

#[test]
fn a_segment_that_was_cut_after_the_close_is_damage() {
    let dir = TestDir::new("cut-segment");
    five_puts(dir.path()).unwrap();
    let newest = newest_segment(dir.path());
    change(&newest, |file| file.set_len(DATA_START).unwrap());
    for _ in 0..2 {
        assert_damage(open(dir.path()), newest.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn a_segment_whose_free_end_was_cut_is_damage() {
    let dir = TestDir::new("cut-end");
    five_puts(dir.path()).unwrap();
    let newest = newest_segment(dir.path());
    change(&newest, |file| file.set_len(file.metadata().unwrap().len() - 4096).unwrap());
    assert_damage(open(dir.path()), "its end is gone");
}

#[test]
fn records_that_a_close_made_durable_are_missed() {
    let dir = TestDir::new("zeroed-log");
    five_puts(dir.path()).unwrap();
    let newest = newest_segment(dir.path());
    zero(&newest, DATA_START, 64 << 10);
    assert_damage(open(dir.path()), "known to have been durable");
}

#[test]
fn records_that_a_sync_made_durable_are_missed() {
    let (dir, copy) = (TestDir::new("synced"), TestDir::new("synced-copy"));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    db.default_keyspace().put(key(1), value(1, 0)).unwrap();
    db.sync().unwrap();
    copy_tree(dir.path(), copy.path());
    // The record alone: what notes its durability lies behind it.
    let newest = newest_segment(copy.path());
    zero(&newest, DATA_START, 32);
    assert_damage(open(copy.path()), "known to have been durable");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test removes directories behind the database's back")]
fn a_missing_log_directory_is_damage_where_the_log_is_needed() {
    let dir = TestDir::new("no-log");
    five_puts(dir.path()).unwrap();
    fs::remove_dir_all(dir.path().join("wal")).unwrap();
    for _ in 0..2 {
        assert_damage(open(dir.path()), "the directory of the log is missing");
        assert_damage(Database::open_with(dir.path(), Options::default().read_only(true)), "is missing");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "as above")]
fn a_log_directory_is_not_needed_after_a_close_or_in_a_copy() {
    let (dir, copy) = (TestDir::new("closed"), TestDir::new("copy-without-log"));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    db.default_keyspace().put(key(1), value(1, 0)).unwrap();
    let target = copy.path().join("checkpoint");
    db.checkpoint(&target).unwrap();
    db.close().unwrap();
    fs::remove_dir_all(dir.path().join("wal")).unwrap();
    for path in [dir.path(), &target] {
        let db = open(path).unwrap();
        assert!(db.default_keyspace().contains(key(1)).unwrap(), "{}", path.display());
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test renames a backup")]
fn the_greatest_number_of_a_backup_ends_the_counting() {
    let (dir, backups) = (TestDir::new("counted"), TestDir::new("counted-backups"));
    let db = open(dir.path()).unwrap();
    db.default_keyspace().put(key(1), value(1, 0)).unwrap();
    let backups = Backups::new(backups.path());
    let first = db.backup(&backups).unwrap();
    fs::rename(backups.dir().join(first.id.to_string()), backups.dir().join("4294967295")).unwrap();
    assert_eq!(backups.list().unwrap().len(), 1);
    let refused = db.backup(&backups).unwrap_err();
    assert!(matches!(&refused, Error::InvalidArgument(text) if text.contains("4294967295")), "{refused}");
    assert_eq!(backups.list().unwrap().len(), 1);
}

/// A table and a manifest with the greatest number a name can hold are none of ours.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes files behind the database's back")]
fn names_with_numbers_that_cannot_be_counted_on_are_left_alone() {
    let dir = TestDir::new("greatest-names");
    open(dir.path()).unwrap().close().unwrap();
    let names = ["tables/18446744073709551615.sst", "MANIFEST-18446744073709551615"];
    names.iter().for_each(|name| fs::write(dir.path().join(name), b"x").unwrap());
    let db = open(dir.path()).unwrap();
    db.default_keyspace().put(key(1), value(1, 0)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert!(names.iter().all(|name| dir.path().join(name).exists()));
}
