//! Statistics of commands, SLOWLOG, LATENCY and MONITOR, beside Redis 7.0.15 where replies do not depend on
//! the clock.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_testkit::{Client, ExpectKind, Server};
use esker_resp::value::Value;
use std::net::SocketAddr;

/// A server in this process, which ends with it.
fn esker(name: &str) -> Server {
    let server: &'static TestServer = Box::leak(Box::new(TestServer::new(name)));
    let config =
        ListenConfig { tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()], ..ListenConfig::default() };
    let listener = Listener::bind(config).expect("a free port");
    let address = listener.addresses().expect("bound")[0];
    std::thread::spawn(|| listener.serve(server.server()));
    Server::at(address.to_string())
}

/// Both servers, or Esker alone where there is no Redis.
fn servers(name: &str) -> Vec<Server> {
    let redis = Server::redis(&["--enable-debug-command", "yes"]);
    redis.into_iter().chain([esker(name)]).collect()
}

/// What each server answers to the same requests, without times: fails unless all answer the same.
fn assert_same<R: PartialEq + std::fmt::Debug>(servers: &[Server], ask: impl Fn(&mut Client) -> R) -> R {
    let mut answers: Vec<R> = servers.iter().map(|server| ask(&mut server.connect())).collect();
    let last = answers.pop().expect("a server");
    answers.iter().for_each(|answer| assert_eq!(answer, &last));
    last
}

fn text(value: Value) -> String {
    let bytes = match value {
        Value::Verbatim { text, .. } => text,
        other => other.bulk(),
    };
    String::from_utf8(bytes).expect("text")
}

/// Lines of a section of INFO without times, in the order of their names.
fn section(client: &mut Client, name: &str) -> Vec<String> {
    let info = text(client.words(&format!("info {name}")));
    let without_times = |line: &str| {
        let (start, end) = (line.find(",usec="), line.find(",rejected_calls"));
        match (start, end) {
            (Some(start), Some(end)) => format!("{}{}", &line[..start], &line[end..]),
            _ => line.to_owned(),
        }
    };
    let mut lines: Vec<String> =
        info.lines().filter(|line| !line.contains("|resetstat")).map(without_times).collect();
    lines.sort();
    lines
}

#[test]
fn calls_failures_and_errors_of_commands_are_counted_as_redis_does() {
    let servers = servers("observed-counts");
    for protocol in [2, 3] {
        let lines = assert_same(&servers, |client| {
            client.hello(protocol);
            client.words("flushall");
            client.words("config resetstat");
            for request in [
                "set a 1",
                "get a",
                "lpush a 1",
                "nosuch",
                "get",
                "config nosuch",
                "config get",
                "multi",
                "set b 1",
                "get",
                "exec",
                "multi",
                "set b 1",
                "lpush b 1",
                "exec",
                "exec",
            ] {
                client.words(request);
            }
            client.call(&[b"eval", b"return redis.call('lpush','a',1)", b"0"]);
            client.call(&[b"eval", b"redis.pcall('lpush','a',1) return redis.call('get','a')", b"0"]);
            client.call(&[b"eval", b"return redis.error_reply('MINE text')", b"0"]);
            client.call(&[b"eval", b"return redis.call('get')", b"0"]);
            // A pipeline is counted command by command.
            client.send(&b"*2\r\n$3\r\nget\r\n$1\r\na\r\n".repeat(20));
            (0..20).for_each(|_| drop(client.read()));
            (section(client, "commandstats"), section(client, "errorstats"))
        });
        let all = lines.0.join("\n");
        assert!(all.contains("cmdstat_lpush:calls=4,rejected_calls=0,failed_calls=4"), "{all}");
        assert!(lines.1.contains(&"errorstat_MINE:count=1".to_owned()), "{:?}", lines.1);
    }
}

/// `total_commands_processed`.
fn processed(client: &mut Client) -> u64 {
    let info = text(client.words("info stats"));
    let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    count.and_then(|count| count.parse().ok()).expect("INFO tells it")
}

#[test]
fn each_call_of_a_script_or_transaction_is_processed_and_what_is_rejected_or_discarded_is_not() {
    let counted = assert_same(&servers("observed-processed"), |client| {
        client.words("config resetstat");
        let mut counted = Vec::new();
        let mut after = |client: &mut Client, what: &str| counted.push((what.to_owned(), processed(client)));
        after(client, "config resetstat");
        for request in [
            "set a 1",
            "nosuch",
            "get",
            "lpush a 1",
            "multi",
            "set b 1",
            "get b",
            "exec",
            "multi",
            "set b 1",
            "discard",
            "multi",
            "set b 1",
            "get",
            "exec",
            "exec",
            "discard",
            "multi",
            "exec",
            "watch a",
            "set a 2",
            "multi",
            "get a",
            "exec",
            "blpop nothing 0.01",
            "xread block 10 streams nothing $",
            "select 0",
            "config nosuch",
            "select x",
        ] {
            client.words(request);
            // In a transaction it would be queued.
            if !matches!(request.split(' ').next(), Some("multi" | "get" | "set")) {
                after(client, request);
            }
        }
        for script in [
            "return 1",
            "redis.call('set','a',1) return redis.call('get','a')",
            "redis.pcall('lpush','a',1) redis.pcall('get') redis.pcall('nosuch') return redis.call('subscribe','a')",
            "return redis.call('blpop','nothing',0)",
            "this is no script",
        ] {
            client.call(&[b"eval", script.as_bytes(), b"0"]);
            after(client, script);
            client.words("multi");
            client.call(&[b"eval", script.as_bytes(), b"2", b"a", b"nothing"]);
            client.words("exec");
            after(client, script);
        }
        client.send(&b"*2\r\n$3\r\nget\r\n$1\r\na\r\n".repeat(20));
        (0..20).for_each(|_| drop(client.read()));
        after(client, "a pipeline");
        client.hello(3);
        after(client, "hello");
        client.words("reset");
        after(client, "reset");
        client.words("auth none");
        after(client, "auth");
        counted
    });
    assert_eq!(counted[0].1, 1, "CONFIG RESETSTAT itself");
}

#[test]
fn a_command_that_waits_is_a_call_from_the_beginning_and_only_once() {
    let ends = ["lpush", "timeout", "error", "the client leaves", "quit"];
    let counted = |server: Server| {
        let client = &mut server.connect();
        let ask = |client: &mut Client| {
            let lines = section(client, "commandstats");
            (processed(client), lines.into_iter().find(|line| line.starts_with("cmdstat_blpop")))
        };
        let mut told = Vec::new();
        for end in ends {
            let mut other = server.connect();
            let id = other.words("client id").integer();
            client.words("config resetstat");
            other.send(if end == "quit" { b"quit\r\n" } else { b"blpop list 0\r\n" });
            if end == "quit" {
                other.read();
                told.push((ask(client), ask(client)));
                continue;
            }
            while !text(client.words("client list")).lines().any(|line| line.contains("cmd=blpop")) {}
            // One that asks until then is counted as well.
            let asked = section(client, "commandstats");
            let calls = |name: &str| {
                let prefix = format!("cmdstat_{name}:calls=");
                let line = asked.iter().find_map(|line| line.strip_prefix(&prefix));
                line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or_default()
            };
            let others = calls("client|list");
            let waiting = ask(client);
            match end {
                "lpush" => drop((client.words("lpush list a"), other.read())),
                "the client leaves" => {
                    drop(other);
                    while text(client.words("client list")).contains("cmd=blpop") {}
                }
                how => drop((client.words(&format!("client unblock {id} {how}")), other.read())),
            }
            let (processed, line) = ask(client);
            let ended = if end == "the client leaves" { 0 } else { processed - others };
            told.push(((waiting.0 - others, waiting.1), (ended, line)));
        }
        told
    };
    let all: Vec<_> = servers("observed-waiting").into_iter().map(counted).collect();
    all.iter().for_each(|told| assert_eq!(told, all.last().expect("a server")));
}

#[test]
fn lookups_of_reading_commands_are_hits_and_misses_as_in_redis() {
    let commands = [
        "set a 1",
        "get a",
        "get b",
        "mget a b c",
        "exists a b b",
        "type a",
        "ttl b",
        "pttl a",
        "strlen a",
        "getrange b 0 1",
        "hset h f v",
        "hget h f",
        "hget none f",
        "hmget h f g",
        "hlen h",
        "lpush l 1 2",
        "lrange l 0 -1",
        "llen none",
        "sadd s 1 2",
        "smembers s",
        "sismember s 1",
        "sinter s t",
        "zadd z 1 m",
        "zscore z m",
        "zrange none 0 -1",
        "append a x",
        "incr n",
        "incr n",
        "del b n",
        "setnx a 2",
        "expire a 100",
        "object encoding a",
        "get h",
        "bitcount a",
        "touch a b",
        "dump b",
        "memory usage a",
        "memory usage b",
    ];
    assert_same(&servers("lookups"), |client| {
        let told = |client: &mut Client| {
            let info = text(client.words("info stats"));
            let lines = info.lines().filter(|line| line.starts_with("keyspace_"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let after = |command: &&str| {
            client.words(command);
            (command.to_string(), told(client))
        };
        commands.iter().map(after).collect::<Vec<_>>()
    });
}

#[test]
fn rates_grow_while_a_client_works() {
    let server = esker("observed-rates");
    let mut client = server.connect();
    let names = ["instantaneous_ops_per_sec:", "instantaneous_input_kbps:", "instantaneous_output_kbps:"];
    // The client's patience ends the test if they stay.
    for name in names {
        let is_some = |info: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("INFO tells it");
            line.parse::<f64>().expect("a number") > 0.0
        };
        while !is_some(&text(client.words("info stats"))) {}
    }
}

#[test]
fn a_group_that_is_executed_once_more_is_counted_once() {
    let server = esker("observed-once");
    let mut client = server.connect();
    client.words("config resetstat");
    // Scripts that run long leave the thread that began them, with the whole pipeline.
    let script: &[u8] = b"local x = 0 for i = 1, 3000000 do x = x + i end return redis.call('incr', 'n')";
    for _ in 0..5 {
        client.call(&[b"eval", script, b"1", b"n"]);
    }
    let lines = section(&mut client, "commandstats");
    assert!(lines.contains(&"cmdstat_incr:calls=5,rejected_calls=0,failed_calls=0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"cmdstat_eval:calls=5,rejected_calls=0,failed_calls=0".to_owned()), "{lines:?}");
}

#[test]
fn percentiles_and_histograms_name_the_commands_that_were_called() {
    for server in servers("observed-latencies") {
        let mut client = server.connect();
        client.hello(3);
        client.words("config resetstat");
        for _ in 0..10 {
            client.words("set a 1");
        }
        let lines = text(client.words("info latencystats"));
        let line = lines.lines().find(|line| line.starts_with("latency_percentiles_usec_set:")).expect("SET");
        let fields: Vec<&str> =
            line.split([':', ',']).skip(1).map(|field| field.split('=').next().unwrap_or("")).collect();
        assert_eq!(fields, ["p50", "p99", "p99.9"]);
        let Value::Map(found) = client.words("latency histogram set nosuch") else { panic!("a map") };
        assert_eq!(found.len(), 1);
        let Value::Map(fields) = &found[0].1 else { panic!("a map") };
        assert_eq!(
            (fields[0].1.clone().integer(), &fields[1].0),
            (10, &Value::Bulk(b"histogram_usec".to_vec()))
        );
        let Value::Map(rows) = &fields[1].1 else { panic!("a map") };
        assert_eq!(rows.last().map(|(_, count)| count.clone().integer()), Some(10));
        client.words("config set latency-tracking no");
        client.words("config resetstat");
        client.words("set a 1");
        assert!(!text(client.words("info latencystats")).contains("usec_set"));
        client.words("config set latency-tracking yes");
    }
}

/// Entries of SLOWLOG without numbers, times and addresses.
fn slow(client: &mut Client, request: &str) -> Vec<(String, String, bool)> {
    let entries = client.words(request).array().into_iter().map(|entry| {
        let mut parts = entry.array();
        assert_eq!(parts.len(), 6);
        let name = parts.pop().expect("a name").bulk().escape_ascii().to_string();
        let address = parts.pop().expect("an address").bulk();
        let is_script = address == b"?:0";
        assert!(is_script || address.starts_with(b"127.0.0.1:"), "{}", address.escape_ascii());
        let arguments = parts.pop().expect("arguments").array();
        let arguments: Vec<Vec<u8>> = arguments.into_iter().map(Value::bulk).collect();
        (arguments.join(&b' ').escape_ascii().to_string(), name, is_script)
    });
    entries.collect()
}

#[test]
fn the_slow_log_keeps_what_redis_keeps() {
    let servers = servers("observed-slowlog");
    let entries = assert_same(&servers, |client| {
        client.words("client setname me");
        client.words("config set slowlog-log-slower-than 0");
        client.words("slowlog reset");
        let long = vec![b'x'; 300];
        client.call(&[b"set", b"key", &long]);
        let many: Vec<Vec<u8>> = (0..40).map(|number| format!("k{number}").into_bytes()).collect();
        let many: Vec<&[u8]> = std::iter::once(&b"del"[..]).chain(many.iter().map(Vec::as_slice)).collect();
        client.call(&many);
        client.words("del a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5");
        client.words("auth secret");
        client.words("hello 2 auth default secret");
        client.words("config set masterauth secret maxclients 9999");
        client.words("config set masterauth secret slowlog-max-len 20");
        client.words("multi");
        client.words("set q 1");
        client.words("exec");
        client.call(&[b"eval", b"return redis.call('get','q')", b"0"]);
        client.words("nosuch");
        client.words("get");
        let all = slow(client, "slowlog get -1");
        assert_eq!(slow(client, "slowlog get 2").len(), 2);
        client.words("config set slowlog-max-len 3");
        client.words("ping");
        let few = client.words("slowlog len").integer();
        client.words("config set slowlog-log-slower-than -1");
        let before = slow(client, "slowlog get");
        client.words("ping");
        assert_eq!(slow(client, "slowlog get"), before);
        client.words("slowlog reset");
        (all, few, before, client.words("slowlog len").integer())
    });
    assert!(entries.0.iter().all(|(arguments, ..)| !arguments.contains("secret")), "a secret is shown");
    for request in ["slowlog get x", "slowlog get -2", "slowlog get 1 2", "slowlog len 1", "slowlog help"] {
        assert_same(&servers, |client| client.words(request));
    }
}

#[test]
fn the_slow_log_keeps_the_command_that_turns_it_on_and_not_the_one_that_turns_it_off() {
    let servers = servers("observed-slowlog-turns");
    let entries = assert_same(&servers, |client| {
        client.words("config set slowlog-log-slower-than -1");
        client.words("slowlog reset");
        client.words("ping");
        client.words("config set slowlog-log-slower-than 0");
        // In one pipeline with the commands that it is about.
        client.send(b"PING\r\nCONFIG SET slowlog-log-slower-than -1\r\nPING\r\n");
        (0..3).for_each(|_| drop(client.read()));
        slow(client, "slowlog get")
    });
    let commands: Vec<&str> = entries.iter().map(|(arguments, ..)| arguments.as_str()).collect();
    assert_eq!(commands, ["PING", "config set slowlog-log-slower-than 0"]);
}

#[test]
fn commands_whose_waits_end_are_counted_as_redis_does() {
    let servers = servers("observed-waits");
    let lines = servers.iter().map(|server| {
        let client = &mut server.connect();
        client.words("config resetstat");
        client.words("blpop nothing 0.01");
        client.words("bzpopmin nothing 0.01");
        client.words("xread block 10 streams nothing $");
        let mut others: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        let ids: Vec<i64> = others.iter_mut().map(|other| other.words("client id").integer()).collect();
        for (other, (id, how)) in others.iter_mut().zip(ids.iter().zip(["", "timeout", "error"])) {
            other.send(b"blpop nothing 0\r\n");
            // It waits when it can be woken.
            while client.words(&format!("client unblock {id} {how}")).integer() == 0 {}
            other.read();
        }
        (section(client, "commandstats"), section(client, "errorstats"))
    });
    for (commands, errors) in lines {
        let is_wait = |line: &&String| line.starts_with("cmdstat_b") || line.starts_with("cmdstat_x");
        assert_eq!(
            commands.iter().filter(is_wait).collect::<Vec<_>>(),
            [
                "cmdstat_blpop:calls=4,rejected_calls=0,failed_calls=3",
                "cmdstat_bzpopmin:calls=1,rejected_calls=0,failed_calls=0",
                "cmdstat_xread:calls=1,rejected_calls=0,failed_calls=0"
            ]
        );
        assert!(errors.contains(&"errorstat_UNBLOCKED:count=1".to_owned()), "{errors:?}");
    }
}

#[test]
fn percentiles_are_numbers_from_0_to_100() {
    let servers = servers("observed-percentiles");
    for value in ["10.0 50.0 a", "10 101", "-1", "0.0 50.0 100.0", "", "99.999 33.3333333333", "nan", "1e1"] {
        assert_same(&servers, |client| {
            let set =
                client.call(&[b"config", b"set", b"latency-tracking-info-percentiles", value.as_bytes()]);
            (set, client.words("config get latency-tracking-info-percentiles"))
        });
    }
}

#[test]
fn latencies_of_slow_commands_are_watched() {
    let server = esker("observed-latency");
    let mut client = server.connect();
    client.words("config set latency-monitor-threshold 1");
    let slow: &[u8] = b"local x = 0 for i = 1, 20000000 do x = x + i end return x";
    client.call(&[b"eval", slow, b"0"]);
    let latest = client.words("latency latest").array();
    let names: Vec<Vec<u8>> = latest.iter().map(|event| event.clone().array()[0].clone().bulk()).collect();
    assert!(names.contains(&b"command".to_vec()), "{latest:?}");
    assert_eq!(client.words("latency history command").array().len(), 1);
    assert!(text(client.words("latency graph command")).starts_with("command - high "));
    assert!(text(client.words("latency doctor")).contains("command: "));
    assert!(client.words("latency reset command nosuch").integer() == 1);
    assert!(client.words("latency history command").array().is_empty());
    client.words("config set latency-monitor-threshold 0");
    let servers = servers("observed-latency-errors");
    for request in
        ["latency history nosuch", "latency graph nosuch", "latency reset", "latency latest", "latency help"]
    {
        assert_same(&servers, |client| client.words(request));
    }
}

/// Lines of MONITOR without times and ports, until one that contains this.
fn monitored(monitor: &mut Client, until: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let Value::Status(line) = monitor.read() else { panic!("a line") };
        let line = String::from_utf8(line).expect("text");
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.len() == 17 && time.as_bytes()[10] == b'.', "{line}");
        let (place, rest) = rest.split_once("] ").expect("a place");
        let place = place.split(':').next().unwrap_or_default();
        lines.push(format!("{place} {rest}"));
        if line.contains(until) {
            return lines;
        }
    }
}

#[test]
fn monitors_see_what_redis_shows() {
    let mut shown: Vec<Vec<String>> = Vec::new();
    for server in servers("observed-monitor") {
        let (mut monitor, mut client) = (server.connect(), server.connect());
        assert_eq!(monitor.words("monitor"), Value::Status(b"OK".to_vec()));
        client.words("select 3");
        client.call(&[b"set", b"k\"\\\n\x01", b"\xff"]);
        for request in
            ["nosuch", "get", "config get maxclients", "auth secret", "multi", "incr n", "get n", "exec"]
        {
            client.words(request);
        }
        client.call(&[b"eval", b"redis.call('set','a','b') return redis.call('get','a')", b"1", b"a"]);
        client.words("discard");
        client.words("hello 3 auth default secret");
        client.words("echo end");
        shown.push(monitored(&mut monitor, "end"));
        let error = monitor.words("get a");
        assert_eq!(error.error(), Some(&b"ERR Replica can't interact with the keyspace"[..]));
        let list = text(client.words("client list"));
        assert!(list.contains("flags=O"), "{list}");
        // RESET ends it. Its own line comes before its reply.
        monitored_reset(&mut monitor);
        client.words("echo unseen");
        assert_eq!(monitor.words("ping"), Value::Status(b"PONG".to_vec()));
    }
    let ours = shown.pop().expect("a server");
    shown.iter().for_each(|theirs| assert_eq!(theirs, &ours));
    assert!(ours.iter().any(|line| line.starts_with("[3 lua \"set\"")), "{ours:?}");
}

/// Sends RESET and reads up to its reply.
fn monitored_reset(monitor: &mut Client) {
    monitor.send(b"reset\r\n");
    while monitor.read() != Value::Status(b"RESET".to_vec()) {}
}
