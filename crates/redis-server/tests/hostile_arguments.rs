//! Arguments of clients that mean harm: counts, offsets and patterns at the ends of their ranges. Each gets
//! an error or a reply of bounded size within bounded time, and no bytes of a client break a line of a reply.

#![allow(clippy::disallowed_methods, reason = "measures how long commands take")]

mod common;

use common::TestServer;
use common::victim::cpu_ms_of;
use esker_redis_server::local_client::LocalClient;
use std::time::{Duration, Instant};

/// No command of these may run as long; they take microseconds, but the machine may be busy.
const LONGEST_CPU_MS: u64 = 1_500;
/// Nor may one wait as long.
const LONGEST: Duration = Duration::from_secs(60);

/// Sends words, and returns the reply as text.
fn ask(client: &mut LocalClient<'_>, request: &str) -> String {
    ask_bytes(client, &request.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn ask_bytes(client: &mut LocalClient<'_>, request: &[&[u8]]) -> String {
    // This thread executes the commands of a local client.
    let (asked, asked_ms) = (Instant::now(), cpu_ms_of("thread-self"));
    let reply = client.request(request);
    let (taken, ran_ms) = (asked.elapsed(), cpu_ms_of("thread-self") - asked_ms);
    let shown = request.iter().map(|part| part[..part.len().min(40)].escape_ascii().to_string());
    let shown = shown.collect::<Vec<_>>().join(" ");
    assert!(ran_ms < LONGEST_CPU_MS && taken < LONGEST, "{shown} ran for {ran_ms} ms, and took {taken:?}");
    assert!(reply.len() < 1 << 20, "{shown} answered {} bytes", reply.len());
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn offsets_beyond_the_longest_string_are_refused() {
    let server = TestServer::new("hostile-offsets");
    let mut client = server.client();
    for request in [
        "SETRANGE k 536870912 x",
        "SETRANGE k 9223372036854775807 x",
        "SETRANGE k -1 x",
        "SETBIT k 4294967296 1",
        "SETBIT k -1 1",
        "SETBIT k 9223372036854775807 1",
        "BITFIELD k SET u8 4294967296 1",
        "BITFIELD k SET u8 #536870912 1",
        "BITFIELD k SET i64 #9223372036854775807 1",
        "BITFIELD k INCRBY u8 -1 1",
        "GETBIT k 4294967296",
        "BITFIELD k GET u64 0",
        "BITFIELD k GET i65 0",
        "BITFIELD k GET u-1 0",
    ] {
        assert!(ask(&mut client, request).starts_with("-ERR"), "{request}");
        assert_eq!(ask(&mut client, "EXISTS k"), ":0\r\n", "{request}");
    }
    assert_eq!(ask(&mut client, "SET k abc"), "+OK\r\n");
    for (request, reply) in [
        ("GETRANGE k -9223372036854775808 9223372036854775807", "$3\r\nabc\r\n"),
        ("GETRANGE k 9223372036854775807 -9223372036854775808", "$0\r\n\r\n"),
        ("BITCOUNT k -9223372036854775808 9223372036854775807", ":10\r\n"),
        ("BITPOS k 1 -9223372036854775808 9223372036854775807 BIT", ":1\r\n"),
        ("LRANGE none -9223372036854775808 9223372036854775807", "*0\r\n"),
    ] {
        assert_eq!(ask(&mut client, request), reply, "{request}");
    }
}

#[test]
fn the_ends_of_ranks_and_counts_are_those_of_redis() {
    let server = TestServer::new("hostile-ranks");
    let mut client = server.client();
    let too_high = "-ERR Insufficient memory, failed allocating transient memory, COUNT too high.\r\n";
    for (request, reply) in [
        ("RPUSH l a b a", ":3\r\n"),
        ("LPOS l a RANK -9223372036854775807", "$-1\r\n"),
        ("LPOS l a RANK -9223372036854775808", ":2\r\n"),
        ("LPOS l a RANK -9223372036854775808 COUNT 0", "*2\r\n:2\r\n:0\r\n"),
        ("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n"),
        ("XAUTOCLAIM s g c 0 0 COUNT 4294967296", "*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n"),
        ("XAUTOCLAIM s g c 0 0 COUNT 9007199254740993", too_high),
        (
            "XAUTOCLAIM s none c 0 0 COUNT 9007199254740993",
            "-NOGROUP No such key 's' or consumer group 'none'\r\n",
        ),
        ("XAUTOCLAIM s g c 0 0 COUNT 9223372036854775807", "-ERR COUNT must be > 0\r\n"),
    ] {
        assert_eq!(ask(&mut client, request), reply, "{request}");
    }
}

#[test]
fn bytes_that_are_no_text_are_repeated_as_they_are() {
    let server = TestServer::new("hostile-bytes");
    let mut client = server.client();
    client.request(&["PFADD", "h", "a"]);
    let reply = client.request(&[&b"PFDEBUG"[..], b"\xff\xfe", b"h"]);
    assert_eq!(reply, b"-ERR Unknown PFDEBUG subcommand '\xff\xfe'\r\n");
}

#[test]
fn fields_of_bits_keep_to_their_width_at_every_overflow() {
    let server = TestServer::new("hostile-fields");
    let mut client = server.client();
    let values = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    for (sign, bits) in [('i', 64), ('i', 63), ('i', 1), ('u', 63), ('u', 62), ('u', 1)] {
        let (least, most) = match sign {
            'i' => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        };
        let wrap = |value: i128| {
            let within = value.rem_euclid(1 << bits);
            if within > most { within - (1 << bits) } else { within }
        };
        for start in values.into_iter().filter(|start| (least..=most).contains(&i128::from(*start))) {
            for by in values {
                let exact = i128::from(start) + i128::from(by);
                let fits = (least..=most).contains(&exact);
                for (overflow, expected) in [
                    ("WRAP", Some(wrap(exact))),
                    ("SAT", Some(exact.clamp(least, most))),
                    ("FAIL", fits.then_some(exact)),
                ] {
                    let request = format!(
                        "BITFIELD f SET {sign}{bits} 5 {start} OVERFLOW {overflow} INCRBY {sign}{bits} 5 {by}"
                    );
                    client.request(&["DEL", "f"]);
                    let reply = ask(&mut client, &request);
                    let last = expected.map_or("$-1".to_owned(), |value| format!(":{value}"));
                    assert_eq!(reply, format!("*2\r\n:0\r\n{last}\r\n"), "{request}");
                }
            }
        }
    }
}

#[test]
fn counts_at_the_ends_of_their_range_neither_loop_nor_overflow() {
    let server = TestServer::new("hostile-counts");
    let mut client = server.client();
    client
        .pipeline(b"RPUSH l a b c\r\nSADD s a b c\r\nHSET h a 1 b 2\r\nZADD z 1 a 2 b\r\nXADD x 1-1 f v\r\n");
    client.pipeline(b"XGROUP CREATE x g 0\r\nXREADGROUP GROUP g c STREAMS x >\r\n");
    let (least, most, half) = (i64::MIN, i64::MAX, -(1i64 << 62));
    for count in [least, half] {
        for request in
            [format!("HRANDFIELD h {count} WITHVALUES"), format!("ZRANDMEMBER z {count} WITHSCORES")]
        {
            let reply = ask(&mut client, &request);
            assert!(reply.starts_with("-ERR value is out of range"), "{request}: {reply}");
        }
        let request = format!("LPOP l {count}");
        assert_eq!(ask(&mut client, &request), "-ERR value is out of range, must be positive\r\n");
    }
    let least_request = format!("SRANDMEMBER s {least}");
    assert!(ask(&mut client, &least_request).starts_with("-ERR value is out of range"));
    for (request, reply) in [
        (format!("LREM l {least} nothing"), ":0\r\n"),
        (format!("LPOS l a RANK {least}"), ":0\r\n"),
        (format!("LPOS l a COUNT {most} MAXLEN {most}"), "*1\r\n:0\r\n"),
        (format!("SORT l ALPHA LIMIT -1 {most}"), "*3\r\n"),
        (format!("SORT l ALPHA LIMIT {most} {most}"), "*0\r\n"),
        (format!("SORT l ALPHA LIMIT {least} {least}"), "*3\r\n"),
        (format!("ZRANGEBYSCORE z -inf inf LIMIT {most} {most}"), "*0\r\n"),
        (format!("ZRANGE z {least} {most}"), "*2\r\n"),
        (format!("SINTERCARD 1 s LIMIT {most}"), ":3\r\n"),
        (format!("SINTERCARD {most} s"), "-ERR"),
        (format!("ZUNION {most} z"), "-ERR"),
        ("ZUNION -1 z".to_owned(), "-ERR"),
        (format!("LMPOP {most} l LEFT"), "-ERR"),
        (format!("EVAL x {most} k"), "-ERR"),
        ("EVAL x -1 k".to_owned(), "-ERR"),
        (format!("XAUTOCLAIM x g c 0 0 COUNT {most}"), "-ERR"),
        ("XAUTOCLAIM x g c 0 0 COUNT 0".to_owned(), "-ERR"),
        ("XAUTOCLAIM x g c 0 0 COUNT 100000".to_owned(), "*3\r\n"),
        (format!("XRANGE x - + COUNT {most}"), "*1\r\n"),
        (format!("XTRIM x MAXLEN ~ 0 LIMIT {least}"), "-ERR"),
        (format!("SCAN 0 COUNT {most}"), "*2\r\n"),
        (format!("SCAN {most} COUNT 10"), "*2\r\n"),
        (format!("XPENDING x g - + {most}"), "*1\r\n"),
        (format!("EXPIRE l {most}"), "-ERR invalid expire time"),
        (format!("EXPIRE l {least}"), "-ERR invalid expire time"),
        (format!("SET l v EX {most}"), "-ERR invalid expire time"),
        (format!("GEOSEARCH none FROMLONLAT 0 0 BYRADIUS inf km COUNT {most}"), "*0\r\n"),
    ] {
        let answer = ask(&mut client, &request);
        assert!(answer.starts_with(reply), "{request}: {answer}");
    }
}

#[test]
fn the_longest_common_subsequence_of_long_strings_is_refused() {
    let server = TestServer::new("hostile-lcs");
    let mut client = server.client();
    client.request(&["SETRANGE", "a", "1048576", "x"]);
    client.request(&["SETRANGE", "b", "1048576", "x"]);
    assert!(ask(&mut client, "LCS a b").starts_with("-ERR"));
    assert!(ask(&mut client, "LCS a b IDX").starts_with("-ERR"));
}

#[test]
fn patterns_take_linear_memory_and_bounded_time() {
    let server = TestServer::new("hostile-patterns");
    let mut client = server.client();
    let key = vec![b'a'; 256];
    client.request(&[&b"SET"[..], &key, b"1"]);
    client.request(&[&b"HSET"[..], b"h", &key, b"1"]);
    let stars = [b"*a".repeat(64), b"b".to_vec()].concat();
    let many_stars = b"*".repeat(10_000);
    let nested = b"[".repeat(1_000);
    let ranges = b"[z-a]".repeat(200);
    let escape = b"\\".to_vec();
    for pattern in [&stars, &many_stars, &nested, &ranges, &escape] {
        for request in [
            &[&b"KEYS"[..], pattern][..],
            &[b"SCAN", b"0", b"MATCH", pattern],
            &[b"HSCAN", b"h", b"0", b"MATCH", pattern],
            &[b"CONFIG", b"GET", pattern],
            &[b"PUBSUB", b"CHANNELS", pattern],
            &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", pattern],
            &[b"FUNCTION", b"LIST", b"LIBRARYNAME", pattern],
            &[b"ACL", b"SETUSER", b"u", &[b"~", &pattern[..]].concat()],
        ] {
            ask_bytes(&mut client, request);
        }
    }
}

#[test]
fn the_same_key_twice_and_numbers_beyond_all_are_no_surprise() {
    let server = TestServer::new("hostile-twice");
    let mut client = server.client();
    assert_eq!(ask(&mut client, "MSETNX k 1 k 2"), ":1\r\n");
    assert_eq!(ask(&mut client, "GET k"), "$1\r\n2\r\n");
    assert_eq!(ask(&mut client, "MSETNX k 3 other 4"), ":0\r\n");
    for by in ["inf", "-inf", "nan", "1e5000"] {
        for request in [format!("HINCRBYFLOAT h f {by}"), format!("INCRBYFLOAT n {by}")] {
            assert!(ask(&mut client, &request).starts_with("-ERR"), "{request}");
        }
    }
    assert_eq!(ask(&mut client, "EXISTS h n"), ":0\r\n");
    assert!(ask(&mut client, "ZADD z nan a").starts_with("-ERR"));
    assert_eq!(ask(&mut client, "ZADD z inf a"), ":1\r\n");
    assert!(ask(&mut client, "ZINCRBY z -inf a").starts_with("-ERR resulting score is not a number"));
    for request in ["RENAME k k", "SMOVE s s a", "LMOVE l l LEFT RIGHT", "SUNIONSTORE s s s", "COPY k k"] {
        ask(&mut client, request);
    }
    assert_eq!(ask(&mut client, "GET k"), "$1\r\n2\r\n");
}

#[test]
fn strings_that_are_no_hyperloglog_are_refused() {
    let server = TestServer::new("hostile-registers");
    let mut client = server.client();
    let header = |encoding: u8| [b"HYLL".to_vec(), vec![encoding, 0, 0, 0], vec![0; 7], vec![0x80]].concat();
    let strings = [
        b"HYLL".to_vec(),
        header(0),
        // Runs past the last register: XZERO of 16,384 twice, VAL behind them.
        [header(1), vec![0x7f, 0xff, 0x7f, 0xff]].concat(),
        [header(1), vec![0x7f, 0xff, 0xff]].concat(),
        [header(1), vec![0x7f]].concat(),
        [header(1), vec![0x80; 100_000]].concat(),
        [header(1), vec![]].concat(),
        [header(2), vec![0; 12_288]].concat(),
        [header(0), vec![0xff; 12_287]].concat(),
    ];
    for string in &strings {
        assert_eq!(client.request(&[&b"SET"[..], b"p", string]), b"+OK\r\n");
        for request in ["PFCOUNT p", "PFCOUNT p other", "PFMERGE d p", "PFADD p a"] {
            client.request(&[&b"SET"[..], b"p", string]);
            let reply = ask(&mut client, request);
            let is_refused = reply.starts_with("-WRONGTYPE") || reply.starts_with("-INVALIDOBJ");
            assert!(
                is_refused,
                "{request} of {} answered {reply}",
                string[..20.min(string.len())].escape_ascii()
            );
        }
    }
}

#[test]
fn bytes_of_clients_break_no_line_of_a_reply() {
    let server = TestServer::new("hostile-lines");
    let mut client = server.client();
    let evil = b"x\r\n+OK\r\n$3\r\nfoo\r\n\0".to_vec();
    client.request(&["SET", "s", "v"]);
    for request in [
        &[&evil[..]][..],
        &[&evil[..], &evil],
        &[b"CLIENT", &evil],
        &[b"CLIENT", b"SETNAME", &evil],
        &[b"CLIENT", b"LIST", b"TYPE", &evil],
        &[b"CLIENT", b"KILL", b"USER", &evil],
        &[b"CONFIG", b"SET", &evil, b"1"],
        &[b"CONFIG", b"SET", b"appendfsync", &evil],
        &[b"CONFIG", &evil],
        &[b"HELLO", b"3", &evil],
        &[b"AUTH", &evil, &evil],
        &[b"ACL", b"SETUSER", b"u", &evil],
        &[b"ACL", b"SETUSER", &evil, b"on"],
        &[b"ACL", b"DRYRUN", &evil, b"get", b"a"],
        &[b"ACL", b"CAT", &evil],
        &[b"OBJECT", &evil, b"s"],
        &[b"COMMAND", b"GETKEYS", &evil],
        &[b"EVAL", &[b"return redis.error_reply('", &b"a\\r\\n+OK"[..], b"')"].concat(), b"0"],
        &[b"EVAL", b"return redis.status_reply('a\\r\\n+OK\\r\\n')", b"0"],
        &[b"EVAL", b"return {err = 'a\\r\\nb', ok = 'c\\r\\nd'}", b"0"],
        &[b"EVAL", b"error('a\\r\\n+OK')", b"0"],
        &[b"EVAL", &evil, b"0"],
        &[b"EVALSHA", &evil, b"0"],
        &[b"FCALL", &evil, b"0"],
        &[b"FUNCTION", b"LOAD", &[b"#!", &evil[..]].concat()],
        &[b"XGROUP", b"CREATE", b"s", &evil, b"$"],
        &[b"XREADGROUP", b"GROUP", &evil, b"c", b"STREAMS", b"none", b">"],
        &[b"SET", b"s", b"v", &evil],
        &[b"DEBUG", &evil],
        &[b"PUBSUB", &evil],
    ] {
        let reply = client.request(request);
        let shown = request.iter().map(|part| part.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        assert!(reply.ends_with(b"\r\n"), "{shown}");
        if matches!(reply[0], b'-' | b'+') {
            let line = &reply[..reply.len() - 2];
            assert!(
                !line.iter().any(|byte| matches!(byte, b'\r' | b'\n')),
                "{shown}: {}",
                reply.escape_ascii()
            );
        }
    }
    assert_eq!(client.request(&["GET", "s"]), b"$1\r\nv\r\n");
}
