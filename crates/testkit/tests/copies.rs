//! Crashes while a checkpoint or a backup is made, removed or restored. At every change of the file system, a
//! directory with its final name is complete, an incomplete one is replaced by the next attempt, and the
//! database itself loses nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker::backup::{Backups, Retention};
use esker::parts::env::fault::{Crash, StrictFs, StrictOptions};
use esker::parts::env::{Env, FileSystem, ManualClock};
use esker::{Database, Durability, Expiry, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const DATA: &str = "/data";
const COPY: &str = "/copy";
const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

fn env(fs: &StrictFs) -> Env {
    Env::simulated(Arc::new(fs.clone()), 5)
}

fn open_at(fs: &StrictFs, dir: &str) -> Database {
    let tiny = KeyspaceOptions::default().write_buffer_size(4 << 10).table_size(4 << 10).block_size(512);
    Database::open_with(
        dir,
        Options::default()
            .env(env(fs))
            .durability(Durability::Power)
            .memory_budget(8 << 20)
            .keyspace_options(tiny),
    )
    .unwrap()
}

type Content = Vec<(Vec<u8>, Vec<u8>)>;

fn content(db: &Database) -> Content {
    let pairs = db.default_keyspace().iter();
    pairs.map(|pair| pair.map(|(key, value)| (key.into_vec(), value.into_vec())).unwrap()).collect()
}

fn fill(db: &Database, numbers: std::ops::Range<u32>, round: u32) {
    for number in numbers {
        db.default_keyspace()
            .put(format!("key{number:04}"), format!("{round} {number} {:0>60}", ""))
            .unwrap();
    }
}

fn exists(fs: &StrictFs, dir: &str) -> bool {
    fs.list(Path::new(dir)).is_ok_and(|entries| !entries.is_empty())
}

/// Crashes at every event of `work`, in three ways, and has each image checked.
fn sweep(name: &str, fs: &StrictFs, work: impl FnOnce(), check: impl Fn(&StrictFs)) {
    let begin = fs.trace_len();
    work();
    let end = fs.trace_len();
    let mut replayer = fs.replayer();
    for cut in begin..=end {
        replayer.advance_to(cut);
        for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerRandom { seed: cut as u64 }] {
            check(&replayer.image(crash));
        }
    }
    println!("{name}: {} cuts", end - begin);
    assert!(end > begin + 5, "{name} did not do anything");
}

#[test]
fn checkpoints() {
    let fs = StrictFs::with_options(StrictOptions::default());
    let db = open_at(&fs, DATA);
    fill(&db, 0..120, 1);
    db.flush().unwrap();
    fill(&db, 60..80, 2);
    let expected = content(&db);
    sweep(
        "checkpoint",
        &fs,
        || {
            db.checkpoint(COPY).unwrap();
        },
        |image| {
            // The copy may be missing, but under its final name it is complete, also after power losses.
            if exists(image, COPY) {
                let copy = open_at(image, COPY);
                assert_eq!(content(&copy), expected);
                copy.close().unwrap();
                return;
            }
            let db = open_at(image, DATA);
            assert_eq!(content(&db), expected);
            db.checkpoint(COPY).unwrap();
            db.close().unwrap();
            let copy = open_at(image, COPY);
            assert_eq!(content(&copy), expected);
            copy.close().unwrap();
        },
    );
    db.close().unwrap();
}

#[test]
fn backups_restores_and_removals() {
    let fs = StrictFs::with_options(StrictOptions::default());
    let db = open_at(&fs, DATA);
    let backups = Backups::with_env(BACKUPS, env(&fs));
    let mut moments: Vec<Content> = Vec::new();
    for round in 0..2 {
        fill(&db, round * 20..100, round);
        let before = moments.clone();
        moments.push(content(&db));
        let check = |image: &StrictFs| check_backups(image, &before, &moments);
        sweep(
            "backup",
            &fs,
            || {
                db.backup(&backups).unwrap();
            },
            check,
        );
    }
    let id = backups.list().unwrap()[0].id;
    sweep(
        "restore",
        &fs,
        || {
            backups.restore(id, RESTORED).unwrap();
        },
        |image| {
            if !exists(image, RESTORED) {
                Backups::with_env(BACKUPS, env(image)).restore(id, RESTORED).unwrap();
            }
            let restored = open_at(image, RESTORED);
            assert_eq!(content(&restored), moments[0]);
            restored.close().unwrap();
        },
    );
    sweep(
        "removal",
        &fs,
        || {
            backups.retain(Retention::keep_last(1)).unwrap();
        },
        |image| {
            let backups = Backups::with_env(BACKUPS, env(image));
            for backup in backups.list().unwrap() {
                let found = backups.verify(backup.id).unwrap();
                assert!(found.is_clean(), "{found:?}");
            }
            backups.retain(Retention::keep_last(1)).unwrap();
            let [left] = backups.list().unwrap().try_into().unwrap();
            assert!(backups.verify(left.id).unwrap().is_clean());
            let pool = image.list(&Path::new(BACKUPS).join("tables")).unwrap();
            assert_eq!(pool.len() as u64, left.tables, "nothing of the removed one is left");
        },
    );
    db.close().unwrap();
}

/// All complete backups stay so, the unfinished one is complete or missing, and the next one works.
fn check_backups(image: &StrictFs, before: &[Content], after: &[Content]) {
    let db = open_at(image, DATA);
    assert_eq!(&content(&db), after.last().unwrap());
    let backups = Backups::with_env(BACKUPS, env(image));
    db.backup(&backups).unwrap();
    db.close().unwrap();
    let listed = backups.list().unwrap();
    assert!(listed.len() > before.len() && listed.len() <= after.len() + 1, "{} backups", listed.len());
    for (at, backup) in listed.iter().enumerate() {
        let found = backups.verify(backup.id).unwrap();
        assert!(found.is_clean(), "{found:?}");
        let target = format!("{RESTORED}-{at}");
        backups.restore(backup.id, &target).unwrap();
        let restored = open_at(image, &target);
        assert_eq!(
            &content(&restored),
            after.get(at).unwrap_or(after.last().unwrap()),
            "backup {}",
            backup.id
        );
        restored.close().unwrap();
    }
}

/// An entry that was seen expired stays so in a copy, even if the clock is set back: the copy stores the
/// current database time, not the one of the last manifest edit.
#[test]
fn a_copy_does_not_go_back_in_time() {
    let fs = StrictFs::new();
    let clock = Arc::new(ManualClock::new(1_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..env(&fs) };
    let open =
        |dir| Database::open_with(dir, Options::default().env(env.clone()).memory_budget(8 << 20)).unwrap();
    let db = open(DATA);
    db.default_keyspace().put_with("key", "value", Expiry::At(UNIX_EPOCH + Duration::from_secs(5))).unwrap();
    db.flush().unwrap();
    clock.set_wall_ms(6_000);
    assert_eq!(db.default_keyspace().get("key").unwrap(), None);
    let backups = Backups::with_env(BACKUPS, env.clone());
    db.checkpoint(COPY).unwrap();
    let backup = db.backup(&backups).unwrap();
    backups.restore(backup.id, RESTORED).unwrap();
    clock.set_wall_ms(2_000);
    for dir in [COPY, RESTORED] {
        let copy = open(dir);
        assert_eq!(copy.default_keyspace().get("key").unwrap(), None, "{dir}");
        copy.close().unwrap();
    }
    db.close().unwrap();
    // A closed database touches nothing at the target.
    let names = |dir: &str| fs.list(Path::new(dir)).map(|entries| entries.len()).ok();
    assert!(db.checkpoint("/late").is_err() && db.backup(&Backups::with_env("/late-backups", env)).is_err());
    assert_eq!((names("/late"), names("/late-backups")), (None, None));
}
