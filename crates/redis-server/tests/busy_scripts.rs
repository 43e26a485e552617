//! Scripts that run for long, or nest deep, in a server with sockets: it goes on, and they can be ended.

#![allow(clippy::disallowed_methods, reason = "times of the tests' own")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, encode};
use std::time::{Duration, Instant};

const ENDLESS: &str =
    "redis.call('SET', 'a', 'changed') while true do pcall(function() while true do end end) end";
const SCRIPT_IS_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const FUNCTION_IS_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

fn send(client: &mut Client, words: &[&str]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.send(&encode(&words));
}

/// The bytes of a reply.
fn ask(client: &mut Client, words: &[&str]) -> String {
    send(client, words);
    next(client)
}

fn next(client: &mut Client) -> String {
    client.read();
    client.raw().escape_ascii().to_string()
}

/// Asks until this is the reply.
fn ask_until(client: &mut Client, words: &[&str], expected: &str) {
    let started = Instant::now();
    while ask(client, words) != expected {
        assert!(started.elapsed() < Duration::from_secs(60), "{words:?} is never answered {expected}");
        std::thread::yield_now();
    }
}

fn load_library(client: &mut Client) {
    let library = format!("#!lua name=lib\nredis.register_function('endless', function() {ENDLESS} end)");
    assert_eq!(ask(client, &["FUNCTION", "LOAD", &library]), "$3\\r\\nlib\\r\\n");
}

/// How an endless script is begun, and what ends it.
const BEGINNINGS: [(&[&[&str]], &str); 5] = [
    (&[&["EVAL", ENDLESS, "1", "a"]], "SCRIPT"),
    // Under all stripes, because it does not declare its key.
    (&[&["EVAL", ENDLESS, "0"]], "SCRIPT"),
    (&[&["MULTI"], &["SET", "b", "changed"], &["EVAL", ENDLESS, "1", "a"], &["EXEC"]], "SCRIPT"),
    (&[&["FCALL", "endless", "1", "a"]], "FUNCTION"),
    (&[&["MULTI"], &["SET", "b", "changed"], &["FCALL", "endless", "0"], &["EXEC"]], "FUNCTION"),
];

#[test]
fn a_script_is_killed_while_all_other_clients_wait_for_its_keys() {
    let server = TestServer::new("busy-kill");
    while_served(&server, 1, |address| {
        let mut killer = Client::connect(address);
        load_library(&mut killer);
        for (beginning, kind) in BEGINNINGS {
            let mut runaway = Client::connect(address);
            beginning.iter().for_each(|words| send(&mut runaway, words));
            let mut waiting: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
            for (place, client) in waiting.iter_mut().enumerate() {
                match place % 4 {
                    0 => send(client, &["GET", "a"]),
                    1 => send(client, &["EVAL", "return redis.call('GET', 'a')", "0"]),
                    2 => send(client, &["DBSIZE"]),
                    _ => client.send(b"MULTI\r\nGET a\r\nEXEC\r\n"),
                }
            }
            assert_eq!(ask(&mut Client::connect(address), &["PING"]), "+PONG\\r\\n");
            ask_until(&mut killer, &[kind, "KILL"], "+OK\\r\\n");
            let replies: Vec<String> = beginning.iter().map(|_| next(&mut runaway)).collect();
            let last = replies.last().expect("a reply");
            assert!(last.starts_with("-ERR Script killed by user"), "{beginning:?}: {replies:?}");
            for (place, client) in waiting.iter_mut().enumerate() {
                let expected: &[&str] = match place % 4 {
                    0 | 1 => &["$-1\\r\\n"],
                    2 => &[":0\\r\\n"],
                    _ => &["+OK\\r\\n", "+QUEUED\\r\\n", "*1\\r\\n$-1\\r\\n"],
                };
                expected.iter().for_each(|expected| assert_eq!(next(client), *expected, "{beginning:?}"));
            }
            assert_eq!(ask(&mut killer, &["EXISTS", "a", "b"]), ":0\\r\\n", "{beginning:?}");
        }
    });
}

#[test]
fn commands_behind_a_busy_script_are_answered_so_and_all_others_go_on() {
    let server = TestServer::new("busy-reply");
    while_served(&server, 1, |address| {
        let mut other = Client::connect(address);
        load_library(&mut other);
        ask(&mut other, &["CONFIG", "SET", "busy-reply-threshold", "30"]);
        for (beginning, kind) in BEGINNINGS {
            let mut runaway = Client::connect(address);
            beginning.iter().for_each(|words| send(&mut runaway, words));
            let busy = if kind == "SCRIPT" { SCRIPT_IS_BUSY } else { FUNCTION_IS_BUSY };
            let busy_reply = format!("-{busy}\\r\\n");
            ask_until(&mut other, &["GET", "a"], &busy_reply);
            assert_eq!(ask(&mut other, &["SET", "a", "other"]), busy_reply);
            assert_eq!(ask(&mut other, &["EVAL", "return redis.call('GET', 'a')", "0"]), busy_reply);
            other.send(b"MULTI\r\nGET a\r\nEXEC\r\nPING\r\n");
            assert_eq!([next(&mut other), next(&mut other)], ["+OK\\r\\n", "+QUEUED\\r\\n"]);
            assert_eq!(
                next(&mut other),
                format!("-EXECABORT Transaction discarded because of: {busy}\\r\\n")
            );
            assert_eq!(next(&mut other), "+PONG\\r\\n");
            if beginning.iter().any(|words| words.ends_with(&["1", "a"])) {
                // One of them may share the stripe.
                let replies = ["x", "y", "z"].map(|key| ask(&mut other, &["INCR", key]));
                assert!(replies.iter().filter(|reply| reply.starts_with(':')).count() >= 2, "{replies:?}");
            }
            assert_eq!(ask(&mut other, &[kind, "KILL"]), "+OK\\r\\n");
            beginning.iter().for_each(|_| drop(runaway.read()));
            assert_eq!(ask(&mut other, &["DEL", "a"]), ":0\\r\\n");
        }
        // The server stops while a script runs.
        let mut runaway = Client::connect(address);
        send(&mut runaway, &["EVAL", ENDLESS, "1", "a"]);
        ask_until(&mut other, &["GET", "a"], &format!("-{SCRIPT_IS_BUSY}\\r\\n"));
    });
    assert_eq!(server.client().request(&["EXISTS", "a"]), b":0\r\n");
}

/// The deepest that scripts can make the stack of a thread, by each way of nesting.
#[test]
fn the_deepest_scripts_fit_the_stack_of_a_thread() {
    let match_deep = "string.find(string.rep('a', 100000), string.rep('a?', 1990))";
    let callbacks = "local function f(s) string.gsub(s, '.', f) return s end local ok, e = pcall(f, 'x')";
    let scripts = [
        "local t = {} for i = 1, 998 do t = {t} end return cjson.encode(t)".to_owned(),
        "local t = {} for i = 1, 998 do t = {t} end return t".to_owned(),
        "return #cjson.decode(string.rep('[', 999) .. string.rep(']', 999))".to_owned(),
        "return cmsgpack.unpack(string.rep('\\145', 1000000))".to_owned(),
        "local t = {} for i = 1, 100 do t = {t} end return cmsgpack.pack(t)".to_owned(),
        "return {loadstring('return ' .. string.rep('{', 190) .. string.rep('}', 190))}".to_owned(),
        "return {loadstring('return ' .. string.rep('(', 100000))}".to_owned(),
        "local f f = function() return pcall(f) end return tostring(f())".to_owned(),
        "local f f = function() return coroutine.wrap(f)() end return f()".to_owned(),
        "local f f = function(n) return xpcall(f, f) end return tostring(f())".to_owned(),
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x"
            .to_owned(),
        format!("{callbacks} return {match_deep}"),
        // The deepest match and the deepest text within the deepest calls.
        format!(
            "local t = {{}} for i = 1, 990 do t = {{t}} end local n, most = 0, 0
             local function f(s) n = n + 1 pcall({match_deep_call}) pcall(cjson.encode, t)
             pcall(string.gsub, s, '.', f) n = n - 1 return s end
             pcall(f, 'x') return 'deep'",
            match_deep_call = "string.find, string.rep('a', 3000), string.rep('a?', 1990)"
        ),
    ];
    let server = TestServer::new("busy-deep");
    while_served(&server, 1, |address| {
        for script in scripts {
            let mut client = Client::connect(address);
            let eval = encode(&[b"EVAL", script.as_bytes(), b"0"]);
            client.send_all(&[&eval, &b"PING\r\n"[..]].concat());
            // Whatever the first reply is, it is one.
            let replies = client.read_to_end();
            assert!(replies.ends_with(b"\r\n+PONG\r\n") && replies.len() > 8, "{script}");
        }
    });
}
