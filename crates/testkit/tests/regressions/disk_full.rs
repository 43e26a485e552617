//! A full disk: which work stops, and which must go on.

use crate::simulated_env::{DIR, SEGMENT_BYTES, SimulatedEnv, live_tables, metrics_of, settle};
use esker::options::{Codec, PerLevel};
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker::{Database, Error, KeyspaceOptions, Options};
use std::sync::Arc;

/// Incompressible entries, in tables of their own size.
fn plain() -> KeyspaceOptions {
    KeyspaceOptions::default()
        .compression(PerLevel::all(Codec::None))
        .strategy("none".parse().unwrap())
        .write_buffer_size(600 << 10)
}

fn put_and_flush(db: &Database, round: u8) {
    for number in 0..1000u32 {
        db.default_keyspace().put(number.to_be_bytes(), [round; 100]).unwrap();
    }
    db.flush().unwrap();
}

/// Guards that the log pool deletes obsolete tables before it prepares a segment. In the other order a disk
/// that a compaction has filled stays full: no segment can be prepared, so nothing is deleted.
#[test]
fn obsolete_tables_are_deleted_although_no_segment_can_be_prepared() {
    for seed in 0..4 {
        let simulated = SimulatedEnv::new(seed);
        let options = || simulated.options().keyspace_options(plain());
        let db = Database::open_with(DIR, options()).unwrap();
        (0..6).for_each(|round| put_and_flush(&db, round));
        db.close().unwrap();
        drop(db);
        // After reopening no segment is ready yet, and none can be made.
        let db = Database::open_with(DIR, options()).unwrap();
        simulated.inject_faults(Fault::Full, Operation::Create, "wal/");
        settle(&db);
        assert!(db.metrics().background_errors.iter().any(|error| matches!(error, Error::Full(_))));
        db.compact_all().unwrap();
        assert!(
            simulated.files("tables").len() > live_tables(&db).len(),
            "the compaction made nothing obsolete"
        );
        // The disk is full now, and the pool runs once more.
        simulated.faults.heal();
        simulated.strict.set_capacity_bytes(Some(simulated.strict.used_bytes()));
        settle(&db);
        assert_eq!(simulated.files("tables"), live_tables(&db));
        assert!(db.metrics().background_errors.is_empty(), "{:?}", db.metrics().background_errors);
        // The freed space suffices for more than the segments that the pool keeps ready.
        let more = 4 * SEGMENT_BYTES / 100;
        for number in 0..more as u32 {
            db.default_keyspace().put(number.to_be_bytes(), [9; 100]).unwrap();
        }
    }
}

/// When not even a new manifest can be written, an edit that failed before its first byte leaves no doubt: no
/// manifest refers to its tables. Guards that they are deleted then, too; otherwise every attempt to flush
/// leaves its tables on a full disk. Those of an edit in doubt are deleted as soon as another manifest is
/// current.
#[test]
fn tables_of_refused_edits_do_not_pile_up() {
    let simulated = SimulatedEnv::new(1);
    let db = Database::open_with(DIR, simulated.options().keyspace_options(plain())).unwrap();
    put_and_flush(&db, 0);
    let before = simulated.files("tables");
    // The first failure leaves the manifest in doubt; then it can neither be used nor replaced.
    simulated.inject_faults(Fault::Io, Operation::Write, "MANIFEST");
    simulated.inject_faults(Fault::Full, Operation::Create, "MANIFEST");
    db.default_keyspace().put(b"more", [1; 100]).unwrap();
    let mut attempts = 0;
    while attempts < 20 {
        assert!(db.flush().is_err(), "the edit was written");
        attempts += 1;
        settle(&db);
        // The old manifest may name those of the first attempt, so they stay until a new one is current.
        let left = simulated.files("tables").len() - before.len();
        assert!(left <= 1, "{left} tables are left after {attempts} attempts");
    }
    assert_eq!(metrics_of(&db, "default").sealed_memtables, 1, "what could not be flushed is kept");
    simulated.faults.heal();
    // Still refused, but now the manifest is replaced, and the tables of the first attempt are no longer in
    // doubt.
    assert!(db.flush().is_err());
    db.flush().unwrap();
    settle(&db);
    assert_eq!(simulated.files("tables"), live_tables(&db));
    db.close().unwrap();
    let db = Database::open_with(DIR, simulated.options()).unwrap();
    assert_eq!(db.default_keyspace().iter().count(), 1001);
}

/// The converse: an edit whose sync failed may be in the old manifest, so the tables it names must be there
/// when that manifest is opened.
#[test]
fn tables_of_an_edit_in_doubt_stay_as_long_as_its_manifest_counts() {
    let simulated = SimulatedEnv::new(1);
    let db = Database::open_with(DIR, simulated.options().keyspace_options(plain())).unwrap();
    simulated.inject_faults(Fault::Io, Operation::SyncData, "MANIFEST");
    simulated.inject_faults(Fault::Full, Operation::Create, "MANIFEST");
    db.default_keyspace().put(b"key", b"value").unwrap();
    assert!(db.flush().is_err(), "the edit was synced");
    settle(&db);
    let found = simulated.crashed(Crash::Process);
    let db = Database::open_with(DIR, found.options()).unwrap();
    assert!(db.default_keyspace().contains(b"key").unwrap());
    assert!(db.verify().unwrap().is_clean());
}

/// Guards that jobs which fail while they write remove their files, however often they fail.
#[test]
fn tables_that_were_not_finished_do_not_pile_up() {
    for operation in [Operation::Write, Operation::SyncData, Operation::SyncDir] {
        let simulated = SimulatedEnv::new(2);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(plain())).unwrap();
        put_and_flush(&db, 0);
        put_and_flush(&db, 1);
        let before = simulated.files("tables");
        simulated.inject_faults(Fault::Io, operation, "tables");
        db.default_keyspace().put(b"more", [1; 100]).unwrap();
        for _ in 0..10 {
            assert!(db.flush().is_err() && db.compact_all().is_err(), "{operation:?}");
        }
        settle(&db);
        assert_eq!(simulated.files("tables"), before, "{operation:?}");
        simulated.faults.heal();
        db.compact_all().unwrap();
        settle(&db);
        assert_eq!(simulated.files("tables"), live_tables(&db), "{operation:?}");
    }
}

/// A failed sync of the log makes the database read-only, whatever a job has written by then. Guards that its
/// tables, which are complete but not installed, are deleted like unfinished ones.
#[test]
fn tables_of_jobs_that_a_poisoned_log_interrupts_are_deleted() {
    for compacts in [false, true] {
        let simulated = SimulatedEnv::new(4);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(plain())).unwrap();
        put_and_flush(&db, 0);
        put_and_flush(&db, 1);
        // Older than what is flushed below, so that the flush must sync the log first.
        db.keyspace("idle").unwrap().put(b"key", b"value").unwrap();
        if !compacts {
            db.default_keyspace().put(b"key", b"value").unwrap();
        }
        let before = simulated.files("tables");
        let (within, faults) = (db.clone(), simulated.faults.clone());
        simulated.faults.interrupt(Operation::Create, "tables/", move || {
            faults.add(Rule::new(Fault::LostSync, When::From(1)).on(Operation::SyncData).path("wal/"));
            assert!(!compacts || within.sync().is_err(), "the log was synced");
        });
        let keyspace = db.default_keyspace();
        let interrupted = if compacts { keyspace.compact(..) } else { keyspace.flush() };
        assert!(matches!(interrupted, Err(Error::ReadOnly { .. })), "{interrupted:?}");
        settle(&db);
        assert_eq!(simulated.files("tables"), before, "compacts: {compacts}");
    }
}

/// An open writes what it replays into tables, and may then find no space for the manifest that would name
/// them. Guards that it deletes them; otherwise every attempt fills the disk further, and no open reaches the
/// deletion of orphans.
#[test]
fn opens_that_fail_leave_no_tables_behind() {
    let simulated = SimulatedEnv::new(5);
    let db = Database::open_with(DIR, simulated.options().keyspace_options(plain()).flush_on_close(false))
        .unwrap();
    put_and_flush(&db, 0);
    for number in 0..1000u32 {
        db.default_keyspace().put(number.to_be_bytes(), [1; 100]).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let before = simulated.files("tables");
    for (fault, operation, path) in [
        (Fault::Full, Operation::Create, "MANIFEST"),
        (Fault::Full, Operation::Write, "MANIFEST"),
        (Fault::Io, Operation::SyncAll, "MANIFEST"),
        (Fault::Full, Operation::Create, "CURRENT"),
        (Fault::Io, Operation::Rename, "CURRENT"),
        (Fault::Full, Operation::Write, "tables/"),
        (Fault::Io, Operation::SyncDir, "tables"),
    ] {
        simulated.inject_faults(fault, operation, path);
        for _ in 0..3 {
            assert!(Database::open_with(DIR, simulated.options()).is_err(), "{operation:?} of {path}");
            assert_eq!(simulated.files("tables"), before, "{operation:?} of {path}");
        }
        simulated.faults.heal();
    }
    // Whether the last failure, the sync after the rename, left the new manifest in force is unknown: the
    // tables stay.
    simulated.faults.add(Rule::new(Fault::Io, When::Nth(3)).on(Operation::SyncDir).path(DIR));
    let opened = Database::open_with(DIR, simulated.options());
    assert!(
        opened.is_err() && simulated.files("tables").len() > before.len(),
        "{:?}",
        simulated.files("tables")
    );
    simulated.faults.heal();
    for crash in [Crash::PowerAllLost, Crash::PowerNoneLost, Crash::Process] {
        let db = Database::open_with(DIR, simulated.crashed(crash).options()).unwrap();
        assert_eq!(db.default_keyspace().iter().count(), 1000, "{crash:?}");
    }
}

/// Each write that is refused asks for the flush that would make room. Without a wait between the attempts a
/// client that tries again and again causes an attempt, and a line of the log, for each of its writes.
#[test]
fn refused_writes_do_not_each_cause_an_attempt() {
    const REFUSED: u64 = 5_000;
    for fault in [Fault::Full, Fault::Io] {
        let faults = FaultFs::over_strict(StrictFs::new());
        let env = Env { fs: Arc::new(faults.clone()), ..Env::real() };
        let options = Options::default().env(env).memory_budget(8 << 20);
        let db = Database::open_with(DIR, options.keyspace_options(plain())).unwrap();
        let put = |number: u64| db.default_keyspace().put(number.to_be_bytes(), [7; 4_000]);
        faults.add(Rule::new(fault, When::From(1)).on(Operation::Create).path("tables/"));
        let written = (0..).take_while(|number| put(*number).is_ok()).count() as u64;
        let before = faults.calls(Operation::Create);
        for number in 0..REFUSED {
            let refused = put(written + number).unwrap_err();
            assert!(matches!(refused, Error::Full(_) | Error::Io(_)), "{refused}");
        }
        let attempts = faults.calls(Operation::Create) - before;
        assert!(attempts < REFUSED / 10, "{attempts} attempts for {REFUSED} refused writes");
        // With room again the writes go on, without any call for it.
        faults.heal();
        while put(written).is_err() {
            std::thread::yield_now();
        }
        // The write may have found room before the flush was tried again; the drain tries it.
        db.drain().unwrap();
        assert_eq!(db.default_keyspace().iter().count() as u64, written + 1);
        db.close().unwrap();
    }
}
