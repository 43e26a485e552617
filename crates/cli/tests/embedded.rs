//! Commands on a database that a program has open, which asked for a control socket.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use esker::{Database, Options};
use esker_cli::ControlSocket;

fn database(dir: &WorkingDir) -> Database {
    Database::open_with(dir.path().join("esker-data"), Options::default().memory_budget(32 << 20)).unwrap()
}

#[test]
fn the_command_works_on_the_database_of_a_program() {
    let dir = WorkingDir::new();
    let database = database(&dir);
    let pairs = database.default_keyspace();
    pairs.put("fruit", "apple").unwrap();
    assert_eq!(dir.run("get fruit").code, 4, "nothing listens yet");
    let control = ControlSocket::open(&database).unwrap();
    assert_eq!(dir.ok("get fruit"), "apple\n");
    dir.ok("put word green");
    assert_eq!(pairs.get("word").unwrap().as_deref(), Some(&b"green"[..]));
    dir.ok("backup create backups");
    // What is not in a table yet is counted, so these are the figures of this process.
    assert!(dir.ok("levels").contains("memory"));
    drop(control);
    let ran = dir.run("get fruit");
    assert!(ran.code == 4 && ran.err.contains("control socket"), "{ran:?}");
    // The directory is free with the last handle.
    drop((pairs.clone(), database));
    assert_eq!(dir.ok("get fruit"), "apple\n");
    dir.ok("restore backups --data restored");
    assert_eq!(dir.ok("get fruit --data restored"), "apple\n");
}

#[test]
fn connect_takes_a_directory_or_a_socket_and_opens_nothing() {
    let dir = WorkingDir::new();
    let database = database(&dir);
    database.default_keyspace().put("fruit", "apple").unwrap();
    let control = ControlSocket::open(&database).unwrap();
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    for place in ["./esker-data", "esker-data/", "./esker-data/control.sock"] {
        assert_eq!(dir.ok(&format!("get fruit --connect {place}")), "apple\n");
        let ran = dir.run_with(&format!("shell --connect {place}"), "get fruit\n");
        assert_eq!((ran.code, ran.text().as_str()), (0, "apple\n"), "{ran:?}");
    }
    // Relative paths are those of the caller.
    dir.write("elsewhere/pairs.csv", "tree,oak\n");
    let mut command = dir.command("load pairs.csv --connect ../esker-data");
    let loaded = command.current_dir(dir.path().join("elsewhere")).output().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    assert_eq!(dir.ok("get tree --connect ./esker-data"), "oak\n");
    drop(control);
    let places = [
        ("./esker-data", "no process listens on the control socket of ./esker-data"),
        ("./esker-data/control.sock", "there is no ./esker-data/control.sock"),
        ("./none", "there is no ./none"),
        ("./elsewhere", "no process listens on the control socket of ./elsewhere"),
    ];
    for (place, reason) in places {
        let ran = dir.run(&format!("get fruit --connect {place}"));
        assert!(ran.code == 4 && ran.err.contains(reason), "{ran:?}");
        assert!(!dir.path().join("none").exists());
    }
    let ran = dir.run("get fruit --connect 127.0.0.1:8080");
    assert!(ran.code == 2 && ran.err.contains("over a control socket"), "{ran:?}");
    assert_eq!(dir.run("stats --connect nothing").code, 2);
}

#[test]
fn verification_tells_its_progress() {
    let dir = WorkingDir::new();
    let database = database(&dir);
    assert_eq!(database.path(), dir.path().canonicalize().unwrap().join("esker-data"));
    for round in 0..3 {
        database.default_keyspace().put(format!("key {round}"), "value").unwrap();
        database.flush().unwrap();
    }
    let mut told = Vec::new();
    let report = database.verify_with(|so_far| told.push((so_far.tables, so_far.bytes))).unwrap();
    assert!(!told.is_empty() && told.is_sorted(), "{told:?}");
    assert_eq!(told.last(), Some(&(report.tables, report.bytes)));
    let path = database.path().to_owned();
    database.close().unwrap();
    let mut told = Vec::new();
    let options = esker::repair::VerifyOptions::new();
    let alone = esker::repair::verify_directory_with(&path, &options, |so_far| {
        told.push((so_far.tables, so_far.bytes));
    });
    let alone = alone.unwrap();
    assert_eq!((told.last(), alone.tables), (Some(&(alone.tables, alone.bytes)), report.tables));
}

#[test]
fn a_backup_whose_report_unwinds_leaves_nothing_half_made() {
    let dir = WorkingDir::new();
    let database = database(&dir);
    let value = vec![7; 100_000];
    for key in 0..100 {
        database.default_keyspace().put(format!("{key:03}"), &value).unwrap();
    }
    database.flush().unwrap();
    let backups = esker::backup::Backups::new(dir.path().join("backups"));
    let copied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        database.backup_with(&backups, |_| std::panic::resume_unwind(Box::new("left")))
    }));
    assert!(copied.is_err());
    let mut left = vec![dir.path().join("backups")];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.contains("incomplete") && !name.ends_with(".sst"), "{name}");
            left.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
        }
    }
    assert_eq!(database.backup(&backups).unwrap().id.get(), 1);
    assert!(backups.verify(backups.list().unwrap()[0].id).unwrap().is_clean());
}

#[test]
fn a_database_for_reading_has_no_socket() {
    let dir = WorkingDir::new();
    database(&dir).close().unwrap();
    let options = Options::default().memory_budget(32 << 20).read_only(true);
    let database = Database::open_with(dir.path().join("esker-data"), options).unwrap();
    let refused = ControlSocket::open(&database).unwrap_err().to_string();
    assert!(refused.contains("reading only"), "{refused}");
    assert!(!dir.path().join("esker-data/control.sock").exists());
}
