//! DUMP and RESTORE of streams with groups, consumers and deleted entries.

use crate::redis;
use esker_redis_data::{EncodingLimits, MAX_DECOMPRESSED_BYTES, Value, dump, restore};
use esker_redis_testkit::{Client, ExpectKind, Random};
use esker_resp::value::Value as Reply;

/// Adds, deletes, reads and acknowledges at random.
fn random_stream(server: &mut Client, random: &mut Random) {
    server.words("DEL s");
    server.words("XGROUP CREATE s early 0 MKSTREAM");
    let mut ids: Vec<String> = Vec::new();
    let (mut milliseconds, mut sequence) = (random.next_u64() >> 20, 0u64);
    for step in 0..random.size() * 2 {
        match random.below(10) {
            0 if !ids.is_empty() => {
                let id = &ids[random.below(ids.len())];
                server.words(&format!("XDEL s {id}"));
            }
            1 => {
                let consumer = ["c1", "c2", "another consumer"][random.below(3)];
                let count = random.below(5) + 1;
                let count = count.to_string();
                let words = ["XREADGROUP", "GROUP", "early", consumer, "COUNT", &count, "STREAMS", "s", ">"];
                server.call(&words.map(str::as_bytes));
            }
            2 if !ids.is_empty() => {
                let id = &ids[random.below(ids.len())];
                server.words(&format!("XACK s early {id}"));
            }
            3 if step % 7 == 0 => {
                server.words(&format!("XGROUP CREATE s late{step} $"));
                server.words(&format!("XGROUP CREATECONSUMER s late{step} idle"));
            }
            _ => {
                if random.below(2) == 0 {
                    milliseconds += random.next_u64() >> (30 + random.below(30));
                    sequence = random.next_u64() >> 40;
                }
                sequence += 1;
                let id = format!("{milliseconds}-{sequence}");
                let mut words: Vec<Vec<u8>> = ["XADD", "s", &id].map(|word| word.as_bytes().to_vec()).into();
                for _ in 0..1 + random.below(3) {
                    let field = ["a", "b", "12"][random.below(3)].as_bytes().to_vec();
                    words.extend([field, random.string(3000)]);
                }
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let reply = server.call(&words);
                if !matches!(reply, Reply::Error(_)) {
                    ids.push(id);
                }
            }
        }
    }
}

/// `XINFO STREAM FULL` without what depends on nodes.
fn information(server: &mut Client, key: &str) -> Vec<Reply> {
    let all = server.words(&format!("XINFO STREAM {key} FULL COUNT 0")).array();
    let is_node = |pair: &[Reply]| matches!(&pair[0], Reply::Bulk(name) if name.starts_with(b"radix"));
    all.chunks(2).filter(|pair| !is_node(pair)).flatten().cloned().collect()
}

#[test]
fn streams_pass_from_redis_and_back() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(4);
    for round in 0..200 {
        random_stream(&mut server, &mut random);
        let payload = server.words("DUMP s").bulk();
        let value = restore(&payload, MAX_DECOMPRESSED_BYTES).expect("a stream of Redis restores");
        let Value::Stream(stream) = &value else { panic!("{value:?} is no stream") };
        let entries = server.words("XRANGE s - +").array();
        assert_eq!(stream.entries.len(), entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            let [id, strings] = entry.array().try_into().expect("an id and strings");
            let ours = stream.entries.ids()[index];
            assert_eq!(id.bulk(), format!("{}-{}", ours.milliseconds, ours.sequence).into_bytes());
            let theirs: Vec<Vec<u8>> = strings.array().into_iter().map(Reply::bulk).collect();
            assert!(stream.entries.strings(index).eq(theirs.iter().map(Vec::as_slice)), "round {round}");
        }
        let payload = dump(&value, &EncodingLimits::default());
        assert_eq!(restore(&payload, MAX_DECOMPRESSED_BYTES).as_ref(), Ok(&value), "round {round}");
        let reply = server.call(&[b"RESTORE", b"t", b"0", &payload, b"REPLACE"]);
        assert_eq!(reply, Reply::Status(b"OK".to_vec()), "round {round}");
        assert_eq!(information(&mut server, "s"), information(&mut server, "t"), "round {round}");
        assert_eq!(
            restore(&server.words("DUMP t").bulk(), MAX_DECOMPRESSED_BYTES),
            Ok(value),
            "round {round}"
        );
    }
}
