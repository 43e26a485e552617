//! DUMP and RESTORE of everything but streams, both ways.

use crate::redis;
use crate::values::{normal, random_value, store};
use esker_redis_data::{EncodingLimits, MAX_DECOMPRESSED_BYTES, Value, dump, restore};
use esker_redis_testkit::{Client, ExpectKind, Random};
use esker_resp::value::Value as Reply;

fn ours(payload: &[u8]) -> Value {
    normal(restore(payload, MAX_DECOMPRESSED_BYTES).expect("a payload of Redis restores"))
}

#[test]
fn values_pass_from_redis_and_back() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(1);
    for round in 0..1500 {
        let value = random_value(&mut random);
        store(&mut server, b"theirs", &value);
        let value = normal(value);
        let payload = server.call(&[b"DUMP", b"theirs"]).bulk();
        assert_eq!(ours(&payload), value, "round {round}: what Redis dumps restores here");

        let payload = dump(&value, &EncodingLimits::default());
        assert_eq!(ours(&payload), value, "round {round}: what is dumped here restores here");
        let reply = server.call(&[b"RESTORE", b"ours", b"0", &payload, b"REPLACE"]);
        assert_eq!(reply, Reply::Status(b"OK".to_vec()), "round {round}: {value:?}");
        let encoding = |server: &mut Client, key: &[u8]| server.call(&[b"OBJECT", b"ENCODING", key]);
        assert_eq!(encoding(&mut server, b"ours"), encoding(&mut server, b"theirs"), "round {round}");
        let payload = server.call(&[b"DUMP", b"ours"]).bulk();
        assert_eq!(ours(&payload), value, "round {round}: what Redis restored it has");
    }
}

#[test]
fn a_packed_sorted_set_is_in_the_order_that_redis_seeks_in() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(2);
    for _ in 0..50 {
        let Value::SortedSet(set) = random_value(&mut random) else { continue };
        let payload = dump(&Value::SortedSet(set.clone()), &EncodingLimits::default());
        server.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        let ranks = server.words("ZRANGE k 0 -1").array();
        for (rank, member) in ranks.into_iter().enumerate() {
            assert_eq!(server.call(&[b"ZRANK", b"k", &member.bulk()]), Reply::Integer(rank as i64));
        }
    }
}

#[test]
fn large_limits_pack_what_redis_unpacks() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let limits = EncodingLimits {
        hash_max_listpack_entries: 100_000,
        hash_max_listpack_value: 1 << 20,
        zset_max_listpack_entries: 100_000,
        zset_max_listpack_value: 1 << 20,
        set_max_intset_entries: 100_000,
        list_node_bytes: 1 << 20,
        stream_node_max_bytes: 1 << 20,
        stream_node_max_entries: 100_000,
    };
    let mut random = Random::new(3);
    for _ in 0..200 {
        let value = normal(random_value(&mut random));
        let payload = dump(&value, &limits);
        let reply = server.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        assert_eq!(reply, Reply::Status(b"OK".to_vec()));
        assert_eq!(ours(&server.call(&[b"DUMP", b"k"]).bulk()), value);
    }
}
