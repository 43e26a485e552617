//! Requests: what is read, what is refused with which words, and what hostile ones cost.

use esker_redis_testkit::{Random, encode};
use esker_resp::fuzz::read_requests;
use esker_resp::limits::{LONGEST_LINE, Limits};
use esker_resp::protocol_error::ProtocolError;
use esker_resp::request::{Progress, RequestParser};

const STRANGER: Limits =
    Limits { arguments: 1 << 20, argument_bytes: 512 << 20, request_bytes: 1 << 30, authenticated: false };

/// The requests of a stream, which are the same however it is cut.
fn requests(stream: &[u8], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let whole = read_requests(stream, stream.len(), limits);
    for piece in [1, 2, 3, 7] {
        assert_eq!(read_requests(stream, piece, limits), whole, "pieces of {piece}");
    }
    whole
}

fn error(stream: &[u8], limits: &Limits) -> Option<String> {
    requests(stream, limits).1.map(|error| {
        let mut reply = Vec::new();
        error.write_reply(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    })
}

#[test]
fn arrays_and_inline_commands_follow_each_other() {
    let stream = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\nget k\n\r\n*0\r\n*-1\r\n*-5\r\n \t\r\n\
        set \"a\\x00b\" 'it\\'s'\r\n*1\r\n$4\r\n\r\n\r\n\r\n*1\r\n$12\r\n$4\r\nquit\r\n\r\n\r\n";
    let (found, error) = requests(stream, &Limits::default());
    let expected: [&[&[u8]]; 5] = [
        &[b"SET", b"k", b""],
        &[b"get", b"k"],
        &[b"set", b"a\0b", b"it's"],
        &[b"\r\n\r\n"],
        &[b"$4\r\nquit\r\n\r\n"],
    ];
    assert_eq!(error, None);
    assert_eq!(found, expected);
}

#[test]
fn what_is_refused_is_refused_in_the_words_of_redis() {
    let limits = Limits { argument_bytes: 1000, ..Limits::default() };
    for (stream, text) in [
        ("*a\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*1\r\nx1\r\n", "expected '$', got 'x'"),
        ("*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"),
        ("*1\r\n\r\n", "expected '$', got ' '"),
        ("*1\r\n\nx\r\n", "expected '$', got ' '"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$01\r\n", "invalid bulk length"),
        ("*1\r\n$1001\r\n", "invalid bulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775808\r\n", "invalid bulk length"),
        ("get \"a\r\n", "unbalanced quotes in request"),
        ("get 'a'b\n", "unbalanced quotes in request"),
    ] {
        let expected = Some(format!("-ERR Protocol error: {text}\r\n"));
        assert_eq!(error(stream.as_bytes(), &limits), expected, "{stream:?}");
    }
    assert_eq!(error(b"*3\r\n$1000\r\n", &limits), None);
}

#[test]
fn lines_without_end_are_refused_when_they_are_too_long() {
    let long = vec![b'1'; LONGEST_LINE + 1];
    for (start, text) in [
        ("", "too big inline request"),
        ("\0", "too big inline request"),
        ("*", "too big mbulk count string"),
        ("*\0", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
    ] {
        let stream = [start.as_bytes(), &long].concat();
        let expected = Some(format!("-ERR Protocol error: {text}\r\n"));
        assert_eq!(error(&stream, &Limits::default()), expected, "{start:?}");
    }
    let longest = [&vec![b'a'; LONGEST_LINE][..], b"\n"].concat();
    assert_eq!(requests(&longest, &Limits::default()).0[0][0].len(), LONGEST_LINE);
}

#[test]
fn strangers_may_send_small_requests_only() {
    assert_eq!(error(b"*10\r\n$16384\r\n", &STRANGER), None);
    let count = "-ERR Protocol error: unauthenticated multibulk length\r\n";
    let length = "-ERR Protocol error: unauthenticated bulk length\r\n";
    assert_eq!(error(b"*11\r\n", &STRANGER).as_deref(), Some(count));
    assert_eq!(error(b"*1048576\r\n$536870912\r\n", &STRANGER).as_deref(), Some(count));
    assert_eq!(error(b"*1\r\n$16385\r\n", &STRANGER).as_deref(), Some(length));
    // Authentication counts from the next request on, within one buffer.
    let mut stream = [encode(&[b"AUTH", b"secret"]), b"*11\r\n".to_vec()].concat();
    let mut parser = RequestParser::new();
    let Ok(Progress::Request { consumed }) = parser.parse(&mut stream, &STRANGER) else { panic!("AUTH") };
    let next = parser.parse(&mut stream[consumed..], &Limits::default());
    assert_eq!(next, Ok(Progress::Incomplete { missing: 1 }));
}

#[test]
fn browsers_are_sent_away_without_a_word() {
    for stream in [
        &b"POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n"[..],
        b"host: localhost\r\n",
        b"*1\r\n$4\r\npost\r\n",
    ] {
        let (found, error) = requests(stream, &Limits::default());
        assert_eq!((found.len(), error), (0, Some(ProtocolError::CrossProtocol)));
        let mut reply = Vec::new();
        ProtocolError::CrossProtocol.write_reply(&mut reply);
        assert!(reply.is_empty());
    }
    assert_eq!(requests(b"get POST\r\npostpone\r\n", &Limits::default()).0.len(), 2);
}

#[test]
fn a_request_that_announces_too_much_is_refused_before_it_arrives() {
    let limits = Limits { request_bytes: 100, ..Limits::default() };
    assert_eq!(requests(b"*2\r\n$60\r\n", &limits).1, None);
    assert_eq!(requests(b"*2\r\n$91\r\n", &limits).1, Some(ProtocolError::RequestTooLong));
    let second = [b"*2\r\n$60\r\n".to_vec(), vec![b'x'; 60], b"\r\n$60\r\n".to_vec()].concat();
    assert_eq!(requests(&second, &limits).1, Some(ProtocolError::RequestTooLong));
    let inline = [vec![b'x'; 100], b"\n".to_vec()].concat();
    assert_eq!(requests(&inline, &limits).1, Some(ProtocolError::RequestTooLong));
    // What follows a request does not count.
    assert_eq!(requests(&encode(&[&[b'x'; 80]]).repeat(3), &limits).0.len(), 3);
}

#[test]
fn the_missing_bytes_of_an_argument_are_known() {
    let mut parser = RequestParser::new();
    let mut input = b"*1\r\n$1000\r\nab".to_vec();
    assert_eq!(parser.parse(&mut input, &Limits::default()), Ok(Progress::Incomplete { missing: 1000 }));
}

#[test]
fn announced_arguments_take_no_memory_before_they_arrive() {
    let mut parser = RequestParser::new();
    assert_eq!(parser.heap_bytes(), 0);
    let mut input = b"*1048576\r\n$536870912\r\n".to_vec();
    assert!(matches!(parser.parse(&mut input, &Limits::default()), Ok(Progress::Incomplete { .. })));
    assert!(parser.heap_bytes() <= 16 * 8);
    // After a large request the memory is given back.
    let mut large = encode(&vec![&b"x"[..]; 100_000]);
    let mut parser = RequestParser::new();
    assert!(matches!(parser.parse(&mut large, &Limits::default()), Ok(Progress::Request { .. })));
    assert_eq!(parser.arguments().len(), 100_000);
    assert!(matches!(
        parser.parse(&mut encode(&[b"PING"]), &Limits::default()),
        Ok(Progress::Request { .. })
    ));
    assert!(parser.heap_bytes() <= 16 * 8);
}

#[test]
fn a_mebibyte_fed_byte_by_byte_is_read_in_linear_time() {
    // Quadratic would be 10^12 steps: the test would not end. The buffer is whole; only its end moves.
    let mut many = encode(&vec![&b"abc"[..]; 1 << 17]);
    let mut line = [b"set ".to_vec(), vec![b'x'; LONGEST_LINE - 4], b"\n".to_vec()].concat();
    let mut one = encode(&[b"SET", &vec![b'x'; 1 << 20]]);
    for stream in [&mut many, &mut line, &mut one] {
        let mut parser = RequestParser::new();
        for end in 1..stream.len() {
            let progress = parser.parse(&mut stream[..end], &Limits::default());
            assert!(matches!(progress, Ok(Progress::Incomplete { .. })));
        }
        let progress = parser.parse(stream, &Limits::default());
        assert_eq!(progress, Ok(Progress::Request { consumed: stream.len() }));
    }
}

#[test]
fn mutated_streams_are_read_alike_in_all_pieces_and_never_panic() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let mut stream = vec![random.below(9) as u8];
        for _ in 0..=random.below(4) {
            let key = random.bytes(b"ab \r\n\"'\\x41$*", 30);
            stream.extend(match random.below(3) {
                0 => encode(&[b"SET", &key, b"value"]),
                1 => [&key[..], b"\r\n"].concat(),
                _ => {
                    format!("*{}\r\n${}\r\n", random.next_u64() as i64 >> random.below(64), random.below(99))
                        .into()
                }
            });
        }
        random.mutate(&mut stream);
        esker_resp::fuzz::request(&stream);
    }
}
