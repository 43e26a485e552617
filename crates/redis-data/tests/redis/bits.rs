//! Bit operations and LCS against the server.

use crate::redis;
use esker_redis_data::bits::{
    self, BitOperation, BitUnit, FieldType, Overflow, get_field, increment_field, parse_offset, set_field,
};
use esker_redis_data::lcs;
use esker_redis_testkit::{ExpectKind, Random};
use esker_resp::value::Value as Reply;

/// Bytes of many equal bits, so that searches pass whole bytes.
fn bytes(random: &mut Random, longest: usize) -> Vec<u8> {
    (0..random.below(longest + 1))
        .map(|_| [0, 0xff, 0xff, random.next_u64() as u8][random.below(4)])
        .collect()
}

#[test]
fn counts_and_positions_are_those_of_redis() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(9);
    for _ in 0..6000 {
        let mut string = bytes(&mut random, 30);
        string.push(random.next_u64() as u8);
        server.call(&[b"SET", b"k", &string]);
        let edges = [i64::MIN, i64::MAX, -1, 0];
        let mut end =
            || if random.below(8) == 0 { edges[random.below(4)] } else { random.below(500) as i64 - 250 };
        let (start, end) = (end(), end());
        let (unit, word) = [(BitUnit::Byte, "BYTE"), (BitUnit::Bit, "BIT")][random.below(2)];
        let command = format!("BITCOUNT k {start} {end} {word}");
        let ours = bits::count(&string, start, end, unit) as i64;
        assert_eq!(server.words(&command), Reply::Integer(ours), "{command} of {string:?}");

        let bit = random.below(2);
        let with_end = random.below(3) > 0;
        let command = match with_end {
            true => format!("BITPOS k {bit} {start} {end} {word}"),
            false => format!("BITPOS k {bit} {start}"),
        };
        let unit = if with_end { unit } else { BitUnit::Byte };
        let ours = bits::position(&string, bit == 1, start, with_end.then_some(end), unit);
        let ours = ours.map_or(-1, |position| position as i64);
        assert_eq!(server.words(&command), Reply::Integer(ours), "{command} of {string:?}");
    }
}

#[test]
fn combinations_are_those_of_redis() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(10);
    for _ in 0..1000 {
        let (operation, word) = [
            (BitOperation::And, "AND"),
            (BitOperation::Or, "OR"),
            (BitOperation::Xor, "XOR"),
            (BitOperation::Not, "NOT"),
        ][random.below(4)];
        let count = if operation == BitOperation::Not { 1 } else { 1 + random.below(4) };
        let strings: Vec<Vec<u8>> = (0..count).map(|_| bytes(&mut random, 100)).collect();
        let mut command = format!("BITOP {word} result");
        for (at, string) in strings.iter().enumerate() {
            server.call(&[b"SET", format!("k{at}").as_bytes(), string]);
            command += &format!(" k{at}");
        }
        server.words("DEL result");
        server.words(&command);
        let theirs = server.words("GET result");
        let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let ours = bits::combine(operation, &strings);
        assert_eq!(theirs, if ours.is_empty() { Reply::NullBulk } else { Reply::Bulk(ours) });
    }
}

#[test]
fn fields_are_those_of_redis() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(11);
    let mut string = Vec::new();
    for _ in 0..15_000 {
        if random.below(50) == 0 {
            string.clear();
            server.words("DEL k");
        }
        let word =
            format!("{}{}", ["i", "u"][random.below(2)], [random.below(66), 63, 64, 1][random.below(4)]);
        let hash = ["", "#"][random.below(2)];
        let offset_word = format!("{hash}{}", random.below(20));
        let value = match random.below(4) {
            0 => [i64::MIN, i64::MAX, -1, 0][random.below(4)],
            _ => random.integer(),
        };
        let (overflow, overflow_word) =
            [(Overflow::Wrap, "WRAP"), (Overflow::Saturate, "SAT"), (Overflow::Fail, "FAIL")]
                [random.below(3)];
        let (kind, tail) =
            [("GET", String::new()), ("SET", format!(" {value}")), ("INCRBY", format!(" {value}"))]
                [random.below(3)]
            .clone();
        let command = format!("BITFIELD k OVERFLOW {overflow_word} {kind} {word} {offset_word}{tail}");
        let theirs = server.words(&command);
        let Some(field) = FieldType::parse(word.as_bytes()) else {
            assert!(matches!(theirs, Reply::Error(_)), "{command}");
            continue;
        };
        let offset = parse_offset(offset_word.as_bytes(), field, 1 << 29).expect("it is small");
        let ours = match kind {
            "GET" => Some(get_field(&string, offset, field)),
            "SET" => set_field(&mut string, offset, field, value, overflow),
            _ => increment_field(&mut string, offset, field, value, overflow),
        };
        assert_eq!(theirs, Reply::Array(vec![ours.map_or(Reply::NullBulk, Reply::Integer)]), "{command}");
        if !string.is_empty() {
            assert_eq!(server.words("GET k"), Reply::Bulk(string.clone()), "{command}");
        }
    }
}

#[test]
fn offsets_past_the_largest_string_are_refused() {
    let field = FieldType::parse(b"i64").expect("a type");
    for word in
        ["-1", "#-1", "4294967296", "#67108864", "#9223372036854775807", "9223372036854775808", "", "#", "1x"]
    {
        assert_eq!(parse_offset(word.as_bytes(), field, 512 << 20), None, "{word}");
    }
    assert_eq!(parse_offset(b"4294967295", field, 512 << 20), Some(u64::from(u32::MAX)));
}

#[test]
fn subsequences_are_those_of_redis() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(12);
    for _ in 0..1500 {
        let letters = 1 + random.below(6);
        let mut string =
            || (0..random.below(60)).map(|_| b'a' + random.below(letters) as u8).collect::<Vec<u8>>();
        let (a, b) = (string(), string());
        server.call(&[b"MSET", b"a", &a, b"b", &b]);
        let ours = lcs::find(&a, &b).expect("short");
        assert_eq!(server.words("LCS a b"), Reply::Bulk(ours.subsequence.clone()));
        assert_eq!(server.words("LCS a b LEN"), Reply::Integer(ours.subsequence.len() as i64));
        assert_eq!(lcs::length(&a, &b), Ok(ours.subsequence.len()));
        let range = |range: &std::ops::Range<usize>| {
            Reply::Array(vec![Reply::Integer(range.start as i64), Reply::Integer(range.end as i64 - 1)])
        };
        let matches = ours
            .matches
            .iter()
            .map(|stretch| Reply::Array(vec![range(&stretch.first), range(&stretch.second)]));
        let theirs = server.words("LCS a b IDX").array();
        assert_eq!(theirs[1], Reply::Array(matches.collect()), "{} {}", a.escape_ascii(), b.escape_ascii());
    }
}

#[test]
fn strings_of_64_kib_are_refused_before_any_work() {
    let long = vec![0; 64 << 10];
    assert_eq!(lcs::find(&long, &long), Err(lcs::LcsTooLong { cells: 1 << 32 }));
    assert!(lcs::length(&long, &long).is_err());
    assert_eq!(lcs::length(&long, &long[..1024]), Ok(1024));
}
