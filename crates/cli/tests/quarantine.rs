//! `esker quarantine`: damaged tables are listed and replaced.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use std::path::PathBuf;

/// The tables of the database.
fn tables(dir: &WorkingDir) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir.path().join("esker-data/tables")).unwrap();
    names.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_missing_table_is_listed_and_replaced_from_a_checkpoint() {
    let dir = WorkingDir::new();
    let lines: String = (0..100).map(|number| format!("key{number:03}\tvalue\n")).collect();
    assert_eq!(dir.run_with("load --format tsv -", &lines).code, 0);
    assert_eq!(dir.run_with("checkpoint copy", "").code, 0);
    let [table] = tables(&dir).try_into().unwrap();
    std::fs::remove_file(&table).unwrap();
    let refused = dir.run_with("get key001", "");
    assert_eq!(refused.code, 3, "{}", refused.err);
    let listed = dir.run_with("quarantine", "");
    let text = String::from_utf8(listed.out).unwrap();
    assert_eq!(listed.code, 3, "{text}");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(name) && text.contains("[key000..key099]") && text.contains("missing"), "{text}");
    let json = dir.run_with("quarantine --json", "");
    assert!(String::from_utf8(json.out).unwrap().contains("\"reads\":\"refused\""));
    assert_eq!(dir.run_with("quarantine --replace-from nowhere", "").code, 2);
    let replaced = dir.run_with("quarantine --replace-from copy", "");
    let text = String::from_utf8(replaced.out).unwrap();
    assert_eq!(replaced.code, 0, "{text}");
    assert!(text.contains("replaced: file") && text.contains("nothing is quarantined"), "{text}");
    assert_eq!(dir.run_with("get key001", "").out, b"value\n");
    assert_eq!(dir.run_with("verify", "").code, 0);
}
