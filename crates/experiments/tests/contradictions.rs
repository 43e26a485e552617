//! The contradictions of the documents (section W of docs/requirements.md) are named on the pages where our
//! figures stand beside theirs, and in the list of all of them.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use std::path::Path;

/// Clause, page and words.
const NAMED: &[(&str, &str, &str)] = &[
    ("W1.1", "filters.md", "No Bloom filter needs fewer than 9.59"),
    ("W1.1", "filters.md", "\"40 % fewer false positives\" and \"30 % fewer\" are the same claim"),
    ("W1.2", "filters.md", "with the names of the libraries in another order"),
    ("W1.2", "filters.md", "are \"4x\" in one place and 1.66 times in its table"),
    ("W2.1", "peers.md", "**Points** of 2.85 million a second stand beside 73,642"),
    ("W2.2", "scaling.md", "12.9 M a second in 4.2.1 and 3.12 M in 4.6"),
    ("W2.2", "scaling.md", "12.93 times on sixteen threads, which is 0.81 of linear"),
    ("W2.2", "peers.md", "**85 to 90 % of RocksDB's performance**"),
    ("W2.2", "peers.md", "**Whole scans** of 50,000 a second are more than memory delivers"),
    ("W3.1", "indexes.md", "\"04261537\" in its text is the order of reversed bits"),
    (
        "W3.1",
        "indexes.md",
        "FastLane is another name of Eytzinger's layout in one place and a form of its own in another",
    ),
    ("W3.2", "hashes.md", "whose p-value is below 10^-100, not 0.997"),
    ("W3.3", "memtables.md", "calls it wait-free with hazard pointers, which it is not"),
    ("W3.4", "filters.md", "both are Monkey reversed"),
    ("W3.5", "contradictions.md", "its code never reads its manifest"),
    ("W3.5", "contradictions.md", "two formats for one file"),
    ("W3.6", "filters.md", "that takes 14.4 bits of an ideal Bloom filter"),
    ("W4.1", "byron.md", "0.1, 1 and 2 bits a key are 95, 62 and 38 % false positives at best"),
    ("W4.2", "filters.md", "byron larger tables more"),
    ("W4.3", "byron.md", "its conclusion says 0.2 s and 2 s"),
    ("W4.3", "byron.md", "28·10^9 cycles in its text (5.2) and 142·10^9 in its table"),
    ("W4.4", "byron.md", "is 3.9·10^-13 and not 1.7·10^-31"),
    ("W4.4", "byron.md", "no erase blocks of an SSD"),
    ("W5.1", "csc443.md", "lacks parentheses as it is printed"),
    ("W5.1", "csc443.md", "rates above 1 if the size ratio is above 2"),
    ("W5.2", "csc443.md", "denies keys that it holds"),
    ("W5.2", "csc443.md", "which can then not be stored"),
    ("W6.1", "fractio.md", "a skiplist whose insertions are sequential ones"),
    ("W6.1", "fractio.md", "add up to more than the whole"),
    ("W6.2", "fractio.md", "walk past a tombstone to an older version"),
    ("W6.2", "fractio.md", "publish sequence numbers at flushes only"),
];

/// Clauses of section W.
const CLAUSES: [&str; 18] = [
    "W1.1", "W1.2", "W2.1", "W2.2", "W3.1", "W3.2", "W3.3", "W3.4", "W3.5", "W3.6", "W4.1", "W4.2", "W4.3",
    "W4.4", "W5.1", "W5.2", "W6.1", "W6.2",
];

/// The text of a file below `docs`, its words separated by single spaces.
fn words_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let file = StdFileSystem.open(&path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn contradictions_are_named_beside_our_figures() {
    for (clause, page, words) in NAMED {
        let text = words_of(&format!("experiments/{page}"));
        assert!(text.contains(words), "{clause}: docs/experiments/{page} does not say {words:?}");
    }
}

/// A new clause needs words of a page here.
#[test]
fn every_clause_has_its_page() {
    let requirements = words_of("requirements.md");
    for clause in CLAUSES {
        assert!(NAMED.iter().any(|(of, ..)| *of == clause), "{clause} has no page");
        assert!(requirements.contains(&format!("| {clause} ")), "{clause} is not in docs/requirements.md");
    }
    assert_eq!(requirements.matches("| W").count(), CLAUSES.len());
}
