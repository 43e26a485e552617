//! Crashes while a checkpoint or a backup is made, removed or restored, and in the attempts after it. At
//! every change of the file system, a directory with its final name is complete, an incomplete one is
//! replaced by the next attempt, and the database itself loses nothing. Then the same with calls that fail.
//!
//! `ESKER_IMAGES=n` checks n images in total, the same number of each kind of work: half of them of crashes
//! of the first attempt, half of later ones. `ESKER_SEED=n` chooses others.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker::backup::{Backups, Retention};
use esker::parts::env::fault::{Crash, Fault, FaultFs, Rule, StrictFs, StrictOptions, When};
use esker::parts::env::{Env, FileSystem, ManualClock};
use esker::{Database, Durability, Error, Expiry, KeyspaceOptions, Options};
use esker_testkit::image_choice::ImageChoice;
use std::ops::RangeInclusive;
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

fn options_of(fs: &StrictFs) -> Options {
    let tiny = KeyspaceOptions::default().write_buffer_size(4 << 10).table_size(4 << 10).block_size(512);
    Options::default()
        .env(env(fs))
        .durability(Durability::Power)
        .memory_budget(8 << 20)
        .keyspace_options(tiny)
}

fn open_at(fs: &StrictFs, dir: &str) -> Database {
    Database::open_with(dir, options_of(fs)).unwrap()
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

/// The most attempts in a row that crash after the first.
const MAX_DEPTH: usize = 3;

/// Without `ESKER_IMAGES`, attempts that crash, too: after every so many images, at so many places each.
const NESTED_EVERY: u64 = 9;
const NESTED_PLACES: usize = 2;

/// What crashes at a cut leave.
fn crashes(cut: usize) -> [Crash; 3] {
    [Crash::Process, Crash::PowerAllLost, Crash::PowerRandom { seed: cut as u64 }]
}

/// The kinds of work, each with the same share of `ESKER_IMAGES`.
const SWEEPS: [&str; 5] = ["checkpoint", "backup", "second backup", "restore", "removal"];

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Images that were checked, by how many crashes they are the result of.
#[derive(Debug, Default)]
struct Images([u64; 1 + MAX_DEPTH]);

impl Images {
    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Checks an image; then what crashes of that check itself leave of it, if it is told so.
    fn check(&mut self, image: &StrictFs, depth: usize, check: &dyn Fn(&StrictFs)) {
        self.0[depth] += 1;
        check(image);
        if depth == MAX_DEPTH || (depth == 0 && !self.0[0].is_multiple_of(NESTED_EVERY)) {
            return;
        }
        let step = (image.trace_len() / NESTED_PLACES).max(1);
        let mut replayer = image.replayer();
        for cut in (self.0[depth] as usize % step..image.trace_len()).step_by(step) {
            replayer.advance_to(cut);
            self.check(&replayer.image(crashes(cut)[cut % 3]), depth + 1, check);
        }
    }

    /// Checks `images` images of crashes at the events `cuts` and in the attempts after them; a seed chooses.
    fn check_some(
        &mut self,
        fs: &StrictFs,
        cuts: RangeInclusive<usize>,
        depth: usize,
        images: u64,
        seed: u64,
        check: &dyn Fn(&StrictFs),
    ) {
        let places = cuts.clone().count() * crashes(0).len();
        let mut choice = ImageChoice::new(seed, images, places as u64, depth < MAX_DEPTH);
        let mut replayer = fs.replayer();
        for cut in cuts {
            replayer.advance_to(cut);
            for crash in crashes(cut) {
                let Some(share) = choice.next_share() else { continue };
                let image = replayer.image(crash);
                let before = self.total();
                self.0[depth] += 1;
                check(&image);
                if share > 1 {
                    let cuts = 0..=image.trace_len();
                    self.check_some(&image, cuts, depth + 1, share - 1, seed + before, check);
                }
                choice.spend(self.total() - before);
            }
        }
    }
}

/// Crashes at every event of `work`, in three ways, and has each image checked; or at some, for its share of
/// `ESKER_IMAGES`.
fn sweep(name: &str, fs: &StrictFs, work: impl FnOnce(), check: impl Fn(&StrictFs)) {
    let begin = fs.trace_len();
    work();
    let end = fs.trace_len();
    let mut images = Images::default();
    let place = SWEEPS.iter().position(|known| *known == name);
    let place = place.unwrap_or_else(|| panic!("{name} is missing in SWEEPS")) as u64;
    if let Some(all) = variable("ESKER_IMAGES") {
        let sweeps = SWEEPS.len() as u64;
        let share = all * (place + 1) / sweeps - all * place / sweeps;
        let seed = variable("ESKER_SEED").unwrap_or(0) + place;
        images.check_some(fs, begin..=end, 0, share, seed, &check);
        assert_eq!(images.total(), share, "{name}: there are no more images of it");
    } else {
        let mut replayer = fs.replayer();
        for cut in begin..=end {
            replayer.advance_to(cut);
            crashes(cut).into_iter().for_each(|crash| images.check(&replayer.image(crash), 0, &check));
        }
    }
    println!("{name}: {} cuts, {images:?}", end - begin);
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
            assert_eq!(names_beside(image, COPY), ["copy"], "nothing temporary is left");
        },
    );
    db.close().unwrap();
}

/// What has the name of a copy, or one that begins with it.
fn names_beside(fs: &StrictFs, copy: &str) -> Vec<String> {
    let names = fs.list(Path::new("/")).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with(copy.trim_start_matches('/'))).collect()
}

/// Each call of a copy fails once, and each from then on: what is made nevertheless is complete, what is not
/// leaves nothing that the next attempt minds, and the database goes on.
#[test]
fn copies_with_calls_that_fail() {
    let mut runs = 0;
    for kind in 0..3 {
        for lasting in [When::Nth as fn(u64) -> When, When::From] {
            for number in 1.. {
                let strict = StrictFs::new();
                let faults = FaultFs::over_strict(strict.clone());
                let faulty = Env::simulated(Arc::new(faults.clone()), 5);
                let options = options_of(&strict).env(faulty.clone());
                let db = Database::open_with(DATA, options).unwrap();
                fill(&db, 0..60, 1);
                db.flush().unwrap();
                let expected = content(&db);
                let healthy = Backups::with_env(BACKUPS, env(&strict));
                let id = db.backup(&healthy).unwrap().id;
                fill(&db, 0..1, 1);
                faults.add(Rule::new(Fault::Io, lasting(number)));
                let backups = Backups::with_env(BACKUPS, faulty);
                let made = match kind {
                    0 => db.checkpoint(COPY).map(drop),
                    1 => db.backup(&backups).map(drop),
                    _ => backups.restore(id, COPY).map(drop),
                };
                let is_over = faults.injected() == 0;
                faults.heal();
                if let Err(error) = &made {
                    let is_sane = matches!(error, Error::Io(_) | Error::ReadOnly { .. });
                    assert!(is_sane, "call {number} of kind {kind}: {error}");
                }
                // A write of the database that failed may have made it read-only.
                let _ = db.close();
                let db = open_at(&strict, DATA);
                assert_eq!(content(&db), expected, "call {number} of kind {kind}");
                match kind {
                    _ if exists(&strict, COPY) => {}
                    0 => drop(db.checkpoint(COPY).unwrap()),
                    1 => {}
                    _ => drop(healthy.restore(id, COPY).unwrap()),
                }
                db.backup(&healthy).unwrap();
                for backup in healthy.list().unwrap() {
                    assert!(healthy.verify(backup.id).unwrap().is_clean(), "call {number} of kind {kind}");
                }
                db.close().unwrap();
                if kind != 1 {
                    let copy = open_at(&strict, COPY);
                    assert_eq!(content(&copy), expected, "call {number} of kind {kind}");
                    assert!(copy.verify().unwrap().is_clean());
                    copy.close().unwrap();
                }
                if is_over {
                    assert!(made.is_ok(), "{made:?}");
                    break;
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs with calls that fail");
    assert!(runs > 300, "{runs}");
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
            SWEEPS[1 + round as usize],
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
    // This attempt and those that crashed before it may each have added one.
    let most = after.len() + 1 + MAX_DEPTH;
    assert!(listed.len() > before.len() && listed.len() <= most, "{} backups", listed.len());
    for (at, backup) in listed.iter().enumerate() {
        let found = backups.verify(backup.id).unwrap();
        assert!(found.is_clean(), "{found:?}");
        let target = format!("{RESTORED}-{at}");
        if !exists(image, &target) {
            backups.restore(backup.id, &target).unwrap();
        }
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
