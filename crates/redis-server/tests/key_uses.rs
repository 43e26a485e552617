//! OBJECT IDLETIME and FREQ: which commands use a key, and how uses are counted, beside Redis 7.0.15.

mod common;

use common::TestServer;
use esker_redis_testkit::{Client, ExpectKind, Server};
use esker_resp::value::Value;

/// The idle time that keys have before a command, and one that no test takes.
const IDLE: &str = "1000000";
const LONG_S: i64 = 900_000;

/// Keys of all types.
const CREATED: [&str; 6] =
    ["SET s 12", "RPUSH l a b c", "SADD t a b c", "HSET h f 1 g 2", "ZADD z 1 a 2 b", "XADD x 1-1 f v"];
const KEYS: [&str; 6] = ["s", "l", "t", "h", "z", "x"];

/// Commands that use some of the keys, or none.
const REQUESTS: &str = "GET s|GETRANGE s 0 1|STRLEN s|SET s 1|SET s 1 NX|SETRANGE s 0 a|APPEND s a|INCR s|MGET s l|\
    MSET s 1 d 2|MSETNX s 1 d 2|GETEX s|GETEX s EX 10000|SETBIT s 1 1|GETBIT s 1|BITCOUNT s|BITOP AND d s s|\
    GETSET s 1|LCS s s|LRANGE l 0 -1|LPUSH l x|LPUSHX l x|LPOP l|LLEN l|LINDEX l 0|LPOS l a|LMOVE l d LEFT LEFT|\
    LSET l 0 x|LTRIM l 0 1|BLPOP l 1|LMPOP 1 l LEFT|SADD t x|SCARD t|SMEMBERS t|SISMEMBER t a|SINTERSTORE d t t|\
    SUNION t d|SMOVE t d a|SRANDMEMBER t|SSCAN t 0|HGET h f|HSET h f 2|HGETALL h|HLEN h|HDEL h f|HINCRBY h f 1|\
    HSCAN h 0|ZADD z 1 c|ZSCORE z a|ZRANGE z 0 -1|ZRANGESTORE d z 0 -1|ZINCRBY z 1 a|ZCARD z|ZUNIONSTORE d 2 z t|\
    ZPOPMIN z|XLEN x|XADD x 2-1 f v|XRANGE x - +|XREAD STREAMS x 0|XINFO STREAM x|XTRIM x MAXLEN 5|\
    TYPE s|EXISTS s l t|TOUCH s l|TTL s|PTTL s|EXPIRETIME s|PEXPIRETIME s|EXPIRE s 10000|PERSIST s|\
    OBJECT ENCODING s|OBJECT IDLETIME s|OBJECT REFCOUNT s|OBJECT HELP|MEMORY USAGE s|DUMP s|RANDOMKEY|SCAN 0|KEYS *|\
    DBSIZE|WATCH s|UNWATCH|COPY s d|RENAME s d|RENAMENX s l|SORT l ALPHA|SORT l ALPHA STORE d|SORT_RO t ALPHA|\
    GET l|LPUSH s 1|INCR h|DEBUG OBJECT s|COMMAND GETKEYS GET s|\
    EVAL return+1 1 s|EVAL redis.call('get','s') 1 s|EVAL redis.call('exists','s') 1 s";

struct Both {
    theirs: Client,
    ours: Client,
}

impl Both {
    fn call(&mut self, request: &[&[u8]]) -> (Value, Value) {
        (self.theirs.call(request), self.ours.call(request))
    }

    /// The replies to a line of words, which are the same.
    fn same(&mut self, line: &str) -> Value {
        let (theirs, ours) = (self.theirs.words(line), self.ours.words(line));
        assert_eq!(ours, theirs, "{line}");
        ours
    }

    /// All keys as they are at first, not used for long.
    fn prepare(&mut self, dumps: &[Vec<u8>]) {
        self.same("FLUSHALL");
        for (key, dump) in KEYS.iter().zip(dumps) {
            let request: [&[u8]; 6] = [b"RESTORE", key.as_bytes(), b"0", dump, b"IDLETIME", IDLE.as_bytes()];
            let (theirs, ours) = self.call(&request);
            assert_eq!((theirs, ours), (Value::Status(b"OK".to_vec()), Value::Status(b"OK".to_vec())));
        }
    }
}

fn with_both(name: &str, body: impl FnOnce(Both)) {
    let Some(redis) = Server::redis(&["--enable-debug-command", "yes"]) else { return };
    let ours = TestServer::new(name).listening(&[("enable-debug-command", "yes")]);
    body(Both { theirs: redis.connect(), ours: ours.connect() });
}

/// Whether a key was not used for long; `None` if there is none.
fn is_idle(reply: &Value) -> Option<bool> {
    match reply {
        Value::Integer(seconds) => Some(*seconds > LONG_S),
        _ => None,
    }
}

#[test]
fn commands_use_the_keys_that_they_use_in_redis() {
    with_both("key-uses", |mut both| {
        CREATED.iter().for_each(|line| drop(both.same(line)));
        let dump = |key: &&str| both.theirs.words(&format!("DUMP {key}")).bulk();
        let dumps: Vec<Vec<u8>> = KEYS.iter().map(dump).collect();
        let mut different = Vec::new();
        for line in REQUESTS.split('|') {
            for is_within_transaction in [false, true] {
                if is_within_transaction && (line.starts_with("WATCH") || line.starts_with("BLPOP")) {
                    continue;
                }
                both.prepare(&dumps);
                let words: Vec<String> = line.split(' ').map(|word| word.replace('+', " ")).collect();
                let words = if line.starts_with("EVAL") {
                    words
                } else {
                    line.split(' ').map(str::to_owned).collect()
                };
                let request: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                if is_within_transaction {
                    both.same("MULTI");
                }
                both.call(&request);
                if is_within_transaction {
                    both.theirs.words("EXEC");
                    both.ours.words("EXEC");
                }
                for key in KEYS.iter().chain(&["d"]) {
                    let line_of_key = format!("OBJECT IDLETIME {key}");
                    let (theirs, ours) = (both.theirs.words(&line_of_key), both.ours.words(&line_of_key));
                    if is_idle(&theirs) != is_idle(&ours) {
                        different.push(format!(
                            "{line} ({is_within_transaction}), {key}: {ours:?}, not {theirs:?}"
                        ));
                    }
                }
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    });
}

#[test]
fn moved_and_exchanged_keys_keep_their_times() {
    with_both("key-uses-databases", |mut both| {
        both.same("SET s 12");
        let dumps = vec![both.theirs.words("DUMP s").bulk()];
        let idle = |both: &mut Both, line: &str| {
            let (theirs, ours) = (both.theirs.words(line), both.ours.words(line));
            assert!(
                is_idle(&theirs).is_some() && is_idle(&theirs) == is_idle(&ours),
                "{line}: {theirs:?} {ours:?}"
            );
            is_idle(&ours) == Some(true)
        };
        both.prepare(&dumps);
        both.same("SWAPDB 0 1");
        both.same("SELECT 1");
        assert!(idle(&mut both, "OBJECT IDLETIME s"));
        both.same("MOVE s 2");
        both.same("SELECT 2");
        assert!(!idle(&mut both, "OBJECT IDLETIME s"));
        both.same("COPY s s DB 3");
        both.same("SELECT 3");
        assert!(!idle(&mut both, "OBJECT IDLETIME s"));
    });
}

#[test]
fn uses_are_counted_under_an_lfu_policy() {
    with_both("key-uses-frequency", |mut both| {
        both.same("SET s 12");
        both.same("OBJECT FREQ s");
        both.same("OBJECT FREQ missing");
        let dump = both.theirs.words("DUMP s").bulk();
        both.same("CONFIG SET maxmemory-policy allkeys-lfu");
        both.same("OBJECT IDLETIME s");
        both.same("OBJECT IDLETIME missing");
        // Redis has one object for each small integer, with a counter of its own.
        both.same("SET fresh value");
        assert_eq!(both.same("OBJECT FREQ fresh"), Value::Integer(5));
        both.same("GET fresh");
        assert_eq!(both.same("OBJECT FREQ fresh"), Value::Integer(6));
        both.same("TTL fresh");
        assert_eq!(both.same("OBJECT FREQ fresh"), Value::Integer(6));
        for count in ["0", "100", "255", "256"] {
            let request: [&[u8]; 7] = [b"RESTORE", b"r", b"0", &dump, b"REPLACE", b"FREQ", count.as_bytes()];
            let (theirs, ours) = both.call(&request);
            assert_eq!(ours, theirs, "{count}");
            both.same("OBJECT FREQ r");
        }
        both.same("CONFIG SET lfu-log-factor 0");
        both.same("CONFIG SET lfu-decay-time 0");
        for _ in 0..20 {
            both.same("GET fresh");
        }
        assert_eq!(both.same("OBJECT FREQ fresh"), Value::Integer(26));
        both.same("CONFIG SET maxmemory-policy volatile-lru");
        both.same("OBJECT FREQ r");
        // Redis takes the counter for a part of the time, until the key is used again.
        both.same("GET r");
        assert_eq!(is_idle(&both.same("OBJECT IDLETIME r")), Some(false));
    });
}
