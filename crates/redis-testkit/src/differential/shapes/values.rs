//! Requests about values: several operations at once, payloads, groups of streams, sorting.

use super::creation::creations;
use crate::differential::pools::{element, integer, key, stream_id};
use crate::differential::request::{Request, arguments, words};
use crate::random::Random;

/// BITFIELD with several operations.
pub(super) fn bit_fields(random: &mut Random) -> Vec<Request> {
    let mut request =
        arguments(&[random.choose(&["BITFIELD", "BITFIELD", "BITFIELD_RO"])], &[key(random, "bitmap")]);
    for _ in 0..1 + random.below(4) {
        let encoding = format!("{}{}", random.choose(&["i", "u"]), 1 + random.below(64));
        let offset = format!("{}{}", random.choose(&["", "#"]), random.below(40));
        let value = integer(random);
        request.extend(match random.below(4) {
            0 => arguments(&["GET", &encoding, &offset], &[]),
            1 => arguments(&["SET", &encoding, &offset], &[value]),
            2 => arguments(&["INCRBY", &encoding, &offset], &[value]),
            _ => arguments(&["OVERFLOW", random.choose(&["WRAP", "SAT", "FAIL", "NONE"])], &[]),
        });
    }
    vec![request]
}

/// LCS of short strings, and of keys that may have another type.
pub(super) fn lcs(random: &mut Random) -> Vec<Request> {
    let strings = [random.bytes(b"abcd", 30), random.bytes(b"abcd", 30)];
    let set =
        arguments(&["MSET"], &[b"lcs1".to_vec(), strings[0].clone(), b"lcs2".to_vec(), strings[1].clone()]);
    let with = *random.pick(&[
        "",
        "LEN",
        "IDX",
        "IDX WITHMATCHLEN",
        "IDX MINMATCHLEN 2",
        "LEN IDX",
        "X",
        "MINMATCHLEN",
    ]);
    let other = *random.pick(&["lcs2", "lcs2", "lcs2", "list1", "absent"]);
    vec![set, words(&format!("LCS lcs1 {other} {with}")), words("DEL lcs1 lcs2")]
}

/// SORT by itself, by other keys, with GET and STORE.
pub(super) fn sorts(random: &mut Random) -> Vec<Request> {
    let group = *random.pick(&["list", "list", "set", "sorted-set", "string"]);
    let mut request = arguments(&[random.choose(&["SORT", "SORT", "SORT_RO"])], &[key(random, group)]);
    for option in ["LIMIT 0 3", "LIMIT 1 -1", "ASC", "DESC", "ALPHA", "GET #", "GET weight_*", "GET hash1->*"]
    {
        if random.once_in(4) {
            request.extend(words(option));
        }
    }
    if random.once_in(4) {
        request.extend(words(random.choose(&["BY weight_*", "BY hash1->*", "BY nosort", "BY w_*->f"])));
    }
    if random.once_in(5) {
        request.extend(arguments(&["STORE"], &[key(random, "list")]));
    }
    vec![words("MSET weight_1 3 weight_2 1 weight_a 2 weight_3 x"), request]
}

/// A stream with groups, so that reads by consumers find entries.
pub(super) fn groups(random: &mut Random) -> Vec<Request> {
    let stream = key(random, "stream");
    let mut requests = vec![
        arguments(
            &["XADD"],
            &[stream.clone(), format!("{}-*", random.below(9)).into(), element(random), element(random)],
        ),
        arguments(
            &["XGROUP", "CREATE"],
            &[stream.clone(), b"g1".to_vec(), stream_id(random), b"MKSTREAM".to_vec()],
        ),
    ];
    for _ in 0..random.below(4) {
        let consumer = format!("c{}", 1 + random.below(3));
        requests.push(match random.below(8) {
            0 => arguments(&["XACK"], &[stream.clone(), b"g1".to_vec(), stream_id(random)]),
            1 => arguments(&["XPENDING"], &[stream.clone(), b"g1".to_vec()]),
            2 => arguments(
                &["XPENDING"],
                &[stream.clone(), b"g1".to_vec(), b"-".to_vec(), b"+".to_vec(), b"9".to_vec()],
            ),
            3 => arguments(
                &["XAUTOCLAIM"],
                &[stream.clone(), b"g1".to_vec(), consumer.into(), b"0".to_vec(), b"0".to_vec()],
            ),
            4 => arguments(&["XINFO", "STREAM"], &[stream.clone(), b"FULL".to_vec()]),
            5 => arguments(&["XDEL"], &[stream.clone(), stream_id(random)]),
            6 => arguments(&["XADD"], &[stream.clone(), b"*".to_vec(), b"f".to_vec(), element(random)]),
            _ => arguments(
                &["XREADGROUP", "GROUP", "g1", &consumer, "STREAMS"],
                &[stream.clone(), b">".to_vec()],
            ),
        });
    }
    requests
}

/// Questions about keys and commands.
pub(super) fn introspection(random: &mut Random) -> Vec<Request> {
    let (name, _) = *random.pick(&[
        ("string", 0),
        ("list", 0),
        ("set", 0),
        ("sorted-set", 0),
        ("hash", 0),
        ("stream", 0),
    ]);
    let key = key(random, name);
    vec![match random.below(10) {
        0..=4 => arguments(&["OBJECT", "ENCODING"], &[key]),
        5 => arguments(&["TYPE"], &[key]),
        6 => arguments(&["OBJECT", "REFCOUNT"], &[key]),
        7 => arguments(&["COMMAND", "GETKEYS", "MSET"], &[key, element(random), element(random)]),
        8 => arguments(
            &["COMMAND", "GETKEYSANDFLAGS", "LMOVE"],
            &[key.clone(), key, b"left".to_vec(), b"right".to_vec()],
        ),
        _ => arguments(
            &["COMMAND", "INFO"],
            &[random.choose(&["get", "nosuch", "zadd", "xread"]).as_bytes().to_vec()],
        ),
    }]
}

/// RESTORE of payloads that are right, and of damaged ones.
pub(super) fn restores(random: &mut Random) -> Vec<Request> {
    // Of `SET k hello`, `RPUSH l a b`, `ZADD z 1 a 2.5 b`, `HSET h f v`, `SADD i 1 2`, by Redis 7.0.15.
    let right: [&[u8]; 5] = [
        b"\x00\x05hello\x0a\x00\x63\x72\xdf\x76\x65\x34\x20\x0a",
        b"\x12\x01\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x0a\x00\x68\xeb\x0a\x89\x13\x41\xbb\xb1",
        b"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x83\x32\x2e\x35\x04\xff\x0a\x00\xd4\x4c\x6e\xa4\xf6\x44\xd9\xd7",
        b"\x10\x0d\x0d\x00\x00\x00\x02\x00\x81f\x02\x81v\x02\xff\x0a\x00\x20\xf1\x3d\x44\x23\x54\x08\x9d",
        b"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00\x0a\x00\x6f\x79\x38\xb1\x34\xeb\x20\x2e",
    ];
    let right = random.choose(&right);
    let mut payload = right.to_vec();
    if random.once_in(2) {
        random.mutate(&mut payload);
    }
    // The checksum does not see zero bytes before the payload, and Redis reads a string that begins so on
    // into the footer: that is refused here.
    let zeros = |bytes: &[u8]| bytes.iter().take_while(|byte| **byte == 0).count();
    if payload[zeros(&payload)..] == right[zeros(right)..] {
        payload = right.to_vec();
    }
    let options: &[&str] = random.choose(&[
        &[][..],
        &["REPLACE"],
        &["ABSTTL"],
        &["REPLACE", "IDLETIME", "5"],
        &["FREQ", "300"],
        &["X"],
    ]);
    let time = random.choose(&["0", "0", "0", "-1", "100000000", "a", "33000000000000"]);
    let mut request = arguments(&["RESTORE"], &[key(random, "string"), time.as_bytes().to_vec(), payload]);
    request.extend(options.iter().map(|option| option.as_bytes().to_vec()));
    vec![request]
}

/// A key that ends within a millisecond.
pub(super) fn soon_expired(random: &mut Random) -> Vec<Request> {
    if !random.once_in(20) {
        return creations(random);
    }
    let group = *random.pick(&["string", "list", "set", "sorted-set", "hash", "stream"]);
    vec![arguments(&["PEXPIRE"], &[key(random, group), b"1".to_vec()])]
}
