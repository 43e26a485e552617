//! `verify` and `repair` of databases that are damaged or do not open.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use serde_json::Value;

fn filled() -> WorkingDir {
    let dir = WorkingDir::new();
    let lines: String = (0..5_000).map(|line| format!("key{line:05}\tvalue{line}\n")).collect();
    dir.write("pairs.tsv", lines);
    dir.ok("load pairs.tsv --data db");
    dir.ok("compact --all --data db");
    dir
}

/// The only table of the database.
fn table(dir: &WorkingDir) -> String {
    let names = std::fs::read_dir(dir.path().join("db/tables")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    format!("db/tables/{}", names[0])
}

fn flip(dir: &WorkingDir, name: &str, at: usize) {
    let mut bytes = dir.read(name);
    bytes[at] ^= 1;
    dir.write(name, bytes);
}

#[test]
fn a_damaged_table_is_named_and_the_rest_is_saved() {
    let dir = filled();
    dir.ok("backup create backups --data db");
    let table = table(&dir);
    flip(&dir, &table, 5_000);

    let found = dir.run("verify --data db --against backups");
    let text = found.text();
    assert_eq!(found.code, 3, "{text}");
    assert!(text.contains(&table) && text.contains("keyspace \"default\", keys from \"key"), "{text}");
    assert!(text.contains("0 files alike, 1 different"), "{text}");
    let json: Value = serde_json::from_str(&dir.run("verify --data db --json").text()).unwrap();
    assert_eq!(json["damage"][0]["keyspace"], "default");
    assert!(json["damage"][0]["entries_at_most"].as_u64().unwrap() < 1_000, "{json}");

    let repaired = dir.run("repair db --into new");
    assert_eq!(repaired.code, 3, "something is lost: {repaired:?}");
    assert!(repaired.text().contains("lost: "), "{}", repaired.text());
    assert!(dir.ok("verify --data new").ends_with("no damage\n"));
    let kept: u64 = dir.ok("count --data new").trim().parse().unwrap();
    assert!((4_000..5_000).contains(&kept), "{kept} entries were kept");

    let refilled = dir.ok("repair db --into refilled --refill backups");
    assert!(refilled.contains("taken from the copy: ") && refilled.contains("nothing is lost"), "{refilled}");
    assert_eq!(dir.ok("count --data refilled"), "5000\n");
}

#[test]
fn a_database_without_its_manifest_is_found_again() {
    let dir = filled();
    for entry in std::fs::read_dir(dir.path().join("db")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(dir.run("put key value --data db").code, 3, "it does not open");
    let found = dir.run("verify --data db");
    assert!(found.code == 3 && found.text().contains("CURRENT: the file is missing"), "{found:?}");
    let repaired = dir.run("repair db --into new");
    assert!(
        repaired.code == 3 && repaired.text().contains("doubtful: keyspace \"default\", all keys"),
        "{repaired:?}"
    );
    assert_eq!(dir.ok("get key00007 --data new"), "value7\n");
    assert_eq!(dir.ok("count --data new"), "5000\n");
}

#[test]
fn a_repair_needs_a_database_and_an_empty_target() {
    let dir = filled();
    let missing = dir.run("repair nothing --into new");
    assert!(missing.code == 2 && missing.err.contains("there is no database in"), "{missing:?}");
    let occupied = dir.run("repair db --into db");
    assert!(occupied.code == 2 && occupied.err.contains("must not be changed"), "{occupied:?}");
    dir.write("occupied", "");
    assert_ne!(dir.run("repair db --into occupied").code, 0);
}
