//! Verification and repair of damaged directories: each kind of damage to each kind of file.
//!
//! The oracle (RB3): every answer of the repaired database is right, or the key lies in a range that the
//! report calls lost or doubtful.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::merge::MergeOperator;
use esker::parts::env::fault::{Crash, StrictFs};
use esker::parts::env::{Env, FileSystem, OpenMode};
use esker::repair::{
    DirectoryReport, RepairBasis, RepairOptions, RepairReport, VerifyOptions, repair_directory,
    verify_directory,
};
use esker::{Database, KeyspaceOptions, Options, Result, SeqNo, WriteOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/data";
const NEW: &str = "/new";
const COPY: &str = "/copy";
const KEYS: u64 = 160;
const SPACES: [&str; 2] = ["default", "counts"];
const SEED: u64 = 11;
/// Values of so many bytes and more are in blob files.
const LARGE: usize = 300;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

fn env(fs: &StrictFs) -> Env {
    Env::simulated(Arc::new(fs.clone()), SEED)
}

fn open(fs: &StrictFs, dir: &str) -> Result<Database> {
    let keyspace = KeyspaceOptions::default().block_size(512).table_size(4 << 10);
    // Nothing is merged by itself, so that tables of several generations stay.
    let keyspace = keyspace.blob_threshold(LARGE as u64).set("strategy", "none").unwrap();
    let options = Options::default().env(env(fs)).keyspace_options(keyspace).flush_on_close(false);
    Database::open_with(dir, options)
}

/// Present values, and the sequence numbers of all writes to each key.
#[derive(Clone, Debug, Default)]
struct Expected {
    values: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    writes: BTreeMap<(usize, Vec<u8>), Vec<u64>>,
    seqno: u64,
}

impl Expected {
    fn put(&mut self, space: usize, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.seqno += 1;
        self.change(space, key, value);
    }

    fn change(&mut self, space: usize, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.writes.entry((space, key.clone())).or_default().push(self.seqno);
        match value {
            Some(value) => self.values.insert((space, key), value),
            None => self.values.remove(&(space, key)),
        };
    }
}

/// A database with overwrites, deletes, range deletes, merges, expiring and large values, in tables of
/// several generations and in the log.
struct Victim {
    fs: StrictFs,
    expected: Expected,
}

impl Victim {
    fn new(is_all_in_tables: bool) -> Victim {
        let fs = StrictFs::new();
        let mut expected = Expected::default();
        let db = open(&fs, DIR).unwrap();
        let counter =
            KeyspaceOptions::default().block_size(512).merge_operator(MergeOperator::counter_wrapping());
        db.keyspace_with(SPACES[1], counter).unwrap();
        round(&db, &mut expected, 1);
        db.flush().unwrap();
        db.compact_all().unwrap();
        round(&db, &mut expected, 2);
        db.flush().unwrap();
        if !is_all_in_tables {
            db.checkpoint(COPY).unwrap();
            round(&db, &mut expected, 3);
        }
        db.close().unwrap();
        Victim { fs: fs.crash(Crash::Process), expected }
    }

    fn image(&self) -> StrictFs {
        self.fs.crash(Crash::Process)
    }
}

fn round(db: &Database, expected: &mut Expected, round: u64) {
    let (texts, counts) = (db.default_keyspace(), db.open_keyspace(SPACES[1]).unwrap());
    for number in (0..KEYS).filter(|number| number % round == 0) {
        let len = if number % 7 == 0 { LARGE + 40 } else { 60 };
        let value = format!("{number} of round {round} ").repeat(len / 10).into_bytes();
        match number % 9 {
            0 => texts.delete(key(number)).unwrap(),
            1 => {
                let year = WriteOptions::new().ttl(Duration::from_secs(365 * 24 * 3600));
                texts.put_with(key(number), &value, year).unwrap();
            }
            _ => texts.put(key(number), &value).unwrap(),
        }
        expected.put(0, key(number), (number % 9 != 0).then_some(value));
        if number % 5 == 0 {
            counts.merge(key(number), round.to_string()).unwrap();
            let before = expected.values.get(&(1, key(number))).cloned().unwrap_or_else(|| b"0".to_vec());
            let before: u64 = String::from_utf8(before).unwrap().parse().unwrap();
            expected.put(1, key(number), Some((before + round).to_string().into_bytes()));
        }
    }
    let (from, to) = (KEYS / 4 * round, KEYS / 4 * round + 9);
    texts.delete_range(key(from)..key(to)).unwrap();
    expected.seqno += 1;
    for number in from..to {
        expected.change(0, key(number), None);
    }
}

/// Every file below a directory, with its bytes.
fn files_below(fs: &StrictFs, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            files.extend(files_below(fs, &path));
        } else {
            let file = fs.open(&path, OpenMode::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            files.insert(path, bytes);
        }
    }
    files
}

/// Replaces a file; another name of it, in a checkpoint, keeps the old bytes.
fn overwrite(fs: &StrictFs, path: &Path, bytes: &[u8]) {
    fs.remove_file(path).unwrap();
    fs.open(path, OpenMode::CreateOrTruncate).unwrap().write_at(bytes, 0).unwrap();
}

fn verify(fs: &StrictFs, dir: &str) -> DirectoryReport {
    verify_directory(dir, &VerifyOptions::new().env(env(fs))).unwrap()
}

/// Repairs, checks that the original is untouched and the result opens and verifies, and compares it with
/// what is expected. Returns the report and the number of wrong answers, all of which the report covers.
fn repair_and_check(fs: &StrictFs, expected: &Expected, refill: Option<&str>) -> (RepairReport, usize) {
    let before = files_below(fs, Path::new(DIR));
    let mut options = RepairOptions::new().env(env(fs));
    if let Some(copy) = refill {
        options = options.refill(copy);
    }
    let report = repair_directory(DIR, NEW, &options).unwrap();
    assert_eq!(before, files_below(fs, Path::new(DIR)), "the original has changed");
    let repaired = verify(fs, NEW);
    assert!(repaired.damage.is_empty(), "{:#?}\n{report:#?}", repaired.damage);
    let wrong = compare(fs, expected, &report);
    (report, wrong)
}

fn compare(fs: &StrictFs, expected: &Expected, report: &RepairReport) -> usize {
    let db = open(fs, NEW).unwrap();
    let mut wrong = 0;
    for (space, stated) in SPACES.iter().enumerate() {
        let made_up = format!("keyspace-{space}");
        let found = [*stated, made_up.as_str()].into_iter().find_map(|name| db.open_keyspace(name).ok());
        let keyspace = found.unwrap_or_else(|| db.keyspace(stated).unwrap());
        let is_lost =
            report.keyspaces.iter().any(|other| other.name == *keyspace.name() && other.are_options_lost);
        if space == 1
            && (is_lost || keyspace.options().named_values().iter().all(|(name, _)| name != "merge_operator"))
        {
            keyspace
                .update_options(|options| options.merge_operator(MergeOperator::counter_wrapping()))
                .unwrap();
        }
        for key in (0..KEYS).map(key) {
            let at = (space, key.clone());
            let answer = keyspace.get(&key).unwrap();
            if answer.as_deref() == expected.values.get(&at).map(Vec::as_slice) {
                continue;
            }
            wrong += 1;
            let name = keyspace.name();
            let writes = expected.writes.get(&at).cloned().unwrap_or_default();
            let is_lost = report
                .lost
                .iter()
                .any(|lost| writes.iter().any(|seqno| lost.may_hold(&name, &key, SeqNo::new(*seqno))));
            let is_doubtful =
                report.doubtful.iter().any(|doubt| doubt.keyspace == *name && doubt.keys.contains(&key));
            assert!(
                is_lost || is_doubtful,
                "{name}: {} is {:?}, and the report does not say that it may be: {report:#?}",
                key.escape_ascii(),
                answer.map(|answer| answer.escape_ascii().to_string())
            );
        }
    }
    db.close().unwrap();
    wrong
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Delete,
    Cut(usize),
    Flip(usize),
    /// The bytes of the next file of the same kind.
    Swap,
}

fn kind_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    match path.extension() {
        Some(extension) => extension.to_str().unwrap().to_owned(),
        None => name.split('-').next().unwrap().to_owned(),
    }
}

/// Damages one file at a time.
fn sweep(victim: &Victim, kinds: &[&str], mut check: impl FnMut(&StrictFs, &Path, Damage)) {
    let originals = files_below(&victim.fs, Path::new(DIR));
    for (path, bytes) in originals.iter().filter(|(path, _)| kinds.contains(&kind_of(path).as_str())) {
        let len = bytes.len();
        let cuts = [0, len / 4, len / 2, len.saturating_sub(60), len.saturating_sub(1)];
        let flips = (0..10).map(|step| Damage::Flip(len * step / 10 + step));
        let damages = [Damage::Delete, Damage::Swap].into_iter().chain(cuts.map(Damage::Cut)).chain(flips);
        for damage in damages {
            let fs = victim.image();
            let mut changed = bytes.clone();
            match damage {
                Damage::Delete => fs.remove_file(path).unwrap(),
                Damage::Cut(at) => changed.truncate(at),
                Damage::Flip(at) if at < len => changed[at] ^= 1 << (at % 8),
                Damage::Flip(_) => continue,
                Damage::Swap => {
                    let others = originals.iter().filter(|(other, _)| kind_of(other) == kind_of(path));
                    let Some((_, other)) = others.rev().find(|(other, _)| *other != path) else { continue };
                    changed.clone_from(other);
                }
            }
            if !matches!(damage, Damage::Delete) {
                overwrite(&fs, path, &changed);
            }
            check(&fs, path, damage);
        }
    }
}

#[test]
fn a_whole_database_verifies_and_its_repair_loses_nothing() {
    for is_all_in_tables in [true, false] {
        let victim = Victim::new(is_all_in_tables);
        let fs = victim.image();
        let report = verify(&fs, DIR);
        assert!(report.is_clean(), "{:#?}", report.damage);
        assert!(report.tables > 2 && report.blob_values > 0 && report.pointers > 0, "{report:#?}");
        assert!(report.range_deletes > 0, "{report:#?}");
        assert_eq!(report.log_records > 0, !is_all_in_tables);
        let (report, wrong) = repair_and_check(&fs, &victim.expected, None);
        assert_eq!((wrong, report.is_complete()), (0, true), "{report:#?}");
        assert_eq!(report.seqno.get(), victim.expected.seqno);
        assert!(matches!(report.basis, RepairBasis::Manifest { .. }));
    }
}

#[test]
fn damage_of_tables_and_blob_files_is_named_and_its_ranges_are_told() {
    let victim = Victim::new(false);
    let (mut damages, mut wrong_answers) = (0, 0);
    sweep(&victim, &["sst", "blob"], |fs, path, damage| {
        let report = verify(fs, DIR);
        let is_named = report.damage.iter().any(|finding| finding.file == path);
        assert!(is_named, "{damage:?} of {}: {:#?}", path.display(), report.damage);
        let (report, wrong) = repair_and_check(fs, &victim.expected, None);
        assert!(matches!(report.basis, RepairBasis::Manifest { .. }), "{damage:?}: {report:#?}");
        assert!(wrong == 0 || !report.lost.is_empty() || !report.doubtful.is_empty());
        damages += 1;
        wrong_answers += wrong;
        if let Damage::Flip(_) = damage {
            let limit = KEYS as usize;
            assert!(wrong < limit / 2, "{damage:?} of {} costs {wrong} answers", path.display());
        }
    });
    assert!(damages > 80 && wrong_answers > 100, "{damages} damages, {wrong_answers} wrong answers");
}

#[test]
fn damage_of_current_costs_nothing() {
    let victim = Victim::new(false);
    sweep(&victim, &["CURRENT"], |fs, path, damage| {
        if let Damage::Swap = damage {
            return;
        }
        let report = verify(fs, DIR);
        assert!(report.damage.iter().any(|finding| finding.file == path), "{damage:?}");
        let (report, wrong) = repair_and_check(fs, &victim.expected, None);
        assert_eq!((wrong, report.is_complete()), (0, true), "{damage:?}: {report:#?}");
    });
}

#[test]
fn damage_of_the_manifest_is_named_or_harmless() {
    let victim = Victim::new(false);
    sweep(&victim, &["MANIFEST"], |fs, path, damage| {
        let found = verify(fs, DIR);
        let (report, wrong) = repair_and_check(fs, &victim.expected, None);
        if found.damage.is_empty() {
            assert_eq!(
                (wrong, report.is_complete()),
                (0, true),
                "{damage:?} of {}: {report:#?}",
                path.display()
            );
        }
    });
}

#[test]
fn damage_of_the_log_is_told_by_sequence_numbers() {
    let victim = Victim::new(false);
    let mut told = 0;
    sweep(&victim, &["seg"], |fs, path, damage| {
        let found = verify(fs, DIR);
        let (report, wrong) = repair_and_check(fs, &victim.expected, None);
        if found.damage.is_empty() && !matches!(damage, Damage::Cut(_) | Damage::Delete) {
            assert_eq!((wrong, report.is_complete()), (0, true), "{damage:?} of {}", path.display());
        }
        told += usize::from(!report.lost.is_empty());
    });
    assert!(told > 3, "{told} damages were told");
}

#[test]
fn without_a_manifest_every_present_value_is_found() {
    for is_all_in_tables in [true, false] {
        let victim = Victim::new(is_all_in_tables);
        let fs = victim.image();
        for path in files_below(&fs, Path::new(DIR)).keys() {
            if ["CURRENT", "MANIFEST"].contains(&kind_of(path).as_str()) {
                fs.remove_file(path).unwrap();
            }
        }
        assert!(!verify(&fs, DIR).is_clean());
        let (report, wrong) = repair_and_check(&fs, &victim.expected, None);
        assert_eq!(wrong, 0, "{report:#?}");
        assert_eq!(report.basis, RepairBasis::Files);
        assert!(
            report.keyspaces.iter().any(|keyspace| keyspace.name == "keyspace-1" && keyspace.is_name_lost)
        );
        assert!(!report.doubtful.is_empty(), "deletes may come back, and that is said");
    }
}

#[test]
fn a_copy_refills_what_is_lost() {
    let victim = Victim::new(false);
    let mut refilled = 0;
    let copied: Vec<Vec<u8>> = files_below(&victim.fs, Path::new(COPY)).into_values().collect();
    let originals = files_below(&victim.fs, Path::new(DIR));
    sweep(&victim, &["sst", "blob"], |fs, path, damage| {
        if !copied.contains(&originals[path]) {
            return;
        }
        let (report, wrong) = repair_and_check(fs, &victim.expected, Some(COPY));
        assert_eq!((wrong, report.is_complete()), (0, true), "{damage:?} of {}: {report:#?}", path.display());
        refilled += report.refilled.len();
    });
    assert!(refilled > 20, "{refilled} files were refilled");
}

#[test]
fn a_comparison_finds_what_differs() {
    let victim = Victim::new(false);
    let fs = victim.image();
    let options = VerifyOptions::new().env(env(&fs)).against(COPY);
    let alike = verify_directory(DIR, &options).unwrap().comparison.unwrap();
    assert!(alike.same > 3 && alike.differing.is_empty() && alike.only_in_copy.is_empty(), "{alike:#?}");
    let copied = files_below(&fs, Path::new(COPY));
    let originals: Vec<Vec<u8>> = files_below(&fs, Path::new(DIR)).into_values().collect();
    let is_shared =
        |(path, bytes): &(&PathBuf, &Vec<u8>)| kind_of(path) == "sst" && originals.contains(bytes);
    let (path, bytes) = copied.iter().find(is_shared).unwrap();
    let mut bytes = bytes.clone();
    bytes[100] ^= 1;
    overwrite(&fs, path, &bytes);
    let report = verify_directory(DIR, &options).unwrap();
    let differing = &report.comparison.as_ref().unwrap().differing;
    assert_eq!((differing.len(), differing[0].offset, &differing[0].copy), (1, 100, path));
    assert!(report.damage.is_empty() && !report.is_clean());
}

#[test]
fn a_database_in_use_is_refused_and_so_is_a_target_inside() {
    let victim = Victim::new(false);
    let fs = victim.image();
    let options = RepairOptions::new().env(env(&fs));
    let inside = repair_directory(DIR, "/data/new", &options).unwrap_err();
    assert!(inside.to_string().contains("lies in /data"), "{inside}");
    let db = open(&fs, DIR).unwrap();
    let refused = repair_directory(DIR, NEW, &options).unwrap_err();
    assert!(matches!(refused, esker::Error::Locked { .. }), "{refused}");
    db.close().unwrap();
    let missing = repair_directory("/nothing", NEW, &options).unwrap_err();
    assert!(matches!(missing, esker::Error::NotFound(_)), "{missing}");
}

/// RB1, RB4: wherever a repair is interrupted, the original is untouched, and the next repair succeeds.
#[test]
fn an_interrupted_repair_is_repeated() {
    let victim = Victim::new(false);
    let fs = victim.image();
    let table =
        files_below(&fs, Path::new(DIR)).into_iter().find(|(path, _)| kind_of(path) == "sst").unwrap();
    let mut bytes = table.1.clone();
    bytes[200] ^= 1;
    overwrite(&fs, &table.0, &bytes);
    let fs = fs.crash(Crash::PowerNoneLost);
    let before = files_below(&fs, Path::new(DIR));
    repair_directory(DIR, NEW, &RepairOptions::new().env(env(&fs))).unwrap();
    let events = fs.trace_len();
    for cut in (0..=events).step_by(3).chain([events]) {
        for crash in [Crash::Process, Crash::PowerAllLost] {
            let image = fs.image(cut, crash);
            assert_eq!(before, files_below(&image, Path::new(DIR)), "cut {cut} by {crash:?}");
            if image.list(Path::new(NEW)).is_ok() {
                assert!(verify(&image, NEW).is_clean(), "cut {cut} by {crash:?}: whole if it has its name");
                continue;
            }
            let (_, wrong) = repair_and_check(&image, &victim.expected, None);
            assert!(wrong < 40);
        }
    }
}
