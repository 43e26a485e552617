//! CLIENT PAUSE beside Redis 7.0.15: which commands it holds back, what they do afterwards, and expiry.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets; clients wait")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind, Server, encode};
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Steps of clients, which have letters as names, and words in which `~` stands for a space.
/// `A: words` sends a request and reads the reply; `A! words` sends one that waits, and goes on when the
/// server says that one client more waits; `A; words` only sends; `A?` reads a reply; `A-` finds none.
const SCENARIOS: &[(&str, &[&str])] = &[
    (
        "writes wait, and reads do not",
        &[
            "D: SET k v",
            "D: CLIENT PAUSE 100000 WRITE",
            "A! SET k w",
            "B! DEL other",
            "C: GET k",
            "C: PING",
            "C: SET k",
            "C: TTL k",
            "C: SUBSCRIBE x",
            "D: CLIENT PAUSE 1 write",
            "A-",
            "D: CLIENT UNPAUSE",
            "A?",
            "B?",
            "D: CLIENT UNPAUSE",
            "D: EXISTS k",
        ],
    ),
    (
        "what Redis would send to replicas waits as well",
        &[
            // No answer depends on which of the clients goes on first.
            "D: CLIENT PAUSE 100000 WRITE",
            "A! PFCOUNT h",
            "B! PUBLISH c m",
            "C! SPUBLISH c m",
            "E! FUNCTION FLUSH",
            "F! FLUSHALL",
            "G! EVAL return(1) 0",
            "H! EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
            "I! FCALL f 0",
            "J! BLPOP k 0.01",
            "K! XREADGROUP GROUP g c STREAMS k >",
            "D: CLIENT UNPAUSE",
            "A?",
            "B?",
            "C?",
            "E?",
            "F?",
            "G?",
            "H?",
            "I?",
            "J?",
            "K?",
        ],
    ),
    (
        "scripts and functions wait by the flags that they declare",
        &[
            "D: FUNCTION LOAD REPLACE #!lua~name=l\nredis.register_function{function_name='r',callback=function()return(1)end,flags={'no-writes'}}redis.register_function('w',function()return(2)end)",
            "D: CLIENT PAUSE 100000 WRITE",
            "A: EVAL #!lua~flags=no-writes\nreturn(1) 0",
            "A: EVAL #!lua~flags=no-writes\nreturn(1) 0",
            "A: EVAL_RO return(2) 0",
            "A: EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8de 0",
            "A: FCALL r 0",
            "A: FCALL_RO r 0",
            "A! EVAL #!lua\nreturn(3) 0",
            "B! EVAL_RO #!lua\nreturn(4) 0",
            "C! FCALL w 0",
            "D: CLIENT UNPAUSE",
            "A?",
            "B?",
            "C?",
            "D: FUNCTION DELETE l",
        ],
    ),
    (
        "transactions wait if one of their commands does",
        &[
            "A: MULTI",
            "A: SET k v",
            "B: MULTI",
            "B: GET k",
            "B: PING",
            "C: MULTI",
            "E: MULTI",
            "E: EVAL #!lua~flags=no-writes\nreturn(5) 0",
            "F: MULTI",
            "F: EVAL return(6) 0",
            "D: CLIENT PAUSE 100000 WRITE",
            "A! EXEC",
            "B: EXEC",
            "E: EXEC",
            "F! EXEC",
            "C! SET k w",
            "D: EXEC",
            "D: CLIENT UNPAUSE",
            "A?",
            "F?",
            "C?",
            "C: EXEC",
            "D: GET k",
        ],
    ),
    (
        "a pause within a transaction begins at its end",
        &[
            "A: MULTI",
            "A: SET a 1",
            "A: CLIENT PAUSE 100000 WRITE",
            "A: SET b 2",
            "A: EXEC",
            "B! SET a 3",
            "A: MGET a b",
            "A: CLIENT UNPAUSE",
            "B?",
        ],
    ),
    (
        "commands of a pipeline stay in order",
        &[
            "D: CLIENT PAUSE 100000 WRITE",
            "A; GET k",
            "A! SET k 1",
            "A; GET k",
            "A; APPEND k 2",
            "A; GET k",
            "A?",
            "A-",
            "D: CLIENT UNPAUSE",
            "A?",
            "A?",
            "A?",
            "A?",
        ],
    ),
    (
        "all commands wait, but those of monitors",
        &[
            "M: MONITOR",
            "D: CLIENT PAUSE 100000",
            "A; GET k",
            "B; PING",
            "D; CLIENT UNPAUSE",
            "C; MULTI",
            "A-",
            "B-",
            "C-",
            "D-",
            "M; CLIENT UNPAUSE",
            "A?",
            "B?",
            "C?",
            "D?",
        ],
    ),
    (
        "a pause ends by its time, and the more restrictive one holds until the later end",
        &[
            "D: CLIENT PAUSE 60 WRITE",
            "A: SET k 1",
            "D: CLIENT PAUSE 60 ALL",
            "A: GET k",
            "D: CLIENT PAUSE 100000 WRITE",
            "M: MONITOR",
            "D: CLIENT PAUSE 0 ALL",
            "A; GET k",
            "A-",
            "M; CLIENT UNPAUSE",
            "A?",
            "D: CLIENT PAUSE 0",
            "A: SET k 2",
        ],
    ),
    (
        "arguments",
        &[
            "A: CLIENT PAUSE",
            "A: CLIENT PAUSE x",
            "A: CLIENT PAUSE -1",
            "A: CLIENT PAUSE 1.5",
            "A: CLIENT PAUSE 1 READ",
            "A: CLIENT PAUSE x READ",
            "A: CLIENT PAUSE 1 WRITE x",
            "A: CLIENT UNPAUSE x",
            "A: CLIENT UNPAUSE",
        ],
    ),
];

/// Clients of a scenario, by their letters.
struct Scene<'a> {
    address: &'a str,
    clients: BTreeMap<char, Client>,
    watcher: Client,
    transcript: Vec<String>,
}

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> usize {
    let text = String::from_utf8(client.words(&format!("INFO {section}")).bulk()).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("it is told").parse().expect("a number")
}

/// Waits until so many clients wait.
fn await_blocked(watcher: &mut Client, count: usize, of: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while info(watcher, "clients", "blocked_clients") != count {
        assert!(Instant::now() < until, "{count} clients wait: {of}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Scene<'_> {
    fn step(&mut self, step: &str) {
        let name = step.chars().next().expect("a name");
        let (kind, words) = step[1..].split_at(1);
        let words: Vec<String> = words.split(' ').skip(1).map(|word| word.replace('~', " ")).collect();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let before = if kind == "!" { info(&mut self.watcher, "clients", "blocked_clients") } else { 0 };
        let client = self.clients.entry(name).or_insert_with(|| Client::connect(self.address));
        if !words.is_empty() {
            client.send(&encode(&words));
        }
        match kind {
            ":" | "?" => {
                client.read();
                self.transcript.push(format!("{step} -> {}", client.raw().escape_ascii()));
            }
            "!" => await_blocked(&mut self.watcher, before + 1, step),
            "-" => {
                client.set_patience(Duration::from_millis(20));
                assert!(client.try_read().is_err(), "{step} after {:?}", self.transcript);
                client.set_patience(Duration::from_secs(60));
            }
            ";" => {}
            _ => panic!("{step}"),
        }
    }
}

fn play(address: &str, steps: &[&str]) -> Vec<String> {
    let watcher = Client::connect(address);
    let mut scene = Scene { address, clients: BTreeMap::new(), watcher, transcript: Vec::new() };
    scene.watcher.words("FLUSHALL");
    scene.watcher.words("SCRIPT FLUSH");
    steps.iter().for_each(|step| scene.step(step));
    scene.clients.clear();
    await_blocked(&mut scene.watcher, 0, "the end");
    scene.transcript
}

#[test]
fn commands_are_held_back_as_by_redis() {
    let server = TestServer::new("pause-scenes");
    while_served(&server, 3, |address| {
        let Some(redis) = Server::redis(&[]) else { return };
        for (name, steps) in SCENARIOS {
            assert_eq!(play(address, steps), play(redis.address(), steps), "{name}");
        }
    });
}

/// Keys that expire during a pause are gone for readers, and deleted after it.
fn expire_during_a_pause(address: &str) -> Vec<String> {
    let mut transcript = Vec::new();
    let mut client = Client::connect(address);
    let expired_before = info(&mut client, "stats", "expired_keys");
    for words in ["MULTI", "SET a 1 PX 10", "SET b 2 PX 10", "CLIENT PAUSE 100000 WRITE", "EXEC"] {
        client.words(words);
    }
    let until = Instant::now() + Duration::from_secs(10);
    while client.words("EXISTS a b").integer() > 0 {
        assert!(Instant::now() < until, "the keys expire");
    }
    // Longer than the intervals of active expiry.
    std::thread::sleep(Duration::from_millis(150));
    for words in ["GET a", "TTL b", "TYPE a", "DBSIZE", "KEYS *"] {
        client.words(words);
        transcript.push(format!("{words} -> {}", client.raw().escape_ascii()));
    }
    let expired = info(&mut client, "stats", "expired_keys") - expired_before;
    transcript.push(format!("expired {expired}"));
    client.words("CLIENT UNPAUSE");
    client.words("GET a");
    client.words("GET b");
    let expired = info(&mut client, "stats", "expired_keys") - expired_before;
    transcript.push(format!("expired {expired}, left {}", client.words("DBSIZE").integer()));
    transcript
}

#[test]
fn nothing_expires_during_a_pause() {
    let server = TestServer::new("pause-expiry");
    while_served(&server, 2, |address| {
        let ours = expire_during_a_pause(address);
        assert!(ours.contains(&"expired 2, left 0".to_owned()), "{ours:?}");
        let Some(redis) = Server::redis(&[]) else { return };
        assert_eq!(ours, expire_during_a_pause(redis.address()));
    });
}

#[test]
fn once_a_pause_is_answered_nothing_is_written() {
    let server = TestServer::new("pause-writers");
    let is_over = AtomicBool::new(false);
    while_served(&server, 2, |address| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut writer = Client::connect(address);
                    let mut pipeline = b"INCR n\r\nMULTI\r\nINCR n\r\nEXEC\r\n".to_vec();
                    pipeline.extend(encode(&[b"EVAL", b"return redis.call('incr','n')", b"0"]));
                    while !is_over.load(Ordering::Relaxed) {
                        writer.send(&pipeline);
                        (0..5).for_each(|_| drop(writer.read()));
                    }
                });
            }
            let mut admin = Client::connect(address);
            for round in 0..100 {
                admin.words("CLIENT PAUSE 100000 WRITE");
                let first = admin.words("GET n");
                (0..20).for_each(|_| assert_eq!(admin.words("GET n"), first, "round {round}"));
                admin.words("CLIENT UNPAUSE");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_client_that_leaves_during_a_pause_has_written_nothing() {
    let server = TestServer::new("pause-leave");
    while_served(&server, 2, |address| {
        let (mut admin, mut writer, mut other) =
            (Client::connect(address), Client::connect(address), Client::connect(address));
        let writer_id = writer.words("CLIENT ID").integer();
        admin.words("CLIENT PAUSE 100000 WRITE");
        writer.send(b"SET a 1\r\n");
        other.send(b"SET b 1\r\n");
        await_blocked(&mut admin, 2, "both wait");
        assert_eq!(admin.words(&format!("CLIENT UNBLOCK {writer_id}")).integer(), 0);
        let line =
            String::from_utf8(admin.words(&format!("CLIENT LIST ID {writer_id}")).bulk()).expect("text");
        assert!(line.contains(" flags=b ") && line.contains(" cmd=set "), "{line}");
        drop(writer);
        await_blocked(&mut admin, 1, "one has left");
        let id = other.stream().local_addr().expect("connected");
        admin.words(&format!("CLIENT KILL {id}"));
        await_blocked(&mut admin, 0, "the other is killed");
        admin.words("CLIENT UNPAUSE");
        assert_eq!(admin.words("EXISTS a b").integer(), 0);
    });
}

/// Ends a connection when the test fails: a thread that writes to it would wait for ever.
struct EndOnDrop(TcpStream);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.shutdown(Shutdown::Both).ok();
    }
}

#[test]
fn a_client_that_waits_for_a_pause_is_read_up_to_a_limit() {
    const REQUESTS: usize = 100_000;
    let server = TestServer::new("pause-input");
    while_served(&server, 2, |address| {
        let (mut admin, mut writer) = (Client::connect(address), Client::connect(address));
        admin.words("CLIENT PAUSE 100000 WRITE");
        let copy = || writer.stream().try_clone().expect("a descriptor");
        let (stream, end) = (copy(), EndOnDrop(copy()));
        std::thread::scope(|scope| {
            let _end = end;
            scope.spawn(move || {
                use std::io::Write;
                let request = [&b"SET k "[..], &[b'x'; 1000], b"\r\n"].concat();
                (0..REQUESTS).for_each(|_| (&stream).write_all(&request).expect("it is read in the end"));
            });
            await_blocked(&mut admin, 1, "the writer waits");
            let mut received = || info(&mut admin, "clients", "client_recent_max_input_buffer");
            let until = Instant::now() + Duration::from_secs(60);
            while received() < 64 << 10 {
                assert!(Instant::now() < until, "{} bytes are received", received());
                std::thread::sleep(Duration::from_millis(1));
            }
            // A server without a limit would read on.
            std::thread::sleep(Duration::from_millis(100));
            let received = received();
            assert!(received <= 256 << 10, "{received} bytes are received");
            admin.words("CLIENT UNPAUSE");
            (0..REQUESTS).for_each(|_| drop(writer.read()));
        });
    });
}

#[test]
fn a_transaction_that_fills_a_list_and_pauses_serves_clients_after_the_pause() {
    let server = TestServer::new("pause-woken");
    while_served(&server, 2, |address| {
        let (mut admin, mut waiter) = (Client::connect(address), Client::connect(address));
        waiter.send(b"BLPOP k 0\r\n");
        await_blocked(&mut admin, 1, "it waits");
        for words in ["MULTI", "RPUSH k 1", "CLIENT PAUSE 100000 WRITE", "EXEC"] {
            admin.words(words);
        }
        waiter.set_patience(Duration::from_millis(50));
        assert!(waiter.try_read().is_err());
        assert_eq!(admin.words("LLEN k").integer(), 1);
        admin.words("CLIENT UNPAUSE");
        waiter.set_patience(Duration::from_secs(60));
        assert_eq!(waiter.read().array().len(), 2);
    });
}

#[test]
fn a_server_stops_during_a_pause_and_gives_up_what_waits() {
    let server = TestServer::new("pause-stop");
    while_served(&server, 2, |address| {
        let (mut admin, mut writer) = (Client::connect(address), Client::connect(address));
        admin.words("CLIENT PAUSE 100000 WRITE");
        writer.send(b"GET k\r\nSET k 1\r\n");
        await_blocked(&mut admin, 1, "it waits");
        admin.send(b"SHUTDOWN NOSAVE\r\n");
        assert_eq!(writer.read_to_end(), b"$-1\r\n");
    });
    let mut local = server.client();
    assert_eq!(local.request(&["GET", "k"]), b"$-1\r\n");
    assert_eq!(local.request(&["CLIENT", "UNPAUSE"]), b"+OK\r\n");
    assert_eq!(local.request(&["SET", "k", "1"]), b"+OK\r\n");
}
