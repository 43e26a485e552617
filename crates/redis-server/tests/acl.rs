//! Users and their rights, compared with Redis 7.0.15 over sockets in both protocols.

#![allow(clippy::disallowed_methods, reason = "files of users are written and looked at")]

mod common;

use common::TestServer;
use esker_redis_server::StartConfig;
use esker_redis_testkit::{Client, ExpectKind, Random, Server};
use esker_resp::value::Value;

/// Requests of the administrator, words separated by spaces.
const ADMINISTRATION: &[&str] = &[
    "acl",
    "acl nosuch",
    "acl help",
    "acl help x",
    "acl whoami",
    "acl whoami x",
    "acl cat",
    "acl cat nosuch",
    "acl cat read write",
    "acl users",
    "acl list",
    "acl getuser nosuch",
    "acl getuser default",
    "acl genpass 0",
    "acl genpass -1",
    "acl genpass 4097",
    "acl genpass x",
    "acl genpass 5 5",
    "acl log x",
    "acl log -1",
    "acl log 1 2",
    "acl log reset",
    "acl load",
    "acl save",
    "acl deluser default",
    "acl deluser nosuch",
    "acl deluser nosuch default",
    "acl dryrun nosuch get a",
    "acl dryrun default nosuch",
    "acl dryrun default get",
    "acl dryrun default get a",
    "acl dryrun default config nosuch",
    "acl setuser",
    "acl setuser ann +nosuch",
    "acl setuser ann +@nosuch",
    "acl setuser ann <nothere",
    "acl setuser ann #123",
    "acl setuser ann (",
    "acl setuser ann x %~",
    "acl setuser ann (+@all",
    "acl setuser ann %X~a",
    "acl setuser ann allkeys ~a",
    "acl setuser ann +config|nosuch",
    "acl setuser ann +config|get|x",
    "auth x",
    "auth nosuch x",
    "auth a b c",
    "hello 3 auth nosuch x",
    "hello 2 auth nosuch",
    "hello 9",
    "hello 2 nosuch x",
];

const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">one",
    ">two",
    "<one",
    "reset",
    "allkeys",
    "resetkeys",
    "~a*",
    "~b*",
    "%R~r*",
    "%W~w*",
    "allchannels",
    "resetchannels",
    "&c*",
    "&news",
    "+@all",
    "-@all",
    "+@read",
    "+@write",
    "-@dangerous",
    "+@scripting",
    "+@transaction",
    "+@pubsub",
    "+get",
    "-set",
    "+config|get",
    "-acl|list",
    "+select|0",
    "(+@read ~x*)",
    "(+set ~y*)",
    "(+@all %R~*)",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "",
];

const USERS: &[&str] = &["ann", "bob", "eve", "default-", "\u{e9}"];

/// Requests of users, words separated by `|`.
const USE: &[&str] = &[
    "get|a1",
    "get|c1",
    "set|a1|1",
    "set|r1|1",
    "set|w1|1|get",
    "mget|a1|b1|r1|zz",
    "mget|zz|yy",
    "del|a1|c1",
    "lpush|w1|1",
    "copy|r1|w1",
    "copy|w1|r1",
    "get|x1",
    "set|y1|1",
    "publish|c1|m",
    "publish|other|m",
    "spublish|news|m",
    "subscribe|other",
    "psubscribe|c*",
    "psubscribe|d*",
    "select|0",
    "select|1",
    "config|get|hz",
    "config|nosuch",
    "acl|whoami",
    "acl|list",
    "acl|users",
    "multi",
    "exec",
    "discard",
    "sort|a1|by|v*",
    "sort|a1|get|#",
    "sort|a1|by|nosort",
    "sort_ro|a1|get|v*",
    "sort|a1|store|w1",
    "eval|return redis.call('get', 'a1')|0",
    "eval|return redis.call('get', 'zz')|0",
    "eval|return redis.pcall('set', KEYS[1], 1)|1|w1",
    "eval|return redis.call('publish', 'other', 'm')|0",
    "eval|return {redis.acl_check_cmd('get', 'a1'), redis.acl_check_cmd('set', 'c1', 1), redis.acl_check_cmd('config', 'get', 'x')}|0",
    "eval|return redis.acl_check_cmd('nosuch')|0",
    "eval_ro|return redis.call('get', KEYS[1])|1|r1",
    "evalsha|ffffffffffffffffffffffffffffffffffffffff|1|zz",
    "georadius|r1|0|0|1|m|store|w1",
    "zunionstore|w1|2|r1|zz",
    "xread|streams|r1|0",
    "command|count",
    "ping",
    "nosuch",
    "get",
    "script|help",
    "client|getname",
    "flushall",
    "script|exists|x",
];

/// Redis lists single commands in an order that depends on a random seed; how users are described is compared
/// word by word elsewhere.
fn comparable(value: Value) -> Value {
    let all = |items: Vec<Value>| items.into_iter().map(comparable).collect::<Vec<_>>();
    match value {
        Value::Bulk(text) => {
            let mut words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
            // What Redis does not have.
            words.retain(|word| !word.starts_with(b"+esker.") && !word.starts_with(b"-esker."));
            words.sort_unstable();
            Value::Bulk(words.join(&b' '))
        }
        Value::Array(items) => Value::Array(all(items)),
        Value::Set(items) => Value::Set(all(items)),
        Value::Push(items) => Value::Push(all(items)),
        Value::Map(pairs) => {
            Value::Map(pairs.into_iter().map(|(name, value)| (name, comparable(value))).collect())
        }
        other => other,
    }
}

/// The log without what depends on the moment and on the connection.
fn log(client: &mut Client) -> Vec<Vec<(Value, Value)>> {
    let pairs = |entry: Value| match entry {
        Value::Map(pairs) => pairs,
        Value::Array(items) => items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("an entry of the log is {other:?}"),
    };
    let varies =
        |name: &Value| matches!(name, Value::Bulk(name) if name == b"age-seconds" || name == b"client-info");
    let entries = client.words("acl log 200").array().into_iter().map(pairs);
    entries.map(|pairs| pairs.into_iter().filter(|(name, _)| !varies(name)).collect()).collect()
}

/// Two connections each to both servers: an administrator's and a user's.
struct Pair {
    theirs: Client,
    ours: Client,
    protocol: u8,
}

impl Pair {
    fn new(redis: &Server, esker: &Server, protocol: u8) -> Self {
        let (mut theirs, mut ours) = (redis.connect(), esker.connect());
        theirs.hello(protocol);
        ours.hello(protocol);
        Self { theirs, ours, protocol }
    }

    /// Sends a request to both. `false` if both closed the connection.
    fn compare(&mut self, request: &[&str], trace: &[String]) -> bool {
        let bytes: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        let request = esker_redis_testkit::encode(&bytes);
        let subscribes = bytes[0].ends_with(b"subscribe");
        let answer = |client: &mut Client| {
            client.try_send(&request).ok()?;
            if !subscribes {
                return client.try_read().ok().map(|reply| vec![reply]);
            }
            // What is subscribed to is told by a push in RESP3; the reply to PING comes behind it.
            client.try_send(b"PING\r\n").ok()?;
            let mut replies = vec![client.try_read().ok()?];
            if replies[0] != Value::Status(b"PONG".to_vec()) {
                replies.push(client.try_read().ok()?);
            }
            replies.extend(client.take_pushes());
            Some(replies)
        };
        let (theirs, ours) = (answer(&mut self.theirs), answer(&mut self.ours));
        let is_alive = theirs.is_some();
        let comparable = |replies: Vec<Value>| replies.into_iter().map(comparable).collect::<Vec<_>>();
        assert_eq!(
            ours.map(comparable),
            theirs.map(comparable),
            "RESP{}, {}, after\n{}",
            self.protocol,
            request.escape_ascii(),
            trace[trace.len().saturating_sub(40)..].join("\n")
        );
        is_alive
    }
}

fn servers(name: &str) -> Option<(Server, Server)> {
    let redis = Server::redis(&[])?;
    let ours = TestServer::new(name);
    // What Redis does not have would be counted.
    let mut config = StartConfig::default();
    let words = ["--rename-command", "esker.explain", ""].map(|word| word.as_bytes().to_vec());
    config.add_words(&words).expect("there is such a command");
    ours.server().configure(&config).expect("right");
    Some((redis, ours.listening(&[])))
}

#[test]
fn administration_of_users_answers_as_redis_does() {
    let Some((redis, esker)) = servers("acl-administration") else { return };
    for protocol in [2, 3] {
        let mut pair = Pair::new(&redis, &esker, protocol);
        for request in ADMINISTRATION {
            let words: Vec<&str> = request.split(' ').collect();
            pair.compare(&words, &[]);
        }
        pair.compare(&["acl", "setuser", "a b"], &[]);
        pair.compare(&["acl", "setuser", "a\0b"], &[]);
        pair.compare(&["acl", "setuser", "ann", "~a b"], &[]);
    }
    let mut ours = esker.connect();
    for (request, length) in [("acl genpass", 64), ("acl genpass 5", 2), ("acl genpass 4096", 1024)] {
        let password = ours.words(request).bulk();
        assert_eq!(password.len(), length, "{request}");
        assert!(password.iter().all(u8::is_ascii_hexdigit));
        assert!(length == 2 || ours.words(request).bulk() != password, "two passwords are equal");
    }
}

#[test]
fn random_users_may_do_what_they_may_in_redis() {
    let Some((redis, esker)) = servers("acl-random") else { return };
    for protocol in [2, 3] {
        let mut numbers = Random::of(u64::from(protocol));
        let mut administrator = Pair::new(&redis, &esker, protocol);
        let mut user = Pair::new(&redis, &esker, protocol);
        let mut trace = Vec::new();
        for _ in 0..1_500 {
            let name = *numbers.pick(USERS);
            if numbers.once_in(3) {
                let mut request = vec!["acl"];
                match numbers.below(8) {
                    0 => request.extend(["getuser", name]),
                    1 => request.push("list"),
                    2 => request.extend(["deluser", name]),
                    _ => {
                        request.extend(["setuser", name]);
                        (0..numbers.below(6)).for_each(|_| request.push(numbers.choose(RULES)));
                    }
                }
                trace.push(format!("administrator: {request:?}"));
                administrator.compare(&request, &trace);
            } else {
                let mut request: Vec<&str> = numbers.pick(USE).split('|').collect();
                if numbers.once_in(6) {
                    request = vec!["auth", name, *numbers.pick(&["one", "two", "x"])];
                } else if numbers.once_in(8) {
                    let mut dry = vec!["acl", "dryrun", name];
                    dry.append(&mut request);
                    trace.push(format!("administrator: {dry:?}"));
                    administrator.compare(&dry, &trace);
                    continue;
                }
                trace.push(format!("user: {request:?}"));
                let is_alive = user.compare(&request, &trace);
                // A subscriber in RESP2 may do little else.
                if !is_alive || request[0].ends_with("subscribe") {
                    user = Pair::new(&redis, &esker, protocol);
                }
            }
            let logs = (log(&mut administrator.theirs), log(&mut administrator.ours));
            assert_eq!(
                logs.1,
                logs.0,
                "RESP{protocol}, after\n{}",
                trace[trace.len().saturating_sub(40)..].join("\n")
            );
        }
    }
}

/// Whether the server has closed the connection.
fn is_closed(client: &mut Client) -> bool {
    client.try_send(b"PING\r\n").is_err() || client.try_read().is_err()
}

#[test]
fn clients_end_with_their_users_and_subscribers_with_their_channels() {
    let Some((redis, esker)) = servers("acl-end") else { return };
    for server in [&redis, &esker] {
        let mut administrator = server.connect();
        let mut ok = |request: &str| {
            assert_eq!(administrator.words(request), Value::Status(b"OK".to_vec()), "{request}");
        };
        ok("acl setuser ann on nopass +@all ~* &news &sport*");
        ok("acl setuser bob on nopass +@all ~* &*");
        let log_in = |name: &str| {
            let mut client = server.connect();
            client.hello(3);
            client.words(&format!("auth {name} x"));
            client
        };
        let (mut reader, mut writer, mut other) = (log_in("ann"), log_in("ann"), log_in("bob"));
        for (client, channel) in [(&mut reader, "news"), (&mut other, "news")] {
            client.send(&esker_redis_testkit::encode(&[b"subscribe", channel.as_bytes()]));
            client.read_push();
        }
        ok("acl setuser ann &more");
        assert!(!is_closed(&mut reader), "no channel was taken away");
        ok("acl setuser ann resetchannels &sport*");
        assert!(is_closed(&mut reader), "its channel was taken away");
        assert!(!is_closed(&mut writer) && !is_closed(&mut other));
        ok("acl setuser ann off");
        assert!(!is_closed(&mut writer), "switching a user off ends no connection");
        writer.words("multi");
        writer.words("set a 1");
        ok("acl setuser ann -set");
        let refused = writer.words("exec").array();
        assert!(refused[0].error().is_some_and(|text| text.starts_with(b"NOPERM ACLs rules changed")));
        assert_eq!(administrator.words("acl deluser ann nosuch").integer(), 1);
        assert!(is_closed(&mut writer), "its user was deleted");
        // A client that deletes its own user gets the reply.
        assert_eq!(other.words("acl deluser bob").integer(), 1);
        assert!(is_closed(&mut other));
    }
}

#[test]
fn a_client_that_waits_ends_with_its_user_and_takes_nothing() {
    let Some((redis, esker)) = servers("acl-waits") else { return };
    for server in [&redis, &esker] {
        let (mut administrator, mut waiting) = (server.connect(), server.connect());
        administrator.words("acl setuser ann on nopass +@all ~*");
        waiting.words("auth ann x");
        waiting.send(b"BLPOP queue 0\r\n");
        while !administrator.words("client list").bulk().windows(9).any(|part| part == b" flags=b ") {}
        assert_eq!(administrator.words("acl deluser ann").integer(), 1);
        administrator.words("acl setuser ann on nopass +@all ~*");
        assert!(waiting.try_read().is_err(), "its user was deleted");
        administrator.words("rpush queue 1");
        assert_eq!(administrator.words("llen queue").integer(), 1);
    }
}

#[test]
fn functions_run_with_the_rights_of_their_caller() {
    let Some((redis, esker)) = servers("acl-functions") else { return };
    for server in [&redis, &esker] {
        let (mut administrator, mut caller) = (server.connect(), server.connect());
        let code = "#!lua name=lib\nredis.register_function('put', function(keys) return redis.pcall('set', keys[1], 1) end)";
        administrator.call_with(&["function", "load", code]);
        administrator.words("acl setuser ann on nopass ~a* +fcall +get");
        caller.words("auth ann x");
        let denied = |reply: Value, text: &[u8]| reply.error().is_some_and(|error| error.starts_with(text));
        assert!(denied(caller.words("fcall put 1 a1"), b"ERR The user executing the script can't run"));
        assert!(denied(caller.words("fcall put 1 b1"), b"NOPERM"));
        assert!(denied(caller.call_with(&["function", "load", "replace", code]), b"NOPERM"));
        assert!(denied(caller.words("function restore x"), b"NOPERM"));
        administrator.words("acl setuser ann +set");
        assert_eq!(caller.words("fcall put 1 a1"), Value::Status(b"OK".to_vec()));
    }
}

#[test]
fn a_file_keeps_users_and_is_loaded_wholly_or_not_at_all() {
    let file = std::env::temp_dir().join(format!("esker-redis-acl-{}.acl", std::process::id()));
    std::fs::write(&file, "user ann on nopass ~a* +@all &*\nuser default on nopass ~* &* +@all\n")
        .expect("a file");
    let text = file.to_str().expect("a name in UTF-8");
    let server = TestServer::new("acl-file").listening(&[("aclfile", text)]);
    let (mut administrator, mut ann) = (server.connect(), server.connect());
    assert_eq!(ann.words("auth ann x"), Value::Status(b"OK".to_vec()));
    administrator.words("acl setuser eve on >secret +get ~e*");
    assert_eq!(administrator.words("acl save"), Value::Status(b"OK".to_vec()));
    let saved = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(saved.lines().count(), 3);
    assert!(saved.contains("user eve on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"));
    assert!(!saved.contains("secret"));

    std::fs::write(&file, format!("{saved}user ann on\nuser zoe +nosuch\n")).expect("a file");
    let error = administrator.words("acl load");
    let error = String::from_utf8_lossy(error.error().expect("a line is wrong")).into_owned();
    assert!(error.contains("Duplicate user 'ann' found on line 4") && error.contains(":5: "), "{error}");
    assert!(!is_closed(&mut ann), "nothing was changed");
    std::fs::write(&file, "user zoe on nopass +@all ~*\n").expect("a file");
    assert_eq!(administrator.words("acl load"), Value::Status(b"OK".to_vec()));
    assert!(is_closed(&mut ann), "its user is gone");
    assert_eq!(administrator.words("acl users").array().len(), 2);
    std::fs::remove_file(&file).expect("it is there");
    let error = administrator.words("acl load");
    assert!(error.error().is_some_and(|text| text.starts_with(b"ERR Error loading ACLs, opening file")));
}

#[test]
fn users_stay_with_the_data_once_the_configuration_is_rewritten() {
    let server = TestServer::new("acl-rewrite");
    let mut client = server.client();
    client.request(&["acl", "setuser", "ann", "on", ">one", "~a*", "+@read", "&c"]);
    client.request(&["config", "set", "requirepass", "two", "acl-pubsub-default", "allchannels"]);
    let users = client.request(&["acl", "list"]);
    client.request(&["config", "rewrite"]);
    client.request(&["acl", "setuser", "lost"]);
    drop(client);
    let server = server.reopened();
    server.server().load_settings().expect("they are right");
    let mut client = server.client();
    assert!(client.request(&["acl", "list"]).starts_with(b"-NOAUTH"));
    assert_eq!(client.request(&["auth", "two"]), b"+OK\r\n");
    assert_eq!(client.request(&["acl", "list"]), users);
    client.request(&["acl", "setuser", "new"]);
    assert!(String::from_utf8_lossy(&client.request(&["acl", "getuser", "new"])).contains("&*"));
}

#[test]
fn a_configuration_declares_users_once() {
    let server = TestServer::new("acl-declared");
    server.server().set_directive(b"requirepass", b"one").expect("a right value");
    server.server().declare_users(&[vec!["ann", "on", "nopass", "+get"]]).expect("right rules");
    let mut client = server.client();
    assert!(client.request(&["ping"]).starts_with(b"-NOAUTH"));
    assert_eq!(client.request(&["auth", "ann", "x"]), b"+OK\r\n");
    assert!(client.request(&["ping"]).starts_with(b"-NOPERM"));
    let twice = server.server().declare_users(&[vec!["ann"], vec!["ann"]]);
    assert_eq!(twice.expect_err("ann is there already").0, 1);
    server.server().declare_users(&[vec!["default", "on", "nopass", "+ping"]]).expect("right rules");
    let mut client = server.client();
    assert_eq!(client.request(&["ping"]), b"+PONG\r\n");
}

#[test]
fn hostile_rules_are_refused_and_change_nothing() {
    let server = TestServer::new("acl-hostile");
    let mut client = server.client();
    let users = client.request(&["acl", "list"]);
    let long = "(".repeat(40_000);
    for rule in
        ["%~", "%", "%RX~a", "+@all(", "(((", ")(", "(+@all", "+|", "+get|", "-@", "+@", "#", long.as_str()]
    {
        let reply = client.request(&["acl", "setuser", "eve", "on", rule]);
        assert!(reply.starts_with(b"-ERR "), "{rule}: {}", reply.escape_ascii());
    }
    assert_eq!(client.request(&["acl", "list"]), users);
    let mut request: Vec<String> = ["acl", "setuser", "eve"].map(str::to_owned).to_vec();
    request.extend((0..64_000).map(|number| format!("~{number}")));
    assert_eq!(client.request(&request), b"+OK\r\n");
    assert!(client.request(&["acl", "dryrun", "eve", "get", "64000"]).starts_with(b"$"));
}
