//! `simulate`, and comparisons of the simulation with the engine at test size.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use serde_json::Value;

#[test]
fn strategies_are_compared() {
    let dir = WorkingDir::new();
    let table = dir.ok("simulate --entries 1M --write-buffer-size 8MiB");
    assert!(table.lines().count() > 8 && table.contains("partitioned"), "{table}");
    let chosen = dir.ok("simulate --strategies leveled:10 fluid:10,3,1 --rate 50MiB --json");
    let rows: Vec<Value> = chosen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["strategy"], "fluid:10,3,1");
    assert!(rows[0]["elapsed_s"].as_f64().unwrap() > 1.0, "{chosen}");
    for wrong in [
        "--strategies nope",
        "--entries 0",
        "--deletes 2",
        "--input sideways",
        "--rate 0",
        "--ttl 0",
        "--against-engine --input load --ttl 1",
    ] {
        let ran = dir.run(&format!("simulate {wrong}"));
        assert!(ran.code == 2 && ran.out.is_empty(), "{wrong}: {ran:?}");
    }
}

/// What the engine writes and what room it takes with real keys is within 15 % of the simulation.
///
/// A tenth more entries than below: 100,000 come to within a hundredth of sixteen memtables, where lazy
/// leveling adds a level, so the engine might do so a merge earlier or later than the model.
#[test]
fn the_engine_agrees_with_the_simulation() {
    assert_agrees(
        "--entries 110000 --passes 2 --warm-up 1 --strategies leveled:10 tiered:4 lazy-leveled:4 partial:10",
        4,
    );
}

/// The same with jobs as small, for their tree, as those of ten million entries: level 0 is merged window by
/// window. Real runs begin a few keys apart where those of the model begin at the same key. Writes come in
/// bursts, when level 0 is full: there are enough passes that one burst more or less does not count.
#[test]
fn the_engine_agrees_window_by_window() {
    assert_agrees(
        "--entries 100000 --passes 8 --warm-up 2 --max-job 336KiB --strategies partial:10 partitioned",
        2,
    );
}

/// The same with entries that expire: merges turn them into tombstones and drop them, and tables of nothing
/// else are dropped as a whole.
#[test]
fn the_engine_agrees_with_entries_that_expire() {
    assert_agrees(
        "--entries 100000 --ttl 1 --passes 2 --warm-up 2 --max-job 336KiB --strategies leveled:10 lazy-leveled:4 partial:10 partitioned",
        4,
    );
}

fn assert_agrees(options: &str, strategies: usize) {
    let dir = WorkingDir::new();
    // As ten million entries are to 64 MiB, but with a hundredth of them.
    let asked = format!(
        "simulate --against-engine --data . --write-buffer-size 656KiB --table-size 168KiB \
         {options} --json --within"
    );
    let answer = dir.ok(&format!("{asked} 15"));
    assert_eq!(answer.lines().count(), strategies);
    for line in answer.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        for figure in ["write_amplification", "space_amplification_mean", "space_amplification_at_rest"] {
            let (model, engine) = (row[figure].as_f64().unwrap(), row["engine"][figure].as_f64().unwrap());
            let off = model / engine - 1.0;
            assert!(
                off.abs() < 0.15,
                "{figure} of {}: {model} simulated, {engine} measured",
                row["strategy"]
            );
        }
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

/// A bound tighter than the model's error fails, and prints which figures deviate and by how much after the
/// whole table.
#[test]
fn large_deviations_are_reported() {
    let dir = WorkingDir::new();
    let asked = "simulate --against-engine --data . --entries 20000 --write-buffer-size 131KiB --table-size 64KiB \
                 --passes 2 --strategies leveled:10 tiered:4 --within";
    let ran = dir.run(&format!("{asked} 0.0001"));
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.err.contains("writes of leveled:10: ") && ran.err.contains("measured"), "{ran:?}");
    let shown = String::from_utf8_lossy(&ran.out);
    assert!(shown.contains("tiered:4"), "what was found is shown: {shown}");
    assert_eq!(dir.run("simulate --within 15").code, 2, "there is nothing to compare with");
}
