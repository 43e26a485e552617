//! Opening: what must be durable afterwards, and which calls it must not make.

use crate::simulated_env::{SimulatedEnv, settle};
use esker::parts::env::FileSystem;
use esker::parts::env::fault::{Crash, Fault, Operation, StrictFs};
use esker::{Database, Durability, Error};
use std::path::Path;

/// No part of this path exists at first.
const NESTED: &str = "/data/of/many/tenants/db";

fn put_durably(db: &Database, key: &[u8]) {
    db.default_keyspace().put_with(key, b"value", Durability::Power).unwrap();
}

/// Durable data are lost with any directory above them whose name was not durable. Guards that creating a
/// database makes all names above it durable, not only the parent's.
#[test]
fn a_database_in_a_path_that_was_made_for_it_survives_a_power_cut() {
    for (path, there) in [(NESTED, "/"), (NESTED, "/data/of"), ("/db", "/"), ("relative/db", "/")] {
        let simulated = SimulatedEnv::new(1);
        simulated.strict.create_dir_all(Path::new(there)).unwrap();
        let db = Database::open_with(path, simulated.options()).unwrap();
        put_durably(&db, b"durable");
        let simulated = simulated.crashed(Crash::PowerAllLost);
        let db = Database::open_with(path, simulated.options()).unwrap();
        assert!(db.default_keyspace().contains(b"durable").unwrap(), "{path}, of which {there} was there");
    }
}

/// A process killed during the creation of a database leaves directories that exist but are not durable, and
/// nothing distinguishes them from durable ones. Guards that the next open syncs them all the same.
#[test]
fn a_database_whose_creation_was_interrupted_survives_a_power_cut_after_the_next_open() {
    let simulated = SimulatedEnv::over(StrictFs::new(), 1);
    Database::open_with(NESTED, simulated.options()).unwrap();
    let events = simulated.strict.trace_len();
    let mut replayer = simulated.strict.replayer();
    for cut in 0..=events {
        replayer.advance_to(cut);
        let killed = SimulatedEnv::over(replayer.image(Crash::Process), 2);
        let db = Database::open_with(NESTED, killed.options()).unwrap();
        put_durably(&db, b"durable");
        let cut_off = killed.crashed(Crash::PowerAllLost);
        let opened = Database::open_with(NESTED, cut_off.options().create_if_missing(false));
        let db = opened.unwrap_or_else(|error| panic!("killed after event {cut} of {events}: {error}"));
        assert!(db.default_keyspace().contains(b"durable").unwrap(), "killed after event {cut} of {events}");
    }
}

/// Guards that an open after a clean close waits for no sync of the device, and that later durability holds
/// all the same: the first sync of the log also makes durable what the open did not. Six syncs in a row take
/// 9 ms.
#[test]
fn an_open_after_a_clean_close_waits_for_no_flush_of_the_device() {
    let syncs = |simulated: &SimulatedEnv| -> u64 {
        let operations = Operation::ALL.into_iter().filter(|operation| operation.is_sync());
        operations.map(|operation| simulated.faults.calls(operation)).sum()
    };
    let mut simulated = SimulatedEnv::new(4);
    for round in 0..4u8 {
        let db = Database::open_with("/db", simulated.options()).unwrap();
        // Manifest, directory, CURRENT, directory, and what was replayed.
        assert!(syncs(&simulated) >= 4, "round {round}: an open after a crash believes nothing");
        assert_eq!(db.default_keyspace().iter().count(), usize::from(round));
        if round != 2 {
            db.default_keyspace().put([round, 0], b"merely written").unwrap();
            db.default_keyspace().delete([round, 0]).unwrap();
        }
        put_durably(&db, &[round]);
        settle(&db);
        db.close().unwrap();
        drop(db);
        // A cleanly closed database does not depend on what was not synced.
        let crash = if round % 2 == 0 { Crash::Process } else { Crash::PowerNoneLost };
        simulated = simulated.crashed(crash);
        let db = Database::open_with("/db", simulated.options()).unwrap();
        assert_eq!(syncs(&simulated), 0, "round {round}");
        put_durably(&db, &[round]);
        simulated = simulated.crashed(Crash::PowerAllLost);
    }
}

/// A write-protected medium: every call that changes something fails.
fn write_protect(simulated: &SimulatedEnv) {
    let changing = Operation::ALL.into_iter().filter(|operation| operation.is_change());
    changing.for_each(|operation| simulated.inject_faults(Fault::Io, operation, ""));
}

/// Guards that a read-only open of a directory without a lock file, such as a copy on a write-protected
/// medium, creates no lock file. With a lock file it takes a shared lock. In neither case it changes
/// anything.
#[test]
fn a_read_only_open_changes_nothing_and_needs_no_lock_file() {
    for (flushed, has_lock) in [(true, true), (true, false), (false, true), (false, false)] {
        let simulated = SimulatedEnv::over(StrictFs::new(), 3);
        let db = Database::open_with("/db", simulated.options().flush_on_close(flushed)).unwrap();
        for number in 0..1000u32 {
            db.default_keyspace().put(number.to_be_bytes(), [1; 50]).unwrap();
        }
        settle(&db);
        db.close().unwrap();
        drop(db);
        if !has_lock {
            simulated.strict.remove_file(Path::new("/db/LOCK")).unwrap();
            // Without a lock file no call may take a lock, which might create it.
            simulated.inject_faults(Fault::Io, Operation::Lock, "");
        }
        write_protect(&simulated);
        let events = simulated.strict.trace_len();
        let open = || Database::open_with("/db", simulated.options().read_only(true));
        let (db, second) = (open().unwrap(), open().unwrap());
        assert_eq!(db.default_keyspace().iter().count(), 1000);
        assert!(matches!(db.default_keyspace().put(b"key", b"value"), Err(Error::ReadOnly { .. })));
        settle(&db);
        db.close().unwrap();
        second.close().unwrap();
        drop((db, second));
        assert_eq!(
            (simulated.faults.injected(), simulated.strict.trace_len()),
            (0, events),
            "something was changed"
        );
    }
}
