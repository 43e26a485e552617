//! Blocked clients beside Redis 7.0.15: which of them is served, in which order and with which reply.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets; clients wait")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind, Server, encode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Steps of clients, which have letters as names:
/// `A: words` sends a request and reads the reply; `A! words` sends a request that waits, and goes on when
/// the server says that one client more waits; `A; words` only sends; `A?` reads a reply; `A-` finds none.
/// `@A` stands for the number of a client.
const SCENARIOS: &[(&str, &[&str])] = &[
    (
        "clients of a list are served in the order in which they came",
        &[
            "A! BLPOP k 0",
            "B! BRPOP k 0",
            "C! BLPOP k 0",
            "D: RPUSH k 1 2 3 4",
            "A?",
            "B?",
            "C?",
            "D: LRANGE k 0 -1",
        ],
    ),
    (
        "a client waits for several keys and is served by the one that is filled first",
        &[
            "A! BLPOP a b c 0",
            "D: RPUSH c 1",
            "A?",
            "D: EXISTS a b c",
            "A! BLPOP a b c 0",
            "D: MULTI",
            "D: RPUSH b 1",
            "D: RPUSH a 2",
            "D: EXEC",
            "A?",
            "D: LRANGE a 0 -1",
        ],
    ),
    (
        "the writer's next command comes after the clients that it serves",
        &["A! BLPOP k 0", "D; RPUSH k 1 2", "D; LLEN k", "D?", "D?", "A?", "D: LLEN k"],
    ),
    (
        "moves form chains",
        &[
            "A! BLMOVE a b LEFT RIGHT 0",
            "B! BLMOVE b c RIGHT LEFT 0",
            "C! BRPOPLPUSH c d 0",
            "D: LPUSH a x",
            "A?",
            "B?",
            "C?",
            "D: LRANGE d 0 -1",
            "D: EXISTS a b c",
        ],
    ),
    (
        "a move to a key of another type is an error and moves nothing",
        &["D: SET b x", "A! BLMOVE a b LEFT RIGHT 0", "B! BLPOP a 0", "D: RPUSH a 1", "A?", "B?"],
    ),
    (
        "a key of another type serves nobody",
        &[
            "A! BLPOP k 0",
            "B! BZPOPMIN k 0",
            "D: SET k 1",
            "A-",
            "D: DEL k",
            "D: ZADD k 1 m 2 n",
            "B?",
            "A-",
            "D: DEL k",
            "D: RPUSH k 1",
            "A?",
        ],
    ),
    (
        "pops of several elements",
        &[
            "A! BLMPOP 0 2 a b LEFT COUNT 2",
            "D: RPUSH b 1 2 3",
            "A?",
            "A! BZMPOP 0 2 y z MAX COUNT 5",
            "D: ZADD z 1 a 2 b",
            "A?",
            "A! BZPOPMAX y z 0",
            "D: ZADD z 1.5 a 2.25 b",
            "A?",
            "A! BZPOPMIN z2 0",
            "D: ZADD z2 inf a",
            "A?",
        ],
    ),
    (
        "a transaction serves after all of it, and what is gone by then serves nobody",
        &[
            "A! BLPOP k 0",
            "D: MULTI",
            "D: RPUSH k 1",
            "D: LPOP k",
            "D: EXEC",
            "A-",
            "D: MULTI",
            "D: RPUSH k a b",
            "D: DEL k",
            "D: RPUSH k c",
            "D: EXEC",
            "A?",
        ],
    ),
    (
        "in a transaction nothing waits",
        &[
            "D: MULTI",
            "D: BLPOP k 0",
            "D: BLMOVE k l LEFT LEFT 0",
            "D: BRPOPLPUSH k l 0",
            "D: BZPOPMIN k 0",
            "D: BLMPOP 0 1 k LEFT",
            "D: XREAD BLOCK 0 STREAMS k $",
            "D: EXEC",
        ],
    ),
    (
        "scripts serve after all of them, and do not wait",
        &[
            "A! BLPOP k 0",
            "D: EVAL redis.call('rpush',KEYS[1],1);return(redis.call('llen',KEYS[1])) 1 k",
            "A?",
            "D: EVAL return(redis.call('blpop',KEYS[1],0)) 1 k",
        ],
    ),
    (
        "every way to fill a key serves: RENAME, COPY, MOVE, RESTORE, SORT, SWAPDB",
        &[
            "A! BLPOP k 0",
            "D: RPUSH l 1",
            "D: RENAME l k",
            "A?",
            "A! BLPOP k 0",
            "D: RPUSH l 2",
            "D: COPY l k",
            "A?",
            "A! BLPOP k 0",
            "D: SORT l STORE k",
            "A?",
            "A! BLPOP k 0",
            "D: SELECT 1",
            "D: RPUSH k 3",
            "D: MOVE k 0",
            "A?",
            "D: SELECT 0",
            "A! BLPOP k 0",
            "D: SELECT 1",
            "D: RPUSH k 4 5",
            "D: SWAPDB 0 1",
            "A?",
            "D: DBSIZE",
            "A! BZPOPMIN g 0",
            "D: SELECT 0",
            "D: GEOADD g 1 1 x",
            "A?",
            "A! BZPOPMIN u 0",
            "D: ZADD v 1 m",
            "D: ZUNIONSTORE u 1 v",
            "A?",
            "A! BLPOP w 0",
            "D: LMOVE w l LEFT LEFT",
            "A-",
            "D: LINSERT w BEFORE x y",
            "D: RPUSHX w 1",
            "A-",
            "D: LPUSH w last",
            "A?",
        ],
    ),
    (
        "times and their errors",
        &[
            "A: BLPOP k 0.01",
            "A: BRPOP k l 0.001",
            "A: BLMOVE k l LEFT LEFT 0.01",
            "A: BRPOPLPUSH k l 0.01",
            "A: BZPOPMIN k 0.01",
            "A: BLMPOP 0.01 1 k LEFT",
            "A: BZMPOP 0.01 1 k MIN",
            "A: XREAD BLOCK 10 STREAMS k $",
            "A: BLPOP k -1",
            "A: BLPOP k x",
            "A: BLPOP k nan",
            "A: BLPOP k 1e300",
            "A: BLPOP k 1e400",
            "A: BLPOP k -1e400",
            "A: BLPOP k 1e5000",
            "A: BLPOP k 1e-400",
            "A: BLPOP k inf",
            "A: BLPOP k 9223372036854776",
            "A: BLMPOP -0.1 1 k LEFT",
            "A: BZMPOP x 1 k MIN",
            "A: BLMOVE k l LEFT LEFT -1",
            "A: XREAD BLOCK -1 STREAMS k $",
            "A: XREAD BLOCK 1.5 STREAMS k $",
            "A: PING",
        ],
    ),
    (
        "commands behind a wait are executed after it, also when the time is up",
        &[
            "A! BLPOP k 0",
            "A; PING",
            "A; RPUSH q 1",
            "D: RPUSH k 1",
            "A?",
            "A?",
            "A?",
            "A; BLPOP k 0.02",
            "A; PING",
            "A?",
            "A?",
        ],
    ),
    (
        "CLIENT UNBLOCK ends a wait once",
        &[
            "A! BLPOP k 0",
            "D: CLIENT UNBLOCK @A",
            "A?",
            "D: CLIENT UNBLOCK @A",
            "A! BLMOVE k l LEFT LEFT 0",
            "D: CLIENT UNBLOCK @A ERROR",
            "A?",
            "A! XREAD BLOCK 0 STREAMS s $",
            "D: CLIENT UNBLOCK @A timeout",
            "A?",
            "A! BZMPOP 0 1 k MIN",
            "D: CLIENT UNBLOCK @A x",
            "D: CLIENT UNBLOCK x",
            "D: CLIENT UNBLOCK -5",
            "D: CLIENT UNBLOCK 99999",
            "D: CLIENT UNBLOCK @D",
            "D: CLIENT UNBLOCK @A ERROR",
            "A?",
            "D: RPUSH k 1",
            "D: LLEN k",
        ],
    ),
    (
        "a client that was killed or has left is not served",
        &["A! BLPOP k 0", "B! BLPOP k 0", "D: CLIENT KILL ID @A", "D: RPUSH k 1 2", "B?", "D: LRANGE k 0 -1"],
    ),
    (
        "readers of a stream get what is new since they wait",
        &[
            "D: XADD s 1-1 f v",
            "A! XREAD BLOCK 0 STREAMS s $",
            "B! XREAD COUNT 1 BLOCK 0 STREAMS s t 1-1 0",
            "D: XADD s 2-1 f w",
            "A?",
            "B?",
            "A! XREAD BLOCK 0 STREAMS s t $ $",
            "D: XADD t 1-1 a b",
            "A?",
            "A! XREAD BLOCK 0 STREAMS s $",
            "D: DEL s",
            "D: SET s x",
            "A-",
            "D: DEL s",
            "D: XADD s 1-5 f v",
            "A-",
            "D: XADD s 9-9 f v",
            "A?",
        ],
    ),
    (
        "readers of a group share what is new, and learn that their group or stream is gone",
        &[
            "D: XGROUP CREATE s g $ MKSTREAM",
            "A! XREADGROUP GROUP g a COUNT 1 BLOCK 0 STREAMS s >",
            "B! XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
            "D: MULTI",
            "D: XADD s 1-1 f v",
            "D: XADD s 1-2 f w",
            "D: EXEC",
            "A?",
            "B?",
            "D: XLEN s",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: XGROUP DESTROY s g",
            "A?",
            "D: XGROUP CREATE s g $",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: DEL s",
            "A?",
            "D: XGROUP CREATE s g $ MKSTREAM",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: SET s x",
            "A?",
            "D: DEL s",
            "D: XGROUP CREATE s g $ MKSTREAM",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: FLUSHALL",
            "A?",
            "D: XGROUP CREATE s g $ MKSTREAM",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: RENAME s t",
            "A?",
            "D: XGROUP CREATE s g $ MKSTREAM",
            "A! XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
            "D: PEXPIRE s 1",
            "A?",
        ],
    ),
    (
        "replies that are not wanted are left out",
        &["A; CLIENT REPLY SKIP", "A! BLPOP k 0", "D: RPUSH k 1", "A: PING"],
    ),
];

struct Scene<'s> {
    address: &'s str,
    protocol: u8,
    clients: BTreeMap<char, (Client, String)>,
    watcher: Client,
    transcript: Vec<String>,
}

impl Scene<'_> {
    fn client(&mut self, name: char) -> &mut Client {
        let (address, protocol) = (self.address, self.protocol);
        let new = || {
            let mut client = Client::connect(address);
            client.hello(protocol);
            let id = client.words("CLIENT ID").integer().to_string();
            (client, id)
        };
        &mut self.clients.entry(name).or_insert_with(new).0
    }

    fn blocked(&mut self) -> usize {
        let info = self.watcher.words("INFO clients").bulk();
        let info = String::from_utf8(info).expect("text");
        let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
        line.expect("it is told").parse().expect("a number")
    }

    fn wait_for_blocked(&mut self, count: usize) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.blocked() != count {
            assert!(Instant::now() < until, "{count} clients wait: {:?}", self.transcript);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn step(&mut self, step: &str) {
        let name = step.chars().next().expect("a name");
        let (kind, words) = step[1..].split_at(1);
        let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        self.client(name);
        for word in &mut words {
            if let Some(other) = word.strip_prefix('@') {
                let other = other.chars().next().expect("a name");
                self.client(other);
                *word = self.clients[&other].1.clone();
            }
        }
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let before = self.blocked();
        let client = self.client(name);
        if !words.is_empty() {
            client.send(&encode(&words));
        }
        match kind {
            ":" | "?" => {
                client.set_patience(Duration::from_secs(5));
                let read = client.try_read();
                let reply = format!("{step} -> {}", client.raw().escape_ascii());
                assert!(read.is_ok(), "{}: {read:?} for {step} after {:#?}", self.address, self.transcript);
                self.transcript.push(reply);
            }
            "!" => self.wait_for_blocked(before + 1),
            "-" => {
                client.set_patience(Duration::from_millis(20));
                let read = client.try_read();
                client.set_patience(Duration::from_secs(10));
                assert!(read.is_err(), "{step}: {read:?} after {:?}", self.transcript);
            }
            ";" => {}
            _ => panic!("{step}"),
        }
    }
}

fn play(address: &str, protocol: u8, steps: &[&str]) -> Vec<String> {
    let watcher = Client::connect(address);
    let mut scene = Scene { address, protocol, clients: BTreeMap::new(), watcher, transcript: Vec::new() };
    scene.watcher.words("FLUSHALL");
    steps.iter().for_each(|step| scene.step(step));
    let transcript = std::mem::take(&mut scene.transcript);
    scene.clients.clear();
    scene.wait_for_blocked(0);
    transcript
}

#[test]
fn waiting_clients_are_served_as_redis_does() {
    let server = TestServer::new("waiting-scenes");
    while_served(&server, 3, |address| {
        let Some(redis) = Server::redis(&[]) else { return };
        for (name, steps) in SCENARIOS {
            for protocol in [2, 3] {
                let theirs = play(redis.address(), protocol, steps);
                let ours = play(address, protocol, steps);
                assert_eq!(ours, theirs, "{name}, RESP{protocol}");
            }
        }
    });
}
