//! Each event, and its figures beside those that the database reports.

use super::common::{TestDir, key, tiny, value};
use super::{fill, open_stepped, open_threaded, wait_for, watched};
use esker::backup::Backups;
use esker::events::{CopyKind, Event, FileKind, FileReason, PlanKind, Reason, WorkKind};
use esker::metrics::{PressureCause, WriteState};
use esker::parts::StepBackground;
use esker::parts::env::fault::{Fault, Operation, Rule, When};
use esker::{Database, Durability, Error, KeyspaceOptions};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};

/// The events of a database, which this closes.
fn all_of(db: &Database, events: &Receiver<Event>) -> Vec<Event> {
    db.close().unwrap();
    events.try_iter().collect()
}

#[test]
fn a_flush_tells_what_it_writes() {
    let (options, events) = watched();
    let (db, _) = open_stepped(options);
    let keyspace = db.keyspace_with("k", KeyspaceOptions::default()).unwrap();
    for number in 0..500 {
        keyspace.put(key(number), value(number, 0)).unwrap();
    }
    keyspace.flush().unwrap();
    let metrics = db.metrics().keyspaces.pop().unwrap();
    let level = db.levels().pop().unwrap().levels.remove(0);
    let table = level.runs[0].tables[0].clone();
    let events = all_of(&db, &events);
    let [Event::KeyspaceCreated(created), begun, changed, ended] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((&*created.name, created.id), ("k", keyspace.id()));
    assert!(events.iter().all(|event| event.keyspace() == Some(created)));
    let Event::FlushBegun(begun) = begun else { panic!("{begun:?}") };
    assert_eq!((begun.memtables, begun.payload_bytes), (1, metrics.user_bytes));
    let Event::FilesChanged { reason, created, deleted, .. } = changed else { panic!("{changed:?}") };
    assert_eq!((*reason, created.len(), deleted.len()), (FileReason::Flush, 1, 0));
    assert_eq!((created[0].number, created[0].kind), (table.file, FileKind::Table));
    assert_eq!((created[0].level, created[0].bytes), (Some(level.number), metrics.flushed_bytes));
    let Event::FlushEnded { job, result: Ok(output), .. } = ended else { panic!("{ended:?}") };
    assert_eq!((job, &output.tables), (begun, &vec![table.file]));
    assert_eq!((output.table_bytes, output.entries), (table.bytes, 500));
}

#[test]
fn a_compaction_tells_its_inputs_and_outputs() {
    let (options, events) = watched();
    let (db, _) = open_stepped(options);
    for round in 0..2 {
        fill(&db, 100, round);
        db.flush().unwrap();
    }
    let inputs: BTreeSet<_> = tables(&db);
    db.default_keyspace().compact(..).unwrap();
    let metrics = db.metrics().keyspaces.remove(0);
    let outputs: BTreeSet<_> = tables(&db);
    let events = all_of(&db, &events);
    let at = events.iter().position(|event| matches!(event, Event::CompactionBegun(_))).unwrap();
    let [Event::CompactionBegun(begun), changed, ended] = &events[at..] else { panic!("{events:?}") };
    assert_eq!((begun.kind, begun.reason), (PlanKind::Merge, Reason::Manual));
    assert_eq!(begun.inputs.iter().copied().collect::<BTreeSet<_>>(), inputs);
    assert_eq!((begun.from[0], begun.to, begun.input_bytes), (0, 63, metrics.compacted_in_bytes));
    let Event::FilesChanged { reason, created, deleted, .. } = changed else { panic!("{changed:?}") };
    assert_eq!(*reason, FileReason::Compaction(Reason::Manual));
    assert_eq!(created.iter().map(|file| file.number).collect::<BTreeSet<_>>(), outputs);
    assert_eq!(deleted.iter().map(|file| file.number).collect::<BTreeSet<_>>(), inputs);
    assert_eq!(deleted.iter().map(|file| file.bytes).sum::<u64>(), metrics.compacted_in_bytes);
    let Event::CompactionEnded { job, result: Ok(output), .. } = ended else { panic!("{ended:?}") };
    assert_eq!((job, output.table_bytes), (begun, metrics.compacted_out_bytes));
    assert_eq!(output.tables.iter().copied().collect::<BTreeSet<_>>(), outputs);
}

fn tables(db: &Database) -> BTreeSet<esker::parts::base::FileNumber> {
    let levels = db.levels().remove(0).levels;
    let runs = levels.iter().flat_map(|level| &level.runs);
    runs.flat_map(|run| &run.tables).map(|table| table.file).collect()
}

#[test]
fn blob_files_and_loads_are_files_too() {
    let (options, events) = watched();
    let (db, _) = open_stepped(options.keyspace_options(tiny().blob_threshold(1 << 10)));
    db.default_keyspace().put(key(1), vec![7; 5000]).unwrap();
    db.flush().unwrap();
    let mut loader = db.default_keyspace().bulk_load().unwrap();
    loader.add(key(2), value(2, 0)).unwrap();
    loader.finish().unwrap();
    db.flush().unwrap();
    let blob = db.levels()[0].blob_files[0];
    let events = all_of(&db, &events);
    let changes: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::FilesChanged { reason, created, .. } => Some((*reason, created)),
            _ => None,
        })
        .collect();
    let [(FileReason::Flush, flushed), (FileReason::Ingest, loaded)] = &changes[..] else {
        panic!("{changes:?}");
    };
    let told = flushed.iter().find(|file| file.kind == FileKind::Blob).unwrap();
    assert_eq!((told.number, told.bytes, told.level), (blob.file, blob.bytes, None));
    assert_eq!(loaded.len(), 1);
}

#[test]
fn keyspaces_come_change_their_names_and_go_with_their_files() {
    let (options, events) = watched();
    let (db, _) = open_stepped(options);
    let keyspace = db.keyspace("old").unwrap();
    keyspace.put(key(1), value(1, 0)).unwrap();
    keyspace.flush().unwrap();
    db.rename_keyspace("old", "new").unwrap();
    db.drop_keyspace("new").unwrap();
    let events = all_of(&db, &events);
    let [Event::KeyspaceCreated(created), .., renamed, changed, Event::KeyspaceDropped(dropped)] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    let Event::KeyspaceRenamed { keyspace, from } = renamed else { panic!("{renamed:?}") };
    assert_eq!((&*created.name, &**from, &*keyspace.name, &*dropped.name), ("old", "old", "new", "new"));
    assert_eq!((created.id, keyspace.id), (dropped.id, dropped.id));
    let Event::FilesChanged { reason: FileReason::KeyspaceDropped, created, deleted, .. } = changed else {
        panic!("{changed:?}");
    };
    assert_eq!((created.len(), deleted.len()), (0, 1));
}

/// Only another kind of error is another event.
#[test]
fn a_failure_of_background_work_and_its_end_are_reported_once() {
    let (options, events) = watched();
    let (db, faults) = open_stepped(options);
    while db.step_background() {}
    faults.add(Rule::new(Fault::Full, When::From(1)).on(Operation::Create).path("tables/"));
    // More than a memtable, fewer than a writer waits for.
    fill(&db, 400, 0);
    while db.step_background() {}
    db.drain().unwrap_err();
    db.drain().unwrap_err();
    faults.heal();
    db.drain().unwrap();
    let events = all_of(&db, &events);
    let failed = events.iter().filter(|event| {
        matches!(event, Event::BackgroundError { work: WorkKind::Flush, error: Error::Full(_) })
    });
    assert_eq!(failed.count(), 1, "{events:?}");
    let recovered = |event: &&Event| matches!(event, Event::BackgroundRecovered { work: WorkKind::Flush });
    assert_eq!(events.iter().filter(recovered).count(), 1, "{events:?}");
    let failures = events.iter().filter(|event| matches!(event, Event::FlushEnded { result: Err(_), .. }));
    assert!(failures.count() >= 2, "each attempt is a flush");
}

#[test]
fn a_database_that_takes_no_more_writes_says_why() {
    let (options, events) = watched();
    let (db, faults) = open_stepped(options);
    faults.add(Rule::new(Fault::Io, When::From(1)).on(Operation::SyncData).path("wal/"));
    db.default_keyspace().put_with(key(1), value(1, 0), Durability::Power).unwrap_err();
    for _ in 0..3 {
        db.default_keyspace().put(key(1), value(1, 0)).unwrap_err();
    }
    let _ = db.close();
    let causes: Vec<_> = events
        .try_iter()
        .filter_map(|event| match event {
            Event::TurnedReadOnly { cause } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(db.metrics().read_only_cause.unwrap(), format!("the database is read-only: {}", causes[0]));
}

#[test]
fn stalls_are_reported_when_they_begin_and_when_they_end() {
    const BUFFER_BYTES: u64 = 64 << 10;
    let (options, events) = watched();
    let keyspace = KeyspaceOptions::default().write_buffer_size(BUFFER_BYTES);
    let (db, faults) = open_threaded(options.memory_budget(8 << 20).keyspace_options(keyspace));
    let (gate, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _ = opened.recv();
    });
    for at in 0..(5 * BUFFER_BYTES / 2) >> 10 {
        db.default_keyspace().put(at.to_be_bytes(), [7; 1016]).unwrap();
    }
    let is_stall = |event: &Event| matches!(event, Event::StallChanged { .. });
    let Event::StallChanged { keyspace, from, to, pressure } = wait_for(&events, is_stall) else {
        unreachable!()
    };
    assert_eq!((&*keyspace.name, from, pressure.cause), ("default", WriteState::Free, PressureCause::Memory));
    assert!(matches!(to, WriteState::Slowed { .. }), "{to:?}");
    drop(gate);
    db.flush().unwrap();
    let Event::StallChanged { from, to, .. } = wait_for(&events, is_stall) else { unreachable!() };
    assert!(matches!(from, WriteState::Slowed { .. }) && to == WriteState::Free, "{from:?} to {to:?}");
    db.close().unwrap();
}

#[test]
fn copies_tell_their_moment_or_why_there_is_none() {
    let dir = TestDir::new("event-copies");
    let (options, events) = watched();
    let db = Database::open_with(dir.path().join("db"), options).unwrap();
    fill(&db, 100, 0);
    let checkpoint = db.checkpoint(dir.path().join("checkpoint")).unwrap();
    db.checkpoint(dir.path().join("checkpoint")).unwrap_err();
    let backups = Backups::new(dir.path().join("backups"));
    let backup = db.backup(&backups).unwrap();
    let events = all_of(&db, &events);
    let copies: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::CopyEnded { kind, directory, result, .. } => {
                Some((*kind, directory.file_name()?.to_str()?, result.clone().ok()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        copies,
        [
            (CopyKind::Checkpoint, "checkpoint", Some(checkpoint.seqno)),
            (CopyKind::Checkpoint, "checkpoint", None),
            (CopyKind::Backup, "backups", Some(backup.seqno)),
        ]
    );
}
