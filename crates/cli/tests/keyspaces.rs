//! `esker keyspaces`: listing and changing keyspaces.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::Place;

fn names(place: &Place) -> Vec<String> {
    let listed = place.ok("keyspaces");
    listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn keyspaces_are_created_renamed_and_dropped() {
    let place = Place::new();
    place.ok("put k v");
    assert_eq!(place.ok("keyspaces --create a --set block_size=16KiB"), "keyspace \"a\" created\n");
    place.ok("put k v --keyspace a");
    assert_eq!(place.run("keyspaces --create a").code, 2);
    assert_eq!(place.ok("keyspaces --rename a b"), "keyspace \"b\" renamed\n");
    assert_eq!(place.ok("get k --keyspace b"), "v\n");
    assert_eq!(names(&place), ["default", "b"]);
    let json = place.ok("keyspaces --json");
    let of_b = |line: &str| line.contains("\"keyspace\":\"b\"") && line.contains("\"entries\":1");
    assert!(json.lines().any(of_b), "{json}");
    assert_eq!(place.ok("keyspaces --drop b --json"), "{\"dropped\":\"b\"}\n");
    assert_eq!(names(&place), ["default"]);
    for (arguments, reason) in [
        ("keyspaces --drop b", "there is no keyspace \"b\""),
        ("keyspaces --drop default", "\"default\" cannot be dropped"),
        ("keyspaces --rename default c", "\"default\" keeps its name"),
        ("keyspaces --drop b --create c", "cannot be used with"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
}

#[test]
fn strategies_are_shown_and_changed() {
    let place = Place::new();
    place.ok("put k v");
    assert_eq!(place.ok("strategy"), "default: partitioned, the tree has its form\n");
    assert_eq!(place.ok("strategy tiered:4"), "default: tiered:4, the tree has its form\n");
    assert_eq!(place.ok("strategy --pause"), "default: tiered:4, the tree has its form\n");
    assert_eq!(
        place.ok("strategy partial:4,oldest --wait --json"),
        "{\"keyspace\":\"default\",\"strategy\":\"partial:4,oldest\",\"migration\":null}\n"
    );
    assert_eq!(place.ok("strategy --keyspace default"), "default: partial:4,oldest, the tree has its form\n");
    assert_eq!(place.ok("get k"), "v\n");
    for (arguments, reason) in [
        ("strategy slow", "no strategy is called \"slow\"; there are partitioned, leveled:T"),
        ("strategy --keyspace other", "there is no keyspace \"other\""),
        ("strategy --pause --resume", "cannot be used with"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
}

#[test]
fn options_are_shown_and_changed() {
    let place = Place::new();
    place.ok("put k v");
    place.ok("keyspaces --set block_size=16KiB --set compression_last=zstd:3");
    let options = place.ok("keyspaces --options");
    assert!(
        options.contains("block_size=16KiB\n") && options.contains("compression_last=zstd:3\n"),
        "{options}"
    );
    for (setting, reason) in [
        ("colour=green", "there is no option colour; there are memtable"),
        ("block_size=1", "block_size is 1 B, it must be from 512 B to 64 KiB"),
        ("block_size", "'block_size' is not written OPTION=VALUE"),
    ] {
        let ran = place.run(&format!("keyspaces --set {setting}"));
        assert!(ran.code == 2 && ran.err.contains(reason), "{setting}: {ran:?}");
    }
    assert_eq!(place.ok("keyspaces --options"), options);
}
