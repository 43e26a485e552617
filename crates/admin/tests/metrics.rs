//! `/metrics`: text that a strict reader takes, every metric of the catalogue, and figures that agree with
//! the database.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::TestServer;
use common::exposition::{Family, parse};
use esker::KeyspaceOptions;
use esker_admin::metrics::{ALL, document};
use esker_redis_server::local_client::LocalClient;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Metrics that have series only while writes wait for room, and when some have waited.
const WHILE_STALLED: [&str; 2] = ["esker_writes_waiting", "esker_write_stall_cause_seconds_total"];

/// Lets every part of the server count something.
fn busy(name: &str) -> TestServer {
    let server = TestServer::new(name);
    let options = KeyspaceOptions::default().max_space_amp(1.5);
    let odd = server.database.keyspace_with("odd \"name\"\\\n", options).unwrap();
    for round in 0..4_u32 {
        for number in 0..2_000_u32 {
            odd.put(number.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        server.database.flush().unwrap();
    }
    server.database.compact_all().unwrap();
    // One of them bounds the bytes of a level, the other its runs.
    for strategy in ["fifo:1GiB", "tiered:4"] {
        let options = KeyspaceOptions::default().strategy(strategy.parse().unwrap());
        let bounded = server.database.keyspace_with(strategy, options).unwrap();
        bounded.put("key", "value").unwrap();
    }
    server.database.flush().unwrap();
    for number in 0..4_000_u32 {
        odd.get(number.to_be_bytes()).unwrap();
    }
    let redis = Arc::clone(&server.redis);
    let mut client = LocalClient::new(&redis);
    client.request(&["SET", "a", "1"]);
    client.request(&["SET", "b", "2", "PX", "100000"]);
    client.request(&["GET", "a"]);
    client.request(&["LPUSH", "a", "1"]);
    client.request(&["GET"]);
    client.request(&["EVAL", "return 1", "0"]);
    drop(client);
    server
}

fn scrape(server: &TestServer) -> BTreeMap<String, Family> {
    let answer = server.get("/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(&answer.body).unwrap()
}

/// The value of the series with these labels.
fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = families.values().flat_map(|family| &family.samples);
    let mut found = family.filter(|sample| {
        sample.name == name && labels.iter().all(|(label, value)| sample.label(label) == *value)
    });
    found.next().unwrap_or_else(|| panic!("no {name} {labels:?}")).value
}

#[test]
fn a_scrape_has_the_metrics_of_the_catalogue_and_no_others() {
    let server = busy("catalogue");
    let snapshot = server.database.snapshot();
    let families = scrape(&server);
    let known: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    let scraped: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    let missing: Vec<_> = known.difference(&scraped).collect();
    assert!(missing.iter().all(|name| WHILE_STALLED.contains(name)), "{missing:?}");
    assert!(scraped.is_subset(&known));
    for metric in ALL.iter().filter(|metric| !missing.contains(&&metric.name)) {
        let family = &families[metric.name];
        assert_eq!(family.kind, metric.kind.word(), "{}", metric.name);
        for sample in &family.samples {
            let labels: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
            let mut wanted: BTreeSet<&str> = metric.labels.iter().copied().collect();
            if sample.name.ends_with("_bucket") {
                wanted.insert("le");
            }
            assert_eq!(labels, wanted, "{}", metric.name);
        }
    }
    drop(snapshot);
}

#[test]
fn figures_are_those_of_the_database_and_of_the_commands() {
    let server = busy("figures");
    let families = scrape(&server);
    let metrics = server.database.metrics();
    let odd = [("keyspace", "odd \"name\"\\\n")];
    let counted = metrics.keyspaces.iter().find(|keyspace| keyspace.name == odd[0].1).unwrap();
    assert_eq!(value(&families, "esker_tables", &odd), counted.tables as f64);
    assert_eq!(value(&families, "esker_table_bytes", &odd), counted.table_bytes as f64);
    assert_eq!(value(&families, "esker_flushes_total", &odd), counted.flushes as f64);
    assert!(counted.flushes >= 4, "{counted:?}");
    assert_eq!(value(&families, "esker_user_bytes_total", &odd), 4.0 * 2_000.0 * 8.0);
    let levels =
        families["esker_level_bytes"].samples.iter().filter(|sample| sample.label("keyspace") == odd[0].1);
    assert_eq!(levels.map(|sample| sample.value).sum::<f64>(), counted.table_bytes as f64);
    let parts: f64 = families["esker_memory_bytes"].samples.iter().map(|sample| sample.value).sum();
    assert_eq!(parts, value(&families, "esker_memory_used_bytes", &[]));
    assert_eq!(value(&families, "esker_memory_budget_bytes", &[]), f64::from(32 << 20));

    assert_eq!(value(&families, "esker_commands_total", &[("cmd", "set")]), 2.0);
    assert_eq!(value(&families, "esker_commands_failed_total", &[("cmd", "lpush")]), 1.0);
    assert_eq!(value(&families, "esker_commands_rejected_total", &[("cmd", "get")]), 1.0);
    assert_eq!(value(&families, "esker_command_errors_total", &[("code", "WRONGTYPE")]), 1.0);
    assert_eq!(value(&families, "esker_command_seconds_count", &[("cmd", "set")]), 2.0);
    assert_eq!(value(&families, "esker_redis_keys", &[("db", "0")]), 2.0);
    assert_eq!(value(&families, "esker_redis_expiring_keys", &[("db", "0")]), 1.0);
    // Each was a turn and a group of its own; the request without a key was one of them.
    assert_eq!(value(&families, "esker_pipeline_commands_count", &[]), 6.0);
    assert_eq!(value(&families, "esker_pipeline_commands_bucket", &[("le", "1")]), 6.0);
    assert_eq!(value(&families, "esker_groups_total", &[]), 6.0);
    assert_eq!(value(&families, "esker_group_cuts_total", &[("cause", "alone")]), 0.0);
    assert_eq!(value(&families, "esker_script_seconds_count", &[]), 1.0);
    assert_eq!(value(&families, "esker_flush_seconds_count", &[]), metrics.flush_times.count() as f64);
    assert_eq!(value(&families, "esker_wal_sync_seconds_count", &[]), metrics.log.flushes as f64);
    assert!(value(&families, "esker_wal_bytes_total", &[]) >= 4.0 * 2_000.0 * 8.0);
    let in_memory = value(&families, "esker_memtable_bytes", &odd);
    assert_eq!(in_memory, counted.memtable_bytes as f64);
    assert!(value(&families, "esker_disk_free_bytes", &[]) > 0.0);
    assert_eq!(value(&families, "esker_read_only", &[]), 0.0);
}

#[test]
fn promtool_finds_nothing_to_say() {
    let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics", "--extended"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        println!("skipped: promtool is not installed");
        return;
    };
    let server = busy("promtool");
    let text = server.get("/metrics").body;
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.is_empty(), "{told}");
}

#[test]
fn the_page_of_metrics_is_what_the_catalogue_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    if std::env::var_os("ESKER_WRITE").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == document(), "docs/metrics.md is stale: run this test with ESKER_WRITE=1");
}
