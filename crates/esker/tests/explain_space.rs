//! Explanations of space: the parts add up to what the file system takes.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, tiny};
use esker::explain::{Explanation, Figure, Step};
use esker::parts::env::SeededRandom;
use esker::{Database, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What `du` tells.
#[allow(clippy::disallowed_methods, reason = "the test looks behind the database's back")]
fn du(path: &Path) -> u64 {
    let own = std::fs::symlink_metadata(path).unwrap();
    let below = match own.is_dir() {
        true => std::fs::read_dir(path).unwrap().map(|entry| du(&entry.unwrap().path())).sum(),
        false => 0,
    };
    own.blocks() * 512 + below
}

fn disk_bytes(step: &Step) -> u64 {
    step.actual(Figure::DiskBytes).unwrap() as u64
}

/// Every step is the sum of the steps below it.
fn assert_sums(step: &Step, told: &Explanation) {
    if !step.steps.is_empty() {
        let sum: u64 = step.steps.iter().map(disk_bytes).sum();
        assert_eq!(sum, disk_bytes(step), "{}: {told}", step.what);
    }
    step.steps.iter().for_each(|step| assert_sums(step, told));
}

fn find<'a>(step: &'a Step, what: &str) -> Option<&'a Step> {
    if step.what.starts_with(what) {
        return Some(step);
    }
    step.steps.iter().find_map(|step| find(step, what))
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:07}").into_bytes()
}

#[test]
fn the_parts_are_what_the_file_system_takes() {
    let dir = TestDir::new("explain-space");
    let options = Options::default().memory_budget(32 << 20).keyspace_options(
        tiny().write_buffer_size(256 << 10).table_size(128 << 10).block_size(4096).blob_threshold(1_000),
    );
    let db = Database::open_with(dir.path(), options).unwrap();
    let keyspaces = [db.keyspace("first").unwrap(), db.keyspace("second").unwrap()];
    let random = SeededRandom::new(11);
    for round in 0..6 {
        for _ in 0..8_000 {
            let keyspace = &keyspaces[usize::from(random.below(3) == 0)];
            let key = key(random.below(12_000));
            match random.below(20) {
                0..4 => keyspace.delete(key).unwrap(),
                4 => keyspace.put(key, vec![round; 2_000]).unwrap(),
                _ => keyspace.put(key, vec![round; 60]).unwrap(),
            }
        }
        if round == 2 {
            keyspaces[0].delete_range(key_range()).unwrap();
        }
        db.drain().unwrap();
        let told = db.explain_space().unwrap();
        let (total, du) = (disk_bytes(&told.root), du(dir.path()));
        assert!(total.abs_diff(du) * 100 <= du, "{total} told, {du} by du: {told}");
        assert_sums(&told.root, &told);
        assert!(find(&told.root, "alive").is_some() && find(&told.root, "log").is_some(), "{told}");
    }
    let told = db.explain_space().unwrap();
    for part in ["keyspace first", "keyspace second", "blob files", "manifest", "directories"] {
        assert!(find(&told.root, part).is_some(), "{part}: {told}");
    }
    // What is left after a full compaction is alive.
    db.compact_all().unwrap();
    let told = db.explain_space().unwrap();
    let tables = find(&told.root, "tables").unwrap();
    assert!(disk_bytes(&tables.steps[0]) * 10 >= disk_bytes(tables) * 9, "{told}");
    assert!(told.conclusion.contains("are alive"), "{told}");
    db.close().unwrap();
    assert!(db.explain_space().is_err());
}

fn key_range() -> std::ops::Range<Vec<u8>> {
    key(2_000)..key(4_000)
}

#[test]
fn files_that_a_reader_holds_are_told_with_the_reader() {
    let dir = TestDir::new("explain-held");
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(tiny())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let fill = |round: u64| (0..2_000).for_each(|number| keyspace.put(key(number), key(round)).unwrap());
    fill(0);
    db.compact_all().unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    fill(1);
    db.compact_all().unwrap();
    let told = db.explain_space().unwrap();
    let held = find(&told.root, "replaced files that a cursor").unwrap();
    assert!(disk_bytes(held) >= 8_192, "{told}");
    assert_sums(&told.root, &told);
    drop(cursor);
    db.drain().unwrap();
    // The log worker deletes them.
    for _ in 0..100_000 {
        let told = db.explain_space().unwrap();
        if find(&told.root, "replaced files").is_none() && find(&told.root, "files being written").is_none() {
            return;
        }
        std::thread::yield_now();
        db.flush().unwrap();
    }
    panic!("{}", db.explain_space().unwrap());
}
