//! Bulk load: many entries at once, past the log.

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::StepBackground;
use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, When};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Error, Expiry, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn stepped(dir: &Path) -> Database {
    let env = Env::simulated(Arc::new(StdFileSystem), 3);
    Database::open_with(dir, Options::default().env(env).memory_budget(8 << 20).keyspace_options(tiny()))
        .expect("opening")
}

#[allow(clippy::disallowed_methods, reason = "the test looks at what the database left")]
fn table_files(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("tables")).expect("a directory of tables").count()
}

fn content(db: &Database) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = db.default_keyspace().iter();
    entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("an entry")).collect()
}

#[test]
fn sorted_input_goes_straight_to_the_last_level() {
    let dir = TestDir::new("load-sorted");
    let db = stepped(dir.path());
    let default = db.default_keyspace();
    let mut loader = default.bulk_load().unwrap().sort_memory(64 << 10);
    for number in 0..20_000 {
        loader.add(key(number), value(number, 1)).unwrap();
    }
    assert_eq!(content(&db).len(), 0, "nothing is there before the end");
    let logged = db.metrics().log.segments_prepared;
    let report = loader.finish().unwrap();
    assert_eq!((report.entries, report.replaced, report.sorted_runs), (20_000, 0, 0));
    assert!(report.tables > 100, "{report:?}");
    assert!(db.metrics().log.segments_prepared - logged <= 1, "entries went through the log");
    db.flush().unwrap();
    let levels = &db.levels()[0].levels;
    assert_eq!(levels.iter().map(|level| level.number).collect::<Vec<_>>(), [63]);
    assert_eq!(content(&db).len(), 20_000);
    assert_eq!(default.get(key(777)).unwrap().as_deref(), Some(&value(777, 1)[..]));
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn any_order_is_sorted_and_the_last_of_equals_counts() {
    // All in memory; in a few runs; in so many that runs are merged before the end; ascending at first.
    for (sort_memory, sorted_first, entries) in
        [(8 << 20, 0, 5_000), (32 << 10, 0, 5_000), (1 << 10, 0, 5_000), (16 << 10, 3_000, 6_000)]
    {
        let dir = TestDir::new("load-unsorted");
        let db = stepped(dir.path());
        let default = db.default_keyspace();
        default.put(key(3), "there before").unwrap();
        default.put("beside", "stays").unwrap();
        let mut expected = content(&db);
        let mut loader = default.bulk_load().unwrap().sort_memory(sort_memory);
        for at in 0..entries {
            // Later entries repeat earlier keys.
            let number = if at < sorted_first { at } else { at * 7919 % (entries / 2) };
            loader.add(key(number), value(number, at)).unwrap();
            expected.insert(key(number), value(number, at));
        }
        let mut told = Vec::new();
        let report = loader.finish_with(&mut |progress| told.push(progress)).unwrap();
        assert_eq!(report.entries + 1, expected.len() as u64);
        assert_eq!(report.entries + report.replaced, entries);
        assert_eq!(report.sorted_runs == 0, sort_memory == 8 << 20, "{report:?}");
        assert!(
            told.windows(2).all(|pair| pair[0].merged < pair[1].merged && pair[1].merged <= pair[1].total)
        );
        assert_eq!(content(&db), expected, "sort memory {sort_memory}");
        while db.step_background() {}
        assert_eq!(content(&db), expected);
        let tables: u64 = db.metrics().keyspaces.iter().map(|keyspace| keyspace.tables as u64).sum();
        assert_eq!(table_files(dir.path()) as u64, tables, "what was sorted on the way is gone");
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn a_load_that_is_dropped_leaves_nothing() {
    let dir = TestDir::new("load-dropped");
    let db = stepped(dir.path());
    let default = db.default_keyspace();
    for is_sorted in [true, false] {
        let cache = db.metrics().memory.cache_capacity_bytes;
        let mut loader = default.bulk_load().unwrap().sort_memory(16 << 10);
        for number in 0..4_000 {
            loader
                .add(key(if is_sorted { number } else { number * 7919 % 4_000 }), value(number, 1))
                .unwrap();
        }
        assert!(table_files(dir.path()) > 0);
        drop(loader);
        assert_eq!((table_files(dir.path()), content(&db).len()), (0, 0));
        assert_eq!(db.metrics().memory.cache_capacity_bytes, cache, "the memory is given back");
    }
    // Empty loads change nothing either.
    let report = default.bulk_load().unwrap().finish().unwrap();
    assert_eq!((report.entries, report.seqno), (0, None));
    let mut loader = default.bulk_load().unwrap();
    assert!(matches!(loader.add(vec![0; 70_000], ""), Err(Error::InvalidArgument(_))));
    loader.add("k", "v").unwrap();
    db.close().unwrap();
    assert!(matches!(loader.finish(), Err(Error::Closed)));
}

#[test]
fn the_default_ttl_counts_from_when_an_entry_is_added() {
    let dir = TestDir::new("load-ttl");
    let db = stepped(dir.path());
    let keyspace = db.keyspace_with("k", tiny().default_ttl(Duration::from_secs(60))).unwrap();
    let mut loader = keyspace.bulk_load().unwrap();
    loader.add(key(1), "by default").unwrap();
    loader.add_with(key(2), "said so", Expiry::After(Duration::from_secs(5))).unwrap();
    loader.finish().unwrap();
    let left = |number| match keyspace.ttl(key(number)).unwrap() {
        Some(esker::Ttl::Expires { left, .. }) => left,
        other => panic!("{other:?}"),
    };
    assert_eq!((left(1), left(2)), (Duration::from_secs(60), Duration::from_secs(5)));
    assert_eq!(keyspace.get(key(1)).unwrap().as_deref(), Some(b"by default".as_slice()));
}

/// A caller that continues after an error and ignores the results must not end with part of the entries.
#[test]
fn a_failure_is_final() {
    let (mut failed, mut complete) = (0, 0);
    for nth in (1..160).step_by(6) {
        for ascending in [0u64, 2_000] {
            let dir = TestDir::new("load-failing");
            let faults = Arc::new(FaultFs::new(Arc::new(StdFileSystem)));
            let options = Options::default().env(Env::simulated(Arc::<FaultFs>::clone(&faults), 3));
            let options = options.memory_budget(8 << 20).keyspace_options(tiny());
            let db = Database::open_with(dir.path(), options).unwrap();
            let mut loader = db.default_keyspace().bulk_load().unwrap().sort_memory(4 << 10);
            let rule = Rule::new(Fault::Full, When::Nth(nth)).path("tables");
            faults.add(rule.on(Operation::Create).on(Operation::Open).on(Operation::Write));
            let shuffled = (0..4_000).map(|number| ascending + number * 7_919 % 4_000);
            let refused = (0..ascending)
                .chain(shuffled)
                .filter(|&number| loader.add(key(number), value(number, 1)).is_err());
            let refused = refused.count();
            faults.heal();
            match loader.finish() {
                Ok(report) => {
                    assert_eq!((refused, report.entries, report.replaced), (0, ascending + 4_000, 0));
                    assert_eq!(content(&db).len() as u64, ascending + 4_000);
                    complete += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Full(_)), "{error}");
                    assert_eq!(content(&db).len(), 0);
                    failed += u64::from(refused > 0);
                }
            }
            assert!(db.verify().unwrap().is_clean());
        }
    }
    assert!(failed > 10 && complete > 0, "{failed} failed on the way, {complete} came to their end");
}
