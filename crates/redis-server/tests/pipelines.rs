//! Pipelines equal the same commands sent one by one: each byte of a reply, and what is stored afterwards.
//!
//! Two servers get the same random commands on few keys, one of them in pipelines whose commands share
//! groups, the other each command alone. So what a group keeps in memory between its commands (records and
//! scores that it looked up ahead, elements that it read ahead) is compared with what is stored.
//! Errors and wrong types stand in the middle of groups; transactions, scripts, expiries, renames and
//! whole databases stand between them. `ESKER_SEED` repeats a failure, `ESKER_PIPELINES` runs longer.

#![allow(clippy::disallowed_methods, reason = "a process of the test's own, and its files")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_server::local_client::LocalClient;
use esker_redis_server::server::Server;
use esker_redis_store::Store;
use esker_redis_testkit::{Client, Random, encode};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const KEYS: [&str; 6] = ["list", "other", "zset", "ranks", "text", "any"];
/// An expiry that no test sees.
const FAR_MS: usize = 4_000_000_000_000;
/// Commands of a pipeline at most, but for those of a burst. A group has 256.
const COMMANDS: usize = 24;

const SCRIPTS: [&str; 5] = [
    // So many that the set counts its members in blocks.
    "for i = 1, 5000 do redis.call('zadd', KEYS[1], i % 97, i) end return redis.call('zcard', KEYS[1])",
    "redis.call('lpush', KEYS[1], ARGV[1]) return redis.call('lpop', KEYS[1])",
    "redis.call('zadd', KEYS[1], 1, ARGV[1]) return redis.call('zadd', KEYS[1], 'CH', 2, ARGV[1], 3, 'b')",
    // What is done before an error stays done.
    "redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[1])",
    "for i = 1, 20 do redis.call('rpush', KEYS[1], i) redis.call('lpop', KEYS[1]) end return KEYS[1]",
];

const DIRECTORY: &str = "ESKER_REDIS_PIPELINES_DIRECTORY";
const SEED: &str = "ESKER_REDIS_PIPELINES_SEED";

type Request = Vec<String>;

fn words(words: &[&str]) -> Request {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Random commands whose replies depend on nothing but what came before them.
struct Commands(Random);

impl Commands {
    fn pipeline(&mut self) -> Vec<Request> {
        let mut pipeline = Vec::new();
        for _ in 0..1 + self.0.below(3) {
            match self.0.below(8) {
                0..3 => self.burst(&mut pipeline),
                3 => self.transaction(&mut pipeline),
                _ => pipeline.extend((0..1 + self.0.below(COMMANDS)).map(|_| self.command())),
            }
        }
        pipeline
    }

    /// Commands of one kind on one key, as benchmarks and queues send them.
    fn burst(&mut self, pipeline: &mut Vec<Request>) {
        let (kind, key) = (self.0.below(8), self.key());
        let count = if self.0.once_in(6) { 300 } else { 1 + self.0.below(40) };
        for _ in 0..count {
            let (value, member, score) = (self.value(), self.member(), self.score());
            pipeline.push(match kind {
                0 => words(&["LPUSH", key, &value]),
                1 => words(&["RPUSH", key, &value]),
                2 | 3 => words(&["LPOP", key]),
                4 => words(&["RPOP", key]),
                5 => words(&["ZADD", key, &score, &member]),
                6 => words(&["ZPOPMIN", key]),
                _ => words(&["MSET", key, &value, self.key(), &member, self.key(), &value]),
            });
            if self.0.once_in(20) {
                pipeline.push(self.command());
            }
        }
    }

    fn transaction(&mut self, pipeline: &mut Vec<Request>) {
        pipeline.push(words(&["MULTI"]));
        pipeline.extend((0..self.0.below(12)).map(|_| self.command()));
        pipeline.push(words(&[if self.0.once_in(6) { "DISCARD" } else { "EXEC" }]));
    }

    fn key(&mut self) -> &'static str {
        self.0.choose(&KEYS)
    }

    fn value(&mut self) -> String {
        let length = match self.0.below(200) {
            0 => 20_000,
            1..10 => 600,
            _ => 12,
        };
        format!("{:01$}", self.0.below(30), 1 + self.0.below(length))
    }

    /// Few enough that they are there again and again; some are longer than keys that lie in place.
    fn member(&mut self) -> String {
        let number = self.0.below(400);
        if self.0.once_in(10) { format!("{number:040}") } else { number.to_string() }
    }

    fn score(&mut self) -> String {
        match self.0.below(40) {
            0 => "none".to_owned(),
            1 => "-0".to_owned(),
            2 => "inf".to_owned(),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> String {
        (self.0.below(60) as f64 / 4.0 - 5.0).to_string()
    }

    fn index(&mut self) -> String {
        (self.0.below(40) as i64 - 20).to_string()
    }

    fn command(&mut self) -> Request {
        match self.0.below(10) {
            0..4 => self.of_lists(),
            4..7 => self.of_sorted_sets(),
            7 => self.of_strings(),
            _ => self.of_keys(),
        }
    }

    fn of_lists(&mut self) -> Request {
        let (key, other, value) = (self.key(), self.key(), self.value());
        let (first, last, many) = (self.index(), self.index(), self.0.below(5).to_string());
        let side = |random: &mut Random| if random.once_in(2) { "LEFT" } else { "RIGHT" };
        let (from, to) = (side(&mut self.0), side(&mut self.0));
        match self.0.below(22) {
            0..4 => {
                let push = self.0.choose(&["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]);
                let count = if self.0.once_in(8) { 200 } else { 1 + self.0.below(4) };
                let values = (0..count).map(|_| self.value()).collect::<Vec<_>>();
                [words(&[push, key]), values].concat()
            }
            4 => words(&["LPUSH", key, &value]),
            5..7 => words(&["LPOP", key]),
            7..9 => words(&["RPOP", key]),
            9 => words(&["LPOP", key, &many]),
            10 => words(&["RPOP", key, &many]),
            11 => words(&["LLEN", key]),
            12 => words(&["LRANGE", key, &first, &last]),
            13 => words(&["LINDEX", key, &first]),
            14 => words(&["LSET", key, &first, &value]),
            15 => words(&["LREM", key, &first, &value]),
            16 => words(&["LINSERT", key, if from == "LEFT" { "BEFORE" } else { "AFTER" }, &value, &value]),
            17 => words(&["LTRIM", key, &first, "-2"]),
            18 => words(&["LMOVE", key, other, from, to]),
            19 => words(&["LMOVE", key, key, from, to]),
            20 => words(&["LPOS", key, &value]),
            _ => words(&["LPOP", key, "none"]),
        }
    }

    fn of_sorted_sets(&mut self) -> Request {
        let (key, other, member, score) = (self.key(), self.key(), self.member(), self.score());
        let (first, last, many) = (self.index(), self.index(), self.0.below(5).to_string());
        match self.0.below(18) {
            0..3 => words(&["ZADD", key, &score, &member]),
            3 => {
                let count = if self.0.once_in(8) { 200 } else { 1 + self.0.below(4) };
                let pairs = (0..count).flat_map(|_| [self.number(), self.member()]).collect::<Vec<_>>();
                [words(&["ZADD", key, "CH"]), pairs].concat()
            }
            4 => {
                let option = self.0.choose(&["NX", "XX", "GT", "LT", "INCR", "CH"]);
                words(&["ZADD", key, option, &score, &member])
            }
            5 => words(&["ZINCRBY", key, &score, &member]),
            6 => words(&["ZREM", key, &member, &self.member()]),
            7 => words(&["ZPOPMIN", key]),
            8 => words(&["ZPOPMAX", key]),
            9 => words(&["ZPOPMIN", key, &many]),
            10 => words(&["ZSCORE", key, &member]),
            11 => words(&["ZRANK", key, &member]),
            12 => words(&["ZCARD", key]),
            13 => words(&["ZRANGE", key, &first, &last, "WITHSCORES"]),
            14 => words(&["ZREMRANGEBYRANK", key, &first, &first]),
            15 => words(&["ZREMRANGEBYSCORE", key, &score, "7"]),
            16 => words(&["ZUNIONSTORE", key, "2", key, other]),
            _ => words(&["ZCOUNT", key, "-inf", &score]),
        }
    }

    fn of_strings(&mut self) -> Request {
        let (key, other, value) = (self.key(), self.key(), self.value());
        match self.0.below(13) {
            0..2 => words(&["SET", key, &value]),
            2 => words(&["SET", key, &value, self.0.choose(&["NX", "XX", "GET", "KEEPTTL"])]),
            3 => words(&["SET", key, &value, "PXAT", &(FAR_MS + self.0.below(9)).to_string()]),
            4 => words(&["GET", key]),
            5 => words(&["APPEND", key, &value]),
            6 => words(&["INCR", key]),
            7 => words(&["MSET", key, &value, other, "1", key, "2"]),
            8 => words(&["MSETNX", key, &value, other, &value]),
            9 => words(&["MGET", key, other, key]),
            10 => words(&["SETRANGE", key, "3", &value]),
            11 => words(&["HSET", key, "field", &value]),
            _ => words(&["GETDEL", key]),
        }
    }

    fn of_keys(&mut self) -> Request {
        let (key, other, value) = (self.key(), self.key(), self.value());
        match self.0.below(26) {
            0..3 => words(&["DEL", key]),
            3 => words(&["UNLINK", key, other]),
            4..7 => words(&["RENAME", key, other]),
            7 => words(&["RENAMENX", key, other]),
            8 => words(&["COPY", key, other, "REPLACE"]),
            9..11 => words(&["PEXPIREAT", key, &(FAR_MS + self.0.below(9)).to_string()]),
            11 => words(&["PEXPIREAT", key, "1"]),
            12 => words(&["PERSIST", key]),
            13 => words(&["PEXPIRETIME", key]),
            14 => words(&["TYPE", key]),
            15 => words(&["DUMP", key]),
            16 => words(&["OBJECT", "ENCODING", key]),
            17 => words(&["EXISTS", key, other, key]),
            18 => words(&["DBSIZE"]),
            19..22 => words(&["EVAL", self.0.choose(&SCRIPTS), "1", key, &value]),
            22 => words(&["SELECT", self.0.choose(&["0", "0", "1", "99"])]),
            23 if self.0.once_in(4) => words(&["SWAPDB", "0", "1"]),
            23 => words(&["MOVE", key, "1"]),
            24 if self.0.once_in(6) => words(&["FLUSHDB"]),
            24 => words(&["LPUSH", key]),
            _ => words(&["NONE", key]),
        }
    }
}

fn bytes_of(pipeline: &[Request]) -> Vec<u8> {
    let encoded = pipeline.iter().map(|request| {
        let words: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
        encode(&words)
    });
    encoded.collect::<Vec<_>>().concat()
}

/// DUMP, type and expiry of all keys in both databases, and their numbers.
fn state(server: &Server) -> Vec<String> {
    let mut client = LocalClient::new(server);
    let mut state = Vec::new();
    for db in ["0", "1"] {
        client.request(&["SELECT", db]);
        state.push(client.request(&["DBSIZE"]).escape_ascii().to_string());
        for key in KEYS {
            for command in ["TYPE", "PEXPIRETIME", "DUMP"] {
                let reply = client.request(&[command, key]);
                state.push(format!("{db} {command} {key} {}", reply.escape_ascii()));
            }
        }
    }
    state
}

fn times(default: usize) -> usize {
    std::env::var("ESKER_PIPELINES").ok().and_then(|times| times.parse().ok()).unwrap_or(default)
}

/// Sends random pipelines to one client and their commands one by one to the other.
fn compare(
    commands: &mut Commands,
    pipelines: usize,
    mut whole: impl FnMut(&[Request]) -> Vec<u8>,
    mut one: impl FnMut(&Request) -> Vec<u8>,
) {
    for number in 0..pipelines {
        let pipeline = commands.pipeline();
        let replies = whole(&pipeline);
        let mut rest = &replies[..];
        for (place, request) in pipeline.iter().enumerate() {
            let expected = one(request);
            let reply = &rest[..rest.len().min(expected.len())];
            if *reply != expected {
                let before = pipeline[place.saturating_sub(5)..place].iter().map(|words| words.join(" "));
                panic!(
                    "pipeline {number}, command {place}, {}, behind {:#?}: {} is not {}",
                    request.join(" "),
                    before.collect::<Vec<_>>(),
                    reply.escape_ascii(),
                    expected.escape_ascii()
                );
            }
            rest = &rest[expected.len()..];
        }
        assert!(rest.is_empty(), "pipeline {number}: more replies than commands: {}", rest.escape_ascii());
    }
}

fn assert_same_state(one: &TestServer, other: &TestServer, when: &str) {
    assert_eq!(state(one.server()), state(other.server()), "{when}");
    assert_eq!(one.server().store().check().expect("a check"), [""; 0], "{when}");
}

#[test]
fn pipelines_equal_their_commands_one_by_one() {
    let mut commands = Commands(Random::new(71));
    let mut whole = TestServer::new("pipelines-whole");
    let mut single = TestServer::new("pipelines-single");
    for round in 0..3 {
        {
            let (mut client, mut other) = (whole.client(), single.client());
            compare(
                &mut commands,
                times(150),
                |pipeline| client.pipeline(&bytes_of(pipeline)),
                |request| other.request(request),
            );
        }
        assert_same_state(&whole, &single, &format!("round {round}"));
        whole = whole.reopened();
        assert_same_state(&whole, &single, &format!("round {round}, opened again"));
    }
    single = single.reopened();
    assert_same_state(&whole, &single, "both opened again");
}

/// On a thread that serves other clients too: what is not in memory is executed once more by another.
#[test]
fn pipelines_by_a_socket_equal_their_commands_one_by_one() {
    let mut commands = Commands(Random::new(72));
    let whole = TestServer::new("pipelines-socket");
    let single = TestServer::new("pipelines-socket-single");
    while_served(&whole, 2, |address| {
        let mut other = single.client();
        let mut client = Client::connect(address);
        compare(
            &mut commands,
            times(150),
            |pipeline| {
                client.send(&bytes_of(pipeline));
                let mut replies = Vec::new();
                for _ in pipeline {
                    client.read();
                    replies.extend_from_slice(client.raw());
                }
                replies
            },
            |request| other.request(request),
        );
    });
    assert_same_state(&whole, &single, "at the end");
}

/// The life of a child: it ends by being killed.
fn live(directory: &str, seed: u64) {
    let server = TestServer::at(directory.into());
    let (mut client, mut commands) = (server.client(), Commands(Random::of(seed)));
    while std::io::stdout().write_all(b"done\n").is_ok() {
        client.pipeline(&bytes_of(&commands.pipeline()));
    }
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Starts a child, kills it when it has begun so many pipelines, and returns how many it had begun by then.
fn killed_after(directory: &Path, seed: u64, pipelines: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["a_killed_server_holds_first_commands_of_its_pipelines", "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map(KilledOnDrop)
        .expect("a child");
    let mut begun = 0;
    for line in BufReader::new(child.0.stdout.take().expect("a pipe")).split(b'\n') {
        // The harness has printed the test's name in front of the first line.
        begun += usize::from(line.is_ok_and(|line| line.ends_with(b"done")));
        if begun == pipelines {
            child.0.kill().expect("the child is there");
        }
    }
    assert!(begun >= pipelines, "the child ended before it was killed");
    begun
}

#[test]
fn a_killed_server_holds_first_commands_of_its_pipelines() {
    if let (Ok(directory), Ok(seed)) = (std::env::var(DIRECTORY), std::env::var(SEED)) {
        return live(&directory, seed.parse().expect("a number"));
    }
    let mut random = Random::new(73);
    for kill in 0..times(8) {
        let (seed, pipelines) = (random.next_u64(), 1 + random.below(60));
        let directory = std::env::temp_dir().join(format!("esker-redis-cut-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        let begun = killed_after(&directory, seed, pipelines);
        let opened = TestServer::at(directory);
        let store: &Store = opened.server().store();
        assert_eq!(store.check().expect("a check"), [""; 0], "kill {kill}");
        let found = state(opened.server());
        let expected = TestServer::new("pipelines-cut-expected");
        let (mut client, mut commands) = (expected.client(), Commands(Random::of(seed)));
        for _ in 1..begun {
            commands.pipeline().iter().for_each(|request| drop(client.request(request)));
        }
        let mut under_way = commands.pipeline().into_iter();
        loop {
            let wanted = state(expected.server());
            if found == wanted {
                break;
            }
            let Some(request) = under_way.next() else {
                panic!("kill {kill}, seed {seed}, {begun} pipelines begun: {found:#?} is not {wanted:#?}")
            };
            client.request(&request);
        }
    }
}
