//! `advise`: on stated data, on a database with stated operations, and in the shell with measured operations.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use serde_json::Value;
use std::fmt::Write;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A database of some thousand entries.
fn filled() -> WorkingDir {
    let dir = WorkingDir::new();
    let mut lines = String::new();
    for number in 0..20_000 {
        writeln!(lines, "key{:08}\tvalue {number} {:050}", number * 7919 % 20_000, number * number).unwrap();
    }
    dir.write("pairs.tsv", lines);
    dir.ok("load pairs.tsv --data db");
    dir
}

#[test]
fn stated_data_needs_no_database() {
    let dir = WorkingDir::new();
    let writing = "advise --entries 100M --writes 95 --reads-present 5 --entry-bytes 200 --key-bytes 20";
    let table = dir.ok(writing);
    for word in ["proposed", "the best of each kind", "write-heavy", "range-heavy", "95.0 puts", "leveled:"] {
        assert!(table.contains(word), "{word} in {table}");
    }
    let writing = json(&dir.ok(&format!("{writing} --json")));
    let scanning = json(&dir.ok("advise --entries 100M --writes 5 --short-scans 95 --json"));
    let of = |answer: &Value, figure: &str| answer["proposed"][figure].as_f64().unwrap();
    assert!(of(&writing, "write_amplification") < of(&scanning, "write_amplification"));
    assert!(of(&writing, "runs") > of(&scanning, "runs"));
    // The budget of these tests is 32 MiB.
    assert_eq!(writing["memory_bytes"], 33_554_432.0);
    assert_eq!((&writing["operations"]["puts"], &writing["entry_bytes"]), (&95.0.into(), &200.0.into()));
    assert_eq!(writing["kinds"].as_array().unwrap().len(), 8);
    assert_eq!(writing["profiles"].as_array().unwrap().len(), 4);
    assert!(writing["present"].is_null() && writing["checks"].is_null());
    // Every kind of index that is proposed is one that the option takes.
    for form in writing["index"].as_array().unwrap() {
        let name = form["index_type"].as_str().unwrap();
        assert!(dir.ok("options --markdown").contains(&format!("{name}, ")), "{name}");
        assert!(table.contains(name) && form["cost_ns"].as_f64().unwrap() > 0.0, "{name} in {table}");
    }
    // A device that is slower to read moves the choice towards fewer reads.
    let mixed = "advise --entries 1e9 --writes 90 --reads-absent 10 --json";
    let quick = json(&dir.ok(&format!("{mixed} --read-us 1")));
    let slow = json(&dir.ok(&format!("{mixed} --read-us 10000")));
    assert!(of(&slow, "absent_read_blocks") < of(&quick, "absent_read_blocks"), "{slow} {quick}");
    let tight =
        json(&dir.ok("advise --entries 1e9 --writes 90 --reads-absent 10 --max-space-amp 1.2 --json"));
    assert!(of(&tight, "space_amplification_worst") <= 1.2);
    assert!(!dir.path().join("esker-data").exists(), "no database was opened");
    for wrong in [
        "--entries 1M",
        "--entries 1M --writes 1 --entry-bytes 8",
        "--entries 1M --writes 1 --read-us 0",
        "--entries 1M --writes 1 --apply",
        "--writes 1 --entry-bytes 100",
        "--entries 1M --writes 1 --max-space-amp 1.0001",
        "--entries 1M --writes -1 --reads-present 5",
    ] {
        let ran = dir.run(&format!("advise {wrong}"));
        assert!(ran.code == 2 && ran.out.is_empty(), "{wrong}: {ran:?}");
    }
}

#[test]
fn a_database_is_advised_and_changed() {
    let dir = filled();
    let of_its_life = json(&dir.ok("advise --data db --json"));
    assert_eq!(of_its_life["operations"]["observed"], true, "{of_its_life}");
    dir.write("empty.tsv", "");
    dir.ok("load empty.tsv --data empty");
    let silent = dir.run("advise --data empty");
    assert!(silent.code != 0 && silent.err.contains("--writes"), "{silent:?}");
    let nonsense = dir.run("advise --data db --writes nan");
    assert!(nonsense.err.contains("not NaN") && !nonsense.err.contains("state the"), "{nonsense:?}");
    let asked = "advise --data db --short-scans 95 --writes 5";
    let answer = json(&dir.ok(&format!("{asked} --json")));
    assert_eq!(answer["present"]["strategy"], "partitioned");
    let entries = answer["entries"].as_f64().unwrap();
    assert!((entries / 20_000.0 - 1.0).abs() < 0.05, "{entries}");
    assert!(answer["checks"].as_array().unwrap().len() == 4 && answer["applied"].is_null());
    let shown = dir.ok(asked);
    assert!(shown.contains("present") && shown.contains("predicted"), "{shown}");
    assert!(dir.ok("strategy --data db").contains("partitioned"), "nothing changes by itself");

    let applied = json(&dir.ok(&format!("{asked} --apply --json")));
    let worth = applied["worth_it"].as_bool().unwrap();
    assert_eq!(applied["applied"], worth);
    let strategy = dir.ok("strategy --data db");
    let expected = if worth { &applied["proposed"]["strategy"] } else { &applied["present"]["strategy"] };
    assert!(strategy.contains(expected.as_str().unwrap()), "{strategy}");
    assert!(worth, "a tree of a single run below few others suits scans: {applied}");
    // What was changed is what is there now, and all of the data is.
    let again = json(&dir.ok(&format!("{asked} --json")));
    assert_eq!(again["present"]["strategy"], applied["proposed"]["strategy"]);
    assert_eq!(dir.ok("count --data db").trim(), "20000");
}

#[test]
fn the_shell_advises_from_its_own_operations() {
    let dir = filled();
    let before = json(&dir.ok("advise --data db --json"));
    let mut script = String::new();
    for number in 0..6000 {
        writeln!(script, "get key{:08}", number * 3).unwrap();
    }
    writeln!(script, "scan --limit 5\nadvise --json\nquit").unwrap();
    let ran = dir.run_with("shell --data db", script);
    let answer = ran.text();
    let answer = json(answer.lines().find(|line| line.starts_with('{')).unwrap());
    let operations = &answer["operations"];
    assert_eq!(operations["observed"], true);
    let seen = operations["present_reads"].as_f64().unwrap();
    assert!((3000.0..9000.0).contains(&seen), "{operations}");
    let more = |name: &str| operations[name].as_f64().unwrap() - before["operations"][name].as_f64().unwrap();
    assert_eq!((more("short_scans"), more("puts")), (1.0, 0.0), "{operations}");
}

#[test]
fn an_adaptive_keyspace_is_shown_as_such() {
    let dir = filled();
    assert!(!dir.ok("strategy --data db").contains("adapts"));
    assert!(json(&dir.ok("strategy --data db --json"))["adaptation"].is_null());
    dir.ok("options --data db adaptive_compaction=10m");
    let told = dir.ok("strategy --data db");
    assert!(told.contains("adapts in windows of 600 s, 0 changes since opening"), "{told}");
    let told = json(&dir.ok("strategy --data db --json"));
    assert_eq!((&told["adaptation"]["window_s"], &told["adaptation"]["changes"]), (&600.into(), &0.into()));
    let refused = dir.run("options --data db adaptive_compaction=5s");
    assert!(refused.code != 0 && refused.err.contains("adaptive_compaction"), "{refused:?}");
}
