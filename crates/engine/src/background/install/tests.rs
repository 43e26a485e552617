use super::*;
use crate::background::install;
use crate::lifecycle::close;
use crate::state::shape;
use esker_base::{PartId, RunId, TableUid};
use esker_env::fault::StrictFs;
use esker_env::{Env, FileSystem, OpenMode};
use esker_options::Options;
use esker_version::{KeyRange, LevelIndex, PartMeta, Place};
use esker_view::paths;
use std::path::Path;

const DIR: &str = "/db";

/// An edit may be refused before anything is written, because its plan violated the rules (IN5). Its outputs
/// are deleted then, too; otherwise each attempt would leave its tables behind.
#[test]
fn tables_of_an_edit_that_cannot_be_applied_are_deleted() {
    let fs = StrictFs::new();
    let env = Env::simulated(Arc::new(fs.clone()), 1);
    let store = crate::lifecycle::open::open(Path::new(DIR), Options::default().env(env), |_, _| ()).unwrap();
    let keyspace = store.all_keyspaces()[0].clone();
    let tables = &store.writing().unwrap().tables;
    for _ in 0..5 {
        let (file, run) = (tables.take_file_number(), tables.take_run_id());
        fs.open(&paths::table(Path::new(DIR), file), OpenMode::CreateNew).unwrap();
        let range = KeyRange::inclusive(b"a".as_slice(), b"b".as_slice());
        let part = PartMeta::new(tables.take_part_id(), file, 100, TableUid(7), range);
        let missing = PartMeta { id: PartId(1_000_000), ..part.clone() };
        let refused = install::install(&store, &keyspace, &[], FileReason::Flush, |_, _| {
            let mut edit = VersionEdit::new();
            edit.remove_part(keyspace.id, LevelIndex::FLUSH, RunId(1_000_000), &missing);
            let place = Place { level: LevelIndex::FLUSH, run, order: run.get() };
            edit.add_part(keyspace.id, place, Arc::new(part));
            edit
        });
        assert!(refused.is_err(), "the edit removes what is not there");
        while store.scheduler.step(&*store) {}
    }
    let left = fs.list(&paths::tables(Path::new(DIR))).unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert!(keyspace.view.load().tree.runs.is_empty());
    close::close(&store).unwrap();
}

/// An install holds the running jobs of its keyspace while it takes the commit lock, so a writer that holds
/// that lock and makes room must not lock the jobs: with level 0 full the two would deadlock. Here a single
/// thread would wait for itself.
#[test]
fn room_is_judged_while_an_install_holds_the_jobs() {
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let store = crate::lifecycle::open::open(Path::new(DIR), Options::default().env(env), |_, _| ()).unwrap();
    let keyspace = store.all_keyspaces()[0].clone();
    let installed = install::install(&store, &keyspace, &[], FileReason::Flush, |_, _| {
        assert!(keyspace.jobs.busy.is_locked());
        assert!(!shape::can_compact(&store, &keyspace), "there is nothing to compact");
        VersionEdit::new()
    });
    installed.unwrap();
    close::close(&store).unwrap();
}
