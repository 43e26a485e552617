//! Replies: the bytes of each kind in both protocols, and the client's parser.

use esker_redis_testkit::Random;
use esker_resp::fuzz::read_replies;
use esker_resp::long_double::LongDouble;
use esker_resp::value::Value;
use esker_resp::value_parser::{DEEPEST, ReplyError, ReplyLimits, ReplyParser};
use esker_resp::writer::{Aggregate, Protocol, ReplyWriter};

fn written(protocol: Protocol, write: impl Fn(&mut ReplyWriter<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut ReplyWriter::new(&mut out, protocol));
    String::from_utf8(out).expect("text")
}

/// Checks the bytes in both protocols.
fn check(resp2: &str, resp3: &str, write: impl Fn(&mut ReplyWriter<'_>)) {
    assert_eq!(written(Protocol::Resp2, &write), resp2);
    assert_eq!(written(Protocol::Resp3, &write), resp3);
}

#[test]
fn scalars_are_written_as_redis_writes_them() {
    check("+OK\r\n", "+OK\r\n", |reply| reply.status(b"OK"));
    check("-ERR x\r\n", "-ERR x\r\n", |reply| reply.error(b"ERR x"));
    check(":-7\r\n", ":-7\r\n", |reply| reply.integer(-7));
    check("$3\r\na\nb\r\n", "$3\r\na\nb\r\n", |reply| reply.bulk(b"a\nb"));
    check("$0\r\n\r\n", "$0\r\n\r\n", |reply| reply.bulk(b""));
    check("$3\r\n-12\r\n", "$3\r\n-12\r\n", |reply| reply.bulk_integer(-12));
    check("$-1\r\n", "_\r\n", |reply| reply.null());
    check("*-1\r\n", "_\r\n", |reply| reply.null_array());
    check(":1\r\n", "#t\r\n", |reply| reply.boolean(true));
    check(":0\r\n", "#f\r\n", |reply| reply.boolean(false));
    check("$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n", |reply| reply.double(0.1));
    check("$1\r\n3\r\n", ",3\r\n", |reply| reply.double(3.0));
    check("$4\r\n-inf\r\n", ",-inf\r\n", |reply| reply.double(f64::NEG_INFINITY));
    check("$4\r\n10.5\r\n", ",10.5\r\n", |reply| reply.long_double(LongDouble::parse(b"1.05e1").unwrap()));
    check("$5\r\n-1234\r\n", "(-1234\r\n", |reply| reply.big_number(b"-1234"));
    check("$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n", |reply| reply.verbatim(*b"txt", b"a\nb"));
}

#[test]
fn a_long_text_has_its_length_before_it() {
    let huge = LongDouble::parse(b"1e400").expect("in range");
    let text = written(Protocol::Resp2, |reply| reply.long_double(huge));
    assert!(text.starts_with("$401\r\n10000") && text.ends_with("\r\n"));
    assert_eq!(text.len(), 6 + 401 + 2);
}

#[test]
fn aggregates_are_written_as_redis_writes_them() {
    check("*2\r\n", "*2\r\n", |reply| reply.array(2));
    check("*2\r\n", "~2\r\n", |reply| reply.set(2));
    check("*4\r\n", "%2\r\n", |reply| reply.map(2));
    check("*3\r\n", ">3\r\n", |reply| reply.push(3));
    check("", "|1\r\n", |reply| assert_eq!(reply.attributes(1), reply.protocol() == Protocol::Resp3));
}

#[test]
fn no_text_adds_a_line() {
    let text = b"\r\nERR a\r\nb\n+OK\r\n";
    check("-ERR a  b +OK\r\n", "-ERR a  b +OK\r\n", |reply| reply.error(text));
    check("+  ERR a  b +OK  \r\n", "+  ERR a  b +OK  \r\n", |reply| reply.status(text));
    check("-\r\n", "-\r\n", |reply| reply.error(b"\r\n\n"));
    let mut random = Random::new(5);
    for _ in 0..2_000 {
        let text = random.bytes(b"\r\n+-:$*ab\0\xff", 20);
        let mut out = Vec::new();
        let mut reply = ReplyWriter::new(&mut out, Protocol::Resp3);
        reply.status(&text);
        reply.error(&text);
        reply.big_number(&text);
        assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 3);
        assert_eq!(out.iter().filter(|&&byte| byte == b'\r').count(), 3);
    }
}

#[test]
fn counts_are_filled_in_whatever_was_expected() {
    for (expected, count) in [(0, 3), (3, 3), (10, 3), (1, 12), (99, 12), (100_000, 1), (5, 0)] {
        check(
            &format!("*{}\r\n:1\r\n*2\r\n:2\r\n", 2 * count),
            &format!("%{count}\r\n:1\r\n~2\r\n:2\r\n"),
            |reply| {
                let outer = reply.reserve(Aggregate::Map, expected);
                reply.integer(1);
                let inner = reply.reserve(Aggregate::Set, expected);
                reply.integer(2);
                reply.fill(inner, 2);
                reply.fill(outer, count);
            },
        );
    }
    check(":1\r\n-ERR late\r\n", ":1\r\n-ERR late\r\n", |reply| {
        reply.integer(1);
        let place = reply.reserve(Aggregate::Array, 7);
        reply.integer(2);
        reply.cancel(place);
        reply.error(b"ERR late");
    });
}

fn random_value(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth == 0 { 10 } else { 15 };
    let text = random.bytes(b"abc -19.", 12);
    match random.below(kinds) {
        0 => Value::Status(text),
        1 => Value::Error(text),
        2 => Value::Integer(random.next_u64() as i64 >> random.below(64)),
        3 => Value::Bulk(random.bytes(b"\r\n\0abc$*", 300)),
        4 => Value::Null,
        5 => Value::Boolean(random.below(2) == 0),
        6 => Value::Double((random.next_u64() as i64 >> random.below(64)) as f64 / 1000.0),
        7 => Value::BigNumber(random.next_u64().to_string().repeat(3).into_bytes()),
        8 => Value::Verbatim { format: *random.pick(&[*b"txt", *b"mkd"]), text },
        9 => Value::Double(*random.pick(&[f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX])),
        10 => Value::Array(random_values(random, depth)),
        11 => Value::Set(random_values(random, depth)),
        12 => Value::Push(random_values(random, depth)),
        13 => Value::Map(random_pairs(random, depth)),
        _ => Value::Attributed {
            attributes: random_pairs(random, depth),
            value: Box::new(random_value(random, depth - 1)),
        },
    }
}

fn random_values(random: &mut Random, depth: usize) -> Vec<Value> {
    (0..random.below(5)).map(|_| random_value(random, depth - 1)).collect()
}

fn random_pairs(random: &mut Random, depth: usize) -> Vec<(Value, Value)> {
    (0..random.below(4)).map(|_| (random_value(random, depth - 1), random_value(random, depth - 1))).collect()
}

#[test]
fn every_value_comes_back_from_its_encoding_in_any_pieces() {
    let mut random = Random::new(2);
    for _ in 0..2_000 {
        let values = random_values(&mut random, 4);
        let mut stream = Vec::new();
        for value in &values {
            ReplyWriter::new(&mut stream, Protocol::Resp3).value(value);
        }
        for piece in [1, 5, stream.len()] {
            assert_eq!(read_replies(&stream, piece), (values.clone(), None));
        }
    }
}

#[test]
fn mutated_replies_never_panic() {
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let mut stream = vec![random.below(9) as u8];
        ReplyWriter::new(&mut stream, Protocol::Resp3).value(&random_value(&mut random, 3));
        random.mutate(&mut stream);
        esker_resp::fuzz::reply(&stream);
    }
}

#[test]
fn nulls_of_both_protocols_are_told_apart() {
    let expected = vec![Value::NullBulk, Value::NullArray, Value::Null, Value::Array(vec![Value::NullBulk])];
    assert_eq!(read_replies(b"$-1\r\n*-1\r\n_\r\n*1\r\n$-1\r\n", 1), (expected, None));
    let error = Value::Error(b"ERR a\nb".to_vec());
    assert_eq!(error.error(), Some(&b"ERR a\nb"[..]));
    assert_eq!(read_replies(b"!7\r\nERR a\nb\r\n", 3), (vec![error], None));
}

#[test]
fn what_is_no_reply_is_refused() {
    for (stream, error) in [
        (&b"hello\r\n"[..], ReplyError::UnknownKind(b'h')),
        (b"\r\n", ReplyError::NoLineEnd),
        (b"+OK\rx", ReplyError::NoLineEnd),
        (b"$2\r\nabcd", ReplyError::NoLineEnd),
        (b":+1\r\n", ReplyError::Malformed(b':')),
        (b"$-2\r\n", ReplyError::Malformed(b'$')),
        (b"$?\r\n", ReplyError::Malformed(b'$')),
        (b"%-1\r\n", ReplyError::Malformed(b'%')),
        (b"#x\r\n", ReplyError::Malformed(b'#')),
        (b"_x\r\n", ReplyError::Malformed(b'_')),
        (b"(1x\r\n", ReplyError::Malformed(b'(')),
        (b",1x\r\n", ReplyError::Malformed(b',')),
        (b"=3\r\ntxt\r\n", ReplyError::Malformed(b'=')),
        (b"*9223372036854775807\r\n", ReplyError::AboveLimit),
        (b"%9223372036854775807\r\n", ReplyError::AboveLimit),
        (b"$9223372036854775807\r\n", ReplyError::AboveLimit),
    ] {
        for piece in [1, stream.len()] {
            let found = read_replies(stream, piece);
            assert_eq!(found, (vec![], Some(error)), "{}", stream.escape_ascii());
        }
    }
}

#[test]
fn depth_bytes_and_elements_of_a_reply_are_bounded() {
    let parse = |limits, stream: &[u8]| ReplyParser::new(limits).parse(stream).map(|parsed| parsed.reply);
    let limits = ReplyLimits { depth: 2, bytes: 40, elements: 5 };
    assert!(matches!(parse(limits, b"*1\r\n*1\r\n:1\r\n"), Ok(Some(_))));
    assert_eq!(parse(limits, b"*1\r\n*1\r\n*1\r\n"), Err(ReplyError::AboveLimit));
    assert_eq!(parse(limits, b"*6\r\n"), Err(ReplyError::AboveLimit));
    assert_eq!(parse(limits, b"%3\r\n"), Err(ReplyError::AboveLimit));
    assert_eq!(parse(limits, b"$41\r\n"), Err(ReplyError::AboveLimit));
    assert_eq!(
        parse(limits, &b"*2\r\n+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"[..]),
        Err(ReplyError::AboveLimit)
    );
    // However deep is allowed, values are dropped by recursion.
    let deep = ReplyLimits { depth: usize::MAX, ..ReplyLimits::default() };
    assert_eq!(parse(deep, &b"*1\r\n".repeat(DEEPEST)), Ok(None));
    assert_eq!(parse(deep, &b"*1\r\n".repeat(100_000)), Err(ReplyError::AboveLimit));
    // A reply's limits are its own.
    let mut parser = ReplyParser::new(limits);
    for _ in 0..10 {
        assert!(
            matches!(parser.parse(b"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"), Ok(parsed) if parsed.reply.is_some())
        );
    }
}
