//! `esker changes`: showing the change stream and moving its consumers.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;

#[test]
fn batches_are_shown_from_the_position_of_a_consumer() {
    let dir = WorkingDir::new();
    dir.ok("put a 1");
    assert_eq!(dir.ok("changes"), "1\n  default  put a = 1\n");
    assert_eq!(dir.ok("changes --create audit"), "consumer \"audit\" created\n");
    dir.ok("put b 2");
    dir.ok("put c 3 --keyspace users");
    dir.ok("delete b");
    let from_audit = "2\n  default  put b = 2\n3\n  users  put c = 3\n4\n  default  delete b\n";
    assert_eq!(dir.ok("changes --consumer audit"), from_audit);
    assert_eq!(dir.ok("changes"), from_audit, "from the oldest that there is");
    assert_eq!(dir.ok("changes --since 3"), "4\n  default  delete b\n");
    assert_eq!(dir.ok("changes --consumer audit --keyspace users"), "3\n  users  put c = 3\n");
    assert_eq!(dir.ok("changes --consumer audit --limit 1"), "2\n  default  put b = 2\n");
    let json = dir.ok("changes --since 2 --limit 1 --json");
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&parsed["first_seqno"], &parsed["last_seqno"]), (&3.into(), &3.into()));
    let change = &parsed["changes"][0];
    assert_eq!((&change["operation"], &change["keyspace"]), (&"put".into(), &"users".into()));
    assert_eq!((&change["key"], &change["value"]), (&"c".into(), &"3".into()));

    assert_eq!(dir.ok("changes --consumer audit --acknowledge 3"), "consumer \"audit\" moved\n");
    assert_eq!(dir.ok("changes --consumer audit"), "4\n  default  delete b\n");
    assert!(dir.ok("changes --consumers").starts_with("audit  at 3, 1 behind, "));
    let listed: serde_json::Value = serde_json::from_str(&dir.ok("changes --consumers --json")).unwrap();
    assert_eq!((&listed["acknowledged"], &listed["is_cut_off"]), (&3.into(), &false.into()));
    assert_eq!(dir.ok("changes --drop audit"), "consumer \"audit\" dropped\n");
    assert_eq!(dir.ok("changes --consumers"), "");
}

#[test]
fn impossible_requests_are_refused_with_the_reason() {
    let dir = WorkingDir::new();
    dir.ok("put a 1");
    dir.ok("compact");
    for (arguments, code, reason) in [
        ("changes --since 0", 4, "the changes after sequence number 0 are gone: the log goes back to 1"),
        ("changes --since 99", 2, "the last one is 1"),
        ("changes --consumer nobody", 2, "there is no consumer \"nobody\""),
        ("changes --drop nobody", 2, "there is no consumer \"nobody\""),
        ("changes --acknowledge 1", 2, "--consumer"),
        ("changes --create audit --since 0", 4, "are gone"),
    ] {
        let ran = dir.run(arguments);
        assert!(ran.code == code && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
}
