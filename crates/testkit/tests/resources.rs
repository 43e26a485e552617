//! Resources run out: descriptors, threads, the size of files, memory. A child process works under the limit.
//! Every call works or gives an error that blames the system; nothing hangs; what was acknowledged is there
//! afterwards, and the database works again.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![expect(clippy::print_stdout, reason = "the child reports to its parent")]

use esker::backup::Backups;
use esker::ingest::{IngestOptions, TableWriter};
use esker::parts::env::{Env, OpenMode};
use esker::{Database, Error, Keyspace, KeyspaceOptions, Options};
use esker_testkit::TestDir;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Gives the child its directory; without it the child's test does nothing.
const DIR: &str = "ESKER_RESOURCES_DIR";
/// Whether the child takes all descriptors and gives them back later.
const TAKES_FILES: &str = "ESKER_RESOURCES_TAKES_FILES";

/// Gives the child on a small disk its directory.
const SMALL_DISK: &str = "ESKER_SMALL_DISK";

/// Writes of the child.
const WRITES: u32 = 400;
/// A child that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    let tiny = KeyspaceOptions::default().write_buffer_size(64 << 10).table_size(16 << 10);
    Options::default().memory_budget(8 << 20).keyspace_options(tiny)
}

fn key(number: u32) -> String {
    format!("key {number:05}")
}

fn value(number: u32) -> String {
    format!("{number:0>1000}")
}

/// An error may blame the system, but neither the data nor the database.
fn note<T>(what: &str, outcome: esker::Result<T>) -> Option<T> {
    match outcome {
        Ok(done) => return Some(done),
        Err(error @ (Error::Corruption(_) | Error::Internal(_) | Error::InvalidArgument(_))) => {
            println!("wrong {what}: {error}");
        }
        Err(error) => println!("refused {what}: {error}"),
    }
    None
}

/// Every kind of operation that takes files or memory.
fn use_everything(db: &Database, beside: &Path, round: u32) {
    note("flush", db.flush());
    note("compaction", db.default_keyspace().compact(..));
    note("checkpoint", db.checkpoint(beside.join(format!("checkpoint-{round}"))));
    note("backup", db.backup(&Backups::new(beside.join("backups"))));
    if let Some(keyspace) = note("keyspace", db.keyspace(&format!("keyspace {round}"))) {
        note("put in it", keyspace.put("k", "v"));
        note("drop", db.drop_keyspace(&format!("keyspace {round}")));
    }
    note("ingest", ingest(db.default_keyspace(), &beside.join(format!("{round}.sst"))));
    note("transaction", db.transact(|transaction| transaction.put(db.default_keyspace(), "t", "t")));
}

fn ingest(keyspace: &Keyspace, path: &Path) -> esker::Result<()> {
    let mut table = TableWriter::create(path, &keyspace.options())?;
    table.put(b"ingested", b"1")?;
    table.finish()?;
    keyspace.ingest([path], IngestOptions::new()).map(drop)
}

/// Writes, reads back, and reports each write that was acknowledged.
fn work(db: &Database, beside: &Path, numbers: std::ops::Range<u32>) {
    for number in numbers {
        if note("put", db.default_keyspace().put(key(number), value(number))).is_some() {
            println!("acknowledged {number}");
            let found = note("get", db.default_keyspace().get(key(number)));
            if found.is_some_and(|found| found.is_none_or(|found| *found != *value(number).as_bytes())) {
                println!("wrong get of {number}");
            }
        }
        if number % 50 == 49 {
            use_everything(db, beside, number);
        }
    }
}

/// Not a test of its own: the body of the limited process.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    // Behind the beginning of a line that the test harness leaves.
    println!();
    let (dir, beside) = (Path::new(&dir).join("db"), Path::new(&dir).join("beside"));
    let Some(db) = note("open", Database::open_with(&dir, options())) else { return println!("ended") };
    work(&db, &beside, 0..WRITES / 4);
    if std::env::var_os(TAKES_FILES).is_some() {
        let mut taken = Vec::new();
        while let Ok(file) = Env::real().fs.open(Path::new("/dev/null"), OpenMode::Read) {
            taken.push(file);
        }
        println!("took {} descriptors", taken.len());
        work(&db, &beside, WRITES / 4..WRITES / 2);
        drop(taken);
        if db.metrics().read_only_cause.is_none() {
            db.default_keyspace().put("healed", "yes").unwrap();
            db.flush().unwrap();
        }
    }
    work(&db, &beside, WRITES / 2..WRITES);
    note("close", db.close());
    println!("ended");
}

/// What a child reported.
#[derive(Debug, Default)]
struct Report {
    acknowledged: BTreeSet<u32>,
    refused: Vec<String>,
    wrong: Vec<String>,
    has_ended: bool,
}

/// Runs the child behind some lines of shell.
fn run_limited(dir: &Path, limit: &str, envs: &[(&str, &str)]) -> Report {
    let mut command = Command::new("sh");
    // An ignored signal lets the call fail that would have been killed by it.
    command
        .arg("-c")
        .arg(format!("trap '' XFSZ; {limit}; exec \"$0\" --exact child --nocapture --test-threads=1"));
    command.arg(std::env::current_exe().unwrap()).env(DIR, dir).envs(envs.iter().copied());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (sender, lines) = channel();
    let pipe = BufReader::new(child.stdout.take().unwrap());
    let reader = Env::real().spawn("reports", move || {
        pipe.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let mut report = Report::default();
    while let Ok(line) = lines.recv_timeout(SILENCE) {
        match line.split_once(' ') {
            Some(("acknowledged", number)) => drop(report.acknowledged.insert(number.parse().unwrap())),
            Some(("refused", what)) => report.refused.push(what.to_owned()),
            Some(("wrong", what)) => report.wrong.push(what.to_owned()),
            _ => report.has_ended |= line == "ended",
        }
    }
    // Of a child that has ended there is nothing to kill.
    let _ = child.kill();
    child.wait().unwrap();
    reader.unwrap().join().unwrap();
    report
}

/// Checks what a child left behind, and that the database works without the limit.
fn check(dir: &Path, limit: &str, report: &Report) {
    assert!(report.wrong.is_empty(), "under {limit}: {:?}", report.wrong);
    let db = Database::open_with(dir.join("db"), options()).unwrap();
    for number in &report.acknowledged {
        let found = db.default_keyspace().get(key(*number)).unwrap();
        assert!(
            found.is_some_and(|found| *found == *value(*number).as_bytes()),
            "{limit}: write {number} is lost"
        );
    }
    assert!(db.verify().unwrap().is_clean(), "verify found damage after {limit}");
    db.default_keyspace().put("after", "1").unwrap();
    db.flush().unwrap();
    db.backup(&Backups::new(dir.join("beside/backups"))).unwrap();
    db.close().unwrap();
}

#[test]
fn few_descriptors() {
    let mut refused = 0;
    for files in (4..24).step_by(2).chain([32, 48, 64]) {
        let (dir, limit) = (TestDir::new("few-descriptors"), format!("ulimit -n {files}"));
        let report = run_limited(dir.path(), &limit, &[]);
        // With hardly any the child's own loader may fail.
        assert!(report.has_ended || files < 8, "{limit}: the child died or hung: {report:?}");
        refused += report.refused.len();
        check(dir.path(), &limit, &report);
    }
    assert!(refused > 10, "the limits limited nothing");
}

#[test]
fn descriptors_that_others_take_and_give_back() {
    let (dir, limit) = (TestDir::new("taken-descriptors"), "ulimit -n 100");
    let report = run_limited(dir.path(), limit, &[(TAKES_FILES, "1")]);
    assert!(report.has_ended, "the child died or hung: {report:?}");
    assert!(!report.refused.is_empty(), "nothing was refused without descriptors");
    check(dir.path(), limit, &report);
}

#[test]
fn threads_that_cannot_be_started() {
    let dir = TestDir::new("no-threads");
    let report = run_limited(dir.path(), "export RUST_MIN_STACK=70368744177664", &[]);
    assert!(report.has_ended, "the child died or hung: {report:?}");
    let names_thread = |text: &String| text.starts_with("open: ") && text.contains("thread");
    assert!(report.refused.iter().any(names_thread), "opened without threads: {report:?}");
    check(dir.path(), "no threads", &report);
}

#[test]
fn files_that_may_not_grow() {
    let mut refused = 0;
    // In blocks of 512 bytes: from less than a log segment to more than everything.
    for blocks in [0, 1, 16, 64, 256, 520, 600, 800, 1_024, 2_048, 4_096] {
        let (dir, limit) = (TestDir::new("small-files"), format!("ulimit -f {blocks}"));
        let report = run_limited(dir.path(), &limit, &[]);
        assert!(report.has_ended, "{limit}: the child died or hung: {report:?}");
        refused += report.refused.len();
        check(dir.path(), &limit, &report);
    }
    assert!(refused > 4, "the limits limited nothing");
}

/// An allocation that fails ends the process, as everywhere in Rust: then it is a kill, and loses nothing.
#[test]
fn little_address_space() {
    for mebibytes in [8, 16, 24, 32, 48, 64, 96, 128, 192, 256] {
        let (dir, limit) = (TestDir::new("little-memory"), format!("ulimit -v {}", mebibytes << 10));
        let report = run_limited(dir.path(), &limit, &[]);
        check(dir.path(), &limit, &report);
    }
}

/// Not a test of its own: fills the disk that holds its directory, and opens the database there.
#[test]
fn child_on_a_small_disk() {
    let Some(dir) = std::env::var_os(SMALL_DISK) else { return };
    println!();
    let (fs, dir) = (Env::real().fs, Path::new(&dir));
    let reserve = fs.open(&dir.join("reserve"), OpenMode::CreateNew).unwrap();
    reserve.write_at(&[7; 3 << 20], 0).unwrap();
    let unflushed = || options().flush_on_close(false);
    let db = Database::open_with(dir.join("db"), unflushed()).unwrap();
    let written = (0..).take_while(|number| db.default_keyspace().put(key(*number), value(*number)).is_ok());
    let written = written.count() as u32;
    // It may fail, as the disk is full.
    let _closed = db.close();
    drop(db);
    let filler = fs.open(&dir.join("filler"), OpenMode::CreateNew).unwrap();
    let pieces = (0..).take_while(|piece| filler.write_at(&[7; 4096], piece * 4096).is_ok());
    println!("filled with {written} entries and {} pages", pieces.count());
    match Database::open_with(dir.join("db"), unflushed()) {
        Ok(_) => println!("opened"),
        Err(Error::Full(text)) if text.contains("Free ") => println!("refused {text}"),
        Err(error) => println!("wrong error of an open: {error}"),
    }
    drop(reserve);
    fs.remove_file(&dir.join("reserve")).unwrap();
    let db = Database::open_with(dir.join("db"), unflushed()).unwrap();
    for number in 0..written {
        let found = db.default_keyspace().get(key(number)).unwrap();
        if found.is_none_or(|found| *found != *value(number).as_bytes()) {
            println!("wrong entry {number}: it is lost");
        }
    }
    println!("ended");
}

/// On a file system of 16 MiB in memory, in a mount namespace of its own.
#[test]
fn a_disk_that_the_database_fills() {
    let dir = TestDir::new("small-disk");
    Env::real().fs.create_dir_all(dir.path()).unwrap();
    let mount = format!("mount -t tmpfs -o size=16m none {}", dir.path().display());
    let namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(std::env::current_exe().unwrap()).env(SMALL_DISK, dir.path());
        command.output()
    };
    if !namespace(&mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: this system does not let a test mount a file system");
        return;
    }
    let script = format!("{mount} && exec \"$0\" --exact child_on_a_small_disk --nocapture --test-threads=1");
    let output = namespace(&script).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "ended"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("wrong "), "{text}");
    assert!(text.contains("refused ") || text.contains("opened"), "{text}");
}
