//! A copy has one maker: of calls that copy to one place at once, one makes the copy, and the others say so
//! and touch nothing. It stays in the directory in which it was begun, whatever the path means later.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![allow(clippy::disallowed_methods, reason = "the test looks and moves behind the database's back")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::backup::{BackupId, Backups};
use esker::{Database, Error, Options};
use std::fs;
use std::path::Path;
use std::sync::Barrier;

const ENTRIES: u64 = 300;

fn open(path: &Path) -> Database {
    Database::open_with(path, Options::default().keyspace_options(tiny())).unwrap()
}

fn filled(path: &Path) -> Database {
    let db = open(path);
    for number in 0..ENTRIES {
        db.default_keyspace().put(key(number), value(number, 1)).unwrap();
    }
    db.compact_all().unwrap();
    db
}

fn check(path: &Path) {
    let db = open(path);
    assert!(db.verify().unwrap().is_clean());
    let found: Vec<_> = db.default_keyspace().iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(found.len() as u64, ENTRIES);
    for (number, entry) in (0..).zip(found) {
        assert_eq!((&*entry.0, &*entry.1), (&*key(number), &*value(number, 1)));
    }
    db.close().unwrap();
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Says that another call is at it, or that it has finished.
fn is_fair_refusal(error: &Error) -> bool {
    match error {
        Error::Locked { owner, .. } => owner.contains("this process"),
        Error::InvalidArgument(why) => why.to_string().contains("not empty"),
        _ => false,
    }
}

#[test]
fn of_copies_to_one_target_one_is_made() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 60;
    let (dir, copies, store) = (TestDir::new("owner"), TestDir::new("owned"), TestDir::new("owner-backups"));
    let db = filled(dir.path());
    let backups = Backups::new(store.path());
    let id = db.backup(&backups).unwrap().id;
    let target = copies.path().join("copy");
    for round in 0..ROUNDS {
        let begin = Barrier::new(THREADS);
        let make = |thread: usize| {
            begin.wait();
            match (round + thread) % 3 {
                0 => db.checkpoint(&target).map(drop),
                _ => backups.restore(id, &target).map(drop),
            }
        };
        let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || make(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(made, 1, "round {round}: {outcomes:?}");
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(is_fair_refusal(error), "round {round}: {error}");
        }
        assert_eq!(names_in(copies.path()), ["copy"], "round {round}");
        check(&target);
        fs::remove_dir_all(&target).unwrap();
    }
    db.close().unwrap();
}

#[test]
fn what_meets_a_copy_in_its_middle_is_told_who_makes_it() {
    let (dir, copies, store) = (TestDir::new("met"), TestDir::new("met-copies"), TestDir::new("met-backups"));
    let db = filled(dir.path());
    let backups = Backups::new(store.path());
    let id = db.backup(&backups).unwrap().id;
    let target = copies.path().join("copy");
    for kind in ["checkpoint", "restore"] {
        let mut refusals = Vec::new();
        let mut told = |_| {
            if refusals.is_empty() {
                refusals.push(db.checkpoint(&target).unwrap_err());
                refusals.push(backups.restore(id, &target).unwrap_err());
            }
        };
        match kind {
            "checkpoint" => drop(db.checkpoint_with(&target, &mut told).unwrap()),
            _ => drop(backups.restore_with(id, &target, &mut told).unwrap()),
        }
        assert_eq!(refusals.len(), 2, "{kind}");
        for error in refusals {
            assert!(matches!(error, Error::Locked { .. }) && is_fair_refusal(&error), "{kind}: {error}");
        }
        assert_eq!(names_in(copies.path()), ["copy"], "{kind}");
        check(&target);
        fs::remove_dir_all(&target).unwrap();
    }
    db.close().unwrap();
}

/// Backups, removals, verification and restores in one directory, by several threads: each is done whole or
/// refused, and what is listed is complete.
#[test]
fn a_directory_of_backups_is_changed_by_one_call_at_a_time() {
    let (dir, store, copies) =
        (TestDir::new("changed"), TestDir::new("changed-backups"), TestDir::new("changed-copies"));
    let db = filled(dir.path());
    let backups = Backups::new(store.path());
    let first = db.backup(&backups).unwrap().id;
    fs::create_dir_all(copies.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, backups, copies) = (&db, &backups, copies.path());
            scope.spawn(move || {
                for round in 0..12 {
                    let done = match thread {
                        0 => db.backup(backups).map(drop),
                        1 => backups.retain(esker::backup::Retention::keep_last(2)).map(drop),
                        _ => restore_newest(backups, &copies.join(format!("{round}"))),
                    };
                    let refused = done
                        .as_ref()
                        .err()
                        .is_none_or(|error| matches!(error, Error::Locked { .. }) || error.is_not_found());
                    assert!(refused, "{done:?}");
                }
            });
        }
    });
    for backup in backups.list().unwrap() {
        assert!(backups.verify(backup.id).unwrap().is_clean());
        assert!(backup.id >= first);
    }
    names_in(copies.path()).iter().for_each(|name| check(&copies.path().join(name)));
    db.close().unwrap();
}

fn restore_newest(backups: &Backups, target: &Path) -> Result<(), Error> {
    let newest: Option<BackupId> = backups.list()?.last().map(|backup| backup.id);
    newest.map_or(Ok(()), |id| backups.restore(id, target).map(drop))
}

/// Another directory takes the name of the one in which the copy is being made: the copy arrives where it was
/// begun, and the other one is not touched.
#[test]
#[cfg(unix)]
fn a_copy_stays_in_its_directory() {
    let (dir, area) = (TestDir::new("moving"), TestDir::new("moving-area"));
    let db = filled(dir.path());
    let place = |name: &str| area.path().join(name);
    let swap = |from: &str| {
        fs::rename(place(from), place("moved")).unwrap();
        fs::create_dir_all(place(from).join("copy.esker-incomplete")).unwrap();
        fs::write(place(from).join("copy.esker-incomplete/other"), "of another").unwrap();
    };
    let check_swapped = |from: &str| {
        assert_eq!(fs::read(place(from).join("copy.esker-incomplete/other")).unwrap(), b"of another");
        assert_eq!(names_in(&place(from)), ["copy.esker-incomplete"]);
        fs::remove_dir_all(place(from)).unwrap();
    };
    for kind in ["checkpoint", "restore"] {
        fs::create_dir_all(place("copies")).unwrap();
        let backups = Backups::new(place("backups"));
        let mut is_first = true;
        let mut told = |_| {
            if std::mem::take(&mut is_first) {
                swap("copies");
            }
        };
        match kind {
            "checkpoint" => drop(db.checkpoint_with(place("copies").join("copy"), &mut told).unwrap()),
            _ => {
                let id = db.backup(&backups).unwrap().id;
                backups.restore_with(id, place("copies").join("copy"), &mut told).unwrap();
            }
        }
        assert_eq!(names_in(&place("moved")), ["copy"], "{kind}");
        check(&place("moved/copy"));
        check_swapped("copies");
        fs::remove_dir_all(place("moved")).unwrap();
    }
    // The directory of backups itself.
    let mut is_first = true;
    let report = db.backup_with(&Backups::new(place("more-backups")), |_| {
        if std::mem::take(&mut is_first) {
            swap("more-backups");
        }
    });
    check_swapped("more-backups");
    assert!(Backups::new(place("moved")).verify(report.unwrap().id).unwrap().is_clean());
    db.close().unwrap();
}

/// The database is renamed, and another one takes its name: a backup is one of the database.
#[test]
#[cfg(unix)]
fn a_backup_is_read_from_the_database_and_not_from_its_path() {
    let (area, store) = (TestDir::new("renamed-source"), TestDir::new("renamed-source-backups"));
    let db = filled(&area.path().join("data"));
    fs::rename(area.path().join("data"), area.path().join("moved")).unwrap();
    let other = open(&area.path().join("data"));
    other.default_keyspace().put("other", "other").unwrap();
    other.flush().unwrap();
    let backups = Backups::new(store.path());
    let id = db.backup(&backups).unwrap().id;
    backups.restore(id, area.path().join("restored")).unwrap();
    check(&area.path().join("restored"));
    other.close().unwrap();
    db.close().unwrap();
}
