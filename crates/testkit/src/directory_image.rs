//! Fuzz target for verification and repair of directories: a small database, damaged as the input says.
//!
//! The first byte chooses the database: with everything in tables or with a log. Each five bytes behind it
//! damage one file: what is done, which file, where (two bytes), and a number. So nearly every input is a
//! directory that once was a database, which random bytes never are.
//!
//! Whatever the input, verification and repair end, change nothing of the original, and fail only if nothing
//! of a database is left or a newer version seems to have written it. The repaired database opens and
//! verifies, and each of its answers is right, or the report says that the key is lost or doubtful (RB3).
//! Only where the log and the manifest are damaged together nothing may say how far the other one went.

use esker::merge::MergeOperator;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Rule, StrictFs, StrictOptions, When};
use esker::parts::env::{Env, FileSystem, OpenMode, SeededRandom};
use esker::repair::{RepairOptions, RepairReport, VerifyOptions, repair_directory, verify_directory};
use esker::{Database, Error, KeyspaceOptions, Options, SeqNo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const DIR: &str = "/data";
const NEW: &str = "/new";
const SPACES: [&str; 2] = ["default", "counts"];
const KEYS: u64 = 48;
/// Values of so many bytes and more are in blob files.
const LARGE: u64 = 200;
/// Bytes of an input for each damage.
const DAMAGE_BYTES: usize = 5;
/// Damages of one input that count.
const MOST_DAMAGES: usize = 12;
/// More calls of the file system than any verification or repair of such a directory makes.
const MOST_CALLS: u64 = 1_000_000;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A database and what it must answer.
struct Original {
    fs: StrictFs,
    values: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    /// The sequence numbers of all writes to each key.
    writes: BTreeMap<(usize, Vec<u8>), Vec<u64>>,
}

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Verifies and repairs the directory that the input describes; returns whether the input has no bytes over.
///
/// # Panics
/// If a promise at the head of this file does not hold.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((&chosen, damages)) = bytes.split_first() else { return false };
    let original = original(chosen.is_multiple_of(2));
    let fs = original.fs.crash(Crash::Process);
    let mut damaged = BTreeSet::new();
    for damage in damages.chunks_exact(DAMAGE_BYTES).take(MOST_DAMAGES) {
        damaged.extend(damage_file(&fs, damage));
    }
    check(original, &fs, &damaged);
    damages.len().is_multiple_of(DAMAGE_BYTES)
}

/// One to six damages.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let len = 1 + DAMAGE_BYTES * (1 + random.below(6) as usize);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn env(fs: &Arc<dyn FileSystem>) -> Env {
    Env::simulated(Arc::clone(fs), 11)
}

fn options(env: Env) -> Options {
    let keyspace = KeyspaceOptions::default().block_size(512).table_size(4 << 10).blob_threshold(LARGE);
    // Nothing is merged by itself, so that tables of several generations stay.
    let keyspace = keyspace.set("strategy", "none").expect("a strategy");
    let options = Options::default().env(env).keyspace_options(keyspace).flush_on_close(false);
    options.memory_budget(8 << 20).wal_segment_bytes(16 << 10)
}

/// The database with everything in tables, or the one with a log.
fn original(is_all_in_tables: bool) -> &'static Original {
    static ORIGINALS: [OnceLock<Original>; 2] = [OnceLock::new(), OnceLock::new()];
    ORIGINALS[usize::from(is_all_in_tables)]
        .get_or_init(|| make_original(is_all_in_tables).expect("a database in memory"))
}

fn make_original(is_all_in_tables: bool) -> esker::Result<Original> {
    let strict = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let fs: Arc<dyn FileSystem> = Arc::new(strict.clone());
    let mut original = Original { fs: strict, values: BTreeMap::new(), writes: BTreeMap::new() };
    let db = Database::open_with(DIR, options(env(&fs)))?;
    let counter =
        KeyspaceOptions::default().block_size(512).merge_operator(MergeOperator::counter_wrapping());
    db.keyspace_with(SPACES[1], counter)?;
    original.write_round(&db, 1)?;
    db.flush()?;
    db.compact_all()?;
    original.write_round(&db, 2)?;
    db.flush()?;
    if !is_all_in_tables {
        original.write_round(&db, 3)?;
    }
    db.close()?;
    Ok(original)
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

impl Original {
    fn write_round(&mut self, db: &Database, round: u64) -> esker::Result<()> {
        let (texts, counts) = (db.default_keyspace(), db.open_keyspace(SPACES[1])?);
        for number in (0..KEYS).filter(|number| number.is_multiple_of(round)) {
            let repeated = if number.is_multiple_of(7) { 20 } else { 3 };
            let value = format!("{number} of round {round} ").repeat(repeated).into_bytes();
            if number.is_multiple_of(9) {
                texts.delete(key(number))?;
                self.note(db, 0, number, None);
            } else {
                texts.put(key(number), &value)?;
                self.note(db, 0, number, Some(value));
            }
            if number.is_multiple_of(5) {
                counts.merge(key(number), round.to_string())?;
                let value = counts.get(key(number))?.map(|value| value.to_vec());
                self.note(db, 1, number, value);
            }
        }
        let gone = KEYS / 4 * round..KEYS / 4 * round + 5;
        texts.delete_range(key(gone.start)..key(gone.end))?;
        gone.for_each(|number| self.note(db, 0, number, None));
        Ok(())
    }

    fn note(&mut self, db: &Database, space: usize, number: u64, value: Option<Vec<u8>>) {
        let at = (space, key(number));
        self.writes.entry(at.clone()).or_default().push(db.metrics().visible_seqno.get());
        match value {
            Some(value) => self.values.insert(at, value),
            None => self.values.remove(&at),
        };
    }
}

/// Every file below a directory, with its bytes.
fn files_below(fs: &StrictFs, dir: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            files.extend(files_below(fs, &path));
        } else {
            let bytes = read(fs, &path);
            files.insert(path, bytes);
        }
    }
    files
}

fn read(fs: &StrictFs, path: &Path) -> Vec<u8> {
    let file = fs.open(path, OpenMode::Read).expect("it was listed");
    let mut bytes = vec![0; file.len().expect("it is open") as usize];
    file.read_exact_at(&mut bytes, 0).expect("it is as long as it says");
    bytes
}

fn paths_below(fs: &StrictFs, dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir { paths.extend(paths_below(fs, &path)) } else { paths.push(path) }
    }
    paths
}

fn write(fs: &StrictFs, path: &Path, bytes: &[u8]) {
    let _missing = fs.remove_file(path);
    let file = fs.open(path, OpenMode::CreateNew).expect("the directory is there");
    file.write_at(bytes, 0).expect("the file system is in memory");
}

/// Carries out one damage; returns the files that have changed.
fn damage_file(fs: &StrictFs, damage: &[u8]) -> Vec<PathBuf> {
    let &[what, which, high, low, number] = damage else { return Vec::new() };
    let mut paths = paths_below(fs, Path::new(DIR));
    if paths.is_empty() {
        return Vec::new();
    }
    let path = paths.swap_remove(usize::from(which) % paths.len());
    let mut bytes = read(fs, &path);
    // Positions reach over the whole file, and most are near its beginning or its end.
    let position = usize::from(u16::from_be_bytes([high, low]));
    let at = match number % 3 {
        0 => position * bytes.len() / (1 << 16),
        1 => position.min(bytes.len()),
        _ => bytes.len() - position.min(bytes.len()),
    };
    match what % 8 {
        0 => fs.remove_file(&path).expect("it is there"),
        1 => {
            bytes.truncate(at);
            write(fs, &path, &bytes);
        }
        2 | 3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (number % 8);
            }
            write(fs, &path, &bytes);
        }
        4 => {
            let end = bytes.len().min(at + 512);
            bytes[at..end].fill(0);
            write(fs, &path, &bytes);
        }
        5 => {
            bytes.extend(std::iter::repeat_n(number, at % 700));
            write(fs, &path, &bytes);
        }
        6 => {
            let other = &paths[usize::from(number) % paths.len().max(1)..];
            let Some(other) = other.first() else { return Vec::new() };
            let others = read(fs, other);
            write(fs, other, &bytes);
            write(fs, &path, &others);
            return vec![path, other.clone()];
        }
        _ => {
            // Again under another number of the same kind.
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            if digits.is_empty() {
                return Vec::new();
            }
            let twin = name
                .replace(&digits, &format!("{:0width$}", 700 + usize::from(number), width = digits.len()));
            let twin = path.with_file_name(twin);
            write(fs, &twin, &bytes);
            return vec![twin];
        }
    }
    vec![path]
}

fn check(original: &Original, fs: &StrictFs, damaged: &BTreeSet<PathBuf>) {
    let before = files_below(fs, Path::new(DIR));
    let faults = FaultFs::over_strict(fs.clone());
    // An endless loop over a file ends with an error.
    faults.add(Rule::new(Fault::Io, When::From(MOST_CALLS)));
    let counted: Arc<dyn FileSystem> = Arc::new(faults.clone());
    if let Err(error) = verify_directory(DIR, &VerifyOptions::new().env(env(&counted))) {
        expect_permitted("verification", &error);
    }
    let repaired = repair_directory(DIR, NEW, &RepairOptions::new().env(env(&counted)));
    assert!(before == files_below(fs, Path::new(DIR)), "the original has changed");
    assert_eq!(faults.injected(), 0, "too many calls");
    match repaired {
        Err(error) => expect_permitted("repair", &error),
        Ok(report) => {
            let found = verify_directory(NEW, &VerifyOptions::new().env(env(&counted)));
            let found = found.unwrap_or_else(|error| panic!("verification of the new database: {error}"));
            assert!(found.damage.is_empty(), "the new database is damaged: {:#?}", found.damage);
            compare(original, &counted, &report, damaged);
        }
    }
}

fn expect_permitted(what: &str, error: &Error) {
    assert!(matches!(error, Error::NotFound(_) | Error::Unsupported(_)), "{what}: {error}");
}

fn compare(
    original: &Original,
    fs: &Arc<dyn FileSystem>,
    report: &RepairReport,
    damaged: &BTreeSet<PathBuf>,
) {
    let is_in = |part: &str| damaged.iter().any(|path| path.to_string_lossy().contains(part));
    let has_lost_its_end = is_in("/wal/") && (is_in("MANIFEST") || is_in("CURRENT"));
    let db = Database::open_with(NEW, options(env(fs)));
    let db = db.unwrap_or_else(|error| panic!("the new database does not open: {error}\n{report:#?}"));
    for (space, name) in SPACES.iter().enumerate() {
        let made_up = format!("keyspace-{space}");
        let found = [*name, made_up.as_str()].into_iter().find_map(|name| db.open_keyspace(name).ok());
        let keyspace = match found {
            Some(found) => found,
            None => db.keyspace(name).expect("a new keyspace"),
        };
        if space == 1 && keyspace.options().operator().is_none() {
            keyspace
                .update_options(|options| options.merge_operator(MergeOperator::counter_wrapping()))
                .expect("an operator");
        }
        for key in (0..KEYS).map(key) {
            let answer = keyspace.get(&key).unwrap_or_else(|error| panic!("{name}: {error}\n{report:#?}"));
            let at = (space, key);
            if answer.as_deref() == original.values.get(&at).map(Vec::as_slice) || has_lost_its_end {
                continue;
            }
            let (name, key) = (keyspace.name(), &at.1);
            let writes = original.writes.get(&at).map(Vec::as_slice).unwrap_or_default();
            let is_lost = report
                .lost
                .iter()
                .any(|lost| writes.iter().any(|seqno| lost.may_hold(&name, key, SeqNo::new(*seqno))));
            let is_doubtful =
                report.doubtful.iter().any(|doubt| doubt.keyspace == *name && doubt.keys.contains(key));
            assert!(
                is_lost || is_doubtful,
                "{name}: {} is {:?}, and the report does not say that it may be: {report:#?}\n{damaged:?}",
                key.escape_ascii(),
                answer.map(|answer| answer.escape_ascii().to_string())
            );
        }
    }
    db.close().expect("the new database closes");
}
