//! Blocked clients under load: every element is popped once, also when clients give up or are killed.

#![allow(clippy::disallowed_methods, reason = "threads and times of the tests' own")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_server::server::AppendFsync;
use esker_redis_testkit::{Client, ExpectKind, Random};
use esker_resp::value::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More than the machine has cores, so that threads also meet where they are interrupted.
const IO_THREADS: usize = 4;
const PUSHERS: usize = 4;
const POPPERS: usize = 16;
/// Keys are few, so that pushers and waiting clients meet.
const KEYS: [&str; 3] = ["a", "b", "c"];
/// Elements that are pushed at least, because fewer show nothing, and how long that may take.
const ENOUGH: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

/// What the threads of a test share.
#[derive(Default)]
struct Shared {
    pushed: AtomicUsize,
    /// Elements as they were popped, which must differ.
    popped: Mutex<Vec<Vec<u8>>>,
    pushing_has_ended: AtomicBool,
    /// Whether poppers are killed, whose replies may be under way.
    kills: bool,
}

impl Shared {
    /// Whether a second has passed since `began`, and enough is pushed.
    fn is_over(&self, began: Instant) -> bool {
        let took = began.elapsed();
        let is_enough = self.pushed.load(Ordering::Relaxed) >= ENOUGH;
        took >= PATIENCE || took >= Duration::from_secs(1) && is_enough
    }
}

fn push(client: &mut Client, name: usize, began: Instant, shared: &Shared, random: &mut Random) {
    let mut number = 0;
    while !shared.is_over(began) {
        let key = random.choose(&KEYS);
        let mut element = || {
            number += 1;
            format!("{name}-{number}")
        };
        let (first, second) = (element(), element());
        match random.below(4) {
            0 => client.words(&format!("LPUSH {key} {first} {second}")),
            1 => client.words(&format!(
                "EVAL return(redis.call('rpush',KEYS[1],ARGV[1],ARGV[2])) 1 {key} {first} {second}"
            )),
            2 => {
                client.words("MULTI");
                client.words(&format!("RPUSH {key} {first}"));
                client.words(&format!("RPUSH {key}{key} {second}"));
                client.words(&format!("RENAME {key}{key} {key}{name}{number}"));
                client.words(&format!("LMOVE {key}{name}{number} {key} LEFT RIGHT"));
                client.words("EXEC")
            }
            _ => client.words(&format!("RPUSH {key} {second} {first}")),
        };
        shared.pushed.fetch_add(2, Ordering::Relaxed);
        if random.below(8) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The elements of a reply to one of the requests of [`pop`].
fn elements(reply: Value) -> Vec<Vec<u8>> {
    match reply {
        Value::Bulk(element) => vec![element],
        Value::Array(parts) => {
            let mut parts = parts.into_iter().skip(1);
            match parts.next() {
                Some(Value::Array(elements)) => elements.into_iter().map(|element| element.bulk()).collect(),
                Some(Value::Bulk(element)) => vec![element],
                other => panic!("{other:?}"),
            }
        }
        Value::NullBulk | Value::NullArray | Value::Null => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn pop(address: &str, shared: &Shared, random: &mut Random) {
    let mut client = Client::connect(address);
    let mut idle = 0;
    while idle < 3 {
        let request = *random.pick(&[
            "BLPOP a b c 0.05",
            "BRPOP c a b 0.01",
            "BLMPOP 0.05 3 b c a LEFT COUNT 3",
            "BLMOVE a moved LEFT RIGHT 0.02",
            "BRPOPLPUSH b moved 0.02",
            "BLPOP moved 0.02",
        ]);
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        if client.try_send(&esker_redis_testkit::encode(&words)).is_err() {
            client = Client::connect(address);
            continue;
        }
        let Ok(reply) = client.try_read() else {
            assert!(shared.kills, "the connection of a client has ended");
            client = Client::connect(address);
            continue;
        };
        let found = elements(reply);
        idle =
            if found.is_empty() && shared.pushing_has_ended.load(Ordering::Relaxed) { idle + 1 } else { 0 };
        if !request.contains("moved") || request.starts_with("BLPOP") {
            shared.popped.lock().expect("no panic").extend(found);
        }
    }
}

/// Ends waits, and clients if those are to be killed, in the middle of things.
fn disturb(address: &str, began: Instant, shared: &Shared, random: &mut Random) -> usize {
    let mut client = Client::connect(address);
    let mut killed = 0;
    while !shared.is_over(began) {
        let list = client.words("CLIENT LIST");
        let text = match list {
            Value::Verbatim { text, .. } | Value::Bulk(text) => text,
            other => panic!("{other:?}"),
        };
        let text = String::from_utf8(text).expect("text");
        let waiting: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("flags=b"))
            .filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
            .collect();
        if waiting.is_empty() {
            continue;
        }
        let id = random.pick(&waiting);
        match random.below(8) {
            0 if shared.kills => {
                killed += client.words(&format!("CLIENT KILL ID {id}")).integer() as usize;
            }
            _ => drop(client.words(&format!("CLIENT UNBLOCK {id}"))),
        }
    }
    killed
}

/// Runs pushers and poppers, and returns how many elements were pushed, popped and left.
fn run(name: &str, fsync: AppendFsync, kills: bool) {
    let server = TestServer::new(name);
    server.server().set_append_fsync(fsync);
    let shared = Shared { kills, ..Shared::default() };
    let began = Instant::now();
    while_served(&server, IO_THREADS, |address| {
        let killed = std::thread::scope(|scope| {
            let shared = &shared;
            let poppers: Vec<_> = (0..POPPERS)
                .map(|seed| scope.spawn(move || pop(address, shared, &mut Random::new(seed as u64))))
                .collect();
            let disturber = scope.spawn(move || disturb(address, began, shared, &mut Random::new(99)));
            let pushers: Vec<_> = (0..PUSHERS)
                .map(|name| {
                    let random = Random::new(1000 + name as u64);
                    scope.spawn(move || {
                        push(&mut Client::connect(address), name, began, shared, &mut { random });
                    })
                })
                .collect();
            pushers.into_iter().for_each(|thread| thread.join().expect("a pusher"));
            let killed = disturber.join().expect("the disturber");
            shared.pushing_has_ended.store(true, Ordering::Relaxed);
            poppers.into_iter().for_each(|thread| thread.join().expect("a popper"));
            killed
        });
        let mut client = Client::connect(address);
        let mut popped = shared.popped.lock().expect("no panic").clone();
        for key in KEYS.iter().chain(&["moved"]) {
            popped.extend(client.words(&format!("LRANGE {key} 0 -1")).array().into_iter().map(|v| v.bulk()));
        }
        let (pushed, count) = (shared.pushed.load(Ordering::Relaxed), popped.len());
        let different: BTreeSet<Vec<u8>> = popped.into_iter().collect();
        assert_eq!(different.len(), count, "an element was popped twice");
        // A client that is killed may have been served before, and not have got the reply: three elements.
        let lost = pushed - count;
        assert!(lost <= 3 * killed, "{lost} of {pushed} elements are lost, and {killed} clients were killed");
        assert!(pushed >= ENOUGH, "{pushed} elements are too few to show anything");
        let blocked = client.words("INFO clients").bulk();
        let blocked = String::from_utf8(blocked).expect("text");
        assert!(blocked.contains("blocked_clients:0"), "{blocked}");
    });
}

#[test]
fn each_element_is_popped_once() {
    run("waiting-stress", AppendFsync::EverySecond, false);
}

#[test]
fn each_element_is_popped_once_when_replies_wait_for_the_device() {
    run("waiting-stress-always", AppendFsync::Always, false);
}

#[test]
fn killed_clients_duplicate_nothing() {
    run("waiting-stress-kills", AppendFsync::EverySecond, true);
}

/// The machine may be busy: a sleep and a PING beside each wait show how much. The middle ones tell.
#[test]
fn waits_end_within_fifty_milliseconds_of_their_time() {
    let server = TestServer::new("waiting-times");
    while_served(&server, IO_THREADS, |address| {
        let mut client = Client::connect(address);
        let (mut late, mut plainly_late) = (Vec::new(), Vec::new());
        for wait in [1, 5, 20, 60].into_iter().flat_map(|wait| [Duration::from_millis(wait); 5]) {
            let begun = Instant::now();
            client.words(&format!("BLPOP nothing {}", wait.as_secs_f64()));
            let took = begun.elapsed();
            assert!(took + Duration::from_millis(2) >= wait, "{took:?} for {wait:?}");
            late.push(took.saturating_sub(wait));
            let begun = Instant::now();
            std::thread::sleep(wait);
            client.words("PING");
            plainly_late.push(begun.elapsed().saturating_sub(wait));
        }
        late.sort_unstable();
        plainly_late.sort_unstable();
        let bound = Duration::from_millis(50) + 3 * plainly_late[plainly_late.len() / 2];
        assert!(late[late.len() / 2] < bound, "{late:?}, and a sleep and a PING {plainly_late:?}");
    });
}
