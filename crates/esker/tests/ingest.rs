//! Ingest: tables that were written elsewhere join a keyspace.

mod common;

use common::{TestDir, key, tiny, value};
use esker::backup::Backups;
use esker::changes::Change;
use esker::ingest::{IngestMode, IngestOptions, TableWriter};
use esker::parts::StepBackground;
use esker::parts::env::{Env, StdFileSystem};
use esker::transaction::Isolation;
use esker::{Database, Error, Expiry, Keyspace, KeyspaceOptions, Options, TransactionOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A database whose background work the test steps.
fn stepped(dir: &Path) -> Database {
    let env = Env::simulated(Arc::new(StdFileSystem), 3);
    Database::open_with(dir, Options::default().env(env).keyspace_options(tiny())).expect("opening")
}

/// An external table of some keys.
fn table(dir: &TestDir, name: &str, keys: Range<u64>, round: u64) -> PathBuf {
    let path = dir.path().join(name);
    let mut table = TableWriter::create(&path, &tiny()).expect("a table");
    for number in keys {
        table.put(key(number), value(number, round)).expect("a put");
    }
    table.finish().expect("a finished table").path
}

fn run_background(db: &Database) {
    while db.step_background() {}
}

fn get(keyspace: &Keyspace, number: u64) -> Option<Vec<u8>> {
    let found = keyspace.get(key(number)).expect("a get").map(|value| value.to_vec());
    let scanned = keyspace.range(key(number)..=key(number)).next().transpose().expect("a scan");
    assert_eq!(found, scanned.map(|(_, value)| value.to_vec()), "get and scan of {number}");
    let many = keyspace.multi_get(&[key(number)]).expect("a multi get");
    assert_eq!(found, many[0].as_ref().map(|value| value.to_vec()), "get and multi get of {number}");
    found
}

#[allow(clippy::disallowed_methods, reason = "the test looks at what the database left")]
fn table_files(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("tables")).expect("a directory of tables").count()
}

/// Levels that hold tables, with the number of tables in each.
fn shape(db: &Database) -> Vec<(u8, usize)> {
    let levels = &db.levels()[0].levels;
    levels.iter().map(|level| (level.number, level.runs.iter().map(|run| run.tables.len()).sum())).collect()
}

const LAST: u8 = 63;

#[test]
fn an_ingest_has_one_place_in_the_order_of_writes() {
    let dir = TestDir::new("ingest-order");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    default.put(key(1), "before").unwrap();
    default.put(key(2), "before").unwrap();
    default.delete_range(key(3)..key(4)).unwrap();
    let before = db.snapshot();
    let path = table(&dir, "a.sst", 1..5, 7);
    let report = default.ingest([&path], IngestOptions::new()).unwrap();
    assert_eq!((report.tables, report.entries), (1, 4));
    assert_eq!(report.seqno, Some(db.snapshot().seqno()));
    default.put(key(2), "after").unwrap();
    default.delete(key(4)).unwrap();
    // Before the tables are in the tree, and after; and after reopening.
    for round in 0..3 {
        let expected = [None, Some(value(1, 7)), Some(b"after".to_vec()), Some(value(3, 7)), None, None];
        for (number, expected) in expected.iter().enumerate() {
            assert_eq!(&get(default, number as u64), expected, "key {number} in round {round}");
        }
        assert_eq!(default.iter().count(), 3);
        assert_eq!(default.at(&before).get(key(1)).unwrap().as_deref(), Some(b"before".as_slice()));
        assert_eq!(default.at(&before).get(key(3)).unwrap(), None);
        assert_eq!(default.at(&before).iter().count(), 2, "an older snapshot does not see it");
        match round {
            0 => run_background(&db),
            1 => db.flush().unwrap(),
            _ => default.compact(..).unwrap(),
        }
    }
    assert!(db.verify().unwrap().is_clean());
    drop(before);
    db.close().unwrap();
}

#[test]
fn tables_that_overlap_nothing_go_to_the_last_level() {
    let dir = TestDir::new("ingest-place");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    let paths = [table(&dir, "b.sst", 100..200, 1), table(&dir, "a.sst", 0..100, 1)];
    default.ingest(&paths, IngestOptions::new()).unwrap();
    run_background(&db);
    assert_eq!(shape(&db), [(LAST, 2)]);
    // Between the existing tables, and into one of them.
    let paths = [table(&dir, "c.sst", 200..300, 2), table(&dir, "d.sst", 50..60, 2)];
    default.ingest(&paths, IngestOptions::new()).unwrap();
    db.flush().unwrap();
    assert_eq!(shape(&db), [(0, 1), (LAST, 3)], "each table goes as deep as it fits");
    assert_eq!((get(default, 49), get(default, 55)), (Some(value(49, 1)), Some(value(55, 2))));
    default.compact(..).unwrap();
    assert_eq!(default.iter().count(), 300);
    assert_eq!(get(default, 55), Some(value(55, 2)));
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn the_log_recovers_ingests_missing_from_the_manifest() {
    let dir = TestDir::new("ingest-replay");
    let path = dir.path().join("db");
    let options = || Options::default().flush_on_close(false).keyspace_options(tiny());
    let open = || {
        let env = Env::simulated(Arc::new(StdFileSystem), 3);
        Database::open_with(&path, options().env(env)).unwrap()
    };
    let db = open();
    let default = db.default_keyspace();
    default.put(key(1), "before").unwrap();
    default.ingest([table(&dir, "a.sst", 0..3, 1)], IngestOptions::new()).unwrap();
    default.put(key(2), "after").unwrap();
    default.ingest([table(&dir, "b.sst", 5..7, 2)], IngestOptions::new()).unwrap();
    db.close().unwrap();
    let check = |db: &Database| {
        let default = db.default_keyspace();
        assert_eq!(default.iter().count(), 5);
        assert_eq!((get(default, 1), get(default, 2)), (Some(value(1, 1)), Some(b"after".to_vec())));
        assert_eq!(get(default, 6), Some(value(6, 2)));
    };
    let read_only = Database::open_with(&path, Options::default().read_only(true)).unwrap();
    check(&read_only);
    drop(read_only);
    let db = open();
    check(&db);
    assert!(db.verify().unwrap().is_clean());
    run_background(&db);
    check(&db);
}

#[test]
fn files_are_copied_moved_or_linked_by_mode() {
    let dir = TestDir::new("ingest-modes");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    for (at, mode) in [IngestMode::Copy, IngestMode::Link, IngestMode::Move].into_iter().enumerate() {
        let path = table(&dir, "a.sst", at as u64 * 10..at as u64 * 10 + 5, 1);
        let report = default.ingest([&path], IngestOptions::new().mode(mode)).unwrap();
        assert_eq!(report.linked_tables, u64::from(mode != IngestMode::Copy));
        assert_eq!(path.exists(), mode != IngestMode::Move);
        let _ = std::fs::exists(&path).map(|there| there.then(|| remove(&path)));
    }
    // The same file twice is two tables.
    let path = table(&dir, "a.sst", 100..105, 1);
    for _ in 0..2 {
        default.ingest([&path], IngestOptions::new().mode(IngestMode::Link)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(default.iter().count(), 20);
    default.compact(..).unwrap();
    assert_eq!(default.iter().count(), 20);
}

#[allow(clippy::disallowed_methods, reason = "the test cleans up")]
fn remove(path: &Path) {
    std::fs::remove_file(path).expect("removing a table");
}

#[test]
fn invalid_tables_are_refused_by_name() {
    let dir = TestDir::new("ingest-refused");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    let mut unordered = TableWriter::create(dir.path().join("unordered.sst"), &tiny()).unwrap();
    unordered.put("b", "1").unwrap();
    let error = unordered.put("a\n", "2").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    assert!(error.to_string().contains(r#"keys must ascend, but "a\\n" was added after "b""#), "{error}");
    assert!(unordered.put("b", "again").is_err(), "an equal key does not ascend");
    drop(unordered);
    assert!(!dir.path().join("unordered.sst").exists(), "an unfinished table goes");
    let refused = |paths: &[PathBuf]| default.ingest(paths, IngestOptions::new()).unwrap_err();

    let overlapping = [table(&dir, "a.sst", 0..10, 1), table(&dir, "b.sst", 9..20, 1)];
    let error = refused(&overlapping);
    assert!(error.to_string().contains("a.sst and") && error.to_string().contains("key00000009"), "{error}");

    let missing = refused(&[dir.path().join("missing.sst")]);
    assert!(matches!(&missing, Error::NotFound(text) if text.contains("missing.sst")), "{missing}");

    // Every byte of the file counts.
    let good = read(&overlapping[0]);
    let damaged = dir.path().join("damaged.sst");
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x20;
        write(&damaged, &bytes);
        let error = refused(&[overlapping[1].clone(), damaged.clone()]);
        assert!(error.is_corruption() || matches!(error, Error::Unsupported(_)), "byte {at}: {error}");
        assert!(error.to_string().contains("damaged.sst"), "byte {at}: {error}");
    }
    write(&damaged, &good[..good.len() - 7]);
    assert!(refused(std::slice::from_ref(&damaged)).is_corruption());

    // The tables of a database have sequence numbers of its own, so they cannot be ingested.
    let other = stepped(&dir.path().join("other"));
    other.default_keyspace().put("k", "v").unwrap();
    other.flush().unwrap();
    let own = dir.path().join("other/tables");
    #[allow(clippy::disallowed_methods, reason = "the test looks for a file")]
    let own = std::fs::read_dir(own).unwrap().next().unwrap().unwrap().path();
    let error = refused(&[own]);
    assert!(
        error.to_string().contains("another database") && error.to_string().contains("TableWriter"),
        "{error}"
    );

    let empty = TableWriter::create(dir.path().join("empty.sst"), &tiny()).unwrap().finish().unwrap();
    let report = default.ingest([&empty.path], IngestOptions::new()).unwrap();
    assert_eq!((report.tables, report.seqno), (0, None));
    assert_eq!((default.iter().count(), table_files(&dir.path().join("db"))), (0, 0), "nothing stays behind");
}

#[allow(clippy::disallowed_methods, reason = "the test damages a file")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("reading a table")
}

#[allow(clippy::disallowed_methods, reason = "the test damages a file")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("writing a table");
}

#[test]
fn transactions_conflict_with_an_ingest() {
    let dir = TestDir::new("ingest-transactions");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace().clone();
    // With the tables still beside the memtables, and in the tree.
    for is_flushed in [false, true] {
        let begin = |isolation| {
            let mut tx = db.transaction_with(TransactionOptions::default().isolation(isolation));
            tx.put(&default, "unrelated", "1").unwrap();
            tx
        };
        let reads_key = begin(Isolation::Serializable);
        assert!(reads_key.get(&default, key(5)).is_ok());
        let reads_range = begin(Isolation::Serializable);
        reads_range.range(&default, key(0)..key(6)).for_each(drop);
        let mut writes_key = begin(Isolation::Snapshot);
        writes_key.put(&default, key(4), "mine").unwrap();
        let beside = begin(Isolation::Serializable);
        beside.range(&default, key(50)..key(60)).for_each(drop);
        default.ingest([table(&dir, "a.sst", 4..6, 1)], IngestOptions::new().mode(IngestMode::Move)).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let ingested_at = db.snapshot().seqno();
        for (what, tx) in [("key", reads_key), ("range", reads_range), ("write", writes_key)] {
            let error = tx.commit().unwrap_err();
            assert!(error.is_conflict(), "{what}: {error}");
            assert!(
                matches!(&error, Error::Conflict(conflict) if conflict.seqno == ingested_at),
                "{what}: {error}"
            );
        }
        beside.commit().unwrap();
    }
}

#[test]
fn copies_include_ingested_tables() {
    let dir = TestDir::new("ingest-copies");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    let backups = Backups::new(dir.path().join("backups"));
    for round in 0..2 {
        default.put(key(1), "before").unwrap();
        default
            .ingest([table(&dir, "a.sst", 0..3, round)], IngestOptions::new().mode(IngestMode::Move))
            .unwrap();
        default.put(key(2), "after").unwrap();
        let checkpoint = dir.path().join(format!("checkpoint{round}"));
        db.checkpoint(&checkpoint).unwrap();
        let backup = db.backup(&backups).unwrap();
        let restored = dir.path().join(format!("restored{round}"));
        assert!(backups.verify(backup.id).unwrap().is_clean());
        backups.restore(backup.id, &restored).unwrap();
        for copy in [checkpoint, restored] {
            let copy = stepped(&copy);
            let default = copy.default_keyspace();
            assert_eq!((get(default, 0), get(default, 1)), (Some(value(0, round)), Some(value(1, round))));
            assert_eq!(get(default, 2), Some(b"after".to_vec()));
            assert!(copy.verify().unwrap().is_clean());
            default.put(key(0), "newer").unwrap();
            default.compact(..).unwrap();
            assert_eq!(get(default, 0), Some(b"newer".to_vec()));
        }
        run_background(&db);
    }
}

#[test]
fn a_dropped_keyspace_takes_its_ingested_tables_along() {
    let dir = TestDir::new("ingest-drop");
    let db = stepped(&dir.path().join("db"));
    let doomed = db.keyspace("doomed").unwrap();
    doomed.ingest([table(&dir, "a.sst", 0..3, 1)], IngestOptions::new()).unwrap();
    let open = doomed.iter();
    db.drop_keyspace("doomed").unwrap();
    assert_eq!(open.count(), 3, "what was open reads on");
    run_background(&db);
    assert_eq!(table_files(&dir.path().join("db")), 0);
    let refused = doomed.ingest([table(&dir, "b.sst", 0..3, 1)], IngestOptions::new()).unwrap_err();
    assert!(matches!(refused, Error::NotFound(_)));
    db.close().unwrap();
    let db = stepped(&dir.path().join("db"));
    assert_eq!(db.keyspaces(), ["default"]);
}

#[test]
fn an_ingest_fills_spans_remembered_as_empty() {
    let dir = TestDir::new("ingest-gaps");
    let db = stepped(&dir.path().join("db"));
    // Nothing is flushed: readers walk over deleted entries and remember the empty spans.
    let queue = db.keyspace_with("queue", KeyspaceOptions::default()).unwrap();
    for number in 0..3_000 {
        queue.put(key(number), "").unwrap();
        queue.delete(key(number)).unwrap();
    }
    let head = || queue.iter().next().transpose().unwrap().map(|(key, _)| key.to_vec());
    for number in 3_000..3_010 {
        queue.put(key(number), "").unwrap();
        assert_eq!(head(), Some(key(3_000)));
    }
    queue.ingest([table(&dir, "a.sst", 7..9, 1)], IngestOptions::new()).unwrap();
    assert_eq!(head(), Some(key(7)));
    queue.delete_range(key(0)..key(3_000)).unwrap();
    for number in 3_010..3_020 {
        queue.put(key(number), "").unwrap();
        assert_eq!(head(), Some(key(3_000)));
    }
    let mut loader = queue.bulk_load().unwrap();
    loader.add(key(2_000), "").unwrap();
    loader.finish().unwrap();
    assert_eq!(head(), Some(key(2_000)));
}

#[test]
fn the_change_stream_reports_an_ingest_in_order() {
    let dir = TestDir::new("ingest-stream");
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    let mut changes = db.create_consumer("search").unwrap().changes().unwrap();
    default.put(key(1), "before").unwrap();
    let tables = [table(&dir, "a.sst", 0..3, 1), table(&dir, "b.sst", 3..5, 1)];
    let report = default.ingest(tables, IngestOptions::new()).unwrap();
    default.put(key(1), "after").unwrap();
    let mut told = Vec::new();
    while let Some(batch) = changes.try_next().unwrap() {
        let is_ingest = batch.iter().map(|change| matches!(change, Change::Ingest { tables: 2, .. }));
        told.push((batch.first_seqno(), batch.last_seqno(), is_ingest.collect::<Vec<_>>()));
    }
    let at = report.seqno.unwrap();
    assert_eq!(told.iter().map(|(_, _, is_ingest)| is_ingest[0]).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!((told[1].0, told[1].1), (at, at));
}

#[test]
fn tables_know_what_expires_and_what_they_delete() {
    let dir = TestDir::new("ingest-kinds");
    let db = stepped(&dir.path().join("db"));
    let keyspace = db.keyspace_with("k", tiny().default_ttl(std::time::Duration::from_secs(1))).unwrap();
    let (now, ms) = (db.now(), Duration::from_millis);
    keyspace.put_with(key(1), "old", Expiry::At(now + ms(1_000_000))).unwrap();
    let path = dir.path().join("a.sst");
    let mut table = TableWriter::create(&path, &KeyspaceOptions::default()).unwrap();
    table.delete(key(1)).unwrap();
    table.put_until(key(2), "gone", now).unwrap();
    table.put_until(key(3), "stays", now + ms(500_000)).unwrap();
    table.put(key(4), "for good").unwrap();
    let written = table.finish().unwrap();
    assert_eq!((written.entries, written.deletes), (4, 1));
    keyspace.ingest([path], IngestOptions::new()).unwrap();
    for _ in 0..2 {
        assert_eq!((get(&keyspace, 1), get(&keyspace, 2)), (None, None));
        assert_eq!(get(&keyspace, 3).as_deref(), Some(b"stays".as_slice()));
        assert_eq!(keyspace.ttl(key(4)).unwrap(), Some(esker::Ttl::Forever), "no default TTL for tables");
        keyspace.compact(..).unwrap();
    }
}

/// A symbolic link to a table is as good as the table, and its target may be removed afterwards.
#[cfg(unix)]
#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes links and removes files behind the database")]
fn a_symbolic_link_leads_to_the_file_itself() {
    for (mode, is_relative) in [(IngestMode::Link, true), (IngestMode::Link, false), (IngestMode::Move, true)]
    {
        let dir = TestDir::new("ingest-symlink");
        std::fs::create_dir_all(dir.path()).unwrap();
        let real = table(&dir, "real.sst", 0..100, 1);
        let link = dir.path().join("link.sst");
        let to = if is_relative { PathBuf::from("real.sst") } else { real.clone() };
        std::os::unix::fs::symlink(to, &link).unwrap();
        let db = stepped(&dir.path().join("db"));
        db.default_keyspace().ingest([&link], IngestOptions::new().mode(mode)).unwrap();
        db.close().unwrap();
        drop(db);
        std::fs::remove_file(&real).unwrap();
        let db = stepped(&dir.path().join("db"));
        assert_eq!(db.default_keyspace().iter().count(), 100, "{mode:?}, relative: {is_relative}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test looks at the database's files")]
fn a_table_of_the_database_itself_is_not_moved_away() {
    let dir = TestDir::new("ingest-own");
    let db = stepped(dir.path());
    let default = db.default_keyspace();
    let mut loader = default.bulk_load().unwrap();
    (0..50).for_each(|number| loader.add(key(number), value(number, 1)).unwrap());
    loader.finish().unwrap();
    run_background(&db);
    let tables = std::fs::read_dir(dir.path().join("tables")).unwrap();
    let files: Vec<PathBuf> = tables.map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in &files {
        let refused = default.ingest([file], IngestOptions::new().mode(IngestMode::Move)).unwrap_err();
        assert!(refused.to_string().contains("it is a table of this database"), "{refused}");
    }
    db.close().unwrap();
    drop(db);
    assert_eq!(stepped(dir.path()).default_keyspace().iter().count(), 50);
}

/// Of a file that was linked, the database has one of two names: the other may be ingested again, in any
/// mode, and be removed.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test looks at the file behind the database")]
fn a_file_may_be_ingested_again() {
    let dir = TestDir::new("ingest-again");
    std::fs::create_dir_all(dir.path()).unwrap();
    let file = table(&dir, "table.sst", 0..100, 1);
    let db = stepped(&dir.path().join("db"));
    let default = db.default_keyspace();
    for mode in [IngestMode::Link, IngestMode::Link, IngestMode::Copy, IngestMode::Link, IngestMode::Move] {
        (0..100).for_each(|number| default.delete(key(number)).unwrap());
        default.ingest([&file], IngestOptions::new().mode(mode)).unwrap();
        assert_eq!(get(default, 99), Some(value(99, 1)), "{mode:?}");
        run_background(&db);
        let other = db.keyspace("other").unwrap();
        if mode != IngestMode::Move {
            other.ingest([&file], IngestOptions::new().mode(mode)).unwrap();
        }
        assert_eq!(other.iter().count(), 100);
    }
    assert!(!file.exists());
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    drop(db);
    assert_eq!(stepped(&dir.path().join("db")).default_keyspace().iter().count(), 100);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes a directory")]
fn a_directory_is_no_table() {
    let dir = TestDir::new("ingest-directory");
    std::fs::create_dir_all(dir.path().join("tables.sst")).unwrap();
    let db = stepped(&dir.path().join("db"));
    let refused = db.default_keyspace().ingest([dir.path().join("tables.sst")], IngestOptions::new());
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)), "{refused}");
    assert!(refused.to_string().contains("is a directory"), "{refused}");
    db.close().unwrap();
}

#[test]
fn a_table_that_could_not_be_written_is_abandoned() {
    use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, When};
    for nth in 1..5 {
        let dir = TestDir::new("ingest-failing");
        let db = stepped(dir.path());
        let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
        let env = Env::simulated(Arc::<FaultFs>::clone(&faults), 3);
        let path = dir.path().join("t.sst");
        faults.add(Rule::new(Fault::Full, When::Nth(nth)).on(Operation::Write).path("t.sst"));
        let options = tiny().compression(esker::options::PerLevel::all(esker::options::Codec::None));
        let written = TableWriter::create_in(&env, &path, &options).and_then(|mut table| {
            for number in 0..20_000 {
                if table.put(key(number), [7; 200]).is_err() {
                    let again = table.put(key(number), [7; 200]);
                    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
                }
            }
            table.finish()
        });
        assert!(written.is_err());
        let left = db.default_keyspace().ingest([&path], IngestOptions::new());
        assert!(matches!(left, Err(Error::NotFound(_))), "{left:?}");
    }
}
