//! Which requests are answered, and how: health, reports, the token, names, methods.

mod common;

use common::{Answer, TestServer};
use esker_admin::{Config, Listener, Observer, Sources, Token};
use esker_redis_server::local_client::LocalClient;

const TOKEN: &str = "0123456789abcdef";

fn with_token(name: &str) -> TestServer {
    let token = Token::new(TOKEN.as_bytes()).ok();
    TestServer::with(name, Config { token, host_names: vec!["db.example".to_owned()], ..Config::default() })
}

fn with_header(server: &TestServer, method: &str, path: &str, header: &str) -> Answer {
    let host = server.address;
    server.ask(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\nConnection: close\r\n\r\n"))
}

#[test]
fn health_tells_readiness_and_the_end() {
    let server = TestServer::new("health");
    assert_eq!(server.get("/health/live").json()["status"], "live");
    let ready = server.get("/health/ready");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (200, Some("ready")));
    server.stop.drain();
    let draining = server.get("/health/ready");
    assert_eq!((draining.status, draining.json()["reasons"][0]["reason"].as_str()), (503, Some("draining")));
    assert_eq!(server.get("/health/live").status, 200);
    assert_eq!(server.get("/metrics").status, 200, "a draining server is observed to its end");
}

#[test]
fn with_a_token_only_health_is_told_without_it() {
    let server = with_token("token");
    for path in ["/", "/metrics", "/api/v1", "/api/v1/status", "/page.js", "/nothing", "//health/live"] {
        let refused = server.get(path);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Basic ")));
        assert!(!refused.body.contains("esker_") && !refused.body.contains("keyspace"), "{refused:?}");
    }
    assert_eq!(server.get("/health/live").status, 200);
    assert_eq!(server.get("/health/ready").status, 200);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(with_header(&server, "GET", "/metrics", &bearer).status, 200);
    assert_eq!(with_header(&server, "GET", "/nothing", &bearer).status, 404);
    assert_eq!(with_header(&server, "GET", "/metrics", "Authorization: Bearer 0123456789abcdeg").status, 401);
    let twice = format!("{bearer}\r\nAuthorization: Bearer wrong");
    assert_eq!(with_header(&server, "GET", "/metrics", &twice).status, 401);
    // "me:" and the token.
    let basic = "Authorization: Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==";
    assert_eq!(with_header(&server, "GET", "/metrics", basic).status, 200);
}

#[test]
fn beyond_loopback_a_token_is_needed() {
    let config = Config { address: "0.0.0.0:0".parse().unwrap(), ..Config::default() };
    let refused = Listener::bind(config.clone()).unwrap_err();
    assert!(refused.to_string().contains("needs a token"), "{refused}");
    let token = Token::new(TOKEN.as_bytes()).ok();
    assert!(Listener::bind(Config { token, ..config }).is_ok());
}

#[test]
fn a_name_that_was_not_allowed_is_refused() {
    let server = with_token("names");
    let ask =
        |host: &str| server.ask(&format!("GET /health/live HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
    assert_eq!(ask("Host: db.example:80\r\n").status, 200);
    assert_eq!(ask("Host: localhost\r\n").status, 200);
    assert_eq!(ask("Host: evil.example\r\n").status, 421);
    assert_eq!(ask("").status, 421);
    assert_eq!(ask("Host: localhost\r\nHost: evil.example\r\n").status, 421);
    let absolute =
        "GET http://evil.example/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(absolute).status, 421);
}

#[test]
fn nothing_is_changed_and_nothing_may_be_embedded() {
    let server = TestServer::new("methods");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let refused = with_header(&server, method, "/metrics", "Content-Length: 0");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let posted =
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(posted).status, 405, "a body is not read");
    let head = with_header(&server, "HEAD", "/metrics", "Accept: */*");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let answer = server.get("/metrics");
    assert!(
        answer.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn texts_are_asked_for_by_words_and_options() {
    let server = TestServer::new("texts");
    let told = server.get("/api/v1/text/explain/space?keyspace=a%20b&json");
    assert_eq!((told.status, told.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    let expected = r#"["explain", "space"] [("keyspace", Some("a b")), ("json", None)] Some("default")"#;
    assert_eq!(told.body.trim_end(), expected);
    assert_eq!(told.header("esker-admin"), Some("1"), "by which clients know the server");
    let wrong = server.get("/api/v1/text/wrong");
    assert_eq!((wrong.status, wrong.json()["exit_code"].as_u64()), (400, Some(2)));
    assert!(wrong.json()["error"].as_str().is_some_and(|error| error.contains("refused")));
    assert_eq!(server.get("/api/v1/text/unknown").status, 404);
    assert_eq!(server.get("/api/v1/text/levels?a=%f").status, 400);
    assert_eq!(server.get("/api/v1/text").status, 404);
    let posted = with_header(&server, "POST", "/api/v1/text/levels", "Content-Length: 0");
    assert_eq!(posted.status, 405);
    let guarded = with_token("texts-token");
    let refused = guarded.get("/api/v1/text/levels");
    assert_eq!((refused.status, refused.header("esker-admin")), (401, Some("1")));
    assert!(!refused.body.contains("levels"), "{refused:?}");
}

#[test]
fn an_observer_tells_what_the_status_tells() {
    let server = TestServer::new("observer");
    let mut client = LocalClient::new(&server.redis);
    client.request(&["SET", "a", "1"]);
    let sources = Sources::new(server.database.clone(), "/").with_redis(server.redis.clone());
    let observer = Observer::new(sources);
    let (observed, told) = (observer.status(), server.get("/api/v1/status").json());
    let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&observed), names(&told));
    assert_eq!(names(&observed["info"]), names(&told["info"]));
    assert_eq!(observed["info"]["redis"], told["info"]["redis"]);
    assert_eq!(observed["info"]["totals"], told["info"]["totals"]);
    assert!(told["info"]["totals"]["entries"].as_u64() > Some(0), "{told}");
}

#[test]
fn every_report_is_an_object_with_the_figures_of_the_database() {
    let server = TestServer::new("reports");
    let keyspace = server.database.keyspace("k<script>").unwrap();
    for number in 0..500_u32 {
        keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    server.database.flush().unwrap();
    let mut client = LocalClient::new(&server.redis);
    client.request(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.request(&[b"SET".as_slice(), b"slow\xff", b"1"]);

    let listed = server.get("/api/v1").json();
    let paths: Vec<&str> =
        listed["reports"].as_array().unwrap().iter().filter_map(|path| path.as_str()).collect();
    assert!(paths.len() >= 12, "{paths:?}");
    for path in &paths {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}");
        assert!(answer.json().is_object(), "{path}");
    }
    let levels = server.get("/api/v1/levels").json();
    let trees = server.database.levels();
    let tree = trees.iter().position(|tree| tree.name == "k<script>").unwrap();
    assert_eq!(levels["keyspaces"][tree], esker_admin::json::levels::tree(&trees[tree]));
    let told = server.get("/api/v1/status").json();
    assert_eq!(told["slowlog"]["commands"][0]["arguments"][1], "slow\\xff");
    assert_eq!(told["stalls"]["keyspaces"][0]["state"], "free");
    assert_eq!(told["memory"]["budget_bytes"], 32 << 20);
    assert!(told["commands"]["commands"].as_array().unwrap().iter().any(|command| command["name"] == "set"));
    assert_eq!(server.get("/api/v1/nothing").status, 404);
    assert_eq!(server.get("/api/v1levels").status, 404);
}

#[test]
fn explanations_are_those_of_the_library() {
    let server = TestServer::new("explain");
    let keyspace = server.database.keyspace("users & more").unwrap();
    for number in 0..200_u8 {
        keyspace.put([b'k', number], [7; 50]).unwrap();
    }
    server.database.flush().unwrap();
    let of = "keyspace=users%20%26%20more";
    let got = server.get(&format!("/api/v1/explain/get?{of}&key=k%07")).json();
    assert_eq!(got["what"], r#"get "k\x07" in keyspace users & more"#);
    assert_eq!(got["outcome"], "a value of 50 bytes");
    assert_eq!(got["figures"]["tables_searched"], 1);
    let known = keyspace.explain_get(b"k\x07").unwrap().1;
    let names = |steps: &serde_json::Value| steps.as_array().unwrap().len();
    assert_eq!(names(&got["steps"]), known.root.steps.len());
    assert!(got["conclusion"].as_str().unwrap().ends_with('.'));
    let absent = server.get(&format!("/api/v1/explain/get?{of}&key=%ff%00")).json();
    assert!(absent["outcome"].as_str().unwrap().starts_with("no value"), "{absent}");
    for (parameters, entries) in [
        ("", 200),
        ("&limit=7", 7),
        ("&prefix=k%c7", 1),
        ("&prefix=%ff", 0),
        ("&start=k%0a&end=k%14", 10),
        ("&start=k%0a&reverse&limit=100", 100),
    ] {
        let scanned = server.get(&format!("/api/v1/explain/scan?{of}{parameters}")).json();
        assert_eq!(scanned["figures"]["entries_returned"], entries, "{parameters}: {scanned}");
    }
    let put = server.get(&format!("/api/v1/explain/put?{of}")).json();
    assert_eq!(put["what"], "put in keyspace users & more");
    for what in ["space", "memory", "stall"] {
        let told = server.get(&format!("/api/v1/explain/{what}")).json();
        assert!(told["figures"].is_object() && told["conclusion"].is_string(), "{told}");
    }
}

#[test]
fn wrong_questions_are_told_what_is_wrong() {
    let server = with_token("explain-wrong");
    assert_eq!(server.get("/api/v1/explain/space").status, 401);
    let ask = |path: &str| {
        with_header(
            &server,
            "GET",
            &format!("/api/v1/explain/{path}"),
            &format!("Authorization: Bearer {TOKEN}"),
        )
    };
    for (path, status, told) in [
        ("get", 400, "key is missing"),
        ("get?key=a&key=b", 400, "twice"),
        ("get?key=%zz", 400, "byte 0"),
        ("get?key=a&limit=1", 400, "no parameter 'limit'"),
        ("get?key=a&keyspace=none", 404, "none"),
        ("get?key=a&keyspace=%ff", 400, "UTF-8"),
        ("scan?limit=0", 400, "from 1 to 100000"),
        ("scan?limit=100001", 400, "from 1 to 100000"),
        ("scan?prefix=a&start=b", 400, "prefix stands for"),
        ("scan?reverse=perhaps", 400, "neither true nor false"),
        ("space?keyspace=default", 400, "known are: none"),
        ("nothing", 404, "/api/v1 lists them"),
        ("", 404, "/api/v1 lists them"),
    ] {
        let answer = ask(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(told), "{path}: {answer:?}");
    }
    // A range that ends before it begins has no entries.
    assert_eq!(ask("scan?start=b&end=a").json()["figures"]["entries_returned"], 0);
}
