//! `esker incr` and `esker append`.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;

#[test]
fn counters_count() {
    let dir = WorkingDir::new();
    assert_eq!(dir.ok("incr --keyspace visits home"), "1\n");
    assert_eq!(dir.ok("incr --keyspace visits home 41"), "42\n");
    assert_eq!(dir.ok("incr --keyspace visits home -50"), "-8\n");
    assert_eq!(dir.ok("incr --keyspace visits home --json"), "{\"value\":-7}\n");
    assert_eq!(dir.ok("get --keyspace visits home"), "-7\n");
    dir.ok("compact --keyspace visits");
    assert_eq!(dir.ok("scan --keyspace visits"), "home\t-7\n");
    assert!(dir.ok("keyspaces --options --keyspace visits").contains("merge_operator=counter\n"));
    let refused = dir.run("incr k");
    assert!(refused.code == 2 && refused.err.contains("\"default\" has no merge operator"), "{refused:?}");
    assert!(refused.err.contains("esker keyspaces --keyspace default --set"), "{refused:?}");
    dir.ok("keyspaces --keyspace default --set merge_operator=counter-checked");
    assert_eq!(dir.ok("incr k 9223372036854775807"), "9223372036854775807\n");
    let full = dir.run("incr k");
    assert!(full.code != 0 && full.err.contains("overflows"), "{full:?}");
    let kept = dir.run("keyspaces --keyspace default --set merge_operator=max");
    assert!(kept.code == 2 && kept.err.contains("there may be operands of counter-checked"), "{kept:?}");
    let foreign = dir.run("append k x");
    assert!(foreign.code == 2 && foreign.err.contains("counter-checked"), "{foreign:?}");
    assert!(dir.ok("incr --help").contains("esker incr --keyspace visits"));
}

#[test]
fn pieces_are_appended() {
    let dir = WorkingDir::new();
    dir.ok("append --keyspace tags ada admin --separator ,");
    dir.ok("append --keyspace tags ada author");
    assert_eq!(dir.ok("get --keyspace tags ada"), "admin,author\n");
    let other = dir.run("append --keyspace tags ada x --separator ;");
    assert!(other.code == 2 && other.err.contains("append:,"), "{other:?}");
    dir.ok("append --keyspace lines k 1");
    dir.ok("append --keyspace lines k 2");
    assert_eq!(dir.ok("get --keyspace lines k"), "1\n2\n");
    assert!(dir.ok("append --help").contains("esker append --keyspace log"));
}
