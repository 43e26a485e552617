//! The damage sweep: damages every file of a small store in every place. The store must report each damage,
//! or give the same answers as before.
//!
//! The sweep flips bits and cuts files at even distances, fills sectors with zeros, exchanges sectors of a
//! file, deletes files, and exchanges files of one kind. The number of images decides the distances; enough
//! of them flip each bit and cut at each length. The verdict on each damage is *detected*, a typed error that
//! names the file, from opening or from the reads that need the damaged bytes; or *harmless*, the same
//! answers as before. Wrong answers, panics, and errors that name another file or cause are failures.
//!
//! Each damaged image is verified without being opened as well, which must find whatever the open or a read
//! found, and repaired into a new directory, which must open and be read without an error; the original stays
//! as it is.
//!
//! A log that ends early looks like a log after a crash, and commits that were never acknowledged as durable
//! may be missing from it. So a log file that is cut or deleted may lead to an earlier state, but not to one
//! without what was in tables. A flipped bit in a log that was closed must be detected. The end of a manifest
//! may be a torn append and is dropped as one; then the error may name the file in which the older state and
//! the directory disagree.

use crate::oracle::Oracle;
use crate::runner::{DIR, Runner, read_all};
use crate::script::{Op, Plan};
use crate::{Failure, KEYS, Key, Outcome, SPACES, ensure};
use esker::parts::env::fault::{Crash, StrictFs};
use esker::parts::env::{Env, FileSystem, OpenMode, SeededRandom};
use esker::repair::{RepairOptions, VerifyOptions, repair_directory, verify_directory};
use esker::{Database, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store to be damaged.
#[derive(Debug)]
pub struct Victim {
    plan: Plan,
    fs: StrictFs,
    oracle: Oracle,
    /// Number of commits that tables hold.
    in_tables: usize,
}

/// How a file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Flips the bit with this number in the file.
    Flip(u64),
    /// Cuts the file at this offset.
    Cut(u64),
    /// Fills the sector with this number with zeros.
    Zero(u64),
    /// Exchanges two sectors.
    SwapSectors(u64, u64),
    /// Deletes the file.
    Delete,
    /// Exchanges the file with another one.
    SwapFiles(PathBuf),
}

/// What a device writes whole.
const SECTOR_BYTES: u64 = 512;

/// The damages of all files of a store.
fn damages(files: &[(PathBuf, u64)], images: u64, random: &SeededRandom) -> Vec<(PathBuf, Damage)> {
    let total_bytes: u64 = files.iter().map(|(_, len)| len).sum();
    // Of eight images six flip a bit, one cuts a file, and one exchanges sectors. Zeros and files are few.
    let flip_step = (total_bytes * 8 / (images * 6 / 8).max(1)).max(1);
    let cut_step = (total_bytes / (images / 8).max(1)).max(1);
    let mut damages = Vec::new();
    for (path, len) in files.iter().filter(|(_, len)| *len > 0) {
        let sectors = len.div_ceil(SECTOR_BYTES);
        let flips = (0..len * 8).step_by(flip_step as usize);
        let flips = flips.map(|start| Damage::Flip((start + random.below(flip_step)).min(len * 8 - 1)));
        let cuts = (0..*len).step_by(cut_step as usize).map(Damage::Cut);
        let zeros = (0..sectors).map(Damage::Zero);
        let swaps =
            (0..len / cut_step).map(|_| Damage::SwapSectors(random.below(sectors), random.below(sectors)));
        let of_file = flips.chain(cuts).chain(zeros).chain(swaps).chain([Damage::Delete]);
        damages.extend(of_file.map(|damage| (path.clone(), damage)));
    }
    for (number, (path, _)) in files.iter().enumerate() {
        let others = files[number + 1..].iter().filter(|(other, _)| other.extension() == path.extension());
        damages.extend(others.map(|(other, _)| (path.clone(), Damage::SwapFiles(other.clone()))));
    }
    damages
}

/// Counts of damages by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// An error named the file.
    pub detected: u64,
    /// The answers were the same.
    pub harmless: u64,
    /// A log file that was cut or deleted left an earlier state.
    pub earlier: u64,
}

/// Runs a plan and closes the database without a flush, so that both tables and log hold data. Everything up
/// to the script's last flush counts as being in tables.
///
/// # Errors
/// A failure of the run itself, before any damage.
pub fn prepare(plan: &Plan) -> Outcome<Victim> {
    let fs = StrictFs::new();
    let mut runner = Runner::start(plan, Arc::new(fs.clone()))?;
    let mut in_tables = 0;
    for op in &plan.script {
        runner.change(op)?;
        if *op == Op::Flush {
            in_tables = runner.oracle.now();
        }
    }
    runner.close()?;
    Ok(Victim { plan: plan.clone(), fs, oracle: runner.oracle, in_tables })
}

impl Victim {
    /// Tries about as many damages as asked for.
    ///
    /// # Errors
    /// The first damage that was neither detected nor harmless.
    pub fn sweep(&self, images: u64) -> Outcome<Verdicts> {
        let random = SeededRandom::new(self.plan.seed);
        let mut verdicts = Verdicts::default();
        for (path, damage) in damages(&files_below(&self.fs, Path::new(DIR))?, images, &random) {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.check_damage(&path, &damage, &mut verdicts)));
            let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
            outcome.map_err(|failure| {
                let seed = self.plan.seed;
                failure.during(format_args!("seed {seed}, {damage:?} of {}", path.display()))
            })?;
        }
        Ok(verdicts)
    }

    fn check_damage(&self, path: &Path, damage: &Damage, verdicts: &mut Verdicts) -> Outcome {
        let fs = self.fs.crash(Crash::Process);
        apply(&fs, path, damage)?;
        let env = Env::simulated(Arc::new(fs), self.plan.seed);
        let is_clean = self.check_repair(&env)?;
        let found = Database::open_with(DIR, Runner::options(&self.plan, env))
            .map_err(ReadFailure::Error)
            .and_then(|db| self.read_everything(&db));
        if let Err(ReadFailure::Error(error)) = &found {
            ensure!(!is_clean, "a verification found no damage, but opening or reading did: {error}");
        }
        let is_log = path.extension().is_some_and(|extension| extension == "seg");
        match found {
            Ok(at) if at == self.oracle.now() => verdicts.harmless += 1,
            Ok(at) if is_log && matches!(damage, Damage::Cut(_) | Damage::Delete) && at >= self.in_tables => {
                verdicts.earlier += 1;
            }
            Ok(at) => {
                return Err(Failure::new(format!(
                    "the damage went unreported: the state after commit {at} is old"
                )));
            }
            Err(ReadFailure::Wrong(failure)) => return Err(failure),
            Err(ReadFailure::Error(error)) => {
                let text = error.to_string();
                let names_other = matches!(damage, Damage::SwapFiles(other) if names(&text, other));
                // Which segment a file was cannot be known without it: the log says which one it misses.
                let is_missed = is_log && text.contains("no file is log segment");
                let named = names(&text, path)
                    || names_other
                    || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST"))
                    || is_missed && matches!(damage, Damage::Delete);
                ensure!(named, "the error does not name the file: {error}");
                let typed = matches!(
                    error,
                    Error::Corruption(_) | Error::Io(_) | Error::Unsupported(_) | Error::NotFound(_)
                );
                ensure!(typed, "not an error about data: {error}");
                verdicts.detected += 1;
            }
        }
        Ok(())
    }

    /// Verifies and repairs the damaged directory; returns whether the verification found nothing.
    fn check_repair(&self, env: &Env) -> Outcome<bool> {
        const NEW: &str = "/repaired";
        let found = verify_directory(DIR, &VerifyOptions::new().env(env.clone()))?;
        repair_directory(DIR, NEW, &RepairOptions::new().env(env.clone()))?;
        let repaired = verify_directory(NEW, &VerifyOptions::new().env(env.clone()))?;
        ensure!(repaired.is_clean(), "the repaired database is damaged: {:?}", repaired.damage);
        let db = Database::open_with(NEW, Runner::options(&self.plan, env.clone()))?;
        for name in db.keyspaces() {
            db.open_keyspace(&name)?.iter().try_for_each(|entry| entry.map(|_| ()))?;
        }
        db.close()?;
        Ok(found.is_clean())
    }

    /// Reads everything in several ways; returns the number of the state that was found.
    fn read_everything(&self, db: &Database) -> Result<usize, ReadFailure> {
        let wrong = |text: String| ReadFailure::Wrong(Failure::new(text));
        // Without verification first, so that a read finds the damage.
        for name in db.keyspaces() {
            let keyspace = db.open_keyspace(&name).map_err(ReadFailure::Error)?;
            for entry in keyspace.iter().rev() {
                entry.map_err(ReadFailure::Error)?;
            }
            for entry in keyspace.iter() {
                entry.map_err(ReadFailure::Error)?;
            }
        }
        let content = read_all(db, None).map_err(ReadFailure::Wrong)?;
        let at =
            self.oracle.find(&content, 0..=self.oracle.now(), 0, crate::unix_ms(db.now())).map_err(wrong)?;
        for (space, entries) in content.iter().enumerate() {
            let Ok(keyspace) = db.open_keyspace(SPACES[space]) else { continue };
            for key in (0..KEYS).map(|number| Key(number).bytes()) {
                let found = keyspace.get(&key).map_err(ReadFailure::Error)?;
                if found.as_deref() != entries.get(&key).map(Vec::as_slice) {
                    return Err(wrong(format!("a get and a scan disagree on {}", key.escape_ascii())));
                }
            }
        }
        db.close().map_err(ReadFailure::Error)?;
        Ok(at)
    }
}

/// Why reading a damaged store failed.
enum ReadFailure {
    Error(Error),
    Wrong(Failure),
}

fn apply(fs: &StrictFs, path: &Path, damage: &Damage) -> Outcome {
    match damage {
        Damage::Flip(bit) => {
            let file = fs.open(path, OpenMode::ReadWrite)?;
            let mut byte = [0];
            file.read_at(&mut byte, bit / 8)?;
            byte[0] ^= 1 << (bit % 8);
            file.write_at(&byte, bit / 8)?;
        }
        Damage::Cut(len) => fs.open(path, OpenMode::ReadWrite)?.set_len(*len)?,
        Damage::Zero(sector) => {
            change(fs, path, |content| {
                let sector = sector_of(content.len(), *sector);
                content[sector].fill(0);
            })?;
        }
        Damage::SwapSectors(one, other) => change(fs, path, |content| {
            let (one, other) = (sector_of(content.len(), *one), sector_of(content.len(), *other));
            for (left, right) in one.zip(other) {
                content.swap(left, right);
            }
        })?,
        Damage::Delete => fs.remove_file(path)?,
        Damage::SwapFiles(other) => {
            let aside = path.with_extension("aside");
            fs.rename(path, &aside)?;
            fs.rename(other, path)?;
            fs.rename(&aside, other)?;
        }
    }
    Ok(())
}

fn sector_of(len: usize, sector: u64) -> std::ops::Range<usize> {
    let start = (sector * SECTOR_BYTES) as usize;
    start..len.min(start + SECTOR_BYTES as usize)
}

fn change(fs: &StrictFs, path: &Path, change: impl FnOnce(&mut [u8])) -> Outcome {
    let file = fs.open(path, OpenMode::ReadWrite)?;
    let mut content = vec![0; fs.file_len(path)?.unwrap_or(0) as usize];
    file.read_at(&mut content, 0)?;
    change(&mut content);
    file.write_at(&content, 0)?;
    Ok(())
}

fn names(text: &str, path: &Path) -> bool {
    text.contains(&*path.file_name().unwrap_or_default().to_string_lossy())
}

fn files_below(fs: &StrictFs, dir: &Path) -> Outcome<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs.list(dir)? {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            files.extend(files_below(fs, &path)?);
        } else {
            let len = fs.file_len(&path)?.unwrap_or(0);
            files.push((path, len));
        }
    }
    Ok(files)
}
