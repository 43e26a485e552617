//! Requests about the connection and the server: transactions, subscriptions, parameters, users.

use super::creation::creations;
use crate::differential::pools::{element, key};
use crate::differential::request::{Request, arguments, words};
use crate::random::Random;

/// MULTI, some commands, EXEC or DISCARD.
pub(super) fn transactions(random: &mut Random) -> Vec<Request> {
    let mut requests = vec![words("MULTI")];
    for _ in 0..random.below(5) {
        requests.extend(match random.below(8) {
            0 => vec![arguments(&["GET"], &[key(random, "list")])],
            1 => vec![arguments(&["NOSUCH"], &[element(random)])],
            2 => vec![words("GET")],
            3 => vec![arguments(&["INCR"], &[key(random, "string")])],
            4 => vec![arguments(&["LRANGE"], &[key(random, "list"), b"0".to_vec(), b"-1".to_vec()])],
            5 => vec![words(random.choose(&[
                "MULTI",
                "WATCH string1",
                "DBSIZE",
                "PING",
                "SELECT 0",
                "SUBSCRIBE",
            ]))],
            _ => creations(random),
        });
    }
    requests.push(words(random.choose(&["EXEC", "EXEC", "EXEC", "DISCARD", "exec now"])));
    // In case that it was not executed.
    requests.push(words("DISCARD"));
    requests
}

/// WATCH with a change of the key or without one.
pub(super) fn watches(random: &mut Random) -> Vec<Request> {
    let watched = key(random, "string");
    let mut requests = vec![arguments(&["WATCH"], &[watched.clone(), key(random, "list")])];
    if random.once_in(2) {
        requests.push(arguments(
            &[random.choose(&["APPEND", "SET", "EXPIRE"])],
            &[watched, b"100000000".to_vec()],
        ));
    }
    if random.once_in(5) {
        requests.push(words("UNWATCH"));
    }
    requests.extend([words("MULTI"), words("GET string1"), words("EXEC"), words("UNWATCH")]);
    requests
}

/// Subscriptions, what may be sent beside them, and their end.
pub(super) fn subscriptions(random: &mut Random) -> Vec<Request> {
    let mut requests = vec![
        words(random.choose(&[
            "SUBSCRIBE c1 c2",
            "PSUBSCRIBE c*",
            "SSUBSCRIBE s1",
            "SUBSCRIBE c1 c1",
            "SUBSCRIBE",
        ])),
        words(random.choose(&[
            "PING",
            "PING x",
            "GET string1",
            "PUBSUB NUMSUB c1",
            "PUBSUB CHANNELS",
            "PUBSUB NUMPAT",
        ])),
        words(random.choose(&[
            "PUBLISH c1 m",
            "SPUBLISH s1 m",
            "PSUBSCRIBE c? [d]",
            "PUBSUB SHARDCHANNELS",
            "MULTI",
        ])),
        words(random.choose(&[
            "UNSUBSCRIBE c1",
            "UNSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE s1",
            "UNSUBSCRIBE x y",
        ])),
    ];
    requests.extend(["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "DISCARD"].map(words));
    requests
}

/// Parameters that change encodings, set and set back.
pub(super) fn settings(random: &mut Random) -> Vec<Request> {
    let (name, small, usual) = *random.pick(&[
        ("hash-max-listpack-entries", "3", "128"),
        ("hash-max-listpack-value", "5", "64"),
        ("set-max-intset-entries", "3", "512"),
        ("zset-max-listpack-entries", "3", "128"),
        ("zset-max-listpack-value", "5", "64"),
        ("hll-sparse-max-bytes", "100", "3000"),
        ("nosuch", "1", "2"),
        ("hash-max-ziplist-entries", "2", "128"),
        ("slowlog-max-len", "-1", "128"),
        ("slowlog-log-slower-than", "a", "10000"),
        ("proto-max-bulk-len", "1000", "1mb"),
    ]);
    let mut requests = vec![words(&format!("CONFIG SET {name} {small}"))];
    requests.extend(creations(random));
    requests.extend([words(&format!("CONFIG SET {name} {usual}")), words(&format!("CONFIG GET {name}"))]);
    requests
}

/// Users that are made, tried and removed.
pub(super) fn users(random: &mut Random) -> Vec<Request> {
    let rules = *random.pick(&[
        "on >p ~a* +@read",
        "on nopass ~* &* +@all -@dangerous",
        "off ~k (+get ~b*)",
        "reset +nosuch",
        "%R~a %W~b +get",
        "+@nosuch",
        "on #zz",
        "on >p1 >p2 <p1 resetchannels &c*",
        "+config|get -config|set",
        "allkeys allcommands",
    ]);
    let tried = *random.pick(&[
        "GET a",
        "SET a b",
        "GET k",
        "CONFIG GET x",
        "CONFIG SET x y",
        "NOSUCH",
        "PUBLISH c1 m",
    ]);
    vec![
        words(&format!("ACL SETUSER u1 {rules}")),
        words("ACL GETUSER u1"),
        words("ACL LIST"),
        words(&format!("ACL DRYRUN u1 {tried}")),
        words(random.choose(&[
            "ACL USERS",
            "ACL WHOAMI",
            "ACL CAT nosuch",
            "ACL GETUSER none",
            "ACL SETUSER u2",
            "ACL LOAD",
        ])),
        words("ACL DELUSER u1 u2 u3"),
    ]
}

const SESSIONS: [&str; 74] = [
    "CLIENT SETNAME name",
    "CLIENT GETNAME",
    "CLIENT SETNAME a\\ b",
    "HELLO 9",
    "HELLO a",
    "HELLO",
    "AUTH x",
    "AUTH default x",
    "AUTH a b c",
    "HELLO 3 AUTH a b",
    "HELLO 2 SETNAME",
    "CLIENT UNBLOCK 999999",
    "CLIENT NOSUCH",
    "CLIENT KILL 1.1.1.1:1",
    "CLIENT KILL ID 99999999",
    "CLIENT KILL ID a",
    "CLIENT TRACKING off",
    "CLIENT CACHING yes",
    "CLIENT GETREDIR",
    "CLIENT PAUSE a",
    "CLIENT REPLY x",
    "CLIENT LIST TYPE x",
    "ECHO x",
    "PING x y",
    "PING hello",
    "SELECT 99",
    "SELECT a",
    "SWAPDB 0 1",
    "SWAPDB 0 a",
    "SWAPDB 0 99",
    "COMMAND COUNT",
    "NOSUCH a b",
    "nosuch \"\"",
    "GET",
    "REPLICAOF NO ONE",
    "RESET",
    "QUITX",
    "OBJECT",
    "OBJECT NOSUCH",
    "OBJECT FREQ string1",
    "XGROUP",
    "CONFIG",
    "SCRIPT KILL",
    "FUNCTION KILL",
    "SCRIPT EXISTS",
    "SCRIPT FLUSH BAD",
    "FLUSHALL BAD",
    "FLUSHALL ASYNC",
    "FLUSHDB SYNC",
    "CLUSTER INFO",
    "READONLY",
    "ASKING",
    "READWRITE",
    "DEBUG",
    "MEMORY USAGE absent",
    "MEMORY NOSUCH",
    "LATENCY RESET",
    "SLOWLOG RESET",
    "SLOWLOG GET -5",
    "SLOWLOG GET a",
    "WAIT 0 1",
    "WAIT a 1",
    "WAIT 0 -1",
    "LATENCY LATEST",
    "LATENCY HISTORY none",
    "ROLE",
    "LOLWUT VERSION 1",
    "SHUTDOWN BAD",
    "FAILOVER ABORT",
    "MODULE LIST",
    "PFDEBUG ENCODING hll1",
    "PFDEBUG GETREG absent",
    "PFDEBUG NOSUCH hll1",
    "MIGRATE h 1 k 0 0 BAD",
];

/// The state of the connection.
pub(super) fn sessions(random: &mut Random) -> Vec<Request> {
    let text = *random.pick(&SESSIONS);
    let mut requests = vec![words(text)];
    if text == "RESET" {
        requests.push(words("CLIENT GETNAME"));
    }
    requests
}
