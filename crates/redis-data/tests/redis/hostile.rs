//! Payloads with damage behind a right checksum: no panic, no memory, and nothing accepted that Redis
//! refuses.

use crate::old_formats;
use crate::redis;
use crate::values::random_value;
use esker_redis_data::{
    EncodingLimits, ListpackBuilder, MAX_EXPANSION, Packed, RestoreError, Value, crc64, dump, fuzz,
    hyperloglog, restore,
};
use esker_redis_testkit::Random;
use esker_resp::value::Value as Reply;

/// The payload with one to three changes and a checksum that fits.
fn damaged(payload: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = payload[..payload.len() - 10].to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(body.len());
        match random.below(6) {
            0 => body[at] = random.next_u64() as u8,
            1 => body[at] ^= 1 << random.below(8),
            2 => body[at] = [0, 1, 0x7f, 0x80, 0x81, 0xc3, 0xfe, 0xff][random.below(8)],
            3 => drop(body.remove(at)),
            4 => body.insert(at, random.next_u64() as u8),
            _ => body.truncate(at.max(1)),
        }
        if body.is_empty() {
            body.push(0);
        }
    }
    with_footer(body)
}

/// The payload of a type and value.
pub(crate) fn with_footer(mut body: Vec<u8>) -> Vec<u8> {
    body.extend_from_slice(&[10, 0]);
    let checksum = crc64::checksum(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body
}

/// A payload in a new or old encoding, small enough that damage often meets a length.
fn small_payload(random: &mut Random) -> Vec<u8> {
    loop {
        let payload = match random.below(2) {
            0 => dump(&random_value(random), &EncodingLimits::default()),
            _ => with_footer(old_formats::random_body(random)),
        };
        if payload.len() < 1000 {
            return payload;
        }
    }
}

#[test]
fn damaged_payloads_are_refused_where_redis_refuses_them() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(5);
    let mut accepted = 0;
    for round in 0..20_000 {
        let payload = damaged(&small_payload(&mut random), &mut random);
        let Ok(value) = restore(&payload, 1 << 20) else { continue };
        accepted += 1;
        let reply = server.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        let shown = payload.escape_ascii();
        assert_eq!(reply, Reply::Status(b"OK".to_vec()), "round {round}: \"{shown}\" is {value:?} here");
    }
    println!("{accepted} damaged payloads accepted");
    assert!(accepted > 500, "the damage is too heavy to show anything");
}

#[test]
fn targets_of_fuzzers_pass_on_damaged_payloads() {
    let mut random = Random::new(6);
    for _ in 0..20_000 {
        let payload = damaged(&small_payload(&mut random), &mut random);
        fuzz::restore_body(&payload[..payload.len() - 10]);
    }
}

#[test]
fn targets_of_fuzzers_pass_on_damaged_hyperloglogs() {
    let mut random = Random::new(17);
    for _ in 0..5000 {
        let mut string = hyperloglog::empty();
        let elements: Vec<Vec<u8>> = (0..random.below(20)).map(|_| random.string(10)).collect();
        hyperloglog::add(&mut string, elements, hyperloglog::SPARSE_MAX_BYTES).expect("it is new");
        fuzz::hyperloglog(&string);
        for _ in 0..random.below(3) {
            let at = random.below(string.len());
            string[at] = random.next_u64() as u8;
        }
        fuzz::hyperloglog(&string);
    }
}

#[test]
fn memory_stays_a_small_multiple_of_the_payload() {
    let limit = 1 << 16;
    // A million empty strings, a million bytes, and lengths beyond all memory.
    let mut body = vec![1, 0x80, 0, 0x0f, 0x42, 0x40];
    body.resize(body.len() + 1_000_000, 0);
    let payload = with_footer(body);
    let value = restore(&payload, limit).expect("a list of empty strings is a list");
    assert!(value.memory_bytes() <= MAX_EXPANSION * payload.len());
    for kind in 0..=19 {
        for length in [
            &b"\x80\xff\xff\xff\xff"[..],
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xc3\x05\x80\xff\xff\xff\xff",
        ] {
            let body = [&[kind], length, b"hello", length, b"hello"].concat();
            assert!(restore(&with_footer(body), usize::MAX).is_err(), "type {kind}");
        }
    }
}

#[test]
fn footers_are_checked_first() {
    let payload = dump(&Value::String(b"x".to_vec()), &EncodingLimits::default());
    for at in 0..payload.len() {
        let mut damaged = payload.clone();
        damaged[at] ^= 0x10;
        let error = restore(&damaged, 0).expect_err("every byte is summed");
        assert_eq!(error.redis_text(), "DUMP payload version or checksum are wrong");
        assert!(restore(&payload[..at], 0).is_err());
    }
}

#[test]
fn a_long_field_that_many_entries_share_counts_for_each() {
    let mut listpack = ListpackBuilder::new();
    let field = vec![b'f'; 10_000];
    [1000, 0, 1].iter().for_each(|&number| listpack.push(Packed::Integer(number)));
    listpack.push(Packed::String(&field));
    listpack.push(Packed::Integer(0));
    for sequence in 0..1000 {
        [2, 0, sequence, 1, 4].iter().for_each(|&number| listpack.push(Packed::Integer(number)));
    }
    let listpack = listpack.finish();
    let mut body = vec![15, 1, 16];
    body.extend_from_slice(&[0; 16]);
    body.push(0x80);
    body.extend_from_slice(&(listpack.len() as u32).to_be_bytes());
    body.extend_from_slice(&listpack);
    // A thousand entries, last id, no groups.
    body.extend_from_slice(&[0x43, 0xe8, 9, 9, 0]);
    let payload = with_footer(body);
    let limit = RestoreError::TooLarge { max_decompressed_bytes: 9_999_999 };
    assert_eq!(restore(&payload, 9_999_999), Err(limit));
    assert!(restore(&payload, 10_000_000).is_ok());
}
