//! Streams beside redis-server: the same random commands, the same replies.

mod common;

use common::TestServer;
use esker_redis_testkit::{Client, Random, Server};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;

const KEYS: &[&str] = &["s", "s", "s", "s", "s", "t", "t", "string", "absent"];
const GROUPS: &[&str] = &["g", "g", "h", "none"];
const CONSUMERS: &[&str] = &["a", "b", "c", "a\0b"];
const NUMBERS: &[&str] =
    &["0", "1", "2", "3", "7", "100", "-1", "9223372036854775807", "-9223372036854775808", "x", ""];
const IDLE_TIMES: &[&str] = &["0", "0", "55000", "205000", "-1", "9223372036854775807", "x"];
const ODD_IDS: &[&str] = &[
    "-",
    "+",
    "0",
    "0-0",
    "0-1",
    "$",
    ">",
    "*",
    "5-*",
    "(3",
    "(3-2",
    "(-",
    "(+",
    "(0-0",
    "(",
    "-1",
    "1-",
    "01",
    "1-01",
    "18446744073709551615",
    "18446744073709551615-18446744073709551615",
    "18446744073709551616",
    "1-+",
    "(18446744073709551615-18446744073709551615",
    "a-b",
    "",
    "1\0-2",
];

struct Words<'r> {
    random: &'r mut Random,
    words: Vec<Vec<u8>>,
    /// Keys have it as a suffix: with the next one all streams are new.
    epoch: u64,
    /// About where the ids of new entries are.
    top: u64,
}

impl Words<'_> {
    fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.words.push(word.as_ref().to_vec());
        self
    }

    fn pick(&mut self, from: &[&str]) -> &mut Self {
        let word = *self.random.pick(from);
        self.word(word)
    }

    fn key(&mut self) -> &mut Self {
        let key = format!("{}{}", self.random.pick(KEYS), self.epoch);
        self.word(key)
    }

    fn id(&mut self) -> &mut Self {
        let milliseconds = self.top.saturating_sub(30) + self.random.below(40) as u64;
        match self.random.below(16) {
            0 => self.pick(ODD_IDS),
            1..5 => self.word(milliseconds.to_string()),
            _ => {
                let sequence = self.random.below(4);
                self.word(format!("{milliseconds}-{sequence}"))
            }
        }
    }

    fn ids(&mut self, most: usize) -> &mut Self {
        for _ in 0..=self.random.below(most) {
            self.id();
        }
        self
    }

    /// Once in `times`, what follows in `add`.
    fn perhaps(&mut self, times: usize, add: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        if self.random.once_in(times) {
            return add(self);
        }
        self
    }

    fn trim(&mut self) -> &mut Self {
        if self.random.once_in(2) {
            self.word("MAXLEN").perhaps(2, |words| words.pick(&["~", "=", "~"]));
            let length = self.random.below(30).to_string();
            self.word(length);
        } else {
            self.word("minid").perhaps(2, |words| words.pick(&["~", "=", "~"]));
            self.id();
        }
        self.perhaps(5, |words| words.word("LIMIT").pick(NUMBERS))
    }
}

fn command(random: &mut Random, top: &mut u64, epoch: &mut u64) -> Vec<Vec<u8>> {
    let mut words = Words { random, words: Vec::new(), epoch: *epoch, top: *top };
    match words.random.below(34) {
        0..19 => entry_command(&mut words),
        19..33 => group_command(&mut words),
        _ => {
            // Streams must not only grow.
            if words.random.once_in(40) {
                words.top = 0;
                *epoch += 1;
            }
            words.word("XINFO").word("STREAM").key().word("FULL").word("COUNT").word("0");
        }
    }
    *top = words.top;
    words.words
}

fn entry_command(words: &mut Words<'_>) {
    match words.random.below(19) {
        0..9 => {
            words.word("XADD").key();
            words.perhaps(20, |words| words.word("nomkstream"));
            words.perhaps(12, |words| words.trim());
            if words.random.once_in(4) {
                words.id();
            } else {
                words.top += u64::from(words.random.once_in(4));
                let milliseconds = words.top;
                words.word(format!("{milliseconds}-*"));
            }
            for _ in 0..=words.random.below(3) {
                let field = words.random.pick(&["f", "g", "field"]).to_string();
                let value = words.random.string(300);
                words.word(field).word(value);
            }
            words.perhaps(40, |words| words.word("odd"))
        }
        9 => words.word("XLEN").key(),
        10..12 => {
            words.pick(&["XRANGE", "XREVRANGE"]).key();
            words.pick(&["-", "+", "3", "(5"]).id();
            words.perhaps(2, |words| words.word("COUNT").pick(NUMBERS))
        }
        12 => words.pick(&["XRANGE", "xrevrange"]).key().id().id(),
        13..15 => words.word("XDEL").key().ids(4),
        15 => words.word("XTRIM").key().trim(),
        16 => {
            words.word("XREAD").perhaps(2, |words| words.word("COUNT").pick(NUMBERS));
            words.word("STREAMS").key();
            words.perhaps(2, |words| words.key()).id().id()
        }
        17 => {
            // Not below an entry that was deleted: Redis then trims in the order of adding, not of ids.
            words.top += 45;
            let id = words.top;
            words.word("XSETID").key().word(format!("{id}-1"));
            words.perhaps(3, |words| words.word("ENTRIESADDED").pick(NUMBERS));
            words.perhaps(3, |words| words.word("MAXDELETEDID").id())
        }
        _ => {
            words.word("XINFO").word("STREAM").key();
            words.perhaps(2, |words| {
                words.pick(&["FULL", "full", "x"]);
                words.perhaps(2, |words| words.word("COUNT").pick(NUMBERS))
            })
        }
    };
}

fn group_command(words: &mut Words<'_>) {
    match words.random.below(14) {
        0..4 => {
            words.word("XREADGROUP").word("GROUP").pick(GROUPS).pick(CONSUMERS);
            words.perhaps(3, |words| words.word("COUNT").pick(NUMBERS));
            words.perhaps(5, |words| words.word("NOACK"));
            words.word("STREAMS");
            if words.random.once_in(4) {
                words.key().key().pick(&[">", "0"]).pick(&[">", "0", "$"])
            } else {
                words.key();
                if words.random.once_in(4) { words.id() } else { words.word(">") }
            }
        }
        4 => words.word("XACK").key().pick(GROUPS).ids(4),
        5 => {
            words.word("XPENDING").key().pick(GROUPS);
            words.perhaps(1, |words| {
                words.perhaps(3, |words| words.word("IDLE").pick(IDLE_TIMES));
                words.pick(&["-", "(2", "5"]).pick(&["+", "20", "(30"]).pick(NUMBERS);
                words.perhaps(3, |words| words.pick(CONSUMERS))
            })
        }
        6 => words.word("XPENDING").key().pick(GROUPS),
        7..9 => {
            words.word("XCLAIM").key().pick(GROUPS).pick(CONSUMERS).pick(IDLE_TIMES).ids(5);
            words.perhaps(4, |words| words.word("IDLE").pick(IDLE_TIMES));
            words.perhaps(8, |words| words.word("TIME").pick(NUMBERS));
            words.perhaps(4, |words| words.word("RETRYCOUNT").pick(NUMBERS));
            words.perhaps(4, |words| words.word("FORCE"));
            words.perhaps(4, |words| words.word("JUSTID"));
            words.perhaps(20, |words| words.word("LASTID").id());
            words.perhaps(30, |words| words.word("odd\0option"))
        }
        9..11 => {
            words.word("XAUTOCLAIM").key().pick(GROUPS).pick(CONSUMERS).pick(IDLE_TIMES).id();
            words.perhaps(2, |words| words.word("COUNT").pick(&["1", "2", "3", "0", "-1", "x", "100"]));
            words.perhaps(3, |words| words.word("justid"))
        }
        11 => {
            words.word("XGROUP").word("CREATE").key().pick(GROUPS);
            words.perhaps(1, |words| words.pick(&["$", "0", "3-1", "x"]));
            words.perhaps(3, |words| words.word("MKSTREAM"));
            words.perhaps(4, |words| words.word("ENTRIESREAD").pick(NUMBERS))
        }
        12 => match words.random.below(5) {
            4 => {
                let key = format!("string{}", words.epoch);
                words.word("SET").word(key).word("x")
            }
            0 => {
                words.word("XGROUP").word("SETID").key().pick(GROUPS).id();
                words.perhaps(3, |words| words.word("entriesread").pick(NUMBERS))
            }
            1 => words.word("XGROUP").pick(&["DESTROY", "x", "HELP"]).key().pick(GROUPS),
            2 => words.word("XGROUP").word("CREATECONSUMER").key().pick(GROUPS).pick(CONSUMERS),
            _ => words.word("XGROUP").word("DELCONSUMER").key().pick(GROUPS).pick(CONSUMERS),
        },
        _ => match words.random.below(3) {
            0 => words.word("XINFO").word("GROUPS").key(),
            1 => words.word("XINFO").word("CONSUMERS").key().pick(GROUPS),
            _ => words.pick(&["XINFO", "XGROUP"]).pick(&["HELP", "x", "help"]),
        },
    };
}

/// The reply without what depends on the time: times become zero, and idle times tens of seconds.
fn timeless(value: &mut Value) {
    match value {
        Value::Integer(number) if *number > 1_000_000_000_000 && *number < 4_000_000_000_000 => *number = 0,
        Value::Array(items) => {
            if let [Value::Bulk(_), Value::Bulk(_), Value::Integer(idle), Value::Integer(_)] = &mut items[..]
            {
                *idle = if *idle > 1_000_000_000_000 { 0 } else { *idle / 10_000 };
            }
            let is_idle = |item: &Value| matches!(item, Value::Bulk(name) if name == b"idle");
            if let Some(at) = items.iter().position(is_idle)
                && let Some(Value::Integer(idle)) = items.get_mut(at + 1)
            {
                *idle /= 10_000;
            }
            items.iter_mut().for_each(timeless);
        }
        Value::Map(pairs) => {
            for (name, value) in pairs {
                if let (Value::Bulk(name), Value::Integer(idle)) = (&*name, &mut *value)
                    && name == b"idle"
                {
                    *idle /= 10_000;
                }
                timeless(value);
            }
        }
        _ => {}
    }
}

fn parsed(bytes: &[u8]) -> Value {
    let parsed = ReplyParser::default().parse(bytes).expect("a reply of RESP");
    assert_eq!(parsed.consumed, bytes.len(), "one reply: {}", bytes.escape_ascii());
    parsed.reply.expect("a whole reply")
}

#[test]
fn random_commands_have_the_replies_of_redis() {
    let Some(redis) = Server::redis(&[]) else { return };
    let mut random = Random::new(7);
    for protocol in ["2", "3"] {
        let server = TestServer::new(&format!("streams-{protocol}"));
        let (mut ours, mut theirs): (_, Client) = (server.client(), redis.connect());
        theirs.words("FLUSHALL");
        theirs.words(&format!("HELLO {protocol}"));
        ours.request(&["HELLO", protocol]);
        let (mut top, mut log) = (1, Vec::new());
        let mut epoch = 0;
        for _ in 0..12_000 {
            let request = command(&mut random, &mut top, &mut epoch);
            log.push(
                request.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" "),
            );
            theirs.call_with(&request);
            let mut expected = parsed(theirs.raw());
            let bytes = ours.request(&request);
            let mut got = parsed(&bytes);
            timeless(&mut expected);
            timeless(&mut got);
            if got != expected {
                log.iter().rev().take(40).rev().for_each(|line| eprintln!("{line}"));
                let bytes = bytes.escape_ascii();
                panic!("expected {}\ngot      {bytes}", theirs.raw().escape_ascii());
            }
        }
    }
}
