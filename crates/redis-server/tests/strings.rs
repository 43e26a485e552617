//! Random commands of strings, bitmaps and HyperLogLogs, whose replies are byte for byte those of Redis.

#![allow(clippy::disallowed_methods, reason = "tests use processes and files directly")]

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_store::Txn;
use esker_redis_store::notifications::Interest;
use esker_redis_store::types::string;
use esker_redis_testkit::{Client, Random, Server};

type Request = Vec<Vec<u8>>;

/// Commands of a run; `ESKER_COMMANDS` sets more.
const COMMANDS: usize = 5_000;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What each letter of a shape stands for; other letters stand for themselves, and so do words.
fn argument(random: &mut Random, word: &str) -> Vec<u8> {
    let pick = |random: &mut Random, words: &[&str]| random.pick(words).as_bytes().to_vec();
    match word {
        "K" => pick(random, &KEYS),
        "V" => value(random),
        "I" => integer(random),
        "F" => pick(random, &FLOATS),
        "O" => match random.below(12) {
            0 => pick(random, &["-1", "abc", "", "9223372036854775807", "536870912", "4294967296"]),
            _ => random.below(*random.clone().pick(&[4, 100, 20_000, 70_000])).to_string().into_bytes(),
        },
        "R" => match random.below(4) {
            0 => integer(random),
            _ => (random.below(200) as i64 - 100).to_string().into_bytes(),
        },
        "T" => {
            pick(random, &["100000", "10000000", "0", "-1", "9223372036854775807", "9223372036854775", "x"])
        }
        "A" => pick(random, &["4000000000", "4000000000000", "1", "0", "-5", "9223372036854775807"]),
        "U" => pick(random, &["BIT", "byte", "bits"]),
        "E" => format!("e{}", random.below(3000)).into_bytes(),
        "W" => pick(random, &["i1", "u1", "i8", "u8", "i64", "u63", "u64", "i0", "i17", "u31", "x8"]),
        "#" => match random.below(3) {
            0 => pick(random, &["#0", "#1", "#70", "#-1", "-1", "#9223372036854775807"]),
            _ => random.below(*random.clone().pick(&[70, 200_000])).to_string().into_bytes(),
        },
        _ => word.as_bytes().to_vec(),
    }
}

const FLOATS: [&str; 14] =
    ["1.5", "-0", "3", "0.1", "1e10", "1e400", "nan", "inf", "-inf", " 1", "1 ", "5.0e3", "0x10", "abc"];

fn integer(random: &mut Random) -> Vec<u8> {
    let edges: [&[u8]; 12] = [
        b"0",
        b"1",
        b"-1",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"9223372036854775808",
        b"+1",
        b"01",
        b" 1",
        b"",
        b"1.5",
        b"abc",
    ];
    match random.below(4) {
        0 => random.pick(&edges).to_vec(),
        1 => random.integer().to_string().into_bytes(),
        _ => (random.below(40) as i64 - 20).to_string().into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => integer(random),
        1 => random.pick(&FLOATS).as_bytes().to_vec(),
        2 => vec![b'x'; 42 + random.below(5)],
        3 => vec![random.next_u64() as u8; 16_382 + random.below(5)],
        4 => {
            let len = random.below(50_000);
            (0..len).map(|_| random.next_u64() as u8).collect()
        }
        _ => random.string(30),
    }
}

const SHAPES: &[&str] = &[
    "SET K V",
    "SET K V",
    "SET K I",
    "SET K V NX",
    "SET K V XX",
    "SET K V GET",
    "SET K V NX GET",
    "SET K V XX NX",
    "SET K V EX T",
    "SET K V PX T KEEPTTL",
    "SET K V KEEPTTL",
    "SET K V EXAT A",
    "SET K V PXAT A GET",
    "SET K V EX T EX T",
    "SET K V EX",
    "SET K V EX T PX T",
    "SETEX K T V",
    "PSETEX K T V",
    "SETNX K V",
    "GETSET K V",
    "GETEX K",
    "GETEX K EX T",
    "GETEX K PERSIST",
    "GETEX K PXAT A",
    "GETEX K EXAT A",
    "GETEX K PERSIST EX T",
    "GETEX K EX T PERSIST",
    "GETEX K KEEPTTL",
    "GETDEL K",
    "GET K",
    "GET K",
    "MGET K K K zz",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "APPEND K V",
    "APPEND K I",
    "APPEND K V",
    "STRLEN K",
    "SETRANGE K O V",
    "SETRANGE K O V",
    "SETRANGE K R ",
    "GETRANGE K R R",
    "GETRANGE K O R",
    "SUBSTR K O O",
    "INCR K",
    "DECR K",
    "INCR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K F",
    "INCRBYFLOAT K F",
    "LCS K K",
    "LCS K K LEN",
    "LCS K K IDX MINMATCHLEN R",
    "LCS K K IDX WITHMATCHLEN",
    "LCS K K IDX LEN",
    "SETBIT K O 1",
    "SETBIT K O 0",
    "SETBIT K O I",
    "GETBIT K O",
    "BITCOUNT K",
    "BITCOUNT K R R",
    "BITCOUNT K R R U",
    "BITCOUNT K R",
    "BITCOUNT K O O BIT",
    "BITPOS K 1",
    "BITPOS K 0",
    "BITPOS K I R",
    "BITPOS K 0 R R",
    "BITPOS K 1 R R U",
    "BITPOS K 0 R R U",
    "BITPOS K 1 O O BIT",
    "BITOP AND K K K",
    "BITOP OR K K K K",
    "BITOP XOR K K K",
    "BITOP NOT K K",
    "BITOP NOT K K K",
    "BITOP NAND K K",
    "BITOP AND K zz",
    "BITFIELD K GET W #",
    "BITFIELD K SET W # I GET W #",
    "BITFIELD K OVERFLOW SAT INCRBY W # I SET W # I",
    "BITFIELD K OVERFLOW FAIL INCRBY W # I INCRBY W # I",
    "BITFIELD K OVERFLOW X GET W #",
    "BITFIELD K SET W #",
    "BITFIELD K",
    "BITFIELD_RO K GET W # GET W #",
    "BITFIELD_RO K SET W # I",
    "PFADD K E E E",
    "PFADD h E E E E E E",
    "PFADD h2 E E",
    "PFADD h",
    "PFCOUNT h",
    "PFCOUNT h h2 zz",
    "PFCOUNT K",
    "PFMERGE h2 h",
    "PFMERGE h3 h h2",
    "PFMERGE h K",
    "PFDEBUG ENCODING h",
    "PFDEBUG DECODE h2",
    "PFDEBUG GETREG h2",
    "PFDEBUG TODENSE h3",
    "PFDEBUG NO h",
    "GET h",
    "GET h2",
    "GETDEL h2",
    "GETDEL h3",
    "GETDEL h",
];

fn request(random: &mut Random) -> Request {
    let shape = *random.pick(SHAPES);
    shape.split(' ').map(|word| argument(random, word)).collect()
}

/// Esker in this process and Redis, which get the same requests.
struct Pair<'s> {
    esker: LocalClient<'s>,
    redis: Client,
}

impl Pair<'_> {
    fn call(&mut self, request: &Request) -> (Vec<u8>, Vec<u8>) {
        let esker = self.esker.request(request);
        self.redis.call_with(request);
        (esker, self.redis.raw().to_vec())
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("{} ({} bytes)", bytes[..bytes.len().min(200)].escape_ascii(), bytes.len())
}

fn compare_encodings(server: &TestServer, redis: &mut Client) {
    let mut txn = Txn::new(server.server().store(), Interest::default());
    for key in KEYS.iter().chain(&["h", "h2", "h3"]) {
        let entry = txn.entry(0, key.as_bytes()).expect("it is read");
        let Some(record) = entry.record() else { continue };
        redis.words(&format!("OBJECT ENCODING {key}"));
        let encoding = string::encoding(record);
        let expected = format!("${}\r\n{encoding}\r\n", encoding.len());
        assert_eq!(shown(redis.raw()), shown(expected.as_bytes()), "the encoding of {key}");
    }
}

fn compare(name: &str, protocol: u8) {
    let Some(redis) = Server::redis(&[]) else { return };
    let server = TestServer::new(name);
    let mut pair = Pair { esker: server.client(), redis: redis.connect() };
    if protocol == 3 {
        let hello = ["HELLO", "3"].map(|word| word.as_bytes().to_vec()).to_vec();
        assert!(!pair.call(&hello).0.starts_with(b"-"), "the server speaks RESP3");
    }
    let mut random = Random::new(7);
    let commands = std::env::var("ESKER_COMMANDS").ok().and_then(|text| text.parse().ok());
    for number in 0..commands.unwrap_or(COMMANDS) {
        let request = request(&mut random);
        let (esker, redis) = pair.call(&request);
        // Esker compares shorter strings than Redis, so that a command takes no seconds.
        let is_refused = esker.starts_with(b"-ERR Insufficient memory, transient memory for LCS");
        if esker != redis && !is_refused {
            let request: Vec<_> = request.iter().map(|word| shown(word)).collect();
            panic!("command {number} {request:?}\nesker {}\nredis {}", shown(&esker), shown(&redis));
        }
        if number % 10 == 0 {
            compare_encodings(&server, &mut pair.redis);
        }
    }
}

#[test]
fn strings_answer_as_redis_does() {
    compare("strings-2", 2);
}

#[test]
fn strings_are_as_long_as_512_mib_and_no_longer() {
    let server = TestServer::new("strings-limits");
    let mut client = server.client();
    let last = (512 << 20) - 1;
    let mut answer = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        String::from_utf8_lossy(&client.request(&words)).trim_end().to_owned()
    };
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(answer(&format!("SETRANGE a {last} x")), format!(":{}", last + 1));
    for offset in [last + 1, i64::MAX - 1, i64::MAX] {
        assert_eq!(answer(&format!("SETRANGE a {offset} x")), too_long);
    }
    assert_eq!(answer("APPEND a x"), too_long);
    assert_eq!(answer("STRLEN a"), format!(":{}", last + 1));
    assert_eq!(answer("BITCOUNT a"), ":4");
    assert_eq!(answer("BITPOS a 1"), format!(":{}", last * 8 + 1));
    assert_eq!(answer(&format!("GETRANGE a {} -1", last - 1)), "$2\r\n\0x");
    assert_eq!(answer("SETBIT a 4294967295 1"), ":0");
    assert_eq!(answer("SETBIT a 4294967296 1"), "-ERR bit offset is not an integer or out of range");
    assert_eq!(answer("BITFIELD a SET i64 4294967295 1"), "*1\r\n:-9223372036854775808");
    assert_eq!(answer("GETDEL b"), "$-1");
    assert_eq!(server.store_keys(0), 1);
}
