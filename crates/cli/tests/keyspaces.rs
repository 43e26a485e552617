//! `esker keyspaces`: listing and changing keyspaces.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;

fn names(dir: &WorkingDir) -> Vec<String> {
    let listed = dir.ok("keyspaces");
    listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn keyspaces_are_created_renamed_and_dropped() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    assert_eq!(dir.ok("keyspaces --create a --set block_size=16KiB"), "keyspace \"a\" created\n");
    dir.ok("put k v --keyspace a");
    assert_eq!(dir.run("keyspaces --create a").code, 2);
    assert_eq!(dir.ok("keyspaces --rename a b"), "keyspace \"b\" renamed\n");
    assert_eq!(dir.ok("get k --keyspace b"), "v\n");
    assert_eq!(names(&dir), ["default", "b"]);
    let json = dir.ok("keyspaces --json");
    let of_b = |line: &str| line.contains("\"keyspace\":\"b\"") && line.contains("\"entries\":1");
    assert!(json.lines().any(of_b), "{json}");
    assert_eq!(dir.ok("keyspaces --drop b --json"), "{\"dropped\":\"b\"}\n");
    assert_eq!(names(&dir), ["default"]);
    for (arguments, reason) in [
        ("keyspaces --drop b", "there is no keyspace \"b\""),
        ("keyspaces --drop default", "\"default\" cannot be dropped"),
        ("keyspaces --rename default c", "\"default\" keeps its name"),
        ("keyspaces --drop b --create c", "cannot be used with"),
    ] {
        let ran = dir.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
}

#[test]
fn strategies_are_shown_and_changed() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    assert_eq!(dir.ok("strategy"), "default: partitioned, the tree has its form\n");
    assert_eq!(dir.ok("strategy tiered:4"), "default: tiered:4, the tree has its form\n");
    for (words, what) in [("--pause", "paused"), ("--resume", "resumed")] {
        assert_eq!(
            dir.ok(&format!("strategy {words}")),
            format!("default: tiered:4, the tree has its form, so nothing was {what}\n")
        );
    }
    assert_eq!(
        dir.ok("strategy partial:4,oldest --wait --json"),
        "{\"keyspace\":\"default\",\"strategy\":\"partial:4,oldest\",\"migration\":null,\"adaptation\":null}\n"
    );
    assert_eq!(dir.ok("strategy --keyspace default"), "default: partial:4,oldest, the tree has its form\n");
    assert_eq!(dir.ok("get k"), "v\n");
    for (arguments, reason) in [
        ("strategy slow", "no strategy is called \"slow\"; there are partitioned, leveled:T"),
        ("strategy --keyspace other", "there is no keyspace \"other\""),
        ("strategy --pause --resume", "cannot be used with"),
    ] {
        let ran = dir.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
}

/// The tree's pages show the progress of a change of strategy. A change stops while it is paused, can be
/// taken back, and ends.
#[test]
fn a_change_of_strategy_is_shown_paused_and_resumed() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    dir.ok("strategy none");
    let value = "x".repeat(32 << 10);
    dir.write("pairs.tsv", format!("a\t{value}\nz\t{value}\n"));
    // Each run of the program leaves a table.
    for _ in 0..9 {
        dir.ok("load pairs.tsv");
    }
    assert!(!dir.ok("levels").contains("of the way"));
    // So slow that a job which begins before the pause does not come to its end.
    dir.write("slow.toml", "background_read_bytes_per_second = \"64KiB\"\n");
    let paused = dir.ok("strategy leveled:4 --pause --config slow.toml");
    assert!(paused.starts_with("default: leveled:4, 0 % of the way from none done, "), "{paused}");
    assert!(paused.ends_with(" left, paused\n"), "{paused}");
    assert_eq!(dir.ok("strategy"), paused, "it stays paused");
    let levels = dir.ok("levels");
    let shown = paused.replacen("default: leveled:4, ", "default, leveled:4\n", 1);
    assert!(levels.starts_with(&shown), "{levels}");
    let json: serde_json::Value = serde_json::from_str(&dir.ok("levels --json")).unwrap();
    let migration = &json["migration"];
    assert_eq!((&migration["from"], &migration["paused"]), (&"none".into(), &true.into()));
    assert_eq!(migration["bytes_left"], migration["bytes_at_switch"]);
    assert_eq!(json["levels"][0]["runs"].as_array().unwrap().len(), 9);
    assert_eq!(dir.ok("strategy none"), "default: none, the tree has its form\n");
    let resumed = dir.ok("strategy leveled:4 --resume --wait");
    assert_eq!(resumed, "default: leveled:4, the tree has its form\n");
    let json: serde_json::Value = serde_json::from_str(&dir.ok("levels --json")).unwrap();
    assert!(json["migration"].is_null(), "{json}");
    assert_eq!(dir.ok("count"), "3\n");
}

#[test]
fn stalls_are_explained() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    dir.ok("put k v --keyspace other");
    let told = dir.ok("stalls");
    assert!(told.starts_with("default: writes are not slowed\n"), "{told}");
    assert!(told.contains("level 0 has 0 runs (slower from 12, stop at 24)\n"), "{told}");
    assert!(told.contains("\nsince 20"), "{told}");
    assert!(told.ends_with(": 0 writes slowed for 0 ms, 0 stopped for 0 ms\n"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&dir.ok("stalls --json --keyspace other")).unwrap();
    let keyspaces = json["keyspaces"].as_array().unwrap();
    assert_eq!((keyspaces.len(), &keyspaces[0]["name"]), (1, &"other".into()));
    assert_eq!((&keyspaces[0]["state"], keyspaces[0]["blocking"].is_null()), (&"free".into(), true));
    assert_eq!(json["waiting"], serde_json::json!([]));
    // Of keyspaces with nothing to tell there is one line, unless one is named.
    assert!(
        told.contains("\n1 other keyspace: writes are not slowed") && !told.contains("  other: "),
        "{told}"
    );
    assert!(dir.ok("stalls --keyspace other").starts_with("other: writes are not slowed\n"));
    dir.ok("keyspaces --create empty");
    let drawn = dir.ok("levels");
    assert!(drawn.ends_with("\nempty: empty\n") && drawn.contains("other, partitioned"), "{drawn}");
    assert!(dir.ok("levels --keyspace empty").starts_with("empty, partitioned\n"));
    let ran = dir.run("stalls --keyspace nobody");
    assert!(ran.code == 2 && ran.err.contains("there is no keyspace \"nobody\""), "{ran:?}");
    let in_shell = dir.run_with("shell", "stalls\n").text();
    assert!(in_shell.starts_with("default: writes are not slowed\n"), "{in_shell}");
}

#[test]
fn options_are_shown_and_changed() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    dir.ok("keyspaces --set block_size=16KiB --set compression_last=zstd:3");
    let options = dir.ok("keyspaces --options");
    assert!(
        options.contains("block_size=16KiB\n") && options.contains("compression_last=zstd:3\n"),
        "{options}"
    );
    for (setting, reason) in [
        ("colour=green", "there is no option colour; there are memtable"),
        ("block_size=1", "block_size is 1 B, it must be from 512 B to 64 KiB"),
        ("block_size", "'block_size' is not written OPTION=VALUE"),
    ] {
        let ran = dir.run(&format!("keyspaces --set {setting}"));
        assert!(ran.code == 2 && ran.err.contains(reason), "{setting}: {ran:?}");
    }
    assert_eq!(dir.ok("keyspaces --options"), options);
}
