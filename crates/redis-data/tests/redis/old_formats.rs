//! Encodings that Redis 7.0 reads and no longer writes: ziplists, zipmaps, scores as text, streams without
//! counts.

use crate::hostile::with_footer;
use crate::redis;
use crate::values::normal;
use esker_redis_data::{ListpackBuilder, MAX_DECOMPRESSED_BYTES, Packed, restore};
use esker_redis_testkit::{ExpectKind, Random};
use esker_resp::value::Value as Reply;

/// A type and value in an old encoding.
pub(crate) fn random_body(random: &mut Random) -> Vec<u8> {
    let count = 1 + random.below(12);
    let longest = [10, 100, 20_000][random.below(3)];
    let strings: Vec<Vec<u8>> = (0..count).map(|_| random.string(longest)).collect();
    let pairs: Vec<Vec<u8>> = random
        .distinct(count, longest)
        .into_iter()
        .flat_map(|field| [field, random.string(longest)])
        .collect();
    let scored: Vec<Vec<u8>> = random
        .distinct(count, longest)
        .into_iter()
        .enumerate()
        .flat_map(|(rank, member)| [member, format!("{rank}.5").into_bytes()])
        .collect();
    match random.below(10) {
        0 => plain(1, count, &strings),
        1 => plain(2, count, &random.distinct(count, longest)),
        2 => plain(4, count, &pairs),
        3 => text_scores(&scored),
        4 => packed(9, &zipmap(&pairs)),
        5 => packed(10, &ziplist(&strings)),
        6 => packed(12, &ziplist(&scored)),
        7 => packed(13, &ziplist(&pairs)),
        8 => {
            let mut body = vec![14, 2];
            [&strings, &pairs].iter().for_each(|node| string(&mut body, &ziplist(node)));
            body
        }
        _ => stream(random),
    }
}

fn length(body: &mut Vec<u8>, len: usize) {
    body.push(0x80);
    body.extend_from_slice(&(len as u32).to_be_bytes());
}

fn string(body: &mut Vec<u8>, string: &[u8]) {
    length(body, string.len());
    body.extend_from_slice(string);
}

fn packed(kind: u8, structure: &[u8]) -> Vec<u8> {
    let mut body = vec![kind];
    string(&mut body, structure);
    body
}

fn plain(kind: u8, count: usize, strings: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![kind];
    length(&mut body, count);
    strings.iter().for_each(|element| string(&mut body, element));
    body
}

fn text_scores(scored: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3];
    length(&mut body, scored.len() / 2 + 2);
    for pair in scored.chunks(2) {
        string(&mut body, &pair[0]);
        body.push(pair[1].len() as u8);
        body.extend_from_slice(&pair[1]);
    }
    string(&mut body, b"the highest of all members");
    body.push(254);
    string(&mut body, b"the lowest of all members");
    body.push(255);
    body
}

fn zipmap(pairs: &[Vec<u8>]) -> Vec<u8> {
    let mut map = vec![(pairs.len() / 2) as u8];
    let length = |map: &mut Vec<u8>, len: usize| match len {
        0..=253 => map.push(len as u8),
        _ => {
            map.push(254);
            map.extend_from_slice(&(len as u32).to_le_bytes());
        }
    };
    for pair in pairs.chunks(2) {
        length(&mut map, pair[0].len());
        map.extend_from_slice(&pair[0]);
        length(&mut map, pair[1].len());
        map.push(3);
        map.extend_from_slice(&pair[1]);
        map.extend_from_slice(b"...");
    }
    map.push(0xff);
    map
}

fn ziplist(strings: &[Vec<u8>]) -> Vec<u8> {
    let mut list = vec![0; 10];
    let mut last = 10;
    for element in strings {
        let start = list.len();
        let before = start - last;
        if before < 254 {
            list.push(before as u8);
        } else {
            list.push(254);
            list.extend_from_slice(&(before as u32).to_le_bytes());
        }
        match Packed::of(element) {
            Packed::Integer(number @ 0..=12) => list.push(0xf1 + number as u8),
            Packed::Integer(number) => {
                let (encoding, len) = match number {
                    -0x80..=0x7f => (0xfe, 1),
                    -0x8000..=0x7fff => (0xc0, 2),
                    -0x80_0000..=0x7f_ffff => (0xf0, 3),
                    -0x8000_0000..=0x7fff_ffff => (0xd0, 4),
                    _ => (0xe0, 8),
                };
                list.push(encoding);
                list.extend_from_slice(&number.to_le_bytes()[..len]);
            }
            Packed::String(string) => {
                match string.len() {
                    len @ 0..=63 => list.push(len as u8),
                    len @ 64..=16_383 => list.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
                    len => {
                        list.push(0x80);
                        list.extend_from_slice(&(len as u32).to_be_bytes());
                    }
                }
                list.extend_from_slice(string);
            }
        }
        last = start;
    }
    list.push(0xff);
    let total = (list.len() as u32).to_le_bytes();
    list[..4].copy_from_slice(&total);
    list[4..8].copy_from_slice(&(last as u32).to_le_bytes());
    list[8..10].copy_from_slice(&(strings.len() as u16).to_le_bytes());
    list
}

/// A stream of three entries, one deleted, and a group with two consumers; of either type.
fn stream(random: &mut Random) -> Vec<u8> {
    let counted = random.below(2) == 1;
    let head = [[0; 7], [0; 7]].map(|zeros| [&zeros[..], &[5]].concat()).concat();
    let mut listpack = ListpackBuilder::new();
    let push = |listpack: &mut ListpackBuilder, words: &str| {
        words.split(' ').for_each(|word| listpack.push(Packed::of(word.as_bytes())));
    };
    push(&mut listpack, "2 1 2 name 7 0");
    push(&mut listpack, "2 0 0 Ada 1815 5");
    push(&mut listpack, "3 0 1 gone 1 5");
    push(&mut listpack, "0 2 -5 1 other value 6");
    let mut body = vec![if counted { 19 } else { 15 }, 1];
    string(&mut body, &head);
    string(&mut body, &listpack.finish());
    // Entries, last id.
    body.extend_from_slice(&[2, 9, 1]);
    if counted {
        // First id, largest deleted id, entries added.
        body.extend_from_slice(&[5, 5, 5, 6, 4]);
    }
    body.push(1);
    string(&mut body, b"group");
    body.extend_from_slice(&[7, 0]);
    if counted {
        body.push(3);
    }
    body.push(1);
    body.extend_from_slice(&head);
    body.extend_from_slice(&1234i64.to_le_bytes());
    body.extend_from_slice(&[6, 2]);
    for (consumer, pending) in [(&b"busy"[..], &[&head][..]), (b"idle", &[])] {
        string(&mut body, consumer);
        body.extend_from_slice(&5678i64.to_le_bytes());
        body.push(pending.len() as u8);
        pending.iter().for_each(|id| body.extend_from_slice(id));
    }
    body
}

#[test]
fn old_encodings_are_read_as_redis_reads_them() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(16);
    for round in 0..1500 {
        let payload = with_footer(random_body(&mut random));
        let reply = server.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        let kind = payload[0];
        assert_eq!(reply, Reply::Status(b"OK".to_vec()), "round {round}, type {kind}");
        let ours = restore(&payload, MAX_DECOMPRESSED_BYTES).map(normal);
        let theirs = restore(&server.words("DUMP k").bulk(), MAX_DECOMPRESSED_BYTES).map(normal);
        assert!(ours.is_ok(), "round {round}, type {kind}: {ours:?}");
        assert_eq!(ours, theirs, "round {round}, type {kind}");
    }
}
