//! What `deploy/` asks of Prometheus: every metric that the dashboard and the alerts name is in a scrape.

#![expect(clippy::unwrap_used, reason = "what a test cannot read fails the test")]

mod common;

use common::TestServer;
use common::exposition::parse;
use esker::KeyspaceOptions;
use esker_redis_server::local_client::LocalClient;
use serde_json::Value;
use std::collections::BTreeSet;

/// What Prometheus makes itself.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn file(path: &str) -> String {
    let path = format!("{}/../../deploy/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names of metrics in an expression: words that no bracket of a function, no equals sign of a label and no
/// quotation mark follows or encloses.
fn names_in(expression: &str) -> BTreeSet<String> {
    let outside_quotes: String = expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    let words = outside_quotes.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let is_metric = |word: &&str| word.starts_with("esker_") || OF_PROMETHEUS.contains(word);
    words.filter(is_metric).map(str::to_owned).collect()
}

/// Names of series in a scrape of a server in which everything has happened once.
fn scraped(name: &str) -> BTreeSet<String> {
    let server = TestServer::new(name);
    let options = KeyspaceOptions::default().max_space_amp(1.5);
    let keyspace = server.database.keyspace_with("with promise", options).unwrap();
    keyspace.put(b"a", b"1").unwrap();
    server.database.flush().unwrap();
    let mut client = LocalClient::new(&server.redis);
    client.request(&["SET", "a", "1"]);
    client.request(&["LPUSH", "a", "1"]);
    let families = parse(&server.get("/metrics").body).unwrap();
    families.values().flat_map(|family| &family.samples).map(|sample| sample.name.clone()).collect()
}

fn missing(name: &str, expressions: &[String]) -> Vec<String> {
    let known = scraped(name);
    let named: BTreeSet<String> = expressions.iter().flat_map(|expression| names_in(expression)).collect();
    assert!(named.len() > 10, "{named:?}");
    named
        .into_iter()
        .filter(|name| !known.contains(name) && !OF_PROMETHEUS.contains(&name.as_str()))
        .collect()
}

#[test]
fn the_alerts_name_metrics_of_a_scrape() {
    let rules = file("prometheus/alerts.yml");
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned);
    let expressions: Vec<String> = expressions.collect();
    assert_eq!(expressions.len(), rules.matches("- alert: ").count());
    assert!(expressions.iter().all(|expression| !names_in(expression).is_empty()));
    assert_eq!(rules.matches("action: ").count(), expressions.len(), "each alert says what to do");
    assert_eq!(missing("alerts", &expressions), Vec::<String>::new());
}

/// The manual says of signs which alert they are, and the alerts have those.
#[test]
fn the_manual_names_alerts_that_there_are() {
    let (rules, manual) = (file("prometheus/alerts.yml"), file("../docs/operations.md"));
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let words = manual.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> =
        words.filter(|word| word.starts_with("Esker") && word.chars().all(char::is_alphanumeric)).collect();
    assert!(named.len() >= 8, "{named:?}");
    assert!(named.is_subset(&alerts), "{:?}", named.difference(&alerts));
}

#[test]
fn the_dashboard_names_metrics_of_a_scrape_and_its_panels_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&file("grafana/esker.json")).unwrap();
    let mut expressions = Vec::new();
    let mut cells = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (x, y) in (0..side("w")).flat_map(|x| (0..side("h")).map(move |y| (x, y))) {
            assert!(side("x") + x < 24 && cells.insert((side("x") + x, side("y") + y)), "{}", panel["title"]);
        }
        let targets = panel["targets"].as_array().into_iter().flatten();
        let of_panel: Vec<String> =
            targets.filter_map(|target| target["expr"].as_str()).map(str::to_owned).collect();
        assert_eq!(panel["type"] == "row", of_panel.is_empty(), "{}", panel["title"]);
        expressions.extend(of_panel);
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        expressions.push(variable["query"].as_str().unwrap().to_owned());
    }
    assert_eq!(missing("dashboard", &expressions), Vec::<String>::new());
}
