//! Client tracking: scripted clients of Esker and of Redis 7.0.15, and what each of them is told.

#![allow(clippy::disallowed_methods, reason = "threads of a test are clients")]

mod common;

use common::TestServer;
use esker_redis_testkit::{Client, ExpectKind, Server, encode};
use esker_resp::value::Value;
use std::time::{Duration, Instant};

/// Steps of clients `a`, `b` and `r`; each speaks the protocol that stands behind its name at the beginning.
/// `$r` stands for the number of client `r`. `still-there` asks whether `k` exists, and `wait-for-end` waits
/// until no key does.
const SCENES: &[&str] = &[
    // A client is told once of a key that it has read.
    "a3 b3 r2; a client tracking on; a get k; b set k 1; b set k 2; a get k; a mget k l m; b mset m 1 l 2 k 3; \
     a client tracking off; a get k; b set k 4",
    // Own changes are told behind their reply, and not at all with NOLOOP.
    "a3 b3 r2; a client tracking on; a hset h f 1; a hget h f; a hdel h f; a client tracking on noloop; \
     a get k; a set k 1; a get k; b set k 2; a get k; a eval return(redis.call('set',KEYS[1],2)) 1 k",
    // RESP2 is told by another client that subscribes, and not without one.
    "a2 b2 r2; r subscribe __redis__:invalidate; a client tracking on; a get k; b set k 1; \
     a client tracking on redirect $r; a get k; b incr k; a client getredir; a client trackinginfo; b flushall; \
     a client tracking on redirect $r; a get x; b select 3; b set x 1",
    "a2 b2 r2; a client tracking on redirect $r; a get k; b set k 1; r subscribe other; a get k; b set k 2",
    "a3 b2 r3; a client tracking on redirect $r; a get k; b set k 1; b flushdb; a client trackinginfo",
    // The other client is gone.
    "a3 b2 r2; a client tracking on redirect $r; a get k; r quit; b set k 1; a client trackinginfo; \
     a client tracking on; a client trackinginfo; a get k; b set k 2",
    // Broadcasts.
    "a3 b3 r2; a client tracking on bcast; b mset a 1 b 2 c 3; a set d 1; a client tracking on bcast prefix x; \
     a client tracking off; a client tracking on bcast prefix a: prefix b:; b multi; b incr a:1; b incr a:2; \
     b incr b:1; b incr c:1; b exec; a client tracking on bcast prefix c:; b incr c:1; a client trackinginfo; \
     a client tracking off; a client tracking on bcast noloop; a set own 1; b set other 1; a client trackinginfo; \
     a client tracking off; a client trackinginfo",
    // Exceptions.
    "a3 b3 r2; a client caching yes; a client tracking on optin; a get k; b set k 1; a client caching yes; \
     a client trackinginfo; a get k; a get l; b mset k 2 l 2; a client caching no; a client caching x; \
     a client caching yes; a multi; a get k; a get l; a exec; a get m; b mset k 3 l 3 m 3",
    "a3 b3 r2; a client tracking on optout; a get k; a client caching no; a client trackinginfo; a get l; \
     b mset k 1 l 1; a client caching yes; a client caching no; a ping; a get l; b set l 2",
    // Scripts are noted by the keys that they declare, if they read.
    "a3 b3 r2; b mset k 1 l 1; a client tracking on; a eval redis.call('set','z','bar') 2 k l; b mset l 2 k 2; \
     a eval redis.call('get','z') 2 k l; b mset l 3 k 3; a eval_ro redis.call('ping') 2 k l; b mset l 4 k 4; \
     a eval_ro redis.call('get','k') 2 k l; b mset l 5 k 5",
    // All commands that change a key tell it, and those that change nothing do not.
    "a3 b3 r2; b set k 1; a client tracking on; a get k; b set k 2 nx; b del nothing; b persist k; b expire k 100; \
     a get k; b del k; a exists k; b set k 1; a type k; b rename k l; a mget k l; b copy l k; a mget k l; \
     b getset k 3; a strlen l; b append l x; a get k; b pexpire k -1; a lrange q 0 -1; b rpush q 1 2; \
     a llen q; b lpop q; a lindex q 0; b lmove q p left left; a smembers s; b sadd s 1; a scard s; b sadd s 1; \
     b srem s 1; a zscore z m; b zadd z 1 m; a zscore z m; b zadd z 1 m; b zincrby z 1 m; a get k; b swapdb 0 1",
    // Errors.
    "a3 b3 r2; a client tracking; a client tracking x; a client tracking on x; a client tracking on redirect; \
     a client tracking on redirect 99999; a client tracking on redirect x; a client tracking on redirect $r redirect $r; \
     a client tracking on prefix x; a client tracking on bcast optin; a client tracking on optin optout; \
     a client tracking on optin; a client tracking on optout; a client tracking on bcast; a client tracking off; \
     a client tracking on bcast; a client tracking on; a client tracking off; \
     a client tracking on bcast prefix foobar prefix foo; a client tracking on bcast prefix foo prefix foobar; \
     a client tracking on bcast prefix foo prefix bar; a client tracking on bcast prefix fo; \
     a client tracking on bcast prefix barb; a client getredir x; a client trackinginfo x; a reset; \
     a client trackinginfo",
    // Keys that expire.
    "a3 b3 r2; a client tracking on; b set k 1 px 600; a get k; b still-there; b wait-for-end; b set k 2; \
     a get k; b set k 3",
];

/// A client of one server, and what it was told that no request answers.
struct Actor {
    client: Client,
    id: i64,
    /// Whether its commands are queued.
    is_in_transaction: bool,
}

struct Stage {
    actors: Vec<(char, Actor)>,
}

impl Stage {
    fn new(server: &Server, cast: &str) -> Self {
        let actor = |role: &str| {
            let mut letters = role.chars();
            let (name, protocol) = (letters.next().expect("a name"), letters.next().expect("a protocol"));
            let mut client = server.connect();
            client.set_patience(Duration::from_secs(20));
            let id = client.words("client id").integer();
            client.hello(protocol as u8 - b'0');
            (name, Actor { client, id, is_in_transaction: false })
        };
        Self { actors: cast.split_whitespace().map(actor).collect() }
    }

    fn actor(&mut self, name: char) -> &mut Actor {
        let found = self.actors.iter_mut().find(|(other, _)| *other == name);
        &mut found.expect("a client of the scene").1
    }

    /// Sends a request, and what its client is answered.
    fn act(&mut self, step: &str) -> Value {
        let (name, request) = step.split_once(' ').expect("a client and a request");
        let r = self.actor('r').id.to_string();
        let words: Vec<&str> =
            request.split_whitespace().map(|word| if word == "$r" { &r } else { word }).collect();
        let actor = self.actor(name.chars().next().expect("a name"));
        if words == ["still-there"] {
            return actor.client.words("exists k");
        }
        if words == ["wait-for-end"] {
            // Counted until it is deleted.
            let began = Instant::now();
            while actor.client.words("dbsize") != Value::Integer(0) {
                assert!(began.elapsed() < Duration::from_secs(60), "the key stays");
                std::thread::sleep(Duration::from_millis(1));
            }
            return Value::Null;
        }
        let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
        actor.is_in_transaction = (actor.is_in_transaction || words[0] == b"multi") && words[0] != b"exec";
        let client = &mut actor.client;
        client.send(&encode(&words));
        let reply = if words[0].ends_with(b"subscribe") && words.len() > 1 {
            client.send(b"PING\r\n");
            client.try_read().expect("a confirmation, or the reply to PING")
        } else {
            client.read()
        };
        self.renamed(reply)
    }

    /// What every client has been told by now; `expected` messages each at least.
    fn told(&mut self, expected: Option<&Vec<Vec<Value>>>) -> Vec<Vec<Value>> {
        let mut all = Vec::new();
        for at in 0..self.actors.len() {
            let Actor { client, id, is_in_transaction } = &mut self.actors[at].1;
            let mut told = Vec::new();
            // CLIENT leaves what CLIENT CACHING says of the next command as it is.
            if !*is_in_transaction && client.try_send(b"CLIENT ID\r\n").is_ok() {
                // In RESP2 messages come among the replies, and a subscriber gets an error.
                loop {
                    match client.try_read() {
                        Ok(Value::Integer(number)) if number == *id => break,
                        Ok(Value::Error(text)) if text.starts_with(b"ERR Can't execute 'client|id'") => break,
                        Ok(Value::Status(text)) if text == b"PONG" => {}
                        Ok(Value::Array(items)) if items[0] == Value::Bulk(b"pong".to_vec()) => {}
                        Ok(value) => told.push(value),
                        Err(_) => break,
                    }
                }
                told.extend(client.take_pushes());
                let missing = expected.map_or(0, |all| all[at].len().saturating_sub(told.len()));
                for _ in 0..missing {
                    match client.try_read_any() {
                        Ok(message) => told.push(message),
                        Err(_) => break,
                    }
                }
            }
            let told: Vec<Value> = told.into_iter().map(|value| self.renamed(value)).collect();
            all.push(told);
        }
        all
    }

    /// A value with the numbers of clients as those of their places.
    fn renamed(&self, value: Value) -> Value {
        let all = |items: Vec<Value>| items.into_iter().map(|item| self.renamed(item)).collect();
        match value {
            Value::Integer(number) => {
                let place = self.actors.iter().position(|(_, actor)| actor.id == number && number > 3);
                Value::Integer(place.map_or(number, |place| 1_000_000 + place as i64))
            }
            Value::Array(items) => Value::Array(all(items)),
            Value::Push(items) => Value::Push(all(items)),
            Value::Map(pairs) => {
                Value::Map(pairs.into_iter().map(|(name, value)| (name, self.renamed(value))).collect())
            }
            other => other,
        }
    }
}

/// Plays a scene on both servers, which must answer and tell the same. Whether it has counted: its key must
/// live until `still-there`, and on a busy machine may not.
fn play(scene: &str, redis: &Server, esker: &Server) -> bool {
    let steps: Vec<&str> = scene.split(';').map(str::trim).collect();
    let lives_until = steps.iter().position(|step| step.ends_with("still-there"));
    for server in [redis, esker] {
        server.connect().words("flushall");
    }
    let (mut theirs, mut ours) = (Stage::new(redis, steps[0]), Stage::new(esker, steps[0]));
    for (at, step) in steps.iter().enumerate().skip(1) {
        let expected = theirs.act(step);
        let expected_messages = theirs.told(None);
        let (reply, messages) = (ours.act(step), ours.told(Some(&expected_messages)));
        let is_early = lives_until.is_some_and(|until| at <= until);
        let is_same = reply == expected && messages == expected_messages;
        if is_early && (!is_same || lives_until == Some(at) && reply != Value::Integer(1)) {
            return false;
        }
        let before = steps[..=at].join("; ");
        assert_eq!(reply, expected, "{before}");
        assert_eq!(messages, expected_messages, "{before}");
    }
    true
}

#[test]
fn clients_are_told_what_redis_tells_them() {
    let Some(redis) = Server::redis(&["--hz", "500"]) else { return };
    let esker = TestServer::new("tracking").listening(&[]);
    // Small numbers of clients are numbers of other things, too.
    for server in [&redis, &esker] {
        (0..8).for_each(|_| drop(server.connect().words("ping")));
    }
    for scene in SCENES {
        assert!((0..20).any(|_| play(scene, &redis, &esker)), "{scene}");
    }
}

fn info(client: &mut Client, name: &str) -> usize {
    let text = String::from_utf8(client.words("info").bulk()).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line of INFO").trim().parse().expect("a number")
}

/// The key of a push that one key was changed.
fn invalidated(push: Value) -> Vec<u8> {
    match push {
        Value::Push(items) => match items.into_iter().nth(1) {
            Some(Value::Array(keys)) => keys.into_iter().next().expect("a key").bulk(),
            other => panic!("keys were awaited, not {other:?}"),
        },
        other => panic!("a push was awaited, not {other:?}"),
    }
}

#[test]
fn the_table_is_bounded_and_tells_what_it_drops() {
    let esker = TestServer::new("tracking-bounds").listening(&[]);
    let (mut reader, mut writer) = (esker.connect(), esker.connect());
    reader.hello(3);
    writer.words("config set tracking-table-max-keys 100");
    reader.words("client tracking on");
    for number in 0..250 {
        reader.words(&format!("get key{number}"));
    }
    let mut dropped: Vec<Vec<u8>> = (0..150).map(|_| invalidated(reader.read_push())).collect();
    assert_eq!(info(&mut writer, "tracking_total_keys"), 100);
    assert_eq!(info(&mut writer, "tracking_total_items"), 100);
    assert_eq!(info(&mut writer, "tracking_clients"), 1);
    writer.words("config set tracking-table-max-keys 1");
    dropped.extend((0..99).map(|_| invalidated(reader.read_push())));
    dropped.sort();
    dropped.dedup();
    assert_eq!(dropped.len(), 249, "each key is told once");
    assert_eq!(info(&mut writer, "tracking_total_keys"), 1);
    reader.words("reset");
    assert_eq!(info(&mut writer, "tracking_clients"), 0);
    assert_eq!(info(&mut writer, "tracking_total_items"), 0, "the last client takes the table along");

    let mut many = ["client", "tracking", "on", "bcast"].map(str::to_owned).to_vec();
    for number in 0..100_000 {
        many.extend(["prefix".to_owned(), format!("{number:06}")]);
    }
    assert!(
        reader.call_with(&many).error().is_some_and(|text| text.starts_with(b"ERR a client has at most"))
    );
    assert_eq!(info(&mut writer, "tracking_total_prefixes"), 0);
    many.truncate(4 + 2 * 1_000);
    assert_eq!(reader.call_with(&many), Value::Status(b"OK".to_vec()));
    assert_eq!(info(&mut writer, "tracking_total_prefixes"), 1_000);
    drop(reader);
    while info(&mut writer, "tracking_total_prefixes") > 0 {}
}

/// A client that keeps a value until it is told of a change ends with the last one, whatever happens between
/// its reads and the writes (CT1, CT2).
#[test]
fn no_client_keeps_a_value_that_was_changed() {
    const WRITES: usize = 3_000;
    let esker = TestServer::new("tracking-race").listening(&[]);
    let address = esker.address().to_owned();
    let writer = std::thread::spawn(move || {
        let mut client = Client::connect(&address);
        for number in 0..WRITES {
            client.words(&format!("set k{} {number}", number % 3));
        }
    });
    let mut reader = esker.connect();
    reader.hello(3);
    reader.words("client tracking on");
    let mut cached: [Option<Vec<u8>>; 3] = [const { None }; 3];
    let last = |at: usize| (WRITES - 3 + at).to_string().into_bytes();
    let mut rounds_left = 10_000;
    loop {
        let is_over = writer.is_finished();
        let missing = cached.iter().position(Option::is_none);
        let reply = match missing {
            Some(at) => reader.words(&format!("get k{at}")),
            None => reader.words("ping"),
        };
        // A push that came before the reply is of an earlier value.
        for push in reader.take_pushes() {
            let key = invalidated(push);
            cached[usize::from(key[1] - b'0')] = None;
        }
        if let Some(at) = missing {
            cached[at] = match reply {
                Value::Bulk(value) => Some(value),
                _ => Some(Vec::new()),
            };
        }
        if is_over && (0..3).all(|at| cached[at] == Some(last(at))) {
            break;
        }
        rounds_left -= usize::from(is_over);
        assert!(
            rounds_left > 0,
            "{cached:?} is kept, and {:?} was written",
            (0..3).map(last).collect::<Vec<_>>()
        );
    }
    writer.join().expect("it has written");
}
