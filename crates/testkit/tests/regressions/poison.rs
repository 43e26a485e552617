//! A database that has become read-only accepts no further write.

use crate::simulated_env::{DIR, SimulatedEnv};
use esker::Database;
use esker::Error;
use esker::parts::env::fault::{Fault, Operation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Between a write's first check of the database state and its commit, a sync of the log by another thread
/// may fail. Guards the second check under the commit lock (CP5): otherwise the write is acknowledged, and
/// made visible, by a read-only database.
#[test]
fn a_write_that_passed_the_first_check_is_not_acknowledged_after_the_log_is_poisoned() {
    for mapped in [true, false] {
        let simulated = SimulatedEnv::new(1);
        let db = Database::open_with(DIR, simulated.options().mapped_log(mapped)).unwrap();
        db.default_keyspace().put(b"before", b"1").unwrap();
        simulated.inject_faults(Fault::LostSync, Operation::SyncData, "wal/");
        // The preparation of a large batch's segment lies between the two checks.
        let happened = Arc::new(AtomicBool::new(false));
        let (within, faults, flag) = (db.clone(), simulated.faults.clone(), Arc::clone(&happened));
        simulated.faults.interrupt(Operation::Create, "wal/", move || {
            assert!(within.sync().is_err(), "the log was flushed");
            // So that preparing the segment itself succeeds.
            faults.heal();
            flag.store(true, Ordering::Relaxed);
        });
        let refused = db.default_keyspace().put(b"large", vec![5; 100_000]);
        assert!(happened.load(Ordering::Relaxed), "nothing interrupted the write");
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
        assert!(db.default_keyspace().get(b"large").unwrap().is_none(), "what was refused is visible");
        assert!(db.default_keyspace().get(b"before").unwrap().is_some(), "reads go on");
        assert!(db.close().is_err(), "a successful close means that everything is durable");
        drop(db);
        let db = Database::open_with(DIR, simulated.options()).unwrap();
        assert!(db.default_keyspace().get(b"before").unwrap().is_some());
        assert!(db.default_keyspace().get(b"large").unwrap().is_none(), "what was refused came back");
    }
}
