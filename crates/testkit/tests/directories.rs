//! Verification and repair of directories that are damaged in several places at once: the corpus of the fuzz
//! target, and seeded mutations of it.
//!
//! A failure prints the input in hexadecimal; keep it in `fuzz/corpus/directory` under a name that says what
//! it showed.

use esker::parts::env::{FileSystem, OpenMode, SeededRandom, StdFileSystem};
use esker_testkit::decoders::mutate::mutate;
use esker_testkit::directory_image::{accepts, valid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Directories, and as many mutated ones; some milliseconds each. `ESKER_DIRECTORIES=n` makes it n.
const DIRECTORIES: u64 = 400;

fn run(input: &[u8], what: &str) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(|| accepts(input)));
    outcome.unwrap_or_else(|_| {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{what} {hex}")
    })
}

#[test]
fn a_whole_directory_and_one_with_a_log_are_complete() {
    assert!(run(&[0], "the whole database with tables alone") && run(&[1], "the one with a log"));
}

#[test]
fn the_corpus_is_repaired() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/directory");
    let names = StdFileSystem.list(&dir).unwrap_or_else(|error| panic!("the corpus: {error}"));
    assert!(names.len() > 10, "{} inputs", names.len());
    for entry in names {
        let file = StdFileSystem.open(&dir.join(&entry.name), OpenMode::Read).expect("it was listed");
        let mut bytes = vec![0; file.len().expect("it is open") as usize];
        file.read_exact_at(&mut bytes, 0).expect("it is as long as it says");
        let whole = run(&bytes, &entry.name);
        assert!(whole || !entry.name.starts_with("valid"), "{} is no whole input", entry.name);
    }
}

#[test]
fn damages_in_several_places_are_repaired_or_told() {
    let count = std::env::var("ESKER_DIRECTORIES").ok();
    let count = count.map_or(DIRECTORIES, |text| text.parse().unwrap_or_else(|_| panic!("{text}")));
    let random = SeededRandom::new(5);
    for number in 0..count {
        let input = valid(&random);
        run(&input, &format!("directory {number}:"));
        let mutated = mutate(&input, &valid(&random), &random);
        run(&mutated, &format!("directory {number}, mutated:"));
    }
}
