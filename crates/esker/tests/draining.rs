//! After `drain` nothing that is not needed is left in the directory, but for what readers pin.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{key, tiny};
use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::parts::env::{Background, Env, FileSystem};
use esker::{Database, Options};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn file_system() -> StrictFs {
    StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() })
}

fn open(fs: &StrictFs, seed: u64, background: Background) -> Database {
    let env = Env { background, ..Env::simulated(Arc::new(fs.clone()), seed) };
    Database::open_with(DIR, Options::default().env(env).keyspace_options(tiny())).unwrap()
}

/// Overwrites keys until tables were replaced several times.
fn overwrite(db: &Database) {
    for round in 0..6 {
        for number in 0..200 {
            db.default_keyspace().put(key(number), [round; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    db.default_keyspace().compact(..).unwrap();
}

/// Files in the directory of tables, and those that the tree needs.
fn files(fs: &StrictFs, db: &Database) -> (usize, usize) {
    let tables = db.metrics().keyspaces.iter().map(|keyspace| keyspace.tables + keyspace.blob_files).sum();
    (fs.list(&Path::new(DIR).join("tables")).unwrap().len(), tables)
}

#[test]
fn a_drained_database_has_no_obsolete_files() {
    for seed in 0..20 {
        for background in [Background::Stepped { seed }, Background::Threads] {
            let fs = file_system();
            let db = open(&fs, seed, background);
            overwrite(&db);
            db.drain().unwrap();
            let (found, needed) = files(&fs, &db);
            assert_eq!(found, needed, "seed {seed}, {background:?}");
        }
    }
}

#[test]
fn what_a_reader_pins_is_gone_after_the_next_drain() {
    let fs = file_system();
    let db = open(&fs, 1, Background::Stepped { seed: 1 });
    db.default_keyspace().put(b"pinned", b"1").unwrap();
    db.flush().unwrap();
    let mut cursor = db.default_keyspace().cursor().unwrap();
    overwrite(&db);
    db.drain().unwrap();
    let (found, needed) = files(&fs, &db);
    assert!(found > needed, "the cursor's tables: {found} files, {needed} in the tree");
    cursor.seek(b"pinned").unwrap();
    assert_eq!(cursor.value(), Some(b"1".as_slice()));
    drop(cursor);
    db.drain().unwrap();
    let (found, needed) = files(&fs, &db);
    assert_eq!(found, needed);
}

/// Segments that an earlier open has left are gone, too.
#[test]
fn a_drained_database_has_no_segments_of_an_earlier_open() {
    let fs = file_system();
    let segments = || fs.list(&Path::new(DIR).join("wal")).unwrap().len();
    let db = open(&fs, 1, Background::Stepped { seed: 1 });
    overwrite(&db);
    db.drain().unwrap();
    let before = segments();
    db.default_keyspace().put(b"k", b"v").unwrap();
    let crashed = fs.crash(esker::parts::env::fault::Crash::Process);
    drop(db);
    let db = open(&crashed, 2, Background::Stepped { seed: 2 });
    db.drain().unwrap();
    let after = crashed.list(&Path::new(DIR).join("wal")).unwrap().len();
    assert!(after <= before, "{after} segments, {before} before the crash");
}
