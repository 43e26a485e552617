//! Hashes and sets as clients see them, where Redis itself answers at random or in an order of its own: large
//! ones, picks, scans, operations on several sets, and hostile arguments.

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::{ExpectKind, Random};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;
use std::collections::{BTreeMap, BTreeSet};

fn call<A: AsRef<[u8]>>(client: &mut LocalClient<'_>, arguments: &[A]) -> Value {
    let reply = client.request(arguments);
    ReplyParser::default().parse(&reply).expect("it is a reply").reply.expect("it is whole")
}

/// A request of words without spaces in them.
fn words(client: &mut LocalClient<'_>, request: &str) -> Value {
    call(client, &request.split(' ').collect::<Vec<_>>())
}

fn error(client: &mut LocalClient<'_>, request: &str) -> String {
    match words(client, request) {
        Value::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{request}: {other:?}"),
    }
}

fn strings(value: Value) -> Vec<Vec<u8>> {
    value.array().into_iter().map(ExpectKind::bulk).collect()
}

/// Adds members that come from numbers.
fn add(client: &mut LocalClient<'_>, key: &str, members: impl Iterator<Item = String>) {
    let members: Vec<String> = members.collect();
    for some in members.chunks(1000) {
        let request: Vec<&str> = ["SADD", key].into_iter().chain(some.iter().map(String::as_str)).collect();
        call(client, &request);
    }
}

/// Fails if counts of equally likely outcomes differ more than once in 10^9 runs.
fn assert_uniform(what: &str, outcomes: usize, counts: &BTreeMap<Vec<u8>, u64>) {
    assert_eq!(counts.len(), outcomes, "{what}: every outcome is met");
    let total: u64 = counts.values().sum();
    let expected = total as f64 / outcomes as f64;
    let chi_square: f64 = counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    // Its mean is the number of outcomes less one, its variance twice that.
    let freedom = (outcomes - 1) as f64;
    let most = freedom + 7.0 * (2.0 * freedom).sqrt() + 40.0;
    assert!(chi_square < most, "{what}: chi-square {chi_square:.0} of {freedom}");
}

#[test]
fn picks_are_uniform_in_every_layout() {
    let server = TestServer::new("uniform");
    let mut client = server.client();
    add(&mut client, "integers", (0..100).map(|n| n.to_string()));
    add(&mut client, "strings", (0..60).map(|n| format!("m{n}")));
    add(&mut client, "elements", (0..600).map(|n| format!("member:{n}")));
    for (key, len) in [("integers", 100), ("strings", 60), ("elements", 600)] {
        let mut one = BTreeMap::new();
        for _ in 0..30 * len {
            *one.entry(words(&mut client, &format!("SRANDMEMBER {key}")).bulk()).or_insert(0) += 1;
        }
        assert_uniform(key, len, &one);
        // Few are picked one by one, many are found by a walk.
        for count in [2, len / 2] {
            let (mut repeated, mut different) = (BTreeMap::new(), BTreeMap::new());
            for _ in 0..(20 * len / count) {
                for member in strings(words(&mut client, &format!("SRANDMEMBER {key} -{count}"))) {
                    *repeated.entry(member).or_insert(0) += 1;
                }
                let members = strings(words(&mut client, &format!("SRANDMEMBER {key} {count}")));
                assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), count, "all are different");
                for member in members {
                    *different.entry(member).or_insert(0) += 1;
                }
            }
            assert_uniform(key, len, &repeated);
            assert_uniform(key, len, &different);
        }
    }
}

#[test]
fn what_is_popped_is_gone_and_was_there_once() {
    let server = TestServer::new("pop");
    let mut client = server.client();
    for (len, prefix) in [(100, ""), (100, "m"), (3000, "member:")] {
        let mut left: BTreeSet<Vec<u8>> = (0..len).map(|n| format!("{prefix}{n}").into_bytes()).collect();
        add(&mut client, "set", (0..len).map(|n| format!("{prefix}{n}")));
        for count in [1, 3, len / 3] {
            let popped = strings(words(&mut client, &format!("SPOP set {count}")));
            assert_eq!(popped.len(), count);
            popped.iter().for_each(|member| assert!(left.remove(member), "{}", member.escape_ascii()));
        }
        assert!(left.remove(&words(&mut client, "SPOP set").bulk()));
        assert_eq!(words(&mut client, "SCARD set").integer(), left.len() as i64);
        let rest: BTreeSet<_> =
            strings(words(&mut client, "SPOP set 9223372036854775807")).into_iter().collect();
        assert_eq!(rest, left);
        assert_eq!(server.store_keys(0), 0);
    }
}

#[test]
fn a_scan_meets_what_stays_whatever_comes_and_goes() {
    let server = TestServer::new("hscan");
    let mut client = server.client();
    let mut random = Random::new(3);
    for len in [0, 100, 2000] {
        words(&mut client, "HSET hash seed 1");
        let stays: BTreeSet<Vec<u8>> = (0..len).map(|n| format!("stays:{n}").into_bytes()).collect();
        for field in &stays {
            call(&mut client, &[b"HSET", &b"hash"[..], field, b"value"]);
        }
        let (mut cursor, mut met, mut steps) = (b"0".to_vec(), BTreeSet::new(), 0);
        loop {
            let count = 1 + random.below(60);
            let request =
                ["HSCAN", "hash", std::str::from_utf8(&cursor).expect("digits"), "COUNT", &count.to_string()];
            let Value::Array(mut reply) = call(&mut client, &request) else { panic!("HSCAN") };
            let items = strings(reply.pop().expect("two"));
            cursor = reply.pop().expect("two").bulk();
            assert!(items.len() <= 2 * count || len <= 100, "a step is as long as asked for");
            met.extend(items.chunks(2).map(|pair| pair[0].clone()));
            steps += 1;
            if cursor == b"0" {
                break;
            }
            for _ in 0..20 {
                let passing = format!("passing:{}", random.below(200));
                let command = if random.once_in(2) { "HSET" } else { "HDEL" };
                let mut request = vec![command, "hash", &passing];
                if command == "HSET" {
                    request.push("value");
                }
                call(&mut client, &request);
            }
        }
        assert!(stays.is_subset(&met), "{len} fields");
        assert!(len < 2000 || steps > 20);
        words(&mut client, "SPOP none");
    }
}

#[test]
fn operations_on_large_sets_are_those_of_sets() {
    let server = TestServer::new("algebra");
    let mut client = server.client();
    let mut random = Random::new(4);
    // Beyond one range of hashes of a union, packed, of integers, and absent.
    let sizes = [("a", 9000), ("b", 3000), ("c", 40), ("d", 300), ("none", 0)];
    let mut model: BTreeMap<&str, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (key, len) in sizes {
        let members: BTreeSet<Vec<u8>> =
            (0..len).map(|_| random.below(12_000).to_string().into_bytes()).collect();
        add(&mut client, key, members.iter().map(|member| String::from_utf8_lossy(member).into_owned()));
        model.insert(key, members);
    }
    let keys: Vec<&str> = model.keys().copied().collect();
    for _ in 0..60 {
        let chosen: Vec<&str> = (0..1 + random.below(4)).map(|_| *random.pick(&keys)).collect();
        let sets: Vec<&BTreeSet<Vec<u8>>> = chosen.iter().map(|key| &model[key]).collect();
        let all: BTreeSet<_> = sets.iter().flat_map(|set| set.iter().cloned()).collect();
        let (first, others) = sets.split_first().expect("one at least");
        let common: BTreeSet<_> =
            first.iter().filter(|member| others.iter().all(|set| set.contains(*member))).cloned().collect();
        let rest: BTreeSet<_> =
            first.iter().filter(|member| !others.iter().any(|set| set.contains(*member))).cloned().collect();
        for (name, wanted) in [("SUNION", &all), ("SINTER", &common), ("SDIFF", &rest)] {
            let names = chosen.join(" ");
            let found = strings(words(&mut client, &format!("{name} {names}")));
            assert_eq!(found.len(), wanted.len(), "{name} {names}: each once");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), *wanted, "{name} {names}");
            let stored = words(&mut client, &format!("{name}STORE target {names}")).integer();
            assert_eq!(stored as usize, wanted.len());
            let members: BTreeSet<_> = strings(words(&mut client, "SMEMBERS target")).into_iter().collect();
            assert_eq!(members, *wanted);
        }
        let limit = 1 + random.below(200);
        let names = format!("SINTERCARD {} {} LIMIT {limit}", chosen.len(), chosen.join(" "));
        assert_eq!(words(&mut client, &names).integer() as usize, common.len().min(limit));
    }
    // The target may be a source.
    let wanted = &model["a"] - &model["b"];
    assert_eq!(words(&mut client, "SDIFFSTORE a a b").integer() as usize, wanted.len());
    assert_eq!(strings(words(&mut client, "SMEMBERS a")).into_iter().collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn small_values_keep_the_order_of_redis() {
    let server = TestServer::new("order");
    let mut client = server.client();
    words(&mut client, "HSET hash b 1 a 2 c 3");
    words(&mut client, "HSET hash b 4 0 5");
    words(&mut client, "HDEL hash a");
    assert_eq!(strings(words(&mut client, "HKEYS hash")), [b"b", b"c", b"0"]);
    assert_eq!(strings(words(&mut client, "HVALS hash")), [b"4", b"3", b"5"]);
    add(&mut client, "set", (0..512).rev().map(|n| (n * 70_000_000_000_i64).to_string()));
    let wanted: Vec<Vec<u8>> = (0..512).map(|n| (n * 70_000_000_000_i64).to_string().into_bytes()).collect();
    assert_eq!(strings(words(&mut client, "SMEMBERS set")), wanted);
    words(&mut client, "SADD other 5 -1 100");
    assert_eq!(strings(words(&mut client, "SUNION other other")), [&b"-1"[..], b"5", b"100"]);
}

#[test]
fn encodings_are_those_of_redis_whatever_the_layout_is() {
    let server = TestServer::new("encoding");
    let mut client = server.client();
    let mut encoding = |requests: &[&str], key: &str| {
        requests.iter().for_each(|request| drop(words(&mut client, request)));
        words(&mut client, &format!("OBJECT ENCODING {key}")).bulk()
    };
    let long = format!("HSET hash f {}", "x".repeat(65));
    assert_eq!(encoding(&["HSET hash f 1"], "hash"), b"listpack");
    assert_eq!(encoding(&[&long, "HSET hash f 1"], "hash"), b"hashtable");
    assert_eq!(encoding(&["SADD set 1"], "set"), b"intset");
    assert_eq!(encoding(&["SADD set x", "SREM set x"], "set"), b"hashtable");
    // More than a record takes, and still few and short for Redis.
    let many: String = (0..100).map(|n| format!(" field:{n} value:{n}")).collect();
    assert_eq!(encoding(&[&format!("HSET many{many}")], "many"), b"listpack");
    let more = format!("HSET many{}", many.replace("field", "other"));
    assert_eq!(encoding(&[&more], "many"), b"listpack", "Redis packs up to 512 fields without a redis.conf");
    let least = "CONFIG SET hash-max-listpack-entries 128";
    assert_eq!(encoding(&[least, "HSET many one 1"], "many"), b"hashtable");
    // A difference that Redis takes from a copy of the first set.
    let first = "SADD first x 1 2 3 4 5 6 7 8 9";
    let requests = [first, "SADD second x", "SADD third 99", "SDIFFSTORE rest first second third"];
    assert_eq!(encoding(&requests, "rest"), b"hashtable");
    assert_eq!(encoding(&["SDIFFSTORE rest first second"], "rest"), b"intset");
}

#[test]
fn counts_at_the_ends_of_the_numbers_are_answered_at_once() {
    let server = TestServer::new("counts");
    let mut client = server.client();
    words(&mut client, "SADD set a b c");
    words(&mut client, "HSET hash a 1 b 2");
    for count in ["-9223372036854775808", "-9223372036854775807", "-4611686018427387904"] {
        for request in [format!("SRANDMEMBER set {count}"), format!("HRANDFIELD hash {count} WITHVALUES")] {
            assert!(error(&mut client, &request).starts_with("ERR value is out of range"), "{request}");
        }
    }
    for count in ["9223372036854775807", "3"] {
        assert_eq!(strings(words(&mut client, &format!("SRANDMEMBER set {count}"))).len(), 3);
        let Value::Array(reply) = words(&mut client, &format!("SSCAN set 0 COUNT {count}")) else { panic!() };
        assert_eq!(reply[0], Value::Bulk(b"0".to_vec()));
    }
    let half = "HRANDFIELD hash 4611686018427387904 WITHVALUES";
    assert_eq!(error(&mut client, half), "ERR value is out of range");
    assert_eq!(words(&mut client, "SINTERCARD 1 set LIMIT 9223372036854775807").integer(), 3);
    assert!(error(&mut client, "SINTERCARD 9223372036854775807 set").contains("greater than number of args"));
    for numbers in ["HINCRBYFLOAT hash f inf", "HINCRBYFLOAT hash f -inf", "HINCRBYFLOAT hash f nan"] {
        error(&mut client, numbers);
    }
    assert_eq!(words(&mut client, "HEXISTS hash f").integer(), 0);
}

#[test]
fn what_is_too_long_changes_nothing() {
    let server = TestServer::new("too-long");
    let mut client = server.client();
    let long = vec![b'x'; 65_519];
    let refused = |client: &mut LocalClient<'_>, request: &[&[u8]]| match call(client, request) {
        Value::Error(text) => {
            assert!(text.starts_with(b"ERR ") && text.ends_with(b"bytes; the longest has 65518"));
        }
        other => panic!("{other:?}"),
    };
    let fits = &long[..65_518];
    refused(&mut client, &[b"HSET", b"hash", b"a", b"1", &long, b"2"]);
    refused(&mut client, &[b"HINCRBY", b"hash", &long, b"2"]);
    refused(&mut client, &[b"SADD", b"set", b"a", &long]);
    assert_eq!(server.store_keys(0), 0);
    assert_eq!(call(&mut client, &[b"SADD", &b"set"[..], b"a", fits]).integer(), 2);
    assert_eq!(call(&mut client, &[b"SISMEMBER", &b"set"[..], &long]).integer(), 0);
    assert_eq!(call(&mut client, &[b"SREM", &b"set"[..], &long, fits]).integer(), 1);
    assert_eq!(call(&mut client, &[b"HGET", &b"hash"[..], &long]), Value::NullBulk);
    // A key that is too long, with more than a record takes.
    let key = vec![b'k'; 65_526];
    let many: Vec<Vec<u8>> = (0..400).map(|n| format!("member:{n}").into_bytes()).collect();
    let request: Vec<&[u8]> = [b"SADD", &key[..]].into_iter().chain(many.iter().map(Vec::as_slice)).collect();
    let Value::Error(_) = call(&mut client, &request) else { panic!("it is refused") };
    assert_eq!(call(&mut client, &[b"SCARD", &key[..]]).integer(), 0);
    let elements = server.server().store().space(esker_redis_store::Space::Elements);
    assert_eq!(elements.iter().count(), 1, "the one member of the set");
}
