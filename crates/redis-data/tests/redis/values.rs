//! Random values, their normal form, and the commands that make them.

use esker_redis_data::{SortedSet, Value};
use esker_redis_testkit::{Client, Random};
use esker_resp::value::Value as Reply;

/// A value of any type but stream.
pub(crate) fn random_value(random: &mut Random) -> Value {
    let size = random.size();
    let longest = [10, 64, 300, 20_000][random.below(4)];
    match random.below(6) {
        0 => Value::String(random.string(100_000)),
        1 => Value::List((0..size).map(|_| random.string(longest)).collect()),
        2 => Value::Set(random.distinct(size, longest).into_iter().collect()),
        3 => {
            let integers: std::collections::BTreeSet<i64> = (0..size).map(|_| random.integer()).collect();
            Value::Set(integers.into_iter().map(|integer| integer.to_string()).collect())
        }
        4 => {
            let mut set = SortedSet::default();
            for member in random.distinct(size, longest) {
                set.push(&member, random_score(random));
            }
            Value::SortedSet(set)
        }
        _ => {
            let fields = random.distinct(size, longest);
            Value::Hash(fields.into_iter().flat_map(|field| [field, random.string(longest)]).collect())
        }
    }
}

fn random_score(random: &mut Random) -> f64 {
    match random.below(6) {
        0 => random.below(10) as f64,
        1 => random.integer() as f64,
        2 => f64::from_bits(random.next_u64()),
        3 => [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MIN_POSITIVE, f64::MAX][random.below(6)],
        _ => random.unit() * 1000.0,
    }
    .max(f64::NEG_INFINITY)
}

/// The value in an order that does not depend on its encoding.
pub(crate) fn normal(value: Value) -> Value {
    match value {
        Value::Set(members) => {
            let mut sorted: Vec<&[u8]> = members.iter().collect();
            sorted.sort_unstable();
            Value::Set(sorted.into_iter().collect())
        }
        Value::Hash(pairs) => {
            let strings: Vec<&[u8]> = pairs.iter().collect();
            let mut sorted: Vec<&[&[u8]]> = strings.chunks(2).collect();
            sorted.sort_unstable();
            Value::Hash(sorted.into_iter().flatten().collect())
        }
        Value::SortedSet(set) => {
            let mut sorted: Vec<(&[u8], f64)> = set.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(b.0));
            let mut normal = SortedSet::default();
            sorted.into_iter().for_each(|(member, score)| normal.push(member, score));
            Value::SortedSet(normal)
        }
        other => other,
    }
}

/// Makes the value at `key`, by the commands of its type.
pub(crate) fn store(server: &mut Client, key: &[u8], value: &Value) {
    server.call(&[b"DEL", key]);
    let command: &[u8] = match value {
        Value::String(_) => b"SET",
        Value::List(_) => b"RPUSH",
        Value::Set(_) => b"SADD",
        Value::SortedSet(_) => b"ZADD",
        Value::Hash(_) => b"HSET",
        Value::Stream(_) => panic!("streams are made by the test of streams"),
    };
    let arguments: Vec<Vec<u8>> = match value {
        Value::String(string) => vec![string.clone()],
        Value::List(strings) | Value::Set(strings) | Value::Hash(strings) => {
            strings.iter().map(<[u8]>::to_vec).collect()
        }
        Value::SortedSet(set) => set
            .iter()
            .flat_map(|(member, score)| [format!("{score:?}").into_bytes(), member.to_vec()])
            .collect(),
        Value::Stream(_) => Vec::new(),
    };
    let mut all = vec![command, key];
    all.extend(arguments.iter().map(Vec::as_slice));
    let reply = server.call(&all);
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
}
