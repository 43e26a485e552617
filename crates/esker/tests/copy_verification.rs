//! A copy is verified: damage of the source, and bits that change while they are read, are noticed before the
//! copy counts. A damaged file of a backup is found, and replaced by the next backup.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{key, tiny, value};
use esker::backup::{Backups, Retention};
use esker::ingest::{IngestOptions, TableWriter};
use esker::parts::StepBackground;
use esker::parts::base::checksum::{crc32c, xxh3_64};
use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker::parts::env::{Env, FileSystem, OpenMode};
use esker::{Database, Error, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENTRIES: u64 = 60;
const DATA: &str = "/data";
const BACKUPS: &str = "/backups";

/// A database with tables and a blob file on a file system that can fail.
struct Subject {
    strict: StrictFs,
    faults: FaultFs,
    db: Database,
}

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let keyspace = tiny().blob_threshold(200);
    Options::default().env(Env::simulated(fs, 3)).memory_budget(8 << 20).keyspace_options(keyspace)
}

impl Subject {
    fn new() -> Subject {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        let db = Database::open_with(DATA, options(Arc::new(faults.clone()))).unwrap();
        for number in 0..ENTRIES {
            db.default_keyspace().put(key(number), value(number, 1)).unwrap();
        }
        db.default_keyspace().put("large", [7; 900]).unwrap();
        db.compact_all().unwrap();
        // Deletes the tables that were merged.
        while db.step_background() {}
        Subject { strict, faults, db }
    }

    fn env(&self) -> Env {
        Env::simulated(Arc::new(self.faults.clone()), 4)
    }

    fn backups(&self, dir: impl AsRef<Path>) -> Backups {
        Backups::with_env(dir, self.env())
    }

    /// Opens what was made, on the file system without faults.
    fn check(&self, dir: &str) {
        let db = Database::open_with(dir, options(Arc::new(self.strict.clone()))).unwrap();
        assert!(db.verify().unwrap().is_clean(), "{dir}");
        assert_eq!(db.default_keyspace().iter().count() as u64, ENTRIES + 1, "{dir}");
        db.close().unwrap();
    }

    /// The data files in a directory.
    fn data_in(&self, dir: &str) -> Vec<PathBuf> {
        let names = self.strict.list(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name);
        let data = names.filter(|name| name.ends_with(".sst") || name.ends_with(".blob"));
        data.map(|name| Path::new(dir).join(name)).collect()
    }

    fn flip(&self, path: &Path) {
        let file = self.strict.open(path, OpenMode::ReadWrite).unwrap();
        let (mut byte, at) = ([0], file.len().unwrap() / 3);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
    }
}

#[test]
fn a_damaged_table_is_not_copied() {
    let subject = Subject::new();
    for table in subject.data_in("/data/tables") {
        subject.flip(&table);
        let error = subject.db.backup(&subject.backups(BACKUPS)).unwrap_err();
        assert!(matches!(error, Error::Corruption(_)), "{error}");
        assert!(error.to_string().contains(table.to_str().unwrap()), "{error}");
        assert!(subject.backups(BACKUPS).list().unwrap().is_empty(), "{}", table.display());
        // Where links are not possible, a checkpoint copies.
        subject.faults.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Link));
        let error = subject.db.checkpoint("/copy").unwrap_err();
        assert!(error.to_string().contains(table.to_str().unwrap()), "{error}");
        assert!(subject.strict.list(Path::new("/copy")).is_err());
        subject.faults.heal();
        subject.flip(&table);
    }
    let id = subject.db.backup(&subject.backups(BACKUPS)).unwrap().id;
    subject.backups(BACKUPS).restore(id, "/restored").unwrap();
    subject.check("/restored");
}

/// A linked file is not read, but a cut one is noticed.
#[test]
fn a_table_that_was_cut_off_is_not_linked() {
    let subject = Subject::new();
    let table = subject.data_in("/data/tables").remove(0);
    let file = subject.strict.open(&table, OpenMode::ReadWrite).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    let error = subject.db.checkpoint("/copy").unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
    assert!(subject.strict.list(Path::new("/copy")).is_err());
}

/// Each read of data in turn returns a wrong bit, once: what is made nevertheless is right, and so is what is
/// made afterwards.
#[test]
fn no_copy_keeps_a_bit_that_changed_while_it_was_read() {
    let subject = Subject::new();
    let flipped = |number| Rule::new(Fault::FlippedBit { bit: number * 977 }, When::Nth(number));
    let id = subject.db.backup(&subject.backups(BACKUPS)).unwrap().id;
    let (mut made, mut refused) = (0, 0);
    for number in 1..=60 {
        subject.faults.add(flipped(number).on(Operation::Read));
        subject.faults.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Link));
        let (backups, copy) = (format!("/backups-{number}"), format!("/copy-{number}"));
        let outcome = match number % 3 {
            0 => subject.db.backup(&subject.backups(&backups)).map(drop),
            1 => subject.db.checkpoint(&copy).map(drop),
            _ => subject.backups(BACKUPS).restore(id, &copy).map(drop),
        };
        subject.faults.heal();
        if let Err(error) = &outcome {
            assert!(matches!(error, Error::Corruption(_)), "read {number}: {error}");
        }
        made += u32::from(outcome.is_ok());
        refused += u32::from(outcome.is_err());
        if number % 3 == 0 {
            let backups = subject.backups(&backups);
            let later = subject.db.backup(&backups).unwrap();
            for backup in backups.list().unwrap() {
                assert!(backups.verify(backup.id).unwrap().is_clean(), "read {number}");
            }
            backups.restore(later.id, &copy).unwrap();
        }
        if outcome.is_ok() || number % 3 == 0 {
            subject.check(&copy);
        }
    }
    assert!(made > 10 && refused > 0, "{made} made, {refused} refused");
}

/// Verification finds a damaged file of the shared directory, and the next backup replaces it, for the older
/// backups, too: also if the damage has the checksum that their catalogs state.
#[test]
fn a_damaged_file_of_a_backup_is_replaced_by_the_next_one() {
    for is_poisoned in [false, true] {
        for finder in ["verify", "restore"] {
            let subject = Subject::new();
            let backups = subject.backups(BACKUPS);
            let first = subject.db.backup(&backups).unwrap();
            let files = subject.data_in("/backups/tables");
            for file in &files {
                subject.flip(file);
                if is_poisoned {
                    poison_catalog(&subject.strict, Path::new("/backups/000001/BACKUP"), file);
                }
            }
            if finder == "verify" {
                assert_eq!(backups.verify(first.id).unwrap().damage.len(), files.len());
            } else {
                // A restore ends at the first damaged file.
                assert!(matches!(backups.restore(first.id, "/never"), Err(Error::Corruption(_))));
            }
            let second = subject.db.backup(&backups).unwrap();
            let replaced = if finder == "verify" { files.len() as u64 } else { 1 };
            assert_eq!((second.copied_tables, second.tables), (replaced, first.tables), "{finder}");
            if finder == "verify" {
                for backup in [first, second] {
                    let found = backups.verify(backup.id).unwrap();
                    assert!(found.is_clean(), "{:?}", found.damage);
                    let target = format!("/restored-{}", backup.id);
                    backups.restore(backup.id, &target).unwrap();
                    subject.check(&target);
                }
                assert_eq!(subject.db.backup(&backups).unwrap().copied_tables, 0);
            }
            assert_eq!(subject.data_in("/backups/tables").len(), files.len());
        }
    }
}

/// Changes a catalog as if the file had been copied as it is now.
fn poison_catalog(fs: &StrictFs, catalog: &Path, file: &Path) {
    let read = |path: &Path| {
        let file = fs.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let uid = file.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned();
    let text = String::from_utf8(read(catalog)).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    for line in lines.iter_mut().filter(|line| line.contains(&uid)) {
        let at = line.rfind(' ').unwrap() + 1;
        line.replace_range(at.., &format!("{:016x}", xxh3_64(&read(file))));
    }
    let body = lines.join("\n") + "\n";
    let text = format!("{body}crc {:08x}\n", crc32c(body.as_bytes()));
    let file = fs.open(catalog, OpenMode::CreateOrTruncate).unwrap();
    file.write_at(text.as_bytes(), 0).unwrap();
}

/// What is remembered of damage is forgotten with the backups that had the file.
#[test]
fn marks_of_damage_are_removed_with_their_tables() {
    let subject = Subject::new();
    let backups = subject.backups(BACKUPS);
    let first = subject.db.backup(&backups).unwrap();
    let file = subject.data_in("/backups/tables").remove(0);
    subject.flip(&file);
    assert!(!backups.verify(first.id).unwrap().is_clean());
    for number in 0..ENTRIES {
        subject.db.default_keyspace().put(key(number), value(number, 2)).unwrap();
    }
    subject.db.default_keyspace().put("large", [8; 900]).unwrap();
    subject.db.compact_all().unwrap();
    let second = subject.db.backup(&backups).unwrap();
    backups.retain(Retention::keep_last(1)).unwrap();
    assert!(backups.verify(second.id).unwrap().is_clean());
    let left = subject.strict.list(Path::new("/backups/tables")).unwrap();
    assert_eq!(left.len() as u64, second.tables, "{left:?}");
}

#[test]
fn an_ingested_copy_is_verified() {
    let subject = Subject::new();
    let options = KeyspaceOptions::default();
    let mut table = TableWriter::create_in(&subject.env(), "/outside.sst", &options).unwrap();
    for number in 0..40 {
        table.put(key(number), value(number, 9)).unwrap();
    }
    table.finish().unwrap();
    for number in 1.. {
        let keyspace = subject.db.keyspace(&format!("ingested-{number}")).unwrap();
        let flipped = Rule::new(Fault::FlippedBit { bit: number * 131 }, When::Nth(number));
        let before = subject.faults.injected();
        subject.faults.add(flipped.on(Operation::Read).path("outside"));
        let outcome = keyspace.ingest(["/outside.sst"], IngestOptions::new());
        let was_hit = subject.faults.injected() > before;
        subject.faults.heal();
        match outcome {
            Ok(_) => assert_eq!(keyspace.get(key(39)).unwrap().as_deref(), Some(&*value(39, 9))),
            Err(error) => assert!(matches!(error, Error::Corruption(_)), "{error}"),
        }
        assert!(subject.db.verify().unwrap().is_clean(), "read {number}");
        if !was_hit {
            break;
        }
    }
}
