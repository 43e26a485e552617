//! Whole runs on small data: the rows, the reuse of data, and what is refused.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker_bench::report::{JsonLines, Table};
use esker_bench::{BenchError, Distribution, Group, Settings, Victim, Workload, fill_until_killed, run};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("esker-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        TempDir(std::env::temp_dir().join(name))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(dir: &TempDir, workloads: impl IntoIterator<Item = Workload>) -> Settings {
    let workloads = workloads.into_iter().collect();
    let directory = dir.0.clone();
    // Small, so that a memtable fills soon.
    let memory_budget_bytes = Some(32 << 20);
    let sizes =
        Settings { num: 3000, reads: Some(2000), threads: 2, memory_budget_bytes, ..Settings::default() };
    Settings { directory, workloads, victim: Some(start_victim), ..sizes }
}

/// Gives the killed process its directory and task; without it its test does nothing.
const VICTIM: &str = "ESKER_BENCH_VICTIM";

/// This program, to run one test alone.
fn start_victim(settings: &Settings, victim: &Victim) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let task = format!("{} {} {}", victim.puts, victim.version, settings.directory.display());
    command.args(["--exact", "victim", "--nocapture"]).env(VICTIM, task);
    Ok(command)
}

/// Not a test of its own: the body of the killed process.
#[test]
fn victim() {
    let Ok(task) = std::env::var(VICTIM) else { return };
    let mut words = task.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let victim = Victim { puts: number(), version: number() };
    let dir = std::mem::ManuallyDrop::new(TempDir(words.next().unwrap().into()));
    let settings = settings(&dir, [Workload::ReopenKill]);
    // After an error the process ends without its line, which its parent must notice.
    let _ended = fill_until_killed(&settings, &victim, &mut std::io::stdout(), &mut std::io::stdin());
}

/// Runs, and returns the parsed result lines and the notes.
fn json(settings: &Settings) -> Result<(Vec<serde_json::Value>, String), BenchError> {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    run(settings, &mut JsonLines::new(&mut out, &mut notes))?;
    let out = String::from_utf8(out).unwrap();
    let rows = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Ok((rows, String::from_utf8(notes).unwrap()))
}

#[test]
fn every_workload_gives_a_row() {
    let dir = TempDir::new();
    let (rows, _) = json(&settings(&dir, Group::All.workloads())).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
    let expected: Vec<&str> = Group::All.workloads().map(Workload::name).collect();
    assert_eq!(names[..expected.len()], expected);
    for (row, workload) in rows.iter().zip(Group::All.workloads()) {
        for field in ["seconds", "ops_per_second", "p50_us", "p99_us", "p999_us"] {
            assert!(row[field].as_f64().unwrap() >= 0.0, "{workload} {field}");
        }
        assert_eq!(row["options"]["num"], 3000);
        assert_eq!(row["options"]["seed"], 1);
        let (ops, found) = match workload.group() {
            Group::Fill | Group::BulkLoad => (3000, 0),
            // Five openings, after each of which both threads scan everything.
            Group::Open => (5, 5 * 6000),
            _ => match workload {
                // Both threads scan everything.
                Workload::ReadSeq | Workload::ReadReverse => (6000, 6000),
                Workload::ReadMissing | Workload::MergeRandom => (2000, 0),
                Workload::SeekRandom | Workload::ReadWrite => (2000, row["found"].as_u64().unwrap()),
                _ => (2000, 2000),
            },
        };
        assert_eq!((row["ops"].as_u64(), row["found"].as_u64()), (Some(ops), Some(found)), "{workload}");
        let is_fill =
            matches!(workload.group(), Group::Fill | Group::BulkLoad) && workload != Workload::RawWrite;
        assert_eq!(row["drained_seconds"].is_number(), is_fill, "{workload}");
    }
    let seeks = rows.iter().find(|row| row["workload"] == "seekrandom").unwrap();
    assert!((19_000..=20_000).contains(&seeks["found"].as_u64().unwrap()), "{seeks}");
    let mixed = rows.iter().find(|row| row["workload"] == "readwrite").unwrap();
    assert!((800..1200).contains(&mixed["found"].as_u64().unwrap()), "{mixed}");
    if cfg!(target_os = "linux") {
        let memory = rows.last().unwrap();
        assert_eq!(memory["workload"], "memory");
        assert!(memory["resident_anonymous_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(memory["budget_bytes"].is_u64());
    }
}

/// Each mixture with each distribution: the operations are as many as asked for, and after deletes the data
/// set is whole again.
#[test]
fn shares_and_distributions_give_rows_and_leave_the_data_whole() {
    let dir = TempDir::new();
    let shares: Vec<Workload> = Group::Shares.workloads().collect();
    assert_eq!(shares.len(), 4);
    for distribution in Distribution::ALL {
        let workloads = shares.iter().copied().chain([Workload::ReadRandom, Workload::ReadSeq]);
        let settings = Settings { distribution, threads: 1, ..settings(&dir, workloads) };
        let (rows, _) = json(&settings).unwrap();
        let of = |workload: &str, field: &str| {
            let row = rows.iter().find(|row| row["workload"] == workload).unwrap();
            row[field].as_u64().unwrap()
        };
        for workload in &shares {
            assert_eq!(of(workload.name(), "ops"), 2000, "{workload}, {distribution}");
        }
        assert_eq!(rows[0]["options"]["distribution"], distribution.name());
        assert!((1550..1650).contains(&of("readheavy", "found")), "{}", of("readheavy", "found"));
        assert!((350..450).contains(&of("writeheavy", "found")), "{}", of("writeheavy", "found"));
        // About a thousand ranges of ten pairs, and six hundred gets.
        assert!((9_500..10_900).contains(&of("scanheavy", "found")), "{}", of("scanheavy", "found"));
        assert_eq!(of("readrandom", "found"), 2000, "deleted records are back");
        assert_eq!(of("readseq", "found"), 3000, "deleted records are back");
    }
}

#[test]
fn reads_load_missing_data_first_and_then_reuse_it() {
    let dir = TempDir::new();
    let read = settings(&dir, [Workload::ReadRandom]);
    let (_, notes) = json(&read).unwrap();
    assert!(notes.contains("holds no data; filling it first"), "{notes}");
    let (rows, notes) = json(&read).unwrap();
    assert_eq!((rows[0]["workload"].as_str(), notes.as_str()), (Some("readrandom"), ""));
    let (_, notes) = json(&Settings { num: 4000, ..read.clone() }).unwrap();
    assert!(notes.contains("holds 3000 records of 16 + 100 bytes from seed 1; filling it first"), "{notes}");
    let error = json(&Settings { use_existing_db: true, ..read }).unwrap_err().to_string();
    assert!(error.contains("holds 4000 records"), "{error}");
}

#[test]
fn the_runs_left_after_an_idle_time_are_reported() {
    let dir = TempDir::new();
    let (rows, notes) =
        json(&Settings { idle_seconds: 0, ..settings(&dir, [Workload::ReadRested]) }).unwrap();
    assert_eq!((rows[0]["workload"].as_str(), rows[0]["found"].as_u64()), (Some("readrested"), Some(2000)));
    // The fill was drained into one run; later puts are in the memtable.
    assert!(notes.contains("after 0 s idle a get probes at most 1 run(s) of tables, 1 before"), "{notes}");
}

#[test]
fn the_steps_of_many_keyspaces_are_reported() {
    let dir = TempDir::new();
    let (rows, notes) = json(&Settings { keyspaces: 20, ..settings(&dir, [Workload::Keyspaces]) }).unwrap();
    assert_eq!((rows[0]["workload"].as_str(), rows[0]["ops"].as_u64()), (Some("keyspaces"), Some(20)));
    let steps = ["create", "put", "close", "open", "flush", "drain", "metrics", "close again"];
    assert!(notes.contains("20 keyspaces with an entry each: create "), "{notes}");
    assert!(steps.iter().all(|step| notes.contains(&format!("{step} "))), "{notes}");
}

#[test]
fn a_wrong_answer_yields_no_result() {
    let dir = TempDir::new();
    let read = settings(&dir, [Workload::ReadRandom]);
    json(&read).unwrap();
    let db = esker::Database::open(&dir.0).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let key = cursor.entry().unwrap().0.to_vec();
    drop(cursor);
    keyspace.put(&key, b"something else").unwrap();
    db.close().unwrap();
    drop((keyspace, db));
    let error = json(&read).unwrap_err();
    assert!(matches!(error, BenchError::WrongAnswer { .. }), "{error}");
}

#[test]
fn an_open_that_lost_entries_yields_no_result() {
    let dir = TempDir::new();
    let reopen = settings(&dir, [Workload::ReopenKill]);
    json(&reopen).unwrap();
    // What was acknowledged before the kill is missing: here because it was never written.
    let writes_the_other_values = |settings: &Settings, victim: &Victim| {
        start_victim(settings, &Victim { version: 1 - victim.version, ..*victim })
    };
    let error = json(&Settings { victim: Some(writes_the_other_values), ..reopen.clone() }).unwrap_err();
    assert!(matches!(&error, BenchError::WrongAnswer { workload: Workload::ReopenKill, .. }), "{error}");
    assert!(error.to_string().contains("3000 of the records"), "{error}");
    // The memtable was less full than it should have been.
    let writes_less = |settings: &Settings, victim: &Victim| {
        start_victim(settings, &Victim { puts: victim.puts / 2, ..*victim })
    };
    let error = json(&Settings { victim: Some(writes_less), ..reopen.clone() }).unwrap_err().to_string();
    assert!(error.contains("was to make") && error.contains("entries in the memtable"), "{error}");
    // One put more seals the memtable: then the process ends without its line.
    let writes_more = |settings: &Settings, victim: &Victim| {
        start_victim(settings, &Victim { puts: victim.puts + 1, ..*victim })
    };
    let error = json(&Settings { victim: Some(writes_more), ..reopen }).unwrap_err().to_string();
    assert!(error.contains("came to an end by itself"), "{error}");
}

#[test]
fn user_data_is_not_touched() {
    let dir = TempDir::new();
    let db = esker::Database::open(&dir.0).unwrap();
    db.keyspace("users").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    drop(db);
    for workload in [Workload::FillRandom, Workload::ReadRandom] {
        let error = json(&settings(&dir, [workload])).unwrap_err().to_string();
        assert!(error.contains("a database that no benchmark made"), "{error}");
    }
    let other = TempDir::new();
    std::fs::create_dir_all(&other.0).unwrap();
    std::fs::write(other.0.join("thesis.txt"), "years of work").unwrap();
    assert!(json(&settings(&other, [Workload::FillSeq])).is_err());
    assert!(other.0.join("thesis.txt").exists());
}

#[test]
fn the_table_fits_eighty_columns() {
    let dir = TempDir::new();
    let settings = Settings { histogram: true, ..settings(&dir, [Workload::FillSeq, Workload::ReadSeq]) };
    let mut out = Vec::new();
    run(&settings, &mut Table::new(&mut out, std::io::sink())).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("until drained") && out.contains("99.9"), "{out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 84, "{line}");
    }
}

#[test]
fn every_phase_of_the_memory_bound_gives_a_row() {
    let dir = TempDir::new();
    let bound = settings(&dir, [Workload::MemoryBound]);
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    // Unoptimised and beside other tests, a small run may be out of the bound, and says so after all rows.
    match run(&Settings { data_share: 0.002, ..bound }, &mut JsonLines::new(&mut out, &mut notes)) {
        Ok(()) | Err(BenchError::OutOfBounds(_)) => {}
        Err(error) => panic!("{error}"),
    }
    let out = String::from_utf8(out).unwrap();
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 11, "{out}");
    assert!(rows.iter().all(|row| row["bound_bytes"] == 52_009_369), "{out}");
    // A small phase may need no more than what the process had before.
    assert!(rows.iter().any(|row| row["peak_bytes"].as_u64().unwrap() > 0), "{out}");
}

#[test]
fn overwriting_counts_each_second() {
    let dir = TempDir::new();
    let series = dir.0.with_extension("csv");
    let overwriting = settings(&dir, [Workload::Overwrite]);
    let (rows, _) = json(&Settings { seconds: 2, series: Some(series.clone()), ..overwriting }).unwrap();
    let row = &rows[0];
    assert_eq!(row["workload"], "overwrite");
    let seconds = row["series"].as_array().unwrap();
    let of_seconds: u64 = seconds.iter().map(|second| second["puts"].as_u64().unwrap()).sum();
    assert_eq!((seconds.len(), Some(of_seconds)), (2, row["puts"].as_u64()));
    assert!(row["worst_second_puts"].as_u64().unwrap() <= of_seconds / 2, "{row}");
    let (p9999, longest) = (row["p9999_us"].as_f64().unwrap(), row["longest_us"].as_f64().unwrap());
    assert!(p9999 <= longest * 1.001 && row["write_amplification"].as_f64().unwrap() > 0.0, "{row}");
    let text = std::fs::read_to_string(&series).unwrap();
    std::fs::remove_file(&series).unwrap();
    assert_eq!((text.lines().next(), text.lines().count()), (Some("second,puts,longest_us"), 3), "{text}");
}
