//! Files that are missing, cut short, or another one's: refused by name, or not needed.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::{Database, Error, Options, Result};
use std::fs;
use std::path::{Path, PathBuf};

const ENTRIES: u64 = 600;

fn open(path: &Path) -> Result<Database> {
    Database::open_with(path, Options::default().keyspace_options(tiny()))
}

/// A closed database with several tables; returns the paths of all its files.
fn filled(path: &Path) -> Result<Vec<PathBuf>> {
    let db = open(path)?;
    for number in 0..ENTRIES {
        db.default_keyspace().put(key(number), value(number, 0))?;
    }
    db.compact_all()?;
    db.close()?;
    Ok(files_below(path))
}

#[allow(clippy::disallowed_methods, reason = "the test looks behind the database's back")]
fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Opens and reads everything; the answers must be right unless an error is returned.
fn read_all(path: &Path) -> Result<()> {
    let db = open(path)?;
    let read = (0..ENTRIES).try_for_each(|number| {
        let found = db.default_keyspace().get(key(number))?;
        assert_eq!(found.as_deref(), Some(value(number, 0).as_slice()), "key {number}");
        Ok(())
    });
    db.close()?;
    read
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// Damages one file at a time, each time in a fresh copy of one database, and reads.
#[allow(clippy::disallowed_methods, reason = "the test copies files behind the database's back")]
fn sweep(damage: impl Fn(&Path, &[PathBuf])) -> Vec<(PathBuf, Result<()>)> {
    let whole = TestDir::new("whole");
    let originals = filled(whole.path()).unwrap();
    let inside: Vec<&Path> = originals.iter().map(|file| file.strip_prefix(whole.path()).unwrap()).collect();
    let outcome = |&damaged: &&Path| {
        let dir = TestDir::new("lost");
        let copies: Vec<PathBuf> = inside.iter().map(|file| dir.path().join(file)).collect();
        for (original, copy) in originals.iter().zip(&copies) {
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(original, copy).unwrap();
        }
        damage(&dir.path().join(damaged), &copies);
        (damaged.to_owned(), read_all(dir.path()))
    };
    inside.iter().map(outcome).collect()
}

/// Tables are needed, so the error names the table; some other files are not needed.
fn assert_refused_or_harmless(outcomes: &[(PathBuf, Result<()>)]) {
    assert!(outcomes.iter().filter(|(path, _)| is_table(path)).count() > 1, "{outcomes:?}");
    for (path, outcome) in outcomes {
        let name = path.file_name().unwrap().to_string_lossy();
        match outcome {
            Err(error @ (Error::Corruption(_) | Error::Io(_))) => {
                assert!(!is_table(path) || error.to_string().contains(&*name), "{name}: {error}");
            }
            Err(error) => panic!("{name}: {error}"),
            Ok(()) => assert!(!is_table(path), "{name} is needed"),
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test damages files behind the database's back")]
fn a_missing_file_is_noticed_or_not_needed() {
    assert_refused_or_harmless(&sweep(|path, _| fs::remove_file(path).unwrap()));
}

#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "as above")]
fn a_file_cut_short_is_noticed_or_not_needed() {
    assert_refused_or_harmless(&sweep(|path, _| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "as above")]
fn a_table_with_the_bytes_of_another_one_is_noticed() {
    let outcomes = sweep(|path, files| {
        if is_table(path) {
            let other = files.iter().find(|other| is_table(other) && *other != path).unwrap();
            fs::write(path, fs::read(other).unwrap()).unwrap();
        }
    });
    for (path, outcome) in outcomes.iter().filter(|(path, _)| is_table(path)) {
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{}: {outcome:?}", path.display());
    }
}
