//! A full disk: what it keeps from happening, and what must happen all the same.

use crate::world::{DIR, SEGMENT_BYTES, World, live_tables, metrics_of, settle};
use esker::parts::env::fault::{Crash, Fault, Operation};
use esker::{Codec, Database, Error, KeyspaceOptions, PerLevel};

/// Entries that no codec makes smaller, in tables of their own size.
fn plain() -> KeyspaceOptions {
    KeyspaceOptions::default()
        .compression(PerLevel::all(Codec::None))
        .strategy("none".parse().unwrap())
        .write_buffer_size(600 << 10)
}

fn put_and_flush(db: &Database, round: u8) {
    for number in 0..1000u32 {
        db.put(number.to_be_bytes(), [round; 100]).unwrap();
    }
    db.flush().unwrap();
}

/// Guards that the log lane deletes obsolete tables before it prepares a segment. In the other order a disk that a compaction
/// had filled stayed full for good: no segment could be prepared, so nothing was deleted, so no segment could be prepared.
#[test]
fn obsolete_tables_are_deleted_although_no_segment_can_be_prepared() {
    for seed in 0..4 {
        let world = World::new(seed);
        let options = || world.options().keyspace_options(plain());
        let db = options().open(DIR).unwrap();
        (0..6).for_each(|round| put_and_flush(&db, round));
        db.close().unwrap();
        drop(db);
        // In a new life no segment is ready yet, and none can be made.
        let db = options().open(DIR).unwrap();
        world.break_down(Fault::Full, Operation::Create, "wal/");
        settle(&db);
        assert!(db.metrics().background_errors.iter().any(|error| matches!(error, Error::Full(_))));
        db.compact_all().unwrap();
        assert!(world.files("tables").len() > live_tables(&db).len(), "the compaction made nothing obsolete");
        // The disk is full now, and the lane works once more.
        world.faults.heal();
        world.strict.set_capacity_bytes(Some(world.strict.used_bytes()));
        settle(&db);
        assert_eq!(world.files("tables"), live_tables(&db));
        assert!(db.metrics().background_errors.is_empty(), "{:?}", db.metrics().background_errors);
        // The space that came back is enough to go on with: for more than the segments that the lane keeps ready.
        let more = 4 * SEGMENT_BYTES / 100;
        for number in 0..more as u32 {
            db.put(number.to_be_bytes(), [9; 100]).unwrap();
        }
    }
}

/// When not even a new manifest can be written, an edit that was refused before a byte of it was written leaves no
/// doubt: its tables are referred to by nobody. Guards that they are deleted then, too; without it every attempt to flush left its
/// tables behind, on a disk that was full already. Those of an edit in doubt go as soon as another manifest counts.
#[test]
fn tables_of_refused_edits_do_not_pile_up() {
    let world = World::new(1);
    let db = world.options().keyspace_options(plain()).open(DIR).unwrap();
    put_and_flush(&db, 0);
    let before = world.files("tables");
    // The first failure leaves the manifest in doubt; then it can neither be used nor replaced.
    world.break_down(Fault::Io, Operation::Write, "MANIFEST");
    world.break_down(Fault::Full, Operation::Create, "MANIFEST");
    db.put(b"more", [1; 100]).unwrap();
    let mut attempts = 0;
    while attempts < 20 {
        assert!(db.flush().is_err(), "the edit was written");
        attempts += 1;
        settle(&db);
        // Those of the first attempt may be named by the old manifest, so they stay until a new one counts.
        let left = world.files("tables").len() - before.len();
        assert!(left <= 1, "{left} tables are left after {attempts} attempts");
    }
    assert_eq!(metrics_of(&db, "default").sealed_memtables, 1, "what could not be flushed is kept");
    world.faults.heal();
    // Still refused, but now the manifest is replaced, and the tables of the first attempt are in doubt no longer.
    assert!(db.flush().is_err());
    db.flush().unwrap();
    settle(&db);
    assert_eq!(world.files("tables"), live_tables(&db));
    db.close().unwrap();
    let db = world.options().open(DIR).unwrap();
    assert_eq!(db.default_keyspace().iter().count(), 1001);
}

/// The other side of the same: an edit whose sync failed may be found in the old manifest, so the tables it names must be
/// there for whoever opens that.
#[test]
fn tables_of_an_edit_in_doubt_stay_as_long_as_its_manifest_counts() {
    let world = World::new(1);
    let db = world.options().keyspace_options(plain()).open(DIR).unwrap();
    world.break_down(Fault::Io, Operation::SyncData, "MANIFEST");
    world.break_down(Fault::Full, Operation::Create, "MANIFEST");
    db.put(b"key", b"value").unwrap();
    assert!(db.flush().is_err(), "the edit was synced");
    settle(&db);
    let found = world.crashed(Crash::Process);
    let db = found.options().open(DIR).unwrap();
    assert!(db.contains(b"key").unwrap());
    assert!(db.verify().unwrap().is_clean());
}

/// Guards that jobs which fail while they write clean up after themselves, however often they fail.
#[test]
fn tables_that_were_not_finished_do_not_pile_up() {
    for operation in [Operation::Write, Operation::SyncData, Operation::SyncDir] {
        let world = World::new(2);
        let db = world.options().keyspace_options(plain()).open(DIR).unwrap();
        put_and_flush(&db, 0);
        put_and_flush(&db, 1);
        let before = world.files("tables");
        world.break_down(Fault::Io, operation, "tables");
        db.put(b"more", [1; 100]).unwrap();
        for _ in 0..10 {
            assert!(db.flush().is_err() && db.compact_all().is_err(), "{operation:?}");
        }
        settle(&db);
        assert_eq!(world.files("tables"), before, "{operation:?}");
        world.faults.heal();
        db.compact_all().unwrap();
        settle(&db);
        assert_eq!(world.files("tables"), live_tables(&db), "{operation:?}");
    }
}
