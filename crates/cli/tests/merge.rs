//! `esker incr` and `esker append`.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::Place;

#[test]
fn counters_count() {
    let place = Place::new();
    assert_eq!(place.ok("incr --keyspace visits home"), "1\n");
    assert_eq!(place.ok("incr --keyspace visits home 41"), "42\n");
    assert_eq!(place.ok("incr --keyspace visits home -50"), "-8\n");
    assert_eq!(place.ok("incr --keyspace visits home --json"), "{\"value\":-7}\n");
    assert_eq!(place.ok("get --keyspace visits home"), "-7\n");
    place.ok("compact --keyspace visits");
    assert_eq!(place.ok("scan --keyspace visits"), "home\t-7\n");
    assert!(place.ok("keyspaces --options --keyspace visits").contains("merge_operator=counter\n"));
    let refused = place.run("incr k");
    assert!(refused.code == 2 && refused.err.contains("\"default\" has no merge operator"), "{refused:?}");
    assert!(refused.err.contains("esker keyspaces --keyspace default --set"), "{refused:?}");
    place.ok("keyspaces --keyspace default --set merge_operator=counter-checked");
    assert_eq!(place.ok("incr k 9223372036854775807"), "9223372036854775807\n");
    let full = place.run("incr k");
    assert!(full.code != 0 && full.err.contains("overflows"), "{full:?}");
    let kept = place.run("keyspaces --keyspace default --set merge_operator=max");
    assert!(kept.code == 2 && kept.err.contains("there may be operands of counter-checked"), "{kept:?}");
    let foreign = place.run("append k x");
    assert!(foreign.code == 2 && foreign.err.contains("counter-checked"), "{foreign:?}");
    assert!(place.ok("incr --help").contains("esker incr --keyspace visits"));
}

#[test]
fn pieces_are_appended() {
    let place = Place::new();
    place.ok("append --keyspace tags ada admin --separator ,");
    place.ok("append --keyspace tags ada author");
    assert_eq!(place.ok("get --keyspace tags ada"), "admin,author\n");
    let other = place.run("append --keyspace tags ada x --separator ;");
    assert!(other.code == 2 && other.err.contains("append:,"), "{other:?}");
    place.ok("append --keyspace lines k 1");
    place.ok("append --keyspace lines k 2");
    assert_eq!(place.ok("get --keyspace lines k"), "1\n2\n");
    assert!(place.ok("append --help").contains("esker append --keyspace log"));
}
