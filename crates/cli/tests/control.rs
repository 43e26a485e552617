//! Commands on a database that a server has open, over its control socket.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{Served, WorkingDir};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

const SOCKET: &str = "esker-data/control.sock";

#[test]
fn commands_answer_as_they_do_without_a_server() {
    let dir = WorkingDir::new();
    let alone = WorkingDir::new();
    let served = Served::start(&dir, "");
    dir.write("pairs.csv", "a,1\nb,2\nbad\nc,3\n");
    alone.write("pairs.csv", "a,1\nb,2\nbad\nc,3\n");
    for (command, input) in [
        ("put fruit apple", ""),
        ("put word -", "from the input"),
        ("get word", ""),
        ("get nothing", ""),
        ("get", ""),
        ("load pairs.csv --keyspace users", ""),
        ("load pairs.csv --keyspace users --on-error skip", ""),
        ("load - --format tsv --keyspace users", "d\t4\ne\t5\n"),
        ("scan --keyspace users", ""),
        ("scan --keyspace users --reverse --limit 1 --json", ""),
        ("scan --keyspace nowhere", ""),
        ("count --keyspace users", ""),
        ("dump dump.tsv --keyspace users", ""),
        ("dump - --keyspace users", ""),
        ("delete --keyspace users a", ""),
        ("delete-range --keyspace users b c", ""),
        ("incr --keyspace counts visits", ""),
        ("compact --keyspace users", ""),
        ("exec -", "p 1 2\ng 1\nnonsense\n"),
        ("shell", "use users\nscan\nnonsense\np 2 3\nquit\n"),
        ("verify", ""),
        ("export all.esker", ""),
    ] {
        let (there, here) = (dir.run_with(command, input), alone.run_with(command, input));
        assert_eq!(there.code, here.code, "{command}: {there:?} {here:?}");
        // What a report says of files and the log depends on how often the database was opened.
        if command != "verify" && command != "export all.esker" {
            assert_eq!(there.text(), here.text(), "{command}");
        }
        // A server has keyspaces of its own.
        assert_eq!(there.err.replace("dsl.int, dsl.text, ", ""), here.err, "{command}");
    }
    assert_eq!(dir.read("dump.tsv"), alone.read("dump.tsv"));
    assert_eq!(dir.ok("import all.esker"), alone.ok("import all.esker"));
    assert_eq!(served.end("-TERM"), Some(0));
    assert!(!dir.path().join(SOCKET).exists());
    assert_eq!(dir.ok("get fruit"), "apple\n");
}

/// Those that the process opened the database with are its own.
#[test]
fn options_of_keyspaces_are_shown_and_changed() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    dir.ok("put --keyspace users ada 1815");
    let changed = dir.ok("options --data esker-data --keyspace users block_size=16KiB");
    assert!(changed.contains("block_size") && changed.contains("16KiB"), "{changed}");
    let refused = dir.run("options --data esker-data stall_limit=1s");
    assert!(refused.code == 2 && refused.err.contains("stall_limit is not stored"), "{refused:?}");
    let shown = dir.ok("options --data esker-data --keyspace users");
    assert!(shown.contains("16KiB") && !shown.contains("memory_budget"), "{shown}");
    let toml = dir.ok("options --data esker-data --toml");
    assert!(toml.contains("16KiB"), "{toml}");
    assert!(!dir.ok("options block_size --connect ./esker-data").is_empty());
    let untold = dir.run("options memory_budget --connect ./esker-data");
    assert!(untold.code == 2 && untold.err.contains("memory_budget was given when"), "{untold:?}");
    assert_eq!(served.end("-TERM"), Some(0));
    let shown_alone = dir.ok("options --data esker-data --keyspace users");
    assert!(shown_alone.contains(&shown) && shown_alone.contains("memory_budget"), "{shown_alone}");
}

#[test]
fn a_backup_of_a_served_database_can_be_restored() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    dir.ok("put fruit apple");
    assert!(dir.ok("backup create backups").starts_with("backup 1: "));
    dir.ok("checkpoint copy");
    dir.ok("put fruit pear");
    for reports in ["stats", "stats --json", "levels", "levels --json", "advise", "changes", "options --json"]
    {
        assert!(!dir.ok(reports).is_empty(), "{reports}");
    }
    let ran = dir.run("serve --redis off --dsl 127.0.0.1:0");
    assert!(ran.code == 4 && ran.err.contains("needs a database that no process has open"), "{ran:?}");
    assert_eq!(served.end("-TERM"), Some(0));
    dir.ok("restore backups --data restored");
    assert_eq!(dir.ok("get fruit --data restored"), "apple\n");
    assert_eq!(dir.ok("get fruit --data copy"), "apple\n");
    assert_eq!(dir.ok("get fruit"), "pear\n");
}

#[test]
fn the_socket_is_the_owners_and_replaces_that_of_a_killed_process() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    let found = std::fs::metadata(dir.path().join(SOCKET)).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    served.end("-KILL");
    assert!(dir.path().join(SOCKET).exists());
    // Nothing listens, and the lock is free.
    dir.ok("put fruit apple");
    let served = Served::start(&dir, "");
    assert_eq!(dir.ok("get fruit"), "apple\n");
    assert_eq!(served.end("-TERM"), Some(0));
}

/// A user who may not use the socket is not told that nothing listens.
#[test]
fn another_user_is_told_whom_the_socket_serves() {
    let dir = WorkingDir::new();
    assert!(dir.run("stats --connect ./none").err.contains("there is no ./none"));
    dir.ok("put fruit apple");
    assert!(dir.run("stats --connect ./esker-data").err.contains("no process listens on the control socket"));
    if std::fs::metadata("/proc/self").map_or(1, |found| found.uid()) != 0 {
        println!("skipped: only root can become another user");
        return;
    }
    let served = Served::start(&dir, "");
    let mut command = dir.command("stats --connect ./esker-data");
    match command.uid(65534).output() {
        Ok(ran) => {
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(4), "{told}");
            assert!(told.contains("Permission denied") && told.contains("serves the user"), "{told}");
        }
        Err(error) => println!("skipped: the other user cannot start the program: {error}"),
    }
    assert_eq!(served.end("-TERM"), Some(0));
}

#[test]
fn a_long_path_has_a_socket_too() {
    let dir = WorkingDir::new();
    let long = "directory-with-a-long-name/".repeat(6);
    std::fs::create_dir_all(dir.path().join(&long)).unwrap();
    let served = Served::start(&dir, &format!("--data {long}"));
    dir.ok(&format!("put fruit apple --data {long}"));
    assert_eq!(dir.ok(&format!("get fruit --data {long}")), "apple\n");
    assert_eq!(served.end("-TERM"), Some(0));
}

#[test]
fn commands_end_with_their_caller_and_with_the_server() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    let watch = |dir: &WorkingDir| {
        let mut command = dir.command("stats --watch 10ms --json");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        child
    };
    // More callers than may be at once, one after the other.
    for _ in 0..40 {
        let mut child = watch(&dir);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = watch(&dir);
    std::thread::scope(|scope| {
        // What it prints is taken: it would wait for room in the pipe, and the server for it.
        let last = scope.spawn(|| last.wait_with_output().unwrap().status.code());
        assert_eq!(served.end("-TERM"), Some(0));
        assert_eq!(last.join().unwrap(), Some(4));
    });
}

#[test]
fn strangers_and_nonsense_do_not_disturb() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    for nonsense in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x01\xff\xff\xff\xff", b"\x01\x02\0\0\0xy", b"\x03\0\0\0\0", b""]
    {
        let mut stream = UnixStream::connect(dir.path().join(SOCKET)).unwrap();
        stream.write_all(nonsense).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // The connection ends in any case, with a reset where something was left unread.
        let _read = stream.read_to_end(&mut answer);
    }
    dir.ok("put fruit apple");
    assert_eq!(served.end("-TERM"), Some(0));
}
