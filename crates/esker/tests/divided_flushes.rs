//! Flushes on several threads: what they write, and that one edit installs it.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key};
use esker::{Database, KeyspaceOptions, Options, Result};

const KEYS: u64 = 20_000;

/// Tables of 64 KiB: a flush of some mebibytes is worth many pieces.
fn open(dir: &TestDir, threads: usize) -> Result<Database> {
    let keyspace = KeyspaceOptions::default().table_size(64 << 10).write_buffer_size(64 << 20);
    let options = Options::default().memory_budget(512 << 20).flush_threads(threads);
    Database::open_with(dir.path(), options.keyspace_options(keyspace))
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("{number} in {round} {}", "x".repeat(100)).into_bytes()
}

/// Tables of the newest run that a flush has made.
fn tables(db: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let levels = db.levels();
    let run = levels[0].levels.iter().flat_map(|level| &level.runs).next().unwrap();
    run.tables.iter().map(|table| (table.smallest.clone(), table.largest.clone())).collect()
}

/// FP1.
#[test]
fn a_divided_flush_writes_what_a_whole_one_does() -> Result<()> {
    for threads in [1, 2, 5] {
        let dir = TestDir::new("divided-flush");
        let db = open(&dir, threads)?;
        let keyspace = db.default_keyspace();
        (0..KEYS).try_for_each(|number| keyspace.put(key(number), value(number, 0)))?;
        let snapshot = db.snapshot();
        for number in (0..KEYS).step_by(3) {
            keyspace.put(key(number), value(number, 1))?;
            keyspace.delete(key(number + 1))?;
        }
        db.flush()?;
        let tables = tables(&db);
        assert!(tables.len() >= threads && tables.windows(2).all(|pair| pair[0].1 < pair[1].0), "{tables:?}");
        assert_eq!(db.metrics().keyspaces[0].flushes, 1, "one flush, one edit");
        db.verify()?;
        let check = |db: &Database| -> Result<()> {
            for number in 0..KEYS {
                let expected = match number % 3 {
                    0 => Some(value(number, 1)),
                    1 => None,
                    _ => Some(value(number, 0)),
                };
                assert_eq!(db.default_keyspace().get(key(number))?.as_deref(), expected.as_deref());
            }
            Ok(())
        };
        check(&db)?;
        let before = keyspace.at(&snapshot);
        (0..KEYS).try_for_each(|number| -> Result<()> {
            assert_eq!(before.get(key(number))?.as_deref(), Some(&value(number, 0)[..]));
            Ok(())
        })?;
        drop(snapshot);
        db.close()?;
        let db = open(&dir, 1)?;
        check(&db)?;
        db.close()?;
    }
    Ok(())
}

/// FP2.
#[test]
fn range_deletes_are_flushed_in_one_piece() -> Result<()> {
    let dir = TestDir::new("divided-range-deletes");
    let db = open(&dir, 4)?;
    let keyspace = db.default_keyspace();
    (0..KEYS).try_for_each(|number| keyspace.put(key(number), value(number, 0)))?;
    db.flush()?;
    keyspace.delete_range(key(100)..key(KEYS - 100))?;
    (0..KEYS).step_by(100).try_for_each(|number| keyspace.put(key(number), value(number, 1)))?;
    (0..KEYS).skip(1).step_by(7).try_for_each(|number| keyspace.put(key(number), value(number, 2)))?;
    db.flush()?;
    db.compact_all()?;
    for number in 0..KEYS {
        let round = match number {
            number if number % 7 == 1 => Some(2),
            number if number % 100 == 0 => Some(1),
            number if !(100..KEYS - 100).contains(&number) => Some(0),
            _ => None,
        };
        let expected = round.map(|round| value(number, round));
        assert_eq!(keyspace.get(key(number))?.as_deref(), expected.as_deref(), "key {number}");
    }
    db.verify()?;
    db.close()
}
