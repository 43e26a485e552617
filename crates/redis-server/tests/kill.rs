//! A server that is killed keeps what it acknowledged.
//!
//! A child process executes random pipelines by several clients at once and acknowledges each on its standard
//! output; it is killed at a random moment. Afterwards the data are those of the acknowledged pipelines and
//! of some first commands of the one that each client had under way, and no invariant of the store is broken,
//! counts of keys among them. What the data must be is computed by a second server in this process, which
//! executes the same commands and is never killed. `ESKER_KILLS` sets how often, `ESKER_SEED` where to begin.
//!
//! Lives take turns: clients within the process, and clients by sockets with each value of `appendfsync`. The
//! end of a process loses nothing at any of them, because what was written is the system's to keep; what a
//! power cut takes is tested where the file system is a model.

#![allow(clippy::disallowed_methods, reason = "a process of the test's own, and its threads")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_data::{MAX_DECOMPRESSED_BYTES, Value as Data};
use esker_redis_server::local_client::LocalClient;
use esker_redis_server::server::{AppendFsync, Server};
use esker_redis_store::Store;
use esker_redis_store::notifications::Interest;
use esker_redis_testkit::{Client, ExpectKind, Random, encode};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::UNIX_EPOCH;

/// Clients at once. Client n uses the databases 2n and 2n + 1 alone.
const CLIENTS: usize = 3;
const KEYS: [&str; 9] = ["a", "b", "c", "key:1", "key:2", "key:20", "\u{0}", "", "long name of a key"];
/// An expiry that no test sees.
const FAR_MS: usize = 4_000_000_000_000;

const DIRECTORY: &str = "ESKER_REDIS_KILLED_DIRECTORY";
const ROUND: &str = "ESKER_REDIS_KILLED_ROUND";

/// What one client sends in one life of the server.
struct Commands {
    random: Random,
    client: usize,
}

impl Commands {
    fn new(round: u64, client: usize) -> Self {
        Self { random: Random::of(round * 31 + client as u64), client }
    }

    fn pipeline(&mut self) -> Vec<Vec<String>> {
        let mut commands: Vec<_> = (0..=self.random.below(6)).map(|_| self.command()).collect();
        if self.random.once_in(3) {
            // All of them happen or none: nothing changes before the last one.
            commands.insert(0, vec!["MULTI".to_owned()]);
            commands.push(vec!["EXEC".to_owned()]);
        }
        commands
    }

    fn key(&mut self) -> String {
        (*self.random.pick(&KEYS)).to_owned()
    }

    fn text(&mut self) -> String {
        let length = match self.random.below(12) {
            0 => 40_000,
            1 => 2_000,
            _ => 20,
        };
        format!("{:01$}", self.random.below(1000), self.random.below(length))
    }

    /// Some members with what stands before each of them.
    fn members(&mut self, mut before: impl FnMut(&mut Random) -> Option<String>) -> Vec<String> {
        let most = if self.random.once_in(8) { 300 } else { 8 };
        let count = 1 + self.random.below(most);
        let members = (0..count).flat_map(|_| {
            let first = before(&mut self.random);
            first.into_iter().chain([self.random.below(500).to_string()])
        });
        members.collect()
    }

    fn command(&mut self) -> Vec<String> {
        let (key, other) = (self.key(), self.key());
        let any = |random: &mut Random| Some(random.below(1000).to_string());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let offset = self.random.below(100_000).to_string();
        let mut command = match self.random.below(25) {
            0..3 => return words(&["SET", &key, &self.text()]),
            3 => return words(&["APPEND", &key, &self.text()]),
            4 => return words(&["MSET", &key, &self.text(), &other, &self.text()]),
            5 => return words(&["DEL", &key, &other]),
            6 => return words(&["PEXPIREAT", &key, &(FAR_MS + self.random.below(9)).to_string()]),
            7 => return words(&["PERSIST", &key]),
            8 => return words(&["RENAME", &key, &other]),
            9 => return words(&["COPY", &key, &other, "REPLACE"]),
            10 => return words(&["SORT", &key, "ALPHA", "STORE", &other]),
            11 => return self.of_databases(&key),
            12 | 13 => return self.soon_expired(),
            14 => return words(&["SUNIONSTORE", &key, &other, &self.key()]),
            15 => return words(&["ZUNIONSTORE", &key, "2", &other, &self.key()]),
            16 => return words(&["SETRANGE", &key, &offset, &self.text()]),
            17 => return words(&["XADD", &key, "1-*", "field", &self.text()]),
            18 => return words(&["XDEL", &key, &format!("1-{}", self.random.below(5))]),
            19 => words(&["HSET", &key]),
            20 => words(&["SADD", &key]),
            21 => words(&["ZADD", &key]),
            22 => words(&["RPUSH", &key]),
            23 => {
                let command = *self.random.pick(&["HDEL", "SREM", "ZREM"]);
                words(&[command, &key])
            }
            _ => return words(&[*self.random.pick(&["LPOP", "RPOP", "ZPOPMIN"]), &key]),
        };
        let has_pairs = ["HSET", "ZADD"].contains(&command[0].as_str());
        command.extend(self.members(|random| if has_pairs { any(random) } else { None }));
        command
    }

    fn of_databases(&mut self, key: &str) -> Vec<String> {
        let [first, second] = [self.client * 2, self.client * 2 + 1].map(|db| db.to_string());
        let words: &[&str] = match self.random.below(12) {
            0 => &["FLUSHDB"],
            1 => &["SWAPDB", &first, &second],
            2..7 => &["MOVE", key, &second],
            7 | 8 => &["SELECT", &second],
            _ => &["SELECT", &first],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Keys that end meanwhile; only the check of the store looks at them.
    fn soon_expired(&mut self) -> Vec<String> {
        let key = format!("soon:{}", self.random.below(20));
        let time = (1 + self.random.below(30)).to_string();
        let words: &[&str] =
            if self.random.once_in(3) { &["SADD", &key, &time] } else { &["PEXPIRE", &key, &time] };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

fn client_in(server: &Server, db: usize) -> LocalClient<'_> {
    let mut client = LocalClient::new(server);
    client.request(&["SELECT", &db.to_string()]);
    client
}

fn bytes_of(pipeline: &[Vec<String>]) -> Vec<u8> {
    let encoded = pipeline.iter().map(|command| {
        let words: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
        encode(&words)
    });
    encoded.collect::<Vec<_>>().concat()
}

/// Ends the process with the thread that has it, also by a panic: the others would go on for ever.
struct EndOfProcess;

impl Drop for EndOfProcess {
    fn drop(&mut self) {
        std::process::exit(1);
    }
}

/// Sends pipelines for ever and acknowledges each.
fn send_pipelines(round: u64, client: usize, mut send: impl FnMut(&[Vec<String>])) {
    let _end = EndOfProcess;
    let mut commands = Commands::new(round, client);
    loop {
        send(&commands.pipeline());
        if std::io::stdout().write_all(format!("done {client}\n").as_bytes()).is_err() {
            // The other process is not there any more.
            return;
        }
    }
}

/// The values of `appendfsync` by turns, and `None` for clients without sockets.
fn level(round: u64) -> Option<AppendFsync> {
    [None, Some(AppendFsync::No), Some(AppendFsync::EverySecond), Some(AppendFsync::Always)]
        [(round % 4) as usize]
}

/// The life of a child: it ends by being killed.
fn live(directory: &str, round: u64) {
    let server = TestServer::at(directory.into());
    match level(round) {
        None => live_with(server.server(), round, None),
        Some(level) => {
            server.server().set_append_fsync(level);
            while_served(&server, 2, |address| live_with(server.server(), round, Some(address)));
        }
    }
}

fn live_with(server: &Server, round: u64, address: Option<&str>) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || match address {
                None => {
                    let mut local = client_in(server, client * 2);
                    send_pipelines(round, client, |pipeline| drop(local.pipeline(&bytes_of(pipeline))));
                }
                Some(address) => {
                    let mut socket = Client::connect(address);
                    socket.words(&format!("SELECT {}", client * 2));
                    send_pipelines(round, client, |pipeline| {
                        socket.send(&bytes_of(pipeline));
                        pipeline.iter().for_each(|_| drop(socket.read()));
                    });
                }
            });
        }
        scope.spawn(move || {
            let _end = EndOfProcess;
            loop {
                let store = server.store();
                let now = store.database().now().duration_since(UNIX_EPOCH).expect("after 1970");
                let swept = store.sweep_expired(now.as_millis() as u64, Interest::default(), &mut |_| {});
                let collected = store.collect_garbage();
                // Writes that would wait are left to the next turn, as in the server.
                for ended in [swept.map(drop), collected.map(drop)] {
                    assert!(matches!(ended, Ok(()) | Err(esker::Error::WouldStall { .. })), "{ended:?}");
                }
            }
        });
    });
}

/// Starts a child, kills it after so many acknowledgements, and returns how many each client got.
fn life(directory: &Path, round: u64, acknowledgements: usize) -> [usize; CLIENTS] {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["a_killed_server_keeps_what_it_acknowledged", "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map(KilledOnDrop)
        .expect("a child");
    let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe")).split(b'\n');
    let mut done = [0; CLIENTS];
    let mut left = acknowledgements;
    while let Some(Ok(line)) = lines.next() {
        // The test harness has printed the test's name in front of the first acknowledgement, without an end
        // of the line.
        let text = std::str::from_utf8(&line).ok();
        let Some((_, client)) = text.and_then(|line| line.rsplit_once("done ")) else { continue };
        let client: usize = client.parse().expect("a client's number");
        done[client] += 1;
        left = left.saturating_sub(1);
        if left == 0 {
            child.0.kill().expect("the child is there");
        }
    }
    assert_eq!(left, 0, "the child ended before it was killed");
    done
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// All keys of a client's databases with value and expiry, but for those that end meanwhile.
fn state(server: &Server, client: usize) -> Vec<String> {
    let mut found = Vec::new();
    for db in [client * 2, client * 2 + 1] {
        let mut local = client_in(server, db);
        let mut call = |words: &[&[u8]]| -> Value {
            let reply = local.request(words);
            ReplyParser::default().parse(&reply).expect("a reply").reply.expect("a whole reply")
        };
        for key in call(&[b"KEYS", b"*"]).array().into_iter().map(ExpectKind::bulk) {
            if !key.starts_with(b"soon:") {
                let payload = call(&[b"DUMP", &key]).bulk();
                let value = esker_redis_data::restore(&payload, MAX_DECOMPRESSED_BYTES).expect("a value");
                let (key_text, expiry) = (key.escape_ascii(), call(&[b"PEXPIRETIME", &key]).integer());
                found.push(format!("{db} {key_text} {expiry} {}", in_one_order(&value)));
            }
        }
    }
    found.sort();
    found
}

fn in_one_order(value: &Data) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut items: Vec<String> = match value {
        Data::String(bytes) => vec![text(bytes)],
        Data::List(list) => return list.iter().map(text).collect::<Vec<_>>().join(" "),
        Data::Set(members) => members.iter().map(text).collect(),
        Data::SortedSet(set) => {
            set.iter().map(|(member, score)| format!("{} {score}", text(member))).collect()
        }
        Data::Hash(pairs) => {
            let strings: Vec<String> = pairs.iter().map(text).collect();
            strings.chunks(2).map(|pair| pair.join("=")).collect()
        }
        Data::Stream(stream) => vec![format!("{stream:?}")],
    };
    items.sort();
    format!("{} {}", value.type_name(), items.join(" "))
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged() {
    if let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) {
        return live(&directory, round.parse().expect("a number"));
    }
    let kills = std::env::var("ESKER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let mut random = Random::new(40);
    let directory = std::env::temp_dir().join(format!("esker-redis-killed-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let directory = Directory(directory);
    let expected = TestServer::new("kill-expected");
    for kill in 0..kills {
        let (round, acknowledgements) = ((random.next_u64() >> 10 << 2) + kill % 4, 1 + random.below(600));
        let done = life(&directory.0, round, acknowledgements);
        let database = esker::Database::open(&directory.0).expect("the database opens after the kill");
        let server = Server::new(Store::open(database, 16).expect("the store opens after the kill"));
        assert_eq!(server.store().check().expect("a check"), [""; 0], "kill {kill}, {:?}", level(round));
        for (client, done) in done.into_iter().enumerate() {
            let mut commands = Commands::new(round, client);
            let mut local = client_in(expected.server(), client * 2);
            for _ in 0..done {
                local.pipeline(&bytes_of(&commands.pipeline()));
            }
            let found = state(&server, client);
            let mut under_way = commands.pipeline().into_iter();
            loop {
                let wanted = state(expected.server(), client);
                if found == wanted {
                    break;
                }
                let Some(command) = under_way.next() else {
                    panic!(
                        "kill {kill}, {:?}, client {client}, {done} pipelines done: {found:#?} is not {wanted:#?}",
                        level(round)
                    )
                };
                local.request(&command);
            }
        }
    }
}
