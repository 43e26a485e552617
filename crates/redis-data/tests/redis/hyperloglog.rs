//! HyperLogLogs byte for byte.

use crate::redis;
use esker_redis_data::hyperloglog::{self, HyperLogLogError, SPARSE_MAX_BYTES};
use esker_redis_testkit::{Client, ExpectKind, Random};
use esker_resp::value::Value as Reply;

fn get(server: &mut Client, key: &str) -> Vec<u8> {
    server.words(&format!("GET {key}")).bulk()
}

/// Adds random elements to the string of both.
fn add(server: &mut Client, random: &mut Random, key: &str, ours: &mut Vec<u8>, universe: usize) {
    let elements: Vec<Vec<u8>> =
        (0..random.below(30)).map(|_| random.below(universe).to_string().into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"PFADD", key.as_bytes()];
    words.extend(elements.iter().map(Vec::as_slice));
    let theirs = server.call(&words) == Reply::Integer(1);
    assert_eq!(hyperloglog::add(ours, &elements, SPARSE_MAX_BYTES), Ok(theirs));
}

#[test]
fn strings_are_those_of_redis_after_any_sequence_of_commands() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(7);
    let keys = ["a", "b", "c"];
    for round in 0..30 {
        server.words("DEL a b c");
        let mut ours: Vec<Vec<u8>> = keys.map(|_| hyperloglog::empty()).into();
        keys.iter().for_each(|key| drop(server.words(&format!("PFADD {key}"))));
        // PFADD makes a key with a cardinality that is out of date.
        ours.iter_mut().for_each(|string| string[15] |= 0x80);
        let universe = 1 << (4 + random.below(16));
        for step in 0..200 {
            let at = random.below(keys.len());
            match random.below(12) {
                0 => {
                    let theirs = server.words(&format!("PFCOUNT {}", keys[at])).integer();
                    assert_eq!(hyperloglog::count(&mut ours[at]), Ok(theirs as u64), "round {round}, {step}");
                }
                1 => {
                    let theirs = server.words("PFCOUNT a b c").integer();
                    let union = hyperloglog::count_union(ours.iter().map(Vec::as_slice));
                    assert_eq!(union, Ok(theirs as u64), "round {round}, {step}");
                }
                2 if random.below(8) == 0 => {
                    server.words(&format!("PFMERGE {} b c", keys[at]));
                    let sources = [ours[1].clone(), ours[2].clone()];
                    let merged = hyperloglog::merge(
                        Some(&ours[at]),
                        sources.iter().map(Vec::as_slice),
                        SPARSE_MAX_BYTES,
                    );
                    ours[at] = merged.expect("all are whole");
                }
                _ => add(&mut server, &mut random, keys[at], &mut ours[at], universe),
            }
            assert!(get(&mut server, keys[at]) == ours[at], "round {round}, step {step}: the bytes differ");
        }
    }
}

#[test]
fn made_up_strings_are_refused_as_redis_refuses_them() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(8);
    server.words("PFADD k a b c d e f g h");
    let whole = get(&mut server, "k");
    for _ in 0..3000 {
        let mut string = whole.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(string.len());
            match random.below(4) {
                0 => string.push(random.next_u64() as u8),
                1 => string.truncate(at.max(1)),
                _ => string[at] = random.next_u64() as u8,
            }
        }
        server.call(&[b"SET", b"k", &string]);
        let theirs = server.words("PFCOUNT k other");
        match hyperloglog::count_union([&*string]) {
            Ok(count) => assert_eq!(theirs, Reply::Integer(count as i64), "{}", string.escape_ascii()),
            Err(error) => {
                let Reply::Error(text) = theirs else {
                    // Redis reads a zero behind a string that ends within a code.
                    assert!(error == HyperLogLogError::Corrupt, "{}", string.escape_ascii());
                    continue;
                };
                assert_eq!(String::from_utf8_lossy(&text), error.to_string());
            }
        }
        let mut added = string.clone();
        if hyperloglog::add(&mut added, ["x"], SPARSE_MAX_BYTES).is_err() {
            assert_eq!(added, string);
        }
    }
}

#[test]
fn runs_beyond_the_last_register_are_refused() {
    // Each code alone covers all registers, and a value follows: where registers are counted in place, it is
    // written behind them.
    let header = &hyperloglog::empty()[..16];
    for codes in [&b"\x7f\xff\x80"[..], b"\x7f\xfe\x81", b"\x7f\xff\x7f\xff", b"\x7f", b"\x7f\xfe", b""] {
        let mut string = [header, codes].concat();
        let error = Err(HyperLogLogError::Corrupt);
        assert_eq!(hyperloglog::check(&string), Err(HyperLogLogError::Corrupt), "{codes:?}");
        assert_eq!(hyperloglog::count_union([&*string]), Err(HyperLogLogError::Corrupt));
        assert_eq!(hyperloglog::merge(None, [&*string], 3000), Err(HyperLogLogError::Corrupt));
        assert_eq!(hyperloglog::add(&mut string, ["x"], 3000), error);
    }
}
