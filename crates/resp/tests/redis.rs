//! Comparison with a running Redis 7.0.15; skipped, with a message, where there is none.

use esker_redis_testkit::{Random, Server, encode};
use esker_resp::double::{parse_double, write_double};
use esker_resp::fuzz::{read_replies, read_requests};
use esker_resp::glob::{Case, matches};
use esker_resp::integer::parse_integer;
use esker_resp::limits::Limits;
use esker_resp::long_double::LongDouble;
use esker_resp::value::Value;
use esker_resp::writer::{Protocol, ReplyWriter};

/// Streams of `ECHO`, damaged: replies to what is whole, and the protocol error, are those of Redis.
#[test]
fn damaged_streams_of_requests_are_read_as_redis_reads_them() {
    let Some(redis) = Server::redis(&[]) else { return };
    let mut random = Random::new(11);
    let limits = Limits { arguments: i32::MAX as u32, ..Limits::default() };
    for _ in 0..1_500 {
        let mut stream = Vec::new();
        for _ in 0..=random.below(3) {
            let text = random.bytes(b"abx41n \r\n\"'\\$*0", 20);
            stream.extend(match random.below(2) {
                0 => encode(&[b"ECHO", &text]),
                _ => [b"echo ", &text[..], b"\r\n"].concat(),
            });
        }
        random.mutate(&mut stream);
        compare_stream(&redis, &stream, &limits);
    }
    let long = vec![b'1'; 70_000];
    for start in ["", "*", "*1\r\n$", "\0", "echo \""] {
        compare_stream(&redis, &[start.as_bytes(), &long].concat(), &limits);
    }
}

fn compare_stream(redis: &Server, stream: &[u8], limits: &Limits) {
    let (requests, error) = read_requests(stream, stream.len(), limits);
    let mut connection = redis.connect();
    connection.send_all(stream);
    let answer = connection.read_to_end();
    let (replies, reply_error) = read_replies(&answer, answer.len());
    let shown = stream[..stream.len().min(200)].escape_ascii();
    assert_eq!(reply_error, None, "{shown}");
    let mut expected = Vec::new();
    if let Some(error) = error {
        error.write_reply(&mut expected);
    }
    assert_eq!(replies.len(), requests.len() + usize::from(!expected.is_empty()), "{shown}");
    assert!(answer.ends_with(&expected), "{shown}: {}", answer.escape_ascii());
    for (request, reply) in requests.iter().zip(&replies) {
        if let [name, text] = &request[..]
            && name.eq_ignore_ascii_case(b"echo")
        {
            assert_eq!(reply, &Value::Bulk(text.clone()), "{shown}");
        } else {
            assert!(reply.error().is_some(), "{shown}");
        }
    }
}

/// Texts of numbers, most of them whole, some damaged.
fn number(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    text.extend_from_slice(random.pick(&["", "", "-", "+"]).as_bytes());
    let hexadecimal = random.below(6) == 0;
    if hexadecimal {
        text.extend_from_slice(b"0x");
    }
    let digits: &[u8] = if hexadecimal { b"0123456789abcdefF" } else { b"0123456789" };
    let longest = *random.pick(&[3, 3, 20, 40]);
    text.extend(random.bytes(digits, longest));
    if random.below(2) == 0 {
        text.push(b'.');
        text.extend(random.bytes(digits, longest));
    }
    if random.below(3) == 0 {
        text.push(if hexadecimal { b'p' } else { b'e' });
        let range = *random.pick(&[10, 400, 5_200, 20_000]);
        text.extend(format!("{}", random.below(2 * range) as i64 - range as i64).bytes());
    }
    if random.below(10) == 0 {
        text = random.pick(&["inf", "-Infinity", "nan", "-nan", "nan(1)", "infinit", ""]).as_bytes().to_vec();
    }
    if random.below(8) == 0 {
        random.mutate(&mut text);
    }
    text
}

#[test]
fn doubles_are_read_and_printed_as_by_redis() {
    // Small sorted sets store -0 as the integer 0; skiplists keep the double.
    let Some(redis) = Server::redis(&["--zset-max-listpack-entries", "0"]) else { return };
    let mut connection = redis.connect();
    let mut random = Random::new(12);
    for _ in 0..6_000 {
        let text = number(&mut random);
        connection.call(&[b"DEL", b"scores"]);
        let added = connection.call(&[b"ZADD", b"scores", &text, b"member"]);
        let shown = text.escape_ascii();
        let Some(value) = parse_double(&text) else {
            assert_eq!(added.error(), Some(&b"ERR value is not a valid float"[..]), "{shown}");
            continue;
        };
        assert!(added.error().is_none(), "{shown}");
        let mut printed = Vec::new();
        write_double(value, &mut printed);
        assert_eq!(connection.call(&[b"ZSCORE", b"scores", b"member"]), Value::Bulk(printed), "{shown}");
    }
}

#[test]
fn long_doubles_are_read_added_and_printed_as_by_redis() {
    let Some(redis) = Server::redis(&[]) else { return };
    let mut connection = redis.connect();
    let mut random = Random::new(13);
    for _ in 0..6_000 {
        let (a, b) = (number(&mut random), number(&mut random));
        connection.call(&[b"SET", b"key", &a]);
        let found = connection.call(&[b"INCRBYFLOAT", b"key", &b]);
        let shown = format!("{} + {}", a.escape_ascii(), b.escape_ascii());
        let expected = match (LongDouble::parse(&a), LongDouble::parse(&b)) {
            (Some(a), Some(b)) => a.checked_add(b).map_or_else(
                || Value::Error(b"ERR increment would produce NaN or Infinity".to_vec()),
                |sum| {
                    let mut printed = Vec::new();
                    sum.write(&mut printed);
                    Value::Bulk(printed)
                },
            ),
            _ => Value::Error(b"ERR value is not a valid float".to_vec()),
        };
        assert_eq!(found, expected, "{shown}");
    }
}

#[test]
fn integers_are_those_of_redis() {
    let Some(redis) = Server::redis(&[]) else { return };
    let mut connection = redis.connect();
    let mut random = Random::new(14);
    for _ in 0..4_000 {
        let mut text = (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes();
        if random.below(2) == 0 {
            random.mutate(&mut text);
        }
        connection.call(&[b"SET", b"key", &text]);
        let found = connection.call(&[b"INCRBY", b"key", b"0"]);
        let expected = parse_integer(&text).map_or_else(
            || Value::Error(b"ERR value is not an integer or out of range".to_vec()),
            Value::Integer,
        );
        assert_eq!(found, expected, "{}", text.escape_ascii());
    }
}

#[test]
fn patterns_match_what_they_match_in_redis() {
    let Some(redis) = Server::redis(&[]) else { return };
    let mut connection = redis.connect();
    let mut random = Random::new(15);
    for _ in 0..8_000 {
        let (alphabet, longest) =
            *random.pick(&[(&b"ab*?"[..], 9), (b"abc*?[]^-\\", 12), (b"\x7f\x80\xff[]-^", 8)]);
        let pattern = random.bytes(alphabet, longest);
        let key = random.bytes(if alphabet.contains(&b'a') { b"ab]-" } else { b"\x01\x7f\x80\xfe" }, 7);
        if pattern == b"*" {
            // All keys, unseen.
            continue;
        }
        connection.call(&[b"FLUSHDB"]);
        connection.call(&[b"SET", &key, b""]);
        let found = connection.call(&[b"KEYS", &pattern]);
        let expected = matches(&pattern, &key, Case::Sensitive).then(|| Value::Bulk(key.clone()));
        let shown = format!("{} {}", pattern.escape_ascii(), key.escape_ascii());
        assert_eq!(found, Value::Array(expected.into_iter().collect()), "{shown}");
    }
    let names = sorted_bulks(connection.call(&[b"COMMAND", b"LIST"]));
    for _ in 0..200 {
        let pattern = random.bytes(b"GETsetAaz**?[]-^\\", 7);
        let filter: [&[u8]; 5] = [b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", &pattern];
        let found = sorted_bulks(connection.call(&filter));
        let expected: Vec<_> =
            names.iter().filter(|name| matches(&pattern, name, Case::Insensitive)).cloned().collect();
        assert_eq!(found, expected, "{}", pattern.escape_ascii());
    }
}

/// The strings of a list, sorted: Redis lists the commands in the order of a hash table, which a lookup can
/// still rehash between two lists.
fn sorted_bulks(list: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = list else { panic!("a list: {list:?}") };
    let mut strings: Vec<_> = elements
        .into_iter()
        .map(|element| match element {
            Value::Bulk(string) => string,
            other => panic!("a string: {other:?}"),
        })
        .collect();
    strings.sort();
    strings
}

/// The server's example, which is near pi but is not meant to be.
const DOUBLE: f64 = 3141.0 / 1000.0;

/// Writes a reply.
type Write<'w> = &'w dyn Fn(&mut ReplyWriter<'_>);

#[test]
fn each_kind_of_reply_has_the_bytes_of_redis() {
    let Some(redis) = Server::redis(&["--enable-debug-command", "yes"]) else { return };
    let cases: [(&str, Write<'_>); 12] = [
        ("string", &|reply| reply.bulk(b"Hello World")),
        ("integer", &|reply| reply.integer(12345)),
        ("double", &|reply| reply.double(DOUBLE)),
        ("null", &|reply| reply.null()),
        ("true", &|reply| reply.boolean(true)),
        ("false", &|reply| reply.boolean(false)),
        ("bignum", &|reply| reply.big_number(b"1234567999999999999999999999999999999")),
        ("verbatim", &|reply| reply.verbatim(*b"txt", b"This is a verbatim\nstring")),
        ("array", &|reply| {
            reply.array(3);
            (0..3).for_each(|element| reply.integer(element));
        }),
        ("set", &|reply| {
            reply.set(3);
            (0..3).for_each(|element| reply.integer(element));
        }),
        ("map", &|reply| {
            reply.map(3);
            for element in 0..3 {
                reply.integer(element);
                reply.boolean(element == 1);
            }
        }),
        ("attrib", &|reply| {
            if reply.attributes(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }),
    ];
    for (kind, write) in cases {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut connection = redis.connect();
            if protocol == Protocol::Resp3 {
                connection.call(&[b"HELLO", b"3"]);
            }
            connection.send_all(&encode(&[b"DEBUG", b"PROTOCOL", kind.as_bytes()]));
            let mut expected = Vec::new();
            write(&mut ReplyWriter::new(&mut expected, protocol));
            let found = connection.read_to_end();
            assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{kind}");
        }
    }
}
