//! Commands of the server itself, compared with Redis 7.0.15 where the reply does not depend on the clock.

mod common;

use common::TestServer;
use esker_redis_server::StartConfig;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::{Client, ExpectKind, Server};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

fn parse(bytes: &[u8]) -> Value {
    let parsed = ReplyParser::default().parse(bytes).expect("a reply");
    parsed.reply.unwrap_or_else(|| panic!("half a reply: {}", bytes.escape_ascii()))
}

fn words(client: &mut LocalClient<'_>, request: &str) -> Value {
    parse(&client.request(&request.split_whitespace().collect::<Vec<_>>()))
}

/// Names in an order that both servers share: Redis lists commands by a random hash.
fn sorted_names(reply: Value) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = reply.array().into_iter().map(Value::bulk).collect();
    names.sort();
    names
}

/// Takes away what Redis does not have, so that lists and counts of commands can be compared.
fn without_own_commands() -> StartConfig {
    let mut config = StartConfig::default();
    let words = ["--rename-command", "esker.explain", ""].map(|word| word.as_bytes().to_vec());
    config.add_words(&words).expect("there is such a command");
    config
}

/// Calls `with` with clients of both servers, once in either protocol.
fn in_both_protocols(name: &str, with: impl Fn(&mut Client, &mut LocalClient<'_>, u8)) {
    let Some(redis) = Server::redis(&[]) else { return };
    let esker = TestServer::new(name);
    esker.server().configure(&without_own_commands()).expect("right");
    for protocol in [2, 3] {
        let (mut theirs, mut ours) = (redis.connect(), esker.client());
        theirs.hello(protocol);
        ours.request(&["hello", &protocol.to_string()]);
        with(&mut theirs, &mut ours, protocol);
    }
}

fn assert_same(theirs: &mut Client, ours: &mut LocalClient<'_>, request: &[&str], protocol: u8) {
    theirs.call_with(request);
    let reply = ours.request(request);
    assert!(
        reply == theirs.raw(),
        "RESP{protocol}, {request:?}:\n{}\ninstead of\n{}",
        reply.escape_ascii(),
        theirs.raw().escape_ascii()
    );
}

#[test]
fn administration_answers_in_the_bytes_of_redis() {
    let requests = [
        "command count",
        "command count x",
        "command help",
        "command help x",
        "command nosuch",
        "command info nosuch",
        "command info nosuch get config|get",
        "command docs nosuch",
        "command list filterby",
        "command list filterby pattern",
        "command list filterby module nosuch",
        "command list filterby aclcat nosuch",
        "command list filterby pattern xread",
        "command list filterby nosuch x",
        "command getkeys",
        "command getkeys nosuch a",
        "command getkeys ping",
        "command getkeys get",
        "command getkeys get a b",
        "command getkeys mset a 1 b 2",
        "command getkeys eval x 0",
        "command getkeys eval x 2 a b c",
        "command getkeys eval x 9999999999 a",
        "command getkeys sort a store b",
        "command getkeysandflags set a 1",
        "command getkeysandflags lmove a b left right",
        "command getkeysandflags zunionstore a 2 b c",
        "role",
        "role x",
        "time x",
        "lastsave x",
        "asking",
        "bgsave x",
        "cluster",
        "cluster help",
        "cluster info",
        "cluster nodes",
        "cluster nosuch",
        "cluster slots",
        "failover",
        "failover abort",
        "failover abort x",
        "failover timeout 0",
        "failover timeout 1",
        "failover to 127.0.0.1 1",
        "failover to a",
        "failover to a x",
        "failover x",
        "lolwut",
        "lolwut version",
        "lolwut version 7",
        "lolwut version x",
        "lolwut x",
        "lolwut version 5 1 1 x",
        "lolwut version 6 1 x",
        "lolwut version 4294967302 x",
        "lolwut version 7 x",
        "memory help",
        "memory nosuch",
        "memory purge",
        "memory usage a samples",
        "memory usage a samples -1",
        "memory usage a samples x",
        "memory usage a x 1",
        "memory usage nosuch",
        "migrate",
        "migrate 127.0.0.1 1 nosuch 0 10",
        "migrate 127.0.0.1 1 nosuch 0 x",
        "migrate 127.0.0.1 1 nosuch x 1",
        "module help",
        "module list",
        "module load x",
        "module loadex x",
        "module unload x",
        "pubsub channels a b",
        "readonly",
        "readwrite",
        "replconf",
        "replconf x",
        "replicaof a 99999",
        "replicaof a b",
        "replicaof no one",
        "restore-asking a 0 x",
        "save x",
        "shutdown abort",
        "shutdown abort save",
        "shutdown nosave save",
        "shutdown x",
        "slaveof no one",
        "slaveof no two",
        "debug",
        "debug sleep 0",
        "multi",
        "debug sleep 0",
        "exec",
        "slowlog get 2147483648",
        "slowlog get 9223372036854775807",
        "slowlog get -2",
        "config set maxmemory 0 timeout",
        "config set dir /tmp",
        "config get KEY-LOAD-DELAY",
        "config get key-load-dela?",
        "config get MAXMEMORY",
        "config set maxmemory-clients 5%",
        "config get maxmemory-clients",
        "config set maxmemory-clients 101%",
        "config set maxmemory-clients -1%",
        "config set maxmemory-clients %",
        "config set maxmemory-clients x",
        "config set maxmemory-clients 9223372036854775808",
        "config set maxmemory-clients 1gb",
        "config get maxmemory-clients",
        "config set maxmemory-clients 0%",
        "config get maxmemory-clients",
    ];
    in_both_protocols("administration-same", |theirs, ours, protocol| {
        for request in requests {
            let request: Vec<&str> = request.split_whitespace().collect();
            assert_same(theirs, ours, &request, protocol);
        }
    });
}

/// Directives that are not set here, and why.
const NOT_SET: [(&str, &str); 8] = [
    ("bind port", "where this test connects to"),
    ("requirepass maxclients client-query-buffer-limit proto-max-bulk-len", "they refuse the test itself"),
    ("dir", "each has its own"),
    ("appendonly maxmemory maxmemory-clients loglevel", "they make Redis do something"),
    ("sanitize-dump-payload", "payloads are always verified here"),
    ("activedefrag", "of the allocator with which Redis was built"),
    ("tls-", "tested with certificates"),
    ("lua-time-limit", "the older name of another"),
];

/// Values within the bounds of some directives and beyond those of others, and words of some.
const VALUES: &str = "-2|-1|0|1|7|11|99|100|101|1000|1001|65535|65536|2147483647|2147483648|4294967295|\
    4294967296|9223372036854775807|9223372036854775808|18446744073709551615|a||yes|no|NO|1.5|1gb|1kb|-1kb|\
    10%| 1|1 |0x10|01|nosave|default|save|now force|force now|1 2|1  2|1 99999999999|0 1|+1 +2|50  99|99.9999999|\
    0.1234567|nan|1 2 |-2000 0 2000|-2001 0 1|0 0 2001|1 2 3|1 2 x|1 2 3 4|{title}|{title} {port}|{x}|{|{{|a{|}|\
    {listen-addr}|{server-mode}|{unixsocket}|{config-file}|a.b-C|a_b";

/// Directives that CONFIG GET tells by their whole name alone.
const HIDDEN: [&str; 6] = [
    "key-load-delay",
    "loading-process-events-interval-bytes",
    "lua-enable-deprecated-api",
    "rdb-key-save-delay",
    "use-exit-on-panic",
    "watchdog-period",
];

#[test]
fn directives_take_the_values_that_redis_takes() {
    let is_set = |name: &str| {
        let mut names = NOT_SET.iter().flat_map(|(names, _)| names.split(' '));
        !names.any(|other| other == name || other.ends_with('-') && name.starts_with(other))
    };
    let Some(redis) = Server::redis(&[]) else { return };
    let esker = TestServer::new("administration-directives");
    let (mut theirs, mut ours) = (redis.connect(), esker.client());
    let mut listed = theirs.words("config get *").array();
    for name in HIDDEN {
        listed.extend(theirs.words(&format!("config get {name}")).array());
    }
    let long_names = ["a".repeat(255), "a".repeat(256)];
    let values = || VALUES.split('|').chain(long_names.iter().map(String::as_str));
    let text = |value: &Value| String::from_utf8_lossy(&value.clone().bulk()).into_owned();
    let mut different = Vec::new();
    for pair in listed.chunks(2).filter(|pair| is_set(&text(&pair[0]))) {
        let (name, before) = (text(&pair[0]), text(&pair[1]));
        let set = |value| vec!["config", "set", &name, value];
        let requests = values().flat_map(|value| [set(value), vec!["config", "get", &name]]);
        for request in requests.chain([set(&before)]) {
            theirs.call_with(&request);
            let reply = ours.request(&request);
            if reply != theirs.raw() {
                let (reply, right) = (reply.escape_ascii(), theirs.raw().escape_ascii());
                different.push(format!("{request:?}: {reply} instead of {right}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Notes of keys are words for people, and those of the table are its own: compared is that there is one.
fn without_notes(value: Value) -> Value {
    let is_notes = |name: &Value| *name == Value::Bulk(b"notes".to_vec());
    let note = || Value::Bulk(b"a note".to_vec());
    match value {
        Value::Array(items) => {
            let mut follows_name = false;
            let items = items.into_iter().map(|item| {
                let is_note = std::mem::replace(&mut follows_name, is_notes(&item));
                if is_note { note() } else { without_notes(item) }
            });
            Value::Array(items.collect())
        }
        Value::Set(items) => Value::Set(items.into_iter().map(without_notes).collect()),
        Value::Map(pairs) => {
            let pair = |(name, value)| {
                let value = if is_notes(&name) { note() } else { without_notes(value) };
                (name, value)
            };
            Value::Map(pairs.into_iter().map(pair).collect())
        }
        other => other,
    }
}

#[test]
fn every_command_is_described_as_redis_does() {
    in_both_protocols("administration-info", |theirs, ours, protocol| {
        let names = sorted_names(theirs.words("command list"));
        assert_eq!(names, sorted_names(words(ours, "command list")));
        assert!(names.len() > 240, "{} commands and subcommands", names.len());
        // What has subcommands lists them by a random hash, so those are compared one by one.
        let container =
            |name: &str| names.iter().any(|other| other.starts_with(format!("{name}|").as_bytes()));
        for name in names.iter().map(|name| std::str::from_utf8(name).expect("a name")) {
            if !container(name) {
                let request = format!("command info {name}");
                let (reply, expected) = (words(ours, &request), theirs.words(&request));
                assert_eq!(without_notes(reply), without_notes(expected), "RESP{protocol}, {name}");
            }
        }
        for category in ["read", "dangerous", "scripting"] {
            let request = format!("command list filterby aclcat {category}");
            assert_eq!(
                sorted_names(words(ours, &request)),
                sorted_names(theirs.words(&request)),
                "{category}"
            );
        }
        assert_eq!(words(ours, "command").array().len(), theirs.words("command").array().len());
    });
}

/// Requests that leave every type of value, packed and not, with and without a time to live.
fn some_of_each_type() -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    let mut requests: Vec<Vec<String>> = [
        "set s 1",
        "set expiring x ex 10000",
        "rpush l a b a",
        "sadd ints 1 2 3",
        "sadd members a b c",
        "zadd z 0.1 a -inf b 3 c",
        "hset h f v g w",
        "xadd x 1-1 f v g w",
        "xadd x 1-2 f v",
        "select 3",
        "set other 7",
        "select 0",
    ]
    .iter()
    .map(|line| words((*line).to_owned()))
    .collect();
    for number in 0..300 {
        requests.push(words(format!("rpush big-l {number}")));
        requests.push(words(format!("sadd big-s m{number}")));
        requests.push(words(format!("zadd big-z {}.5 m{number}", number % 7)));
        requests.push(words(format!("hset big-h f{number} v{number}")));
        requests.push(words(format!("xadd big-x {number}-7 f{number} v{number}")));
    }
    requests.push(words(format!("set big {}", "x".repeat(100_000))));
    requests
}

#[test]
fn limits_of_encodings_act_as_those_of_redis() {
    let requests = [
        "config set zset-max-listpack-entries 2",
        "zadd z 1 a 2 b",
        "object encoding z",
        "zadd z 3 c",
        "object encoding z",
        "config set zset-max-listpack-value 3",
        "zadd long 1 abcd",
        "object encoding long",
        "config set stream-node-max-entries 2",
        "xadd x 1-1 f v",
        "xadd x 1-2 f v",
        "xadd x 1-3 f v",
        "xtrim x maxlen ~ 2",
        "xlen x",
        "xtrim x maxlen ~ 1",
        "xlen x",
        "config set hll-sparse-max-bytes 0",
        "pfadd hll a",
        "strlen hll",
        "config set hll-sparse-max-bytes 3000",
        "pfadd sparse a",
        "strlen sparse",
        "config set hll-sparse-max-bytes 1",
        "pfmerge merged sparse",
        "strlen merged",
    ];
    in_both_protocols("administration-limits", |theirs, ours, protocol| {
        assert_same(theirs, ours, &["flushall"], protocol);
        for request in requests {
            let request: Vec<&str> = request.split_whitespace().collect();
            assert_same(theirs, ours, &request, protocol);
        }
        let defaults =
            ["zset-max-listpack-entries 128", "zset-max-listpack-value 64", "stream-node-max-entries 100"];
        for pair in defaults.into_iter().chain(["hll-sparse-max-bytes 3000"]) {
            let request: Vec<&str> = ["config", "set"].into_iter().chain(pair.split(' ')).collect();
            assert_same(theirs, ours, &request, protocol);
        }
    });
}

#[test]
fn digests_are_those_of_redis() {
    let Some(redis) = Server::redis(&["--enable-debug-command", "yes"]) else { return };
    let esker = TestServer::new("administration-digest");
    esker.server().set_directive(b"enable-debug-command", b"yes").expect("a directive");
    for protocol in [2, 3] {
        let (mut theirs, mut ours) = (redis.connect(), esker.client());
        theirs.hello(protocol);
        ours.request(&["hello", &protocol.to_string()]);
        assert_same(&mut theirs, &mut ours, &["debug", "digest"], protocol);
        for request in some_of_each_type() {
            let request: Vec<&str> = request.iter().map(String::as_str).collect();
            assert_same(&mut theirs, &mut ours, &request, protocol);
        }
        let keys = ["s", "expiring", "l", "ints", "members", "z", "h", "x", "big", "big-l", "big-s", "big-z"];
        for key in keys.into_iter().chain(["big-h", "big-x", "nosuch"]) {
            assert_same(&mut theirs, &mut ours, &["debug", "digest-value", key], protocol);
        }
        assert_same(&mut theirs, &mut ours, &["debug", "digest"], protocol);
        assert_same(&mut theirs, &mut ours, &["debug", "populate", "100", "p", "10"], protocol);
        assert_same(&mut theirs, &mut ours, &["debug", "populate", "10"], protocol);
        assert_same(&mut theirs, &mut ours, &["debug", "digest"], protocol);
        assert_same(&mut theirs, &mut ours, &["debug", "reload"], protocol);
        assert_same(&mut theirs, &mut ours, &["debug", "digest"], protocol);
        assert_same(&mut theirs, &mut ours, &["flushall"], protocol);
    }
}

#[test]
fn debug_answers_in_the_bytes_of_redis() {
    let Some(redis) = Server::redis(&["--enable-debug-command", "yes"]) else { return };
    let esker = TestServer::new("administration-debug");
    esker.server().set_directive(b"enable-debug-command", b"yes").expect("a directive");
    let types = "string integer double bignum null array set map attrib push verbatim true false nosuch";
    let requests = [
        "debug nosuch",
        "debug sleep",
        "debug sleep x",
        "debug sleep 0.001",
        "debug object",
        "debug object nosuch",
        "debug set-active-expire 0",
        "debug set-active-expire x",
        "debug set-active-expire 1",
        "debug reload x",
        "debug error",
        "debug error MINE",
        "debug quicklist-packed-threshold 100b",
        "debug quicklist-packed-threshold 0",
        "debug quicklist-packed-threshold x",
        "debug change-repl-id",
        "debug htstats x",
        "debug htstats 99",
        "debug htstats-key nosuch",
        "debug pause-cron 0",
        "debug populate x",
        "debug populate -1",
        "debug set-skip-checksum-validation 0",
        "debug quicklist-packed-threshold 4294967295",
        "debug quicklist-packed-threshold 4293918720",
        "debug htstats 0 full",
        "debug sdslen nosuch",
        "debug sdslen",
        "debug stringmatch-test",
        "debug log a",
        "debug replybuffer peak-reset-time never",
        "debug replybuffer peak-reset-time 100",
        "debug replybuffer resizing 1",
        "debug replybuffer nosuch 1",
        "debug drop-cluster-packet-filter x",
        "debug drop-cluster-packet-filter -1",
    ];
    for protocol in [2, 3] {
        let (mut theirs, mut ours) = (redis.connect(), esker.client());
        theirs.hello(protocol);
        ours.request(&["hello", &protocol.to_string()]);
        for request in requests {
            let request: Vec<&str> = request.split_whitespace().collect();
            assert_same(&mut theirs, &mut ours, &request, protocol);
        }
        for name in types.split(' ').filter(|name| *name != "push" || protocol == 2) {
            assert_same(&mut theirs, &mut ours, &["debug", "protocol", name], protocol);
        }
    }
}

/// What has no meaning here says so, and is not called unknown; the lengths of strings are those of Redis.
#[test]
fn debug_tells_lengths_of_strings_and_what_has_no_meaning() {
    let server = TestServer::new("administration-debug-internals");
    server.server().set_directive(b"enable-debug-command", b"yes").expect("a directive");
    let mut client = server.client();
    words(&mut client, "rpush l 1");
    words(&mut client, "set number 12");
    words(&mut client, "setrange far 100000 x");
    words(&mut client, "set text abcdef");
    for (key, lengths) in [("far", "key_sds_len:3, "), ("text", "key_sds_len:4, ")] {
        let Value::Status(text) = words(&mut client, &format!("debug sdslen {key}")) else { panic!("{key}") };
        let text = String::from_utf8(text).expect("a text");
        let value = if key == "far" { "val_sds_len:100001, " } else { "val_sds_len:6, " };
        assert!(text.starts_with(lengths) && text.contains(value), "{text}");
    }
    for key in ["l", "number"] {
        let reply = words(&mut client, &format!("debug sdslen {key}"));
        assert_eq!(reply.error(), Some(&b"ERR Not an sds encoded string."[..]));
    }
    for name in ["listpack l", "quicklist l 1", "segfault", "replicate a b", "client-eviction"] {
        let reply = words(&mut client, &format!("debug {name}"));
        let error = String::from_utf8_lossy(reply.error().expect("an error")).into_owned();
        assert!(error.contains("has no meaning here"), "{error}");
    }
    assert!(words(&mut client, "debug config-rewrite-force-all").error().is_none());
}

#[test]
fn the_memory_of_a_key_grows_with_its_value() {
    let server = TestServer::new("administration-memory");
    let mut client = server.client();
    let used = |key: &str| words(&mut server.client(), &format!("memory usage {key} samples 0")).integer();
    for request in some_of_each_type() {
        client.request(&request);
    }
    for (small, big) in [("s", "big"), ("l", "big-l"), ("members", "big-s"), ("z", "big-z"), ("h", "big-h")] {
        assert!(used(small) > 0 && used(big) > 10 * used(small), "{small} {big}");
    }
    let sampled = words(&mut client, "memory usage big-h").integer();
    assert!(sampled * 2 > used("big-h") && sampled < used("big-h") * 2, "{sampled}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "compared with the machine's clock itself")]
fn time_is_now_and_the_last_save_is_the_start() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let before = now();
    let server = TestServer::new("administration-clock");
    let mut client = server.client();
    let started = words(&mut client, "lastsave").integer() as u64;
    assert!((before / 1000..=now() / 1000).contains(&started), "{started}");
    let asked = now();
    let parts = words(&mut client, "time")
        .array()
        .into_iter()
        .map(|part| String::from_utf8(part.bulk()).expect("digits").parse::<u64>().expect("a number"));
    let [seconds, microseconds]: [u64; 2] = parts.collect::<Vec<_>>().try_into().expect("two parts");
    assert!(microseconds < 1_000_000, "{microseconds}");
    assert!((asked..=now()).contains(&(seconds * 1000 + microseconds / 1000)), "{seconds} {microseconds}");
}

/// A configuration that is read anew sets what it says otherwise than before, all of it or nothing, and
/// leaves what clients have set.
#[test]
fn a_configuration_read_anew_sets_what_differs() {
    let config = |words: &str| {
        let mut config = StartConfig::default();
        let words: Vec<Vec<u8>> = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        config.add_words(&words).expect("right");
        config
    };
    let levels: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let (server, told) = (TestServer::new("reconfigure"), Arc::clone(&levels));
    server.server().on_log_level(move |word| told.lock().expect("no panic").push(word.to_vec()));
    let before = config("--maxclients 50 --slowlog-max-len 7");
    server.server().configure(&before).expect("right");
    let mut client = server.client();
    words(&mut client, "config set timeout 9");
    let now = config("--maxclients 60 --databases 4 --loglevel debug --rename-command debug gone");
    let changed = server.server().reconfigure(&before, &now).expect("right");
    assert_eq!(changed.set, ["loglevel", "maxclients", "slowlog-max-len"]);
    assert_eq!(changed.at_next_start, ["databases", "rename-command"]);
    assert_eq!(*levels.lock().expect("no panic"), [b"debug".to_vec()]);
    let mut value = |name: &str| {
        let pair = words(&mut client, &format!("config get {name}")).array();
        String::from_utf8(pair[1].clone().bulk()).expect("text")
    };
    for (name, expected) in [("maxclients", "60"), ("timeout", "9"), ("slowlog-max-len", "128")] {
        assert_eq!(value(name), expected, "{name}");
    }
    let impossible = config("--maxclients 4000000000 --slowlog-max-len 5");
    let reason = server.server().reconfigure(&now, &impossible).expect_err("too many");
    assert!(reason.starts_with("maxclients: The operating system is not able"), "{reason}");
    assert_eq!((value("maxclients"), value("slowlog-max-len")), ("60".to_owned(), "128".to_owned()));
}
