//! Ctrl-C during long commands: they end in order, leave nothing half made, and say what they did.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests use the machine's files and threads")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{Served, WorkingDir};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a command that reads its pairs from a pipe.
fn loading(dir: &WorkingDir, arguments: &str) -> Child {
    let mut command = dir.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// Writes pairs into a command, from the first one that is not used yet, until `count` are written or it
/// ended.
fn feed(child: &mut Child, from: u64, count: u64) {
    let stdin = child.stdin.as_mut().unwrap();
    for key in from..from + count {
        if writeln!(stdin, "{key:012}\t{key}").is_err() {
            return;
        }
    }
    let _flushed = stdin.flush();
}

fn wait_for(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Feeds an interrupted command until it ends: it notices between two pieces of its input.
fn end(mut child: Child, mut from: u64) -> (Option<i32>, String) {
    while child.try_wait().unwrap().is_none() {
        feed(&mut child, from, 1_000);
        from += 1_000;
    }
    drop(child.stdin.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (child.wait().unwrap().code(), told)
}

fn leftovers(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.contains("incomplete")).collect()
}

#[test]
fn a_load_keeps_whole_batches_and_says_how_many() {
    let dir = WorkingDir::new();
    let mut child = loading(&dir, "load - --format tsv --batch-size 1000");
    feed(&mut child, 0, 100_000);
    wait_for(|| dir.path().join("esker-data/CURRENT").exists());
    interrupt(&child);
    let (code, told) = end(child, 100_000);
    assert_eq!(code, Some(130), "{told}");
    let told = told.strip_prefix("esker: interrupted: ").unwrap();
    let pairs: u64 = told.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!(told.ends_with("pairs were loaded, and stay\n") && pairs.is_multiple_of(1000), "{told}");
    // The lock is free, and the first pairs are there without a hole.
    assert_eq!(dir.ok("count"), format!("{pairs}\n"));
    assert_eq!(dir.ok("count --end 000000001000"), format!("{}\n", pairs.min(1000)));
}

#[test]
fn a_bulk_load_leaves_nothing() {
    let dir = WorkingDir::new();
    dir.ok("put a b");
    let mut child = loading(&dir, "load - --format tsv --bulk");
    feed(&mut child, 0, 100_000);
    interrupt(&child);
    let (code, told) = end(child, 100_000);
    assert_eq!((code, told.as_str()), (Some(130), "esker: interrupted: nothing was loaded\n"));
    assert_eq!(dir.ok("count"), "1\n");
}

#[test]
fn a_load_into_a_served_database_ends_as_well() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    let mut child = loading(&dir, "load - --format tsv --batch-size 1000");
    feed(&mut child, 0, 50_000);
    wait_for(|| dir.ok("count") != "0\n");
    interrupt(&child);
    let (code, _) = end(child, 50_000);
    assert_eq!(code, Some(130));
    // The server goes on, and the command in it has ended: the count stays.
    let count = dir.ok("count");
    assert_eq!(dir.ok("count"), count);
    assert_eq!(served.end("-TERM"), Some(0));
}

/// Runs a command and interrupts it `delay` after it has made `begun`, which it does when it listens to
/// signals; after its start if it makes nothing. Whether that ended it.
fn is_interrupted(dir: &WorkingDir, arguments: &str, begun: Option<&str>, delay: Duration) -> bool {
    let mut command = dir.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut has_ended = || child.try_wait().unwrap().is_some();
    if let Some(begun) = begun {
        wait_for(|| dir.path().join(begun).exists() || has_ended());
    }
    std::thread::sleep(delay);
    if !has_ended() {
        interrupt(&child);
    }
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    ended.status.code() == Some(130) && told.starts_with("esker: interrupted: ")
}

#[test]
fn an_interrupted_copy_is_not_there() {
    let dir = WorkingDir::new();
    let pairs: String = (0..400_000).map(|key| format!("{key:012}\t{:0100}\n", key * 7)).collect();
    dir.write("pairs.tsv", &pairs);
    dir.ok("load pairs.tsv --bulk");
    dir.ok("backup create whole");
    let mut interruptions = 0;
    for (arguments, left, begun) in [
        ("backup create backups", "backups/tables", Some("backups")),
        ("restore whole --data restored", ".", Some("restored.esker-incomplete")),
        ("dump dump.tsv", ".", Some("dump.tsv.esker-incomplete")),
        ("export all.esker", ".", Some("all.esker.esker-incomplete")),
        ("verify", ".", None),
        ("backup verify whole", ".", None),
        ("import all.esker --data imported", ".", Some("imported")),
    ] {
        if arguments.starts_with("import") {
            dir.ok("export all.esker");
        }
        // Earlier and earlier until it is interrupted before its end.
        let mut interrupted = false;
        for delay_ms in [160, 80, 40, 20, 10, 5, 2, 1, 0] {
            interrupted = is_interrupted(&dir, arguments, begun, Duration::from_millis(delay_ms));
            if interrupted {
                break;
            }
            for made in ["backups", "restored", "imported"] {
                let _removed = std::fs::remove_dir_all(dir.path().join(made));
            }
        }
        if interrupted {
            interruptions += 1;
            let found = dir.path().join(left);
            assert_eq!(leftovers(if found.exists() { &found } else { dir.path() }), [""; 0], "{arguments}");
            let is_restored = dir.path().join("restored").exists();
            assert!(!arguments.starts_with("restore") || !is_restored, "{arguments}");
        }
        // What was interrupted can be done again, or goes on.
        if !arguments.starts_with("verify") {
            let again = dir.run(arguments);
            assert_eq!(again.code, 0, "{arguments}: {again:?}");
        }
    }
    assert!(interruptions > 0, "every command was faster than its signal");
    assert_eq!(dir.ok("count"), "400000\n");
}
