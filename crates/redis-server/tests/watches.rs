//! WATCH against every kind of writer: EXEC is refused exactly when Redis 7.0.15 refuses it.
//!
//! Each case names what happens between WATCH and EXEC, by another client or by the same one, and whether the
//! transaction must be given up. The same cases run against `redis-server` where it is installed.

#![allow(clippy::disallowed_methods, reason = "expiry takes time")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, Server};
use esker_resp::value::Value;
use std::time::Duration;

/// What is there before each case: `k` is watched, `h`, `l`, `s`, `z` are of other types.
const BEFORE: &[&str] = &[
    "FLUSHALL",
    "SELECT 1",
    "SET k of-1",
    "SELECT 0",
    "SET k 1",
    "SET other 2",
    "SET expiring 1 PX 10000",
    "RPUSH l 2 1",
    "HSET h f 1",
    "SADD s a b",
    "ZADD z 1 a",
    "XADD x 1-1 f v",
];

/// A key to watch, commands of another client, and whether EXEC must be refused.
const CASES: &[(&str, &[&str], bool)] = &[
    ("k", &["SET k 1"], true),
    ("k", &["SET k 2 NX"], false),
    ("k", &["SET other 3"], false),
    ("k", &["GET k"], false),
    ("k", &["GETDEL k"], true),
    ("k", &["GETEX k"], false),
    ("k", &["GETEX k PX 100000"], true),
    ("k", &["APPEND k x"], true),
    ("k", &["SETRANGE k 0 x"], true),
    ("k", &["SETBIT k 1 1"], true),
    ("k", &["BITFIELD k SET u8 0 1"], true),
    ("k", &["BITFIELD k GET u8 0"], false),
    ("k", &["BITOP NOT k other"], true),
    ("k", &["INCRBYFLOAT k 0"], true),
    ("k", &["MSET a 1 k 2"], true),
    ("k", &["MSETNX a 1 k 2"], false),
    ("k", &["DEL k"], true),
    ("k", &["UNLINK k"], true),
    ("k", &["DEL nothing"], false),
    ("nothing", &["DEL nothing"], false),
    ("nothing", &["SET nothing 1"], true),
    ("nothing", &["SET nothing 1", "DEL nothing"], true),
    ("k", &["EXPIRE k 1000"], true),
    ("k", &["EXPIRE nothing 1000"], false),
    ("k", &["EXPIRE k -1"], true),
    ("k", &["PERSIST k"], false),
    ("expiring", &["PERSIST expiring"], true),
    ("k", &["EXPIRE k 1000 XX"], false),
    ("k", &["RENAME other k"], true),
    ("k", &["RENAME k other"], true),
    ("other", &["RENAME k other"], true),
    ("k", &["RENAMENX other k"], false),
    ("k", &["COPY other k"], false),
    ("k", &["COPY other k REPLACE"], true),
    ("k", &["COPY k other REPLACE"], false),
    ("k", &["MOVE k 2"], true),
    ("k", &["MOVE k 1"], false),
    ("k", &["SELECT 1", "SET k 5"], false),
    ("nothing", &["SELECT 1", "SET nothing 5", "MOVE nothing 0"], true),
    ("k", &["FLUSHDB"], true),
    ("k", &["FLUSHALL"], true),
    ("k", &["SELECT 1", "FLUSHDB"], false),
    ("k", &["SWAPDB 0 1"], true),
    ("k", &["SWAPDB 1 0"], true),
    ("k", &["SWAPDB 0 5"], true),
    ("k", &["SWAPDB 1 2"], false),
    ("k", &["MULTI", "SET k 2", "EXEC"], true),
    ("k", &["MULTI", "SET k 2", "DISCARD"], false),
    ("k", &["EVAL redis.call('SET','k','2') 0"], true),
    ("k", &["EVAL redis.call('SET',KEYS[1],'2') 1 k"], true),
    ("k", &["EVAL redis.call('GET','k') 0"], false),
    ("l", &["LPUSH l 3"], true),
    ("l", &["LPUSHX nothing 3"], false),
    ("l", &["LPOP l"], true),
    ("l", &["LTRIM l 0 -1"], true),
    ("l", &["LINSERT l BEFORE nothing 1"], false),
    ("l", &["LREM l 0 nothing"], false),
    ("l", &["LSET l 0 9"], true),
    ("l", &["LMOVE l l2 LEFT LEFT"], true),
    ("l2", &["LMOVE l l2 LEFT LEFT"], true),
    ("l", &["SORT l STORE l"], true),
    ("k", &["SORT l STORE k"], true),
    ("h", &["HSET h f 1"], true),
    ("h", &["HSETNX h f 2"], false),
    ("h", &["HDEL h f"], true),
    ("h", &["HDEL h g"], false),
    ("h", &["HINCRBY h f 0"], true),
    ("s", &["SADD s a"], false),
    ("s", &["SADD s c"], true),
    ("s", &["SREM s c"], false),
    ("s", &["SPOP s"], true),
    ("s", &["SMOVE s s2 a"], true),
    ("s", &["SUNIONSTORE s nothing"], true),
    ("k", &["SINTERSTORE k s"], true),
    ("z", &["ZADD z 1 a"], false),
    ("z", &["ZADD z 2 a"], true),
    ("z", &["ZADD z GT 0 a"], false),
    ("z", &["ZPOPMIN z"], true),
    ("z", &["ZREMRANGEBYSCORE z 5 9"], false),
    ("z", &["ZREMRANGEBYSCORE z 0 9"], true),
    ("z", &["ZRANGESTORE k z 0 -1"], false),
    ("k", &["ZRANGESTORE k z 0 -1"], true),
    ("k", &["GEOADD k 1 1 m"], false),
    ("z", &["GEOADD z 1 1 m"], true),
    ("x", &["XADD x 2-1 f v"], true),
    ("x", &["XDEL x 9-9"], false),
    ("x", &["XDEL x 1-1"], true),
    ("x", &["XTRIM x MAXLEN 0"], true),
    ("x", &["XGROUP CREATE x g 0"], false),
    ("k", &["PFADD hll a"], false),
    ("k", &["PFMERGE k hll"], false),
    ("k", &["OBJECT ENCODING k"], false),
];

/// Whether EXEC was refused.
fn is_given_up(watcher: &mut Client, key: &str, other: impl FnOnce()) -> bool {
    let watched = watcher.words(&format!("WATCH {key}"));
    assert_eq!(watched, Value::Status(b"OK".to_vec()));
    other();
    is_exec_refused(watcher)
}

fn is_exec_refused(watcher: &mut Client) -> bool {
    watcher.words("MULTI");
    watcher.words("PING");
    let is_refused = watcher.words("EXEC") == Value::NullArray;
    watcher.words("UNWATCH");
    is_refused
}

fn run_all(client: &mut Client, commands: &[&str]) {
    for command in commands {
        client.words(command);
    }
}

/// The cases in which a server decides otherwise than is wanted.
fn differences(address: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (key, commands, wanted) in CASES {
        for by_itself in [false, true] {
            let (mut watcher, mut other) = (Client::connect(address), Client::connect(address));
            run_all(&mut other, BEFORE);
            // What a client changes itself counts as well, as long as it has no MULTI of its own.
            let is_own = by_itself && commands.iter().all(|command| !command.starts_with("MULTI"));
            let given_up = if is_own {
                watcher.words(&format!("WATCH {key}"));
                run_all(&mut watcher, commands);
                is_given_up(&mut watcher, "unused", || ())
            } else {
                is_given_up(&mut watcher, key, || run_all(&mut other, commands))
            };
            if given_up != *wanted {
                found.push(format!("WATCH {key}, then {commands:?}: EXEC refused is {given_up}"));
            }
        }
    }
    found
}

/// Watches a key that expires soon and has not expired yet, whatever else the machine does.
fn watch_expiring(watcher: &mut Client, other: &mut Client) {
    loop {
        other.words("SET soon 1 PX 15");
        watcher.words("WATCH soon");
        if watcher.words("EXISTS soon") == Value::Integer(1) {
            return;
        }
        watcher.words("UNWATCH");
    }
}

/// Expiry between WATCH and EXEC, with and without a command that meets the key.
fn expiry_differences(address: &str) -> Vec<String> {
    let (mut watcher, mut other) = (Client::connect(address), Client::connect(address));
    other.words("FLUSHALL");
    let mut found = Vec::new();
    for (name, commands) in [
        ("expired unmet", &[][..]),
        ("expired and read", &["GET soon"]),
        ("expired and set again", &["SET soon 1"]),
    ] {
        watch_expiring(&mut watcher, &mut other);
        std::thread::sleep(Duration::from_millis(30));
        run_all(&mut other, commands);
        if !is_exec_refused(&mut watcher) {
            found.push(format!("{name}: EXEC was not refused"));
        }
    }
    found
}

#[test]
fn exec_is_refused_after_each_kind_of_change_and_only_then() {
    let server = TestServer::new("watches");
    while_served(&server, 2, |address| {
        let found = [differences(address), expiry_differences(address)].concat();
        assert!(found.is_empty(), "{found:#?}");
    });
}

#[test]
fn redis_refuses_in_the_same_cases() {
    let Some(redis) = Server::redis(&[]) else { return };
    let found = [differences(redis.address()), expiry_differences(redis.address())].concat();
    assert!(found.is_empty(), "{found:#?}");
}
