//! Checkpoints and backups: each whole, of one moment, and independent of its source.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, copy_tree, key, tiny, value};
use esker::backup::{Backups, Retention};
use esker::{Database, Error, Expiry, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// The pairs of each keyspace.
type Content = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

fn open(path: &Path) -> Database {
    Database::open_with(path, Options::default().keyspace_options(tiny())).unwrap()
}

fn content(db: &Database) -> Content {
    let all = |name: &String| {
        let keyspace = db.open_keyspace(name).unwrap();
        let pairs = keyspace.iter().map(|pair| pair.map(|(key, value)| (key.into_vec(), value.into_vec())));
        (name.clone(), pairs.collect::<Result<_, _>>().unwrap())
    };
    db.keyspaces().iter().map(all).collect()
}

fn content_at(path: &Path) -> Content {
    let db = open(path);
    let content = content(&db);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    content
}

fn fill(db: &Database, numbers: std::ops::Range<u64>, round: u64) {
    let (odd, even) = (db.keyspace("odd").unwrap(), db.keyspace("even").unwrap());
    for number in numbers {
        let keyspace = if number % 2 == 0 { &even } else { &odd };
        keyspace.put(key(number), value(number, round)).unwrap();
    }
}

#[allow(clippy::disallowed_methods, reason = "the test looks behind the database's back")]
fn names_in(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[allow(clippy::disallowed_methods, reason = "the test damages files behind the database's back")]
fn flip_a_bit(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// While a writer puts ascending numbers into two keyspaces by one batch each, every checkpoint is a prefix:
/// no hole, both keyspaces alike, and at least what was acknowledged before the call.
#[test]
fn checkpoints_during_writes_are_prefixes() {
    /// Far more than are written before the last checkpoint; ends the writer if an assertion fails.
    const LAST: u64 = 50_000;
    let (dir, copies) = (TestDir::new("checkpoint"), TestDir::new("checkpoints"));
    let db = open(dir.path());
    let (one, two) = (db.keyspace("one").unwrap(), db.keyspace("two").unwrap());
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..LAST {
                let mut batch = db.batch();
                batch.put(&one, key(number), value(number, 1));
                batch.put(&two, key(number), value(number, 2));
                db.write(&batch).unwrap();
                acknowledged.store(number, Ordering::Release);
                if stop.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let mut linked = 0;
        for round in 0..6 {
            while acknowledged.load(Ordering::Acquire) < 700 * (round + 1) {
                std::thread::yield_now();
            }
            let least = acknowledged.load(Ordering::Acquire);
            let target = copies.path().join(format!("{round}"));
            let report = db.checkpoint(&target).unwrap();
            linked += report.linked_tables;
            let copy = content_at(&target);
            let count = copy["one"].len() as u64;
            assert!(count >= least, "{count} of at least {least}");
            for (number, (pair, other)) in (1..).zip(copy["one"].iter().zip(&copy["two"])) {
                assert_eq!(pair, &(key(number), value(number, 1)));
                assert_eq!(other, &(key(number), value(number, 2)));
            }
            assert_eq!(copy["two"].len() as u64, count);
        }
        stop.store(true, Ordering::Release);
        assert!(linked > 0, "tables are linked");
    });
    db.close().unwrap();
}

/// Tables are shared by links: compactions, deletions and writes on either side must not show on the other.
#[test]
fn a_checkpoint_and_its_source_are_independent() {
    let (dir, copies) = (TestDir::new("separate"), TestDir::new("separate-copies"));
    let db = open(dir.path());
    fill(&db, 0..2000, 1);
    let then = content(&db);
    let target = copies.path().join("copy");
    db.checkpoint(&target).unwrap();
    assert_eq!(names_in(copies.path()), ["copy"], "nothing temporary is left");
    fill(&db, 0..2000, 2);
    db.compact_all().unwrap();
    let now = content(&db);
    assert_eq!(content_at(&target), then);
    // The copy is written to and compacted: the source must not notice.
    let copy = open(&target);
    fill(&copy, 500..1500, 3);
    copy.compact_all().unwrap();
    copy.close().unwrap();
    assert_eq!(content(&db), now);
    assert!(db.verify().unwrap().is_clean());
    // A checkpoint of a checkpoint, of an empty database, and of one with everything in memory.
    let copy = open(&target);
    copy.checkpoint(copies.path().join("second")).unwrap();
    assert_eq!(content_at(&copies.path().join("second")), content(&copy));
    copy.close().unwrap();
    db.close().unwrap();
    let empty = TestDir::new("empty");
    let db = open(empty.path());
    db.checkpoint(copies.path().join("empty")).unwrap();
    db.close().unwrap();
    assert_eq!(content_at(&copies.path().join("empty")).values().map(Vec::len).sum::<usize>(), 0);
}

/// A copy may lie on a medium that cannot be written, and has no lock file before its first open.
#[test]
fn a_checkpoint_opens_read_only_and_stays_as_it_is() {
    let dir = TestDir::new("read-only-checkpoint");
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    let db = open(&source);
    fill(&db, 0..500, 1);
    db.flush().unwrap();
    // These are in memtables alone when the checkpoint is made.
    fill(&db, 200..300, 2);
    let expected = content(&db);
    db.checkpoint(&copy).unwrap();
    fill(&db, 0..500, 3);
    let names = ["", "tables", "wal"].map(|folder| names_in(&copy.join(folder)));
    let read_only = || Options::default().keyspace_options(tiny()).read_only(true);
    for _ in 0..2 {
        let reader = Database::open_with(&copy, read_only()).unwrap();
        assert_eq!(content(&reader), expected);
        assert!(reader.verify().unwrap().is_clean());
        let refused = reader.open_keyspace("odd").unwrap().put(key(1), value(1, 4)).unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
        reader.close().unwrap();
        assert_eq!(["", "tables", "wal"].map(|folder| names_in(&copy.join(folder))), names);
    }
    assert_eq!(content_at(&copy), expected);
    db.close().unwrap();
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes directories behind the database's back")]
fn copies_never_overwrite_anything() {
    let (dir, copies) = (TestDir::new("occupied"), TestDir::new("occupied-copies"));
    let db = open(dir.path());
    fill(&db, 0..100, 1);
    std::fs::create_dir_all(copies.path().join("target/something")).unwrap();
    let error = db.checkpoint(copies.path().join("target")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains("not empty"), "{error}");
    assert!(db.checkpoint(dir.path()).is_err(), "onto itself");
    // An interrupted copy is recognised and replaced; an empty directory is a valid target.
    std::fs::create_dir_all(copies.path().join("third.esker-incomplete/tables")).unwrap();
    std::fs::write(copies.path().join("third.esker-incomplete.lock"), "").unwrap();
    std::fs::create_dir_all(copies.path().join("third")).unwrap();
    db.checkpoint(copies.path().join("third")).unwrap();
    assert_eq!(content_at(&copies.path().join("third")), content(&db));
    assert_eq!(names_in(copies.path()), ["target", "third"]);
    db.close().unwrap();
    assert!(matches!(db.checkpoint(copies.path().join("late")), Err(Error::Closed)));
}

#[test]
fn backups_share_unchanged_files_and_restore_their_own_state() {
    let (dir, store) = (TestDir::new("backup"), TestDir::new("backups"));
    let db = open(dir.path());
    let backups = Backups::new(store.path());
    assert!(matches!(backups.list(), Err(Error::NotFound(_))));
    fill(&db, 0..3000, 0);
    db.compact_all().unwrap();
    let mut moments = Vec::new();
    for round in 1..5 {
        moments.push(content(&db));
        let mut last = Default::default();
        let report = db.backup_with(&backups, |progress| last = progress).unwrap();
        assert_eq!((last.done_bytes, last.total_bytes), (report.bytes, report.bytes));
        assert_eq!(u64::from(report.id.get()), round);
        if round > 1 {
            assert!(report.copied_bytes * 3 < report.bytes, "{report:?}");
        } else {
            assert_eq!(report.copied_bytes, report.bytes);
        }
        // A hundredth of the keys, next to each other.
        fill(&db, 1000 + round * 30..1000 + round * 30 + 30, round);
    }
    db.close().unwrap();
    let listed = backups.list().unwrap();
    assert_eq!(listed.len(), 4);
    assert!(listed.iter().all(|backup| backup.entries >= 3000 && backup.tables > 0));
    let targets = TestDir::new("restored");
    for (backup, moment) in listed.iter().zip(&moments) {
        assert!(backups.verify(backup.id).unwrap().is_clean());
        let target = targets.path().join(backup.id.to_string());
        let report = backups.restore(backup.id, &target).unwrap();
        assert_eq!((report.bytes, report.seqno), (backup.bytes, backup.seqno));
        assert_eq!(&content_at(&target), moment, "backup {}", backup.id);
        assert!(backups.restore(backup.id, &target).is_err(), "it is there already");
    }
}

#[test]
fn retention_removes_files_of_removed_backups_only() {
    let (dir, store) = (TestDir::new("retention"), TestDir::new("retention-backups"));
    let db = open(dir.path());
    let backups = Backups::new(store.path());
    for round in 0..4 {
        fill(&db, 0..500, round);
        db.compact_all().unwrap();
        db.backup(&backups).unwrap();
    }
    let expected = content(&db);
    let before = names_in(&store.path().join("tables")).len();
    assert!(backups.retain(Retention::keep_within(Duration::from_secs(3600))).unwrap().is_empty());
    let removed = backups.retain(Retention::keep_last(1)).unwrap();
    assert_eq!(removed.iter().map(|backup| backup.id.get()).collect::<Vec<_>>(), [1, 2, 3]);
    let [left] = backups.list().unwrap().try_into().unwrap();
    let after = names_in(&store.path().join("tables")).len();
    assert_eq!(after as u64, left.tables, "before: {before}");
    assert!(after < before);
    assert!(backups.verify(left.id).unwrap().is_clean());
    // Numbering continues, and the tables that are left are found again.
    let report = db.backup(&backups).unwrap();
    assert_eq!((report.id.get(), report.copied_bytes), (5, 0));
    let target = TestDir::new("retention-restored");
    backups.restore(report.id, target.path()).unwrap();
    assert_eq!(content_at(target.path()), expected);
    db.close().unwrap();
}

/// Any flipped bit of any file of a backup is reported by name, and nothing is restored from it.
#[test]
fn damage_is_listed_and_never_restored() {
    let (dir, store) = (TestDir::new("backup-damage"), TestDir::new("damaged-backups"));
    let db = open(dir.path());
    fill(&db, 0..400, 1);
    let id = db.backup(&Backups::new(store.path())).unwrap().id;
    let pool: Vec<String> =
        names_in(&store.path().join("tables")).iter().map(|name| format!("tables/{name}")).collect();
    let own = names_in(&store.path().join("000001")).into_iter().map(|name| format!("000001/{name}"));
    for file in pool.into_iter().chain(own) {
        let copy = TestDir::new("damaged-backup");
        copy_tree(store.path(), copy.path());
        flip_a_bit(&copy.path().join(&file));
        let backups = Backups::new(copy.path());
        let found = backups.verify(id).unwrap();
        assert_eq!(found.damage.len(), 1, "{file}: {found:?}");
        let target = TestDir::new("never");
        let error = backups.restore(id, target.path()).unwrap_err();
        assert!(matches!(error, Error::Corruption(_)), "{file}: {error}");
        assert!(names_in(target.path()).is_empty(), "{file}: something was restored");
    }
    let missing = Backups::new(store.path()).verify("7".parse().unwrap()).unwrap_err();
    assert!(matches!(missing, Error::NotFound(_)) && missing.to_string().contains("000007"), "{missing}");
    // Backups of another database are refused.
    let other = TestDir::new("other-database");
    let stranger = open(other.path());
    let error = stranger.backup(&Backups::new(store.path())).unwrap_err();
    assert!(error.to_string().contains("another database"), "{error}");
}

/// Keys and values of every awkward shape, over several keyspaces, at one moment.
#[test]
fn an_export_has_the_entries_of_its_snapshot() {
    let (dir, other) = (TestDir::new("export"), TestDir::new("import"));
    let db = open(dir.path());
    fill(&db, 0..700, 1);
    let odd = db.open_keyspace("odd").unwrap();
    let far = UNIX_EPOCH + Duration::from_millis(u64::MAX - 9);
    odd.put(b"", b"").unwrap();
    odd.put([0xff; 300], vec![7; 700_000]).unwrap();
    odd.put([0, 0], (0..600_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    db.keyspace("empty").unwrap();
    odd.put_with(b"expires", b"later", Expiry::At(far)).unwrap();
    odd.put_with(b"expired", b"before", Expiry::At(UNIX_EPOCH + Duration::from_millis(1))).unwrap();
    let expected = content(&db);
    let keyspaces: Vec<_> = db.keyspaces().iter().map(|name| db.open_keyspace(name).unwrap()).collect();
    let mut bytes = Vec::new();
    let mut is_first = true;
    let report = db
        .export(&keyspaces, &mut bytes, |_| {
            // The export shows the moment at which it began, whatever is written during it.
            if std::mem::take(&mut is_first) {
                fill(&db, 0..700, 2);
                odd.delete(b"").unwrap();
            }
        })
        .unwrap();
    assert_eq!((report.keyspaces, report.written_bytes), (4, bytes.len() as u64));
    assert_eq!(report.entries, expected.values().map(Vec::len).sum::<usize>() as u64);
    let target = open(other.path());
    target.default_keyspace().put(b"already there", b"stays").unwrap();
    let imported = target.import(&mut bytes.as_slice(), |_| {}).unwrap();
    assert_eq!((imported.entries, imported.data_bytes), (report.entries, report.data_bytes));
    target.default_keyspace().delete(b"already there").unwrap();
    assert_eq!(content(&target), expected);
    // Expiry times are exported, whichever way a cursor reached the entry.
    let mut cursor = target.open_keyspace("odd").unwrap().cursor().unwrap();
    cursor.seek(b"expires").unwrap();
    assert_eq!((cursor.value(), cursor.expiry()), (Some(b"later".as_slice()), Some(far)));
    cursor.seek_to_last().unwrap();
    while cursor.key() != Some(b"expires".as_slice()) {
        assert_eq!(cursor.expiry(), None);
        cursor.retreat().unwrap();
    }
    assert_eq!(cursor.expiry(), Some(far));
    drop(cursor);
    assert_eq!(target.import(&mut bytes.as_slice(), |_| {}).unwrap(), imported, "importing again is safe");
    assert_eq!(content(&target), expected);
    // A stream cut anywhere is noticed.
    for end in (0..bytes.len()).step_by(bytes.len() / 97) {
        let error = esker::backup::check_export(&mut &bytes[..end], |_| {}).unwrap_err();
        assert!(matches!(error, Error::Corruption(_)), "cut at {end}: {error}");
    }
    target.close().unwrap();
    db.close().unwrap();
}
