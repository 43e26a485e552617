//! `checkpoint`, `backup` and `restore` on the command line.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use serde_json::Value;
use std::process::{Child, Stdio};

#[test]
fn a_checkpoint_is_a_database() {
    let dir = WorkingDir::new();
    dir.ok("put a 1");
    dir.ok("compact");
    dir.ok("put b 2");
    let told = dir.ok("checkpoint copy");
    assert!(told.starts_with("copy: 2 tables linked") && told.contains(", 0 written"), "{told}");
    dir.ok("put a changed");
    assert_eq!(dir.ok("scan --data copy"), "a\t1\nb\t2\n");
    assert_eq!(dir.ok("verify --data copy").lines().last(), Some("no damage"));
    let again = dir.run("checkpoint copy");
    assert_eq!(again.code, 2);
    assert!(again.err.contains("not empty"), "{}", again.err);
}

#[test]
fn backups_are_made_listed_checked_restored_and_removed() {
    let dir = WorkingDir::new();
    let missing = dir.run("backup list backups");
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("esker backup create backups --data DIR"), "{}", missing.err);
    for round in ["one", "two", "three"] {
        dir.ok(&format!("put key {round}"));
        let told = dir.ok("backup create backups");
        assert!(told.contains("; new: 1 table, "), "{told}");
    }
    assert_eq!(dir.ok("backup list backups").lines().count(), 3);
    let checked = dir.ok("backup verify backups");
    assert_eq!(checked.matches("can be restored").count(), 3, "{checked}");
    dir.ok("restore backups --data newest");
    dir.ok("restore backups --id 1 --data first");
    assert_eq!(dir.ok("get key --data newest"), "three\n");
    assert_eq!(dir.ok("get key --data first"), "one\n");
    assert_eq!(dir.run("restore backups --id 1 --data first").code, 2);
    assert_eq!(dir.run("restore backups --id 9 --data ninth").code, 2);
    assert_eq!(dir.run("backup prune backups").code, 2);
    assert!(dir.ok("backup prune backups --keep 1").starts_with("2 backups removed"));
    let left: Value = serde_json::from_str(&dir.ok("backup list backups --json")).unwrap();
    assert_eq!(left["id"], 3);
}

#[test]
fn a_damaged_backup_is_named() {
    let dir = WorkingDir::new();
    dir.ok("put key value");
    dir.ok("backup create backups");
    let pool = dir.path().join("backups/tables");
    let table = std::fs::read_dir(pool).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let checked = dir.run("backup verify backups");
    assert_eq!(checked.code, 3);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(checked.text().contains(name), "{}", checked.text());
    let restored = dir.run("restore backups --data again");
    assert_eq!(restored.code, 3);
    assert!(restored.err.contains(name), "{}", restored.err);
    assert!(!dir.path().join("again").exists());
}

/// Processes that copy to one target at once: one makes the copy, the others say that it is at it, or that it
/// was, and nothing is left but the copy.
#[test]
fn of_processes_that_copy_to_one_target_one_makes_the_copy() {
    const ROUNDS: usize = 8;
    const PROCESSES: usize = 4;
    let dir = WorkingDir::new();
    for number in 0..40 {
        dir.ok(&format!("put key{number} value{number}"));
    }
    dir.ok("backup create backups");
    let expected = dir.ok("scan");
    for round in 0..ROUNDS {
        let start = |_| {
            let mut command = dir.command("restore backups --data copies/target");
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<Child> = (0..PROCESSES).map(start).collect();
        let mut made = 0;
        for process in running {
            let ended = process.wait_with_output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            match ended.status.code() {
                Some(0) => made += 1,
                Some(4) => assert!(said.contains("target is in use by "), "{said}"),
                Some(2) => assert!(said.contains("not empty"), "{said}"),
                code => panic!("{code:?}: {said}"),
            }
        }
        assert_eq!(made, 1, "round {round}");
        assert_eq!(dir.ok("scan --data copies/target"), expected, "round {round}");
        let left: Vec<_> = std::fs::read_dir(dir.path().join("copies")).unwrap().collect();
        assert_eq!(left.len(), 1, "round {round}: {left:?}");
        std::fs::remove_dir_all(dir.path().join("copies")).unwrap();
    }
}

/// Processes that export to one file at once: the file is one of the exports, whole.
#[test]
fn an_export_file_is_written_whole_by_one_process() {
    let dir = WorkingDir::new();
    for number in 0..20 {
        dir.ok(&format!("put key{number} value{number}"));
    }
    let copies: Vec<String> = (0..4).map(|number| format!("copy{number}")).collect();
    copies.iter().for_each(|copy| drop(dir.ok(&format!("checkpoint {copy}"))));
    for _ in 0..5 {
        let start = |copy: &String| {
            let mut command = dir.command(&format!("export all.esker --data {copy}"));
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<Child> = copies.iter().map(start).collect();
        let mut made = 0;
        for process in running {
            let ended = process.wait_with_output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            match ended.status.code() {
                Some(0) => made += 1,
                Some(4) => assert!(said.contains("another process is writing it"), "{said}"),
                code => panic!("{code:?}: {said}"),
            }
        }
        assert!(made >= 1);
        assert!(dir.ok("import all.esker --check").starts_with("20 pairs"));
        assert!(!dir.path().join("all.esker.esker-incomplete").exists());
    }
    // What fails leaves the file as it was.
    let before = dir.read("all.esker");
    dir.ok("put --keyspace counts a no-number");
    dir.ok("keyspaces --keyspace counts --set merge_operator=counter-checked");
    // The operand is written, the value cannot be read.
    assert_ne!(dir.run("incr --keyspace counts a").code, 0);
    assert_ne!(dir.run("export all.esker").code, 0);
    assert_eq!(dir.read("all.esker"), before);
    let skipped = dir.run("export all.esker --skip-failed-merges");
    assert_eq!(skipped.code, 0, "{}", skipped.err);
    assert!(skipped.err.contains("1 key whose operands") && skipped.err.contains("\"a\""), "{}", skipped.err);
    assert!(dir.ok("import all.esker --check").starts_with("20 pairs"));
}

#[test]
fn an_export_is_imported_checked_and_piped() {
    let dir = WorkingDir::new();
    dir.ok("put a 1");
    dir.ok("put --keyspace numbers --key int --value int -5 7");
    assert_eq!(dir.ok("export all.esker").split(',').next(), Some("2 pairs of 2 keyspaces"));
    assert!(dir.ok("import all.esker --check").starts_with("2 pairs of 2 keyspaces checked"));
    assert!(!dir.path().join("elsewhere").exists());
    dir.ok("import all.esker --data elsewhere");
    assert_eq!(dir.ok("get a --data elsewhere"), "1\n");
    assert_eq!(dir.ok("get --keyspace numbers --key int --value int -5 --data elsewhere"), "7\n");
    let piped = dir.run("export - --keyspace numbers").out;
    assert_eq!(dir.run_with("import - --data piped", &piped).code, 0);
    let names: Vec<String> = dir
        .ok("keyspaces --data piped --json")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["keyspace"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["default", "numbers"]);
    let mut bytes = dir.read("all.esker");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    dir.write("bad.esker", &bytes);
    for command in ["import bad.esker --check", "import bad.esker --data never"] {
        let bad = dir.run(command);
        assert_eq!(bad.code, 3, "{bad:?}");
        assert!(bad.err.contains("bad.esker") && bad.err.contains("at byte"), "{}", bad.err);
    }
    assert_eq!(dir.run("import missing.esker --data never-made").code, 4);
    assert!(!dir.path().join("never-made").exists());
}
