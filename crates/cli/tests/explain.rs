//! `explain` as a process: trees, JSON, and a database that a server has open.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{Served, WorkingDir};
use serde_json::Value;

const SUBJECTS: [&str; 6] = ["get a", "scan", "put", "space", "memory", "stall"];

fn json(dir: &WorkingDir, subject: &str) -> Value {
    serde_json::from_str(&dir.ok(&format!("explain {subject} --json"))).unwrap()
}

#[test]
fn explanations_are_trees_and_objects() {
    let dir = WorkingDir::new();
    dir.write("pairs.tsv", "a\t1\nb\t2\nc\t3\n");
    dir.ok("load pairs.tsv --bulk");
    dir.ok("delete b");
    for subject in SUBJECTS {
        let text = dir.ok(&format!("explain {subject}"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() >= 3 && lines.iter().any(|line| line.starts_with("|- ")), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.ends_with(".\n"), "{text}");
        let told = json(&dir, subject);
        assert!(told["conclusion"].as_str().unwrap().ends_with('.'), "{told}");
        assert!(told["what"].is_string() && told["figures"].is_object(), "{told}");
        assert!(!told["steps"].as_array().unwrap().is_empty(), "{told}");
    }
    let got = json(&dir, "get a");
    assert_eq!(
        (&got["what"], &got["outcome"]),
        (&r#"get "a" in keyspace default"#.into(), &"a value of 1 byte".into())
    );
    assert_eq!(
        (&got["figures"]["tables_searched"], &got["expected"]["tables_searched"]),
        (&1.into(), &1.into())
    );
    assert_eq!(json(&dir, "get b")["outcome"], "no value, its newest version is a tombstone");
    assert_eq!(json(&dir, "get nothing")["outcome"], "no value, no source has a version of it");
    let figures = |subject: &str| json(&dir, subject)["figures"].clone();
    let all = figures("scan");
    assert_eq!((&all["entries_returned"], &all["tombstones"]), (&2.into(), &1.into()));
    assert_eq!(figures("scan --start b --end c")["entries_returned"], 0);
    assert_eq!(figures("scan --limit 1 --reverse")["entries_returned"], 1);
    assert_eq!(dir.run("explain").code, 2);
    let ran = dir.run("explain get a --keyspace nowhere");
    assert!(ran.code == 2 && ran.err.contains("there is no keyspace \"nowhere\""), "{ran:?}");
    let ran = dir.run("explain space --keyspace default");
    assert!(ran.code == 2 && ran.err.contains("`explain space` makes no use of --keyspace"), "{ran:?}");
}

#[test]
fn a_served_database_is_explained_by_its_server() {
    let dir = WorkingDir::new();
    let served = Served::start(&dir, "");
    dir.ok("put a 1");
    for subject in SUBJECTS {
        let told = json(&dir, subject);
        assert!(told["conclusion"].is_string(), "{told}");
    }
    // The memtable is that of the server.
    let got = json(&dir, "get a");
    assert_eq!(
        (&got["figures"]["memtables_searched"], &got["figures"]["tables_searched"]),
        (&1.into(), &0.into())
    );
    let in_shell = dir.run_with("shell", "explain get a\n").text();
    assert!(in_shell.starts_with("get \"a\" in keyspace default: a value of 1 byte"), "{in_shell}");
    assert_eq!(served.end("-TERM"), Some(0));
}
