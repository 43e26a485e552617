//! HELP of every command that has it: the lines of Redis 7.0.15, but for the list below.

mod common;

use common::TestServer;
use esker_redis_testkit::Server;
use esker_resp::value::Value;
use std::collections::BTreeSet;

const COMMANDS: [&str; 16] = [
    "acl", "client", "cluster", "command", "config", "debug", "function", "latency", "memory", "module",
    "object", "pubsub", "script", "slowlog", "xgroup", "xinfo",
];

/// What is described otherwise, or not at all, with the reason.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("debug", "CONFIG-REWRITE-FORCE-ALL", "the file has what was set, and no other lines"),
    ("debug", "HTSTATS", "keys lie in a tree"),
    ("debug", "LOADAOF", "what is in memory becomes tables, and is not read again"),
    ("debug", "POPULATE", "there are no replicas and no cluster"),
    ("debug", "RELOAD", "what is in memory becomes tables, and is not read again"),
    ("debug", "SLEEP", "keys are held back; what uses none goes on"),
    ("debug", "STRINGMATCH-TEST", "there is no function in C"),
    ("debug", "STRUCTSIZE", "there are no structures in C"),
];

/// What Redis describes and is left out here, with the reason.
const ABSENT: &[(&str, &str, &str)] = &[
    ("debug", "AOF-FLUSH-SLEEP", "taken without effect"),
    ("debug", "CHANGE-REPL-ID", "taken without effect"),
    ("debug", "DROP-CLUSTER-PACKET-FILTER", "taken without effect"),
    ("debug", "PAUSE-CRON", "taken without effect"),
    ("debug", "QUICKLIST-PACKED-THRESHOLD", "taken without effect"),
    ("debug", "REPLYBUFFER", "taken without effect"),
    ("debug", "SET-SKIP-CHECKSUM-VALIDATION", "checksums are always verified"),
    ("debug", "HTSTATS-KEY", "no value is a table of hashes"),
    ("debug", "ASSERT", "no client makes the server crash"),
    ("debug", "CRASH-AND-RECOVER", "no client makes the server crash"),
    ("debug", "LEAK", "no client makes the server lose memory"),
    ("debug", "OOM", "no client makes the server crash"),
    ("debug", "PANIC", "no client makes the server crash"),
    ("debug", "RESTART", "no client starts the server anew"),
    ("debug", "SEGFAULT", "no client makes the server crash"),
    ("debug", "CLIENT-EVICTION", "no client is evicted"),
    ("debug", "CLUSTERLINK", "there is no cluster"),
    ("debug", "LISTPACK", "values are not stored so"),
    ("debug", "QUICKLIST", "values are not stored so"),
    ("debug", "MALLCTL", "another allocator"),
    ("debug", "MALLCTL-STR", "another allocator"),
    ("debug", "REPLICATE", "there are no replicas"),
];

/// The first word of each subcommand with its lines. A line that is not indented begins one.
fn subcommands(reply: Value) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let lines = match reply {
        Value::Array(lines) => lines,
        other => vec![other],
    };
    for line in lines {
        let line = match line {
            Value::Status(text) | Value::Error(text) => String::from_utf8(text).expect("text"),
            other => panic!("{other:?}"),
        };
        match found.last_mut() {
            Some((_, lines)) if line.starts_with(' ') => lines.push(line),
            _ => found.push((line.split(' ').next().unwrap_or_default().to_owned(), vec![line])),
        }
    }
    found
}

#[test]
fn help_has_the_lines_of_redis() {
    let settings = ["--enable-debug-command", "yes", "--enable-module-command", "yes"];
    let Some(redis) = Server::redis(&settings) else { return };
    let esker = TestServer::new("help")
        .listening(&[("enable-debug-command", "yes"), ("enable-module-command", "yes")]);
    let is_listed = |list: &[(&'static str, &'static str, &str)], command: &str, word: &str| {
        list.iter().any(|(of, name, _)| (*of, *name) == (command, word))
    };
    let mut used = BTreeSet::new();
    for command in COMMANDS {
        let help = |server: &Server| subcommands(server.connect().words(&format!("{command} help")));
        let mut theirs = help(&redis);
        let mut ours = help(&esker);
        theirs.retain(|(word, _)| {
            let is_absent = is_listed(ABSENT, command, word);
            if is_absent {
                used.insert((command, word.clone()));
            }
            !is_absent
        });
        for ((word, lines), (_, their_lines)) in ours.iter_mut().zip(&theirs) {
            if is_listed(OTHERWISE, command, word) && lines != their_lines {
                used.insert((command, word.clone()));
                lines.clone_from(their_lines);
            }
        }
        assert_eq!(ours, theirs, "{command}");
    }
    let listed: BTreeSet<_> =
        OTHERWISE.iter().chain(ABSENT).map(|(command, word, _)| (*command, (*word).to_owned())).collect();
    assert_eq!(used, listed, "the lists name what does not differ");
}
