//! Clients at once, by sockets and several I/O threads: nothing is seen half done, and counts are exact.
//!
//! `ESKER_SECONDS` sets how long each test runs; one second is the default.

#![allow(clippy::disallowed_methods, reason = "threads and times of the tests' own")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind, Random, encode};
use esker_resp::value::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More than the machine has cores, so that threads also meet where they are interrupted.
const IO_THREADS: usize = 4;

/// Commands that one client has under way at once, where commands are counted.
const PIPELINE: usize = 16;

/// Rounds of a loop without which a test shows nothing, and the time in which a busy machine gets to them.
const ROUNDS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

fn seconds() -> Duration {
    let seconds = std::env::var("ESKER_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.0))
}

/// Ends the other threads of a test, also when one of them panics.
#[derive(Default)]
struct End(AtomicBool);

impl End {
    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct EndOnDrop<'e>(&'e End);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A loop of one thread, with a connection of its own.
type Loop<'a> = Box<dyn FnMut(&mut Client) + Send + 'a>;

/// Repeats each of these on a connection of its own until the time is up and each had its turns, and returns
/// how often.
fn repeat(address: &str, loops: Vec<Loop<'_>>) -> Vec<usize> {
    let (end, began, seconds) = (End::default(), Instant::now(), seconds());
    let counts: Vec<AtomicUsize> = loops.iter().map(|_| AtomicUsize::new(0)).collect();
    let counted = || counts.iter().map(|count| count.load(Ordering::Relaxed));
    let goes_on = || {
        let took = began.elapsed();
        took < seconds || took < seconds + PATIENCE && counted().any(|count| count < ROUNDS)
    };
    std::thread::scope(|scope| {
        for (mut body, count) in loops.into_iter().zip(&counts) {
            let (end, goes_on) = (&end, &goes_on);
            scope.spawn(move || {
                let _end = EndOnDrop(end);
                let mut client = Client::connect(address);
                while !end.has_come() && goes_on() {
                    body(&mut client);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    counted().collect()
}

fn loop_of<'a>(body: impl FnMut(&mut Client) + Send + 'a) -> Loop<'a> {
    Box::new(body)
}

/// Sends commands of words together and returns their replies.
fn pipeline(client: &mut Client, commands: &[&str]) -> Vec<Value> {
    for command in commands {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        client.send(&encode(&words));
    }
    commands.iter().map(|_| client.read()).collect()
}

/// That the counts of the server are those of its keys, and its data are whole.
fn assert_whole(server: &TestServer, address: &str) {
    let mut client = Client::connect(address);
    for db in 0..3 {
        client.words(&format!("SELECT {db}"));
        // Keys that have expired count until they are deleted.
        let mut counts = (0, 0);
        let is_equal = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let keys = client.words("KEYS *").array().len() as i64;
            counts = (keys, client.words("DBSIZE").integer());
            counts.0 == counts.1
        });
        assert!(is_equal, "keys of database {db}, and what DBSIZE says: {counts:?}");
    }
    assert_eq!(server.server().store().check().expect("a check"), [""; 0]);
}

#[test]
fn a_key_that_is_renamed_or_copied_over_is_never_absent() {
    let server = TestServer::new("concurrent-rename");
    while_served(&server, IO_THREADS, |address| {
        let mut client = Client::connect(address);
        client.words("SET a value");
        client.words("RPUSH list 1 2 3");
        let members: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
        client.words(&format!("SADD permanent {}", members.join(" ")));
        client.words("SADD few x y");
        client.words("SUNIONSTORE union few permanent");
        let counts = repeat(
            address,
            vec![
                loop_of(|client| drop(pipeline(client, &["RENAME a b", "RENAME b a"]))),
                loop_of(|client| drop(pipeline(client, &["RENAME list list2", "RENAME list2 list"]))),
                loop_of(|client| {
                    pipeline(client, &["SUNIONSTORE union few permanent", "COPY permanent union REPLACE"]);
                }),
                loop_of(|client| {
                    assert_eq!(client.words("EXISTS a b").integer(), 1);
                    let found = client.words("MGET a b").array();
                    assert_eq!(found.iter().filter(|value| matches!(value, Value::Bulk(_))).count(), 1);
                }),
                loop_of(|client| assert_eq!(client.words("EXISTS list list2").integer(), 1)),
                loop_of(|client| {
                    assert_eq!(client.words("SISMEMBER union m7").integer(), 1);
                    assert!(matches!(client.words("SCARD union").integer(), 300 | 302));
                    assert!(matches!(client.words("SMEMBERS union").array().len(), 300 | 302));
                }),
            ],
        );
        assert!(counts.iter().all(|count| *count >= ROUNDS), "each had its turns: {counts:?}");
        assert_whole(&server, address);
    });
}

#[test]
fn databases_are_exchanged_at_one_moment() {
    let server = TestServer::new("concurrent-swap");
    while_served(&server, IO_THREADS, |address| {
        let mut client = Client::connect(address);
        pipeline(&mut client, &["MSET k first other first", "SELECT 1", "MSET k second other second"]);
        let counts = repeat(
            address,
            vec![
                loop_of(|client| drop(client.words("SWAPDB 0 1"))),
                loop_of(|client| {
                    let found = client.words("MGET k other").array();
                    assert!(found[0] == found[1] && found[0] != Value::NullBulk, "{found:?}");
                }),
                loop_of(|client| {
                    let replies =
                        pipeline(client, &["MULTI", "GET k", "SELECT 1", "GET k", "SELECT 0", "EXEC"]);
                    let found = replies[5].clone().array();
                    let (here, there) = (found[0].clone().bulk(), found[2].clone().bulk());
                    assert!(here != there, "{found:?}");
                }),
            ],
        );
        assert!(counts.iter().all(|count| *count >= ROUNDS), "each had its turns: {counts:?}");
        assert_whole(&server, address);
    });
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    let server = TestServer::new("concurrent-exec");
    while_served(&server, IO_THREADS, |address| {
        let fields: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
        let set_all = |number: usize| {
            let pairs: Vec<String> = fields.iter().map(|field| format!("{field} {number}")).collect();
            [
                "MULTI".to_owned(),
                format!("SET x {number}"),
                format!("HSET h {}", pairs.join(" ")),
                format!("SET y {number}"),
                "EXEC".to_owned(),
            ]
        };
        let send_all = |client: &mut Client, number: usize| {
            let commands = set_all(number);
            let replies = pipeline(client, &commands.each_ref().map(String::as_str));
            assert_eq!(replies[4].clone().array().len(), 3);
        };
        send_all(&mut Client::connect(address), 0);
        let (mut odd, mut even) = (1, 2);
        let script = "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}";
        let counts = repeat(
            address,
            vec![
                loop_of(|client| {
                    send_all(client, odd);
                    odd += 2;
                }),
                loop_of(|client| {
                    send_all(client, even);
                    even += 2;
                }),
                loop_of(|client| {
                    let found = client.words("MGET x y").array();
                    assert_eq!(found[0], found[1]);
                }),
                loop_of(|client| {
                    let values = client.words("HVALS h").array();
                    assert!(values.len() == 200 && values.iter().all(|value| *value == values[0]));
                }),
                loop_of(|client| {
                    let replies = pipeline(client, &["MULTI", "GET y", "HGET h f7", "GET x", "EXEC"]);
                    let found = replies[4].clone().array();
                    assert!(found[0] == found[1] && found[1] == found[2], "{found:?}");
                }),
                loop_of(|client| {
                    let found = client.call_with(&["EVAL", script, "2", "x", "y"]).array();
                    assert_eq!(found[0], found[1]);
                }),
            ],
        );
        assert!(counts.iter().all(|count| *count >= ROUNDS), "each had its turns: {counts:?}");
        assert_whole(&server, address);
    });
}

#[test]
fn fifty_clients_count_exactly() {
    let server = TestServer::new("concurrent-counts");
    while_served(&server, IO_THREADS, |address| {
        let script = "return redis.call('INCR', KEYS[1])";
        let undeclared = "return redis.call('INCR', 'undeclared')";
        let loops = (0..50).map(|number| {
            loop_of(move |client: &mut Client| {
                for _ in 0..PIPELINE {
                    client.send(&encode(&[b"INCR", b"counter"]));
                    client.send(&encode(&[b"HINCRBY", b"hash", b"field", b"1"]));
                    client.send(&encode(&[b"ZINCRBY", b"zset", b"1", b"member"]));
                    client.send(&encode(&[b"LPUSH", b"list", b"element"]));
                    client.send(&encode(&[b"INCR", format!("of:{number}").as_bytes()]));
                }
                for _ in 0..PIPELINE * 5 {
                    assert!(client.read().error().is_none());
                }
                client.call_with(&["EVAL", script, "1", "by script"]);
                client.call_with(&["EVAL", undeclared, "0"]);
                // Only one of those that watch the same value may add to it.
                loop {
                    client.words("WATCH optimistic");
                    let found = client.words("GET optimistic");
                    let value = if let Value::Bulk(bytes) = found { number_of(&bytes) } else { 0 };
                    let set = format!("SET optimistic {}", value + 1);
                    if !matches!(pipeline(client, &["MULTI", &set, "EXEC"])[2], Value::NullArray) {
                        break;
                    }
                }
            })
        });
        let counts = repeat(address, loops.collect());
        let rounds: usize = counts.iter().sum();
        let mut client = Client::connect(address);
        let mut value = |command: &str| match client.words(command) {
            Value::Bulk(bytes) => number_of(&bytes),
            other => other.integer() as usize,
        };
        assert_eq!(value("GET counter"), rounds * PIPELINE);
        assert_eq!(value("HGET hash field"), rounds * PIPELINE);
        assert_eq!(value("ZSCORE zset member"), rounds * PIPELINE);
        assert_eq!(value("LLEN list"), rounds * PIPELINE);
        assert_eq!(value("GET undeclared"), rounds);
        assert_eq!(value("GET optimistic"), rounds);
        let of_each: usize = (0..50).map(|number| value(&format!("GET of:{number}"))).sum();
        assert_eq!(of_each, rounds * PIPELINE);
        let by_script = client.call_with(&["GET", "by script"]).bulk();
        assert_eq!(number_of(&by_script), rounds);
        assert_whole(&server, address);
    });
}

fn number_of(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// A command of random keys, few enough that clients meet.
fn any_command(random: &mut Random) -> String {
    let (key, other) = (format!("k{}", random.below(40)), format!("k{}", random.below(40)));
    let number = random.below(300);
    match random.below(24) {
        0..4 => format!("SET {key} {number}"),
        4 => format!("SET {key} {number} PX {}", 1 + number % 20),
        5 => format!("DEL {key} {other}"),
        6 => format!("RENAME {key} {other}"),
        7 => format!("COPY {key} {other} REPLACE"),
        8 => format!("PEXPIRE {key} {}", 1 + number % 20),
        9 => format!("HSET {key} f{number} {number}"),
        10 => format!("SADD {key} {number}"),
        11 => format!("SPOP {key}"),
        12 => format!("ZADD {key} {number} m{number}"),
        13 => format!("ZPOPMIN {key}"),
        14 => format!("RPUSH {key} {number}"),
        15 => format!("LPOP {key} 3"),
        16 => format!("MOVE {key} {}", random.below(3)),
        17 => format!("SELECT {}", random.below(3)),
        18 if random.once_in(20) => "FLUSHDB".to_owned(),
        19 if random.once_in(5) => "SWAPDB 0 1".to_owned(),
        20 => format!("SUNIONSTORE {key} {other} k{}", number % 40),
        21 => format!("XADD {key} * f {number}"),
        22 => format!("LMOVE {key} {other} LEFT RIGHT"),
        _ => format!("APPEND {key} {number}"),
    }
}

#[test]
fn random_commands_of_many_clients_leave_exact_counts() {
    let server = TestServer::new("concurrent-random");
    while_served(&server, IO_THREADS, |address| {
        let loops = (0..8).map(|number| {
            let mut random = Random::of(number);
            loop_of(move |client: &mut Client| {
                let mut commands: Vec<String> = (0..PIPELINE).map(|_| any_command(&mut random)).collect();
                if random.once_in(3) {
                    commands.insert(0, "MULTI".to_owned());
                    commands.push("EXEC".to_owned());
                }
                let words: Vec<&str> = commands.iter().map(String::as_str).collect();
                pipeline(client, &words);
            })
        });
        repeat(address, loops.collect());
        assert_whole(&server, address);
    });
}
