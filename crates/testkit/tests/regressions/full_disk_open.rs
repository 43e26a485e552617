//! Opening on a full disk: files that no state needs make room, and without any the error says how much is
//! missing.

use crate::simulated_env::{BUDGET_BYTES, DIR, SimulatedEnv, settle};
use esker::options::{Codec, PerLevel};
use esker::parts::env::fault::{Crash, Fault, Operation, Rule, StrictFs, When};
use esker::parts::env::{FileSystem, OpenMode};
use esker::{Database, Error, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

const ROUNDS: u32 = 4;
/// Entries of a round; one more round stays in the log.
const ENTRIES: u32 = 400;
const VALUE_BYTES: usize = 200;
/// Bytes of a table that no manifest names.
const LEFT_OVER_BYTES: usize = 1 << 20;

fn options(simulated: &SimulatedEnv) -> Options {
    let plain = KeyspaceOptions::default().compression(PerLevel::all(Codec::None));
    simulated.options().keyspace_options(plain)
}

fn put_round(db: &Database, round: u32) {
    for number in round * ENTRIES..(round + 1) * ENTRIES {
        db.default_keyspace().put(number.to_be_bytes(), [round as u8; VALUE_BYTES]).unwrap();
    }
}

fn check(db: &Database, when: &str) {
    for number in 0..(ROUNDS + 1) * ENTRIES {
        let found = db.default_keyspace().get(number.to_be_bytes()).unwrap();
        let round = (number / ENTRIES) as u8;
        assert!(found.is_some_and(|found| *found == [round; VALUE_BYTES]), "{when}: entry {number} is lost");
    }
    assert!(db.verify().unwrap().is_clean(), "{when}");
}

/// A database that was killed with rounds in tables, one in the log, and released segments beside it.
fn killed(seed: u64) -> SimulatedEnv {
    let simulated = SimulatedEnv::over(StrictFs::new(), seed);
    let db = Database::open_with(DIR, options(&simulated)).unwrap();
    for round in 0..ROUNDS {
        put_round(&db, round);
        db.flush().unwrap();
        settle(&db);
    }
    put_round(&db, ROUNDS);
    db.sync().unwrap();
    simulated.crashed(Crash::Process)
}

fn fill_disk(simulated: &SimulatedEnv) {
    simulated.strict.set_capacity_bytes(Some(simulated.strict.used_bytes()));
}

/// A table that a killed job left, with a number that the manifest does not count.
fn leave_table(simulated: &SimulatedEnv) -> PathBuf {
    let path = Path::new(DIR).join("tables/000900.sst");
    let file = simulated.strict.open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(&vec![7; LEFT_OVER_BYTES], 0).unwrap();
    path
}

fn check_after_cuts(opened: &SimulatedEnv) {
    let mut replayer = opened.strict.replayer();
    let events = opened.strict.trace_len();
    for cut in 0..=events {
        replayer.advance_to(cut);
        for crash in [
            Crash::Process,
            Crash::PowerAllLost,
            Crash::PowerNoneLost,
            Crash::PowerRandom { seed: cut as u64 },
        ] {
            let found = SimulatedEnv::over(replayer.image(crash), cut as u64);
            found.strict.set_capacity_bytes(None);
            let db = Database::open_with(DIR, options(&found));
            let db = db.unwrap_or_else(|error| panic!("{crash:?} after event {cut} of {events}: {error}"));
            check(&db, &format!("{crash:?} after event {cut} of {events}"));
        }
    }
}

/// Segments that were released or prepared make room, and so does a table that no manifest names.
#[test]
fn an_open_on_a_full_disk_deletes_what_is_not_needed_and_goes_on() {
    for seed in 0..3 {
        let simulated = killed(seed);
        let left = leave_table(&simulated);
        fill_disk(&simulated);
        simulated.strict.forget_trace();
        let db = Database::open_with(DIR, options(&simulated)).unwrap();
        assert_eq!(simulated.strict.file_len(&left).unwrap(), None);
        check(&db, "on a full disk");
        drop(db);
        check_after_cuts(&simulated);
    }
}

/// A number is not given twice, whatever became of its file: here the open that deleted it was killed.
#[test]
fn numbers_of_files_that_made_room_are_not_used_again() {
    let simulated = killed(7);
    leave_table(&simulated);
    fill_disk(&simulated);
    let mut killed_while_opening = None;
    simulated.strict.forget_trace();
    Database::open_with(DIR, options(&simulated)).unwrap();
    let mut replayer = simulated.strict.replayer();
    for cut in 0..=simulated.strict.trace_len() {
        replayer.advance_to(cut);
        let image = replayer.image(Crash::Process);
        if image.file_len(&Path::new(DIR).join("tables/000900.sst")).unwrap().is_none() {
            killed_while_opening = Some(image);
            break;
        }
    }
    let found = SimulatedEnv::over(killed_while_opening.expect("the file is deleted"), 8);
    found.strict.set_capacity_bytes(None);
    let db = Database::open_with(DIR, options(&found)).unwrap();
    put_round(&db, ROUNDS);
    db.flush().unwrap();
    let number = |name: &String| name.split('.').next().unwrap().parse::<u64>().unwrap();
    let greatest = found.files("tables").iter().map(number).max();
    assert!(greatest > Some(900), "the number was given again: {greatest:?}");
}

/// Without anything to delete the error says how much room an open needs, and that is enough; meanwhile
/// everything can be read.
#[test]
fn an_open_without_room_says_how_much_it_needs() {
    let simulated = killed(1);
    // A second open that is killed leaves nothing to delete.
    let db = Database::open_with(DIR, options(&simulated)).unwrap();
    settle(&db);
    put_round(&db, ROUNDS);
    db.sync().unwrap();
    let simulated = simulated.crashed(Crash::Process);
    for segment in simulated.files("wal") {
        // Prepared ones are empty.
        let path = Path::new(DIR).join("wal").join(segment);
        let file = simulated.strict.open(&path, OpenMode::Read).unwrap();
        let mut header = [0; 4096];
        file.read_exact_at(&mut header, 0).unwrap();
        if header.iter().all(|byte| *byte == 0) {
            simulated.strict.remove_file(&path).unwrap();
        }
    }
    fill_disk(&simulated);
    let files = [simulated.files(""), simulated.files("tables"), simulated.files("wal")];
    let refused = Database::open_with(DIR, options(&simulated)).unwrap_err();
    assert!(matches!(refused, Error::Full(_)), "{refused}");
    assert_eq!(files, [simulated.files(""), simulated.files("tables"), simulated.files("wal")]);
    let text = refused.to_string();
    let missing = text.split("Free ").nth(1).and_then(|rest| rest.split(' ').next());
    let missing: u64 = missing.unwrap_or_else(|| panic!("no number in {text}")).parse().unwrap();
    assert!(missing < BUDGET_BYTES / 4, "{text}");
    let reading = Database::open_with(DIR, options(&simulated).read_only(true)).unwrap();
    check(&reading, "read-only");
    drop(reading);
    simulated.strict.set_capacity_bytes(Some(simulated.strict.used_bytes() + missing));
    check(&Database::open_with(DIR, options(&simulated)).unwrap(), "with room");
}

/// The call that finds no room may be any; then room is freed, and nothing that was acknowledged is lost.
#[test]
fn no_room_at_any_call_of_an_open_loses_nothing() {
    const GROWTH: [Operation; 5] =
        [Operation::Create, Operation::CreateDir, Operation::Write, Operation::SetLen, Operation::Allocate];
    for when in [When::Nth, When::From] {
        for number in 1.. {
            let simulated = killed(number);
            leave_table(&simulated);
            let rule = Rule::new(Fault::Full, when(number));
            simulated.faults.add(GROWTH.into_iter().fold(rule, Rule::on));
            match Database::open_with(DIR, options(&simulated)) {
                Ok(db) => check(&db, "although a call found no room"),
                Err(error) => assert!(matches!(error, Error::Full(_)), "{error}"),
            }
            if simulated.faults.injected() == 0 {
                break;
            }
            simulated.faults.heal();
            let simulated = simulated.crashed(Crash::PowerAllLost);
            check(&Database::open_with(DIR, options(&simulated)).unwrap(), "after room was freed");
        }
    }
}

/// Copies every file of a database, as a backup program does: without the extents behind the ends of files.
fn copied(simulated: &SimulatedEnv) -> SimulatedEnv {
    let copy = SimulatedEnv::new(1);
    for dir in ["", "tables", "wal"] {
        copy.strict.create_dir_all(&Path::new(DIR).join(dir)).unwrap();
        for name in simulated.files(dir) {
            let path = Path::new(DIR).join(dir).join(name);
            let mut bytes = vec![0; simulated.strict.file_len(&path).unwrap().unwrap() as usize];
            simulated.strict.open(&path, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
            copy.strict.open(&path, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
        }
    }
    copy
}

/// A manifest that is gone on with has room ahead, too. Guards that on a disk which fills up later an edit
/// that frees space still fits.
#[test]
fn a_resumed_manifest_has_room_for_edits_that_free_space() {
    let simulated = SimulatedEnv::new(1);
    let db = Database::open_with(DIR, options(&simulated)).unwrap();
    let names: Vec<String> =
        (0..40).map(|number| format!("a keyspace with a rather long name {number}")).collect();
    for name in &names {
        db.keyspace(name).unwrap().put("key", "value").unwrap();
    }
    db.close().unwrap();
    drop(db);
    let copy = copied(&simulated);
    let db = Database::open_with(DIR, options(&copy)).unwrap();
    fill_disk(&copy);
    for name in &names {
        // The edit of a drop is larger than nothing, and 40 of them than the rest of a page.
        db.drop_keyspace(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
