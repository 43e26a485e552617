//! Values go from Redis 7.0.15 to Esker and back by DUMP and RESTORE: each type, from one element to many,
//! with short elements and long ones, numbers among them. A payload that was changed on the way is refused.

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::{Client, ExpectKind, Random, Server};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;

/// Elements of a value: around the limits at which Redis or Esker store it in another way.
const COUNTS: [usize; 6] = [1, 2, 128, 129, 513, 2_000];

fn parse(bytes: &[u8]) -> Value {
    ReplyParser::default().parse(bytes).expect("a reply").reply.expect("a whole reply")
}

/// An element: a small number, a large one, a short text, a long one.
fn element(kind: usize, number: usize) -> Vec<u8> {
    match kind {
        0 => number.to_string().into_bytes(),
        1 => format!("{}", i64::MAX - number as i64).into_bytes(),
        2 => format!("element {number}\r\n\0\u{e9}").into_bytes(),
        _ => [format!("{number}:").into_bytes(), vec![b'x'; 70 + number % 5_000]].concat(),
    }
}

/// Commands that fill `key` with so many elements.
fn fill(key: &str, of: &str, kind: usize, count: usize) -> Vec<Vec<Vec<u8>>> {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut commands = Vec::new();
    match of {
        "string" => {
            let value = element(kind, 7).repeat(count);
            commands.push([words(&["SET", key]), vec![value]].concat());
        }
        "stream" => {
            for number in 0..count.min(600) {
                let id = format!("{}-{}", number / 3 + 1, number % 3 + 1);
                let pair = vec![element(0, number % 4), element(kind, number)];
                commands.push([words(&["XADD", key, &id]), pair].concat());
            }
            commands.push(words(&["XGROUP", "CREATE", key, "group", "0"]));
            commands.push(words(&["XREADGROUP", "GROUP", "group", "me", "COUNT", "5", "STREAMS", key, ">"]));
            commands.push(words(&["XDEL", key, "1-2"]));
        }
        _ => {
            let command = match of {
                "list" => "RPUSH",
                "set" => "SADD",
                "zset" => "ZADD",
                _ => "HSET",
            };
            for first in (0..count).step_by(500) {
                let mut request = words(&[command, key]);
                for number in first..count.min(first + 500) {
                    match of {
                        "zset" => request.push(format!("{}", number as f64 / 8.0 - 3.0).into_bytes()),
                        "hash" => request.push(element(0, number)),
                        _ => {}
                    }
                    request.push(element(kind, number));
                }
                commands.push(request);
            }
        }
    }
    commands
}

/// All that can be seen of a value, in an order that does not depend on the server.
fn seen(of: &str, mut ask: impl FnMut(&[&str]) -> Value) -> String {
    let sorted = |value: Value| {
        let mut texts: Vec<String> = value.array().into_iter().map(|item| format!("{item:?}")).collect();
        texts.sort();
        format!("{texts:?}")
    };
    match of {
        "string" => format!("{:?}", ask(&["GET", "k"])),
        "list" => format!("{:?}", ask(&["LRANGE", "k", "0", "-1"])),
        "set" => sorted(ask(&["SMEMBERS", "k"])),
        "zset" => format!("{:?}", ask(&["ZRANGE", "k", "0", "-1", "WITHSCORES"])),
        "hash" => sorted(ask(&["HKEYS", "k"])) + &sorted(ask(&["HVALS", "k"])),
        _ => {
            let entries = format!("{:?}", ask(&["XRANGE", "k", "-", "+"]));
            let groups = format!("{:?}", ask(&["XINFO", "GROUPS", "k"]));
            let pending = format!("{:?}", ask(&["XPENDING", "k", "group"]));
            let encoding = format!("{:?}", ask(&["XLEN", "k"]));
            [entries, groups, pending, encoding].concat()
        }
    }
}

fn of_redis(client: &mut Client, of: &str) -> String {
    seen(of, |request| client.call_with(request))
}

fn of_esker(client: &mut LocalClient<'_>, of: &str) -> String {
    seen(of, |request| parse(&client.request(request)))
}

#[test]
fn values_of_all_types_and_sizes_go_there_and_back() {
    let Some(redis) = Server::redis(&[]) else { return };
    let esker = TestServer::new("dump-exchange");
    let (mut theirs, mut ours) = (redis.connect(), esker.client());
    for of in ["string", "list", "set", "zset", "hash", "stream"] {
        for kind in 0..4 {
            for count in COUNTS {
                theirs.words("FLUSHALL");
                ours.request(&["FLUSHALL"]);
                for command in fill("k", of, kind, count) {
                    let reply = theirs.call_with(&command);
                    assert!(reply.error().is_none(), "{of}: {reply:?}");
                }
                let what = format!("{of} of {count}, kind {kind}");
                let expected = of_redis(&mut theirs, of);
                let payload = theirs.words("DUMP k").bulk();
                let restored = ours.request(&[&b"RESTORE"[..], b"k", b"0", &payload]);
                assert_eq!(restored.escape_ascii().to_string(), "+OK\\r\\n", "{what}: from Redis");
                assert!(of_esker(&mut ours, of) == expected, "{what}: from Redis");
                let payload = parse(&ours.request(&["DUMP", "k"])).bulk();
                theirs.words("DEL k");
                let reply = theirs.call(&[b"RESTORE", b"k", b"0", &payload]);
                assert!(reply.error().is_none(), "{what}: to Redis: {reply:?}");
                assert!(of_redis(&mut theirs, of) == expected, "{what}: to Redis");
                // What changed on the way is noticed.
                let mut changed = payload.clone();
                let place = Random::of(count as u64).below(changed.len());
                changed[place] ^= 1;
                let refused = ours.request(&[&b"RESTORE"[..], b"other", b"0", &changed]);
                assert!(refused.starts_with(b"-ERR DUMP payload version or checksum are wrong"), "{what}");
            }
        }
    }
}
