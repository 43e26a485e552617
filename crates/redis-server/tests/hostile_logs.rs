//! What logs and statistics keep of clients that mean harm: no secret, no line of a client's making, and no
//! more than their limits.

#![allow(clippy::disallowed_methods, reason = "sockets of the tests' own")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::{Client, ExpectKind};
use esker_resp::value::Value;

/// Occurs in passwords alone.
const SECRET: &str = "hunter2-secret";
/// A client's text that would be two lines and a field of their own.
const EVIL: &[u8] = b"x\r\ninjected:1\r\nuser=admin id=7\x1b[2J";

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

/// All bytes of a reply, whatever its form.
fn raw(client: &mut Client, request: &str) -> Vec<u8> {
    client.words(request);
    client.raw().to_vec()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn no_log_shows_a_secret() {
    let server = TestServer::new("logs-secrets");
    while_served(&server, 1, |address| {
        let mut monitor = Client::connect(address);
        monitor.words("MONITOR");
        let mut client = Client::connect(address);
        client.words("CONFIG SET slowlog-log-slower-than 0");
        client.words("CONFIG SET slowlog-max-len 1000");
        for request in [
            "ACL SETUSER ann on >SECRET ~* +@all",
            "ACL SETUSER bob on >SECRET >SECRET2 nonsense-SECRET",
            "AUTH ann SECRET",
            "AUTH ann wrong-SECRET",
            "AUTH SECRET",
            "AUTH a b SECRET",
            "HELLO 3 AUTH ann SECRET SETNAME me",
            "HELLO 2 AUTH ann wrong-SECRET",
            "HELLO 9 AUTH ann SECRET",
            "CONFIG SET requirepass SECRET",
            "CONFIG SET requirepass",
            "CONFIG SET maxclients 100 requirepass SECRET masterauth SECRET",
            "AUTH default SECRET",
            "MIGRATE 127.0.0.1 1 key 0 100 AUTH SECRET",
            "MIGRATE 127.0.0.1 1 key 0 100 AUTH2 ann SECRET",
            "MULTI",
            "ACL SETUSER ann >SECRET",
            "EXEC",
        ] {
            client.words(&request.replace("SECRET", SECRET));
        }
        for request in ["SLOWLOG GET 1000", "ACL LOG", "INFO everything", "CLIENT LIST", "ACL LIST"] {
            let shown = raw(&mut client, request);
            assert!(shown.len() > 10, "{request}: {}", shown.escape_ascii());
            assert!(!contains(&shown, SECRET.as_bytes()), "{request}: {}", shown.escape_ascii());
        }
        client.words("PING the-end");
        loop {
            let Value::Status(line) = monitor.read() else { panic!("a monitor gets lines") };
            assert!(!contains(&line, SECRET.as_bytes()), "{}", line.escape_ascii());
            if contains(&line, b"the-end") {
                break;
            }
        }
    });
}

#[test]
fn no_text_of_a_client_is_a_line_or_a_field_of_its_own() {
    let server = TestServer::new("logs-lines");
    while_served(&server, 1, |address| {
        let mut monitor = Client::connect(address);
        monitor.words("MONITOR");
        let mut client = Client::connect(address);
        client.words("CONFIG SET slowlog-log-slower-than 0");
        client.words("ACL SETUSER ann on nopass +ping +client ~a");
        let script = b"return redis.error_reply(ARGV[1])";
        client.call(&[b"EVAL", script, b"0", EVIL]);
        client.call(&[b"EVAL", b"return {err = 'INJ\\r\\nerrorstat_ECTED:count=1 text'}", b"0"]);
        client.call(&[b"EVAL", b"error('INJ\\r\\nerrorstat_ECTED:count=1 text')", b"0"]);
        client.call(&[EVIL, b"a"]);
        client.call(&[b"CLIENT", b"SETNAME", EVIL]);
        client.call(&[b"CLIENT", b"SETNAME", b"me user=admin"]);
        client.call(&[b"AUTH", EVIL, EVIL]);
        client.call(&[b"SET", EVIL, EVIL]);
        client.call(&[b"PUBLISH", EVIL, EVIL]);
        client.call(&[b"FUNCTION", b"LOAD", &[b"#!lua name=", EVIL].concat()]);
        let mut ann = Client::connect(address);
        ann.words("AUTH ann any");
        ann.call(&[b"GET", EVIL]);
        ann.call(&[EVIL]);
        for request in ["INFO everything", "CLIENT LIST"] {
            let text = match client.words(request) {
                Value::Verbatim { text, .. } | Value::Bulk(text) => text,
                other => panic!("{request}: {other:?}"),
            };
            let text = String::from_utf8_lossy(&text).into_owned();
            for line in text.lines() {
                let evil = ["injected", "errorstat_ECTED", "user=admin"];
                assert!(!evil.iter().any(|evil| line.starts_with(evil)), "{request}: {line}");
                assert!(!line.contains("user=admin") && !line.contains('\x1b'), "{request}: {line}");
            }
        }
        // Each client has one line, each of the log's entries its fields.
        let clients = String::from_utf8(client.words("CLIENT LIST").bulk()).expect("text");
        assert_eq!(clients.lines().count(), 3);
        assert!(clients.lines().all(|line| line.starts_with("id=")), "{clients}");
        for entry in client.words("ACL LOG").array() {
            let fields: Vec<Vec<u8>> = entry
                .array()
                .chunks(2)
                .map(|pair| pair[1].clone())
                .filter_map(|value| match value {
                    Value::Bulk(bytes) => Some(bytes),
                    _ => None,
                })
                .collect();
            let line = fields.iter().find(|field| field.starts_with(b"id=")).expect("the client's line");
            assert!(!contains(line, b"\r") && !contains(line, b"user=admin"), "{}", line.escape_ascii());
        }
        // A monitor's line is one line: what breaks it is written as an escape.
        client.words("PING the-end");
        loop {
            monitor.read();
            let line = monitor.raw().to_vec();
            let within = &line[1..line.len() - 2];
            assert!(!within.iter().any(|byte| *byte < b' '), "{}", line.escape_ascii());
            if contains(within, b"the-end") {
                break;
            }
        }
    });
}

#[test]
fn statistics_and_logs_of_many_different_texts_stay_small() {
    let mut victim = Victim::start("logs-many", "slowlog-log-slower-than=0");
    victim.survives("logs", 64, |address| {
        let mut client = Client::connect(address);
        let long = "x".repeat(30_000);
        for number in 0..3_000 {
            // Each error has a code of its own.
            let script = b"return redis.error_reply(ARGV[1])";
            client.call(&[b"EVAL", script, b"0", format!("CODE{number}{long} text").as_bytes()]);
            client.call(&[format!("nosuch{number}{long}").as_bytes(), long.as_bytes()]);
            client.call(&[b"AUTH", format!("user{number}{long}").as_bytes(), b"x"]);
        }
        for request in ["INFO everything", "SLOWLOG GET -1", "ACL LOG"] {
            let bytes = raw(&mut client, request).len();
            assert!(bytes < 20 << 20, "{request}: {bytes} bytes");
        }
    });
}
