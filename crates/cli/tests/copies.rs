//! `checkpoint`, `backup` and `restore` on the command line.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::Place;
use serde_json::Value;

#[test]
fn a_checkpoint_is_a_database() {
    let place = Place::new();
    place.ok("put a 1");
    place.ok("compact");
    place.ok("put b 2");
    let told = place.ok("checkpoint copy");
    assert!(told.starts_with("copy: 2 tables linked") && told.contains(", 0 written"), "{told}");
    place.ok("put a changed");
    assert_eq!(place.ok("scan --data copy"), "a\t1\nb\t2\n");
    assert_eq!(place.ok("verify --data copy").lines().last(), Some("no damage"));
    let again = place.run("checkpoint copy");
    assert_eq!(again.code, 2);
    assert!(again.err.contains("not empty"), "{}", again.err);
}

#[test]
fn backups_are_made_listed_checked_restored_and_removed() {
    let place = Place::new();
    let missing = place.run("backup list backups");
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("esker backup create backups --data DIR"), "{}", missing.err);
    for round in ["one", "two", "three"] {
        place.ok(&format!("put key {round}"));
        let told = place.ok("backup create backups");
        assert!(told.contains("; new: 1 table, "), "{told}");
    }
    assert_eq!(place.ok("backup list backups").lines().count(), 3);
    let checked = place.ok("backup verify backups");
    assert_eq!(checked.matches("can be restored").count(), 3, "{checked}");
    place.ok("restore backups --data newest");
    place.ok("restore backups --id 1 --data first");
    assert_eq!(place.ok("get key --data newest"), "three\n");
    assert_eq!(place.ok("get key --data first"), "one\n");
    assert_eq!(place.run("restore backups --id 1 --data first").code, 2);
    assert_eq!(place.run("restore backups --id 9 --data ninth").code, 2);
    assert_eq!(place.run("backup prune backups").code, 2);
    assert!(place.ok("backup prune backups --keep 1").starts_with("2 backups removed"));
    let left: Value = serde_json::from_str(&place.ok("backup list backups --json")).unwrap();
    assert_eq!(left["id"], 3);
}

#[test]
fn a_damaged_backup_is_named() {
    let place = Place::new();
    place.ok("put key value");
    place.ok("backup create backups");
    let pool = place.path().join("backups/tables");
    let table = std::fs::read_dir(pool).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let checked = place.run("backup verify backups");
    assert_eq!(checked.code, 3);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(checked.text().contains(name), "{}", checked.text());
    let restored = place.run("restore backups --data again");
    assert_eq!(restored.code, 3);
    assert!(restored.err.contains(name), "{}", restored.err);
    assert!(!place.path().join("again").exists());
}

#[test]
fn an_export_is_imported_checked_and_piped() {
    let place = Place::new();
    place.ok("put a 1");
    place.ok("put --keyspace numbers --key int --value int -5 7");
    assert_eq!(place.ok("export all.esker").split(',').next(), Some("2 pairs of 2 keyspaces"));
    assert!(place.ok("import all.esker --check").starts_with("2 pairs of 2 keyspaces checked"));
    assert!(!place.path().join("elsewhere").exists());
    place.ok("import all.esker --data elsewhere");
    assert_eq!(place.ok("get a --data elsewhere"), "1\n");
    assert_eq!(place.ok("get --keyspace numbers --key int --value int -5 --data elsewhere"), "7\n");
    let piped = place.run("export - --keyspace numbers").out;
    assert_eq!(place.run_with("import - --data piped", &piped).code, 0);
    let names: Vec<String> = place
        .ok("keyspaces --data piped --json")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["keyspace"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["default", "numbers"]);
    let mut bytes = place.read("all.esker");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.write("bad.esker", &bytes);
    for command in ["import bad.esker --check", "import bad.esker --data never"] {
        let bad = place.run(command);
        assert_eq!(bad.code, 3, "{bad:?}");
        assert!(bad.err.contains("bad.esker") && bad.err.contains("at byte"), "{}", bad.err);
    }
    assert_eq!(place.run("import missing.esker --data never-made").code, 4);
    assert!(!place.path().join("never-made").exists());
}
