//! Keyspaces are created, dropped, renamed, and change their options.

mod common;

use common::{TestDir, key, tiny, value};
use esker::options::FilterPolicy;
use esker::parts::StepBackground;
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Error, Keyspace, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A database whose background work the test steps.
fn stepped(dir: &Path) -> Database {
    let env = Env::simulated(Arc::new(StdFileSystem), 3);
    Database::open_with(dir, Options::default().env(env).keyspace_options(tiny())).expect("opening")
}

fn fill(keyspace: &Keyspace, entries: u64, round: u64) {
    for number in 0..entries {
        keyspace.put(key(number), value(number, round)).expect("a put");
    }
}

#[allow(clippy::disallowed_methods, reason = "the test looks at what the database left")]
fn table_files(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("tables")).expect("a directory of tables").count()
}

fn run_background(db: &Database) {
    while db.step_background() {}
}

#[test]
fn a_dropped_keyspace_gives_everything_back() {
    let dir = TestDir::new("drop");
    let db = stepped(dir.path());
    let doomed = db.keyspace("doomed").unwrap();
    db.default_keyspace().put(b"stays", b"here").unwrap();
    db.flush().unwrap();
    run_background(&db);
    let (tables_before, memory_before) = (table_files(dir.path()), db.metrics().memory.memtable_bytes);
    fill(&doomed, 2_000, 0);
    db.flush().unwrap();
    fill(&doomed, 100, 1);
    run_background(&db);
    assert!(table_files(dir.path()) > tables_before);
    let open = doomed.range(key(0)..);
    db.drop_keyspace("doomed").unwrap();
    run_background(&db);
    assert!(table_files(dir.path()) > tables_before, "tables are removed while a range reads them");
    assert_eq!(open.count(), 2_000, "what was open reads on");
    run_background(&db);
    assert_eq!(table_files(dir.path()), tables_before);
    assert!(db.metrics().memory.memtable_bytes <= memory_before + (256 << 10));
    assert_eq!(db.keyspaces(), ["default"]);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let db = stepped(dir.path());
    assert_eq!(db.keyspaces(), ["default"]);
    assert!(matches!(db.open_keyspace("doomed"), Err(Error::NotFound(_))));
    assert_eq!(db.default_keyspace().get(b"stays").unwrap().as_deref(), Some(b"here".as_slice()));
}

#[test]
fn a_dropped_keyspace_does_not_pin_the_log() {
    let dir = TestDir::new("drop-log");
    let db = Database::open_with(
        dir.path(),
        Options::default()
            .env(Env::simulated(Arc::new(StdFileSystem), 3))
            .keyspace_options(KeyspaceOptions::default().write_buffer_size(1 << 20))
            .wal_segment_bytes(64 << 10),
    )
    .unwrap();
    let doomed = db.keyspace("doomed").unwrap();
    doomed.put(b"first", b"in the oldest segment").unwrap();
    fill(db.default_keyspace(), 10_000, 0);
    db.default_keyspace().flush().unwrap();
    db.default_keyspace().put(b"last", b"in the newest segment").unwrap();
    assert!(db.metrics().log.live_bytes > 256 << 10, "{} bytes", db.metrics().log.live_bytes);
    db.drop_keyspace("doomed").unwrap();
    assert!(db.metrics().log.live_bytes <= 128 << 10, "{} bytes", db.metrics().log.live_bytes);
}

#[test]
fn a_new_keyspace_of_an_old_name_is_distinct() {
    let dir = TestDir::new("again");
    let db = stepped(dir.path());
    let old = db.keyspace("name").unwrap();
    fill(&old, 300, 0);
    let before = db.snapshot();
    db.drop_keyspace("name").unwrap();
    let new = db.keyspace("name").unwrap();
    assert_ne!(old.id(), new.id());
    assert_eq!(new.iter().count(), 0);
    assert_eq!(new.at(&before).iter().count(), 0);
    new.put(key(1), b"new").unwrap();
    assert!(matches!(old.get(key(1)), Err(Error::NotFound(text)) if text.contains("\"name\" was dropped")));
    db.close().unwrap();
    let db = stepped(dir.path());
    let new = db.open_keyspace("name").unwrap();
    assert_eq!(new.iter().map(|entry| entry.unwrap().1.into_vec()).collect::<Vec<_>>(), [b"new"]);
}

#[test]
fn a_batch_with_a_dropped_keyspace_changes_nothing() {
    let dir = TestDir::new("drop-batch");
    let db = stepped(dir.path());
    let doomed = db.keyspace("doomed").unwrap();
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), b"a", b"1");
    batch.put(&doomed, b"b", b"2");
    db.drop_keyspace("doomed").unwrap();
    let before = db.metrics().visible_seqno;
    let refused = db.write(&batch).unwrap_err();
    assert!(matches!(&refused, Error::NotFound(text) if text.contains("doomed")), "{refused}");
    assert_eq!(db.default_keyspace().get(b"a").unwrap(), None);
    assert_eq!(db.metrics().visible_seqno, before, "nothing was consumed");
}

#[test]
fn invalid_drops_and_renames_are_refused() {
    let dir = TestDir::new("names");
    let db = Database::open(dir.path()).unwrap();
    db.keyspace("a").unwrap();
    db.keyspace("b").unwrap();
    let long = "x".repeat(256);
    let refused = [
        (db.drop_keyspace("default"), "\"default\" cannot be dropped"),
        (db.drop_keyspace("c"), "there is no keyspace \"c\""),
        (db.rename_keyspace("default", "c"), "\"default\" keeps its name"),
        (db.rename_keyspace("c", "d"), "there is no keyspace \"c\""),
        (db.rename_keyspace("a", "b"), "there is a keyspace \"b\" already"),
        (db.rename_keyspace("a", ""), "1 to 255 bytes, not 0"),
        (db.rename_keyspace("a", &long), "1 to 255 bytes, not 256"),
        (db.keyspace(&long).map(drop), "1 to 255 bytes, not 256"),
    ];
    for (answer, expected) in refused {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(db.keyspaces(), ["default", "a", "b"]);
}

#[test]
fn handles_follow_a_rename() {
    let dir = TestDir::new("rename");
    let db = stepped(dir.path());
    let index = db.keyspace("index.new").unwrap();
    fill(&index, 500, 0);
    let before = db.snapshot();
    db.rename_keyspace("index.new", "index").unwrap();
    assert_eq!(&*index.name(), "index");
    index.put(b"more", b"1").unwrap();
    assert_eq!(db.open_keyspace("index").unwrap().id(), index.id());
    assert_eq!(index.at(&before).iter().count(), 500);
    assert!(matches!(db.open_keyspace("index.new"), Err(Error::NotFound(_))));
    assert_eq!(db.metrics().keyspaces[1].name, "index");
    assert_eq!(db.keyspace("index.new").unwrap().iter().count(), 0, "the old name is free");
    db.close().unwrap();
    let db = stepped(dir.path());
    assert_eq!(db.open_keyspace("index").unwrap().iter().count(), 501);
    assert_eq!(db.keyspaces(), ["default", "index", "index.new"]);
}

#[test]
fn options_change_online_and_stay() {
    let dir = TestDir::new("options");
    let db = stepped(dir.path());
    let keyspace = db.keyspace("k").unwrap();
    fill(&keyspace, 10, 0);
    assert_eq!(db.metrics().keyspaces[1].sealed_memtables, 0);
    keyspace.update_options(|options| options.write_buffer_entries(4).block_size(1024)).unwrap();
    let chosen = tiny().write_buffer_entries(4).block_size(1024);
    assert_eq!(keyspace.options(), chosen);
    let sealed_or_flushed =
        || db.metrics().keyspaces[1].sealed_memtables as u64 + db.metrics().keyspaces[1].flushes;
    keyspace.put(b"a", b"").unwrap();
    assert_eq!(sealed_or_flushed(), 1, "the memtable holds more than the limit now");
    let error = keyspace.update_options(|options| options.block_size(1)).unwrap_err().to_string();
    assert!(error.contains("block_size is 1"), "{error}");
    assert_eq!(keyspace.options(), chosen, "a refused change changes nothing");
    db.close().unwrap();
    let db = stepped(dir.path());
    assert_eq!(db.open_keyspace("k").unwrap().options(), chosen);
}

/// Options of tables hold for those that are written later; a change says how many keep the old ones.
#[test]
fn a_change_of_options_says_which_tables_keep_the_old_ones() {
    let dir = TestDir::new("kept-options");
    let db = stepped(dir.path());
    let keyspace = db.keyspace("k").unwrap();
    let change = |name: &str, value: &str| {
        keyspace.update_options(|options| options.set(name, value).expect("an option")).unwrap()
    };
    assert!(change("index_type", "hash-locator").is_empty(), "there is no table yet");
    fill(&keyspace, 300, 0);
    keyspace.flush().unwrap();
    let (tables, bytes) = (db.metrics().keyspaces[1].tables, db.metrics().keyspaces[1].table_bytes);
    assert!(tables > 0);
    let kept = change("index_type", "b-tree-pages");
    assert_eq!((kept.options.as_slice(), kept.tables, kept.bytes), (&["index_type"][..], tables, bytes));
    assert!(kept.to_string().contains(&format!("of {bytes} bytes")), "{kept}");
    // An index in memory is made when a table is opened, and this one is no option of tables.
    for (name, value) in [("index_type", "fast-lane"), ("level0_stop_runs", "30")] {
        let kept = change(name, value);
        assert!(kept.is_empty() && kept.options.is_empty(), "{name}: {kept}");
    }
    let both =
        keyspace.update_options(|options| options.block_size(8192).filter(FilterPolicy::None)).unwrap();
    assert_eq!((both.options.as_slice(), both.tables), (&["block_size", "filter"][..], tables));
    (0..300).for_each(|number| {
        assert_eq!(keyspace.get(key(number)).unwrap().as_deref(), Some(&value(number, 0)[..]));
    });
    db.close().unwrap();
}

/// Keyspaces are dropped while their memtables are flushed, their tables merged and others written to. All
/// their work is abandoned without a trace: no background error, no file that nothing refers to.
#[test]
fn keyspaces_are_dropped_during_background_work() {
    let dir = TestDir::new("drop-busy");
    let options = Options::default().keyspace_options(tiny().write_buffer_size(16 << 10));
    let db = Database::open_with(dir.path(), options.clone()).unwrap();
    let steady = db.keyspace("steady").unwrap();
    let stop = AtomicBool::new(false);
    let mut refusals = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                fill(&steady, 400, round);
            }
        });
        for round in 0..25u64 {
            let name = format!("short lived {round}");
            let doomed = db.keyspace(&name).unwrap();
            let other = scope.spawn({
                let doomed = doomed.clone();
                move || (0..).find_map(|number| doomed.put(key(number), value(number, 0)).err())
            });
            fill(&doomed, 500 + 300 * (round % 5), round);
            if round % 3 == 0 {
                doomed.flush().unwrap();
            }
            db.drop_keyspace(&name).unwrap();
            refusals.extend(other.join().unwrap());
            refusals.extend(doomed.compact(..).err());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(refusals.len(), 50);
    assert!(refusals.iter().all(|error| matches!(error, Error::NotFound(_))), "{refusals:?}");
    db.drain().unwrap();
    let metrics = db.metrics();
    assert!(metrics.background_errors.is_empty(), "{:?}", metrics.background_errors);
    assert_eq!(metrics.keyspaces.len(), 2);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let tables: usize = metrics.keyspaces.iter().map(|keyspace| keyspace.tables).sum();
    let left = table_files(dir.path());
    drop(db);
    let db = Database::open_with(dir.path(), options.read_only(true)).unwrap();
    let live: usize = db.metrics().keyspaces.iter().map(|keyspace| keyspace.tables).sum();
    assert_eq!(left, live, "files that nothing refers to ({tables} tables before closing)");
}
