//! Commands of keys of any type, beyond what the comparison with Redis sees.

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::{ExpectKind, Random};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;
use std::collections::BTreeSet;

fn call(client: &mut LocalClient<'_>, words: &[&str]) -> Value {
    let bytes = client.request(words);
    let parsed = ReplyParser::default().parse(&bytes).expect("a reply");
    parsed.reply.unwrap_or_else(|| panic!("{words:?}: half a reply: {}", bytes.escape_ascii()))
}

fn ok(client: &mut LocalClient<'_>, words: &[&str]) {
    assert_eq!(call(client, words), Value::Status(b"OK".to_vec()), "{words:?}");
}

fn integer(client: &mut LocalClient<'_>, words: &[&str]) -> i64 {
    call(client, words).integer()
}

/// One page of a scan: the next cursor, and keys.
fn page(client: &mut LocalClient<'_>, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
    let reply = call(client, &[&["scan", cursor][..], options].concat()).array();
    let [cursor, keys]: [Value; 2] = reply.try_into().expect("a cursor and keys");
    let text = |value: Value| String::from_utf8(value.bulk()).expect("text");
    (text(cursor), keys.array().into_iter().map(text).collect())
}

/// SC1: random keys come and go between the pages, and the server is opened anew now and then.
#[test]
fn a_scan_finds_every_key_that_stays_whatever_comes_and_goes() {
    let mut server = TestServer::new("keys-scan");
    let mut random = Random::new(7);
    for round in 0..40 {
        ok(&mut server.client(), &["flushall"]);
        // Names with one beginning, names with several, and names that are beginnings of others.
        let beginning = *random.pick(&["", "user:", "a"]);
        let name = |random: &mut Random| {
            format!("{beginning}{}", "ab".repeat(random.below(3)) + &random.below(90).to_string())
        };
        let stays: BTreeSet<String> = (0..30).map(|_| name(&mut random)).collect();
        for key in &stays {
            ok(&mut server.client(), &["set", key, "1"]);
        }
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let (next, keys) = page(&mut server.client(), &cursor, &["COUNT", "3"]);
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
            if round % 2 == 0 && random.once_in(6) {
                server = server.reopened();
            }
            let mut client = server.client();
            let other = if random.once_in(3) { random.below(100).to_string() } else { name(&mut random) };
            if !stays.contains(&other) {
                let command: &[&str] =
                    if random.once_in(2) { &["set", &other, "1"] } else { &["del", &other] };
                call(&mut client, command);
            }
        }
        assert!(stays.is_subset(&found), "round {round}: {:?}", stays.difference(&found));
    }
}

#[test]
fn a_scan_of_a_pattern_reads_its_keys_alone() {
    let server = TestServer::new("keys-scan-pattern");
    let mut client = server.client();
    for number in 0..1000 {
        ok(&mut client, &["set", &format!("user:{number:04}"), "1"]);
        ok(&mut client, &["set", &format!("task:{number:04}"), "1"]);
    }
    let (cursor, keys) = page(&mut client, "0", &["MATCH", "user:001*", "COUNT", "100"]);
    assert_eq!((cursor.as_str(), keys.len()), ("0", 10));
    let (cursor, keys) = page(&mut client, "0", &["MATCH", "user:0017", "COUNT", "1"]);
    assert_eq!((cursor.as_str(), keys.len()), ("0", 1));
    let (_, keys) = page(&mut client, "0", &["MATCH", "*:001?", "COUNT", "5000"]);
    assert_eq!(keys.len(), 20);
    let (_, keys) = page(&mut client, "0", &["TYPE", "LIST", "COUNT", "5000"]);
    assert!(keys.is_empty());
    assert_eq!(call(&mut client, &["keys", "task:099[0-4]"]).array().len(), 5);
    assert_eq!(call(&mut client, &["keys", "task"]).array().len(), 0);
    for cursor in ["1", "-1", "18446744073709551615", "9223372036854775807", "65536", "16777216"] {
        page(&mut client, cursor, &["COUNT", "1"]);
    }
}

#[test]
fn random_keys_are_all_keys() {
    let server = TestServer::new("keys-random");
    let mut client = server.client();
    assert_eq!(call(&mut client, &["randomkey"]), Value::NullBulk);
    for count in [20_usize, 400] {
        let keys: BTreeSet<String> = (0..count).map(|number| format!("k{number}")).collect();
        for key in &keys {
            ok(&mut client, &["set", key, "1"]);
        }
        let mut seen = BTreeSet::new();
        for _ in 0..count * 100 {
            seen.insert(String::from_utf8(call(&mut client, &["randomkey"]).bulk()).expect("text"));
        }
        let missing: Vec<_> = keys.difference(&seen).collect();
        assert!(missing.is_empty() && seen.len() == keys.len(), "{missing:?}");
    }
}

#[test]
fn databases_are_flushed_and_exchanged_within_a_pipeline() {
    let mut server = TestServer::new("keys-databases");
    let mut client = server.client();
    let replies = client.pipeline(
        b"SET a 1\r\nSELECT 1\r\nSET b 2\r\nFLUSHDB\r\nSET c 3\r\nDBSIZE\r\nSWAPDB 0 1\r\nDBSIZE\r\nGET a\r\n\
          SELECT 0\r\nKEYS *\r\nFLUSHALL\r\nDBSIZE\r\nSET d 4 \r\nSWAPDB 0 2\r\n",
    );
    assert_eq!(
        String::from_utf8_lossy(&replies),
        "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$1\r\n1\r\n+OK\r\n*1\r\n$1\r\nc\r\n+OK\r\n:0\r\n\
         +OK\r\n+OK\r\n"
    );
    drop(client);
    server = server.reopened();
    assert_eq!((0..4).map(|db| server.store_keys(db)).collect::<Vec<_>>(), [0, 0, 1, 0]);
    let mut client = server.client();
    ok(&mut client, &["select", "2"]);
    assert_eq!(call(&mut client, &["get", "d"]), Value::Bulk(b"4".to_vec()));
    assert_eq!(integer(&mut client, &["move", "d", "9"]), 1);
    assert_eq!((server.store_keys(2), server.store_keys(9)), (0, 1));
}

#[test]
fn a_key_that_a_read_finds_expired_is_deleted() {
    let server = TestServer::new("keys-expired");
    let mut client = server.client();
    for key in ["read", "scanned", "stays"] {
        ok(&mut client, &["set", key, "1"]);
    }
    let now_ms: i64 = {
        let now = server.server().store().database().now();
        now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64
    };
    for key in ["read", "scanned"] {
        assert_eq!(integer(&mut client, &["pexpireat", key, &(now_ms + 30).to_string()]), 1);
    }
    while integer(&mut client, &["pttl", "scanned"]) >= 0 {}
    assert_eq!(integer(&mut client, &["exists", "read"]), 0);
    assert_eq!(page(&mut client, "0", &[]).1, ["stays"]);
    assert_eq!((server.store_keys(0), server.server().store().expiring_keys(0)), (1, 0));
}
