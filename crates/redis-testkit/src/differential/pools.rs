//! Values for arguments: small ones that commands share, so that they meet, and edges.

use crate::random::Random;

/// Keys by the group of commands that mostly use them. Commands of another group meet them as keys of a wrong
/// type.
static KEYS: [(&str, &[&str]); 9] = [
    ("string", &["string1", "string2", "number", "float"]),
    ("list", &["list1", "list2", "list3"]),
    ("set", &["set1", "set2", "intset"]),
    ("sorted-set", &["zset1", "zset2", "zset3", "lex1", "lex2"]),
    ("hash", &["hash1", "hash2"]),
    ("stream", &["stream1", "stream2"]),
    ("geo", &["geo1", "geo2"]),
    ("hyperloglog", &["hll1", "hll2"]),
    ("bitmap", &["bits1", "bits2"]),
];

/// A key for a command of a group.
pub(super) fn key(random: &mut Random, group: &str) -> Vec<u8> {
    match random.below(40) {
        0 => random.pick(&[&b""[..], b"\x00\xff", b"absent", b"*", b"{tag}a", b"two words"]).to_vec(),
        1..=6 => {
            let (_, keys) = random.pick(&KEYS);
            (*random.pick(keys)).into()
        }
        _ => {
            let own = KEYS.iter().find(|(name, _)| *name == group);
            let keys = own.map_or_else(|| KEYS[random.below(KEYS.len())].1, |(_, keys)| *keys);
            (*random.pick(keys)).into()
        }
    }
}

/// A short string: an element, a member, a field or a value. No two differ only by a zero byte: SORT compares
/// strings to the first one, and equal ones stand in no order.
pub(super) fn element(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0 => b"".to_vec(),
        1 => random
            .pick(&[&b"\x02\x00\x03"[..], b"\xff\xfe", b"a\r\nb", b"a b", b"\"quoted\"", b"\xc3\xa9"])
            .to_vec(),
        2 => vec![*random.pick(b"xyz"); *random.pick(&[44, 45, 64, 65, 300])],
        3 => integer_edge(random),
        4..=9 => (random.below(30) as i64 - 3).to_string().into_bytes(),
        10 => double(random),
        _ => vec![b'a' + random.below(10) as u8],
    }
}

/// An integer, mostly a small one; sometimes no integer at all.
pub(super) fn integer(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=1 => integer_edge(random),
        2 => no_integer(random),
        3..=4 => (random.below(2_000) as i64 - 1_000).to_string().into_bytes(),
        _ => (random.below(14) as i64 - 3).to_string().into_bytes(),
    }
}

/// An integer at the end of a range.
pub(super) fn integer_edge(random: &mut Random) -> Vec<u8> {
    (*random.pick(&[
        "0",
        "-1",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "4294967295",
        "4294967296",
        "4611686018427387904",
        "9007199254740993",
        "9223372036854775806",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775807",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "100000000000000000000000000000",
    ]))
    .into()
}

fn no_integer(random: &mut Random) -> Vec<u8> {
    (*random.pick(&["", "a", "1.5", " 1", "1 ", "+1", "01", "-0", "-", "0x10", "1e3", "nan", "1\x01"])).into()
}

/// A double, mostly a small one; sometimes none at all.
pub(super) fn double(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => random.pick(&["inf", "-inf", "+inf", "Infinity", "nan", "-nan"]).as_bytes().to_vec(),
        1 => random
            .pick(&[
                "1e308",
                "-1e308",
                "1e309",
                "1e-320",
                "5e-324",
                "0x1p3",
                "1.7976931348623157e308",
                "-0",
                "-0.0",
                "9007199254740993",
                "1e17",
                "123456789012345678",
                "3.0000000000000001e3",
            ])
            .as_bytes()
            .to_vec(),
        2 => random.pick(&["", "a", "1.5x", " 1", "1 ", "1,5", "--1", "e5", "."]).as_bytes().to_vec(),
        3..=5 => random.pick(&["0.1", "1.5", "-2.25", "3.14159265358979", "2e2", "1e-5"]).as_bytes().to_vec(),
        _ => (random.below(12) as i64 - 3).to_string().into_bytes(),
    }
}

/// The end of a range of scores or strings.
pub(super) fn bound(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random.pick(&["-inf", "+inf", "(-inf", "(inf"]).as_bytes().to_vec(),
        1 => random.pick(&["-", "+", "[", "(", "[a", "(a", "[e", "(e", "[zz", "a"]).as_bytes().to_vec(),
        2 => [b"(", &double(random)[..]].concat(),
        3 => double(random),
        4 => integer(random),
        5 => random.pick(&["-", "[a", "(b", "[c"]).as_bytes().to_vec(),
        6 => random.pick(&["+", "[d", "(f", "[j"]).as_bytes().to_vec(),
        _ => random.pick(&["-inf", "0", "(1", "3", "+inf"]).as_bytes().to_vec(),
    }
}

/// The id of an entry of a stream, or the end of a range of them.
pub(super) fn stream_id(random: &mut Random) -> Vec<u8> {
    match random.below(16) {
        0 => random.pick(&["-", "+", "$", ">", "*"]).as_bytes().to_vec(),
        1 => {
            random.pick(&["0-0", "0", "0-1", "18446744073709551615-18446744073709551615"]).as_bytes().to_vec()
        }
        2 => {
            random.pick(&["", "a", "1-", "-1", "1-a", "1-2-3", "99999999999999999999-1"]).as_bytes().to_vec()
        }
        3 => format!("({}-{}", random.below(9), random.below(4)).into_bytes(),
        4 => format!("{}-*", random.below(12)).into_bytes(),
        5 => format!("{}", random.below(12)).into_bytes(),
        _ => format!("{}-{}", random.below(9), random.below(4)).into_bytes(),
    }
}

/// A pattern of `KEYS` and others.
pub(super) fn pattern(random: &mut Random) -> Vec<u8> {
    (*random.pick(&["*", "s*", "?", "*1", "[a-f]", "[^a]*", "", "a", "*[12]", "\\*", "[", "h?sh*", "**a**"]))
        .into()
}

/// A relative time to live: past, none, or so long that no test sees its end.
pub(super) fn time_to_live(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => integer_edge(random),
        1 => no_integer(random),
        2 => random.pick(&["0", "-1", "-100"]).as_bytes().to_vec(),
        _ => random.pick(&["100000000", "200000000", "123456789"]).as_bytes().to_vec(),
    }
}

/// An absolute time: past or far away.
pub(super) fn unix_time(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => integer_edge(random),
        1 => no_integer(random),
        2 => random.pick(&["0", "-1", "1", "1000000"]).as_bytes().to_vec(),
        _ => random.pick(&["33000000000", "33000000000000", "33100000000000"]).as_bytes().to_vec(),
    }
}

/// A time to wait for another client, which never comes.
pub(super) fn waiting_time(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => random.pick(&["-1", "a", "", "inf", "nan", "1e400", "-0.5"]).as_bytes().to_vec(),
        _ => b"0.001".to_vec(),
    }
}

/// A longitude or latitude.
pub(super) fn coordinate(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => double(random),
        1 => random.pick(&["180", "-180", "85.05112878", "-85.05112878", "181", "90"]).as_bytes().to_vec(),
        _ => format!("{}.{}", random.below(80) as i64 - 40, random.below(1_000)).into_bytes(),
    }
}
