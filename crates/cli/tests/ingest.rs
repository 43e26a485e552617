//! `build-table`, `ingest` and `load --bulk`.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;

#[test]
fn tables_are_built_and_ingested() {
    let dir = WorkingDir::new();
    dir.write("a.tsv", "a\t1\nb\t2\n");
    dir.write("c.jsonl", "{\"key\":\"c\",\"value\":\"3\"}\n");
    assert!(dir.ok("build-table a.sst a.tsv").starts_with("a.sst: 2 pairs, "));
    dir.ok("build-table c.sst c.jsonl --set compression_last=zstd:1");
    dir.ok("put b before --keyspace k");
    let told = dir.ok("ingest c.sst a.sst --keyspace k");
    assert!(told.starts_with("3 entries in 2 tables, "), "{told}");
    assert_eq!(dir.ok("scan --keyspace k"), "a\t1\nb\t2\nc\t3\n");
    assert!(dir.path().join("a.sst").exists());
    let told = dir.ok("ingest --move a.sst --json");
    assert!(told.contains("\"linked_tables\":1"), "{told}");
    assert!(!dir.path().join("a.sst").exists());
    assert_eq!(dir.ok("scan"), "a\t1\nb\t2\n");
    dir.ok("verify");
    assert!(dir.ok("inspect table c.sst").contains("entries"));
}

#[test]
fn errors_name_file_and_line() {
    let dir = WorkingDir::new();
    dir.write("a.tsv", "b\t1\na\t2\n");
    let ran = dir.run("build-table a.sst a.tsv");
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("a.tsv: line 2") && ran.err.contains("keys must ascend"), "{}", ran.err);
    assert!(ran.err.contains("load --bulk"), "{}", ran.err);
    assert!(!dir.path().join("a.sst").exists(), "a table that was not finished goes");
    dir.write("junk.sst", vec![7; 5000]);
    let ran = dir.run("ingest junk.sst");
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("junk.sst"), "{}", ran.err);
    assert_ne!(dir.run("ingest missing.sst").code, 0);
    assert_ne!(dir.run("ingest").code, 0);
    assert_eq!(dir.ok("count"), "0\n");
    assert!(dir.ok("ingest --help").contains("Examples:"));
    assert!(dir.ok("build-table --help").contains("Examples:"));
}

#[test]
fn bulk_loads_take_any_order_and_are_all_or_nothing() {
    let dir = WorkingDir::new();
    dir.write("pairs.tsv", "b\t1\na\t2\nb\t3\n");
    assert_eq!(dir.ok("load pairs.tsv --bulk"), "3 pairs loaded\n");
    assert_eq!(dir.ok("scan"), "a\t2\nb\t3\n");
    dir.write("bad.tsv", "x\t1\nno tab\ny\t2\n");
    let ran = dir.run("load bad.tsv --bulk");
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("bad.tsv: line 2") && ran.err.contains("nothing was loaded"), "{}", ran.err);
    assert_eq!(dir.ok("count"), "2\n");
    assert_eq!(dir.ok("load bad.tsv --bulk --on-error skip"), "2 pairs loaded, 1 bad line(s) skipped\n");
    assert_eq!(dir.ok("count"), "4\n");
    dir.write("later.tsv", "t\t1\n");
    dir.ok("load later.tsv --bulk --ttl 1h --keyspace k");
    assert!(dir.ok("ttl t --keyspace k").contains('5'), "an hour is nearly whole");
}
