//! Scripts and functions over the server's transactions, beside redis-server where it can be asked.

#![allow(clippy::disallowed_methods, reason = "threads of a test are clients")]

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::Server;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A request of words that are separated by `|`.
fn ask(client: &mut LocalClient<'_>, request: &str) -> String {
    let words: Vec<&str> = request.split('|').collect();
    String::from_utf8_lossy(&client.request(&words)).into_owned()
}

const LIBRARY: &str = "#!lua name=lib\n\
    redis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)\n\
    redis.register_function{function_name='read', callback=function(keys, args) \
    return redis.call('GET', keys[1]) end, flags={'no-writes'}, description='reads'}\n";

/// Requests whose replies do not depend on the server.
const REQUESTS: &[&str] = &[
    "EVAL|return redis.call('SET', KEYS[1], ARGV[1])|1|a|1",
    "EVAL|return redis.call('GET', 'a')|0",
    "EVAL|return {redis.call('GET', KEYS[1]), redis.call('INCR', KEYS[1]), false, 3.9, 'x'}|1|a",
    "EVAL|return redis.pcall('SADD', KEYS[1], 1)|1|a",
    "EVAL|return redis.call('SADD', KEYS[1], 1)|1|a",
    "EVAL|return redis.call('NOSUCH')|0",
    "EVAL|return redis.call('GET')|0",
    "EVAL|return redis.call('SUBSCRIBE', 'x')|0",
    "EVAL|return redis.call('XREAD', 'BLOCK', '0', 'STREAMS', 's', '$')|0",
    "EVAL|return redis.call('XADD', KEYS[1], '1-1', 'f', 'v')|1|s",
    "EVAL|return redis.call('XRANGE', KEYS[1], '-', '+')|1|s",
    "EVAL|redis.call('SELECT', 3) redis.call('SET', 'x', 3) return redis.call('DBSIZE')|0",
    "GET|x",
    "EVAL|redis.setresp(3) return redis.call('HGETALL', KEYS[1])|1|none",
    "EVAL|return 1|x",
    "EVAL|return 1|2|a",
    "EVAL|return 1|-1",
    "EVAL|return nosuch|0",
    "EVAL|return (|0",
    "EVAL|#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 2)|1|a",
    "EVAL|#!lua flags=nosuch\nreturn 1|0",
    "EVAL_RO|return redis.call('GET', KEYS[1])|1|a",
    "EVAL_RO|return redis.call('SET', KEYS[1], 2)|1|a",
    "EVAL_RO|#!lua\nreturn redis.call('GET', KEYS[1])|1|a",
    "EVAL|return redis.call('PUBLISH', 'c', 'm')|0",
    "EVAL_RO|return redis.call('PUBLISH', 'c', 'm')|0",
    "EVALSHA|ffffffffffffffffffffffffffffffffffffffff|0",
    "EVALSHA|short|0",
    "SCRIPT|LOAD|return 7",
    "EVALSHA|5a3b1ddb30f49f05c6e3b8e1a6ee2e7c8a0b7a6e|0",
    "SCRIPT|EXISTS|e0e1f9fabfc9d4800c877a703b823ac0578ff8db|ffffffffffffffffffffffffffffffffffffffff",
    "SCRIPT|LOAD|return (",
    "SCRIPT|KILL",
    "SCRIPT|FLUSH|x",
    "SCRIPT|FLUSH|sync",
    "SCRIPT|NOSUCH",
    "SCRIPT|HELP",
    "EVAL|local n = redis.call('INCR', 'n') for i = 1, 3 do redis.call('SADD', 'l' .. i, n) end return n|0",
    "EVAL|return {redis.call('SMEMBERS', 'l1'), redis.call('SCARD', 'l3')}|0",
    "EVAL|redis.call('FLUSHALL') redis.call('SET', 'after', 1) return redis.call('DBSIZE')|0",
    "DBSIZE",
    "MULTI",
    "EVAL|return redis.call('SET', 'in', 'multi')|0",
    "GET|in",
    "EXEC",
    "FUNCTION|LIST",
    "FUNCTION|STATS",
    "FUNCTION|LOAD|return 1",
    "FUNCTION|LOAD|#!lua name=lib",
    "FCALL|put|1|f|v",
    "FUNCTION|DELETE|lib",
];

/// The string of a reply.
fn dumped(reply: &[u8]) -> Vec<u8> {
    let at = reply.windows(2).position(|end| end == b"\r\n").expect("a string") + 2;
    reply[at..reply.len() - 2].to_vec()
}

#[test]
fn scripts_answer_as_redis_does() {
    let Some(redis) = Server::redis(&[]) else { return };
    let server = TestServer::new("scripting");
    let (mut ours, mut theirs) = (server.client(), redis.connect());
    let load = format!("FUNCTION|LOAD|{LIBRARY}");
    let replace = format!("FUNCTION|LOAD|REPLACE|{LIBRARY}");
    let more = [
        load.as_str(),
        load.as_str(),
        replace.as_str(),
        "FCALL|put|1|f|v",
        "FCALL|PUT|1|f|v",
        "FCALL|read|1|f",
        "FCALL_RO|read|1|f",
        "FCALL_RO|put|1|f|w",
        "FCALL|read|x|f",
        "FCALL|read|9|f",
        "FCALL|read|-1",
        "FUNCTION|STATS",
        "FUNCTION|LIST|LIBRARYNAME|NO*",
        "FUNCTION|LIST|nosuch",
        "FUNCTION|RESTORE|bad",
        "FUNCTION|FLUSH|x",
        "FUNCTION|KILL",
        "FUNCTION|HELP",
        "FUNCTION|FLUSH",
        "FCALL|read|1|f",
    ];
    let mut differences = Vec::new();
    for protocol in ["2", "3"] {
        ours.request(&["FLUSHALL"]);
        theirs.words("FLUSHALL");
        let hello = ours.request(&["HELLO", protocol]);
        assert!(!hello.starts_with(b"-"));
        theirs.words(&format!("HELLO {protocol}"));
        for request in REQUESTS.iter().chain(&more) {
            let words: Vec<&str> = request.split('|').collect();
            theirs.call_with(&words);
            let (expected, found) = (theirs.raw().escape_ascii(), ours.request(&words));
            let (expected, found) = (expected.to_string(), found.escape_ascii().to_string());
            if found != expected {
                differences.push(format!("{request}\n  found    {found}\n  expected {expected}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // Redis compresses a little better, so the payloads differ; each restores that of the other.
    theirs.words("HELLO 2");
    ours.request(&["HELLO", "2"]);
    ours.request(&["FUNCTION", "LOAD", LIBRARY]);
    let payload = dumped(&ours.request(&["FUNCTION", "DUMP"]));
    theirs.call(&[b"FUNCTION", b"RESTORE", &payload]);
    assert_eq!(theirs.raw(), b"+OK\r\n");
    theirs.words("FUNCTION DUMP");
    let payload = dumped(theirs.raw());
    assert_eq!(ours.request(&[&b"FUNCTION"[..], b"RESTORE", &payload, b"FLUSH"]), b"+OK\r\n");
    assert_eq!(ask(&mut ours, "FCALL|put|1|k|v"), "+OK\r\n");
}

#[test]
fn undeclared_keys_work_and_whatever_the_script_did_before_is_done_once() {
    let server = TestServer::new("scripting-undeclared");
    let mut client = server.client();
    let script = "redis.call('INCR', KEYS[1]) for i = 1, 50 do redis.call('INCR', 'other' .. i) end \
                  return redis.call('GET', KEYS[1])";
    assert_eq!(ask(&mut client, &format!("EVAL|{script}|1|declared")), "$1\r\n1\r\n");
    assert_eq!(ask(&mut client, &format!("EVAL|{script}|1|declared")), "$1\r\n2\r\n");
    assert_eq!(ask(&mut client, "GET|other50"), "$1\r\n2\r\n");
}

#[test]
fn scripts_of_several_threads_are_atomic() {
    let server = TestServer::new("scripting-threads");
    let script = "local a = tonumber(redis.call('GET', KEYS[1]) or 0) local b = tonumber(redis.call('GET', \
                  ARGV[1]) or 0) if a ~= b then return redis.error_reply('ERR torn') end \
                  redis.call('SET', KEYS[1], a + 1) redis.call('SET', ARGV[1], b + 1) return a";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..200 {
                    // One of the keys is declared and the other is not.
                    let reply = ask(&mut client, &format!("EVAL|{script}|1|first|second"));
                    assert!(reply.starts_with(':'), "{reply}");
                }
            });
        }
    });
    let mut client = server.client();
    assert_eq!(ask(&mut client, "GET|first"), "$3\r\n800\r\n");
    assert_eq!(ask(&mut client, "GET|second"), "$3\r\n800\r\n");
}

#[test]
fn a_script_that_is_killed_leaves_nothing() {
    let server = TestServer::new("scripting-kill");
    std::thread::scope(|scope| {
        let runaway = scope.spawn(|| {
            let script =
                "redis.call('SET', KEYS[1], 1) while true do pcall(function() while true do end end) end";
            ask(&mut server.client(), &format!("EVAL|{script}|1|a"))
        });
        let mut other = server.client();
        let started = Instant::now();
        while ask(&mut other, "SCRIPT|KILL") != "+OK\r\n" {
            assert!(started.elapsed() < Duration::from_secs(60), "the script runs");
            std::thread::yield_now();
        }
        let reply = runaway.join().expect("it ends");
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL"), "{reply}");
        assert_eq!(ask(&mut other, "GET|a"), "$-1\r\n");
        assert_eq!(ask(&mut other, "SCRIPT|KILL"), "-NOTBUSY No scripts in execution right now.\r\n");
    });
}

#[test]
fn libraries_are_there_after_a_restart_and_go_through_a_dump() {
    let server = TestServer::new("scripting-libraries");
    let mut client = server.client();
    assert_eq!(ask(&mut client, &format!("FUNCTION|LOAD|{LIBRARY}")), "$3\r\nlib\r\n");
    drop(client);
    let server = server.reopened();
    let mut client = server.client();
    assert_eq!(ask(&mut client, "FCALL|put|1|k|v"), "+OK\r\n");
    let payload = dumped(&client.request(&["FUNCTION", "DUMP"]));
    assert_eq!(ask(&mut client, "FUNCTION|DELETE|lib"), "+OK\r\n");
    assert_eq!(ask(&mut client, "FCALL|put|1|k|v"), "-ERR Function not found\r\n");
    assert_eq!(client.request(&[b"FUNCTION", &b"RESTORE"[..], &payload]), b"+OK\r\n");
    assert_eq!(ask(&mut client, "FCALL_RO|read|1|k"), "$1\r\nv\r\n");
    let again = client.request(&[b"FUNCTION", &b"RESTORE"[..], &payload]);
    assert_eq!(String::from_utf8_lossy(&again), "-ERR Library lib already exists\r\n");
    drop(client);
    let server = server.reopened();
    assert_eq!(ask(&mut server.client(), "FCALL_RO|read|1|k"), "$1\r\nv\r\n");
}

#[test]
fn an_error_of_compilation_repeats_the_bytes_of_the_script() {
    let server = TestServer::new("scripting-bytes");
    let mut client = server.client();
    let reply = client.request(&[&b"EVAL"[..], b"\xff", b"0"]);
    let expected =
        &b"-ERR Error compiling script (new function): user_script:1: unexpected symbol near '\xff'\r\n"[..];
    assert_eq!(reply.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn a_command_gets_as_many_arguments_as_unpack_gives() {
    let server = TestServer::new("scripting-arguments");
    let mut client = server.client();
    let script =
        "local a = {} for i = 1, 7999 do a[i] = 1 end return redis.call('lpush', KEYS[1], unpack(a))";
    assert_eq!(client.request(&["EVAL", script, "1", "l"]), b":7999\r\n");
}

#[test]
fn a_set_that_a_script_sorts_by_nothing_is_ordered() {
    let server = TestServer::new("scripting-sort");
    let mut client = server.client();
    client.request(&["SADD", "s", "c", "aa", "b", "a"]);
    let reply = client.request(&["EVAL", "return redis.call('SORT', KEYS[1], 'BY', '_')", "1", "s"]);
    assert_eq!(reply, b"*4\r\n$1\r\na\r\n$2\r\naa\r\n$1\r\nb\r\n$1\r\nc\r\n");
    assert!(
        String::from_utf8_lossy(&client.request(&["INFO", "memory"])).contains("number_of_cached_scripts:1")
    );
}

/// Keeps level and text of events.
#[derive(Default)]
struct Lines(Mutex<Vec<(Level, String)>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "esker_redis_server::script"
    }

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, _field: &Field, value: &dyn Debug) {
                self.0 = format!("{value:?}");
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().expect("no panic").push((*event.metadata().level(), message.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn lines_of_scripts_reach_the_log_one_by_one_with_their_level() {
    let server = TestServer::new("scripting-log");
    let lines = Arc::new(Lines::default());
    tracing::subscriber::with_default(Arc::clone(&lines), || {
        let script = "redis.log(redis.LOG_DEBUG, 'd') redis.log(redis.LOG_VERBOSE, 'v', 1) \
                      redis.log(redis.LOG_NOTICE, 'caf\u{e9}\\nforged\\27[0m') \
                      redis.log(redis.LOG_WARNING, string.rep('w', 5000))";
        assert_eq!(ask(&mut server.client(), &format!("EVAL|{script}|0")), "$-1\r\n");
        let library = "#!lua name=logs\nredis.log(redis.LOG_NOTICE, 'loads') \
                       redis.register_function('f', function() end)";
        assert_eq!(ask(&mut server.client(), &format!("FUNCTION|LOAD|{library}")), "$4\r\nlogs\r\n");
    });
    let expected = [
        (Level::TRACE, "d".to_owned()),
        (Level::DEBUG, "v 1".to_owned()),
        (Level::INFO, "caf\u{e9}\\nforged\\u{1b}[0m".to_owned()),
        (Level::WARN, "w".repeat(1024)),
        (Level::INFO, "loads".to_owned()),
    ];
    assert_eq!(*lines.0.lock().expect("no panic"), expected);
}

#[test]
fn a_line_of_a_script_that_is_begun_anew_is_logged_once() {
    let server = TestServer::new("scripting-log-once");
    let lines = Arc::new(Lines::default());
    let count = 3_000;
    tracing::subscriber::with_default(Arc::clone(&lines), || {
        let mut client = server.client();
        let log = "redis.log(redis.LOG_NOTICE, 'before') redis.call('get', 'undeclared') redis.log(redis.LOG_NOTICE, 'after')";
        client.request(&["EVAL", log, "0"]);
        client.request(&["MULTI"]);
        client.request(&["EVAL", log, "0"]);
        client.request(&["EXEC"]);
        // More than is held.
        let many = format!(
            "for i = 1, {count} do redis.log(redis.LOG_NOTICE, string.rep('x', 900)) end return redis.call('get', 'undeclared')"
        );
        assert_eq!(client.request(&["EVAL", &many, "0"]), b"$-1\r\n");
    });
    let lines = std::mem::take(&mut *lines.0.lock().expect("no panic"));
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(&texts[..4], ["before", "after", "before", "after"]);
    assert_eq!(texts.len(), 4 + count);
}
